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

mod codes;
mod lanes;
mod planes;
mod rze;
mod vector;

use rze::{Buffers, Planes, Restored};

/// This processor has every feature that the functions here enable.
pub fn available() -> bool {
    macro_rules! all {
        ($($feature:tt)*) => { $(is_x86_feature_detected!($feature))&&* };
    }
    all!("avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vbmi" "avx512vbmi2" "avx512bitalg" "avx512vpopcntdq" "gfni" "bmi1" "bmi2" "lzcnt" "popcnt")
}

/// Working memory of a thread.
#[derive(Default)]
pub struct Scratch {
    buffers: Box<Buffers>,
    guess: Guess,
}

/// What the last blocks were like: how to try the next one. No byte depends on it.
#[derive(Default)]
struct Guess {
    /// Differences need more than half a code.
    wide: bool,
    /// Blocks in which a nearest bin missed, the last one lowest.
    misses: u16,
}

/// Why a block's codes cannot be its nearest bins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// Too far from those looked for.
    Window,
    /// Bins miss the bound.
    Bound,
}

/// Values of a block.
const BLOCK: usize = 512;

macro_rules! coder {
    ($value:ident, $code:ident, $half:ident, $signed:ident, $half_signed:ident, words $words:ident, halves $halves:ident,
     split $split:ident, split_halves $split_halves:ident, octets_of_halves $octets:ident, flip_z $flip_z:literal,
     nibbles [$($nibbles:literal)*], half_nibbles [$($half_nibbles:literal)*], radius $radius:literal, magic $magic:literal,
     sums $sums:ident, sums_halves $sums_halves:ident, prefix $prefix:ident, extend $extend:ident, shorten $shorten:ident, order $order_words:ident,
     order_halves $order_halves:ident, flip $flip:literal, flip_halves $flip_halves:literal,
     restore [$($restore_bytes:literal $restore_halves:literal),*]) => {
        pub mod $value {
            use std::arch::x86_64::*;

            use super::lanes::{$halves, $value as v, $words};
            use super::codes;
            use super::planes::{self, Octets};
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
            /// 1.5 times the power of two whose successor is one more: adding it rounds to the nearest integer, ties to even, and leaves
            /// the integer in the low bits.
            const MAGIC: $value = $magic;
            /// Bins from `-NEAR` to `NEAR - 1` have codes that differ by less than what half a code's negabinary digits hold.
            const NEAR: $value = (1_u64 << (WIDTH / 2 - 3)) as $value;

            /// Planes of a block that is decoded in halves of codes: the sum of an octet's differences then fits one.
            const DIGITS: usize = WIDTH / 2 - 4;

            type Values = [[$value; LANES]; VECTORS];

            #[derive(Clone, Copy)]
            struct Steps {
                eb: v::Vector,
                eb2: v::Vector,
                inv: v::Vector,
            }

            #[inline]
            #[target_feature(enable = "avx512f")]
            fn steps(step: &Step<$value>) -> Steps {
                Steps { eb: v::set1(step.eb), eb2: v::set1(step.eb2), inv: v::set1(step.inv) }
            }

            #[inline]
            #[target_feature(enable = "avx512f")]
            fn zigzag(q: __m512i) -> __m512i {
                _mm512_xor_si512($words::add(q, q), $words::sra::<{ WIDTH as u32 - 1 }>(q))
            }

            /// Nearest bins by adding an integer to [`MAGIC`], and whether all of them hold.
            struct Nearest {
                s: Steps,
                /// The even integer, added.
                magic: v::Vector,
                /// Largest error. It drops a NaN, whose bits are out of the window.
                error: v::Vector,
                any: __m512i,
                all: __m512i,
            }

            impl Nearest {
                #[inline]
                #[target_feature(enable = "avx512f")]
                fn new(s: Steps, shift: $value) -> Self {
                    let expected = $words::set1(MAGIC.to_bits() as _);
                    Self { s, magic: v::set1(MAGIC + shift), error: v::set1(0.0), any: expected, all: expected }
                }

                /// Bits of the bins plus magic and integer.
                #[inline]
                #[target_feature(enable = "avx512f,avx512dq")]
                fn bits(&mut self, values: &[$value; LANES]) -> __m512i {
                    let x = v::from_bits(load(values));
                    let shifted = v::add(v::mul(x, self.s.inv), self.magic);
                    let p = v::mul(v::sub(shifted, self.magic), self.s.eb2);
                    self.error = v::range::<0b1011>(self.error, v::sub(x, p));
                    v::bits(shifted)
                }

                #[inline]
                #[target_feature(enable = "avx512f")]
                fn see(&mut self, a: __m512i, b: __m512i) {
                    self.any = _mm512_ternarylogic_epi64::<0xfe>(self.any, a, b);
                    self.all = _mm512_ternarylogic_epi64::<0x80>(self.all, a, b);
                }

                /// Whether the bins plus the integer are from 0 to `window` - 1, then whether they are within the bound.
                #[inline]
                #[target_feature(enable = "avx512f")]
                fn hold(&self, window: $code) -> Result<(), Failure> {
                    let window = $words::set1((window - 1) as _);
                    let expected = $words::set1(MAGIC.to_bits() as _);
                    // outside the window and different: (a ^ expected) & !window
                    let differ = _mm512_or_si512(
                        _mm512_ternarylogic_epi64::<0x14>(self.any, expected, window),
                        _mm512_ternarylogic_epi64::<0x14>(self.all, expected, window),
                    );
                    if _mm512_test_epi64_mask(differ, differ) != 0 {
                        Err(Failure::Window)
                    } else if v::cmp::<_CMP_NLE_UQ>(self.error, self.s.eb) != 0 {
                        Err(Failure::Bound)
                    } else {
                        Ok(())
                    }
                }
            }

            /// Codes in halves of a code of a block whose nearest bins all hold and lie close together. Where they do not, the
            /// codes are not valid.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
            fn quantize_halves<const FAR: bool>(values: &Values, s: Steps, shift: $value, window: $code, codes: &mut [Line; VECTORS / 2]) -> Result<(), Failure> {
                let mut nearest = Nearest::new(s, shift);
                let integer = $halves::set1(shift as i64 as _);
                let sign = $halves::set1(if shift < 0.0 { 0 } else { -1 });
                let (first, second) = values.split_at(VECTORS / 2);
                for ((first, second), codes) in first.iter().zip(second).zip(codes) {
                    let (low, high) = (nearest.bits(first), nearest.bits(second));
                    nearest.see(low, high);
                    let q = $halves::sub($halves::pack(low, high), integer);
                    let sign = if FAR { sign } else { $halves::sra::<{ WIDTH as u32 / 2 - 1 }>(q) };
                    store(codes, _mm512_xor_si512($halves::add(q, q), sign));
                }
                nearest.hold(window)
            }

            /// Codes of a block whose nearest bins all hold. Where they do not, the codes are not valid.
            #[target_feature(enable = "avx512f,avx512dq")]
            fn quantize_nearest(values: &Values, s: Steps, codes: &mut [Line; VECTORS]) -> Result<(), Failure> {
                const HALF: $value = RADIUS / 2.0;
                let mut nearest = Nearest::new(s, HALF);
                let integer = $words::set1((MAGIC + HALF).to_bits() as _);
                for (values, codes) in values.as_chunks::<2>().0.iter().zip(codes.as_chunks_mut::<2>().0) {
                    let (a, b) = (nearest.bits(&values[0]), nearest.bits(&values[1]));
                    nearest.see(a, b);
                    store(&mut codes[0], zigzag($words::sub(a, integer)));
                    store(&mut codes[1], zigzag($words::sub(b, integer)));
                }
                nearest.hold(RADIUS as $code)
            }

            /// Codes of any block, and whether a nearest bin missed.
            #[target_feature(enable = "avx512f,avx512dq")]
            fn quantize(values: &Values, s: Steps, codes: &mut [Line; VECTORS]) -> bool {
                let radius = v::set1(RADIUS);
                let mut all: v::Mask = !0;
                for (values, codes) in values.iter().zip(codes) {
                    let x = v::from_bits(load(values));
                    let q = v::round::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v::mul(x, s.inv));
                    let p = v::mul(q, s.eb2);
                    let nearest = v::cmp::<_CMP_LE_OQ>(v::abs(v::sub(x, p)), s.eb) & v::cmp::<_CMP_LT_OQ>(v::abs(q), radius);
                    let side = v::blend(v::cmp::<_CMP_GT_OQ>(x, p), v::set1(-1.0), v::set1(1.0));
                    let beside = v::add(q, side);
                    let p = v::mul(beside, s.eb2);
                    let second = v::cmp::<_CMP_LE_OQ>(v::abs(v::sub(x, p)), s.eb) & v::cmp::<_CMP_LT_OQ>(v::abs(beside), radius);
                    let bin = zigzag(v::to_int(v::blend(nearest, beside, q)));
                    store(codes, v::blend_bits(nearest | second, v::bits(x), bin));
                    all &= nearest;
                }
                all != !0
            }

            /// Negabinary differences in place; `before` is the vector before. Gives the bits used.
            #[inline]
            #[target_feature(enable = "avx512f")]
            fn difference(codes: &mut [Line; VECTORS], mut before: __m512i) -> $code {
                let m = $words::set1(NEGABINARY as _);
                let mut used = _mm512_setzero_si512();
                for codes in codes {
                    let code = load(codes);
                    let d = $words::sub(code, $words::align::<{ LANES as i32 - 1 }>(code, before));
                    let n = _mm512_xor_si512($words::add(d, m), m);
                    used = _mm512_or_si512(used, n);
                    store(codes, n);
                    before = code;
                }
                v::or(used) as $code
            }

            /// The same of halves.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw")]
            fn difference_halves(codes: &mut [Line; VECTORS / 2], mut before: __m512i) -> $half {
                let m = $halves::set1(NEGABINARY as _);
                let mut used = _mm512_setzero_si512();
                for codes in codes {
                    let code = load(codes);
                    let d = $halves::sub(code, $halves::align::<{ LANES as i32 - 1 }>(code, before));
                    let n = _mm512_xor_si512($halves::add(d, m), m);
                    used = _mm512_or_si512(used, n);
                    store(codes, n);
                    before = code;
                }
                let used = v::or(used) as $code;
                (used | used >> (WIDTH / 2)) as $half
            }

            /// The lines of the low `4 * NIBBLES` planes of a block.
            macro_rules! put {
                ($name:ident, $vectors:expr, $bytes:expr, $split_words:ident, $order:ident) => {
                    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
                    fn $name<const NIBBLES: usize>(words: &[Line; $vectors], block: usize, buffers: &mut Buffers) {
                        let spread = planes::spread(Octets::$order);
                        let mut rows = [[_mm512_setzero_si512(); 8]; $bytes];
                        for z in 0..8 {
                            let bytes = planes::$split_words(words, z);
                            for b in 0..NIBBLES.div_ceil(2) {
                                rows[b][z ^ $flip_z] = planes::bits(bytes[b], spread);
                            }
                        }
                        for nibble in 0..NIBBLES {
                            let rows = rows[nibble / 2];
                            let lines = if nibble % 2 == 0 { planes::low_lines(rows) } else { planes::high_lines(rows) };
                            for i in 0..4 {
                                buffers.set_line((WIDTH - 1 - (4 * nibble + i)) * BLOCKS + block, lines[i]);
                            }
                        }
                    }
                };
            }

            put!(put, VECTORS, BYTES, $split, InOrder);
            put!(put_halves, { VECTORS / 2 }, BYTES / 2, $split_halves, $octets);


            /// A block being coded.
            struct Encoder<'a> {
                step: &'a Step<$value>,
                s: Steps,
                /// The code before.
                last: $code,
                words: &'a mut Aligned<[Line; VECTORS]>,
                buffers: &'a mut Buffers,
            }

            impl Encoder<'_> {
                /// Makes the lines of a block in halves of codes. Gives the bits that its differences use, beside the planes made.
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt")]
                fn block_of_halves(&mut self, values: &Values, block: usize) -> Result<($code, usize), Failure> {
                    let words: &mut [Line; VECTORS / 2] = self.words.0.first_chunk_mut().expect("half of the vectors");
                    let q = values[0][0] * self.step.inv;
                    // a code that all are close to
                    let close: $code;
                    if q.abs() < NEAR {
                        quantize_halves::<false>(values, self.s, NEAR, 2 * NEAR as $code, words)?;
                        close = 0;
                    } else if q.abs() < RADIUS / 2.0 {
                        let q = q as $signed & !1;
                        quantize_halves::<true>(values, self.s, NEAR / 2.0 - q as $value, NEAR as $code, words)?;
                        close = (q << 1 ^ q >> (WIDTH - 1)) as $code;
                    } else {
                        return Err(Failure::Window);
                    }
                    let whole = |half: $half| close.wrapping_add(half.wrapping_sub(close as $half) as $half_signed as $code);
                    let halves: &[[$half; 2 * LANES]; VECTORS / 2] = bytemuck::cast_ref(words);
                    let (first, [.., middle, end]) = (halves[0][0], halves[VECTORS / 2 - 1]);
                    let before = $words::set1(($code::from(middle) << (WIDTH / 2) | $code::from(self.last as $half)) as _);
                    // the first difference may need more planes than its half: a single bit in each
                    let step = whole(first).wrapping_sub(self.last).wrapping_add(NEGABINARY) ^ NEGABINARY;
                    self.last = whole(end);
                    let used = difference_halves(words, before);
                    let nibbles = ($half::BITS - used.leading_zeros()).div_ceil(4);
                    let mut made = 4 * match nibbles {
                        0 => 0,
                        $(..=$half_nibbles => {
                            put_halves::<$half_nibbles>(words, block, self.buffers);
                            $half_nibbles
                        })*
                        _ => unreachable!("a half has no more"),
                    };
                    let used = $code::from(used) | step;
                    let bits = (WIDTH - used.leading_zeros() as usize);
                    while made < bits {
                        let mut line = [0; 64];
                        line[BYTES - 1] = ((step >> made & 1) as u8) << 7;
                        self.buffers.set_line((WIDTH - 1 - made) * BLOCKS + block, load(&line));
                        made += 1;
                    }
                    Ok((used, made))
                }

                /// The same of any block.
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt")]
                fn block(&mut self, values: &Values, guess: &mut Guess, block: usize) -> ($code, usize) {
                    let mut quantized = Err(Failure::Bound);
                    if guess.misses.count_ones() < 6 {
                        quantized = Err(Failure::Window);
                        if !guess.wide {
                            match self.block_of_halves(values, block) {
                                Ok(made) => {
                                    guess.misses <<= 1;
                                    return made;
                                }
                                Err(failure) => quantized = Err(failure),
                            }
                        }
                        if quantized == Err(Failure::Window) {
                            quantized = quantize_nearest(values, self.s, &mut self.words.0);
                        }
                    }
                    let missed = quantized.is_err() && quantize(values, self.s, &mut self.words.0);
                    guess.misses = guess.misses << 1 | u16::from(missed);
                    let codes: &[[$code; LANES]; VECTORS] = bytemuck::cast_ref(&self.words.0);
                    let [.., last] = codes[VECTORS - 1];
                    let used = difference(&mut self.words.0, $words::set1(self.last as _));
                    self.last = last;
                    guess.wide = used >> (WIDTH / 2) != 0;
                    let nibbles = (WIDTH - used.leading_zeros() as usize).div_ceil(4);
                    let made = match nibbles {
                        0 => 0,
                        $(..=$nibbles => {
                            put::<$nibbles>(&self.words.0, block, self.buffers);
                            $nibbles
                        })*
                        _ => unreachable!("a code has no more"),
                    };
                    (used, 4 * made)
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
                let words: &mut Aligned<[Line; VECTORS]> = &mut Aligned([[0; 64]; VECTORS]);
                let mut encoder = Encoder { step, s: steps(step), last: 0, words, buffers: &mut scratch.buffers };
                let (mut used, mut made) = (0, [0; BLOCKS]);
                for (block, values) in values.as_chunks::<BLOCK>().0.iter().enumerate() {
                    let values = values.as_chunks::<LANES>().0.first_chunk().expect("a block");
                    let bits;
                    (bits, made[block]) = encoder.block(values, &mut scratch.guess, block);
                    used |= bits;
                }
                let first = used.leading_zeros() as usize;
                for (block, &made) in made.iter().enumerate() {
                    for plane in first..WIDTH - made {
                        encoder.buffers.set_line(plane * BLOCKS + block, _mm512_setzero_si512());
                    }
                }
                encoder.buffers.eliminate_zeros(first * BLOCKS, out)
            }

            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt")]
            pub fn decode(coded: Coded<'_>, step: &Step<$value>, scratch: &mut Scratch, values: &mut [$value]) -> bool {
                let Some(restored) = scratch.buffers.restore_zeros(coded, 8 * BLOCKS, (WIDTH - DIGITS) * BLOCKS) else { return false };
                let s = steps(step);
                match values.first_chunk_mut() {
                    Some(values) => restore_chunk(&restored, s, values),
                    None => {
                        let mut whole = [0.0; CODES];
                        restore_chunk(&restored, s, &mut whole);
                        values.copy_from_slice(&whole[..values.len()]);
                    }
                }
                true
            }

            #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
            fn restore_chunk(restored: &Restored<'_>, s: Steps, values: &mut [$value; CODES]) {
                match BYTES - restored.first / (8 * BLOCKS) {
                    0 => values.fill(0.0),
                    $($restore_bytes => restore::<$restore_bytes, $restore_halves>(restored, s, values),)*
                    _ => unreachable!("a code has no more bytes"),
                }
            }

            /// Values of a chunk whose words use `N` bytes; their low halves use `H`.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
            fn restore<const N: usize, const H: usize>(restored: &Restored<'_>, s: Steps, values: &mut [$value; CODES]) {
                let mut sums = Aligned([[[0; 64]; BYTES]; 8]);
                let mut words = Aligned([[0; 64]; VECTORS]);
                let mut carry = _mm512_setzero_si512();
                for (block, values) in values.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
                    let values = values.as_chunks_mut::<LANES>().0.first_chunk_mut().expect("a block");
                    let wide = restored.upper.iter().skip(block).step_by(BLOCKS).any(|&line| line != 0);
                    if !wide {
                        let codes = words.0.first_chunk_mut().expect("half of the vectors");
                        let half_sums = bytemuck::cast_mut::<_, [[[Line; BYTES / 2]; 8]; 2]>(&mut sums.0);
                        if let Some(last) = codes_of_halves::<H>(restored.planes, block, carry, &mut half_sums[0], codes) {
                            carry = last;
                            dequantize_halves(codes, s, values);
                            continue;
                        }
                    }
                    let octets = codes::octets::<N, WIDTH, BLOCKS>(restored.planes, block);
                    let totals = codes::$sums::<N, $flip>(&octets, &mut sums.0);
                    let before = codes::$prefix(totals, &mut carry);
                    for r in 0..BYTES {
                        let mut c = [_mm512_setzero_si512(); 8];
                        for e in 0..8 {
                            c[e] = $words::add(load(&sums.0[e][r]), before[r]);
                        }
                        codes::$order_words(c, r, &mut words.0);
                    }
                    dequantize(&words.0, s, values);
                }
            }

            /// Twice the bins of a block with at most [`DIGITS`] planes, where all are bins that halves of codes hold; gives the last code.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
            fn codes_of_halves<const H: usize>(
                planes: &Planes,
                block: usize,
                mut carry: __m512i,
                sums: &mut [[Line; BYTES / 2]; 8],
                words: &mut [Line; VECTORS / 2],
            ) -> Option<__m512i> {
                // an octet's sums are from 8 least to 8 most differences: before it, a code must be so far from the signed halves' ends
                const MOST: $code = ((1 << DIGITS) - 1) / 3 * 8;
                let low = $words::set1((MOST as $signed * 2 - (1 << (WIDTH / 2 - 1))) as _);
                let high = $words::set1(((1 << (WIDTH / 2 - 1)) - 1 - MOST as $signed) as _);
                let octets = codes::octets::<H, WIDTH, BLOCKS>(planes, block);
                let totals = codes::$sums_halves::<H, $flip_halves>(&octets, sums);
                let before = codes::$prefix(codes::$extend(totals), &mut carry);
                let (mut least, mut most) = (before[0], before[0]);
                for before in &before[1..] {
                    (least, most) = ($words::min(least, *before), $words::max(most, *before));
                }
                if $words::less(least, low) | $words::less(high, most) != 0 {
                    return None;
                }
                let before = codes::$shorten(before);
                let (zero, one) = (_mm512_setzero_si512(), $halves::set1(1));
                let mut any = zero;
                for r in 0..BYTES / 2 {
                    let mut c = [zero; 8];
                    for e in 0..8 {
                        let code = $halves::add(load(&sums[e][r]), before[r]);
                        any = _mm512_or_si512(any, code);
                        c[e] = _mm512_xor_si512(code, $halves::sub(zero, _mm512_and_si512(code, one)));
                    }
                    codes::$order_halves(c, r, words);
                }
                let sign = $halves::set1(1 << (WIDTH / 2 - 1) as $half_signed);
                (_mm512_test_epi64_mask(any, sign) == 0).then_some(carry)
            }

            #[inline]
            #[target_feature(enable = "avx512f,avx512dq")]
            fn dequantize(codes: &[Line; VECTORS], s: Steps, values: &mut Values) {
                let one = $words::set1(1);
                let end = $words::set1((2 * RADIUS as $code) as _);
                for (codes, values) in codes.iter().zip(values) {
                    let code = load(codes);
                    // 2q, exact as a value; its product with the bound rounds like that of q with twice the bound
                    let twice = _mm512_xor_si512(code, $words::sub(_mm512_setzero_si512(), _mm512_and_si512(code, one)));
                    let value = v::mask_mul(v::from_bits(code), v::below(code, end), v::from_int(twice), s.eb);
                    store(values, v::bits(value));
                }
            }

            #[inline]
            #[target_feature(enable = "avx512f,avx512bw")]
            fn dequantize_halves(twice: &[Line; VECTORS / 2], s: Steps, values: &mut Values) {
                let twice: &[[$half; LANES]; VECTORS] = bytemuck::cast_ref(twice);
                for (twice, values) in twice.iter().zip(values) {
                    store(values, v::bits(v::mul(v::from_half_int(load_half(twice)), s.eb)));
                }
            }
        }
    };
}

coder!(f32, u32, u16, i32, i16, words u32, halves u16_halves, split split_u32, split_halves split_u16_halves, octets_of_halves InOrder, flip_z 0,
    nibbles [2 3 4 5 6 7 8], half_nibbles [1 2 3 4], radius 4_194_304.0, magic 12_582_912.0,
    sums sums_u32, sums_halves sums_u16, prefix prefix_u32, extend extend_u16, shorten shorten_u16, order order_u32,
    order_halves order_u16, flip 0, flip_halves 0, restore [1 1, 2 2, 3 2, 4 2]);
coder!(f64, u64, u32, i64, i32, words u64, halves u32_halves, split split_u64, split_halves split_u32_halves, octets_of_halves HalvesLast, flip_z 1,
    nibbles [4 8 10 12 13 14 16], half_nibbles [2 3 4 5 6 7 8], radius 2_251_799_813_685_248.0, magic 6_755_399_441_055_744.0,
    sums sums_u64, sums_halves sums_u32, prefix prefix_u64, extend extend_u32, shorten shorten_u32, order order_u64,
    order_halves order_u32, flip 3, flip_halves 1, restore [1 1, 2 2, 3 3, 4 4, 5 4, 6 4, 7 4, 8 4]);

#[cfg(test)]
mod tests;
