//! binary64.
use super::{Coded, Scratch, Step};

/// Codes `values` to the start of `out`; see [`Chunked::encode`](super::super::Chunked::encode).
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub fn encode(values: &[f64], step: &Step<f64>, _: &mut Scratch, out: &mut [u8]) -> u32 {
    super::super::portable::f64::encode(values, step, &mut Default::default(), out)
}

/// Decodes a chunk's first `values.len()` values; see [`Chunked::decode`](super::super::Chunked::decode).
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub fn decode(coded: Coded<'_>, step: &Step<f64>, _: &mut Scratch, values: &mut [f64]) -> bool {
    super::super::portable::f64::decode(coded, step, &mut Default::default(), values)
}
