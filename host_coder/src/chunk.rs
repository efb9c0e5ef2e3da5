//! Coding of one chunk: what each instruction set implements, and the choice between them.

use std::cell::Cell;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

/// Bytes beyond a chunk that a coder may scribble on.
pub const SLACK: usize = 64;

/// An instruction set that chunks can be coded with. All give the same bytes and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Plain Rust.
    Portable,
    /// x86-64 with AVX2 and what came with it.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// x86-64 with AVX-512: F, BW, VL, DQ, VBMI, VBMI2, BITALG, VPOPCNTDQ, and GFNI. (Ice Lake, Zen 4, and later.)
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// All of them, the fastest last.
    pub const ALL: &[Self] = &[
        Self::Portable,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
    ];

    /// This processor has it. (Detection is cached by the standard library.)
    pub fn available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => avx512::available(),
        }
    }

    /// The fastest that this processor has.
    pub fn best() -> Self {
        Self::ALL.iter().copied().rfind(|isa| isa.available()).expect("portable is always there")
    }
}

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
    /// Its length: 2, 10 to 16383, or 16384 where raw. `at + length` does not exceed `stream.len()`.
    pub length: usize,
    /// Stored raw.
    pub raw: bool,
    /// The values are part of more than caches hold, so that they had better be written past these.
    pub streamed: bool,
}

// Hints for what is in memory: each chunk has its bytes brought near while the one before is coded, some with each block.
#[cfg(target_arch = "x86_64")]
mod ask {
    use super::Coded;
    use crate::header::{CHUNK_BYTES, RAW};

    /// Asks for one of `PARTS` even parts of the bytes after `coded`, as many as these: the next chunk, most likely.
    #[inline(always)]
    pub fn for_next<const PARTS: usize>(coded: &Coded<'_>, part: usize) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        let next = coded.stream.as_ptr().wrapping_add(coded.at + coded.length);
        let lines = coded.length.div_ceil(64 * PARTS);
        for line in lines * part..lines * (part + 1) {
            // SAFETY: a hint; what the address is does not matter.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(next.wrapping_add(64 * line).cast()) };
        }
    }

    /// Asks for one of `PARTS` even parts of what a chunk is likely to take of `out`, to write it. `entry` is the last chunk's; few bytes
    /// are not worth the requests.
    #[inline(always)]
    pub fn to_write<const PARTS: usize>(out: &[u8], entry: u32, part: usize) {
        let length = (entry & !RAW) as usize;
        let lines = if length < CHUNK_BYTES / 4 { 0 } else { length.div_ceil(64 * PARTS) };
        for line in lines * part..lines * (part + 1) {
            line_to_write(out.as_ptr().wrapping_add(64 * line));
        }
    }

    /// Asks for the line at `place`, to write it, whether there is memory or not.
    #[inline(always)]
    pub fn line_to_write(place: *const u8) {
        // SAFETY: a hint; what the address is does not matter.
        unsafe { std::arch::asm!("prefetchw [{}]", in(reg) place, options(readonly, nostack, preserves_flags)) };
    }
}

/// What a thread codes with. Threads keep theirs between calls.
pub struct Worker {
    coder: Coder,
    /// Room for coded chunks whose place is not known or too small; as large as its last user made it.
    pub stage: Vec<u8>,
}

/// An instruction set and its working memory. Made by [`Coder::new`] alone, which sees that the processor has it.
enum Coder {
    Portable(portable::Scratch),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Scratch),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Scratch),
}

impl Coder {
    /// # Panics
    /// Where the processor lacks `isa`.
    fn new(isa: Isa) -> Self {
        assert!(isa.available(), "this processor has no {isa:?}");
        match isa {
            Isa::Portable => Self::Portable(portable::Scratch::default()),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self::Avx2(avx2::Scratch::default()),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Self::Avx512(avx512::Scratch::default()),
        }
    }

    fn isa(&self) -> Isa {
        match self {
            Self::Portable(_) => Isa::Portable,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => Isa::Avx2,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => Isa::Avx512,
        }
    }
}

thread_local! {
    static KEPT: Cell<Option<Worker>> = const { Cell::new(None) };
}

impl Worker {
    /// Runs `job` with this thread's worker for `isa`.
    ///
    /// # Panics
    /// Where the processor lacks `isa`.
    pub fn with<R>(isa: Isa, job: impl FnOnce(&mut Self) -> R) -> R {
        // absent where the thread is ending, or in a call within `job`
        let kept = KEPT.try_with(Cell::take).ok().flatten().filter(|worker| worker.coder.isa() == isa);
        let mut worker = kept.unwrap_or_else(|| Self { coder: Coder::new(isa), stage: Vec::new() });
        let result = job(&mut worker);
        let _ = KEPT.try_with(|kept| kept.set(Some(worker)));
        result
    }
}

/// An element type's chunk coder.
pub trait Chunked: Sized {
    /// The step of a bound.
    fn step(bound: f32) -> Step<Self>;

    /// Codes `values` (1 to a chunk's worth) to the start of `out` (at least `CHUNK_BYTES + SLACK` bytes, of which the first
    /// `CHUNK_BYTES + SLACK` may be written) and gives the size-table entry.
    fn encode(worker: &mut Worker, values: &[Self], step: &Step<Self>, out: &mut [u8]) -> u32;

    /// Decodes the first `values.len()` (1 to a chunk's worth) values of a chunk. False: the chunk is corrupt.
    fn decode(worker: &mut Worker, coded: Coded<'_>, step: &Step<Self>, values: &mut [Self]) -> bool;
}

macro_rules! chunked {
    ($value:ident) => {
        impl Chunked for $value {
            fn step(bound: f32) -> Step<Self> {
                let eb = $value::from(bound);
                Step { eb, eb2: 2.0 * eb, inv: 1.0 / (2.0 * eb) }
            }

            fn encode(worker: &mut Worker, values: &[Self], step: &Step<Self>, out: &mut [u8]) -> u32 {
                match &mut worker.coder {
                    Coder::Portable(scratch) => portable::$value::encode(values, step, scratch, out),
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: Coder::new has found this worker's features
                    Coder::Avx2(scratch) => unsafe { avx2::$value::encode(values, step, scratch, out) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: Coder::new has found this worker's features
                    Coder::Avx512(scratch) => unsafe { avx512::$value::encode(values, step, scratch, out) },
                }
            }

            fn decode(worker: &mut Worker, coded: Coded<'_>, step: &Step<Self>, values: &mut [Self]) -> bool {
                match &mut worker.coder {
                    Coder::Portable(scratch) => portable::$value::decode(coded, step, scratch, values),
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: Coder::new has found this worker's features
                    Coder::Avx2(scratch) => unsafe { avx2::$value::decode(coded, step, scratch, values) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: Coder::new has found this worker's features
                    Coder::Avx512(scratch) => unsafe { avx512::$value::decode(coded, step, scratch, values) },
                }
            }
        }
    };
}

chunked!(f32);
chunked!(f64);
