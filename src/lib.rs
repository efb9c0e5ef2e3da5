#![doc = include_str!("../README.md")]

pub use pfpl_host::*;

#[cfg(all(feature = "cuda", feature = "rayon"))]
#[doc = include_str!("../docs/guide.md")]
pub mod guide {}

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(any(feature = "cuda", feature = "hip"))]
pub mod device;
#[cfg(feature = "hip")]
pub mod hip;
