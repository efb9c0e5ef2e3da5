#![doc = include_str!("../README.md")]

pub use pfpl_host::*;

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(any(feature = "cuda", feature = "hip"))]
pub mod device;
#[cfg(feature = "hip")]
pub mod hip;
