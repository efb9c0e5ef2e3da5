//! Without a GPU: the CPU coder, a field a thread.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pfpl::{Bound, Element, ElementType, Header};
use rayon::prelude::*;

use crate::field::{Field, Values};
use crate::file::{self, Stream};
use crate::{Report, Solver};

pub struct Cpu {
    fields: Vec<Field>,
    bound: Bound,
    report: Report,
    begun: Instant,
    /// Streams on their way to the writer; `None` once finished.
    queue: Option<SyncSender<(u64, Vec<Stream>)>>,
    writer: Option<JoinHandle<anyhow::Result<Duration>>>,
}

impl Cpu {
    pub fn new(fields: Vec<Field>, bound: Bound, folder: PathBuf) -> Self {
        // one checkpoint waits while another is written; a third makes the solver wait
        let (queue, checkpoints) = sync_channel(1);
        let writer = std::thread::spawn(move || write_all(checkpoints, folder, bound));
        Self { fields, bound, report: Report::default(), begun: Instant::now(), queue: Some(queue), writer: Some(writer) }
    }
}

fn write_all(checkpoints: Receiver<(u64, Vec<Stream>)>, folder: PathBuf, bound: Bound) -> anyhow::Result<Duration> {
    let mut writing = Duration::ZERO;
    for (step, streams) in checkpoints {
        let begun = Instant::now();
        file::write(&folder, step, bound.get().into(), &streams)?;
        writing += begun.elapsed();
    }
    Ok(writing)
}

impl Solver for Cpu {
    fn advance(&mut self, steps: u64) -> anyhow::Result<()> {
        self.fields.par_iter_mut().for_each(|field| (0..steps).for_each(|_| field.step()));
        Ok(())
    }

    fn checkpoint(&mut self, step: u64) -> anyhow::Result<()> {
        let begun = Instant::now();
        let streams: Vec<_> = self.fields.par_iter().map(|field| compress(field, self.bound)).collect();
        self.report.checkpoints += 1;
        self.report.field_bytes += self.fields.iter().map(|field| field.values.bytes() as u64).sum::<u64>();
        self.report.stream_bytes += streams.iter().map(|stream| stream.bytes.len() as u64).sum::<u64>();
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send((step, streams)).is_ok());
        self.report.stall += begun.elapsed();
        // the writer ends early only with an error, which finish gives
        if sent { Ok(()) } else { self.finish().map(drop) }
    }

    fn finish(&mut self) -> anyhow::Result<Report> {
        let waited = Instant::now();
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            self.report.writing = writer.join().expect("the writer does not panic")?;
        }
        self.report.overlap = self.report.writing.saturating_sub(waited.elapsed());
        self.report.elapsed = self.begun.elapsed();
        Ok(self.report)
    }

    fn fields(&mut self) -> anyhow::Result<Vec<Field>> {
        Ok(self.fields.clone())
    }
}

fn compress(field: &Field, bound: Bound) -> Stream {
    // one field a thread: within one, the coder would share it out again
    let bytes = match &field.values {
        Values::F32(values) => pfpl::compress(values, bound),
        Values::F64(values) => pfpl::compress(values, bound),
    };
    Stream { name: field.name.clone(), bytes }
}

/// Fields of streams.
pub fn decompress(streams: &[Stream], side: usize) -> Result<Vec<Field>, pfpl::Error> {
    fn values<T: Element>(stream: &Stream, n: usize) -> Result<Vec<T>, pfpl::Error> {
        let mut values = vec![T::zeroed(); n];
        pfpl::decompress(&stream.bytes, &mut values)?;
        Ok(values)
    }
    let restore = |stream: &Stream| {
        let values = match Header::read(&stream.bytes)?.element {
            ElementType::F32 => Values::F32(values(stream, side * side)?),
            ElementType::F64 => Values::F64(values(stream, side * side)?),
        };
        Ok(Field { name: stream.name.clone(), side, values })
    };
    streams.par_iter().map(restore).collect()
}
