//! The AVX-512 coder.

pub use super::portable::Scratch;
use super::{Coded, Step, portable};

/// This processor has every feature that the functions here enable.
pub fn available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("gfni")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

pub mod f32 {
    use super::*;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,bmi1,bmi2,lzcnt,popcnt")]
    pub fn encode(values: &[f32], step: &Step<f32>, scratch: &mut Scratch, out: &mut [u8]) -> u32 {
        portable::f32::encode(values, step, scratch, out)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,bmi1,bmi2,lzcnt,popcnt")]
    pub fn decode(coded: Coded<'_>, step: &Step<f32>, scratch: &mut Scratch, values: &mut [f32]) -> bool {
        portable::f32::decode(coded, step, scratch, values)
    }
}

pub mod f64 {
    use super::*;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,bmi1,bmi2,lzcnt,popcnt")]
    pub fn encode(values: &[f64], step: &Step<f64>, scratch: &mut Scratch, out: &mut [u8]) -> u32 {
        portable::f64::encode(values, step, scratch, out)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,bmi1,bmi2,lzcnt,popcnt")]
    pub fn decode(coded: Coded<'_>, step: &Step<f64>, scratch: &mut Scratch, values: &mut [f64]) -> bool {
        portable::f64::decode(coded, step, scratch, values)
    }
}
