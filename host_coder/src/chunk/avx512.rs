//! The AVX-512 coder.
//!
//! It needs F, BW, DQ, VL, VBMI, VBMI2, BITALG, VPOPCNTDQ and GFNI: Ice Lake, Zen 4 and later.
//!
//! A chunk is coded in blocks of 512 values, 64 bytes of each plane, so that a line of a plane is a vector. With `zmm[i]` the
//! vectors of a block in natural order:
//!
//! ```text
//! encode  quantize    bin = x * inv + magic - magic; a block with a miss again, with the second try everywhere
//!         difference  code - valign(code, the vector before); negabinary
//!         split       byte permute and a transpose of words or lanes: byte b of 64 codes in one vector
//!         planes      gf2p8affine with the bytes as the matrix: in every word, byte i = bit i of 8 codes, the first on top
//!                     byte permute: words become planes, octets in the byte order of a group
//!                     transpose of words across 8 vectors: a line of each of 8 planes
//! decode  octets      bit transpose across the lines of 8 planes: vector e holds value e of 64 octets
//!         widen       unpack the bytes to codes: again value e of some octets, several vectors
//!         sums        each octet's total; their exclusive prefix; from there along the octet
//!         order       transpose back, value of the bin or the code's own bits
//! ```

mod rze;
mod vector;

use rze::{Buffers, Planes};

/// This processor has every feature that the functions here enable.
pub fn available() -> bool {
    macro_rules! all {
        ($($feature:tt)*) => { $(is_x86_feature_detected!($feature))&&* };
    }
    all!("avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vbmi" "avx512vbmi2" "avx512bitalg" "avx512vpopcntdq" "gfni" "bmi1" "bmi2" "lzcnt" "popcnt")
}

/// Working memory of a thread.
pub struct Scratch(Box<Buffers>);

impl Default for Scratch {
    fn default() -> Self {
        Self(Box::new(Buffers::new()))
    }
}

/// Values of a block.
const BLOCK: usize = 512;

macro_rules! coder {
    ($value:ident, $code:ty, lanes $lanes:literal, radius $radius:literal, magic $magic:literal, flip $flip:literal, $vector:ty,
     set1 $set1:ident, set1_code $set1_code:ident, add $add:ident, sub $sub:ident, mul $mul:ident, abs $abs:ident, range $range:ident,
     round $round:ident, cmp $cmp:ident, blend $blend:ident, blend_code $blend_code:ident, mask_mul $mask_mul:ident,
     to_code $to_code:ident, to_value $to_value:ident, bits $bits:ident, from_bits $from_bits:ident, cmp_code $cmp_code:ident,
     code_add $code_add:ident, code_sub $code_sub:ident, sra $sra:ident, min $min:ident, max $max:ident, align $align:ident, or $or:ident) => {
        pub mod $value {
            use std::arch::x86_64::*;

            use super::vector::*;
            use super::*;
            use crate::chunk::{Coded, Step};
            use crate::header::CHUNK_BYTES;

            const WIDTH: usize = <$code>::BITS as usize;
            /// Values of a vector.
            const LANES: usize = 512 / WIDTH;
            const CODES: usize = CHUNK_BYTES * 8 / WIDTH;
            const BLOCKS: usize = CODES / BLOCK;
            /// Vectors of a block.
            const VECTORS: usize = BLOCK / LANES;
            /// Bytes of a code.
            const BYTES: usize = WIDTH / 8;
            const NEGABINARY: $code = (0xAAAA_AAAA_AAAA_AAAA_u64 >> (64 - WIDTH)) as $code;
            const RADIUS: $value = $radius;
            /// 1.5 times the power of two whose successor is one more: adding it rounds to the nearest integer, ties to even, and
            /// leaves the integer in the low bits. Exact for what rounds to less than the radius.
            const MAGIC: $value = $magic;

            type Block<T> = Aligned<[[T; LANES]; VECTORS]>;

            #[derive(Clone, Copy)]
            struct Steps {
                eb: $vector,
                eb2: $vector,
                inv: $vector,
            }

            #[inline]
            #[target_feature(enable = "avx512f")]
            fn steps(step: &Step<$value>) -> Steps {
                Steps { eb: $set1(step.eb), eb2: $set1(step.eb2), inv: $set1(step.inv) }
            }

            #[inline]
            #[target_feature(enable = "avx512f")]
            fn load_values(values: &[$value; LANES]) -> $vector {
                $from_bits(load(values))
            }

            #[inline]
            #[target_feature(enable = "avx512f")]
            fn zigzag(q: __m512i) -> __m512i {
                _mm512_xor_si512($code_add(q, q), $sra::<{ WIDTH as u32 - 1 }>(q))
            }

            /// Codes of a block whose nearest bins all hold. False: some do not, and the codes are not valid.
            #[target_feature(enable = "avx512f,avx512dq")]
            fn quantize_nearest(values: &[[$value; LANES]; VECTORS], s: Steps, codes: &mut Block<$code>) -> bool {
                let magic = $set1(MAGIC);
                let magic_bits = $set1_code(MAGIC.to_bits() as _);
                let mut error = $set1(0.0);
                let (mut low, mut high) = (magic_bits, magic_bits);
                for (values, codes) in values.iter().zip(&mut codes.0) {
                    let x = load_values(values);
                    let shifted = $add($mul(x, s.inv), magic);
                    let p = $mul($sub(shifted, magic), s.eb2);
                    // the larger magnitude; drops a NaN, whose shifted bits are out of range
                    error = $range::<0b1011>(error, $sub(x, p));
                    let bits = $bits(shifted);
                    (low, high) = ($min(low, bits), $max(high, bits));
                    store(codes, zigzag($code_sub(bits, magic_bits)));
                }
                let radius = $set1_code(RADIUS as _);
                let least = $code_sub(magic_bits, radius);
                let most = $code_add(magic_bits, radius);
                ($cmp::<_CMP_NLE_UQ>(error, s.eb) | $cmp_code::<_MM_CMPINT_LE>(low, least) | $cmp_code::<_MM_CMPINT_NLT>(high, most)) == 0
            }

            /// Codes of any block.
            #[target_feature(enable = "avx512f,avx512dq")]
            fn quantize(values: &[[$value; LANES]; VECTORS], s: Steps, codes: &mut Block<$code>) -> bool {
                let radius = $set1(RADIUS);
                let mut misses = 0;
                for (values, codes) in values.iter().zip(&mut codes.0) {
                    let x = load_values(values);
                    let q = $round::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>($mul(x, s.inv));
                    let p = $mul(q, s.eb2);
                    let nearest = $cmp::<_CMP_LE_OQ>($abs($sub(x, p)), s.eb) & $cmp::<_CMP_LT_OQ>($abs(q), radius);
                    let side = $blend($cmp::<_CMP_GT_OQ>(x, p), $set1(-1.0), $set1(1.0));
                    let beside = $add(q, side);
                    let p = $mul(beside, s.eb2);
                    let second = $cmp::<_CMP_LE_OQ>($abs($sub(x, p)), s.eb) & $cmp::<_CMP_LT_OQ>($abs(beside), radius);
                    let bin = zigzag($to_code($blend(nearest, beside, q)));
                    store(codes, $blend_code(nearest | second, $bits(x), bin));
                    misses += usize::from(nearest != !0);
                }
                misses != 0
            }

            /// Negabinary differences of a block's codes; `before` is the vector before, and becomes the last. Gives the bits used.
            #[target_feature(enable = "avx512f")]
            fn difference(codes: &mut Block<$code>, before: &mut __m512i) -> $code {
                let m = $set1_code(NEGABINARY as _);
                let mut used = _mm512_setzero_si512();
                for codes in &mut codes.0 {
                    let code = load(codes);
                    let d = $code_sub(code, $align::<{ LANES as i32 - 1 }>(code, *before));
                    let n = _mm512_xor_si512($code_add(d, m), m);
                    used = _mm512_or_si512(used, n);
                    store(codes, n);
                    *before = code;
                }
                $or(used) as $code
            }

            /// The planes of the low `N` bytes of a block's words.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
            fn planes<const N: usize>(words: &Block<$code>, block: usize, buffers: &mut Buffers) {
                // byte b of word v at LANES * b + v
                const SPLIT: Line = {
                    let mut split = [0; 64];
                    let mut i = 0;
                    while i < 64 {
                        split[i] = (i % LANES * BYTES + i / LANES) as u8;
                        i += 1;
                    }
                    split
                };
                // byte i of octet q at 8 * i + q, the octets of a group in the order of its bytes, last first
                const SPREAD: Line = {
                    let mut spread = [0; 64];
                    let mut i = 0;
                    while i < 64 {
                        spread[i] = ((i % 8 ^ $flip) * 8 + i / 8) as u8;
                        i += 1;
                    }
                    spread
                };
                let (split, spread) = (load(&SPLIT), load(&SPREAD));
                let unit = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
                let mut bytes = [[_mm512_setzero_si512(); 8]; N];
                for z in 0..8 {
                    let mut rows = [_mm512_setzero_si512(); BYTES];
                    for (row, words) in rows.iter_mut().zip(&words.0[BYTES * z..]) {
                        *row = _mm512_permutexvar_epi8(split, load(words));
                    }
                    let columns = transpose_bytes(rows);
                    for b in 0..N {
                        let octets = _mm512_gf2p8affine_epi64_epi8::<0>(unit, columns[b]);
                        bytes[b][z] = _mm512_permutexvar_epi8(spread, octets);
                    }
                }
                for b in 0..N {
                    let lines = transpose_words(bytes[b]);
                    for i in 0..8 {
                        buffers.set_line((WIDTH - 1 - (8 * b + i)) * BLOCKS + block, lines[i]);
                    }
                }
            }

            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt")]
            pub fn encode(values: &[$value], step: &Step<$value>, scratch: &mut Scratch, out: &mut [u8]) -> u32 {
                let mut padded;
                let values: &[$value; CODES] = match values.first_chunk() {
                    Some(values) => values,
                    None => {
                        padded = [0.0; CODES];
                        padded[..values.len()].copy_from_slice(values);
                        &padded
                    }
                };
                let s = steps(step);
                let buffers = &mut *scratch.0;
                let mut codes: Block<$code> = Aligned([[0; LANES]; VECTORS]);
                let mut before = _mm512_setzero_si512();
                let (mut used, mut made) = (0, [0; BLOCKS]);
                for (block, values) in values.as_chunks::<BLOCK>().0.iter().enumerate() {
                    let values = values.as_chunks::<LANES>().0.first_chunk().expect("a block");
                    if !quantize_nearest(values, s, &mut codes) {
                        quantize(values, s, &mut codes);
                    }
                    let bits = difference(&mut codes, &mut before);
                    used |= bits;
                    made[block] = (WIDTH - bits.leading_zeros() as usize).next_multiple_of(8);
                    put_planes(made[block] / 8, &codes, block, buffers);
                }
                let first = used.leading_zeros() as usize;
                for (block, &made) in made.iter().enumerate() {
                    for plane in first..WIDTH - made {
                        buffers.set_line(plane * BLOCKS + block, _mm512_setzero_si512());
                    }
                }
                buffers.eliminate_zeros(first * BLOCKS, out)
            }

            /// Codes in order from value e of the octets of one register, e = 0 to 7.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt")]
            pub fn decode(coded: Coded<'_>, step: &Step<$value>, scratch: &mut Scratch, values: &mut [$value]) -> bool {
                let Some((planes, first)) = scratch.0.restore_zeros(coded) else { return false };
                let s = steps(step);
                match values.first_chunk_mut() {
                    Some(values) => restore(planes, first / BLOCKS, s, values),
                    None => {
                        let mut whole = [0.0; CODES];
                        restore(planes, first / BLOCKS, s, &mut whole);
                        values.copy_from_slice(&whole[..values.len()]);
                    }
                }
                true
            }

            #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
            fn restore(planes: &Planes, first: usize, s: Steps, values: &mut [$value; CODES]) {
                let mut carry = _mm512_setzero_si512();
                let mut codes: Block<$code> = Aligned([[0; LANES]; VECTORS]);
                for (block, values) in values.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
                    let values = values.as_chunks_mut::<LANES>().0.first_chunk_mut().expect("a block");
                    restore_codes(planes, first, block, &mut carry, &mut codes);
                    dequantize(&codes, s, values);
                }
            }

            #[inline]
            #[target_feature(enable = "avx512f,avx512dq")]
            fn dequantize(codes: &Block<$code>, s: Steps, values: &mut [[$value; LANES]; VECTORS]) {
                let one = $set1_code(1);
                let end = $set1_code((2 * RADIUS as $code) as _);
                for (codes, values) in codes.0.iter().zip(values) {
                    let code = load(codes);
                    // 2q, exact as a value; its product with the bound rounds like that of q with twice the bound
                    let twice = _mm512_xor_si512(code, $code_sub(_mm512_setzero_si512(), _mm512_and_si512(code, one)));
                    let value = $mask_mul($from_bits(code), below(code, end), $to_value(twice), s.eb);
                    store(values, $bits(value));
                }
            }

            coder!(@$value $lanes);
        }
    };

    // the two widths' own shuffles
    (@f32 $lanes:literal) => {
        use transpose_lanes as transpose_bytes;

        #[inline]
        #[target_feature(enable = "avx512f")]
        fn below(code: __m512i, end: __m512i) -> __mmask16 {
            _mm512_cmplt_epu32_mask(code, end)
        }

        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
        fn put_planes(bytes: usize, words: &Block<u32>, block: usize, buffers: &mut Buffers) {
            match bytes {
                0 => {}
                1 => planes::<1>(words, block, buffers),
                2 => planes::<2>(words, block, buffers),
                3 => planes::<3>(words, block, buffers),
                _ => planes::<4>(words, block, buffers),
            }
        }

        #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
        fn restore_codes(planes: &Planes, first: usize, block: usize, carry: &mut __m512i, codes: &mut Block<u32>) {
            let m = _mm512_set1_epi32(NEGABINARY as i32);
            let zero = _mm512_setzero_si512();
            let mut octets = [[zero; 8]; BYTES];
            for b in first / 8..BYTES {
                let b = BYTES - 1 - (b);
                for i in 0..8 {
                    let plane = WIDTH - 1 - (8 * b + i);
                    octets[b][i] = if plane < first { zero } else { load(&planes[plane * BLOCKS + block]) };
                }
                transpose_bits(&mut octets[b]);
            }
            // d[e][r]: register r = octets 4r.. of each lane of 16, last first in every 4
            let mut d = [[zero; 4]; 8];
            let mut totals = [zero; 4];
            for e in 0..8 {
                let byte = |b: usize| octets[b][7 - e];
                let (a, b) = (_mm512_unpacklo_epi8(byte(0), byte(1)), _mm512_unpackhi_epi8(byte(0), byte(1)));
                let (g, h) = (_mm512_unpacklo_epi8(byte(2), byte(3)), _mm512_unpackhi_epi8(byte(2), byte(3)));
                d[e] = [_mm512_unpacklo_epi16(a, g), _mm512_unpackhi_epi16(a, g), _mm512_unpacklo_epi16(b, h), _mm512_unpackhi_epi16(b, h)];
                for r in 0..4 {
                    d[e][r] = _mm512_sub_epi32(_mm512_xor_si512(d[e][r], m), m);
                    totals[r] = _mm512_add_epi32(totals[r], d[e][r]);
                }
            }
            // exclusive prefix within the lanes, then over the lanes
            let mut sum = zero;
            let mut from = [zero; 4];
            for r in 0..4 {
                let s = _mm512_add_epi32(totals[r], _mm512_bsrli_epi128::<4>(totals[r]));
                let s = _mm512_add_epi32(s, _mm512_bsrli_epi128::<8>(s));
                from[r] = _mm512_add_epi32(_mm512_bsrli_epi128::<4>(s), sum);
                sum = _mm512_add_epi32(sum, _mm512_shuffle_epi32::<0>(s));
            }
            let s = _mm512_add_epi32(sum, _mm512_alignr_epi64::<6>(sum, zero));
            let s = _mm512_add_epi32(s, _mm512_alignr_epi64::<4>(s, zero));
            let base = _mm512_add_epi32(*carry, _mm512_alignr_epi64::<6>(s, zero));
            *carry = _mm512_add_epi32(*carry, _mm512_shuffle_i64x2::<0xff>(s, s));
            for r in 0..4 {
                let mut code = _mm512_add_epi32(from[r], base);
                let mut c = [zero; 8];
                for e in 0..8 {
                    code = _mm512_add_epi32(code, d[e][r]);
                    c[e] = code;
                }
                let mut half = [[zero; 2]; 4];
                for h in 0..2 {
                    let (a, b) = (_mm512_unpacklo_epi32(c[4 * h], c[4 * h + 1]), _mm512_unpackhi_epi32(c[4 * h], c[4 * h + 1]));
                    let (x, y) = (_mm512_unpacklo_epi32(c[4 * h + 2], c[4 * h + 3]), _mm512_unpackhi_epi32(c[4 * h + 2], c[4 * h + 3]));
                    half[3][h] = _mm512_unpacklo_epi64(a, x);
                    half[2][h] = _mm512_unpackhi_epi64(a, x);
                    half[1][h] = _mm512_unpacklo_epi64(b, y);
                    half[0][h] = _mm512_unpackhi_epi64(b, y);
                }
                for pair in 0..2 {
                    let [a, b] = half[2 * pair];
                    let [x, y] = half[2 * pair + 1];
                    for (lane, code) in transpose_lanes([a, b, x, y]).into_iter().enumerate() {
                        store(&mut codes.0[8 * lane + 2 * r + pair], code);
                    }
                }
            }
        }
    };

    (@f64 $lanes:literal) => {
        use transpose_words as transpose_bytes;

        #[inline]
        #[target_feature(enable = "avx512f")]
        fn below(code: __m512i, end: __m512i) -> __mmask8 {
            _mm512_cmplt_epu64_mask(code, end)
        }

        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
        fn put_planes(bytes: usize, words: &Block<u64>, block: usize, buffers: &mut Buffers) {
            match bytes {
                0 => {}
                1 => planes::<1>(words, block, buffers),
                2 => planes::<2>(words, block, buffers),
                3 => planes::<3>(words, block, buffers),
                4 => planes::<4>(words, block, buffers),
                5 => planes::<5>(words, block, buffers),
                6 => planes::<6>(words, block, buffers),
                _ => planes::<8>(words, block, buffers),
            }
        }

        #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
        fn restore_codes(planes: &Planes, first: usize, block: usize, carry: &mut __m512i, codes: &mut Block<u64>) {
            let m = _mm512_set1_epi64(NEGABINARY as i64);
            let zero = _mm512_setzero_si512();
            let mut octets = [[zero; 8]; BYTES];
            for b in 0..BYTES - first / 8 {
                for i in 0..8 {
                    let plane = WIDTH - 1 - (8 * b + i);
                    octets[b][i] = if plane < first { zero } else { load(&planes[plane * BLOCKS + block]) };
                }
                transpose_bits(&mut octets[b]);
            }
            // d[e][r]: register r = octets 2r.. of each lane of 16, last first in every 2
            let mut d = [[zero; 8]; 8];
            let mut totals = [zero; 8];
            for e in 0..8 {
                let byte = |b: usize| octets[b][7 - e];
                let mut words = [[zero; 2]; 4];
                for k in 0..4 {
                    words[k] = [_mm512_unpacklo_epi8(byte(2 * k), byte(2 * k + 1)), _mm512_unpackhi_epi8(byte(2 * k), byte(2 * k + 1))];
                }
                for h in 0..2 {
                    let [w0, w1, w2, w3] = [words[0][h], words[1][h], words[2][h], words[3][h]];
                    let (a, b) = (_mm512_unpacklo_epi16(w0, w1), _mm512_unpackhi_epi16(w0, w1));
                    let (x, y) = (_mm512_unpacklo_epi16(w2, w3), _mm512_unpackhi_epi16(w2, w3));
                    d[e][4 * h + 3] = _mm512_unpacklo_epi32(a, x);
                    d[e][4 * h + 2] = _mm512_unpackhi_epi32(a, x);
                    d[e][4 * h + 1] = _mm512_unpacklo_epi32(b, y);
                    d[e][4 * h] = _mm512_unpackhi_epi32(b, y);
                }
                for r in 0..8 {
                    d[e][r] = _mm512_sub_epi64(_mm512_xor_si512(d[e][r], m), m);
                    totals[r] = _mm512_add_epi64(totals[r], d[e][r]);
                }
            }
            let mut sum = zero;
            let mut from = [zero; 8];
            for r in 0..8 {
                let s = _mm512_add_epi64(totals[r], _mm512_bsrli_epi128::<8>(totals[r]));
                from[r] = _mm512_add_epi64(_mm512_bsrli_epi128::<8>(totals[r]), sum);
                sum = _mm512_add_epi64(sum, _mm512_unpacklo_epi64(s, s));
            }
            let s = _mm512_add_epi64(sum, _mm512_alignr_epi64::<6>(sum, zero));
            let s = _mm512_add_epi64(s, _mm512_alignr_epi64::<4>(s, zero));
            let base = _mm512_add_epi64(*carry, _mm512_alignr_epi64::<6>(s, zero));
            *carry = _mm512_add_epi64(*carry, _mm512_shuffle_i64x2::<0xff>(s, s));
            for r in 0..8 {
                let mut code = _mm512_add_epi64(from[r], base);
                let mut c = [zero; 8];
                for e in 0..8 {
                    code = _mm512_add_epi64(code, d[e][r]);
                    c[e] = code;
                }
                let last = [_mm512_unpacklo_epi64(c[0], c[1]), _mm512_unpacklo_epi64(c[2], c[3]), _mm512_unpacklo_epi64(c[4], c[5]), _mm512_unpacklo_epi64(c[6], c[7])];
                let head = [_mm512_unpackhi_epi64(c[0], c[1]), _mm512_unpackhi_epi64(c[2], c[3]), _mm512_unpackhi_epi64(c[4], c[5]), _mm512_unpackhi_epi64(c[6], c[7])];
                for (odd, pairs) in [head, last].into_iter().enumerate() {
                    for (lane, code) in transpose_lanes(pairs).into_iter().enumerate() {
                        store(&mut codes.0[16 * lane + 2 * r + odd], code);
                    }
                }
            }
        }
    };
}

coder!(f32, u32, lanes 16, radius 4_194_304.0, magic 12_582_912.0, flip 3, __m512,
    set1 _mm512_set1_ps, set1_code _mm512_set1_epi32, add _mm512_add_ps, sub _mm512_sub_ps, mul _mm512_mul_ps, abs _mm512_abs_ps,
    range _mm512_range_ps, round _mm512_roundscale_ps, cmp _mm512_cmp_ps_mask, blend _mm512_mask_blend_ps,
    blend_code _mm512_mask_blend_epi32, mask_mul _mm512_mask_mul_ps, to_code _mm512_cvtps_epi32, to_value _mm512_cvtepi32_ps,
    bits _mm512_castps_si512, from_bits _mm512_castsi512_ps, cmp_code _mm512_cmp_epi32_mask, code_add _mm512_add_epi32,
    code_sub _mm512_sub_epi32, sra _mm512_srai_epi32, min _mm512_min_epi32, max _mm512_max_epi32, align _mm512_alignr_epi32,
    or _mm512_reduce_or_epi32);
coder!(f64, u64, lanes 8, radius 2_251_799_813_685_248.0, magic 6_755_399_441_055_744.0, flip 7, __m512d,
    set1 _mm512_set1_pd, set1_code _mm512_set1_epi64, add _mm512_add_pd, sub _mm512_sub_pd, mul _mm512_mul_pd, abs _mm512_abs_pd,
    range _mm512_range_pd, round _mm512_roundscale_pd, cmp _mm512_cmp_pd_mask, blend _mm512_mask_blend_pd,
    blend_code _mm512_mask_blend_epi64, mask_mul _mm512_mask_mul_pd, to_code _mm512_cvtpd_epi64, to_value _mm512_cvtepi64_pd,
    bits _mm512_castpd_si512, from_bits _mm512_castsi512_pd, cmp_code _mm512_cmp_epi64_mask, code_add _mm512_add_epi64,
    code_sub _mm512_sub_epi64, sra _mm512_srai_epi64, min _mm512_min_epi64, max _mm512_max_epi64, align _mm512_alignr_epi64,
    or _mm512_reduce_or_epi64);

#[cfg(test)]
mod tests;
