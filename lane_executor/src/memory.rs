//! Device memory: buffers within one arena, with what a kernel may do to each byte and who accessed it last.

use crate::clock::{LAUNCHES, Stamp};
use std::ops::Range;

/// What kernels may do with a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read; every byte counts as defined.
    Read,
    /// Read and write; bytes count as defined once they are written, by the kernel or through [`Memory::write`].
    ReadWrite,
}

/// A buffer of a [`Memory`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    start: usize,
    bytes: usize,
    address: u64,
}

impl Buffer {
    /// The address that kernels see.
    pub fn address(&self) -> u64 {
        self.address
    }
    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

const READABLE: u8 = 1;
const WRITABLE: u8 = 2;
const DEFINED: u8 = 4;
const ORDERED: u8 = 8;
const ZONE: usize = 64;
const ZONE_BYTE: u8 = 0xC5;
const UNWRITTEN: u8 = 0xDB;

/// Who last wrote, and who last read, each byte.
#[derive(Default)]
pub(crate) struct Shadow {
    pub writes: Vec<Stamp>,
    pub reads: Vec<Stamp>,
}

impl Shadow {
    pub(crate) fn grow(&mut self, bytes: usize) {
        if self.writes.len() < bytes {
            self.writes.resize(bytes, Stamp::NONE);
            self.reads.resize(bytes, Stamp::NONE);
        }
    }
    fn new(bytes: usize) -> Self {
        // zeroed by the allocator, page by page as they are touched
        Shadow { writes: vec![Stamp::NONE; bytes], reads: vec![Stamp::NONE; bytes] }
    }
}

/// The memory of a device.
pub struct Memory {
    // u128: 16-byte alignment
    arena: Vec<u128>,
    rights: Vec<u8>,
    pub(crate) shadow: Shadow,
    buffers: Vec<(String, Range<usize>)>,
    used: usize,
    launch: u32,
}

impl Memory {
    /// Memory with room for `capacity` bytes of buffers and the zones between them.
    pub fn new(capacity: usize) -> Self {
        let words = capacity.div_ceil(16);
        Memory {
            arena: vec![0; words],
            rights: vec![0; words * 16],
            shadow: Shadow::new(words * 16),
            buffers: Vec::new(),
            used: 0,
            launch: 0,
        }
    }

    /// A new buffer whose address is `offset` modulo 256; its bytes are garbage and, unless `access` is [`Access::Read`], undefined.
    ///
    /// # Panics
    /// If the memory is full or `offset` is not below 256.
    pub fn buffer(&mut self, name: &str, bytes: usize, offset: usize, access: Access) -> Buffer {
        assert!(offset < 256, "an offset is below 256");
        let base = self.base();
        let from = self.used + ZONE;
        let start = from + (offset.wrapping_sub(base + from) & 255);
        let end = start + bytes + ZONE;
        assert!(end <= self.rights.len(), "the memory is full: {name} of {bytes} bytes");
        let used = self.used;
        let arena = self.arena_mut();
        arena[used..end].fill(ZONE_BYTE);
        arena[start..start + bytes].fill(UNWRITTEN);
        self.used = end;
        self.buffers.push((name.to_owned(), start..start + bytes));
        let buffer = Buffer { start, bytes, address: (base + start) as u64 };
        self.protect(buffer, access);
        buffer
    }

    /// Changes what kernels may do with `buffer`.
    pub fn protect(&mut self, buffer: Buffer, access: Access) {
        let rights = match access {
            Access::Read => READABLE | DEFINED,
            Access::ReadWrite => READABLE | WRITABLE,
        };
        for r in &mut self.rights[buffer.range()] {
            *r = rights | (*r & (DEFINED | ORDERED));
        }
    }

    /// Makes atomic accesses of these bytes of `buffer` race like plain ones: other accesses must order them.  For words that are read
    /// early and written late, where a load that is not ordered could see the later store.
    ///
    /// # Panics
    /// If the bytes are not in the buffer.
    pub fn order(&mut self, buffer: Buffer, bytes: Range<usize>) {
        assert!(bytes.end <= buffer.bytes, "within the buffer");
        for r in &mut self.rights[buffer.start + bytes.start..buffer.start + bytes.end] {
            *r |= ORDERED;
        }
    }

    /// Whether the byte was named to [`order`](Self::order).
    pub(crate) fn ordered(&self, at: usize) -> bool {
        self.rights[at] & ORDERED != 0
    }

    /// Makes `buffer`'s bytes garbage, undefined to kernels.
    pub fn scratch(&mut self, buffer: Buffer) {
        self.bytes_mut(buffer).fill(UNWRITTEN);
        for r in &mut self.rights[buffer.range()] {
            *r &= !DEFINED;
        }
    }

    /// Copies `data` to `buffer` from byte `at` on.
    pub fn write(&mut self, buffer: Buffer, at: usize, data: &[u8]) {
        self.bytes_mut(buffer)[at..at + data.len()].copy_from_slice(data);
        for r in &mut self.rights[buffer.start + at..buffer.start + at + data.len()] {
            *r |= DEFINED;
        }
    }

    /// The bytes of `buffer`.
    pub fn bytes(&self, buffer: Buffer) -> &[u8] {
        &self.arena()[buffer.range()]
    }

    /// Whether each byte of `buffer` was written since it was made or [`scratch`](Self::scratch)ed.
    pub fn written(&self, buffer: Buffer) -> impl Iterator<Item = bool> + '_ {
        self.rights[buffer.range()].iter().map(|r| r & DEFINED != 0)
    }

    /// How many buffers there are.
    pub fn buffers(&self) -> usize {
        self.buffers.len()
    }

    /// Drops all but the first `count` buffers.
    pub fn truncate(&mut self, count: usize) {
        self.buffers.truncate(count);
        let end = self.buffers.last().map_or(0, |(_, range)| range.end + ZONE);
        self.rights[end..self.used].fill(0);
        self.used = end;
    }

    fn bytes_mut(&mut self, buffer: Buffer) -> &mut [u8] {
        &mut self.arena_mut()[buffer.range()]
    }
    fn arena(&self) -> &[u8] {
        // SAFETY: the arena's bytes, all initialized; u8 has no alignment.
        unsafe { std::slice::from_raw_parts(self.arena.as_ptr().cast(), self.rights.len()) }
    }
    fn arena_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.arena.as_mut_ptr().cast(), self.rights.len()) }
    }
    fn base(&self) -> usize {
        self.arena.as_ptr() as usize
    }

    /// A number for the next launch, other than the stamps in the shadow have.
    pub(crate) fn next_launch(&mut self) -> u32 {
        self.launch += 1;
        if self.launch == LAUNCHES {
            self.shadow = Shadow::new(self.rights.len());
            self.launch = 1;
        }
        self.launch
    }

    /// The place of `address` in the arena, if it is in it.
    pub(crate) fn place(&self, address: usize) -> Option<usize> {
        address.checked_sub(self.base()).filter(|at| *at < self.rights.len())
    }

    /// What is wrong with an access of these bytes, if anything is.
    pub(crate) fn check(&mut self, at: usize, bytes: usize, write: bool) -> Option<String> {
        let end = (at + bytes).min(self.rights.len());
        let needed = if write { READABLE | WRITABLE } else { READABLE | DEFINED };
        let wrong = self.rights[at..end].iter().position(|r| r & needed != needed);
        if let Some(wrong) = wrong {
            let right = self.rights[at + wrong];
            let what = match (right & READABLE != 0, write) {
                (false, _) => "outside every buffer",
                (true, true) => "not writable",
                (true, false) => "undefined",
            };
            return Some(format!("byte {wrong} of it is {what}"));
        }
        if write {
            for r in &mut self.rights[at..end] {
                *r |= DEFINED;
            }
        }
        None
    }

    /// The place in words: the buffer that holds it or comes before it.
    pub(crate) fn describe(&self, at: usize) -> String {
        match self.buffers.iter().filter(|(_, range)| range.start <= at + ZONE).max_by_key(|(_, range)| range.start) {
            Some((name, range)) => format!("{name}[{}] (of {} bytes)", at as i64 - range.start as i64, range.len()),
            None => format!("byte {at} of the memory"),
        }
    }

    /// The first byte that changed between buffers: written past the executor's hooks.
    pub(crate) fn broken_zone(&self) -> Option<String> {
        let mut from = 0;
        for (name, range) in self.buffers.iter().map(|(n, r)| (n.as_str(), r.clone())).chain([("the end", self.used..self.used)]) {
            if let Some(i) = self.arena()[from..range.start].iter().position(|b| *b != ZONE_BYTE) {
                return Some(format!("{} (before {name}) changed", self.describe(from + i)));
            }
            from = range.end;
        }
        None
    }
}

impl Buffer {
    fn range(&self) -> Range<usize> {
        self.start..self.start + self.bytes
    }
}
