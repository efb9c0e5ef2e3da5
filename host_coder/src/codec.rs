//! Whole fields: the public functions, and what they have in common.

mod decode;
mod encode;
mod threads;

pub use decode::chunk_sizes;
pub use threads::useful as useful_threads;

use crate::chunk::Isa;
use crate::header::{Header, max_stream_bytes};
use crate::{Bound, Element, Error};

/// Compresses `field` into a new buffer.
///
/// Asks the allocator for [`max_stream_bytes`], touches no more of it than the stream takes (and 16 KiB), and gives the rest back.
///
/// # Panics
/// Where that much cannot be allocated.
///
/// ```
/// use pfpl_host::{Bound, compress, decompress};
///
/// let field = [20.0_f32, 20.25, 20.5, f32::NAN];
/// let bound = Bound::new(0.01)?;
/// let stream = compress(&field, bound);
/// let mut decoded = [0.0; 4];
/// decompress(&stream, &mut decoded)?;
/// assert!((field[2] - decoded[2]).abs() <= bound.get());
/// assert_eq!(decoded[3].to_bits(), field[3].to_bits()); // what cannot be binned comes back bit for bit
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compress<T: Element>(field: &[T], bound: Bound) -> Vec<u8> {
    let most = usize::try_from(max_stream_bytes::<T>(field.len() as u64)).expect("a stream that memory can hold");
    let mut stream = vec![0; most];
    let length = compress_into(field, bound, &mut stream).expect("the largest stream fits");
    stream.truncate(length);
    stream.shrink_to_fit();
    stream
}

/// Compresses `field` into `stream` and gives the stream's length in bytes; what `stream` holds beyond it is unspecified.
///
/// [`max_stream_bytes`] is always enough. Give 16448 bytes more than the stream turns out to need, where there is a choice: without
/// that much room a chunk is coded aside and copied.
///
/// # Errors
/// [`Error::Overflow`] where `stream` is shorter than the stream, with the bytes that it needs; an empty `stream` asks for that. If
/// its header fits, it is there, and a decoder finds the stream truncated.
///
/// ```
/// use pfpl_host::{Bound, Error, compress_into};
///
/// let field = vec![1.5_f64; 1000];
/// let bound = Bound::new(1e-6)?;
/// let Err(Error::Overflow { needed }) = compress_into(&field, bound, &mut []) else { unreachable!() };
/// let mut stream = vec![0; needed as usize];
/// assert_eq!(compress_into(&field, bound, &mut stream), Ok(stream.len()));
/// # Ok::<(), pfpl_host::BoundError>(())
/// ```
pub fn compress_into<T: Element>(field: &[T], bound: Bound, stream: &mut [u8]) -> Result<usize, Error> {
    Codec::default().compress_into(field, bound, stream)
}

/// Decompresses `stream` into `field` and gives the length of the stream in bytes; bytes after it are not looked at.
///
/// # Errors
/// What the format refuses, with the smallest status that applies and the lowest chunk with it. `field` then holds unspecified values.
///
/// ```
/// use pfpl_host::{Bound, Error, Header, compress, decompress};
///
/// let stream = compress(&[1.0_f32, 2.0, 3.0], Bound::new(0.1)?);
/// let mut field = vec![0.0_f32; Header::read(&stream)?.n as usize];
/// assert_eq!(decompress(&stream, &mut field), Ok(stream.len()));
/// assert_eq!(decompress(&stream, &mut [0.0_f32; 2]), Err(Error::WrongCount { found: 3 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn decompress<T: Element>(stream: &[u8], field: &mut [T]) -> Result<usize, Error> {
    Codec::default().decompress(stream, field)
}

/// Decompresses the `values.len()` values of the field that begin with value `first`.
///
/// Reads the header, the size table up to the last chunk that holds any of them, and the chunks that hold some; all of the stream must
/// be there, but damage elsewhere in it goes unnoticed.
///
/// # Errors
/// As [`decompress`], of what is read, but for the count; and [`Error::BadRange`] where the field has fewer than `first +
/// values.len()` values. `values` then holds unspecified values.
///
/// ```
/// use pfpl_host::{Bound, compress, decompress_range};
///
/// let field: Vec<f32> = (0..100_000).map(|i| i as f32).collect();
/// let stream = compress(&field, Bound::new(0.25)?);
/// let mut values = [0.0_f32; 3];
/// decompress_range(&stream, 70_000, &mut values)?;
/// assert_eq!(values, [70_000.0, 70_001.0, 70_002.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn decompress_range<T: Element>(stream: &[u8], first: u64, values: &mut [T]) -> Result<(), Error> {
    Codec::default().decompress_range(stream, first, values)
}

/// What a field would compress to, by a sample of its chunks.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// Bytes of the field over [`Self::stream_bytes`]; 0 for an empty field.
    pub ratio: f64,
    /// Bytes of the stream, exact where all chunks were sampled.
    pub stream_bytes: u64,
    /// Bytes of the field that were coded to tell.
    pub sampled_bytes: u64,
}

/// Estimates what `field` compresses to by coding `chunks` (at least 1, at most all) of its chunks, spread evenly over it; runs on the
/// calling thread alone.
///
/// ```
/// use pfpl_host::{Bound, compress, estimate};
///
/// let field: Vec<f32> = (0..1_000_000).map(|i| (i as f32 * 1e-3).sin()).collect();
/// let bound = Bound::new(1e-4)?;
/// let estimate = estimate(&field, bound, 8);
/// assert_eq!(estimate.sampled_bytes, 8 * 16384);
/// let ratio = 4e6 / compress(&field, bound).len() as f64;
/// assert!((estimate.ratio / ratio - 1.0).abs() < 0.1);
/// # Ok::<(), pfpl_host::BoundError>(())
/// ```
pub fn estimate<T: Element>(field: &[T], bound: Bound, chunks: usize) -> Estimate {
    Codec::default().estimate(field, bound, chunks)
}

/// Hears how many more values have been coded or decoded.
type Observer<'a> = &'a (dyn Fn(usize) + Sync);

/// How fields are coded: what the public functions choose by themselves, and tests and benches force.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    /// The instruction set: [`Isa::best`].
    pub isa: Isa,
    /// The wide header even where the narrow one would do: false.
    pub wide: bool,
    /// Bytes of decoded values from which on they are taken for more than caches hold, and written past them: 16 MiB.
    pub streamed: usize,
}

impl Default for Codec {
    fn default() -> Self {
        Self { isa: Isa::best(), wide: false, streamed: 16 << 20 }
    }
}

impl Codec {
    /// One for each instruction set that this processor has.
    pub fn each() -> impl Iterator<Item = Self> {
        Isa::ALL.iter().filter(|isa| isa.available()).map(|&isa| Self { isa, ..Self::default() })
    }

    fn header<T: Element>(self, field: &[T], bound: Bound) -> Header {
        let header = Header::of_field::<T>(field.len() as u64, bound);
        Header { wide: header.wide | self.wide, ..header }
    }
}
