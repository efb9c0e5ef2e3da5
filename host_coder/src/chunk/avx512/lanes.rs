//! The intrinsics of each kind of lane under one name.

use std::arch::x86_64::__m512i as Vector;

/// Words in order, or halves of a block of words, a word of the second half above one of the first: `align` shifts by a word's lane.
macro_rules! words {
    ($name:ident: $align:ident, $add:ident, $sub:ident, $set1:ident, $sra:ident; $($item:item)*) => {
        pub(super) mod $name {
            pub(in super::super) use std::arch::x86_64::{$add as add, $align as align, $set1 as set1, $sra as sra, $sub as sub};

            $($item)*
        }
    };
}

words!(u16_halves: _mm512_alignr_epi32, _mm512_add_epi16, _mm512_sub_epi16, _mm512_set1_epi16, _mm512_srai_epi16;
    pub(in super::super) use std::arch::x86_64::{_mm512_mask_sub_epi16 as mask_sub, _mm512_test_epi16_mask as test};

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(in super::super) fn pack(low: super::Vector, high: super::Vector) -> super::Vector {
    use std::arch::x86_64::*;
    let up = _mm512_set4_epi32(0x0d0c_8080, 0x0908_8080, 0x0504_8080, 0x0100_8080_u32 as i32);
    _mm512_mask_shuffle_epi8(low, 0xcccc_cccc_cccc_cccc, high, up)
});
words!(u32: _mm512_alignr_epi32, _mm512_add_epi32, _mm512_sub_epi32, _mm512_set1_epi32, _mm512_srai_epi32;);
words!(u32_halves: _mm512_alignr_epi64, _mm512_add_epi32, _mm512_sub_epi32, _mm512_set1_epi32, _mm512_srai_epi32;
    pub(in super::super) use std::arch::x86_64::{_mm512_mask_sub_epi32 as mask_sub, _mm512_test_epi32_mask as test};

#[inline]
#[target_feature(enable = "avx512f")]
pub(in super::super) fn pack(low: super::Vector, high: super::Vector) -> super::Vector {
    std::arch::x86_64::_mm512_mask_shuffle_epi32::<0b10_10_00_00>(low, 0xaaaa, high)
});
words!(u64: _mm512_alignr_epi64, _mm512_add_epi64, _mm512_sub_epi64, _mm512_set1_epi64, _mm512_srai_epi64;);

pub(super) mod f32 {
    use std::arch::x86_64::{__m256i, _mm512_cvtepi16_epi32};

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(in super::super) fn from_half_int(words: __m256i) -> Vector {
        from_int(_mm512_cvtepi16_epi32(words))
    }

    pub(in super::super) use std::arch::x86_64::{
        __m512 as Vector, __mmask16 as Mask, _mm512_abs_ps as abs, _mm512_add_ps as add, _mm512_castps_si512 as bits,
        _mm512_castsi512_ps as from_bits, _mm512_cmp_ps_mask as cmp, _mm512_cmplt_epu32_mask as below, _mm512_cvtepi32_ps as from_int,
        _mm512_cvtps_epi32 as to_int, _mm512_mask_blend_epi32 as blend_bits, _mm512_mask_blend_ps as blend, _mm512_mask_mul_ps as mask_mul,
        _mm512_maskz_mul_ps as maskz_mul, _mm512_mul_ps as mul, _mm512_range_ps as range, _mm512_reduce_or_epi32 as or,
        _mm512_roundscale_ps as round, _mm512_set1_ps as set1, _mm512_sub_ps as sub, _mm512_test_epi32_mask as test,
    };
}

pub(super) mod f64 {
    pub(in super::super) use std::arch::x86_64::_mm512_cvtepi32_pd as from_half_int;
    pub(in super::super) use std::arch::x86_64::{
        __m512d as Vector, __mmask8 as Mask, _mm512_abs_pd as abs, _mm512_add_pd as add, _mm512_castpd_si512 as bits,
        _mm512_castsi512_pd as from_bits, _mm512_cmp_pd_mask as cmp, _mm512_cmplt_epu64_mask as below, _mm512_cvtepi64_pd as from_int,
        _mm512_cvtpd_epi64 as to_int, _mm512_mask_blend_epi64 as blend_bits, _mm512_mask_blend_pd as blend, _mm512_mask_mul_pd as mask_mul,
        _mm512_maskz_mul_pd as maskz_mul, _mm512_mul_pd as mul, _mm512_range_pd as range, _mm512_reduce_or_epi64 as or,
        _mm512_roundscale_pd as round, _mm512_set1_pd as set1, _mm512_sub_pd as sub, _mm512_test_epi64_mask as test,
    };
}
