//! Words of a block -> lines of its planes.
//!
//! A block's 512 words make 64 octets of 8 consecutive words; octet bits are named by the bits of a value's number, v8 to v3. Lines are
//! made from 8 vectors, one for each z = (v7 v6 v5), of 64 bytes: one byte of 64 words, octet q at bytes 8q to 8q + 7.
//!
//! ```text
//! split    vectors of words -> for each byte of a word, the vector of z; which octet bit is where in q depends on the words
//! gf2p8    with the bytes as the matrix: in every octet, byte i = bit i of its 8 bytes, the first word's on top
//! spread   byte permute: 4 bytes (v4 v3, in a group's byte order) of each bit i, those of v8 = 0 in the low half
//! lines    transpose z against i: 32-bit words, 64-bit words, lanes; bits that no word reaches are left out from the first on
//! ```

use std::arch::x86_64::*;

use super::vector::{Line, load, transpose_lanes, transpose_words};

/// A permutation of a vector's bytes.
macro_rules! bytes {
    (|$i:ident| $from:expr) => {
        load(
            &const {
                let mut bytes: Line = [0; 64];
                let mut $i = 0;
                while $i < 64 {
                    bytes[$i] = $from as u8;
                    $i += 1;
                }
                bytes
            },
        )
    };
}

/// The byte order in which the octets of 64 words become 32-bit pieces of lines, bit i of (v8 v4 v3): 2 lanes of v8 = 0, then 2 of v8 = 1;
/// i1 picks the lane, i2 and i0 the piece.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn spread(octets: Octets) -> __m512i {
    match octets {
        Octets::InOrder => bytes!(|i| (i / 32 * 4 + (i & 3 ^ 3)) * 8 + i / 16 % 2 * 2 + i / 8 % 2 * 4 + i / 4 % 2),
        Octets::HalvesLast => bytes!(|i| ((i & 3 ^ 3) * 2 + i / 32) * 8 + i / 16 % 2 * 2 + i / 8 % 2 * 4 + i / 4 % 2),
    }
}

/// Where a split puts octets: at (v8 v4 v3) or (v4 v3 v8).
#[derive(Clone, Copy)]
pub(super) enum Octets {
    InOrder,
    HalvesLast,
}

/// Bit i of 64 octets of bytes, for a vector of every z.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi,gfni")]
pub(super) fn bits(bytes: __m512i, spread: __m512i) -> __m512i {
    let unit = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    _mm512_permutexvar_epi8(spread, _mm512_gf2p8affine_epi64_epi8::<0>(unit, bytes))
}

/// Lines of bits 0 to 3.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn low_lines(z: [__m512i; 8]) -> [__m512i; 4] {
    pieces(
        _mm512_unpacklo_epi32(z[0], z[1]),
        _mm512_unpacklo_epi32(z[2], z[3]),
        _mm512_unpacklo_epi32(z[4], z[5]),
        _mm512_unpacklo_epi32(z[6], z[7]),
    )
}

/// Lines of bits 4 to 7.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn high_lines(z: [__m512i; 8]) -> [__m512i; 4] {
    pieces(
        _mm512_unpackhi_epi32(z[0], z[1]),
        _mm512_unpackhi_epi32(z[2], z[3]),
        _mm512_unpackhi_epi32(z[4], z[5]),
        _mm512_unpackhi_epi32(z[6], z[7]),
    )
}

#[inline]
#[target_feature(enable = "avx512f")]
fn pieces(a: __m512i, b: __m512i, c: __m512i, d: __m512i) -> [__m512i; 4] {
    let (even, even_after) = (_mm512_unpacklo_epi64(a, b), _mm512_unpacklo_epi64(c, d));
    let (odd, odd_after) = (_mm512_unpackhi_epi64(a, b), _mm512_unpackhi_epi64(c, d));
    [first_lanes(even, even_after), first_lanes(odd, odd_after), second_lanes(even, even_after), second_lanes(odd, odd_after)]
}

/// Lanes a0 b0 a2 b2.
#[inline]
#[target_feature(enable = "avx512f")]
fn first_lanes(a: __m512i, b: __m512i) -> __m512i {
    _mm512_mask_shuffle_i64x2::<0b10_10_00_00>(a, 0b1100_1100, b, b)
}

/// Lanes a1 b1 a3 b3.
#[inline]
#[target_feature(enable = "avx512f")]
fn second_lanes(a: __m512i, b: __m512i) -> __m512i {
    _mm512_mask_shuffle_i64x2::<0b11_11_01_01>(b, 0b0011_0011, a, a)
}

/// Halves of 16-bit words, a word of the second half above one of the first: the bytes of each word of 64.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn split_u16_halves(words: &[Line; 16], z: usize) -> [__m512i; 2] {
    let (a, b) = (load(&words[2 * z]), load(&words[2 * z + 1]));
    let exchange = bytes!(|i| i ^ 1);
    // (v3 v2 v1 v0 v8 v4) -> (v8 v4 v3 v2 v1 v0)
    let order = bytes!(|i| (i / 8 % 2 * 8 + i % 8) * 4 + i / 32 * 2 + i / 16 % 2);
    let low = _mm512_mask_shuffle_epi8(a, 0xaaaa_aaaa_aaaa_aaaa, b, exchange);
    let high = _mm512_mask_shuffle_epi8(b, 0x5555_5555_5555_5555, a, exchange);
    [_mm512_permutexvar_epi8(order, low), _mm512_permutexvar_epi8(order, high)]
}

/// 32-bit words in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn split_u32(words: &[Line; 32], z: usize) -> [__m512i; 4] {
    // (v3 v2 v1 v0 byte) -> (byte v3 v2 v1 v0)
    let order = bytes!(|i| i % 16 * 4 + i / 16);
    let at = |v8: usize, v4: usize| _mm512_permutexvar_epi8(order, load(&words[16 * v8 + 2 * z + v4]));
    transpose_lanes([at(0, 0), at(0, 1), at(1, 0), at(1, 1)])
}

/// Halves of 32-bit words, a word of the second half above one of the first.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn split_u32_halves(words: &[Line; 32], z: usize) -> [__m512i; 4] {
    // (v2 v1 v0 v8 byte) -> (byte v8 v2 v1 v0)
    let order = bytes!(|i| i % 8 * 8 + i / 8 % 2 * 4 + i / 16);
    let at = |v4v3: usize| _mm512_permutexvar_epi8(order, load(&words[4 * z + v4v3]));
    transpose_lanes([at(0), at(1), at(2), at(3)])
}

/// 64-bit words in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn split_u64(words: &[Line; 64], z: usize) -> [__m512i; 8] {
    // (v2 v1 v0 byte) -> (byte v2 v1 v0)
    let order = bytes!(|i| i % 8 * 8 + i / 8);
    let at = |v8: usize, v4v3: usize| _mm512_permutexvar_epi8(order, load(&words[32 * v8 + 4 * z + v4v3]));
    transpose_words([at(0, 0), at(0, 1), at(0, 2), at(0, 3), at(1, 0), at(1, 1), at(1, 2), at(1, 3)])
}
