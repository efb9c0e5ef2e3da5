//! The portable coder: plain Rust, for any target.

use super::{Coded, Step};
use crate::header::{CHUNK_BYTES, RAW};

/// Bytes of the bitmaps of nonzero bytes, of its changes, of theirs, and of theirs.
const BITMAPS: [usize; 4] = [2048, 256, 32, 4];

/// Planes of one chunk, in order.
pub struct Scratch(Box<[u64; CHUNK_BYTES / 8]>);

impl Default for Scratch {
    fn default() -> Self {
        Self(Box::new([0; CHUNK_BYTES / 8]))
    }
}

macro_rules! coder {
    ($module:ident, $value:ty, $code:ty, $signed:ty, $radius:expr, $negabinary:expr) => {
        pub(crate) mod $module {
            use super::*;

            const WIDTH: usize = <$code>::BITS as usize;
            const GROUPS: usize = CHUNK_BYTES * 8 / WIDTH / WIDTH;
            const RADIUS: $value = $radius;

            /// The format's step 1: the nearest bin, else its neighbour on the value's side, else the value's own bits.
            pub(crate) fn quantize(x: $value, step: &Step<$value>) -> $code {
                let holds = |q: $value| q.abs() < RADIUS && (x - q * step.eb2).abs() <= step.eb;
                let zigzag = |q: $value| {
                    let q = q as $signed;
                    ((q << 1) ^ (q >> (WIDTH - 1))) as $code
                };
                let nearest = (x * step.inv).round_ties_even();
                if holds(nearest) {
                    return zigzag(nearest);
                }
                let beside = if x > nearest * step.eb2 { nearest + 1.0 } else { nearest - 1.0 };
                if holds(beside) { zigzag(beside) } else { x.to_bits() }
            }

            pub(crate) fn dequantize(code: $code, step: &Step<$value>) -> $value {
                if code >> 1 < RADIUS as $code {
                    let q = (code >> 1) as $signed ^ -((code & 1) as $signed);
                    q as $value * step.eb2
                } else {
                    <$value>::from_bits(code)
                }
            }

            /// Transposes a bit matrix whose bit 0 is the most significant.
            fn transpose(rows: &mut [$code; WIDTH]) {
                let mut span = WIDTH / 2;
                let mut mask: $code = <$code>::MAX >> span;
                while span > 0 {
                    for low in (0..WIDTH).filter(|row| row & span == 0) {
                        let swap = (rows[low] ^ (rows[low + span] >> span)) & mask;
                        rows[low] ^= swap;
                        rows[low + span] ^= swap << span;
                    }
                    span /= 2;
                    mask ^= mask << span;
                }
            }

            pub(crate) fn encode(values: &[$value], step: &Step<$value>, scratch: &mut Scratch, out: &mut [u8]) -> u32 {
                let planes: &mut [$code] = bytemuck::cast_slice_mut(&mut scratch.0[..]);
                let mut before: $code = 0;
                for group in 0..GROUPS {
                    let mut rows = std::array::from_fn(|e| {
                        let code = values.get(group * WIDTH + e).map_or(0, |&x| quantize(x, step));
                        let difference = code.wrapping_sub(before);
                        before = code;
                        difference.wrapping_add($negabinary) ^ $negabinary
                    });
                    transpose(&mut rows);
                    for (plane, row) in rows.into_iter().enumerate() {
                        planes[plane * GROUPS + group] = row.to_le();
                    }
                }
                eliminate_zeros(bytemuck::cast_slice(&scratch.0[..]), out)
            }

            pub(crate) fn decode(coded: Coded<'_>, step: &Step<$value>, scratch: &mut Scratch, values: &mut [$value]) -> bool {
                if !restore_zeros(coded, bytemuck::cast_slice_mut(&mut scratch.0[..])) {
                    return false;
                }
                let planes: &[$code] = bytemuck::cast_slice(&scratch.0[..]);
                let mut code: $code = 0;
                for (group, values) in values.chunks_mut(WIDTH).enumerate() {
                    let mut rows = std::array::from_fn(|plane| <$code>::from_le(planes[plane * GROUPS + group]));
                    transpose(&mut rows);
                    for (value, row) in values.iter_mut().zip(rows) {
                        code = code.wrapping_add((row ^ $negabinary).wrapping_sub($negabinary));
                        *value = dequantize(code, step);
                    }
                }
                true
            }
        }
    };
}

coder!(f32, f32, u32, i32, 4_194_304.0, 0xAAAA_AAAA_u32);
coder!(f64, f64, u64, i64, 2_251_799_813_685_248.0, 0xAAAA_AAAA_AAAA_AAAA_u64);

/// Flags of `keep(i)`, flag i in bit i mod 8 of byte i / 8.
fn flags(bitmap: &mut [u8], keep: impl Fn(usize) -> bool) {
    for (i, byte) in bitmap.iter_mut().enumerate() {
        *byte = (0..8).fold(0, |byte, bit| byte | u8::from(keep(8 * i + bit)) << bit);
    }
}

/// The format's step 5: writes the chunk's coded bytes, or its planes as they are where that is not longer, and gives the table entry.
pub(super) fn eliminate_zeros(planes: &[u8], out: &mut [u8]) -> u32 {
    let mut bitmaps = [[0u8; BITMAPS[0]]; 4];
    flags(&mut bitmaps[0], |i| planes[i] != 0);
    let mut length = 0;
    let mut put = |byte: u8| {
        if length < CHUNK_BYTES {
            out[length] = byte;
        }
        length += 1;
    };
    planes.iter().filter(|&&byte| byte != 0).for_each(|&byte| put(byte));
    if bitmaps[0].iter().any(|&byte| byte != 0) {
        for level in 1..4 {
            let (above, below) = bitmaps.split_at_mut(level);
            let (above, changed) = (&above[level - 1][..BITMAPS[level - 1]], &mut below[0][..BITMAPS[level]]);
            flags(changed, |i| above[i] != if i == 0 { 0 } else { above[i - 1] });
            (0..above.len()).filter(|i| changed[i / 8] >> (i % 8) & 1 == 1).for_each(|i| put(above[i]));
        }
        bitmaps[3][..BITMAPS[3]].iter().for_each(|&byte| put(byte));
    }
    (CHUNK_BYTES as u16).to_le_bytes().into_iter().for_each(put);
    if length < CHUNK_BYTES {
        return length as u32;
    }
    out[..CHUNK_BYTES].copy_from_slice(planes);
    RAW | CHUNK_BYTES as u32
}

/// Undoes [`eliminate_zeros`]. False: the chunk's parts do not add up to its length.
fn restore_zeros(coded: Coded<'_>, planes: &mut [u8]) -> bool {
    let bytes = &coded.stream[coded.at..coded.at + coded.length];
    if coded.raw {
        planes.copy_from_slice(bytes);
        return true;
    }
    let Some((body, &[low, high])) = bytes.split_last_chunk() else { return false };
    if u16::from_le_bytes([low, high]) as usize != CHUNK_BYTES {
        return false;
    }
    planes.fill(0);
    if body.is_empty() {
        return true;
    }
    let Some((mut body, last)) = body.split_last_chunk::<4>() else { return false };
    let mut bitmap = [0u8; BITMAPS[0]];
    bitmap[..BITMAPS[3]].copy_from_slice(last);
    for level in (0..3).rev() {
        let changed = bitmap;
        let kept: u32 = changed[..BITMAPS[level + 1]].iter().map(|byte| byte.count_ones()).sum();
        let Some(at) = body.len().checked_sub(kept as usize) else { return false };
        let (before, kept) = body.split_at(at);
        let (mut kept, mut byte) = (kept.iter(), 0);
        for (i, slot) in bitmap[..BITMAPS[level]].iter_mut().enumerate() {
            if changed[i / 8] >> (i % 8) & 1 == 1 {
                byte = *kept.next().expect("as many as flags");
            }
            *slot = byte;
        }
        body = before;
    }
    if bitmap.iter().map(|byte| byte.count_ones()).sum::<u32>() as usize != body.len() {
        return false;
    }
    let mut nonzero = body.iter();
    for (i, slot) in planes.iter_mut().enumerate() {
        if bitmap[i / 8] >> (i % 8) & 1 == 1 {
            *slot = *nonzero.next().expect("as many as flags");
        }
    }
    true
}
