//! binary64. Blocks whose codes fit 32 bits are coded in these; [`differences`] and [`read_wide`] do the others.

use std::arch::x86_64::*;

use super::lanes::*;
use super::planes::*;
use super::quantize::*;
use super::{Buffers, Coded, Pieces, Scratch, Step, ask, eliminate, restore};

const BLOCKS: usize = 8;
/// Differences of codes up to this have at most 32 negabinary digits.
const LIMIT: u32 = 0x5555_5555;
/// 1.5 · 2⁵²: in the bits of its sum with an integer from -2⁵¹ to 2⁵¹ - 1, that integer is added to its own bits.
const INTEGERS: f64 = 6_755_399_441_055_744.0;

type Eight = [__m256d; 2];
/// Codes of a block in natural order, four each.
type WideCodes = [V; 64];

struct Lanes {
    eb: __m256d,
    eb2: __m256d,
    inv: __m256d,
}

#[inline]
#[target_feature(enable = "avx2")]
fn in_lanes(step: &Step<f64>) -> Lanes {
    Lanes { eb: _mm256_set1_pd(step.eb), eb2: _mm256_set1_pd(step.eb2), inv: _mm256_set1_pd(step.inv) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn eight(values: &[f64]) -> Eight {
    let bytes = bytemuck::cast_slice(&values[..8]);
    [load(bytes), load(&bytes[32..])]
}

#[inline]
#[target_feature(enable = "avx2")]
fn none() -> Eight {
    [_mm256_setzero_pd(); 2]
}

/// Nearest bins; the least integer for NaN and what is out of range.
#[inline]
#[target_feature(enable = "avx2")]
fn bins([a, b]: Eight, lanes: &Lanes) -> V {
    let four = |x| _mm256_cvtpd_epi32(_mm256_mul_pd(x, lanes.inv));
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(four(a)), four(b))
}

#[inline]
#[target_feature(enable = "avx2")]
fn doubles(integers: V) -> Eight {
    [_mm256_cvtepi32_pd(_mm256_castsi256_si128(integers)), _mm256_cvtepi32_pd(_mm256_extracti128_si256::<1>(integers))]
}

#[inline]
#[target_feature(enable = "avx2")]
fn centres(q: V, lanes: &Lanes) -> Eight {
    doubles(q).map(|q| _mm256_castps_pd(here(_mm256_castpd_ps(_mm256_mul_pd(q, lanes.eb2)))))
}

#[inline]
#[target_feature(enable = "avx2")]
fn magnitude(x: __m256d) -> __m256d {
    _mm256_andnot_pd(_mm256_set1_pd(-0.0), x)
}

#[inline]
#[target_feature(enable = "avx2")]
fn distances(centres: Eight, x: Eight) -> Eight {
    [magnitude(_mm256_sub_pd(centres[0], x[0])), magnitude(_mm256_sub_pd(centres[1], x[1]))]
}

/// The larger of both, `b` where `a` is NaN.
#[inline]
#[target_feature(enable = "avx2")]
fn farther(a: Eight, b: Eight) -> Eight {
    [_mm256_max_pd(a[0], b[0]), _mm256_max_pd(a[1], b[1])]
}

#[inline]
#[target_feature(enable = "avx2")]
fn all_within([a, b]: Eight, lanes: &Lanes) -> bool {
    let within = |distance| _mm256_cmp_pd::<_CMP_LE_OQ>(distance, lanes.eb);
    _mm256_movemask_pd(_mm256_and_pd(within(a), within(b))) == 0xF
}

nearest_bins!(f64);

/// Codes of any four values, and whether all nearest bins hold.
#[inline]
#[target_feature(enable = "avx2")]
fn quantize(x: __m256d, lanes: &Lanes) -> (V, bool) {
    let radius = _mm256_set1_pd(2_251_799_813_685_248.0);
    let holds = |q: __m256d, centre: __m256d| {
        let near = _mm256_cmp_pd::<_CMP_LE_OQ>(magnitude(_mm256_sub_pd(x, centre)), lanes.eb);
        _mm256_and_pd(near, _mm256_cmp_pd::<_CMP_LT_OQ>(magnitude(q), radius))
    };
    let q = _mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(_mm256_mul_pd(x, lanes.inv));
    let centre = _mm256_mul_pd(q, lanes.eb2);
    let nearest = holds(q, centre);
    let sign = _mm256_andnot_pd(_mm256_cmp_pd::<_CMP_GT_OQ>(x, centre), _mm256_set1_pd(-0.0));
    let beside = _mm256_add_pd(q, _mm256_or_pd(_mm256_set1_pd(1.0), sign));
    let second = holds(beside, _mm256_mul_pd(beside, lanes.eb2));
    let integers = _mm256_set1_pd(INTEGERS);
    let sum = _mm256_castpd_si256(_mm256_add_pd(_mm256_blendv_pd(beside, q, nearest), integers));
    let q = _mm256_sub_epi64(sum, _mm256_castpd_si256(integers));
    let code = _mm256_xor_si256(_mm256_add_epi64(q, q), _mm256_cmpgt_epi64(_mm256_setzero_si256(), q));
    let code = _mm256_blendv_pd(x, _mm256_castsi256_pd(code), _mm256_or_pd(nearest, second));
    (_mm256_castpd_si256(code), _mm256_movemask_pd(nearest) == 0xF)
}

/// Codes of any block; gives their OR and whether a nearest bin fails.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn quantize_any(values: &[f64], lanes: &Lanes, codes: &mut WideCodes) -> (u64, bool) {
    let mut or = _mm256_setzero_si256();
    let mut missed = false;
    for (i, (code, four)) in codes.iter_mut().zip(values.chunks_exact(4)).enumerate() {
        if i % 2 == 0 {
            prefetch::<1>(four.as_ptr());
        }
        let held;
        (*code, held) = quantize(load(bytemuck::cast_slice(four)), lanes);
        or = _mm256_or_si256(or, *code);
        missed |= !held;
    }
    (or_halves(or), missed)
}

/// Low and high halves of eight words.
#[inline]
#[target_feature(enable = "avx2")]
fn split(a: V, b: V) -> [V; 2] {
    let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
    let halves = [_mm256_shuffle_ps::<0b10_00_10_00>(a, b), _mm256_shuffle_ps::<0b11_01_11_01>(a, b)];
    halves.map(|half| _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(half)))
}

/// The reverse of [`split`].
#[inline]
#[target_feature(enable = "avx2")]
fn join(low: V, high: V) -> [V; 2] {
    let (a, b) = (_mm256_unpacklo_epi32(low, high), _mm256_unpackhi_epi32(low, high));
    [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn wide_mask() -> V {
    _mm256_set1_epi32(MASK as i32)
}

/// Negabinary differences of a block's codes in natural order, in halves; gives their OR. `before` is the code before the block.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn differences(codes: &WideCodes, before: u64, low: &mut Codes, high: &mut Codes) -> u64 {
    let mask = wide_mask();
    let mut or = _mm256_setzero_si256();
    let mut before = _mm256_set1_epi64x(before as i64);
    let mut difference = |code: V| {
        let shifted = _mm256_alignr_epi8::<8>(code, _mm256_permute2x128_si256::<0x21>(before, code));
        before = code;
        let word = _mm256_xor_si256(_mm256_add_epi64(_mm256_sub_epi64(code, shifted), mask), mask);
        or = _mm256_or_si256(or, word);
        word
    };
    for ((codes, low), high) in codes.as_chunks::<2>().0.iter().zip(low).zip(high) {
        [*low, *high] = split(difference(codes[0]), difference(codes[1]));
    }
    or_halves(or)
}

/// Codes `values` to the start of `out`; see [`Chunked::encode`](super::super::Chunked::encode).
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub fn encode(values: &[f64], step: &Step<f64>, scratch: &mut Scratch, out: &mut [u8]) -> u32 {
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
    buffers.habits.entry = eliminate::<64>(buffers, &made, planes, out);
    buffers.habits.entry
}

/// Steps 1 to 4 of the format; gives the number of planes in use, and how many were made of each block.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn fill_planes(values: &[f64], lanes: &Lanes, buffers: &mut Buffers, out: &[u8]) -> (usize, [u32; 16]) {
    let Buffers { pieces, habits, .. } = buffers;
    let zero = _mm256_setzero_si256();
    let (mut short_codes, mut short_words) = ([zero; 16], [zero; 16]);
    let (mut codes, mut high, mut words) = ([zero; 32], [zero; 32], [zero; 32]);
    let mut wide_codes = [zero; 64];
    let mut made = [0; 16];
    let (mut before, mut all) = (0u64, 0);
    for (block, values) in values.chunks_exact(256).enumerate() {
        ask::to_write::<{ 2 * BLOCKS }>(out, habits.entry, 2 * block);
        let mut short = !habits.long && before <= SHORT.into() && quantize_short(values, lanes, &mut short_codes);
        let mut last = u64::from(bytemuck::cast_slice::<V, u16>(&short_codes)[255]);
        let mut missed = false;
        if !short {
            let fits = before <= LIMIT.into();
            let mut span = if fits && !habits.expects_misses() { quantize_near(values, lanes, before as u32, &mut codes) } else { None };
            if span.is_none() {
                let or;
                (or, missed) = quantize_any(values, lanes, &mut wide_codes);
                if fits && or <= (LIMIT / 2).into() {
                    let mut any = Span::of(before as u32);
                    for (row, codes) in codes.iter_mut().zip(wide_codes.as_chunks::<2>().0) {
                        *row = split(codes[0], codes[1])[0];
                        any.add(*row);
                    }
                    span = Some(any);
                }
            }
            habits.long = true;
            if let Some(span) = span {
                let code = bytemuck::cast_slice::<V, u32>(&codes)[255];
                last = code.into();
                habits.long = missed || !span.upto(SHORT);
                short = span.is_short(code);
                if short {
                    shorten(&codes, &mut short_codes);
                }
            } else {
                last = bytemuck::cast_slice::<V, u64>(&wide_codes)[255];
                let or = differences(&wide_codes, before, &mut codes, &mut high);
                columns::<false>(&codes, 0, &mut words);
                planes::<64, 63, 4, false>(&words, block, pieces);
                columns::<false>(&high, 0, &mut words);
                made[block] = 32 + long_to_planes::<64, 31>(&words, (or >> 32) as u32, block, pieces);
                all |= or;
                before = last;
                habits.missed = habits.missed << 1 | u16::from(missed);
                continue;
            }
        }
        habits.missed = habits.missed << 1 | u16::from(missed);
        ask::to_write::<{ 2 * BLOCKS }>(out, habits.entry, 2 * block + 1);
        let or;
        (made[block], or) = if short {
            let or = short_columns::<64>(&short_codes, before as u32, &mut short_words);
            (short_to_planes::<64, 63>(&short_words, or, block, pieces), (or | or >> 16) & 0xFFFF)
        } else {
            let or = columns::<true>(&codes, before as u32, &mut words);
            (long_to_planes::<64, 63>(&words, or, block, pieces), or)
        };
        all |= u64::from(or);
        before = last;
    }
    (64 - all.leading_zeros() as usize, made)
}

decoder!(f64);

/// Steps 4 to 1 backwards, where the strips before `first` are 0.
#[target_feature(enable = "avx2,lzcnt")]
fn read<P: Place>(coded: Coded<'_>, first: usize, pieces: &mut Pieces, lanes: &Lanes, places: &mut [P]) {
    let mut cleared = planes_read((64 - 2 * first).min(32));
    pieces.clear::<64>(cleared, first);
    let in_use = pieces.planes_in_use::<64>(first);
    let zero = _mm256_setzero_si256();
    let mut codes = BlockCodes { long: [zero; 32], short: [zero; 16] };
    let mut before = 0u64;
    for (block, rows) in places.as_chunks_mut::<2>().0.as_chunks_mut().0.iter_mut().enumerate() {
        ask::for_next::<BLOCKS>(&coded, block);
        let [high, low] = [block, BLOCKS + block].map(|i| 32 - in_use[i].leading_zeros() as usize);
        if high == 0 && before <= LIMIT.into() {
            let mut low_before = _mm256_set1_epi32(before as i32);
            let short = read_codes::<64, 63>(&pieces.bytes, block, low, &mut low_before, &mut codes);
            if short {
                dequantize_short(&codes.short, lanes, rows);
            }
            if short || dequantize(&codes.long, lanes, rows) {
                before = u64::from(_mm256_extract_epi32::<0>(low_before) as u32);
                continue;
            }
        }
        if cleared < 64 {
            cleared = 64;
            pieces.clear::<64>(64, first);
        }
        before = read_wide(&pieces.bytes, block, planes_read(high), before, lanes, rows);
    }
}

/// Values of twice their bins: 2 q · eb rounds as q · eb2.
#[inline]
#[target_feature(enable = "avx2")]
fn scale(twice: V, lanes: &Lanes) -> [V; 2] {
    doubles(twice).map(|twice| _mm256_castpd_si256(_mm256_mul_pd(twice, lanes.eb)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn put<P: Place>(row: &mut [P; 2], values: [V; 2]) {
    if !P::STREAMED {
        prefetch_to_write(row);
    }
    row[0].put(values[0]);
    row[1].put(values[1]);
}

#[inline]
#[target_feature(enable = "avx2")]
fn dequantize_short<P: Place>(codes: &ShortCodes, lanes: &Lanes, rows: &mut [[P; 2]; 32]) {
    for i in 0..16 {
        for (k, twice) in lengthen(twice_bins(codes[i])).into_iter().enumerate() {
            put(&mut rows[i + 16 * k], scale(twice, lanes));
        }
    }
}

/// Values of codes that have been computed in 32 bits. False: one of these is above [`LIMIT`], so that they may be wrong. Otherwise they
/// are not: 32 digits make a difference of at most `LIMIT` up and twice that down, so that a sum which leaves 32 bits shows.
#[inline]
#[target_feature(enable = "avx2")]
fn dequantize<P: Place>(codes: &Codes, lanes: &Lanes, rows: &mut [[P; 2]; 32]) -> bool {
    let limit = _mm256_set1_epi32(LIMIT as i32);
    let mut most = limit;
    for (row, &code) in rows.iter_mut().zip(codes) {
        most = _mm256_max_epu32(most, code);
        put(row, scale(twice_bin(code), lanes));
    }
    _mm256_movemask_epi8(_mm256_cmpeq_epi32(most, limit)) == -1
}

/// Reads a block in 64 bits, with all the low planes and so many of the high ones. Gives its last code; `before` is that before it.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn read_wide<P: Place>(bytes: &[V; 512], block: usize, high_planes: usize, before: u64, lanes: &Lanes, rows: &mut [[P; 2]; 32]) -> u64 {
    let zero = _mm256_setzero_si256();
    let (mut half, mut low, mut high) = ([zero; 32], [zero; 32], [zero; 32]);
    words::<64, 63, 4, false>(bytes, block, &mut half);
    to_rows::<false>(&half, [zero; 4], &mut low);
    match high_planes {
        8 => words::<64, 31, 1, false>(bytes, block, &mut half),
        12 | 16 => words::<64, 31, 2, false>(bytes, block, &mut half),
        _ => words::<64, 31, 4, false>(bytes, block, &mut half),
    };
    to_rows::<false>(&half, [zero; 4], &mut high);
    let mut before = _mm256_set1_epi64x(before as i64);
    for ((row, &low), &high) in rows.iter_mut().zip(&low).zip(&high) {
        let values = join(low, high).map(|words| {
            let difference = _mm256_sub_epi64(words, wide_mask());
            let sums = _mm256_add_epi64(difference, _mm256_slli_si256::<8>(difference));
            let lower = _mm256_permute2x128_si256::<0x08>(sums, sums);
            let sums = _mm256_add_epi64(sums, _mm256_unpackhi_epi64(lower, lower));
            let code = _mm256_add_epi64(before, sums);
            before = _mm256_add_epi64(before, _mm256_permute4x64_epi64::<0b11_11_11_11>(sums));
            _mm256_castpd_si256(dequantize_wide(code, lanes))
        });
        put(row, values);
    }
    _mm256_extract_epi64::<0>(before) as u64
}

/// Values of any four codes.
#[inline]
#[target_feature(enable = "avx2")]
fn dequantize_wide(code: V, lanes: &Lanes) -> __m256d {
    let zero = _mm256_setzero_si256();
    let odd = _mm256_and_si256(code, _mm256_set1_epi64x(1));
    let q = _mm256_xor_si256(_mm256_srli_epi64::<1>(code), _mm256_sub_epi64(zero, odd));
    let integers = _mm256_set1_pd(INTEGERS);
    let q = _mm256_sub_pd(_mm256_castsi256_pd(_mm256_add_epi64(q, _mm256_castpd_si256(integers))), integers);
    let bin = _mm256_mul_pd(q, lanes.eb2);
    let small = _mm256_cmpeq_epi64(_mm256_srli_epi64::<52>(code), zero);
    _mm256_blendv_pd(_mm256_castsi256_pd(code), bin, _mm256_castsi256_pd(small))
}
