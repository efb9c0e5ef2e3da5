//! The C interface of pfpl. The header `pfpl.h` is generated from this crate, with its documentation.

mod device;
mod host;
mod status;

pub use device::*;
pub use host::*;
pub use status::*;
