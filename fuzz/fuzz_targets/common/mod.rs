#![allow(dead_code)] // each target takes a part of it

use pfpl_host::internal::Codec;

#[path = "../../../host_coder/tests/model/mod.rs"]
pub mod model;
use model::Value;

/// Every instruction set; decoding through the caches and past them.
pub fn codecs() -> impl Iterator<Item = Codec> {
    Codec::each().flat_map(|codec| [codec, Codec { streamed: 0, ..codec }])
}

/// Decodes with every instruction set and compares with the model.
pub fn check<T: Value>(stream: &[u8], n: u64) {
    let expected = model::decompress::<T>(stream, n);
    for codec in codecs() {
        let mut values = vec![T::of_bits(0x33); n as usize];
        match (codec.decompress(stream, &mut values), &expected) {
            (Ok(_), Ok(expected)) => assert!(values.iter().zip(expected).all(|(a, b)| a.bits() == b.bits()), "{codec:?}"),
            (Err(error), Err(expected)) => assert_eq!((error.status() as u32, error.chunk()), *expected, "{codec:?}"),
            (result, expected) => panic!("{codec:?}: {result:?}, not {:?}", expected.as_ref().err()),
        }
    }
}

/// A field of up to three chunks of kinds that the seed picks.
pub fn field<T: Value>(seed: &[u8; 8]) -> Vec<T> {
    let n = usize::from(u16::from_le_bytes([seed[0], seed[1]])) % (2 * T::CODES + 300);
    let mut state = u64::from_le_bytes(*seed);
    (0..n)
        .map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let noise = state ^ state >> 33;
            match seed[2 + i / T::CODES] % 8 {
                0 => T::value(0, 0.01),
                1 => T::value(u64::from(i % 500 == 0), 0.01),
                2 => T::value(i as u64 % 4000, 0.01),
                3 => T::value(noise >> 61, 0.01),
                4 => T::value(noise >> 48, 0.01),
                5 => T::value(noise % (2 * T::RADIUS), 0.01),
                6 => T::of_bits(noise),
                _ => T::of_bits(if noise.is_multiple_of(50) { u64::MAX } else { 0 }),
            }
        })
        .collect()
}
