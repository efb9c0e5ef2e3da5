//! The portable coder: plain Rust, for any target, in loops that compilers vectorize.

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
    ($module:ident, $value:ty, $code:ty, $signed:ty, $radius:expr, $round:expr, $negabinary:expr, [$($span:literal),*]) => {
        pub(crate) mod $module {
            use super::*;

            const WIDTH: usize = <$code>::BITS as usize;
            const GROUPS: usize = CHUNK_BYTES * 8 / WIDTH / WIDTH;
            const RADIUS: $value = $radius;
            /// 1.5 · 2²³ (2⁵²): adding it rounds to an integer, ties to even, up to 2²² (2⁵¹), and leaves the integer in the sum's bits.
            const ROUND: $value = $round;

            /// The format's step 1: the nearest bin, else its neighbour on the value's side, else the value's own bits.
            ///
            /// Where |x · inv| is beyond 2²² (2⁵¹), `nearest` is none, but no bin of its own holds then; the second try is not due.
            pub(crate) fn quantize(x: $value, step: &Step<$value>) -> $code {
                let nearest = (x * step.inv + ROUND) - ROUND;
                let off = x - nearest * step.eb2;
                let beside = nearest + (1.0 as $value).copysign(off);
                let holds = (off.abs() <= step.eb) & (nearest.abs() < RADIUS);
                let beside_holds =
                    ((x - beside * step.eb2).abs() <= step.eb) & (beside.abs() < RADIUS) & (nearest.abs() <= RADIUS);
                let q = (if holds { nearest } else { beside } + ROUND).to_bits().wrapping_sub(ROUND.to_bits());
                let zigzag = (q << 1) ^ ((q as $signed >> (WIDTH - 1)) as $code);
                if holds | beside_holds { zigzag } else { x.to_bits() }
            }

            pub(crate) fn dequantize(code: $code, step: &Step<$value>) -> $value {
                let q = (code >> 1) ^ (code & 1).wrapping_neg();
                let bin = (<$value>::from_bits(q.wrapping_add(ROUND.to_bits())) - ROUND) * step.eb2;
                if code < 2 * RADIUS as $code { bin } else { <$value>::from_bits(code) }
            }

            fn exchange<const SPAN: usize>(rows: &mut [$code; WIDTH]) {
                // the lower SPAN bits of every 2 · SPAN
                let mask = <$code>::MAX / ((1 << SPAN) + 1);
                for pair in rows.as_chunks_mut::<SPAN>().0.as_chunks_mut::<2>().0 {
                    let [upper, lower] = pair;
                    for (upper, lower) in upper.iter_mut().zip(lower) {
                        let swap = (*upper ^ (*lower >> SPAN)) & mask;
                        *upper ^= swap;
                        *lower ^= swap << SPAN;
                    }
                }
            }

            /// Transposes a bit matrix whose bit 0 is the most significant.
            fn transpose(rows: &mut [$code; WIDTH]) {
                $(exchange::<$span>(rows);)*
            }

            pub(crate) fn encode(values: &[$value], step: &Step<$value>, scratch: &mut Scratch, out: &mut [u8]) -> u32 {
                let planes: &mut [[$code; GROUPS]] = bytemuck::cast_slice_mut(&mut scratch.0[..]);
                let mut codes = [0; WIDTH + 1]; // after the last of the group before
                for group in 0..GROUPS {
                    codes[0] = codes[WIDTH];
                    let values = values.get(group * WIDTH..).unwrap_or_default();
                    if let Some(values) = values.first_chunk::<WIDTH>() {
                        for (code, x) in codes[1..].iter_mut().zip(values) {
                            *code = quantize(*x, step);
                        }
                    } else {
                        codes[1..].fill(0);
                        codes[1..].iter_mut().zip(values).for_each(|(code, x)| *code = quantize(*x, step));
                    }
                    let mut rows = std::array::from_fn(|e| {
                        codes[e + 1].wrapping_sub(codes[e]).wrapping_add($negabinary) ^ $negabinary
                    });
                    transpose(&mut rows);
                    for (plane, row) in planes.iter_mut().zip(rows) {
                        plane[group] = row.to_le();
                    }
                }
                eliminate_zeros(bytemuck::cast_slice(&scratch.0[..]), out)
            }

            pub(crate) fn decode(coded: Coded<'_>, step: &Step<$value>, scratch: &mut Scratch, values: &mut [$value]) -> bool {
                if !restore_zeros(coded, bytemuck::cast_slice_mut(&mut scratch.0[..])) {
                    return false;
                }
                let planes: &[[$code; GROUPS]; WIDTH] = bytemuck::cast_ref(&*scratch.0);
                let mut code: $code = 0;
                for (group, values) in values.chunks_mut(WIDTH).enumerate() {
                    let mut rows = std::array::from_fn(|plane| <$code>::from_le(planes[plane][group]));
                    transpose(&mut rows);
                    for row in &mut rows {
                        code = code.wrapping_add((*row ^ $negabinary).wrapping_sub($negabinary));
                        *row = code;
                    }
                    for (value, row) in values.iter_mut().zip(rows) {
                        *value = dequantize(row, step);
                    }
                }
                true
            }
        }
    };
}

coder!(f32, f32, u32, i32, 4_194_304.0, 12_582_912.0, 0xAAAA_AAAA_u32, [16, 8, 4, 2, 1]);
coder!(f64, f64, u64, i64, 2_251_799_813_685_248.0, 6_755_399_441_055_744.0, 0xAAAA_AAAA_AAAA_AAAA_u64, [32, 16, 8, 4, 2, 1]);

/// Flags of the nonzero bytes among eight.
fn nonzero(bytes: [u8; 8]) -> u8 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let word = u64::from_le_bytes(bytes);
    let flags = (((word & LOW) + LOW) | word) >> 7 & 0x0101_0101_0101_0101;
    // brings bit 8i to bit 56 + i
    (flags.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// Moves the flagged ones of eight bytes to `out[at..]`, of which eight may be written, and gives where they end.
fn keep(bytes: [u8; 8], flags: u8, out: &mut [u8], mut at: usize) -> usize {
    if flags == 0xFF {
        out[at..at + 8].copy_from_slice(&bytes);
        return at + 8;
    }
    if flags != 0 {
        for (i, byte) in bytes.into_iter().enumerate() {
            out[at] = byte;
            at += usize::from(flags >> i & 1);
        }
    }
    at
}

/// The format's step 5: writes the chunk's coded bytes, or its planes as they are where that is not longer, and gives the table entry.
pub(crate) fn eliminate_zeros(planes: &[u8], out: &mut [u8]) -> u32 {
    let mut bitmaps = [[0u8; BITMAPS[0]]; 4];
    let mut length = 0;
    for (bytes, flags) in planes.as_chunks::<8>().0.iter().zip(&mut bitmaps[0]) {
        *flags = nonzero(*bytes);
        length = keep(*bytes, *flags, out, length);
    }
    if length > 0 {
        // what the levels keep, and room to write eight
        let mut kept = [0u8; BITMAPS[0] + BITMAPS[1] + BITMAPS[2] + BITMAPS[3] + 8];
        let mut end = 0;
        for level in 1..4 {
            let (above, below) = bitmaps.split_at_mut(level);
            let mut before = 0;
            for (bytes, flags) in above[level - 1][..BITMAPS[level - 1]].as_chunks::<8>().0.iter().zip(&mut below[0]) {
                let word = u64::from_le_bytes(*bytes);
                *flags = nonzero((word ^ (word << 8 | before)).to_le_bytes());
                before = word >> 56;
                end = keep(*bytes, *flags, &mut kept, end);
            }
        }
        kept[end..end + 4].copy_from_slice(&bitmaps[3][..BITMAPS[3]]);
        end += 4;
        if length + end + 2 >= CHUNK_BYTES {
            out[..CHUNK_BYTES].copy_from_slice(planes);
            return RAW | CHUNK_BYTES as u32;
        }
        out[length..length + end].copy_from_slice(&kept[..end]);
        length += end;
    }
    out[length..length + 2].copy_from_slice(&(CHUNK_BYTES as u16).to_le_bytes());
    length as u32 + 2
}

fn count(bitmap: &[u8]) -> usize {
    bitmap.iter().map(|byte| byte.count_ones() as usize).sum()
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
    if body.is_empty() {
        planes.fill(0);
        return true;
    }
    let Some((mut body, last)) = body.split_last_chunk::<4>() else { return false };
    let mut bitmap = [0u8; BITMAPS[0]];
    bitmap[..BITMAPS[3]].copy_from_slice(last);
    for level in (0..3).rev() {
        let changed = bitmap;
        let changed = &changed[..BITMAPS[level + 1]];
        let Some(mut at) = body.len().checked_sub(count(changed)) else { return false };
        body = &body[..at];
        let mut byte = 0;
        for (eight, flags) in bitmap[..BITMAPS[level]].as_chunks_mut::<8>().0.iter_mut().zip(changed) {
            if *flags == 0 {
                *eight = [byte; 8];
                continue;
            }
            for (i, slot) in eight.iter_mut().enumerate() {
                // the chunk goes on after the last of them
                let flag = flags >> i & 1;
                byte = if flag == 1 { bytes[at] } else { byte };
                at += usize::from(flag);
                *slot = byte;
            }
        }
    }
    if count(&bitmap) != body.len() {
        return false;
    }
    let mut at = 0;
    for (eight, flags) in planes.as_chunks_mut::<8>().0.iter_mut().zip(bitmap) {
        match flags {
            0 => *eight = [0; 8],
            0xFF => {
                eight.copy_from_slice(&bytes[at..at + 8]);
                at += 8;
            }
            _ => {
                for (i, slot) in eight.iter_mut().enumerate() {
                    let flag = flags >> i & 1;
                    *slot = bytes[at] & flag.wrapping_neg();
                    at += usize::from(flag);
                }
            }
        }
    }
    true
}
