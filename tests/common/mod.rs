//! What several test programs need.
#![allow(dead_code)]

pub mod corpus;
pub mod fake_driver;
#[cfg(feature = "cuda")]
pub mod gpu;
