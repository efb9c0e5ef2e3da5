//! The PFPL stream format and its CPU coder.
//!
//! A *field* is a one-dimensional array of `f32` or `f64`; [`compress`] turns it into a *stream* of bytes from which [`decompress`]
//! restores every value to within the [`Bound`], in exact arithmetic; what cannot be binned so (NaN of any payload, infinities, values
//! too large or too fine) comes back bit for bit. The bytes are the same whatever the thread count and the instruction set, and the
//! same that the device backends write.
//!
//! # Threads
//!
//! Called from a thread of a rayon pool, [`compress`], [`compress_into`], [`decompress`] and [`decompress_range`] share the chunks among
//! that pool's threads; called from any other thread they run on it alone, and start no pool. So `pool.install(|| compress(…))` uses
//! `pool`, and `rayon::scope(|_| …)` or `rayon::spawn` the global one. Each thread takes less than 1 MiB beside the caller's buffers,
//! whatever the field's size, and keeps it for its next call. Without the feature `rayon` all runs on the calling thread.
//!
//! # Processors
//!
//! On x86-64 the fastest of AVX-512, AVX2 and portable code that the processor can run is chosen at run time; elsewhere the code is
//! portable. The floating-point environment must be Rust's default: rounding to nearest even, subnormal numbers not flushed to zero.
//!
//! # Hostile streams
//!
//! A decoder refuses with a [`Status`] and never panics, reads outside the given bytes, or allocates by what a header claims.
//! The format has no checksum: it detects structural damage, and a flipped bit of a chunk can decode to other values.

mod bound;
mod chunk;
mod codec;
mod element;
mod error;
mod header;

pub use bound::{Bound, BoundError};
pub use codec::{Estimate, compress, compress_into, decompress, decompress_range, estimate};
pub use element::{Element, ElementType};
pub use error::{Error, Status};
pub use header::{Header, max_stream_bytes, stream_bytes};

/// For the project's own command, tests and benches: no part of the stable interface.
#[doc(hidden)]
pub mod internal {
    pub use crate::chunk::Isa;
    pub use crate::codec::{Codec, chunk_sizes, useful_threads};
    pub use crate::header::{chunks_of, takes_wide_header};
}
