//! What quantizing has in common for both types: each defines `Eight` (eight values), `Lanes` (the step in every lane), and `bins`,
//! `centres`, `distances`, `farther`, `all_within` on them.

use std::arch::x86_64::*;

use super::lanes::V;

/// Largest code of a block whose differences are sure to have at most 16 negabinary digits.
pub const SHORT: u32 = 0x5555;

/// Bins to codes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn zigzag(q: V) -> V {
    _mm256_xor_si256(_mm256_add_epi32(q, q), _mm256_srai_epi32::<31>(q))
}

/// Bins of two rows to codes in 16 bits, interleaved by half rows; those that do not fit become the nearest that do.
#[inline]
#[target_feature(enable = "avx2")]
pub fn short_zigzag(rows: [V; 2]) -> V {
    let q = _mm256_packs_epi32(rows[0], rows[1]);
    _mm256_xor_si256(_mm256_add_epi16(q, q), _mm256_srai_epi16::<15>(q))
}

/// Codes below 2 to the power of 31 to twice their bins.
#[inline]
#[target_feature(enable = "avx2")]
pub fn twice_bin(code: V) -> V {
    let odd = _mm256_and_si256(code, _mm256_set1_epi32(1));
    _mm256_xor_si256(code, _mm256_sub_epi32(_mm256_setzero_si256(), odd))
}

/// Codes below 2 to the power of 15 to twice their bins, in 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
pub fn twice_bins(codes: V) -> V {
    let odd = _mm256_and_si256(codes, _mm256_set1_epi16(1));
    _mm256_xor_si256(codes, _mm256_sub_epi16(_mm256_setzero_si256(), odd))
}

/// Least and largest code in each lane.
#[derive(Clone, Copy)]
pub struct Span {
    least: V,
    most: V,
}

impl Span {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn of(code: u32) -> Self {
        let code = _mm256_set1_epi32(code as i32);
        Self { least: code, most: code }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn add(&mut self, codes: V) {
        self.least = _mm256_min_epu32(codes, self.least);
        self.most = _mm256_max_epu32(codes, self.most);
    }

    /// No code is above `limit`.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn upto(self, limit: u32) -> bool {
        let limit = _mm256_set1_epi32(limit as i32);
        _mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_max_epu32(self.most, limit), limit)) == -1
    }

    /// No two codes differ by more than [`SHORT`]: none is further than half of it from `code`, which is one of them.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn is_short(self, code: u32) -> bool {
        let code = _mm256_set1_epi32(code as i32);
        let above = _mm256_sub_epi32(_mm256_max_epu32(self.most, code), code);
        let below = _mm256_sub_epi32(code, _mm256_min_epu32(self.least, code));
        Self { least: above, most: _mm256_max_epu32(above, below) }.upto(SHORT / 2)
    }
}

macro_rules! nearest_bins {
    ($value:ty) => {
        /// Gives the nearest bins of rows `2 i` and `2 i + 1`, and the values' distances from their centres, to `put(i, bins, distances)`.
        ///
        /// Software-pipelined: the chain from value to distance takes some 15 cycles, more than the schedulers can look ahead.
        #[inline]
        #[target_feature(enable = "avx2")]
        fn nearest_bins(values: &[$value], lanes: &Lanes, mut put: impl FnMut(usize, [V; 2], [Eight; 2])) {
            let values: &[$value; 256] = values.try_into().expect("a block");
            let row = |i: usize| eight(&values[8 * i..]);
            let bins = |i: usize| [bins(row(2 * i), lanes), bins(row(2 * i + 1), lanes)];
            let mut now = bins(0);
            let mut next = bins(1);
            let mut around = [centres(now[0], lanes), centres(now[1], lanes)];
            for i in (0..16).step_by(4) {
                // the compiler unrolls this
                for i in i..i + 4 {
                    prefetch::<{ size_of::<Eight>() / 32 }>(&values[16 * i]);
                    // at the end, something harmless
                    let after = bins((i + 2) % 16);
                    let around_next = [centres(next[0], lanes), centres(next[1], lanes)];
                    put(i, now, [distances(around[0], row(2 * i)), distances(around[1], row(2 * i + 1))]);
                    (now, next, around) = (next, after, around_next);
                }
            }
        }

        /// Codes of a block, in 16 bits. False: a nearest bin fails, or a code is above [`SHORT`]; the codes are then not valid.
        #[inline]
        #[target_feature(enable = "avx2")]
        fn quantize_short(values: &[$value], lanes: &Lanes, codes: &mut ShortCodes) -> bool {
            let mut most = _mm256_setzero_si256();
            let mut farthest = none();
            nearest_bins(values, lanes, |i, bins, distances| {
                farthest = farther(distances[1], farther(distances[0], farthest));
                // NaN and what is out of range have the least bin, whose code is the largest
                codes[i] = short_zigzag(bins);
                most = _mm256_max_epu16(most, codes[i]);
            });
            let limit = _mm256_set1_epi16(SHORT as i16);
            all_within(farthest, lanes) && _mm256_movemask_epi8(_mm256_cmpeq_epi16(_mm256_max_epu16(most, limit), limit)) == -1
        }

        /// Codes of a block and the span of these and of `before`. None: a nearest bin fails, or a code is above [`LIMIT`].
        #[inline]
        #[target_feature(enable = "avx2")]
        fn quantize_near(values: &[$value], lanes: &Lanes, before: u32, codes: &mut Codes) -> Option<Span> {
            let mut span = Span::of(before);
            let mut farthest = none();
            nearest_bins(values, lanes, |i, bins, distances| {
                for (k, &q) in bins.iter().enumerate() {
                    farthest = farther(distances[k], farthest);
                    codes[2 * i + k] = zigzag(q);
                    span.add(codes[2 * i + k]);
                }
            });
            (all_within(farthest, lanes) && span.upto(LIMIT)).then_some(span)
        }
    };
}
pub(super) use nearest_bins;
