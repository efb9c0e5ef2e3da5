//! The AMD kernels, lane by lane, with waves of 32 lanes.

mod suite;

const IMAGE: &str = "amd32";

suite!();
