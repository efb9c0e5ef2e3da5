//! The AMD kernels, lane by lane, with waves of 64 lanes.

mod suite;

const IMAGE: &str = "amd64";

suite!();
