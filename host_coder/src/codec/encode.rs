use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

use super::{Codec, Estimate, Observer, threads};
use crate::chunk::{SLACK, Step, Worker};
use crate::header::{CHUNK_BYTES, RAW};
use crate::{Bound, Element, Error};

impl Codec {
    /// See [`crate::compress_into`].
    pub fn compress_into<T: Element>(self, field: &[T], bound: Bound, stream: &mut [u8]) -> Result<usize, Error> {
        self.compress_into_observed(field, bound, stream, &|_| ())
    }

    /// As [`Codec::compress_into`]; `observe` hears, from any thread, how many more values have been coded.
    pub fn compress_into_observed<T: Element>(
        self,
        field: &[T],
        bound: Bound,
        stream: &mut [u8],
        observe: Observer<'_>,
    ) -> Result<usize, Error> {
        let mut header = self.header(field, bound);
        let start = header.table_offset() + 4 * header.chunks() as usize;
        let (before, payload) = stream.split_at_mut(start.min(stream.len()));
        let table = before.get_mut(header.table_offset()..).unwrap_or_default();
        let step = T::step(bound.get());
        let threads = threads::useful(field);
        let coded = if threads > 1 {
            self.encode_in_parallel(threads, field, &step, table, payload, observe)
        } else {
            Worker::with(self.isa, |worker| encode_chunks(worker, field, &step, table, payload, observe))
        };
        let length = (start + coded).next_multiple_of(4);
        if let Some(padding) = stream.get_mut(start + coded..length) {
            padding.fill(0);
        }
        header.archive_bytes = (length - header.header_bytes()) as u64;
        header.write(stream);
        if length <= stream.len() { Ok(length) } else { Err(Error::Overflow { needed: length as u64 }) }
    }

    /// As [`encode_chunks`]. Each thread codes a batch of chunks aside, waits for its turn to learn where the batch belongs, and
    /// copies it there while the others go on.
    fn encode_in_parallel<T: Element>(
        self,
        threads: usize,
        field: &[T],
        step: &Step<T>,
        table: &mut [u8],
        payload: &mut [u8],
        observe: Observer<'_>,
    ) -> usize {
        let tables = table.chunks_mut(4 * threads::BATCH).map(Some).chain(std::iter::repeat_with(|| None));
        let batches = Mutex::new(threads::batches(field).zip(tables).enumerate());
        let turn = Turn::default();
        let rest = Mutex::new((payload, 0));
        threads::run(threads, || {
            Worker::with(self.isa, |worker| {
                let mut stage = std::mem::take(&mut worker.stage);
                stage.resize(threads::BATCH * CHUNK_BYTES + SLACK, 0);
                let _wake = WakeOnPanic(&turn);
                let next = || batches.lock().expect("no thread panics").next();
                while let Some((batch, (values, table))) = next() {
                    let length = encode_chunks(worker, values, step, table.unwrap_or_default(), &mut stage, observe);
                    let coded = &stage[..length];
                    turn.wait_for(batch, threads);
                    let mut place = rest.lock().expect("no thread panics");
                    place.1 += coded.len();
                    let (out, after) = std::mem::take(&mut place.0).split_at_mut_checked(coded.len()).unwrap_or_default();
                    place.0 = after;
                    drop(place);
                    turn.pass_to(batch + 1);
                    if !out.is_empty() {
                        out.copy_from_slice(coded);
                    }
                }
                worker.stage = stage;
            });
        });
        rest.into_inner().expect("no thread panics").1
    }

    /// See [`crate::estimate`].
    pub fn estimate<T: Element>(self, field: &[T], bound: Bound, chunks: usize) -> Estimate {
        let header = self.header(field, bound);
        let (all, codes) = (header.chunks() as usize, T::TYPE.codes_per_chunk());
        let sampled = chunks.clamp(1, all.max(1));
        let (mut sampled_bytes, mut coded) = (0, 0);
        if all > 0 {
            Worker::with(self.isa, |worker| {
                for sample in 0..sampled {
                    // the middle of each of `sampled` equal parts
                    let first = ((2 * sample as u128 + 1) * all as u128 / (2 * sampled as u128)) as usize * codes;
                    let values = &field[first..field.len().min(first + codes)];
                    sampled_bytes += size_of_val(values);
                    coded += encode_chunks(worker, values, &T::step(bound.get()), &mut [], &mut [], &|_| ());
                }
            });
        }
        let coded = if sampled_bytes == 0 { 0.0 } else { coded as f64 / sampled_bytes as f64 * size_of_val(field) as f64 };
        let stream_bytes = (header.table_offset() as u64 + 4 * header.chunks() + coded.round() as u64).next_multiple_of(4);
        Estimate { ratio: size_of_val(field) as f64 / stream_bytes as f64, stream_bytes, sampled_bytes: sampled_bytes as u64 }
    }
}

/// The batch whose place is the next to be known.
#[derive(Default)]
struct Turn {
    batch: AtomicUsize,
    sleepers: Mutex<usize>,
    passed: Condvar,
}

impl Turn {
    /// Spins for as long as a batch of each of `threads` may take, and sleeps then: whoever is waited for may not have a core of its own.
    fn wait_for(&self, batch: usize, threads: usize) {
        let come = || self.batch.load(Ordering::Acquire) >= batch;
        for _ in 0..500 * threads {
            if come() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut sleepers = self.sleepers.lock().expect("no thread panics");
        *sleepers += 1;
        while !come() {
            sleepers = self.passed.wait(sleepers).expect("no thread panics");
        }
        *sleepers -= 1;
    }

    fn pass_to(&self, batch: usize) {
        self.batch.fetch_max(batch, Ordering::Release);
        if *self.sleepers.lock().expect("no thread panics") > 0 {
            self.passed.notify_all();
        }
    }
}

/// Lets the other threads come to their end where this one panics (which an observer may).
struct WakeOnPanic<'a>(&'a Turn);

impl Drop for WakeOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.pass_to(usize::MAX);
        }
    }
}

/// Codes all chunks of `field` to `table` and `payload` as far as these reach, and gives the coded bytes.
fn encode_chunks<T: Element>(
    worker: &mut Worker,
    field: &[T],
    step: &Step<T>,
    table: &mut [u8],
    payload: &mut [u8],
    observe: Observer<'_>,
) -> usize {
    let mut entries = table.chunks_exact_mut(4);
    let mut end = 0;
    for values in field.chunks(T::TYPE.codes_per_chunk()) {
        let out = payload.get_mut(end..).unwrap_or_default();
        let entry = if out.len() >= CHUNK_BYTES + SLACK {
            T::encode(worker, values, step, out)
        } else {
            let mut stage = std::mem::take(&mut worker.stage);
            stage.resize(stage.len().max(CHUNK_BYTES + SLACK), 0);
            let entry = T::encode(worker, values, step, &mut stage);
            let length = (entry & !RAW) as usize;
            if let Some(out) = out.get_mut(..length) {
                out.copy_from_slice(&stage[..length]);
            }
            worker.stage = stage;
            entry
        };
        if let Some(slot) = entries.next() {
            slot.copy_from_slice(&entry.to_le_bytes());
        }
        end += (entry & !RAW) as usize;
        observe(values.len());
    }
    end
}
