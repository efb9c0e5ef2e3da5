//! Headers, sizes and the first six refusals.

use crate::{Bound, Element, ElementType, Error};

/// Bytes of codes in a chunk.
pub(crate) const CHUNK_BYTES: usize = 16384;
/// In a size-table entry: the chunk is stored raw.
pub(crate) const RAW: u32 = 1 << 31;
const NARROW_BYTES: usize = 16;
const WIDE_BYTES: usize = 32;
/// Padded field bytes and chunk count, which a narrow stream's archive begins with.
const NARROW_WORDS: usize = 8;

/// What a stream's header says. Reading it checks what can be checked without the rest of the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Header {
    /// Element type.
    pub element: ElementType,
    /// The wide header, for fields whose stream may reach 4 GiB.
    pub wide: bool,
    /// Bound recorded.
    pub bound: Bound,
    /// Values of the field.
    pub n: u64,
    /// Bytes after the header.
    pub archive_bytes: u64,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Header {
    /// Reads the header at the start of `stream`, which need not be complete: 32 bytes are enough for any header.
    ///
    /// # Errors
    /// [`Error::NotAStream`], [`Error::BadHeader`], or [`Error::Truncated`] where a narrow header's archive begins past the bytes given.
    pub fn read(stream: &[u8]) -> Result<Self, Error> {
        Self::read_as(stream, None, None)
    }

    /// As [`Header::read`], refusing another element type and count than the caller's in the format's order of precedence.
    pub(crate) fn read_as(stream: &[u8], element: Option<ElementType>, n: Option<u64>) -> Result<Self, Error> {
        if stream.len() < NARROW_BYTES {
            return Err(Error::NotAStream);
        }
        let (found, wide) = match &stream[..4] {
            b"PFP4" => (ElementType::F32, false),
            b"PFP8" => (ElementType::F64, false),
            b"PFW4" => (ElementType::F32, true),
            b"PFW8" => (ElementType::F64, true),
            _ => return Err(Error::NotAStream),
        };
        if wide && stream.len() < WIDE_BYTES {
            return Err(Error::NotAStream);
        }
        if element.is_some_and(|element| element != found) {
            return Err(Error::WrongType { found });
        }
        let (bound, count, archive_bytes) = if wide {
            (u32_at(stream, 4), u64_at(stream, 8), u64_at(stream, 16))
        } else {
            (u32_at(stream, 8), u64::from(u32_at(stream, 12)), u64::from(u32_at(stream, 4)))
        };
        if n.is_some_and(|n| n != count) {
            return Err(Error::WrongCount { found: count });
        }
        let bound = Bound::from_f32(f32::from_bits(bound)).ok_or(Error::BadHeader)?;
        let header = Self { element: found, wide, bound, n: count, archive_bytes };
        let chunks = header.chunks();
        let words = if wide { 0 } else { NARROW_WORDS as u64 };
        if archive_bytes < words + 4 * chunks || (wide && u64_at(stream, 24) != chunks) {
            return Err(Error::BadHeader);
        }
        if !wide {
            if stream.len() < NARROW_BYTES + NARROW_WORDS {
                return Err(Error::Truncated { needed: header.stream_bytes() });
            }
            if u64::from(u32_at(stream, 16)) != chunks * CHUNK_BYTES as u64 || u64::from(u32_at(stream, 20)) != chunks {
                return Err(Error::BadHeader);
            }
        }
        Ok(header)
    }

    /// The header of a field of `n` values, with the archive's length still unknown (0).
    pub(crate) fn of_field<T: Element>(n: u64, bound: Bound) -> Self {
        let wide = takes_wide_header(chunks_of(T::TYPE, n));
        Self { element: T::TYPE, wide, bound, n, archive_bytes: 0 }
    }

    /// Chunks of the field.
    pub fn chunks(&self) -> u64 {
        chunks_of(self.element, self.n)
    }

    /// Bytes of the header itself: 16 or 32.
    pub fn header_bytes(&self) -> usize {
        if self.wide { WIDE_BYTES } else { NARROW_BYTES }
    }

    /// Bytes of the whole stream.
    pub fn stream_bytes(&self) -> u64 {
        // saturates only for a hostile wide header, whose stream no slice can hold
        self.archive_bytes.saturating_add(self.header_bytes() as u64)
    }

    /// Where the size table begins.
    pub(crate) fn table_offset(&self) -> usize {
        if self.wide { WIDE_BYTES } else { NARROW_BYTES + NARROW_WORDS }
    }

    /// Writes the header to the start of `out`; without effect where `out` is too short for it, as the format says.
    pub(crate) fn write(&self, out: &mut [u8]) {
        let code = match self.element {
            ElementType::F32 => b'4',
            ElementType::F64 => b'8',
        };
        let mut bytes = [0u8; WIDE_BYTES];
        bytes[..4].copy_from_slice(&[b'P', b'F', if self.wide { b'W' } else { b'P' }, code]);
        if self.wide {
            bytes[4..8].copy_from_slice(&self.bound.get().to_le_bytes());
            bytes[8..16].copy_from_slice(&self.n.to_le_bytes());
            bytes[16..24].copy_from_slice(&self.archive_bytes.to_le_bytes());
            bytes[24..32].copy_from_slice(&self.chunks().to_le_bytes());
        } else {
            // of_field takes the narrow header only where all of these fit in 32 bits
            bytes[4..8].copy_from_slice(&(self.archive_bytes as u32).to_le_bytes());
            bytes[8..12].copy_from_slice(&self.bound.get().to_le_bytes());
            bytes[12..16].copy_from_slice(&(self.n as u32).to_le_bytes());
            bytes[16..20].copy_from_slice(&((self.chunks() * CHUNK_BYTES as u64) as u32).to_le_bytes());
            bytes[20..24].copy_from_slice(&(self.chunks() as u32).to_le_bytes());
        }
        for length in [self.table_offset(), self.header_bytes()] {
            if let Some(out) = out.get_mut(..length) {
                out.copy_from_slice(&bytes[..length]);
                return;
            }
        }
    }
}

/// Chunks of a field of `n` values.
#[inline]
pub fn chunks_of(element: ElementType, n: u64) -> u64 {
    n.div_ceil(element.codes_per_chunk() as u64)
}

/// A field of this many chunks takes the wide header.
#[inline]
pub fn takes_wide_header(chunks: u64) -> bool {
    24 + u128::from(chunks) * (CHUNK_BYTES as u128 + 4) >= 1 << 32
}

/// Largest stream of a field of `n` values of type `T`, in bytes. Saturates at `u64::MAX`.
pub fn max_stream_bytes<T: Element>(n: u64) -> u64 {
    let chunks = chunks_of(T::TYPE, n);
    let before = if takes_wide_header(chunks) { WIDE_BYTES } else { NARROW_BYTES + NARROW_WORDS };
    chunks.saturating_mul(CHUNK_BYTES as u64 + 4).saturating_add(before as u64)
}

/// Bytes of the stream that begins at `header`, of which 32 bytes are enough.
///
/// # Errors
/// As [`Header::read`].
pub fn stream_bytes(header: &[u8]) -> Result<u64, Error> {
    Header::read(header).map(|header| header.stream_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wide_header_is_decided_by_the_count_alone() {
        let bound = Bound::new(1.0).unwrap();
        let wide = |n| [Header::of_field::<f32>(n, bound).wide, Header::of_field::<f64>(n / 2, bound).wide];
        // 24 + chunks · 16388 reaches 2³² at 262 081 chunks
        let last_narrow = 262_080 * 4096;
        assert_eq!(wide(last_narrow), [false; 2]);
        assert_eq!(wide(last_narrow + 2), [true; 2]);
        assert_eq!(wide(u64::MAX), [true; 2]);
    }

    #[test]
    fn reads_what_it_writes() {
        let bound = Bound::new(0.1).unwrap();
        for n in [0, 1, 4096, 262_080 * 4096, 262_080 * 4096 + 1, 1 << 40] {
            for element in [ElementType::F32, ElementType::F64] {
                let of_field = if element == ElementType::F32 { Header::of_field::<f32> } else { Header::of_field::<f64> };
                let mut header = of_field(n, bound);
                header.archive_bytes = 8 + 20 * header.chunks();
                let mut bytes = [0; WIDE_BYTES];
                header.write(&mut bytes);
                assert_eq!(Header::read(&bytes), Ok(header));
                assert_eq!(stream_bytes(&bytes), Ok(header.stream_bytes()));
            }
        }
    }
}
