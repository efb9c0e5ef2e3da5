//! binary32.

use std::arch::x86_64::*;

use super::lanes::*;
use super::planes::*;
use super::quantize::*;
use super::{Buffers, Coded, Pieces, Scratch, Step, ask, eliminate, restore};

const BLOCKS: usize = 16;
/// 2R - 2: the largest code of a bin.
const LIMIT: u32 = (1 << 23) - 2;

type Eight = __m256;

struct Lanes {
    eb: __m256,
    eb2: __m256,
    inv: __m256,
}

#[inline]
#[target_feature(enable = "avx2")]
fn in_lanes(step: &Step<f32>) -> Lanes {
    Lanes { eb: _mm256_set1_ps(step.eb), eb2: _mm256_set1_ps(step.eb2), inv: _mm256_set1_ps(step.inv) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn eight(values: &[f32]) -> Eight {
    load(bytemuck::cast_slice(values))
}

#[inline]
#[target_feature(enable = "avx2")]
fn none() -> Eight {
    _mm256_setzero_ps()
}

/// Nearest bins; the least integer for NaN and what is out of range.
#[inline]
#[target_feature(enable = "avx2")]
fn bins(x: Eight, lanes: &Lanes) -> V {
    _mm256_cvtps_epi32(_mm256_mul_ps(x, lanes.inv))
}

#[inline]
#[target_feature(enable = "avx2")]
fn centres(q: V, lanes: &Lanes) -> Eight {
    here(_mm256_mul_ps(_mm256_cvtepi32_ps(q), lanes.eb2))
}

#[inline]
#[target_feature(enable = "avx2")]
fn magnitude(x: Eight) -> Eight {
    _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(i32::MAX)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn distances(centres: Eight, x: Eight) -> Eight {
    magnitude(_mm256_sub_ps(centres, x))
}

/// The larger of both, `b` where `a` is NaN.
#[inline]
#[target_feature(enable = "avx2")]
fn farther(a: Eight, b: Eight) -> Eight {
    _mm256_max_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx2")]
fn within(distances: Eight, lanes: &Lanes) -> Eight {
    _mm256_cmp_ps::<_CMP_LE_OQ>(distances, lanes.eb)
}

#[inline]
#[target_feature(enable = "avx2")]
fn all_within(distances: Eight, lanes: &Lanes) -> bool {
    _mm256_movemask_ps(within(distances, lanes)) == 0xFF
}

nearest_bins!(f32);

/// Codes of any eight values.
#[inline]
#[target_feature(enable = "avx2")]
fn quantize(x: Eight, lanes: &Lanes) -> V {
    let holds = |q: Eight, off: Eight| {
        _mm256_and_ps(within(magnitude(off), lanes), _mm256_cmp_ps::<_CMP_LT_OQ>(magnitude(q), _mm256_set1_ps(4_194_304.0)))
    };
    let q = _mm256_cvtepi32_ps(bins(x, lanes));
    let off = _mm256_sub_ps(x, _mm256_mul_ps(q, lanes.eb2));
    let nearest = holds(q, off);
    // towards x; where that is q's very place, neither neighbour holds
    let beside = _mm256_add_ps(q, _mm256_or_ps(_mm256_set1_ps(1.0), _mm256_and_ps(off, _mm256_set1_ps(-0.0))));
    let second = holds(beside, _mm256_sub_ps(x, _mm256_mul_ps(beside, lanes.eb2)));
    let code = zigzag(_mm256_cvtps_epi32(_mm256_blendv_ps(beside, q, nearest)));
    _mm256_castps_si256(_mm256_blendv_ps(x, _mm256_castsi256_ps(code), _mm256_or_ps(nearest, second)))
}

/// What [`quantize_any`] met.
struct Met {
    /// None: the codes have not been looked at, and may be raw ones.
    span: Option<Span>,
    /// A nearest bin fails.
    missed: bool,
    /// There are raw values in many places.
    raw: bool,
}

/// Lanes in which no code is above `limit`.
#[inline]
#[target_feature(enable = "avx2")]
fn upto(codes: V, limit: u32) -> Eight {
    _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_min_epu32(codes, _mm256_set1_epi32(limit as i32)), codes))
}

/// Codes of any block. The second try is made for the pairs of rows in which a nearest bin fails; with `RAW`, only where there is a
/// neighbour that may hold.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,popcnt")]
fn quantize_any<const RAW: bool>(values: &[f32], lanes: &Lanes, before: u32, codes: &mut Codes) -> Met {
    // not kept with RAW: blocks with raw values are rarely short
    let mut span = Span::of(before);
    let row = |i: usize| eight(&values[8 * i..]);
    // a bit for each pair
    let (mut missed, mut again) = (0u32, 0u32);
    nearest_bins(values, lanes, |i, bins, distances| {
        let pair = bins.map(|q| zigzag(q));
        let near = distances.map(|distances| within(distances, lanes));
        let held;
        if RAW {
            let holds = [0, 1].map(|k| _mm256_and_ps(near[k], upto(pair[k], LIMIT)));
            // bins up to R have a neighbour below R
            let in_reach = [0, 1].map(|k| _mm256_andnot_ps(holds[k], upto(pair[k], LIMIT + 2)));
            again |= u32::from(_mm256_movemask_ps(_mm256_or_ps(in_reach[0], in_reach[1])) != 0) << i;
            held = _mm256_and_ps(holds[0], holds[1]);
            for k in 0..2 {
                let at = 2 * i + k;
                codes[at] = _mm256_castps_si256(_mm256_blendv_ps(row(at), _mm256_castsi256_ps(pair[k]), holds[k]));
            }
        } else {
            held = _mm256_and_ps(near[0], near[1]);
            for k in 0..2 {
                codes[2 * i + k] = pair[k];
                span.add(pair[k]);
            }
        }
        missed |= u32::from(_mm256_movemask_ps(held) != 0xFF) << i;
    });
    if !RAW {
        if !span.upto(LIMIT) {
            // some code is too large, which is not known of a pair
            return quantize_any::<true>(values, lanes, before, codes);
        }
        again = missed;
    }
    let raw = (missed & !again).count_ones();
    while again != 0 {
        let i = again.trailing_zeros() as usize % 16;
        again &= again - 1;
        for i in [2 * i, 2 * i + 1] {
            codes[i] = quantize(row(i), lanes);
            if !RAW {
                span.add(codes[i]);
            }
        }
    }
    Met { span: (!RAW).then_some(span), missed: missed != 0, raw: raw > 0 }
}

/// Codes `values` to the start of `out`; see [`Chunked::encode`](super::super::Chunked::encode).
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub fn encode(values: &[f32], step: &Step<f32>, scratch: &mut Scratch, out: &mut [u8]) -> u32 {
    let mut padded;
    let values = if values.len() == 256 * BLOCKS {
        values
    } else {
        padded = [0.0; 256 * BLOCKS];
        padded[..values.len()].copy_from_slice(values);
        &padded
    };
    let buffers = &mut *scratch.0;
    let (planes, made) = fill_planes(values, &in_lanes(step), buffers, out);
    buffers.habits.entry = eliminate::<32>(buffers, &made, planes, out);
    buffers.habits.entry
}

/// Steps 1 to 4 of the format; gives the number of planes in use, and how many were made of each block.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn fill_planes(values: &[f32], lanes: &Lanes, buffers: &mut Buffers, out: &[u8]) -> (usize, [u32; 16]) {
    let Buffers { pieces, habits, .. } = buffers;
    let zero = _mm256_setzero_si256();
    let (mut short_codes, mut short_words) = ([zero; 16], [zero; 16]);
    let (mut codes, mut words) = ([zero; 32], [zero; 32]);
    let mut made = [0; 16];
    let (mut before, mut all) = (0u32, 0);
    for (block, values) in values.chunks_exact(256).enumerate() {
        ask::to_write::<{ 2 * BLOCKS }>(out, habits.entry, 2 * block);
        let mut short = !habits.long && before <= SHORT && quantize_short(values, lanes, &mut short_codes);
        let mut last = u32::from(bytemuck::cast_slice::<V, u16>(&short_codes)[255]);
        let mut missed = false;
        if !short {
            let near = if habits.expects_misses() { None } else { quantize_near(values, lanes, before, &mut codes) };
            let met = near.map(|span| Met { span: Some(span), missed: false, raw: false }).unwrap_or_else(|| {
                if habits.raw {
                    quantize_any::<true>(values, lanes, before, &mut codes)
                } else {
                    quantize_any::<false>(values, lanes, before, &mut codes)
                }
            });
            habits.raw = met.raw;
            missed = met.missed;
            habits.long = missed || !met.span.is_some_and(|span| span.upto(SHORT));
            last = bytemuck::cast_slice::<V, u32>(&codes)[255];
            short = met.span.is_some_and(|span| span.is_short(last));
            if short {
                shorten(&codes, &mut short_codes);
            }
        }
        habits.missed = habits.missed << 1 | u16::from(missed);
        ask::to_write::<{ 2 * BLOCKS }>(out, habits.entry, 2 * block + 1);
        let or;
        (made[block], or) = if short {
            let or = short_columns::<32>(&short_codes, before, &mut short_words);
            (short_to_planes::<32, 31>(&short_words, or, block, pieces), (or | or >> 16) & 0xFFFF)
        } else {
            let or = columns::<true>(&codes, before, &mut words);
            (long_to_planes::<32, 31>(&words, or, block, pieces), or)
        };
        all |= or;
        before = last;
    }
    (32 - all.leading_zeros() as usize, made)
}

decoder!(f32);

/// Steps 4 to 1 backwards, where the planes before `first` are 0.
#[target_feature(enable = "avx2,lzcnt")]
fn read<P: Place>(coded: Coded<'_>, first: usize, pieces: &mut Pieces, lanes: &Lanes, places: &mut [P]) {
    pieces.clear::<32>(planes_read(32 - first), first);
    let bytes = &pieces.bytes;
    let zero = _mm256_setzero_si256();
    let mut codes = BlockCodes { long: [zero; 32], short: [zero; 16] };
    let mut before = zero;
    for ((block, rows), planes) in places.as_chunks_mut().0.iter_mut().enumerate().zip(pieces.planes_in_use::<32>(first)) {
        ask::for_next::<BLOCKS>(&coded, block);
        let planes = 32 - planes.leading_zeros() as usize;
        if read_codes::<32, 31>(bytes, block, planes, &mut before, &mut codes) {
            dequantize_short(&codes.short, lanes, rows);
        } else {
            // so many planes are hardly for bins
            dequantize(&codes.long, lanes, rows, planes > 24);
        }
    }
}

/// Values of twice their bins: 2 q · eb rounds as q · eb2.
#[inline]
#[target_feature(enable = "avx2")]
fn scale(twice: V, lanes: &Lanes) -> V {
    _mm256_castps_si256(_mm256_mul_ps(_mm256_cvtepi32_ps(twice), lanes.eb))
}

#[inline]
#[target_feature(enable = "avx2")]
fn dequantize_short<P: Place>(codes: &ShortCodes, lanes: &Lanes, rows: &mut [P; 32]) {
    // line by line
    let (low, high) = rows.split_at_mut(16);
    let lines = low.as_chunks_mut::<2>().0.iter_mut().zip(high.as_chunks_mut::<2>().0);
    for (codes, (low, high)) in codes.as_chunks::<2>().0.iter().zip(lines) {
        let [a, b] = codes.map(|codes| lengthen(twice_bins(codes)));
        for (k, line) in [low, high].into_iter().enumerate() {
            put_line(line, scale(a[k], lanes), scale(b[k], lanes));
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn put_line<P: Place>(line: &mut [P; 2], a: V, b: V) {
    if !P::STREAMED {
        prefetch_to_write(line);
    }
    line[0].put(a);
    line[1].put(b);
}

/// `raw` is whether to expect codes that are not bins.
#[inline]
#[target_feature(enable = "avx2")]
fn dequantize<P: Place>(codes: &Codes, lanes: &Lanes, rows: &mut [P; 32], raw: bool) {
    let lines = rows.as_chunks_mut::<2>().0;
    let codes = codes.as_chunks::<2>().0;
    if !raw {
        let mut or = _mm256_setzero_si256();
        for (line, &[a, b]) in lines.iter_mut().zip(codes) {
            or = _mm256_or_si256(or, _mm256_or_si256(a, b));
            put_line(line, scale(twice_bin(a), lanes), scale(twice_bin(b), lanes));
        }
        if or_lanes(or) <= LIMIT + 1 {
            return;
        }
    }
    let value = |code| {
        let bins = _mm256_castps_si256(upto(code, LIMIT + 1));
        _mm256_blendv_epi8(code, scale(twice_bin(code), lanes), bins)
    };
    for (line, &[a, b]) in lines.iter_mut().zip(codes) {
        put_line(line, value(a), value(b));
    }
}
