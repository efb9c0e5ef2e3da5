//! The CUDA kernels, lane by lane.

mod suite;

const IMAGE: &str = "cuda";

suite!();
