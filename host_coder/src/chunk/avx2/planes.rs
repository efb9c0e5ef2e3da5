//! Codes of a block to its pieces of the planes, and back. `W` is the width of the field's codes: 32 or 64.

use std::arch::x86_64::*;

use super::Pieces;
use super::lanes::*;

/// Columns of a block in 32-bit words, `[4 * column + step]`: see the layout.
pub type Words = [V; 32];
/// Columns of a block in 16-bit words. For encoding `[4 * step + column]`: columns `column` and `column + 4` of the rows from
/// `8 * step` on, a lane each. For decoding `[2 * column + step]`: as [`Words`], with twice as many rows.
pub type ShortWords = [V; 16];
/// Codes of a block in natural order, a row each.
pub type Codes = [V; 32];
/// A block's codes in 16 bits. For encoding `[r / 2]`: rows `r` and `r + 1` interleaved by half rows. For decoding `[r]`: row `r` and row
/// `r + 16` side by side.
pub type ShortCodes = [V; 16];

/// Negabinary mask.
pub const MASK: u32 = 0xAAAA_AAAA;

/// Columns 0 to 3 of `row` and of the row 16 after it. A broadcast and a blend from memory, as neither takes the shuffle unit.
#[inline]
#[target_feature(enable = "avx2")]
fn low_columns(codes: &Codes, row: usize) -> V {
    let halves: &[__m128i] = bytemuck::cast_slice(codes);
    _mm256_blend_epi32::<0x0F>(_mm256_broadcastsi128_si256(halves[2 * (row + 16)]), codes[row])
}

/// Columns 4 to 7 likewise.
#[inline]
#[target_feature(enable = "avx2")]
fn high_columns(codes: &Codes, row: usize) -> V {
    let halves: &[__m128i] = bytemuck::cast_slice(codes);
    _mm256_blend_epi32::<0xF0>(_mm256_broadcastsi128_si256(halves[2 * row + 1]), codes[row + 16])
}

/// Low halves of codes, where these suffice.
#[inline]
#[target_feature(enable = "avx2")]
pub fn shorten(codes: &Codes, short: &mut ShortCodes) {
    let low = |row: usize| _mm256_and_si256(codes[row], _mm256_set1_epi32(0xFFFF));
    for (i, pair) in short.iter_mut().enumerate() {
        *pair = _mm256_packus_epi32(low(2 * i), low(2 * i + 1));
    }
}

/// Lane 0 begins with `low`, lane 1 with `high`.
#[inline]
#[target_feature(enable = "avx2")]
fn lane_starts(low: u32, high: u32) -> V {
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(_mm_cvtsi32_si128(low as i32)), _mm_cvtsi32_si128(high as i32))
}

/// Columns of a block's negabinary differences, and the OR of these. `before` is the code before the block.
/// Without `DIFFER` the codes are taken as they are.
#[inline]
#[target_feature(enable = "avx2")]
pub fn columns<const DIFFER: bool>(codes: &Codes, before: u32, words: &mut Words) -> u32 {
    let mask = _mm256_set1_epi32(MASK as i32);
    let mut or = _mm256_setzero_si256();
    let mut put = |place: usize, code: V, before: V| {
        let word = if DIFFER { _mm256_xor_si256(_mm256_add_epi32(_mm256_sub_epi32(code, before), mask), mask) } else { code };
        if DIFFER {
            or = _mm256_or_si256(or, word);
        }
        words[place] = word;
    };
    let scalars: &[u32] = bytemuck::cast_slice(codes);
    // column 7 of the row before each lane's first, then of step before
    let mut ended = lane_starts(before, scalars[8 * 16 - 1]);
    for step in 0..4 {
        let mut last = _mm256_setzero_si256();
        let mut first = last;
        for half in 0..2 {
            let row = |i: usize| if half == 0 { low_columns(codes, 4 * step + i) } else { high_columns(codes, 4 * step + i) };
            let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
            let (a, b) = (_mm256_unpacklo_epi32(r3, r2), _mm256_unpacklo_epi32(r1, r0));
            let (c, d) = (_mm256_unpackhi_epi32(r3, r2), _mm256_unpackhi_epi32(r1, r0));
            let columns =
                [_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b), _mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d)];
            for (k, &column) in columns.iter().enumerate() {
                if half == 0 && k == 0 {
                    first = column;
                } else {
                    put(4 * (4 * half + k) + step, column, last);
                }
                last = column;
            }
        }
        put(step, first, _mm256_alignr_epi8::<4>(ended, last));
        ended = last;
    }
    or_lanes(or)
}

/// The same in 16 bits, for blocks none of whose differences takes more than 16 negabinary digits.
#[inline]
#[target_feature(enable = "avx2")]
pub fn short_columns<const W: usize>(codes: &ShortCodes, before: u32, words: &mut ShortWords) -> u32 {
    let mask = _mm256_set1_epi16(MASK as i16);
    let mut or = _mm256_setzero_si256();
    let mut put = |place: usize, code: V, before: V| {
        let word = _mm256_xor_si256(_mm256_add_epi16(_mm256_sub_epi16(code, before), mask), mask);
        or = _mm256_or_si256(or, word);
        words[place] = word;
    };
    // column 7 of the row before
    let mut ended = _mm_cvtsi32_si128(before as i32);
    for step in 0..4 {
        // four rows, the last first; columns 0 and 1, and 2 and 3 (upper lane: and four further)
        let quad = |i: usize| {
            let (a, b) = (codes[4 * step + i], codes[4 * step + i + 1]);
            let (even, odd) = (_mm256_unpacklo_epi16(b, a), _mm256_unpackhi_epi16(b, a));
            [_mm256_unpacklo_epi16(odd, even), _mm256_unpackhi_epi16(odd, even)]
        };
        let (first, second) = if W == 32 { (quad(0), quad(2)) } else { (quad(2), quad(0)) };
        let columns = [
            _mm256_unpacklo_epi64(first[0], second[0]),
            _mm256_unpackhi_epi64(first[0], second[0]),
            _mm256_unpacklo_epi64(first[1], second[1]),
            _mm256_unpackhi_epi64(first[1], second[1]),
        ];
        for k in 1..4 {
            put(4 * step + k, columns[k], columns[k - 1]);
        }
        // before column 4 is column 3; before column 0 is column 7 a row before, where words stand for rows 3 2 1 0 7 6 5 4 (W = 32)
        // or 7 to 0
        let across = _mm256_permute2x128_si256::<0x01>(columns[3], columns[3]);
        let seventh = _mm256_castsi256_si128(across);
        let above = if W == 32 {
            let next = _mm_setr_epi8(2, 3, 4, 5, 6, 7, -1, -1, 10, 11, 12, 13, 14, 15, 0, 1);
            _mm_or_si128(_mm_shuffle_epi8(seventh, next), _mm_slli_epi64::<48>(ended))
        } else {
            _mm_alignr_epi8::<2>(ended, seventh)
        };
        put(4 * step, columns[0], _mm256_blend_epi32::<0x0F>(across, _mm256_castsi128_si256(above)));
        ended = if W == 32 { _mm_srli_si128::<8>(seventh) } else { seventh };
    }
    or_lanes(or)
}

/// Swaps the bits `mask << SHIFT` of `a` with the bits `mask` of `b`, in every byte.
#[inline]
#[target_feature(enable = "avx2")]
fn swap_bits<const SHIFT: i32>(bytes: &mut [V; 8], a: usize, b: usize, mask: i8) {
    let swap = _mm256_and_si256(_mm256_xor_si256(_mm256_srli_epi16::<SHIFT>(bytes[a]), bytes[b]), _mm256_set1_epi8(mask));
    bytes[b] = _mm256_xor_si256(bytes[b], swap);
    bytes[a] = _mm256_xor_si256(bytes[a], _mm256_slli_epi16::<SHIFT>(swap));
}

/// The last two of the three steps of an 8 by 8 bit transpose, in one half of the registers.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_half(bytes: &mut [V; 8], i: usize) {
    swap_bits::<2>(bytes, i, i + 2, 0x33);
    swap_bits::<2>(bytes, i + 1, i + 3, 0x33);
    swap_bits::<1>(bytes, i, i + 1, 0x55);
    swap_bits::<1>(bytes, i + 2, i + 3, 0x55);
}

/// Transposes 32 bit matrices: bit k of a byte of register i becomes bit i of that byte of register k.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(bytes: &mut [V; 8]) {
    for i in 0..4 {
        swap_bits::<4>(bytes, i, i + 4, 0x0F);
    }
    transpose_half(bytes, 0);
    transpose_half(bytes, 4);
}

/// The order in which steps of four rows follow each other in the bytes of a plane.
const fn place<const W: usize>(i: usize) -> usize {
    if W == 32 { i } else { i ^ 1 }
}

/// Words of block `block` to its pieces of planes `LOW`, `LOW` - 1, ..: eight for each of `N` bytes, four for the last where `HALF`.
#[inline]
#[target_feature(enable = "avx2")]
pub fn planes<const W: usize, const LOW: usize, const N: usize, const HALF: bool>(words: &Words, block: usize, pieces: &mut Pieces) {
    let mut bytes = [[_mm256_setzero_si256(); 8]; N];
    let low = _mm256_set1_epi16(0xFF);
    for column in 0..8 {
        let word = |i: usize| words[4 * column + place::<W>(i)];
        let to = 7 - column;
        if N <= 2 {
            let (a, b) = (_mm256_packus_epi32(word(0), word(1)), _mm256_packus_epi32(word(2), word(3)));
            pack(&mut bytes, to, a, b, low);
        } else {
            let by_byte = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
            let word = |i: usize| _mm256_shuffle_epi8(word(i), by_byte);
            let (w0, w1, w2, w3) = (word(0), word(1), word(2), word(3));
            let (a, b) = (_mm256_unpacklo_epi32(w0, w1), _mm256_unpacklo_epi32(w2, w3));
            bytes[0][to] = _mm256_unpacklo_epi64(a, b);
            bytes[1][to] = _mm256_unpackhi_epi64(a, b);
            let (a, b) = (_mm256_unpackhi_epi32(w0, w1), _mm256_unpackhi_epi32(w2, w3));
            bytes[2][to] = _mm256_unpacklo_epi64(a, b);
            if N == 4 {
                bytes[3][to] = _mm256_unpackhi_epi64(a, b);
            }
        }
    }
    store::<W, LOW, N, HALF>(&mut bytes, block, pieces);
}

/// The same from 16-bit words.
#[inline]
#[target_feature(enable = "avx2")]
pub fn short_planes<const W: usize, const LOW: usize, const N: usize, const HALF: bool>(
    words: &ShortWords,
    block: usize,
    pieces: &mut Pieces,
) {
    let mut bytes = [[_mm256_setzero_si256(); 8]; N];
    let low = _mm256_set1_epi16(0xFF);
    for column in 0..4 {
        let word = |step: usize| words[4 * step + column];
        let mut both = [[_mm256_setzero_si256(); 8]; N];
        pack(&mut both, 0, word(0), word(1), low);
        pack(&mut both, 1, word(2), word(3), low);
        for (bytes, [a, b, ..]) in bytes.iter_mut().zip(both) {
            bytes[7 - column] = _mm256_permute2x128_si256::<0x20>(a, b);
            bytes[3 - column] = _mm256_permute2x128_si256::<0x31>(a, b);
        }
    }
    store::<W, LOW, N, HALF>(&mut bytes, block, pieces);
}

/// Splits 16-bit words into their bytes. (Where only one is asked for the other is 0.)
#[inline]
#[target_feature(enable = "avx2")]
fn pack<const N: usize>(bytes: &mut [[V; 8]; N], to: usize, a: V, b: V, low: V) {
    if N == 1 {
        bytes[0][to] = _mm256_packus_epi16(a, b);
    } else {
        bytes[0][to] = _mm256_packus_epi16(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
        bytes[1][to] = _mm256_packus_epi16(_mm256_srli_epi16::<8>(a), _mm256_srli_epi16::<8>(b));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store<const W: usize, const LOW: usize, const N: usize, const HALF: bool>(bytes: &mut [[V; 8]; N], block: usize, pieces: &mut Pieces) {
    assert!(block < 512 / W);
    for (n, bytes) in bytes.iter_mut().enumerate() {
        let half = HALF && n == N - 1;
        if half {
            for i in 0..4 {
                bytes[i] = _mm256_or_si256(bytes[i], _mm256_slli_epi16::<4>(bytes[i + 4]));
            }
            transpose_half(bytes, 0);
        } else {
            transpose(bytes);
        }
        // the last first
        let start = (LOW - 8 * n - 7) * (512 / W);
        let places = &mut pieces.bytes[start..][..8 * (512 / W)];
        for (i, &piece) in bytes.iter().enumerate().take(if half { 4 } else { 8 }) {
            places[(7 - i) * (512 / W) + block] = piece;
        }
        let flags = &mut pieces.flags_mut()[start..][..8 * (512 / W)];
        for (i, &piece) in bytes.iter().enumerate().take(if half { 4 } else { 8 }) {
            flags[(7 - i) * (512 / W) + block] = nonzero(piece);
        }
    }
}

/// The last `8 N` planes' pieces of a block, transposed, with the negabinary mask XORed in.
#[inline]
#[target_feature(enable = "avx2")]
fn read_bytes<const W: usize, const LOW: usize, const N: usize>(bytes: &[V; 512], block: usize) -> [[V; 8]; N] {
    assert!(block < 512 / W);
    let ones = _mm256_set1_epi8(-1);
    let mut columns = [[_mm256_setzero_si256(); 8]; N];
    for (n, columns) in columns.iter_mut().enumerate() {
        // the last first
        let pieces = &bytes[(LOW - 8 * n - 7) * (512 / W)..][..8 * (512 / W)];
        for (i, column) in columns.iter_mut().enumerate() {
            let piece = pieces[(7 - i) * (512 / W) + block];
            // the mask's digits, while they are planes
            *column = if i % 2 == 1 { _mm256_xor_si256(piece, ones) } else { piece };
        }
        transpose(columns);
    }
    columns
}

/// Columns of a block from the last `8 N` planes, with the negabinary mask XORed in; with `DIFFER` they are the differences.
/// Gives their sums over the columns.
#[inline]
#[target_feature(enable = "avx2")]
pub fn words<const W: usize, const LOW: usize, const N: usize, const DIFFER: bool>(
    bytes: &[V; 512],
    block: usize,
    words: &mut Words,
) -> [V; 4] {
    let bytes = read_bytes::<W, LOW, N>(bytes, block);
    let mask = _mm256_set1_epi32(MASK as i32);
    let mut sums = [_mm256_setzero_si256(); 4];
    for column in 0..8 {
        let byte = |n: usize| if n < N { bytes[n][7 - column] } else { mask };
        let (a, b) = (_mm256_unpacklo_epi8(byte(0), byte(1)), _mm256_unpackhi_epi8(byte(0), byte(1)));
        let (c, d) = if N > 2 { (_mm256_unpacklo_epi8(byte(2), byte(3)), _mm256_unpackhi_epi8(byte(2), byte(3))) } else { (mask, mask) };
        let steps = [_mm256_unpacklo_epi16(a, c), _mm256_unpackhi_epi16(a, c), _mm256_unpacklo_epi16(b, d), _mm256_unpackhi_epi16(b, d)];
        for (i, &word) in steps.iter().enumerate() {
            let step = place::<W>(i);
            let word = if DIFFER { _mm256_sub_epi32(word, mask) } else { word };
            words[4 * column + step] = word;
            sums[step] = _mm256_add_epi32(sums[step], word);
        }
    }
    sums
}

/// What stands before each row in the sum of all differences: `before` (in every lane, updated to the block's last code) and the rows
/// above, whose sums are given.
#[inline]
#[target_feature(enable = "avx2")]
fn row_starts(row_sums: [V; 4], before: &mut V) -> [V; 4] {
    let mut starts = [_mm256_setzero_si256(); 4];
    let mut above = _mm256_setzero_si256();
    for (start, row) in starts.iter_mut().zip(row_sums) {
        // sums from the first row, which is the last dword of its lane
        let sums = _mm256_add_epi32(row, _mm256_srli_si256::<4>(row));
        let sums = _mm256_add_epi32(sums, _mm256_srli_si256::<8>(sums));
        *start = _mm256_add_epi32(_mm256_srli_si256::<4>(sums), above);
        above = _mm256_add_epi32(above, _mm256_shuffle_epi32::<0>(sums));
    }
    let base = _mm256_add_epi32(*before, _mm256_permute2x128_si256::<0x08>(above, above));
    *before = _mm256_add_epi32(*before, _mm256_add_epi32(above, _mm256_permute2x128_si256::<0x01>(above, above)));
    starts.map(|start| _mm256_add_epi32(start, base))
}

/// Number of planes that are read for so many in use: see [`read_codes`].
pub fn planes_read(in_use: usize) -> usize {
    match in_use {
        0..=8 => 8,
        9..=12 => 12,
        13..=16 => 16,
        17..=24 => 24,
        _ => 32,
    }
}

/// Codes of a block, in one of two forms.
pub struct BlockCodes {
    /// Modulo 2 to the power of 32.
    pub long: Codes,
    /// All below 2 to the power of 15.
    pub short: ShortCodes,
}

/// Reads a block that uses only the `planes` planes up to `LOW`. `before` is the code before the block, in every lane, and then the
/// block's last. Gives whether the codes are short.
#[inline]
#[target_feature(enable = "avx2")]
pub fn read_codes<const W: usize, const LOW: usize>(
    bytes: &[V; 512],
    block: usize,
    planes: usize,
    before: &mut V,
    codes: &mut BlockCodes,
) -> bool {
    match planes_read(planes) {
        8 => short_codes::<W, LOW, 1>(bytes, block, before, codes),
        12 => short_codes::<W, LOW, 2>(bytes, block, before, codes),
        16 => long_codes::<W, LOW, 2>(bytes, block, before, codes),
        24 => long_codes::<W, LOW, 3>(bytes, block, before, codes),
        _ => long_codes::<W, LOW, 4>(bytes, block, before, codes),
    }
}

#[inline(never)]
#[target_feature(enable = "avx2")]
fn long_codes<const W: usize, const LOW: usize, const N: usize>(
    bytes: &[V; 512],
    block: usize,
    before: &mut V,
    codes: &mut BlockCodes,
) -> bool {
    let mut differences = [_mm256_setzero_si256(); 32];
    let sums = words::<W, LOW, N, true>(bytes, block, &mut differences);
    to_rows::<true>(&differences, row_starts(sums, before), &mut codes.long);
    false
}

/// Transposes columns back to rows; with `SUM`, their sums from the rows' `starts` on.
#[inline]
#[target_feature(enable = "avx2")]
pub fn to_rows<const SUM: bool>(words: &Words, starts: [V; 4], codes: &mut Codes) {
    for (step, &start) in starts.iter().enumerate() {
        let mut sum = start;
        let mut rows = [[sum; 4]; 2];
        for (half, rows) in rows.iter_mut().enumerate() {
            let mut columns = [sum; 4];
            for (k, column) in columns.iter_mut().enumerate() {
                let word = words[4 * (4 * half + k) + step];
                sum = if SUM { _mm256_add_epi32(sum, word) } else { word };
                *column = sum;
            }
            let [c0, c1, c2, c3] = columns;
            let (a, b) = (_mm256_unpacklo_epi32(c0, c1), _mm256_unpacklo_epi32(c2, c3));
            let (c, d) = (_mm256_unpackhi_epi32(c0, c1), _mm256_unpackhi_epi32(c2, c3));
            *rows = [_mm256_unpackhi_epi64(c, d), _mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(a, b), _mm256_unpacklo_epi64(a, b)];
        }
        for i in 0..4 {
            codes[4 * step + i] = _mm256_permute2x128_si256::<0x20>(rows[0][i], rows[1][i]);
            codes[4 * step + i + 16] = _mm256_permute2x128_si256::<0x31>(rows[0][i], rows[1][i]);
        }
    }
}

/// Columns of a block's differences in 16 bits, from the last 8 (`N` = 1) or 12 (2) planes.
#[inline]
#[target_feature(enable = "avx2")]
fn short_words<const W: usize, const LOW: usize, const N: usize>(bytes: &[V; 512], block: usize, words: &mut ShortWords) {
    let low = read_bytes::<W, LOW, 1>(bytes, block)[0];
    let mask = _mm256_set1_epi16(MASK as i16);
    let mut high = [mask; 8];
    if N == 2 {
        for (i, piece) in high.iter_mut().enumerate().take(4) {
            *piece = bytes[(LOW - 8 - i) * (512 / W) + block];
        }
        transpose_half(&mut high, 0);
        let digits = _mm256_set1_epi8(0x0F);
        for i in 0..4 {
            let both = high[i];
            high[i] = _mm256_xor_si256(_mm256_and_si256(both, digits), mask);
            high[i + 4] = _mm256_xor_si256(_mm256_and_si256(_mm256_srli_epi16::<4>(both), digits), mask);
        }
    }
    for column in 0..8 {
        let (low, high) = (low[7 - column], high[7 - column]);
        words[2 * column] = _mm256_sub_epi16(_mm256_unpacklo_epi8(low, high), mask);
        words[2 * column + 1] = _mm256_sub_epi16(_mm256_unpackhi_epi8(low, high), mask);
    }
}

/// From the last 8 (`N` = 1) or 12 (2) planes, with which no sum of eight differences exceeds 15 bits.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn short_codes<const W: usize, const LOW: usize, const N: usize>(
    bytes: &[V; 512],
    block: usize,
    before: &mut V,
    codes: &mut BlockCodes,
) -> bool {
    let mut words = [_mm256_setzero_si256(); 16];
    short_words::<W, LOW, N>(bytes, block, &mut words);
    let mut row_sums = [_mm256_setzero_si256(); 4];
    for half in 0..2 {
        for column in 1..8 {
            words[2 * column + half] = _mm256_add_epi16(words[2 * column + half], words[2 * (column - 1) + half]);
        }
        let sum = words[14 + half];
        row_sums[place::<W>(2 * half)] = _mm256_srai_epi32::<16>(_mm256_unpacklo_epi16(sum, sum));
        row_sums[place::<W>(2 * half + 1)] = _mm256_srai_epi32::<16>(_mm256_unpackhi_epi16(sum, sum));
    }
    let starts = row_starts(row_sums, before);
    let short_starts = [0, 2].map(|i| _mm256_packs_epi32(starts[place::<W>(i)], starts[place::<W>(i + 1)]));
    let mut or = _mm256_setzero_si256();
    for (i, word) in words.iter_mut().enumerate() {
        *word = _mm256_add_epi16(*word, short_starts[i % 2]);
        or = _mm256_or_si256(or, *word);
    }
    let or_starts = starts.iter().fold(_mm256_setzero_si256(), |or, &start| _mm256_or_si256(or, start));
    let short =
        _mm256_testz_si256(or, _mm256_set1_epi16(i16::MIN)) & _mm256_testz_si256(or_starts, _mm256_set1_epi32(i16::MIN.into())) == 1;
    if !short {
        for (i, word) in words.iter_mut().enumerate() {
            *word = _mm256_sub_epi16(*word, short_starts[i % 2]);
        }
    }
    for half in 0..2 {
        let pair = |column: usize| {
            let (a, b) = (words[2 * column + half], words[2 * column + 2 + half]);
            [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)]
        };
        let pairs = [pair(0), pair(2), pair(4), pair(6)];
        for i in 0..2 {
            let [a, b, c, d] = pairs.map(|pair| pair[i]);
            let quads =
                [[_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d)], [_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d)]];
            for (k, [left, right]) in quads.into_iter().enumerate() {
                // words stand for rows 3 2 1 0 7 6 5 4 (W = 32) or 7 to 0
                let flip = if W == 32 { 3 } else { 7 };
                let word = 4 * i + 2 * k;
                codes.short[8 * half + (word ^ flip)] = _mm256_unpacklo_epi64(left, right);
                codes.short[8 * half + ((word + 1) ^ flip)] = _mm256_unpackhi_epi64(left, right);
            }
        }
    }
    if !short {
        add_starts(&codes.short, starts, &mut codes.long);
    }
    short
}

/// Rows of 16-bit integers in 32 bits.
#[inline]
#[target_feature(enable = "avx2")]
pub fn lengthen(pair: V) -> [V; 2] {
    [_mm256_cvtepi16_epi32(_mm256_castsi256_si128(pair)), _mm256_cvtepi16_epi32(_mm256_extracti128_si256::<1>(pair))]
}

/// Codes from sums within rows and the rows' starts.
#[inline]
#[target_feature(enable = "avx2")]
fn add_starts(sums: &ShortCodes, starts: [V; 4], codes: &mut Codes) {
    let starts: &[i32] = bytemuck::cast_slice(&starts);
    for (row, &pair) in sums.iter().enumerate() {
        for (lane, sums) in lengthen(pair).into_iter().enumerate() {
            let start = starts[8 * (row / 4) + 4 * lane + 3 - row % 4];
            codes[row + 16 * lane] = _mm256_add_epi32(sums, _mm256_set1_epi32(start));
        }
    }
}

/// Which planes a block needs: makes them from its codes and gives their number. `or` flags the digits in use.
#[inline]
#[target_feature(enable = "avx2,lzcnt")]
pub fn long_to_planes<const W: usize, const LOW: usize>(words: &Words, or: u32, block: usize, pieces: &mut Pieces) -> u32 {
    match 32 - or.leading_zeros() {
        0 => 0,
        1..=8 => {
            planes::<W, LOW, 1, false>(words, block, pieces);
            8
        }
        9..=16 => {
            planes::<W, LOW, 2, false>(words, block, pieces);
            16
        }
        17..=20 => {
            planes::<W, LOW, 3, true>(words, block, pieces);
            20
        }
        _ => {
            planes::<W, LOW, 4, false>(words, block, pieces);
            32
        }
    }
}

/// The same from 16-bit words.
#[inline]
#[target_feature(enable = "avx2,lzcnt")]
pub fn short_to_planes<const W: usize, const LOW: usize>(words: &ShortWords, or: u32, block: usize, pieces: &mut Pieces) -> u32 {
    match 32 - ((or | or >> 16) & 0xFFFF).leading_zeros() {
        0 => 0,
        1..=8 => {
            short_planes::<W, LOW, 1, false>(words, block, pieces);
            8
        }
        9..=12 => {
            short_planes::<W, LOW, 2, true>(words, block, pieces);
            12
        }
        _ => {
            short_planes::<W, LOW, 2, false>(words, block, pieces);
            16
        }
    }
}
