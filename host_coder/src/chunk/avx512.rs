//! The AVX-512 coder.
//!
//! It needs F, BW, DQ, VL, VBMI, VBMI2, BITALG, VPOPCNTDQ and GFNI: Ice Lake, Zen 4 and later.
//!
//! A chunk is coded in blocks of 512 values: 64 bytes of each plane, a *line*. Most blocks are coded in *halves*: words of half a
//! code's width, of which a vector holds one of the block's first half below one of its second half in each lane. Modulo arithmetic
//! gives the low planes from these alone, and the others are zero, but for a single bit where the block before was elsewhere.
//!
//! ```text
//! encode  quantize    bin = x * inv + magic - magic, the code from the sum's bits; halves where all bins lie in a window. Vectors
//!                     that miss the bound get the second try; raw values, or bins apart, make the block whole codes
//!         difference  code - valign(code, the vector before); negabinary; the bits used say how many planes to make
//!         planes      bytes apart, bit transposes in octets, octets to lines (see `planes`)
//!         eliminate   see `rze`
//! decode  restore     see `rze`
//!         sums        lines to bytes to words, running sums in every octet, prefix of the octets (see `codes`); in halves where few
//!                     planes are used and all codes turn out to fit
//!         order       vectors of words in order
//!         values      bins times the step, the others as they are
//! ```
//!
//! Wherever a block is coded in halves, that it may be was checked: any chunk decodes like with the portable coder.

mod codes;
mod lanes;
mod planes;
mod rze;
mod vector;

use rze::{Buffers, Restored};
use vector::{Aligned, Line};

/// This processor has every feature that the functions here enable.
pub fn available() -> bool {
    macro_rules! all {
        ($($feature:tt)*) => { $(is_x86_feature_detected!($feature))&&* };
    }
    all!("avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vbmi" "avx512vbmi2" "avx512bitalg" "avx512vpopcntdq" "gfni" "bmi1" "bmi2" "lzcnt" "popcnt")
}

/// Working memory of a thread.
pub struct Scratch {
    buffers: Box<Buffers>,
    /// A block's words, in vectors.
    words: Box<Aligned<[Line; BLOCK / 8]>>,
    guess: Guess,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { buffers: Box::default(), words: Box::new(Aligned([[0; 64]; BLOCK / 8])), guess: Guess::default() }
    }
}

/// What the last blocks were like: how to try the next one. No byte depends on it.
#[derive(Default)]
struct Guess {
    /// Differences need more than half a code.
    wide: bool,
    /// Most pairs of vectors need the second try.
    misses: bool,
    /// The last chunk's table entry.
    entry: u32,
}

/// Bytes between the values that are coded and those asked for.
const AHEAD: usize = 4096;

/// Values of a block.
const BLOCK: usize = 512;

macro_rules! coder {
    ($value:ident, $code:ident, $half:ident, $signed:ident, $half_signed:ident, words $words:ident, halves $halves:ident,
     split $split:ident, split_halves $split_halves:ident, octets_of_halves $octets:ident, flip_z $flip_z:literal,
     nibbles [$($nibbles:literal)*], half_nibbles [$($half_nibbles:literal)*], radius $radius:literal, magic $magic:literal,
     sums $sums:ident, sums_halves $sums_halves:ident, prefix $prefix:ident, prefix_halves $prefix_halves:ident, order $order_words:ident,
     order_halves $order_halves:ident, flip $flip:literal, flip_halves $flip_halves:literal,
     restore [$($restore_bytes:literal $restore_halves:literal),*]) => {
        pub mod $value {
            use std::arch::x86_64::*;

            use super::lanes::{$halves, $value as v, $words};
            use super::codes;
            use super::planes::{self, Octets};
            use super::vector::*;
            use super::*;
            use crate::chunk::{Coded, Step, ask};
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
            /// Planes of a block that is decoded in halves of codes: differences are then less than a quarter of what a half holds.
            const DIGITS: usize = WIDTH / 2 - 2;

            type Values = [[$value; LANES]; VECTORS];

            /// Asks for a line of the values after these, whether there are any or not. Such requests are spread over a block's work:
            /// many at once wait for each other.
            #[inline]
            fn ask_ahead(values: &Values, line: usize) {
                ask_for(std::ptr::from_ref(values).wrapping_byte_add(AHEAD + 64 * line).cast());
            }

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

                /// Bits of two vectors of bins plus magic and integer.
                #[inline]
                #[target_feature(enable = "avx512f,avx512dq")]
                fn bits(&mut self, values: [&[$value; LANES]; 2]) -> [__m512i; 2] {
                    let mut bits = [_mm512_setzero_si512(); 2];
                    for i in 0..2 {
                        let x = v::from_bits(load(values[i]));
                        let shifted = v::add(v::mul(x, self.s.inv), self.magic);
                        let p = v::mul(v::sub(shifted, self.magic), self.s.eb2);
                        self.error = v::range::<0b1011>(self.error, v::sub(x, p));
                        bits[i] = v::bits(shifted);
                    }
                    self.any = _mm512_ternarylogic_epi64::<0xfe>(self.any, bits[0], bits[1]);
                    self.all = _mm512_ternarylogic_epi64::<0x80>(self.all, bits[0], bits[1]);
                    bits
                }

                /// All bins plus the integer are from 0 to `window` - 1.
                #[inline]
                #[target_feature(enable = "avx512f")]
                fn within(&self, window: $code) -> bool {
                    let window = $words::set1((window - 1) as _);
                    let expected = $words::set1(MAGIC.to_bits() as _);
                    // (a ^ expected) & !window
                    let differ = _mm512_or_si512(
                        _mm512_ternarylogic_epi64::<0x14>(self.any, expected, window),
                        _mm512_ternarylogic_epi64::<0x14>(self.all, expected, window),
                    );
                    _mm512_test_epi64_mask(differ, differ) == 0
                }

                /// All bins since the last call are within the bound.
                #[inline]
                #[target_feature(enable = "avx512f")]
                fn hold(&mut self) -> bool {
                    let misses = v::cmp::<_CMP_NLE_UQ>(self.error, self.s.eb);
                    self.error = v::set1(0.0);
                    misses == 0
                }
            }

            /// Codes in halves of a code of a block that has bins only, and these lie close together. False: it does not, and the codes
            /// are not valid.
            ///
            /// A group of vectors in which some nearest bin misses gets the second try; no bin then fails the window by more than one,
            /// for which there is room.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
            fn quantize_halves<const FAR: bool>(values: &Values, s: Steps, shift: $value, window: $code, codes: &mut [Line; VECTORS / 2]) -> bool {
                let mut nearest = Nearest::new(s, shift);
                let integer = $halves::set1(shift as i64 as _);
                let sign = $halves::set1(if shift < 0.0 { 0 } else { -1 });
                let (first, second) = values.split_at(VECTORS / 2);
                const GROUP: usize = VECTORS / 8;
                let mut misses = 0_u32;
                for (group, codes) in codes.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
                    for (i, codes) in codes.iter_mut().enumerate() {
                        ask_ahead(values, GROUP * group + i);
                        let [low, high] = nearest.bits([&first[GROUP * group + i], &second[GROUP * group + i]]);
                        let q = $halves::sub($halves::pack(low, high), integer);
                        let sign = if FAR { sign } else { $halves::sra::<{ WIDTH as u32 / 2 - 1 }>(q) };
                        store(codes, _mm512_xor_si512($halves::add(q, q), sign));
                    }
                    misses |= u32::from(!nearest.hold()) << group;
                }
                if !nearest.within(window) {
                    return false;
                }
                while misses != 0 {
                    let group = misses.trailing_zeros() as usize;
                    misses &= misses - 1;
                    for i in GROUP * group..GROUP * (group + 1) {
                        let ((low, _, low_bins), (high, _, high_bins)) = (codes_of_any(&first[i], s), codes_of_any(&second[i], s));
                        if low_bins & high_bins != !0 {
                            return false;
                        }
                        store(&mut codes[i], $halves::pack(low, high));
                    }
                }
                true
            }

            /// Codes of any block, with the second try for pairs of vectors in which a nearest bin misses or is not far below the radius.
            /// Gives the number of pairs.
            #[target_feature(enable = "avx512f,avx512dq")]
            fn quantize_nearest(values: &Values, s: Steps, codes: &mut [Line; VECTORS]) -> u32 {
                const HALF: $value = RADIUS / 2.0;
                let mut nearest = Nearest::new(s, HALF);
                let integer = $words::set1((MAGIC + HALF).to_bits() as _);
                let mut misses = 0_u32;
                for (pair, (pair_values, codes)) in values.as_chunks::<2>().0.iter().zip(codes.as_chunks_mut::<2>().0).enumerate() {
                    ask_ahead(values, pair);
                    let [a, b] = nearest.bits(pair_values.each_ref());
                    store(&mut codes[0], zigzag($words::sub(a, integer)));
                    store(&mut codes[1], zigzag($words::sub(b, integer)));
                    misses |= u32::from(!nearest.hold()) << pair;
                }
                if !nearest.within(RADIUS as $code) {
                    let end = $words::set1(RADIUS as $code as _);
                    for (pair, codes) in codes.as_chunks::<2>().0.iter().enumerate() {
                        let inside = v::below(load(&codes[0]), end) & v::below(load(&codes[1]), end);
                        misses |= u32::from(inside != !0) << pair;
                    }
                }
                let pairs = misses.count_ones();
                while misses != 0 {
                    let pair = misses.trailing_zeros() as usize;
                    misses &= misses - 1;
                    for i in 2 * pair..2 * pair + 2 {
                        store(&mut codes[i], codes_of_any(&values[i], s).0);
                    }
                }
                pairs
            }

            /// Codes of any values, which of their nearest bins hold, and which are bins.
            #[inline]
            #[target_feature(enable = "avx512f,avx512dq")]
            fn codes_of_any(values: &[$value; LANES], s: Steps) -> (__m512i, v::Mask, v::Mask) {
                let (radius, one, sign) = (v::set1(RADIUS), v::bits(v::set1(1.0)), v::bits(v::set1(-0.0)));
                let holds = |q, error| v::cmp::<_CMP_LE_OQ>(v::abs(error), s.eb) & v::cmp::<_CMP_LT_OQ>(v::abs(q), radius);
                let x = v::from_bits(load(values));
                // not subnormal, nor zero: no bound is less than a normal number, so the others are in bin 0; some processors multiply them slowly
                let normal = v::test(v::bits(x), $words::set1($value::INFINITY.to_bits() as _));
                let q = v::round::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v::maskz_mul(normal, x, s.inv));
                let error = v::sub(x, v::mul(q, s.eb2));
                let nearest = holds(q, error);
                let (mut q, mut bins) = (q, nearest);
                // where no bin is that could hold, which is the rule where values are raw, no neighbour is looked at
                if v::cmp::<_CMP_LE_OQ>(v::abs(q), radius) & !nearest != 0 {
                    // one with the sign of x - q * eb2, which is not zero where the bin misses
                    let side = v::from_bits(_mm512_ternarylogic_epi64::<0xea>(v::bits(error), sign, one));
                    let beside = v::add(q, side);
                    bins |= holds(beside, v::sub(x, v::mul(beside, s.eb2)));
                    q = v::blend(nearest, beside, q);
                }
                let bin = zigzag(v::to_int(q));
                (v::blend_bits(bins, v::bits(x), bin), nearest, bins)
            }

            /// The same, with the second try everywhere.
            #[target_feature(enable = "avx512f,avx512dq")]
            fn quantize(values: &Values, s: Steps, codes: &mut [Line; VECTORS]) -> u32 {
                let mut misses = 0;
                for (pair, (pair_values, codes)) in values.as_chunks::<2>().0.iter().zip(codes.as_chunks_mut::<2>().0).enumerate() {
                    ask_ahead(values, pair);
                    let ((a, nearest_a, _), (b, nearest_b, _)) = (codes_of_any(&pair_values[0], s), codes_of_any(&pair_values[1], s));
                    store(&mut codes[0], a);
                    store(&mut codes[1], b);
                    misses += u32::from(nearest_a & nearest_b != !0);
                }
                misses
            }

            /// Negabinary differences in place; `before` is the vector before. Gives the bits used.
            #[inline]
            #[target_feature(enable = "avx512f")]
            fn difference(codes: &mut [Line; VECTORS], mut before: __m512i, values: &Values) -> $code {
                let m = $words::set1(NEGABINARY as _);
                let mut used = _mm512_setzero_si512();
                for (i, codes) in codes.iter_mut().enumerate() {
                    if i % 2 == 0 {
                        ask_ahead(values, VECTORS / 2 + i / 2);
                    }
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
            fn difference_halves(codes: &mut [Line; VECTORS / 2], mut before: __m512i, values: &Values) -> $half {
                let m = $halves::set1(NEGABINARY as _);
                let mut used = _mm512_setzero_si512();
                for (i, codes) in codes.iter_mut().enumerate() {
                    ask_ahead(values, VECTORS / 2 + i);
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
                        let bytes = eight!(z => planes::$split_words(words, z ^ $flip_z));
                        for nibble in 0..NIBBLES {
                            let z = eight!(z => planes::bits(bytes[z][nibble / 2], spread));
                            let lines = if nibble % 2 == 0 { planes::low_lines(z) } else { planes::high_lines(z) };
                            for i in 0..4 {
                                buffers.set_line::<WIDTH, BLOCKS>(WIDTH - 1 - (4 * nibble + i), block, lines[i]);
                            }
                        }
                    }
                };
            }

            put!(put, VECTORS, BYTES, $split, InOrder);
            put!(put_halves, { VECTORS / 2 }, BYTES / 2, $split_halves, $octets);

            /// A block being coded.
            struct Encoder<'a> {
                /// Where coded bytes will go, and the last chunk's table entry.
                out: &'a [u8],
                last_entry: u32,
                step: &'a Step<$value>,
                s: Steps,
                /// The code before.
                last: $code,
                words: &'a mut [Line; VECTORS],
                buffers: &'a mut Buffers,
            }

            impl Encoder<'_> {
                #[inline(always)]
                fn ask_to_write(&self, part: usize) {
                    ask::to_write::<{ 2 * BLOCKS }>(self.out, self.last_entry, part);
                }

                /// Makes the lines of a block in halves of codes, where it can be. Gives the bits that its differences use, and the number
                /// of planes made; the others are stale.
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt")]
                fn block_of_halves(&mut self, values: &Values, block: usize) -> Option<($code, usize)> {
                    let words: &mut [Line; VECTORS / 2] = self.words.first_chunk_mut().expect("half of the vectors");
                    let q = values[0][0] * self.step.inv;
                    // a code that all are close to
                    let close = if q.abs() < NEAR {
                        quantize_halves::<false>(values, self.s, NEAR, 2 * NEAR as $code, words).then_some(0)
                    } else if q.abs() < RADIUS / 2.0 {
                        let q = q as $signed & !1;
                        quantize_halves::<true>(values, self.s, NEAR / 2.0 - q as $value, NEAR as $code, words)
                            .then_some((q << 1 ^ q >> (WIDTH - 1)) as $code)
                    } else {
                        None
                    }?;
                    let whole = |half: $half| close.wrapping_add(half.wrapping_sub(close as $half) as $half_signed as $code);
                    let halves: &[[$half; 2 * LANES]; VECTORS / 2] = bytemuck::cast_ref(words);
                    let (first, [.., middle, end]) = (halves[0][0], halves[VECTORS / 2 - 1]);
                    let before = $words::set1(($code::from(middle) << (WIDTH / 2) | $code::from(self.last as $half)) as _);
                    // the first difference may need more planes than its half: a single bit in each
                    let seam = whole(first).wrapping_sub(self.last).wrapping_add(NEGABINARY) ^ NEGABINARY;
                    self.last = whole(end);
                    let used = difference_halves(words, before, values);
                    let nibbles = ($half::BITS - used.leading_zeros()).div_ceil(4);
                    let mut made = 4 * match nibbles {
                        0 => 0,
                        $(..=$half_nibbles => {
                            put_halves::<$half_nibbles>(words, block, self.buffers);
                            $half_nibbles
                        })*
                        _ => unreachable!("a half has no more"),
                    };
                    self.ask_to_write(2 * block + 1);
                    let used = $code::from(used) | seam;
                    let bits = WIDTH - used.leading_zeros() as usize;
                    while made < bits {
                        let mut line = [0; 64];
                        line[BYTES - 1] = ((seam >> made & 1) as u8) << 7;
                        self.buffers.set_line::<WIDTH, BLOCKS>(WIDTH - 1 - made, block, load(&line));
                        made += 1;
                    }
                    Some((used, made))
                }

                /// The same of any block.
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt")]
                fn block(&mut self, values: &Values, guess: &mut Guess, block: usize) -> ($code, usize) {
                    if !guess.misses
                        && !guess.wide
                        && let Some(made) = self.block_of_halves(values, block)
                    {
                        return made;
                    }
                    let misses = if guess.misses { quantize(values, self.s, self.words) } else { quantize_nearest(values, self.s, self.words) };
                    guess.misses = misses as usize >= VECTORS * 3 / 8;
                    let codes: &[[$code; LANES]; VECTORS] = bytemuck::cast_ref(self.words);
                    let [.., last] = codes[VECTORS - 1];
                    let used = difference(self.words, $words::set1(self.last as _), values);
                    self.ask_to_write(2 * block + 1);
                    self.last = last;
                    guess.wide = used >> (WIDTH / 2) != 0;
                    let nibbles = (WIDTH - used.leading_zeros() as usize).div_ceil(4);
                    let made = match nibbles {
                        0 => 0,
                        $(..=$nibbles => {
                            put::<$nibbles>(self.words, block, self.buffers);
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
                let Scratch { buffers, words, guess, .. } = scratch;
                let words = words.0.first_chunk_mut().expect("room for a block");
                let mut encoder = Encoder { out, last_entry: guess.entry, step, s: steps(step), last: 0, words, buffers };
                let (mut used, mut made) = (0, [0; BLOCKS]);
                for (block, values) in values.as_chunks::<BLOCK>().0.iter().enumerate() {
                    encoder.ask_to_write(2 * block);
                    let values: &Values = values.as_chunks::<LANES>().0.first_chunk().expect("a block");
                    let bits;
                    (bits, made[block]) = encoder.block(values, guess, block);
                    used |= bits;
                }
                let first = used.leading_zeros() as usize;
                for (block, &made) in made.iter().enumerate() {
                    for plane in first..WIDTH - made {
                        buffers.set_zero(plane * BLOCKS + block);
                    }
                }
                guess.entry = buffers.eliminate_zeros(first * BLOCKS, out);
                guess.entry
            }

            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt")]
            pub fn decode(coded: Coded<'_>, step: &Step<$value>, scratch: &mut Scratch, values: &mut [$value]) -> bool {
                let Scratch { buffers, words, .. } = scratch;
                let Some(restored) = buffers.restore_zeros(coded, BLOCKS, (WIDTH - DIGITS) * BLOCKS) else { return false };
                let words = words.0.first_chunk_mut().expect("room for a block");
                let mut decoder = Decoder { coded, restored, s: steps(step), words, streamed: false };
                match values.first_chunk_mut() {
                    Some(values) => {
                        decoder.streamed = coded.streamed && values.as_ptr().cast::<__m128i>().is_aligned();
                        decoder.chunk(values);
                        if decoder.streamed {
                            fence();
                        }
                    }
                    None => {
                        let mut whole = [0.0; CODES];
                        decoder.chunk(&mut whole);
                        values.copy_from_slice(&whole[..values.len()]);
                    }
                }
                true
            }

            /// A chunk being decoded.
            struct Decoder<'a> {
                coded: Coded<'a>,
                restored: Restored<'a>,
                s: Steps,
                words: &'a mut [Line; VECTORS],
                /// The values are aligned to 16 bytes, and to be written past the caches.
                streamed: bool,
            }

            impl Decoder<'_> {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
                fn chunk(&mut self, values: &mut [$value; CODES]) {
                    match BYTES - self.restored.first / (8 * BLOCKS) {
                        0 => values.fill(0.0),
                        $($restore_bytes => self.blocks::<$restore_bytes, $restore_halves>(values),)*
                        _ => unreachable!("a code has no more bytes"),
                    }
                }

                /// Values of a chunk whose words use `N` bytes; their low halves use `H`.
                #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
                fn blocks<const N: usize, const H: usize>(&mut self, values: &mut [$value; CODES]) {
                    let mut last = 0;
                    for (block, values) in values.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
                        ask::for_next::<BLOCKS>(&self.coded, block);
                        let values = values.as_chunks_mut::<LANES>().0.first_chunk_mut().expect("a block");
                        if self.restored.upper >> block & 1 == 1 {
                            last = self.block::<N>(block, last);
                        } else if let Some(code) = self.block_of_halves::<H>(block, last) {
                            last = code;
                            let twice = self.words.first_chunk().expect("half of the vectors");
                            if self.streamed {
                                dequantize_halves::<true>(twice, self.s, values);
                            } else {
                                dequantize_halves::<false>(twice, self.s, values);
                            }
                            continue;
                        } else {
                            last = self.block::<H>(block, last);
                        }
                        if self.streamed {
                            dequantize::<true>(self.words, self.s, values);
                        } else {
                            dequantize::<false>(self.words, self.s, values);
                        }
                    }
                }

                /// Codes of any block whose words use `N` bytes, from the code before; gives the last.
                #[inline]
                #[target_feature(enable = "avx512f,avx512bw")]
                fn block<const N: usize>(&mut self, block: usize, last: $code) -> $code {
                    let sums = codes::$sums::<N, WIDTH, BLOCKS, $flip>(self.restored.planes, block);
                    let (before, last) = codes::$prefix(sums[7], last);
                    for r in 0..BYTES {
                        let mut c = [_mm512_setzero_si512(); 8];
                        for e in 0..8 {
                            c[e] = $words::add(sums[e][r], before[r]);
                        }
                        codes::$order_words(c, r, self.words);
                    }
                    _mm_cvtsi128_si64(_mm512_castsi512_si128(last)) as $code
                }

                /// Twice the bins of a block with at most [`DIGITS`] planes, from the code before, where all codes are bins that signed
                /// halves of codes hold; gives the last code.
                #[inline]
                #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
                fn block_of_halves<const H: usize>(&mut self, block: usize, last: $code) -> Option<$code> {
                    // From a code that is not negative as a signed half, a difference leads to one that is exact, or negative or too large,
                    // which shows in its sign. So where no sign shows, all codes are exact.
                    let last = $half_signed::try_from(last as $signed).ok().filter(|&last| last >= 0)?;
                    let words = self.words.first_chunk_mut().expect("half of the vectors");
                    let sums = codes::$sums_halves::<H, WIDTH, BLOCKS, $flip_halves>(self.restored.planes, block);
                    let (before, last) = codes::$prefix_halves(sums[7], last as $half);
                    let (one, ones) = ($halves::set1(1), $halves::set1(-1));
                    let mut any = _mm512_setzero_si512();
                    for r in 0..BYTES / 2 {
                        let mut c = [any; 8];
                        for e in 0..8 {
                            let code = $halves::add(sums[e][r], before[r]);
                            any = _mm512_or_si512(any, code);
                            // 2q: the code, or its complement where it is odd
                            c[e] = $halves::mask_sub(code, $halves::test(code, one), ones, code);
                        }
                        codes::$order_halves(c, r, words);
                    }
                    let sign = $halves::set1($half_signed::MIN);
                    (_mm512_test_epi64_mask(any, sign) == 0).then(|| _mm_cvtsi128_si64(_mm512_castsi512_si128(last)) as $half_signed as $code)
                }
            }

            #[inline]
            #[target_feature(enable = "avx512f,avx512dq")]
            fn dequantize<const STREAMED: bool>(codes: &[Line; VECTORS], s: Steps, values: &mut Values) {
                let one = $words::set1(1);
                let end = $words::set1((2 * RADIUS as $code) as _);
                for (codes, values) in codes.iter().zip(values) {
                    let code = load(codes);
                    // 2q, exact as a value; its product with the bound rounds like that of q with twice the bound
                    let twice = _mm512_xor_si512(code, $words::sub(_mm512_setzero_si512(), _mm512_and_si512(code, one)));
                    let value = v::mask_mul(v::from_bits(code), v::below(code, end), v::from_int(twice), s.eb);
                    write::<STREAMED, _>(values, v::bits(value));
                }
            }

            #[inline]
            #[target_feature(enable = "avx512f,avx512bw")]
            fn dequantize_halves<const STREAMED: bool>(twice: &[Line; VECTORS / 2], s: Steps, values: &mut Values) {
                let twice: &[[$half; LANES]; VECTORS] = bytemuck::cast_ref(twice);
                for (twice, values) in twice.iter().zip(values) {
                    write::<STREAMED, _>(values, v::bits(v::mul(v::from_half_int(load_half(twice)), s.eb)));
                }
            }
        }
    };
}

coder!(f32, u32, u16, i32, i16, words u32, halves u16_halves, split split_u32, split_halves split_u16_halves, octets_of_halves InOrder, flip_z 0,
    nibbles [2 3 4 5 6 7 8], half_nibbles [1 2 3 4], radius 4_194_304.0, magic 12_582_912.0,
    sums sums_u32, sums_halves sums_u16, prefix prefix_u32, prefix_halves prefix_u16, order order_u32,
    order_halves order_u16, flip 0, flip_halves 0, restore [1 1, 2 2, 3 2, 4 2]);
coder!(f64, u64, u32, i64, i32, words u64, halves u32_halves, split split_u64, split_halves split_u32_halves, octets_of_halves HalvesLast, flip_z 1,
    nibbles [4 8 10 12 13 14 16], half_nibbles [2 3 4 5 6 7 8], radius 2_251_799_813_685_248.0, magic 6_755_399_441_055_744.0,
    sums sums_u64, sums_halves sums_u32, prefix prefix_u64, prefix_halves prefix_u32, order order_u64,
    order_halves order_u32, flip 3, flip_halves 1, restore [1 1, 2 2, 3 3, 4 4, 5 4, 6 4, 7 4, 8 4]);

#[cfg(test)]
mod tests;
