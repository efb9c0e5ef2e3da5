//! Lines of a block's planes -> codes in order.
//!
//! Octets are as in `planes`; a line's bytes are octets with the bits (v8 v7 v6 v5 v4 v3), of which the last two (binary64: three) are
//! inverted, as a group's words are little-endian. Unpacking keeps lanes: (v8 v7) is a lane of every vector below.
//!
//! ```text
//! octets   8 lines of one byte of the words, bits transposed across them: vector e = that byte of value e of 64 octets
//! sums     bytes unpacked to words: octets of one r, a prefix of (v6 v5 v4 v3); running sums along e
//! prefix   exclusive, of the octets' totals: in lanes (whose octets run backwards), over r, over lanes, from block to block
//! order    words of 8 e against the octets of a lane; lanes against the octets' last two bits
//! ```

use std::arch::x86_64::*;

use super::rze::Planes;
use super::vector::{Line, eight, load, store, transpose_lanes};

/// Bytes of a word of negabinary 0.
const ZERO: i8 = 0xAA_u8 as i8;

/// Byte b of the values of 64 octets, at [e], exclusive or'd with [`ZERO`].
#[inline]
#[target_feature(enable = "avx512f")]
fn octets<const WIDTH: usize, const BLOCKS: usize>(planes: &Planes, block: usize, b: usize) -> [__m512i; 8] {
    let planes: &[[Line; BLOCKS]; WIDTH] = planes.as_chunks().0.first_chunk().expect("all planes");
    let bit = |i: usize| load(&planes[WIDTH - 1 - (8 * b + i)][block]);
    let mut v = [bit(0), bit(1), bit(2), bit(3), bit(4), bit(5), bit(6), bit(7)];
    // 8 by 8 bit transpose: bit k of vector j <- bit j of vector k
    macro_rules! swap {
        ($shift:literal, $mask:literal: $($select:literal $low:literal $high:literal),*) => {
            let mask = _mm512_set1_epi8($mask);
            $(
                let (low, high) = (v[$low], v[$high]);
                v[$low] = _mm512_ternarylogic_epi64::<$select>(mask, low, _mm512_slli_epi64::<$shift>(high));
                v[$high] = _mm512_ternarylogic_epi64::<$select>(mask, _mm512_srli_epi64::<$shift>(low), high);
            )*
        };
    }
    // 0xca: mask ? second : third; 0x35: its complement, for the odd bits
    swap!(4, 0x0f: 0xca 0 4, 0x35 1 5, 0xca 2 6, 0x35 3 7);
    swap!(2, 0x33: 0xca 0 2, 0xca 1 3, 0xca 4 6, 0xca 5 7);
    swap!(1, 0x55: 0xca 0 1, 0xca 2 3, 0xca 4 5, 0xca 6 7);
    let [h, g, f, e, d, c, b, a] = v;
    [a, b, c, d, e, f, g, h]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words_u16([a, b]: [__m512i; 2]) -> [__m512i; 2] {
    [_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words_u32([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let ([a, b], [c, d]) = (words_u16([a, b]), words_u16([c, d]));
    [_mm512_unpacklo_epi16(a, c), _mm512_unpackhi_epi16(a, c), _mm512_unpacklo_epi16(b, d), _mm512_unpackhi_epi16(b, d)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words_u64([a, b, c, d, e, f, g, h]: [__m512i; 8]) -> [__m512i; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (words_u32([a, b, c, d]), words_u32([e, f, g, h]));
    [
        _mm512_unpacklo_epi32(a, e),
        _mm512_unpackhi_epi32(a, e),
        _mm512_unpacklo_epi32(b, f),
        _mm512_unpackhi_epi32(b, f),
        _mm512_unpacklo_epi32(c, g),
        _mm512_unpackhi_epi32(c, g),
        _mm512_unpacklo_epi32(d, h),
        _mm512_unpackhi_epi32(d, h),
    ]
}

macro_rules! sums {
    ($name:ident, $words_of:literal, $words:ident, $add:ident, $sub:ident) => {
        /// Running sums of the differences of each octet of a block whose words use `N` bytes, at [e][r]. `FLIP` inverts the bits of r
        /// that a line's bytes have inverted.
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw")]
        pub(super) fn $name<const N: usize, const WIDTH: usize, const BLOCKS: usize, const FLIP: usize>(
            planes: &Planes,
            block: usize,
        ) -> [[__m512i; $words_of]; 8] {
            let m = _mm512_set1_epi8(ZERO);
            let mut octets = [[m; 8]; $words_of];
            for b in 0..N.min($words_of) {
                octets[b] = self::octets::<WIDTH, BLOCKS>(planes, block, b);
            }
            let mut sum = [_mm512_setzero_si512(); $words_of];
            eight!(e => {
                let mut bytes = [m; $words_of];
                for b in 0..$words_of {
                    bytes[b] = octets[b][e];
                }
                let words = $words(bytes);
                for r in 0..$words_of {
                    sum[r] = $add(sum[r], $sub(words[r ^ FLIP], m));
                }
                sum
            })
        }
    };
}

sums!(sums_u16, 2, words_u16, _mm512_add_epi16, _mm512_sub_epi16);
sums!(sums_u32, 4, words_u32, _mm512_add_epi32, _mm512_sub_epi32);
sums!(sums_u64, 8, words_u64, _mm512_add_epi64, _mm512_sub_epi64);

/// Codes before each octet from the octets' totals and the code before the block; then the block's last, in every word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn prefix_u16(totals: [__m512i; 2], last: u16) -> ([__m512i; 2], __m512i) {
    let first_of_4 = _mm512_set4_epi32(0x0908_0908, 0x0908_0908, 0x0100_0100, 0x0100_0100);
    let mut sum = _mm512_setzero_si512();
    let mut before = [sum; 2];
    for r in 0..2 {
        let s = _mm512_add_epi16(totals[r], _mm512_srli_epi64::<16>(totals[r]));
        let s = _mm512_add_epi16(s, _mm512_srli_epi64::<32>(s));
        let four = _mm512_shuffle_epi8(s, first_of_4);
        let s = _mm512_add_epi16(_mm512_srli_epi64::<16>(s), _mm512_bslli_epi128::<8>(four));
        before[r] = _mm512_add_epi16(s, sum);
        sum = _mm512_add_epi16(sum, _mm512_add_epi16(four, _mm512_shuffle_epi32::<0b01_00_11_10>(four)));
    }
    let (base, sum) = lanes_before(sum, _mm512_set1_epi16(last as i16), |a, b| _mm512_add_epi16(a, b));
    (before.map(|before| _mm512_add_epi16(before, base)), sum)
}

/// The same of 32 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn prefix_u32(totals: [__m512i; 4], last: u32) -> ([__m512i; 4], __m512i) {
    let mut sum = _mm512_setzero_si512();
    let mut before = [sum; 4];
    for r in 0..4 {
        let s = _mm512_add_epi32(totals[r], _mm512_bsrli_epi128::<4>(totals[r]));
        let s = _mm512_add_epi32(s, _mm512_bsrli_epi128::<8>(s));
        before[r] = _mm512_add_epi32(_mm512_bsrli_epi128::<4>(s), sum);
        sum = _mm512_add_epi32(sum, _mm512_shuffle_epi32::<0>(s));
    }
    let (base, sum) = lanes_before(sum, _mm512_set1_epi32(last as i32), |a, b| _mm512_add_epi32(a, b));
    (before.map(|before| _mm512_add_epi32(before, base)), sum)
}

/// The same of 64 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn prefix_u64(totals: [__m512i; 8], last: u64) -> ([__m512i; 8], __m512i) {
    let mut sum = _mm512_setzero_si512();
    let mut before = [sum; 8];
    for r in 0..8 {
        let s = _mm512_bsrli_epi128::<8>(totals[r]);
        before[r] = _mm512_add_epi64(s, sum);
        let s = _mm512_add_epi64(totals[r], s);
        sum = _mm512_add_epi64(sum, _mm512_unpacklo_epi64(s, s));
    }
    let (base, sum) = lanes_before(sum, _mm512_set1_epi64(last as i64), |a, b| _mm512_add_epi64(a, b));
    (before.map(|before| _mm512_add_epi64(before, base)), sum)
}

/// `last` plus the sums of the lanes before each; then plus those of all.
#[inline]
#[target_feature(enable = "avx512f")]
fn lanes_before(sum: __m512i, last: __m512i, add: impl Fn(__m512i, __m512i) -> __m512i) -> (__m512i, __m512i) {
    let zero = _mm512_setzero_si512();
    let s = add(sum, _mm512_alignr_epi64::<6>(sum, zero));
    let s = add(s, _mm512_alignr_epi64::<4>(s, zero));
    (add(last, _mm512_alignr_epi64::<6>(s, zero)), add(last, _mm512_shuffle_i64x2::<0xff>(s, s)))
}

/// Words e of the octets of r -> their place in the block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn order_u16(c: [__m512i; 8], r: usize, block: &mut [Line; 16]) {
    let [a, b, c, d, e, f, g, h] = c;
    let low = [_mm512_unpacklo_epi16(a, b), _mm512_unpacklo_epi16(c, d), _mm512_unpacklo_epi16(e, f), _mm512_unpacklo_epi16(g, h)];
    let high = [_mm512_unpackhi_epi16(a, b), _mm512_unpackhi_epi16(c, d), _mm512_unpackhi_epi16(e, f), _mm512_unpackhi_epi16(g, h)];
    for (v5, [a, b, c, d]) in [low, high].into_iter().enumerate() {
        let (p, q) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (s, t) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        let octets = [_mm512_unpackhi_epi64(q, t), _mm512_unpacklo_epi64(q, t), _mm512_unpackhi_epi64(p, s), _mm512_unpacklo_epi64(p, s)];
        for (lane, words) in transpose_lanes(octets).into_iter().enumerate() {
            store(&mut block[4 * lane + 2 * r + v5], words);
        }
    }
}

/// The same of 32 bits.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn order_u32(c: [__m512i; 8], r: usize, block: &mut [Line; 32]) {
    let mut octets = [[_mm512_setzero_si512(); 2]; 4];
    for h in 0..2 {
        let (a, b) = (_mm512_unpacklo_epi32(c[4 * h], c[4 * h + 1]), _mm512_unpackhi_epi32(c[4 * h], c[4 * h + 1]));
        let (x, y) = (_mm512_unpacklo_epi32(c[4 * h + 2], c[4 * h + 3]), _mm512_unpackhi_epi32(c[4 * h + 2], c[4 * h + 3]));
        octets[3][h] = _mm512_unpacklo_epi64(a, x);
        octets[2][h] = _mm512_unpackhi_epi64(a, x);
        octets[1][h] = _mm512_unpacklo_epi64(b, y);
        octets[0][h] = _mm512_unpackhi_epi64(b, y);
    }
    for v4 in 0..2 {
        let ([a, b], [x, y]) = (octets[2 * v4], octets[2 * v4 + 1]);
        for (lane, words) in transpose_lanes([a, b, x, y]).into_iter().enumerate() {
            store(&mut block[8 * lane + 2 * r + v4], words);
        }
    }
}

/// The same of 64 bits.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn order_u64(c: [__m512i; 8], r: usize, block: &mut [Line; 64]) {
    let mut octets = [[_mm512_setzero_si512(); 4]; 2];
    for pair in 0..4 {
        octets[1][pair] = _mm512_unpacklo_epi64(c[2 * pair], c[2 * pair + 1]);
        octets[0][pair] = _mm512_unpackhi_epi64(c[2 * pair], c[2 * pair + 1]);
    }
    for (v3, pairs) in octets.into_iter().enumerate() {
        for (lane, words) in transpose_lanes(pairs).into_iter().enumerate() {
            store(&mut block[16 * lane + 2 * r + v3], words);
        }
    }
}
