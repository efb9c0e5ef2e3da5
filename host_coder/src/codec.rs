//! Whole fields: headers, tables, chunks.

use crate::chunk::{Coded, Isa, SLACK, Step, Worker};
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
    Codec::default().compress_into(field, bound, stream)
}

/// Decompresses `stream` into `field` and gives the bytes of the stream; bytes after it are not looked at.
///
/// # Errors
/// What the format refuses, with the smallest status that applies and the lowest chunk with it. `field` then holds unspecified values.
pub fn decompress<T: Element>(stream: &[u8], field: &mut [T]) -> Result<usize, Error> {
    Codec::default().decompress(stream, field)
}

/// How fields are coded: what the public functions choose by themselves, and tests and benches force.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    /// The instruction set: [`Isa::best`].
    pub isa: Isa,
    /// The wide header where the narrow one would do: false.
    pub wide: bool,
}

impl Default for Codec {
    fn default() -> Self {
        Self { isa: Isa::best(), wide: false }
    }
}

impl Codec {
    /// See [`compress_into`].
    pub fn compress_into<T: Element>(self, field: &[T], bound: Bound, stream: &mut [u8]) -> Result<usize, Error> {
        let mut header = Header::of_field::<T>(field.len() as u64, bound);
        header.wide |= self.wide;
        let start = header.table_offset() + 4 * header.chunks() as usize;
        let (before, payload) = stream.split_at_mut(start.min(stream.len()));
        let table = before.get_mut(header.table_offset()..).unwrap_or_default();
        let coded = self.encode_chunks(field, &T::step(bound.get()), table, payload);
        let length = (start + coded).next_multiple_of(4);
        if let Some(padding) = stream.get_mut(start + coded..length) {
            padding.fill(0);
        }
        header.archive_bytes = (length - header.header_bytes()) as u64;
        header.write(stream);
        if length <= stream.len() { Ok(length) } else { Err(Error::Overflow { needed: length as u64 }) }
    }

    /// Codes all chunks to `table` and `payload` as far as these reach, and gives the coded bytes.
    fn encode_chunks<T: Element>(self, field: &[T], step: &Step<T>, table: &mut [u8], payload: &mut [u8]) -> usize {
        let mut worker = Worker::new(self.isa);
        let mut stage = Vec::new();
        let mut entries = table.chunks_exact_mut(4);
        let mut end = 0;
        for values in field.chunks(T::TYPE.codes_per_chunk()) {
            let out = payload.get_mut(end..).unwrap_or_default();
            let entry = if out.len() >= CHUNK_BYTES + SLACK {
                T::encode(&mut worker, values, step, out)
            } else {
                stage.resize(CHUNK_BYTES + SLACK, 0);
                let entry = T::encode(&mut worker, values, step, &mut stage);
                let length = (entry & !RAW) as usize;
                if let Some(out) = out.get_mut(..length) {
                    out.copy_from_slice(&stage[..length]);
                }
                entry
            };
            if let Some(slot) = entries.next() {
                slot.copy_from_slice(&entry.to_le_bytes());
            }
            end += (entry & !RAW) as usize;
        }
        end
    }

    /// See [`decompress`].
    pub fn decompress<T: Element>(self, stream: &[u8], field: &mut [T]) -> Result<usize, Error> {
        let header = Header::read_as(stream, Some(T::TYPE), Some(field.len() as u64))?;
        let needed = header.stream_bytes();
        let end = usize::try_from(needed).ok().filter(|&end| end <= stream.len()).ok_or(Error::Truncated { needed })?;
        let stream = &stream[..end];
        let step = T::step(header.bound.get());
        let mut worker = Worker::new(self.isa);
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
            if !T::decode(&mut worker, Coded { stream, at, length, raw }, &step, values) {
                corrupt = corrupt.or(Some(Error::CorruptChunk { chunk: chunk as u64, offset: at as u64 }));
            }
            at += length;
        }
        corrupt.map_or(Ok(end), Err)
    }
}
