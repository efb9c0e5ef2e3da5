//! The AVX2 coder.
//!
//! The unit of work is a *block* of 256 values, 32 rows of 8 columns, whose codes are kept transposed: register `[column][step]` holds
//! one column of rows 4·step to 4·step + 3 in its lower lane and of the 16 rows after those in its upper lane, the last row first:
//!
//! ```text
//! register [column][step], lane h, dword t  =  row 16 h + 4 step + 3 - t
//! ```
//!
//! - The code before a code is in the same place of the column before: differences, and their sums, take no shuffle but in column 0.
//! - Taking one byte of each dword of a column's four registers gives 32 bytes, a byte a row, in the very order in which the rows are
//!   spread over a plane's bytes. (Bytes of a plane stand for 8 codes each, and every 4 bytes, 8 in 64-bit planes, run backwards.
//!   For 64 bits that means to swap the steps in pairs.)
//! - So an 8 by 8 bit transpose *across* the registers of the eight columns gives 32-byte *pieces* of eight planes at once.
//!
//! ```text
//! encode: for each block
//!             quantize to rows of codes; where a nearest bin fails, again with the second try
//!             transpose rows to columns, difference, negabinary
//!             as few bytes of these as are in use: to pieces and the flags of their nonzero bytes
//!         flags to kept bytes and flags of these, three times; the length is known now
//!         for each strip of 512 bytes: append its nonzero bytes, by the method for its density
//! decode: kept bytes and flags to flags, three times
//!         for each strip: spread its bytes, by the method for its density
//!         for each block: pieces to columns of differences, sums, rows of codes, values
//! ```
//!
//! Blocks whose codes are small, or near each other, are done in 16-bit words. 64-bit codes that fit are coded in 32 bits (or 16); the
//! others are differenced in natural order and their halves then go the same way, each to its 32 planes.

/// The decoder's entry, the same for both types but for what it calls.
macro_rules! decoder {
    ($value:ty) => {
        /// Decodes a chunk's first `values.len()` values; see [`Chunked::decode`](super::super::Chunked::decode).
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        pub fn decode(coded: Coded<'_>, step: &Step<$value>, scratch: &mut Scratch, values: &mut [$value]) -> bool {
            let Some(first) = restore(coded, &mut scratch.0) else { return false };
            if first == 32 {
                values.fill(0.0);
                return true;
            }
            let pieces = &mut scratch.0.pieces;
            let lanes = in_lanes(step);
            if values.len() < 256 * BLOCKS {
                let mut whole = [0.0; 256 * BLOCKS];
                read::<[u8; 32]>(coded, first, pieces, &lanes, bytemuck::cast_slice_mut(&mut whole));
                values.copy_from_slice(&whole[..values.len()]);
            } else if coded.streamed && values.as_ptr().cast::<__m128i>().is_aligned() {
                read::<[__m128i; 2]>(coded, first, pieces, &lanes, bytemuck::cast_slice_mut(values));
                fence();
            } else {
                read::<[u8; 32]>(coded, first, pieces, &lanes, bytemuck::cast_slice_mut(values));
            }
            true
        }
    };
}

pub mod f32;
pub mod f64;
mod lanes;
mod planes;
mod quantize;
mod rze;
#[cfg(test)]
mod tests;

use lanes::V;

use std::arch::x86_64::*;

use super::{Coded, Step, ask};
use crate::header::CHUNK_BYTES;

/// This processor has every feature that the functions here enable.
pub fn available() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

/// Planes of a chunk in pieces of 32 bytes, and their flags: plane after plane, block after block.
#[repr(C, align(64))]
struct Pieces {
    bytes: [V; 512],
    flags: [V; 64],
}

impl Pieces {
    /// A flag for each byte of the pieces.
    #[inline(always)]
    fn flags(&self) -> &[u32] {
        bytemuck::cast_slice(&self.flags)
    }

    #[inline(always)]
    fn flags_mut(&mut self) -> &mut [u32] {
        bytemuck::cast_slice_mut(&mut self.flags)
    }
}

/// Which way the next block is likely to go. This has no influence on the result.
#[derive(Clone, Copy, Default)]
struct Habits {
    /// Of the last blocks, those in which a nearest bin failed.
    missed: u16,
    /// The last block had raw values in many places.
    raw: bool,
    /// The last block's codes did not fit 16 bits.
    long: bool,
    /// The last chunk's table entry.
    entry: u32,
}

impl Habits {
    fn expects_misses(self) -> bool {
        self.missed.count_ones() >= 6
    }
}

struct Buffers {
    pieces: Pieces,
    levels: rze::Levels,
    habits: Habits,
}

/// Working memory.
pub struct Scratch(Box<Buffers>);

impl Default for Scratch {
    fn default() -> Self {
        let zero = bytemuck::Zeroable::zeroed();
        let pieces = Pieces { bytes: [zero; 512], flags: [zero; 64] };
        Self(Box::new(Buffers { pieces, levels: rze::Levels::default(), habits: Habits::default() }))
    }
}

/// Pieces of a chunk's planes; gives the first strip that is not all 0 (32: none). Strips before it are not filled. None: the chunk is
/// corrupt.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn restore(coded: Coded<'_>, buffers: &mut Buffers) -> Option<usize> {
    let bytes = &coded.stream[coded.at..][..coded.length];
    if coded.raw {
        bytemuck::cast_slice_mut(&mut buffers.pieces.bytes).copy_from_slice(bytes);
        buffers.pieces.flags_mut().fill(u32::MAX);
        return Some(0);
    }
    if !bytes.ends_with(&(CHUNK_BYTES as u16).to_le_bytes()) {
        return None;
    }
    if coded.length == 2 {
        return Some(rze::STRIPS);
    }
    rze::restore_zeros(coded, &mut buffers.pieces, &mut buffers.levels)
}

impl Pieces {
    /// Which planes each block has nonzero bytes in, the last plane in bit 0: of 32 planes for 16 blocks (`W` = 32), or of the first 32
    /// planes for 8 blocks, then of the last (64).
    #[inline]
    #[target_feature(enable = "avx2")]
    fn planes_in_use<const W: usize>(&self, first: usize) -> [u32; 16] {
        let mut planes = [_mm256_setzero_si256(); 2];
        for (strip, flags) in self.flags.as_chunks::<2>().0.iter().enumerate().skip(first) {
            for (i, &flags) in flags.iter().enumerate() {
                let planes = &mut planes[if W == 32 { i } else { strip / 16 }];
                let zero = _mm256_cmpeq_epi32(flags, _mm256_setzero_si256());
                *planes = _mm256_add_epi32(_mm256_add_epi32(*planes, *planes), _mm256_add_epi32(zero, _mm256_set1_epi32(1)));
            }
        }
        bytemuck::cast(planes)
    }

    /// Clears the flags, from strip `first` on, of pieces that were not made: of each block, only so many of the last planes were.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn mask_flags<const W: usize>(&mut self, first: usize, made: &[u32; 16]) {
        let made: [V; 2] = bytemuck::cast(*made);
        for (strip, flags) in self.flags.as_chunks_mut::<2>().0.iter_mut().enumerate().skip(first) {
            for (i, flags) in flags.iter_mut().enumerate() {
                let (blocks, plane) = if W == 32 { (made[i], strip) } else { (made[0], 2 * strip + i) };
                *flags = _mm256_and_si256(*flags, _mm256_cmpgt_epi32(blocks, _mm256_set1_epi32((W - 1 - plane) as i32)));
            }
        }
    }

    /// Makes the strips before `first` 0, as far as the last `planes` planes need it.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn clear<const W: usize>(&mut self, planes: usize, first: usize) {
        let start = (W - planes) * (512 / W);
        if start < 16 * first {
            self.bytes[start..16 * first].fill(_mm256_setzero_si256());
        }
    }
}

/// Coded bytes of the pieces in `buffers`: the last `planes` planes, of each block those that were made; gives the table entry.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn eliminate<const W: usize>(buffers: &mut Buffers, made: &[u32; 16], planes: usize, out: &mut [u8]) -> u32 {
    if planes == 0 {
        out[..2].copy_from_slice(&(CHUNK_BYTES as u16).to_le_bytes());
        return 2;
    }
    let first = (W - planes) * 32 / W;
    buffers.pieces.mask_flags::<W>(first, made);
    rze::eliminate_zeros(&buffers.pieces, &mut buffers.levels, first, out)
}
