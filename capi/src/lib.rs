//! The C interface of pfpl. The header `pfpl.h` is generated from this crate, with its documentation.

mod host;
mod status;

pub use host::*;
pub use status::*;
