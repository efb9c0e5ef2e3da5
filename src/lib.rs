#![doc = include_str!("../README.md")]

pub use pfpl_host::*;
