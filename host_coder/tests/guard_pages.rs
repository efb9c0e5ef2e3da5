//! Nothing outside the caller's slices is touched: they begin or end at pages that can be neither read nor written.
#![cfg(unix)]

mod model;

use model::Value;
use pfpl_host::internal::Codec;
use pfpl_host::{Bound, Error};

const PAGE: usize = 65536; // a multiple of every system's

#[derive(Clone, Copy)]
enum Flush {
    WithStart,
    WithEnd,
}

/// A copy of `values`, for the rest of the process, with a forbidden page on either side.
fn guarded<T: bytemuck::Pod>(values: &[T], flush: Flush) -> &'static mut [T] {
    let bytes = size_of_val(values);
    let inner = bytes.next_multiple_of(PAGE).max(PAGE);
    let at = match flush {
        Flush::WithStart => PAGE,
        Flush::WithEnd => PAGE + inner - bytes,
    };
    // SAFETY: a fresh mapping that nothing else refers to and nothing unmaps; its inner pages are accessible and zero, and `at` is a
    // multiple of the element's size
    let copy: &'static mut [T] = unsafe {
        let map = libc::mmap(std::ptr::null_mut(), inner + 2 * PAGE, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANON, -1, 0);
        assert_ne!(map, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(map.byte_add(PAGE), inner, libc::PROT_READ | libc::PROT_WRITE), 0);
        std::slice::from_raw_parts_mut(map.byte_add(at).cast(), values.len())
    };
    copy.copy_from_slice(values);
    copy
}

/// Quiet, noisy, raw and empty chunks, and a last one of `tail` values.
fn field<T: Value>(tail: usize) -> Vec<T> {
    (0..4 * T::CODES + tail)
        .map(|i| {
            let noise = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            match i / T::CODES {
                0 => T::value(noise >> 62, 0.1),
                1 => T::value(noise >> 45, 0.1),
                2 => T::of_bits(noise >> (64 - T::WIDTH)),
                3 => T::value(0, 0.1),
                _ => T::value(noise >> 50, 0.1),
            }
        })
        .collect()
}

fn check<T: Value>() {
    let bound = Bound::new(0.1).unwrap();
    for codec in Codec::each().flat_map(|codec| [codec, Codec { streamed: 0, ..codec }]) {
        for (tail, flush) in [
            (1, Flush::WithEnd),
            (100, Flush::WithStart),
            (T::CODES - 1, Flush::WithEnd),
            (T::CODES, Flush::WithStart),
            (T::CODES, Flush::WithEnd),
        ] {
            // each number of leading chunks dropped, so that each kind is first and each is last
            for (first, last) in [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5), (0, 4), (0, 3), (0, 2), (0, 1)] {
                let field = field::<T>(tail);
                let field = &field[first * T::CODES..field.len().min(last * T::CODES)];
                let stream = model::compress(field, bound.get(), false);
                let field = guarded(field, flush);
                for spare in [0, 3, 70] {
                    let out = guarded(&vec![0u8; stream.len() + spare], flush);
                    assert_eq!(codec.compress_into(field, bound, out), Ok(stream.len()));
                    assert!(out[..stream.len()] == stream[..]);
                }
                let short = guarded(&vec![0u8; stream.len() - 1], flush);
                assert_eq!(codec.compress_into(field, bound, short), Err(Error::Overflow { needed: stream.len() as u64 }));
                let stream = guarded(&stream, flush);
                let values = guarded(&vec![T::zeroed(); field.len()], flush);
                assert_eq!(codec.decompress(stream, values), Ok(stream.len()));
                // all sorts of damage to the first and the last chunk
                let chunks = field.len().div_ceil(T::CODES);
                let payload = 24 + 4 * chunks;
                for damage in 0..300usize {
                    let at = if damage % 2 == 0 {
                        stream.len() - 1 - damage / 2 % (stream.len() - payload)
                    } else {
                        payload + damage / 2 % (stream.len() - payload)
                    };
                    let kept = std::mem::replace(&mut stream[at], [0xFF, 0x80, 1][damage % 3]);
                    let _ = codec.decompress(stream, values);
                    stream[at] = kept;
                }
            }
        }
    }
}

#[test]
fn f32_stays_within() {
    check::<f32>();
}

#[test]
fn f64_stays_within() {
    check::<f64>();
}
