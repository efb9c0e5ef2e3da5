//! Zero elimination: planes to coded bytes, and back. It sees planes as 32 strips of 512 bytes, whatever the type.

use std::arch::x86_64::*;

use super::lanes::*;
use super::{Coded, Pieces};
use crate::header::{CHUNK_BYTES, RAW};

/// Strips of a chunk.
pub const STRIPS: usize = 32;
const STRIP: usize = CHUNK_BYTES / STRIPS;
/// Groups of 32 bytes, one register each, in a strip.
const GROUPS: usize = STRIP / 32;

/// Nonzero bytes of a strip from which most groups are expected to lack at most one.
const DENSE: usize = 496;
/// Nonzero bytes of a strip below which most groups are expected to have none.
const SPARSE: usize = 32;

/// What reading or writing whole registers may touch past the end of a list.
const SPILL: usize = 32;

/// Bitmaps of the levels and the bytes kept of them.
#[repr(C, align(64))]
pub struct Levels {
    changes: [V; 8],
    changes_of_changes: V,
    /// Behind a zero byte, which is before the first, and before room to spill. Decoding only.
    kept: [[u8; 1 + 2048 + SPILL]; 3],
    /// Nonzero bytes of the strips.
    nonzero: [usize; STRIPS],
    /// The end of a coded chunk, where groups cannot be read from the stream.
    tail: [u8; 1 + STRIP + SPILL],
}

impl Default for Levels {
    #[inline]
    fn default() -> Self {
        let zero: V = bytemuck::Zeroable::zeroed();
        Self { changes: [zero; 8], changes_of_changes: zero, kept: [[0; _]; 3], nonzero: [0; _], tail: [0; _] }
    }
}

#[repr(align(64))]
struct Shuffles([[u8; 16]; 256]);

/// `byte(mask, i, rank)` of every mask of eight flags and place, `rank` flags being set before the place.
macro_rules! shuffles {
    ($name:ident, $about:literal, |$mask:ident, $table:ident, $i:ident, $rank:ident| $set:expr) => {
        #[doc = $about]
        static $name: Shuffles = Shuffles({
            let mut tables = [[0x80; 16]; 256];
            let mut $mask = 0;
            while $mask < 256 {
                let $table = &mut tables[$mask];
                let (mut $i, mut $rank) = (0, 0);
                while $i < 8 {
                    $set;
                    $rank += $mask >> $i & 1;
                    $i += 1;
                }
                $mask += 1;
            }
            tables
        });
    };
}
shuffles!(COMPACT, "Moves the flagged bytes to the front.", |mask, table, i, rank| if mask >> i & 1 == 1 {
    table[rank] = i as u8
});
shuffles!(EXPAND, "Moves the leading bytes to the flagged places, 0 elsewhere.", |mask, table, i, rank| if mask >> i & 1 == 1 {
    table[i] = rank as u8
});
shuffles!(REPEAT, "To every place, the byte whose number is the count of flags up to there.", |mask, table, i, rank| table[i] =
    (rank + (mask >> i & 1)) as u8);

#[inline]
#[target_feature(enable = "avx2")]
fn shuffle(bytes: __m128i, table: &Shuffles, flags: u8) -> __m128i {
    _mm_shuffle_epi8(bytes, load(&table.0[flags as usize]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load8(bytes: &[u8]) -> __m128i {
    _mm_cvtsi64_si128(load(bytes))
}

/// 32 bytes of which those below `count` (at most 32) are set.
#[inline]
#[target_feature(enable = "avx2")]
fn below(count: u32) -> V {
    load(&BELOW_AND_AT[32 - count as usize..])
}

/// 32 bytes of which that at `place` is set (none at 32).
#[inline]
#[target_feature(enable = "avx2")]
fn at(place: u32) -> V {
    load(&BELOW_AND_AT[96 - place as usize..])
}

static BELOW_AND_AT: [u8; 128] = {
    let mut bytes = [0; 128];
    let mut i = 0;
    while i < 32 {
        bytes[i] = 0xFF;
        i += 1;
    }
    bytes[96] = 0xFF;
    bytes
};

/// Appends the flagged bytes of `group`, and gives the new end.
///
/// # Safety
/// 32 bytes may be written at `to`.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn compact(group: &V, flags: u32, mut to: *mut u8) -> *mut u8 {
    let bytes: &[u8; 32] = bytemuck::cast_ref(group);
    for (eight, flags) in bytes.as_chunks::<8>().0.iter().zip(flags.to_le_bytes()) {
        // SAFETY: at most 8 bytes for each of the eights before, and 8 now.
        to = unsafe {
            _mm_storel_epi64(to.cast(), shuffle(load8(eight), &COMPACT, flags));
            to.add(flags.count_ones() as usize)
        };
    }
    to
}

/// [`compact`] of a group that lacks at most one byte.
///
/// # Safety
/// 32 bytes may be written at `to`.
#[inline]
#[target_feature(enable = "avx2,popcnt,bmi1")]
unsafe fn compact_dense(group: &V, flags: u32, to: *mut u8) -> *mut u8 {
    // the bytes one place further: the group's last byte repeats, which is past the end if there is a hole
    let across = _mm256_permute2x128_si256::<0x81>(*group, *group);
    let next = _mm256_alignr_epi8::<1>(across, *group);
    let bytes = _mm256_blendv_epi8(next, *group, below(flags.trailing_ones()));
    // SAFETY: the caller's.
    unsafe {
        _mm256_storeu_si256(to.cast(), bytes);
        to.add(flags.count_ones() as usize)
    }
}

/// Flags the bytes of `bitmap` that differ from the byte before; gives their count.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn mark_changes(bitmap: &[V], changes: &mut [u32]) -> usize {
    let mut before = _mm256_setzero_si256();
    let mut count = 0;
    for (&group, change) in bitmap.iter().zip(changes) {
        let across = _mm256_permute2x128_si256::<0x21>(before, group);
        *change = differing(group, _mm256_alignr_epi8::<15>(group, across));
        count += change.count_ones() as usize;
        before = group;
    }
    count
}

/// The format's step 5 for planes whose strips before `first` (at most 31) are 0, as are groups with no flags, whatever `pieces` says of
/// these. Gives the table entry.
#[inline]
#[target_feature(enable = "avx2,popcnt,bmi1")]
pub fn eliminate_zeros(pieces: &Pieces, levels: &mut Levels, first: usize, out: &mut [u8]) -> u32 {
    let Levels { changes, changes_of_changes, nonzero, .. } = levels;
    let bitmap = &pieces.flags[2 * first..];
    let changed: &mut [u32] = bytemuck::cast_slice_mut(changes);
    changed[..2 * first].fill(0);
    let mut length = count_nonzero(pieces, first, nonzero) + mark_changes(bitmap, &mut changed[2 * first..]) + 6;
    let mut last = 0;
    // the other levels could only add to that
    if length < CHUNK_BYTES {
        length += mark_changes(changes, bytemuck::cast_mut::<V, [u32; 8]>(changes_of_changes));
        length += mark_changes(std::slice::from_ref(changes_of_changes), std::slice::from_mut(&mut last));
    }
    if length >= CHUNK_BYTES {
        let (skipped, coded) = out[..CHUNK_BYTES].split_at_mut(first * STRIP);
        skipped.fill(0);
        let groups = pieces.bytes.iter().zip(pieces.flags()).skip(first * GROUPS);
        for ((&group, &flags), coded) in groups.zip(coded.as_chunks_mut::<32>().0) {
            *coded = bytemuck::cast(if flags == 0 { _mm256_setzero_si256() } else { group });
        }
        return CHUNK_BYTES as u32 | RAW;
    }
    assert!(out.len() >= length + SPILL);
    // SAFETY: together they append `length` - 6 bytes, as they were counted; room for as many, and SPILL more, is asserted.
    unsafe {
        let to = compact_strips(pieces, nonzero, first, out.as_mut_ptr());
        let to = compact_groups(bitmap, &bytemuck::cast_slice(changes)[2 * first..], to);
        let to = compact_groups(changes, bytemuck::cast_slice(std::slice::from_ref(changes_of_changes)), to);
        compact(changes_of_changes, last, to);
    }
    out[length - 6..length - 2].copy_from_slice(&last.to_le_bytes());
    out[length - 2..length].copy_from_slice(&(CHUNK_BYTES as u16).to_le_bytes());
    length as u32
}

#[inline]
#[target_feature(enable = "popcnt")]
fn count_nonzero(pieces: &Pieces, first: usize, nonzero: &mut [usize; STRIPS]) -> usize {
    let words: &[u64] = bytemuck::cast_slice(&pieces.flags[2 * first..]);
    let mut sum = 0;
    for (count, [a, b, c, d, e, f, g, h]) in nonzero[first..].iter_mut().zip(words.as_chunks().0) {
        *count = ones(a) + ones(b) + (ones(c) + ones(d)) + (ones(e) + ones(f) + (ones(g) + ones(h)));
        sum += *count;
    }
    sum
}

/// Appends the nonzero bytes of the strips from `first` on, and gives the new end.
///
/// # Safety
/// There is room for them and SPILL bytes more at `to`.
#[inline(never)]
#[target_feature(enable = "avx2,popcnt,bmi1")]
unsafe fn compact_strips(pieces: &Pieces, nonzero: &[usize; STRIPS], first: usize, mut to: *mut u8) -> *mut u8 {
    let (bytes, flags) = (pieces.bytes.as_chunks().0, pieces.flags.as_chunks().0);
    for ((groups, flags), &count) in bytes[first..].iter().zip(&flags[first..]).zip(&nonzero[first..]) {
        // SAFETY: the caller's.
        to = unsafe { compact_strip(groups, flags, count, to) };
    }
    to
}

/// Calls `each` with the places of the groups that have flags.
#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn for_flagged(flags: &[V; 2], mut each: impl FnMut(usize)) {
    let zero = |flags| _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(flags, _mm256_setzero_si256()))) as u32;
    let mut flagged = 0xFFFF ^ (zero(flags[0]) | zero(flags[1]) << 8);
    while flagged != 0 {
        each(flagged.trailing_zeros() as usize);
        flagged &= flagged - 1;
    }
}

/// Appends the flagged bytes of groups, and gives the new end.
///
/// # Safety
/// There is room for them and SPILL bytes more at `to`.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn compact_groups(groups: &[V], flags: &[u32], mut to: *mut u8) -> *mut u8 {
    for (group, &flags) in groups.iter().zip(flags) {
        if flags != 0 {
            // SAFETY: the caller's.
            to = unsafe { compact(group, flags, to) };
        }
    }
    to
}

/// Appends the `count` nonzero bytes of a strip, and gives the new end. One method for all of it, so that its branches are predictable.
///
/// # Safety
/// There is room for them and SPILL bytes more at `to`.
#[inline]
#[target_feature(enable = "avx2,popcnt,bmi1")]
unsafe fn compact_strip(groups: &[V; GROUPS], strip_flags: &[V; 2], count: usize, mut to: *mut u8) -> *mut u8 {
    if count == 0 {
        return to;
    }
    let flags: &[u32; GROUPS] = bytemuck::cast_ref(strip_flags);
    // SAFETY: the caller's.
    unsafe {
        if count >= DENSE {
            for (group, &flags) in groups.iter().zip(flags) {
                to = if flags.count_ones() >= 31 { compact_dense(group, flags, to) } else { compact(group, flags, to) };
            }
        } else if count < SPARSE {
            for_flagged(strip_flags, |i| to = compact(&groups[i], flags[i], to));
        } else {
            for (group, &flags) in groups.iter().zip(flags) {
                to = compact(group, flags, to);
            }
        }
    }
    to
}

/// Takes the last `count` bytes of the `end` first of `body`, to `kept` behind its zero byte. None: there are not so many.
#[inline]
fn take_kept(body: &[u8], end: &mut usize, count: usize, kept: &mut [u8]) -> Option<()> {
    *end = end.checked_sub(count)?;
    kept[0] = 0;
    kept[1..][..count].copy_from_slice(&body[*end..][..count]);
    Some(())
}

/// Every byte of the bitmap from its flagged changes: the last of the `kept` bytes (behind a zero byte) at or before it.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn repeat_kept(changes: &[u8], kept: &[u8], bitmap: &mut [u64]) {
    let mut at = 0;
    for (flags, eights) in changes.as_chunks::<4>().0.iter().zip(bitmap.as_chunks_mut::<4>().0) {
        // at most 8 further each time, and 16 bytes are read
        let kept = &kept[at..][..24 + 16];
        let mut next = 0;
        for (&flags, eight) in flags.iter().zip(eights) {
            *eight = _mm_cvtsi128_si64(shuffle(load(&kept[next..]), &REPEAT, flags)) as u64;
            next += flags.count_ones() as usize;
        }
        at += next;
    }
}

#[inline]
#[target_feature(enable = "popcnt")]
fn count_flags(changes: &[V]) -> usize {
    bytemuck::cast_slice::<V, u64>(changes).iter().map(|word| ones(word)).sum()
}

/// Undoes [`eliminate_zeros`] for a chunk that is neither raw nor 2 bytes long; gives the first strip that is not all 0 (32: none), before
/// which `pieces` is not filled. None: the parts do not add up to the chunk's length.
#[inline]
#[target_feature(enable = "avx2,popcnt,bmi1")]
pub fn restore_zeros(coded: Coded<'_>, pieces: &mut Pieces, levels: &mut Levels) -> Option<usize> {
    let Levels { changes, changes_of_changes, kept: [kept, kept_of_changes, last_kept], nonzero, tail, .. } = levels;
    let body = &coded.stream[coded.at..][..coded.length - 2];
    let (_, last) = body.split_last_chunk::<4>()?;
    let mut end = body.len() - 4;
    take_kept(body, &mut end, u32::from_le_bytes(*last).count_ones() as usize, last_kept)?;
    repeat_kept(last, last_kept, bytemuck::cast_mut::<V, [u64; 4]>(changes_of_changes));
    take_kept(body, &mut end, count_flags(std::slice::from_ref(changes_of_changes)), kept_of_changes)?;
    repeat_kept(bytemuck::cast_ref::<V, [u8; 32]>(changes_of_changes), kept_of_changes, bytemuck::cast_slice_mut(changes));
    take_kept(body, &mut end, count_flags(changes), kept)?;
    // eight bytes of changes are a strip's, and the strips before the first change are 0
    let first = bytemuck::cast_slice::<V, u64>(changes).iter().take_while(|&&strip| strip == 0).count();
    repeat_kept(&bytemuck::cast_slice(changes)[8 * first..], kept, &mut bytemuck::cast_slice_mut(&mut pieces.flags)[8 * first..]);
    if count_nonzero(pieces, first, nonzero) != end {
        return None;
    }
    expand_strips(coded, pieces, nonzero, first, tail);
    Some(first)
}

/// Spreads the leading bytes of 32 at `from` to the flagged places of a group; gives the place of those after.
///
/// # Safety
/// 32 bytes may be read at `from`.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn expand(mut from: *const u8, flags: u32, group: &mut V) -> *const u8 {
    let bytes: &mut [u8; 32] = bytemuck::cast_mut(group);
    for (eight, flags) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(flags.to_le_bytes()) {
        // SAFETY: at most 8 bytes for each of the eights before, and 8 now.
        unsafe {
            *eight = _mm_cvtsi128_si64(shuffle(_mm_loadl_epi64(from.cast()), &EXPAND, flags)).to_le_bytes();
            from = from.add(flags.count_ones() as usize);
        }
    }
    from
}

/// [`expand`] to a group that lacks at most one byte.
///
/// # Safety
/// 32 bytes may be read at `from`, and one before it.
#[inline]
#[target_feature(enable = "avx2,popcnt,bmi1")]
unsafe fn expand_dense(from: *const u8, flags: u32, group: &mut V) -> *const u8 {
    // SAFETY: the caller's.
    let (bytes, before) = unsafe { (_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.sub(1).cast())) };
    let hole = flags.trailing_ones();
    *group = _mm256_andnot_si256(at(hole), _mm256_blendv_epi8(before, bytes, below(hole)));
    // SAFETY: no further than what may be read.
    unsafe { from.add(flags.count_ones() as usize) }
}

/// Spreads a chunk's nonzero bytes to the strips from `first` on.
#[inline(never)]
#[target_feature(enable = "avx2,popcnt,bmi1")]
fn expand_strips(coded: Coded<'_>, pieces: &mut Pieces, nonzero: &[usize; STRIPS], first: usize, tail: &mut [u8; 1 + STRIP + SPILL]) {
    let Coded { stream, mut at, .. } = coded;
    let (bytes, flags) = (pieces.bytes.as_chunks_mut().0, pieces.flags.as_chunks().0);
    for ((groups, flags), &count) in bytes[first..].iter_mut().zip(&flags[first..]).zip(&nonzero[first..]) {
        let from = if at > 0 && at + count + SPILL <= stream.len() {
            stream[at..].as_ptr()
        } else {
            tail[1..=count].copy_from_slice(&stream[at..][..count]);
            tail[1..].as_ptr()
        };
        // SAFETY: `count` is the number of flags; there are as many bytes, one before these and SPILL after them.
        unsafe { expand_strip(groups, flags, count, from) };
        at += count;
    }
}

/// Spreads `count` bytes to the flagged places of a strip, as many as there are.
///
/// # Safety
/// `count + SPILL` bytes may be read at `from`, and one before it.
#[inline]
#[target_feature(enable = "avx2,popcnt,bmi1")]
unsafe fn expand_strip(groups: &mut [V; GROUPS], strip_flags: &[V; 2], count: usize, mut from: *const u8) {
    if count < SPARSE {
        groups.fill(_mm256_setzero_si256());
    }
    let flags: &[u32; GROUPS] = bytemuck::cast_ref(strip_flags);
    // SAFETY: the groups take the bytes one after the other, so 32 can be read at the place of each.
    unsafe {
        if count >= DENSE {
            for (group, &flags) in groups.iter_mut().zip(flags) {
                from = if flags.count_ones() >= 31 { expand_dense(from, flags, group) } else { expand(from, flags, group) };
            }
        } else if count < SPARSE {
            for_flagged(strip_flags, |i| from = expand(from, flags[i], &mut groups[i]));
        } else {
            for (group, &flags) in groups.iter_mut().zip(flags) {
                from = expand(from, flags, group);
            }
        }
    }
}
