//! On a device: every binary32 pattern through the encoder and the decoder, for several bounds, compared in exact arithmetic. With
//! `PFPL_PATTERNS=all` all 2^32 of them, otherwise every 251st.

#![cfg(feature = "cuda")]

mod common;

use common::gpu::context;
use pfpl::cuda::{Capacity, Outcome, Plan};
use pfpl::{Bound, max_stream_bytes};
use rayon::prelude::*;

/// |a - b| <= bound without rounding.
fn within(a: f32, b: f32, bound: f32) -> bool {
    let (a, b, bound) = (f64::from(a), f64::from(b), f64::from(bound));
    let (a, b) = if a < b { (b, a) } else { (a, b) };
    let difference = a - b;
    // what the subtraction has rounded off, exactly (TwoSum); it decides where the rounded difference equals the bound
    let part = difference - a;
    let rest = (a - (difference - part)) + (-b - part);
    difference < bound || (difference == bound && rest <= 0.0)
}

#[test]
fn exact_comparison() {
    assert!(within(1.0, 1.5, 0.5) && !within(1.0, 1.5, 0.499_999_97) && within(3e38, 3e38, f32::MIN_POSITIVE));
    // 1 + 2^-60 from -0: the difference rounds to 1
    let tiny = 2f32.powi(-60);
    assert!(within(1.0, tiny, 1.0) && !within(1.0, -tiny, 1.0) && !within(-tiny, 1.0, 1.0));
    assert!(!within(f32::NAN, 0.0, 1.0) && !within(f32::INFINITY, 0.0, 1.0));
}

#[test]
fn all_patterns() {
    let Some(context) = context("cuda_patterns::all_patterns") else { return };
    let step = if std::env::var_os("PFPL_PATTERNS").is_some_and(|value| value == "all") { 1 } else { 251 };
    const PART: usize = 1 << 28;
    let patterns = (1usize << 32).div_ceil(step);
    let part_values = PART.min(patterns);
    let cuda_stream = context.new_stream().unwrap();
    let mut plan = Plan::new(&cuda_stream, Capacity::of::<f32>(part_values as u64)).unwrap();
    let mut values = cuda_stream.alloc_zeros::<f32>(part_values).unwrap();
    let mut stream = cuda_stream.alloc_zeros::<u8>(max_stream_bytes::<f32>(part_values as u64) as usize).unwrap();
    let mut restored = cuda_stream.alloc_zeros::<f32>(part_values).unwrap();
    let mut outcomes = cuda_stream.alloc_zeros::<Outcome>(2).unwrap();
    // SAFETY: written before it is read
    let mut decoded = unsafe { context.alloc_pinned_with_flags::<f32>(part_values, 0) }.unwrap();
    let bounds = [1e-3, 1e-4, 0.1, 3e-5, 1.0].map(|bound| Bound::new(bound).unwrap());
    let mut counts = [(0u64, 0u64); 5];
    for part in (0..patterns).step_by(PART) {
        let made: Vec<f32> = (part..patterns.min(part + PART)).into_par_iter().map(|i| f32::from_bits((i * step) as u32)).collect();
        cuda_stream.memcpy_htod(&made, &mut values).unwrap();
        for (&bound, (count, exact)) in bounds.iter().zip(&mut counts) {
            let values = values.slice(..made.len());
            let mut restored = restored.slice_mut(..made.len());
            cuda_stream.memset_zeros(&mut restored).unwrap();
            plan.compress(&values, bound, &mut stream, Some(outcomes.slice_mut(..1))).unwrap();
            plan.decompress(&stream, &mut restored, Some(outcomes.slice_mut(1..))).unwrap();
            cuda_stream.memcpy_dtoh(&restored, &mut decoded).unwrap();
            let verdicts = cuda_stream.clone_dtoh(&outcomes).unwrap();
            assert_eq!((verdicts[0].status, verdicts[1].result()), (0, verdicts[0].result()));
            let compared = made.par_iter().zip(&decoded.as_slice().unwrap()[..made.len()]);
            *exact += compared
                .map(|(&value, &decoded)| {
                    let same = value.to_bits() == decoded.to_bits();
                    assert!(same || within(value, decoded, bound.get()), "{value:e} ({:08x}) became {decoded:e}", value.to_bits());
                    u64::from(same)
                })
                .sum::<u64>();
            *count += made.len() as u64;
        }
    }
    for (bound, (count, exact)) in bounds.iter().zip(counts) {
        assert_eq!(count, patterns as u64);
        println!("bound {bound}: {count} patterns within it, {exact} of them bit for bit");
    }
}
