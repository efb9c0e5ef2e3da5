//! A stream with some bytes changed, cut or lengthened: refused or decoded as the scalar model does, alike on every instruction set.
//!
//! The input is a seed of the field, then edits of five bytes each.
#![no_main]

mod common;

use common::{check, field, model::Value};
use libfuzzer_sys::fuzz_target;
use pfpl_host::internal::Codec;
use pfpl_host::{Bound, max_stream_bytes};

fn decode<T: Value>(seed: &[u8; 8], edits: &[u8]) {
    let field = field::<T>(seed);
    let mut stream = vec![0; max_stream_bytes::<T>(field.len() as u64) as usize + 32];
    let codec = Codec { wide: seed[7] & 1 == 1, ..Codec::default() };
    let length = codec.compress_into(&field, Bound::new(0.01).expect("a bound"), &mut stream).expect("room");
    stream.truncate(length);
    for edit in edits.chunks_exact(5) {
        let [kind, a, b, c, byte] = edit.try_into().expect("five bytes");
        let at = u32::from_le_bytes([a, b, c, 0]) as usize;
        let length = stream.len();
        match kind % 8 {
            // header and table; ends of chunks, of which the last; anywhere
            0..3 => stream[at % length.min(64)] = byte,
            3..5 => stream[length - 1 - at % length.min(400)] = byte,
            5 => stream[at % length] = byte,
            6 => stream[at % length] ^= 1 << (byte % 8),
            _ if at % 4 == 0 => stream.truncate(1 + at % length),
            _ => stream.push(byte),
        }
    }
    check::<T>(&stream, field.len() as u64);
}

fuzz_target!(|input: &[u8]| {
    let Some((seed, edits)) = input.split_first_chunk::<8>() else { return };
    if seed[7] & 2 == 0 { decode::<f32>(seed, edits) } else { decode::<f64>(seed, edits) }
});
