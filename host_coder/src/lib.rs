//! The PFPL stream format and its CPU coder.
//!
//! A *field* is a one-dimensional array of `f32` or `f64`; [`compress`] turns it into a *stream* of bytes from which [`decompress`]
//! restores every value to within the [`Bound`], in exact arithmetic; what cannot be binned so (NaN of any payload, infinities, values
//! too large or too fine) comes back bit for bit. The bytes are the same whatever the thread count and the instruction set, and the
//! same that the device backends write.

mod bound;
mod chunk;
mod codec;
mod element;
mod error;
mod header;

pub use bound::{Bound, BoundError};
pub use codec::{compress, compress_into, decompress};
pub use element::{Element, ElementType};
pub use error::{Error, Status};
pub use header::{Header, max_stream_bytes, stream_bytes};

/// For the project's own tests and benches: no part of the stable interface.
#[doc(hidden)]
pub mod internal {
    pub use crate::chunk::Isa;
    pub use crate::codec::Codec;
}
