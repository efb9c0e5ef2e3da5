//! Whole fields: headers, tables, chunks.

use crate::chunk::{Coded, SLACK};
use crate::header::{CHUNK_BYTES, Header, RAW};
use crate::{Bound, Element, Error, max_stream_bytes};

/// Compresses `field` into a new buffer.
pub fn compress<T: Element>(field: &[T], bound: Bound) -> Vec<u8> {
    let mut stream = vec![0; max_stream_bytes::<T>(field.len() as u64) as usize];
    let length = compress_into(field, bound, &mut stream).expect("the largest stream fits");
    stream.truncate(length);
    stream
}

/// Compresses `field` into `stream` and gives the stream's length in bytes; what `stream` holds beyond it is unspecified.
///
/// # Errors
/// [`Error::Overflow`] where `stream` is shorter than the stream, with the bytes that it needs; an empty `stream` asks for that.
pub fn compress_into<T: Element>(field: &[T], bound: Bound, stream: &mut [u8]) -> Result<usize, Error> {
    let mut header = Header::of_field::<T>(field.len() as u64, bound);
    let step = T::step(bound.get());
    let (mut scratch, mut stage) = (T::Scratch::default(), vec![0; CHUNK_BYTES + SLACK]);
    let table = header.table_offset();
    let mut end = table + 4 * header.chunks() as usize;
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(out) = stream.get_mut(at..at + bytes.len()) {
            out.copy_from_slice(bytes);
        }
    };
    for (chunk, values) in field.chunks(T::TYPE.codes_per_chunk()).enumerate() {
        let entry = T::encode(values, &step, &mut scratch, &mut stage);
        let length = (entry & !RAW) as usize;
        put(table + 4 * chunk, &entry.to_le_bytes());
        put(end, &stage[..length]);
        end += length;
    }
    let length = end.next_multiple_of(4);
    put(end, &[0; 3][..length - end]);
    header.archive_bytes = (length - header.header_bytes()) as u64;
    header.write(stream);
    if length <= stream.len() { Ok(length) } else { Err(Error::Overflow { needed: length as u64 }) }
}

/// Decompresses `stream` into `field` and gives the bytes of the stream; bytes after it are not looked at.
///
/// # Errors
/// What the format refuses, with the smallest status that applies and the lowest chunk with it. `field` then holds unspecified values.
pub fn decompress<T: Element>(stream: &[u8], field: &mut [T]) -> Result<usize, Error> {
    let header = Header::read_as(stream, Some(T::TYPE), Some(field.len() as u64))?;
    let needed = header.stream_bytes();
    let end = usize::try_from(needed).ok().filter(|&end| end <= stream.len()).ok_or(Error::Truncated { needed })?;
    let stream = &stream[..end];
    let step = T::step(header.bound.get());
    let mut scratch = T::Scratch::default();
    let table = header.table_offset();
    let mut at = table + 4 * header.chunks() as usize;
    let mut corrupt = None;
    for (chunk, values) in field.chunks_mut(T::TYPE.codes_per_chunk()).enumerate() {
        let offset = table + 4 * chunk;
        let entry = u32::from_le_bytes(stream[offset..offset + 4].try_into().expect("four bytes"));
        let (length, raw) = ((entry & !RAW) as usize, entry & RAW != 0);
        let possible = if raw { length == CHUNK_BYTES } else { length == 2 || (10..CHUNK_BYTES).contains(&length) };
        if !possible || length > end - at {
            return Err(Error::BadTable { chunk: chunk as u64, offset: offset as u64 });
        }
        if !T::decode(Coded { stream, at, length, raw }, &step, &mut scratch, values) {
            corrupt = corrupt.or(Some(Error::CorruptChunk { chunk: chunk as u64, offset: at as u64 }));
        }
        at += length;
    }
    corrupt.map_or(Ok(end), Err)
}
