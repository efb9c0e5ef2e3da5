//! One result whatever the threads; and whose threads they are.
#![cfg(feature = "rayon")]

use std::collections::HashSet;
use std::sync::Mutex;

use pfpl_host::internal::Codec;
use pfpl_host::{Bound, Error, compress, compress_into, decompress, decompress_range};
use rayon::prelude::*;

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// Smooth and noisy stretches, so that chunks differ in length.
fn field(n: usize) -> Vec<f32> {
    (0..n)
        .map(|i| {
            let noise = (i as u32).wrapping_mul(0x9E37_79B9) >> 8;
            (i as f32 * 1e-3).sin() + noise as f32 * if i / 20_000 % 2 == 0 { 1e-10 } else { 1e-7 }
        })
        .collect()
}

fn lengths() -> impl Iterator<Item = usize> {
    let batch = 16 * 4096;
    [0, 1, 4096, batch - 1, batch, batch + 1, 2 * batch, 3 * batch + 4097, 17 * batch + 5].into_iter()
}

#[test]
fn streams_do_not_depend_on_them() {
    let bound = Bound::new(1e-4).unwrap();
    let pools: Vec<_> = [1, 2, 3, 8].into_iter().map(pool).collect();
    for n in lengths() {
        let field = field(n);
        let stream = compress(&field, bound);
        let mut values = vec![0f32; n];
        decompress(&stream, &mut values).unwrap();
        for pool in &pools {
            for codec in Codec::each() {
                let mut again = vec![0xEE; stream.len()];
                assert_eq!(pool.install(|| codec.compress_into(&field, bound, &mut again)), Ok(stream.len()));
                assert!(again == stream);
                let mut decoded = vec![f32::NAN; n];
                assert_eq!(pool.install(|| codec.decompress(&stream, &mut decoded)), Ok(stream.len()));
                assert!(decoded == values);
                let (first, end) = (n / 7, n - n / 9);
                let mut part = vec![f32::NAN; end - first];
                pool.install(|| codec.decompress_range(&stream, first as u64, &mut part)).unwrap();
                assert!(part == values[first..end]);
            }
            // too little room, by much and by one byte
            for capacity in [0, 20, stream.len() / 3, stream.len() - 1] {
                let mut buffer = vec![0xEE; capacity + 64];
                let result = pool.install(|| compress_into(&field, bound, &mut buffer[..capacity]));
                assert_eq!(result, Err(Error::Overflow { needed: stream.len() as u64 }));
                assert!(buffer[capacity..].iter().all(|&byte| byte == 0xEE));
            }
        }
    }
}

#[test]
fn large_fields_do_not_depend_on_them() {
    // more than caches are taken to hold
    let field = field((33 << 20) / 4 + 777);
    let bound = Bound::new(1e-4).unwrap();
    let stream = compress(&field, bound);
    let mut values = vec![0f32; field.len()];
    Codec { streamed: usize::MAX, ..Codec::default() }.decompress(&stream, &mut values).unwrap();
    let mut decoded = vec![f32::NAN; field.len() + 3];
    for codec in Codec::each() {
        for (threads, shift) in [(1, 0), (2, 1), (3, 3)] {
            let decoded = &mut decoded[shift..shift + field.len()];
            decoded.fill(f32::NAN);
            pool(threads).install(|| codec.decompress(&stream, decoded)).unwrap();
            assert!(*decoded == values[..], "{codec:?}, {threads} threads");
        }
    }
}

#[test]
fn refusals_do_not_depend_on_them() {
    let n = 40 * 16 * 4096;
    let field = field(n);
    let mut stream = compress(&field, Bound::new(1e-4).unwrap());
    let mut ends = vec![24 + 4 * n / 4096];
    for chunk in 0..n / 4096 {
        let length = u32::from_le_bytes(stream[24 + 4 * chunk..][..4].try_into().unwrap()) as usize & 0xFFFF;
        ends.push(ends[chunk] + length);
    }
    let pool = pool(4);
    let mut values = vec![0f32; n];
    for chunk in [639, 301, 300, 17, 16, 15, 0] {
        stream[ends[chunk + 1] - 1] ^= 0xFF;
        for _ in 0..5 {
            let result = pool.install(|| decompress(&stream, &mut values));
            assert_eq!(result, Err(Error::CorruptChunk { chunk: chunk as u64, offset: ends[chunk] as u64 }));
        }
    }
}

#[test]
fn calls_within_calls() {
    let bound = Bound::new(1e-3).unwrap();
    let fields: Vec<_> = (0..24).map(|i| field(150_000 + 1000 * i)).collect();
    let streams: Vec<_> = fields.iter().map(|field| compress(field, bound)).collect();
    for threads in [1, 2, 5] {
        pool(threads).install(|| {
            fields.par_iter().zip(&streams).for_each(|(field, stream)| {
                assert!(compress(field, bound) == *stream);
                let mut values = vec![0f32; field.len()];
                decompress(stream, &mut values).unwrap();
                rayon::join(
                    || assert!(compress(field, bound) == *stream),
                    || decompress_range(stream, 1000, &mut values[1000..140_000]).unwrap(),
                );
                assert!(field.iter().zip(&values).all(|(a, b)| (a - b).abs() <= 1e-3));
            });
        });
    }
}

#[test]
fn they_are_the_callers() {
    let field = field(200 * 4096);
    let bound = Bound::new(1e-4).unwrap();
    let stream = compress(&field, bound);
    let users = |encode: bool| {
        let seen = Mutex::new(HashSet::new());
        let observe = |_: usize| {
            seen.lock().unwrap().insert(std::thread::current().name().unwrap_or_default().to_owned());
            // lets the others have a share
            std::thread::sleep(std::time::Duration::from_micros(200));
        };
        if encode {
            Codec::default().compress_into_observed(&field, bound, &mut vec![0; stream.len()], &observe).unwrap();
        } else {
            Codec::default().decompress_observed(&stream, &mut vec![0f32; field.len()], &observe).unwrap();
        }
        seen.into_inner().unwrap()
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).thread_name(|i| format!("mine {i}")).build().unwrap();
    for encode in [true, false] {
        let alone = users(encode);
        assert_eq!(alone, HashSet::from([std::thread::current().name().unwrap().to_owned()]));
        let shared = pool.install(|| users(encode));
        assert!(shared.len() > 1 && shared.iter().all(|name| name.starts_with("mine")), "{shared:?}");
    }
    // none of this has built the global pool, nor has any other test here
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
}

#[test]
fn a_panicking_observer_stops_all() {
    let field = field(60 * 16 * 4096);
    let bound = Bound::new(1e-4).unwrap();
    let stream = compress(&field, bound);
    let pool = pool(4);
    for encode in [true, false] {
        let left = std::sync::atomic::AtomicUsize::new(300);
        let observe = |_: usize| {
            let before = left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
            assert!(before != 1, "as planned");
        };
        let call = std::panic::AssertUnwindSafe(|| {
            pool.install(|| {
                if encode {
                    Codec::default().compress_into_observed(&field, bound, &mut vec![0; stream.len()], &observe).unwrap();
                } else {
                    Codec::default().decompress_observed(&stream, &mut vec![0f32; field.len()], &observe).unwrap();
                }
            });
        });
        assert!(std::panic::catch_unwind(call).is_err());
    }
}
