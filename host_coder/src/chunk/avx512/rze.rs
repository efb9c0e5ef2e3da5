//! Zero-byte elimination, the same for both element types: a chunk's planes are 256 lines of 64 bytes, whose nonzero bytes are
//! flagged in 256 words.
//!
//! ```text
//! flags of a line    = the line's bytes tested against 0
//! changes of a level = its 64 bytes compared with the 64 bytes that begin one byte earlier
//! keep               = vpcompressb to a register, a full store, and an advance by the count: to memory the instruction is slow
//! bring back bytes   = vpexpandb from a full load
//! repeat bytes       = byte i is kept byte number (changes up to i) - 1: two counts and a byte permute
//! ```

use std::arch::x86_64::*;

use super::vector::{Aligned, Line, load, store};
use crate::chunk::{Coded, SLACK};
use crate::header::{CHUNK_BYTES, RAW};

/// Lines of a chunk's planes.
pub(super) const LINES: usize = CHUNK_BYTES / 64;
/// Coded bytes after the kept ones: the last flags, and the u16.
const TAIL: usize = 6;

pub(super) type Planes = [Line; LINES];

/// Flags in words of 64, after a line of them that reads as zero: the bytes before the first.
struct Flags<const N: usize>(Aligned<[[u64; 8]; N]>);

impl<const N: usize> Flags<N> {
    const fn zero() -> Self {
        Self(Aligned([[0; 8]; N]))
    }

    fn words(&self) -> &[u64] {
        &self.0.0.as_flattened()[8..]
    }

    fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0.0.as_flattened_mut()[8..]
    }

    /// The flag bytes of line `line`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn line(&self, line: usize) -> __m512i {
        load(&self.0.0[line + 1])
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn set_line(&mut self, line: usize, flags: __m512i) {
        store(&mut self.0.0[line + 1], flags);
    }

    /// Which words of line `line` are not zero.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn some(&self, line: usize) -> u8 {
        _mm512_test_epi64_mask(self.line(line), self.line(line))
    }

    /// Which flag bytes of line `line` differ from the byte before.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn changes(&self, line: usize) -> u64 {
        let bytes: &[u8] = bytemuck::cast_slice(self.0.0.as_flattened());
        let before: &Line = bytes[64 * line + 63..].first_chunk().expect("a line");
        _mm512_cmpneq_epi8_mask(self.line(line), load(before))
    }
}

/// Planes of one chunk and the flags of their nonzero bytes, of these flags' changes, and of theirs. A line without flags may hold
/// anything.
pub(super) struct Buffers {
    pub(super) planes: Aligned<Planes>,
    nonzero: Flags<{ 1 + 32 }>,
    changed: Flags<{ 1 + 4 }>,
    changed_again: Flags<{ 1 + 1 }>,
    /// A chunk at the end of its stream, for reads beyond it.
    copy: [u8; CHUNK_BYTES + SLACK],
}

/// What [`Buffers::restore_zeros`] gives.
pub(super) struct Restored<'a> {
    pub(super) planes: &'a Planes,
    /// Lines before this one are zero, whatever the planes hold there.
    pub(super) first: usize,
    /// Blocks whose upper lines are not all zero.
    pub(super) upper: u8,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            planes: Aligned([[0; 64]; LINES]),
            nonzero: Flags::zero(),
            changed: Flags::zero(),
            changed_again: Flags::zero(),
            copy: [0; CHUNK_BYTES + SLACK],
        }
    }
}

impl Buffers {
    /// Sets a block's line of a plane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn set_line<const WIDTH: usize, const BLOCKS: usize>(&mut self, plane: usize, block: usize, bytes: __m512i) {
        let planes: &mut [[Line; BLOCKS]; WIDTH] = self.planes.0.as_chunks_mut().0.first_chunk_mut().expect("all planes");
        let nonzero: &mut [[u64; BLOCKS]; WIDTH] = self.nonzero.words_mut().as_chunks_mut().0.first_chunk_mut().expect("all planes");
        store(&mut planes[plane][block], bytes);
        nonzero[plane][block] = _mm512_test_epi8_mask(bytes, bytes);
    }

    /// Makes a line of the planes zero.
    #[inline]
    pub(super) fn set_zero(&mut self, line: usize) {
        self.nonzero.words_mut()[line] = 0;
    }

    /// Writes the chunk's coded bytes to `out` and gives the table entry. Lines before `first` are zero, whatever the planes hold there.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,avx512vpopcntdq,popcnt")]
    pub(super) fn eliminate_zeros(&mut self, first: usize, out: &mut [u8]) -> u32 {
        let lead = first / 8;
        self.nonzero.words_mut()[..first].fill(0);
        self.changed.words_mut()[..lead].fill(0);
        let mut count = _mm512_setzero_si512();
        let mut kept = 0;
        for line in lead..32 {
            count = _mm512_add_epi64(count, _mm512_popcnt_epi64(self.nonzero.line(line)));
            let changes = self.nonzero.changes(line);
            self.changed.words_mut()[line] = changes;
            kept += changes.count_ones() as usize;
        }
        let count = _mm512_reduce_add_epi64(count) as usize;
        for line in 0..4 {
            let changes = self.changed.changes(line);
            self.changed_again.words_mut()[line] = changes;
            kept += changes.count_ones() as usize;
        }
        let last = self.changed_again.changes(0) as u32;
        kept += last.count_ones() as usize;
        if count == 0 {
            out[..2].copy_from_slice(&(CHUNK_BYTES as u16).to_le_bytes());
            return 2;
        }
        let length = count + kept + TAIL;
        if length >= CHUNK_BYTES {
            out[..CHUNK_BYTES].copy_from_slice(self.planes.0.as_flattened());
            for (line, &flags) in out.as_chunks_mut::<64>().0.iter_mut().zip(self.nonzero.words()) {
                if flags == 0 {
                    line.fill(0);
                }
            }
            return RAW | CHUNK_BYTES as u32;
        }
        let mut writer = Writer { out: out.first_chunk_mut().expect("room for a chunk and the slack"), at: 0 };
        let flags = self.nonzero.words().as_chunks::<8>().0;
        for (group, (lines, flags)) in self.planes.0.as_chunks::<8>().0.iter().zip(flags).enumerate().skip(lead) {
            let some = self.nonzero.some(group);
            if some == 0xff {
                for line in 0..8 {
                    writer.keep(load(&lines[line]), flags[line]);
                }
            } else {
                for line in set_bits(some) {
                    writer.keep(load(&lines[line]), flags[line]);
                }
            }
        }
        for line in lead..32 {
            writer.keep(self.nonzero.line(line), self.changed.words()[line]);
        }
        for line in 0..4 {
            writer.keep(self.changed.line(line), self.changed_again.words()[line]);
        }
        writer.keep(self.changed_again.line(0), last.into());
        let at = writer.at;
        out[at..at + 4].copy_from_slice(&last.to_le_bytes());
        out[at + 4..at + TAIL].copy_from_slice(&(CHUNK_BYTES as u16).to_le_bytes());
        length as u32
    }

    /// Undoes [`Self::eliminate_zeros`]. `None`: the chunk's parts do not add up to its length.
    ///
    /// Words have `blocks` lines in a plane. Lines before `upper` are a block's upper ones: where they are all zero, those in the first
    /// half of the planes are left as they are. So are those before the first byte of a word that is not zero everywhere.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,popcnt")]
    pub(super) fn restore_zeros<'a>(&'a mut self, coded: Coded<'a>, blocks: usize, upper: usize) -> Option<Restored<'a>> {
        let stream = &coded.stream[coded.at..];
        if coded.raw {
            let planes = stream.as_chunks().0.first_chunk().expect("a raw chunk");
            return Some(Restored { planes, first: 0, upper: !0 });
        }
        let reader = if coded.length + SLACK <= stream.len() {
            &stream[..coded.length + SLACK]
        } else {
            self.copy[..coded.length].copy_from_slice(&stream[..coded.length]);
            &self.copy[..coded.length + SLACK]
        };
        let (body, tail) = reader[..coded.length].split_at(coded.length.checked_sub(TAIL).unwrap_or(coded.length - 2));
        if tail[tail.len() - 2..] != (CHUNK_BYTES as u16).to_le_bytes() {
            return None;
        }
        let Some(last) = tail.first_chunk::<4>() else { return Some(Restored { planes: &self.planes.0, first: LINES, upper: 0 }) };
        let last = u32::from_le_bytes(*last);

        let end = body.len().checked_sub(last.count_ones() as usize)?;
        let mut repeater = Repeater::new(reader, end);
        self.changed_again.set_line(0, repeater.repeat(last.into()));
        let words = &self.changed_again.words()[..4];
        let end = end.checked_sub(ones(words))?;
        let mut repeater = Repeater::new(reader, end);
        for (line, &changes) in words.iter().enumerate() {
            self.changed.set_line(line, repeater.repeat(changes));
        }
        let words = self.changed.words();
        let end = end.checked_sub(ones(words))?;
        let mut repeater = Repeater::new(reader, end);
        let some = [self.changed.some(0), self.changed.some(1), self.changed.some(2), self.changed.some(3)];
        let lead = u32::from_le_bytes(some).trailing_zeros() as usize;
        let mut count = _mm512_setzero_si512();
        for (line, &changes) in words.iter().enumerate().skip(lead) {
            let flags = repeater.repeat(changes);
            self.nonzero.set_line(line, flags);
            count = _mm512_add_epi64(count, _mm512_popcnt_epi64(flags));
        }
        if _mm512_reduce_add_epi64(count) as usize != end {
            return None;
        }
        let mut any = _mm512_setzero_si512();
        debug_assert_eq!(upper % 8, 0);
        for line in lead..upper / 8 {
            any = _mm512_or_si512(any, self.nonzero.line(line));
        }
        if blocks == 4 {
            any = _mm512_or_si512(any, _mm512_alignr_epi64::<4>(any, any));
        }
        let upper = _mm512_test_epi64_mask(any, any);
        let first = 8 * lead;
        self.planes.0[first - first % (8 * blocks)..first].fill([0; 64]);
        let mut reader = Reader { bytes: reader, at: 0 };
        let flags = self.nonzero.words().as_chunks::<8>().0;
        for (group, (lines, flags)) in self.planes.0.as_chunks_mut::<8>().0.iter_mut().zip(flags).enumerate().skip(lead) {
            if group < LINES / 16 && upper != 0xff {
                for line in set_bits(upper) {
                    store(&mut lines[line], reader.bring_back(flags[line]));
                }
            } else {
                for line in 0..8 {
                    store(&mut lines[line], reader.bring_back(flags[line]));
                }
            }
        }
        Some(Restored { planes: &self.planes.0, first, upper })
    }
}

/// Places of the ones, in order.
fn set_bits(mut mask: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        place
    })
}

fn ones(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// Writes kept bytes one after the other.
struct Writer<'a> {
    out: &'a mut [u8; CHUNK_BYTES + SLACK],
    at: usize,
}

impl Writer<'_> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512vbmi2,popcnt")]
    fn keep(&mut self, bytes: __m512i, flags: u64) {
        store(self.out[self.at..].first_chunk_mut::<64>().expect("the slack follows"), _mm512_maskz_compress_epi8(flags, bytes));
        self.at += flags.count_ones() as usize;
    }
}

/// Reads nonzero bytes.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512vbmi2,popcnt")]
    fn bring_back(&mut self, flags: u64) -> __m512i {
        let bytes = self.bytes[self.at..].first_chunk::<64>().expect("the slack follows");
        self.at += flags.count_ones() as usize;
        _mm512_maskz_expand_epi8(flags, load(bytes))
    }
}

/// Reads kept bytes, each repeated until the next change.
struct Repeater<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The byte before, everywhere.
    before: __m512i,
}

impl<'a> Repeater<'a> {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, before: _mm512_setzero_si512() }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512bitalg,avx512vpopcntdq,popcnt")]
    fn repeat(&mut self, changes: u64) -> __m512i {
        const BELOW_WORD: Aligned<[u64; 8]> =
            Aligned([0, 0xff, 0xffff, 0xff_ffff, 0xffff_ffff, 0xff_ffff_ffff, 0xffff_ffff_ffff, 0xff_ffff_ffff_ffff]);
        // byte 8g + i of the line
        let own_byte = _mm512_set_epi64(
            0x0707_0707_0707_0707,
            0x0606_0606_0606_0606,
            0x0505_0505_0505_0505,
            0x0404_0404_0404_0404,
            0x0303_0303_0303_0303,
            0x0202_0202_0202_0202,
            0x0101_0101_0101_0101,
            0,
        );
        let up_to_own = _mm512_set1_epi64(0xff7f_3f1f_0f07_0301_u64 as i64);
        let all = _mm512_set1_epi64(changes as i64);
        let in_words_below = _mm512_popcnt_epi64(_mm512_and_si512(all, load(&BELOW_WORD.0)));
        let in_words_below = _mm512_shuffle_epi8(in_words_below, _mm512_set4_epi32(0x0808_0808, 0x0808_0808, 0, 0));
        let in_own_word = _mm512_popcnt_epi8(_mm512_and_si512(_mm512_shuffle_epi8(all, own_byte), up_to_own));
        let count = _mm512_add_epi8(in_words_below, in_own_word);
        let kept = load(self.bytes[self.at..].first_chunk::<64>().expect("the slack follows"));
        let any = _mm512_test_epi8_mask(count, count);
        let index = _mm512_sub_epi8(count, _mm512_set1_epi8(1));
        let repeated = _mm512_mask_blend_epi8(any, self.before, _mm512_permutexvar_epi8(index, kept));
        self.before = _mm512_permutexvar_epi8(_mm512_set1_epi8(63), repeated);
        self.at += changes.count_ones() as usize;
        repeated
    }
}
