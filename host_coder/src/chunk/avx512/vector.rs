//! 64-byte vectors: memory, and the transposes that both element types share.

use std::arch::x86_64::*;
use std::ptr;

use bytemuck::{AnyBitPattern, NoUninit, Pod};

/// A cache line, of a plane or of anything else.
pub(super) type Line = [u8; 64];

/// A buffer aligned to lines.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Aligned<T>(pub(super) T);

/// An array over 0 to 7. (The library's loops over arrays do not have these functions' features, and so would be calls.)
macro_rules! eight {
    ($i:ident => $value:expr) => {
        eight!(@ $i $value; 0 1 2 3 4 5 6 7)
    };
    (@ $i:ident $value:expr; $($at:literal)*) => {
        [$({
            let $i = $at;
            $value
        }),*]
    };
}
pub(super) use eight;

/// The vector of any 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load<T: NoUninit>(from: &T) -> __m512i {
    const { assert!(size_of::<T>() == 64) };
    // SAFETY: `T` is 64 initialized bytes, and the load takes any alignment.
    unsafe { _mm512_loadu_si512(ptr::from_ref(from).cast()) }
}

/// The half vector of any 32 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_half<T: NoUninit>(from: &T) -> __m256i {
    const { assert!(size_of::<T>() == 32) };
    // SAFETY: `T` is 32 initialized bytes, and the load takes any alignment.
    unsafe { _mm256_loadu_si256(ptr::from_ref(from).cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store<T: AnyBitPattern>(to: &mut T, vector: __m512i) {
    const { assert!(size_of::<T>() == 64) };
    // SAFETY: `T` is 64 bytes that may hold anything, and the store takes any alignment.
    unsafe { _mm512_storeu_si512(ptr::from_mut(to).cast(), vector) }
}

/// Writes past the caches where `STREAMED`, to be followed by [`fence`].
///
/// # Panics
/// Where `STREAMED` and `to` is not aligned to 16 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn write<const STREAMED: bool, T: Pod>(to: &mut T, vector: __m512i) {
    if !STREAMED {
        return store(to, vector);
    }
    let to: &mut [__m128i; 4] = bytemuck::cast_mut(to);
    let lanes = [
        _mm512_castsi512_si128(vector),
        _mm512_extracti32x4_epi32::<1>(vector),
        _mm512_extracti32x4_epi32::<2>(vector),
        _mm512_extracti32x4_epi32::<3>(vector),
    ];
    for (to, lane) in to.iter_mut().zip(lanes) {
        // SAFETY: the reference is aligned; `fence` orders the write before what others may do with it.
        unsafe { _mm_stream_si128(to, lane) }
    }
}

/// Orders streamed writes before all later ones.
#[inline]
pub(super) fn fence() {
    // SAFETY: every x86-64 processor has it.
    unsafe { _mm_sfence() }
}

/// Fetches a line of any address into the caches.
#[inline]
pub(super) fn ask_for(line: *const i8) {
    // SAFETY: a hint; what the address is does not matter.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line) }
}

/// Rows of 8 words of 64 bits -> columns.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transpose_words(rows: [__m512i; 8]) -> [__m512i; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    let even = [_mm512_unpacklo_epi64(a, b), _mm512_unpacklo_epi64(c, d), _mm512_unpacklo_epi64(e, f), _mm512_unpacklo_epi64(g, h)];
    let odd = [_mm512_unpackhi_epi64(a, b), _mm512_unpackhi_epi64(c, d), _mm512_unpackhi_epi64(e, f), _mm512_unpackhi_epi64(g, h)];
    let ([a, c, e, g], [b, d, f, h]) = (transpose_lanes(even), transpose_lanes(odd));
    [a, b, c, d, e, f, g, h]
}

/// Rows of 4 lanes of 128 bits -> columns.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transpose_lanes([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab, cd) = (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0x44>(c, d));
    let (ef, gh) = (_mm512_shuffle_i64x2::<0xee>(a, b), _mm512_shuffle_i64x2::<0xee>(c, d));
    [
        _mm512_shuffle_i64x2::<0x88>(ab, cd),
        _mm512_shuffle_i64x2::<0xdd>(ab, cd),
        _mm512_shuffle_i64x2::<0x88>(ef, gh),
        _mm512_shuffle_i64x2::<0xdd>(ef, gh),
    ]
}
