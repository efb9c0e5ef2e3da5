use std::sync::Mutex;

use super::{Codec, Observer, threads};
use crate::chunk::{Coded, Step, Worker};
use crate::header::{CHUNK_BYTES, Header, RAW};
use crate::{Element, Error};

impl Codec {
    /// See [`crate::decompress`].
    pub fn decompress<T: Element>(self, stream: &[u8], field: &mut [T]) -> Result<usize, Error> {
        self.decompress_observed(stream, field, &|_| ())
    }

    /// As [`Codec::decompress`]; `observe` hears, from any thread, how many more values have been decoded.
    pub fn decompress_observed<T: Element>(self, stream: &[u8], field: &mut [T], observe: Observer<'_>) -> Result<usize, Error> {
        let header = Header::read_as(stream, Some(T::TYPE), Some(field.len() as u64))?;
        let stream = whole(stream, &header)?;
        self.decode(stream, &header, 0, field, observe)?;
        Ok(stream.len())
    }

    /// See [`crate::decompress_range`].
    pub fn decompress_range<T: Element>(self, stream: &[u8], first: u64, values: &mut [T]) -> Result<(), Error> {
        let header = Header::read_as(stream, Some(T::TYPE), None)?;
        let stream = whole(stream, &header)?;
        if first.checked_add(values.len() as u64).is_none_or(|end| end > header.n) {
            return Err(Error::BadRange { n: header.n });
        }
        // fits: the stream holds a table of n values' chunks
        self.decode(stream, &header, first as usize, values, &|_| ())
    }

    fn decode<T: Element>(
        self,
        stream: &[u8],
        header: &Header,
        first: usize,
        values: &mut [T],
        observe: Observer<'_>,
    ) -> Result<(), Error> {
        if values.is_empty() {
            return Ok(());
        }
        let codes = T::TYPE.codes_per_chunk();
        let step = T::step(header.bound.get());
        let (first_chunk, end_chunk) = (first / codes, (first + values.len()).div_ceil(codes));
        let table = Table::read(stream, header, end_chunk)?;
        let at = header.table_offset() + 4 * header.chunks() as usize;
        let mut cursor = Cursor { table, chunk: 0, at, streamed: size_of_val(values) >= self.streamed };
        cursor.skip(first_chunk);

        // the values of a first chunk that is not wanted from its start
        let within = first % codes;
        let (head, values) = values.split_at_mut(if within == 0 { 0 } else { values.len().min(codes - within) });
        if !head.is_empty() {
            let mut chunk = vec![T::zeroed(); within + head.len()];
            Worker::with(self.isa, |worker| decode_chunks(worker, stream, cursor, &step, &mut chunk, observe))?;
            head.copy_from_slice(&chunk[within..]);
            cursor.skip(1);
        }

        let threads = threads::useful(values);
        if threads <= 1 {
            return Worker::with(self.isa, |worker| decode_chunks(worker, stream, cursor, &step, values, observe));
        }
        let batches = Mutex::new((values.chunks_mut(threads::BATCH * codes), cursor));
        let corrupt = Mutex::new(None::<(u64, Error)>);
        let next = || {
            let (batches, cursor) = &mut *batches.lock().expect("no thread panics");
            let batch = (batches.next()?, *cursor);
            cursor.skip(threads::BATCH);
            Some(batch)
        };
        threads::run(threads, || {
            Worker::with(self.isa, |worker| {
                // batches are taken in order, so whoever finds a corrupt chunk knows that all before it are being decoded
                while corrupt.lock().expect("no thread panics").is_none()
                    && let Some((values, cursor)) = next()
                {
                    if let Err(error) = decode_chunks(worker, stream, cursor, &step, values, observe) {
                        let mut corrupt = corrupt.lock().expect("no thread panics");
                        let chunk = cursor.chunk as u64;
                        if corrupt.as_ref().is_none_or(|(lowest, _)| chunk < *lowest) {
                            *corrupt = Some((chunk, error));
                        }
                    }
                }
            });
        });
        corrupt.into_inner().expect("no thread panics").map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// Length of each chunk of a whole stream, and whether it is stored raw.
///
/// # Errors
/// What the format refuses, up to the table.
pub fn chunk_sizes(stream: &[u8]) -> Result<impl Iterator<Item = (usize, bool)>, Error> {
    let header = Header::read(stream)?;
    let stream = whole(stream, &header)?;
    let table = Table::read(stream, &header, header.chunks() as usize)?;
    Ok((0..table.0.len()).map(move |chunk| table.entry(chunk)))
}

/// Header and archive, without what follows them.
fn whole<'a>(stream: &'a [u8], header: &Header) -> Result<&'a [u8], Error> {
    let needed = header.stream_bytes();
    usize::try_from(needed).ok().and_then(|end| stream.get(..end)).ok_or(Error::Truncated { needed })
}

/// Entries of a size table, all possible.
#[derive(Clone, Copy)]
struct Table<'a>(&'a [[u8; 4]]);

impl<'a> Table<'a> {
    /// Checks the entries of the first `chunks` chunks, whose header has been checked.
    fn read(stream: &'a [u8], header: &Header, chunks: usize) -> Result<Self, Error> {
        let offset = header.table_offset();
        let table = Self(stream[offset..offset + 4 * chunks].as_chunks().0);
        let mut left = stream.len() - offset - 4 * header.chunks() as usize;
        for chunk in 0..chunks {
            let (length, raw) = table.entry(chunk);
            let possible = if raw { length == CHUNK_BYTES } else { length == 2 || (10..CHUNK_BYTES).contains(&length) };
            left = match left.checked_sub(length) {
                Some(left) if possible => left,
                _ => return Err(Error::BadTable { chunk: chunk as u64, offset: (offset + 4 * chunk) as u64 }),
            };
        }
        Ok(table)
    }

    /// Length, and whether it is stored raw.
    fn entry(self, chunk: usize) -> (usize, bool) {
        let entry = u32::from_le_bytes(self.0[chunk]);
        ((entry & !RAW) as usize, entry & RAW != 0)
    }
}

/// A place in a stream: the next chunk, and where it begins.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    table: Table<'a>,
    chunk: usize,
    at: usize,
    /// See [`Coded::streamed`].
    streamed: bool,
}

impl Cursor<'_> {
    /// Passes `chunks` chunks, or what is left.
    fn skip(&mut self, chunks: usize) {
        let end = self.table.0.len().min(self.chunk + chunks);
        self.at += (self.chunk..end).map(|chunk| self.table.entry(chunk).0).sum::<usize>();
        self.chunk = end;
    }
}

/// Decodes the chunks from `cursor` on that `values` takes.
fn decode_chunks<T: Element>(
    worker: &mut Worker,
    stream: &[u8],
    mut cursor: Cursor<'_>,
    step: &Step<T>,
    values: &mut [T],
    observe: Observer<'_>,
) -> Result<(), Error> {
    for values in values.chunks_mut(T::TYPE.codes_per_chunk()) {
        let (length, raw) = cursor.table.entry(cursor.chunk);
        if !T::decode(worker, Coded { stream, at: cursor.at, length, raw, streamed: cursor.streamed }, step, values) {
            return Err(Error::CorruptChunk { chunk: cursor.chunk as u64, offset: cursor.at as u64 });
        }
        cursor.skip(1);
        observe(values.len());
    }
    Ok(())
}
