//! Coding of one chunk: what each instruction set implements, and the choice between them.

mod portable;

/// Bytes of a coder's output beyond a chunk that it may scribble on.
pub const SLACK: usize = 64;

/// The quantizer's constants in the field's type: the bound, twice the bound, and the inverse of that.
#[derive(Clone, Copy)]
pub struct Step<T> {
    pub eb: T,
    pub eb2: T,
    pub inv: T,
}

/// One chunk's coded bytes within a stream.
#[derive(Clone, Copy)]
pub struct Coded<'a> {
    /// The bytes that may be read, whatever they are.
    pub stream: &'a [u8],
    /// Where the chunk begins.
    pub at: usize,
    /// Its length: 2, 10 to 16383, or 16384 where raw.
    pub length: usize,
    /// Stored raw.
    pub raw: bool,
}

/// An element type's chunk coder.
pub trait Chunked: Sized {
    /// Working memory of a thread.
    type Scratch: Default + Send;

    /// The step of a bound.
    fn step(bound: f32) -> Step<Self>;

    /// Codes `values` (1 to a chunk's worth) to the start of `out` (at least `CHUNK_BYTES + SLACK` bytes, all of which may be
    /// written) and gives the size-table entry.
    fn encode(values: &[Self], step: &Step<Self>, scratch: &mut Self::Scratch, out: &mut [u8]) -> u32;

    /// Decodes the first `values.len()` (1 to a chunk's worth) values of a chunk. False: the chunk is corrupt.
    fn decode(coded: Coded<'_>, step: &Step<Self>, scratch: &mut Self::Scratch, values: &mut [Self]) -> bool;
}

macro_rules! chunked {
    ($value:ident) => {
        impl Chunked for $value {
            type Scratch = portable::Scratch;

            fn step(bound: f32) -> Step<Self> {
                let eb = $value::from(bound);
                Step { eb, eb2: 2.0 * eb, inv: 1.0 / (2.0 * eb) }
            }

            fn encode(values: &[Self], step: &Step<Self>, scratch: &mut Self::Scratch, out: &mut [u8]) -> u32 {
                portable::$value::encode(values, step, scratch, out)
            }

            fn decode(coded: Coded<'_>, step: &Step<Self>, scratch: &mut Self::Scratch, values: &mut [Self]) -> bool {
                portable::$value::decode(coded, step, scratch, values)
            }
        }
    };
}

chunked!(f32);
chunked!(f64);
