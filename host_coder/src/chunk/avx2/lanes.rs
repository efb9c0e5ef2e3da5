//! Small pieces that the others are made of.

use std::arch::asm;
use std::arch::x86_64::*;

use crate::chunk::ask;

/// A register of integers.
pub type V = __m256i;

/// Reads the start of `bytes`, at any alignment.
#[inline(always)]
pub fn load<T: bytemuck::Pod>(bytes: &[u8]) -> T {
    bytemuck::pod_read_unaligned(&bytes[..size_of::<T>()])
}

/// Ones of a word. (As `u64::count_ones`, but a sum of a few is not turned into vector code with a long reduction.)
#[inline]
#[target_feature(enable = "popcnt")]
pub fn ones(word: &u64) -> usize {
    let ones: usize;
    // SAFETY: reads what `word` refers to, and the processor has the instruction.
    unsafe { asm!("popcnt {}, [{}]", out(reg) ones, in(reg) word, options(pure, readonly, nostack)) };
    ones
}

/// Keeps the computation of `value` where it is written: LLVM would otherwise undo software pipelining, by moving it across the loop's edge.
#[inline]
#[target_feature(enable = "avx2")]
pub fn here(mut value: __m256) -> __m256 {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(ymm_reg) value, options(pure, nomem, nostack, preserves_flags)) };
    value
}

/// OR of the 32-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn or_lanes(v: V) -> u32 {
    let word = or_halves(v);
    (word | word >> 32) as u32
}

/// OR of the 64-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn or_halves(v: V) -> u64 {
    let pair = _mm_or_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
    _mm_cvtsi128_si64(_mm_or_si128(pair, _mm_unpackhi_epi64(pair, pair))) as u64
}

/// Flags of the bytes of `a` that differ from those of `b`.
#[inline]
#[target_feature(enable = "avx2")]
pub fn differing(a: V, b: V) -> u32 {
    !(_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b)) as u32)
}

/// Flags of the bytes that are not 0.
#[inline]
#[target_feature(enable = "avx2")]
pub fn nonzero(bytes: V) -> u32 {
    // a sum from 128 on has the highest bit set
    _mm256_movemask_epi8(_mm256_adds_epu8(bytes, _mm256_set1_epi8(0x7F))) as u32
}

/// Bytes that encoding looks ahead, and decoding.
const AHEAD: usize = 2048;

/// Asks for what is some way from the `LINES` lines at `place`, whether there is memory or not. Such requests are best spread evenly: a
/// whole block's at once wait for each other.
#[inline]
#[target_feature(enable = "avx2")]
pub fn prefetch<const LINES: usize>(place: *const impl Sized) {
    for line in 0..LINES {
        let place = place.wrapping_byte_add(AHEAD + 64 * line);
        // SAFETY: a prefetch does not fault.
        unsafe { asm!("prefetcht0 [{}]", in(reg) place, options(readonly, nostack, preserves_flags)) };
    }
}

/// The same for a line that will be written.
#[inline]
#[target_feature(enable = "avx2")]
pub fn prefetch_to_write(place: *const impl Sized) {
    ask::line_to_write(place.wrapping_byte_add(AHEAD).cast());
}

/// Where 32 bytes of values go.
pub trait Place: bytemuck::Pod {
    /// These are not to be brought to the caches.
    const STREAMED: bool;

    fn put(&mut self, value: V);
}

impl Place for [u8; 32] {
    const STREAMED: bool = false;

    #[inline(always)]
    fn put(&mut self, value: V) {
        *self = bytemuck::cast(value);
    }
}

/// Past the caches.
impl Place for [__m128i; 2] {
    const STREAMED: bool = true;

    #[inline(always)]
    fn put(&mut self, value: V) {
        let value: Self = bytemuck::cast(value);
        for (place, value) in self.iter_mut().zip(value) {
            // SAFETY: `place` is aligned and may be written.
            unsafe { _mm_stream_si128(place, value) };
        }
    }
}

/// To be called between writes past the caches and whatever may tell others of them.
pub fn fence() {
    // SAFETY: touches nothing.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}
