//! On a CUDA device. Fields are dealt to lanes, each with a stream, a plan, and a thread that collects what it compresses:
//!
//! solver     steps · compress_many into a slot · steps · …          never waits for a copy, unless both slots are still being copied
//! collector  (slot's event) outcomes → lengths → streams to pinned memory · slot free · to the writer
//! writer     one file a checkpoint, once all lanes have sent theirs

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use pfpl::cuda::cudarc::driver::sys::CUevent_flags;
use pfpl::cuda::cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PinnedHostSlice, PushKernelArg, result,
};
use pfpl::cuda::cudarc::nvrtc::Ptx;
use pfpl::cuda::{CompressList, DecompressList, Outcome, Plan};
use pfpl::{Bound, Element, ElementType, Header, max_stream_bytes};

use crate::field::{Field, Values};
use crate::file::{self, Stream};
use crate::{Report, Solver};

/// Slots a lane: one being filled while the other is copied.
const SLOTS: usize = 2;

/// A field twice: a step reads one and writes the other.
enum Planes {
    F32([CudaSlice<f32>; 2]),
    F64([CudaSlice<f64>; 2]),
}

/// The planes of one type of a lane, by their addresses, for a step from even to odd and for one back.
struct Stencil {
    function: CudaFunction,
    fields: u32,
    addresses: [CudaSlice<u64>; 2],
}

struct Lane {
    stream: Arc<CudaStream>,
    plan: Plan,
    names: Vec<String>,
    planes: Vec<Planes>,
    stencils: Vec<Stencil>,
    /// Which plane of each field is the current one.
    current: usize,
    free: Receiver<Slot>,
    full: Option<Sender<(u64, Slot)>>,
    collector: Option<JoinHandle<anyhow::Result<Collected>>>,
}

/// Room for the streams of all fields of a lane.
struct Slot {
    streams: Vec<CudaSlice<u8>>,
    outcomes: CudaSlice<Outcome>,
    /// Before and after compressing.
    events: Option<(CudaEvent, CudaEvent)>,
}

/// What a lane's collector has seen.
#[derive(Default)]
struct Collected {
    /// Device time of compressing, a checkpoint.
    compressing: Vec<Duration>,
    copying: Duration,
    stream_bytes: u64,
}

pub struct Gpu {
    side: usize,
    bound: Bound,
    lanes: Vec<Lane>,
    begun: Instant,
    report: Report,
    writer: Option<JoinHandle<anyhow::Result<Duration>>>,
}

/// What a run's fields begin with.
pub enum Start<'a> {
    Fields(&'a [Field]),
    /// Decompressed on the device.
    Streams(&'a [Stream]),
}

impl Start<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Fields(fields) => fields.len(),
            Self::Streams(streams) => streams.len(),
        }
    }
}

impl Gpu {
    pub fn new(start: &Start<'_>, side: usize, bound: Bound, folder: PathBuf, lanes: usize) -> anyhow::Result<Self> {
        let context = pfpl::cuda::context(0)?;
        // SAFETY: each slice is used on its lane's stream alone, or handed over behind an event
        unsafe { context.disable_event_tracking() };
        let module = context.load_module(Ptx::from_src(include_str!("../stencil.ptx")))?;
        let functions = [module.load_function("step_f32")?, module.load_function("step_f64")?];
        let lanes = lanes.clamp(1, start.len().max(1));
        let (to_writer, from_collectors) = channel();
        let lanes = (0..lanes)
            .map(|lane| Lane::new(&context, &functions, start, side, (lane, lanes), to_writer.clone()))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let count = lanes.len();
        let writer = std::thread::spawn(move || write_all(from_collectors, count, folder, bound));
        Ok(Self { side, bound, lanes, begun: Instant::now(), report: Report::default(), writer: Some(writer) })
    }
}

impl Lane {
    /// Lane number `lane` of `lanes`: takes every `lanes`-th field.
    fn new(
        context: &Arc<CudaContext>,
        functions: &[CudaFunction; 2],
        start: &Start<'_>,
        side: usize,
        (lane, lanes): (usize, usize),
        writer: Sender<(u64, Vec<Stream>)>,
    ) -> anyhow::Result<Self> {
        let stream = context.new_stream()?;
        let n = side * side;
        let mut names = Vec::new();
        let mut planes = Vec::new();
        let mut given = Vec::new();
        for index in (lane..start.len()).step_by(lanes) {
            let (name, element) = match start {
                Start::Fields(fields) => (&fields[index].name, fields[index].values.element()),
                Start::Streams(streams) => (&streams[index].name, Header::read(&streams[index].bytes)?.element),
            };
            names.push(name.clone());
            planes.push(match element {
                ElementType::F32 => Planes::F32([stream.alloc_zeros(n)?, stream.alloc_zeros(n)?]),
                ElementType::F64 => Planes::F64([stream.alloc_zeros(n)?, stream.alloc_zeros(n)?]),
            });
            match (start, planes.last_mut()) {
                (Start::Fields(fields), Some(Planes::F32(planes))) => {
                    if let Values::F32(values) = &fields[index].values {
                        stream.memcpy_htod(values, &mut planes[0])?;
                    }
                }
                (Start::Fields(fields), Some(Planes::F64(planes))) => {
                    if let Values::F64(values) = &fields[index].values {
                        stream.memcpy_htod(values, &mut planes[0])?;
                    }
                }
                (Start::Streams(streams), _) => given.push(stream.clone_htod(&streams[index].bytes)?),
                (_, None) => {}
            }
        }
        let room = |planes: &Planes| match planes {
            Planes::F32(_) => max_stream_bytes::<f32>(n as u64) as usize,
            Planes::F64(_) => max_stream_bytes::<f64>(n as u64) as usize,
        };
        let slot = || -> anyhow::Result<Slot> {
            // SAFETY: read only as far as an outcome says that it is written
            let streams = planes.iter().map(|planes| unsafe { stream.alloc(room(planes)) }).collect::<Result<_, _>>()?;
            Ok(Slot { streams, outcomes: stream.alloc_zeros(planes.len().max(1))?, events: None })
        };
        let (give_back, free) = channel();
        for _ in 0..SLOTS {
            give_back.send(slot()?).expect("the receiver is here");
        }
        let capacity = planes
            .iter()
            .map(|planes| match planes {
                Planes::F32(_) => pfpl::cuda::Capacity::of::<f32>(n as u64),
                Planes::F64(_) => pfpl::cuda::Capacity::of::<f64>(n as u64),
            })
            .sum();
        let mut plan = Plan::new(&stream, capacity)?;
        if !given.is_empty() {
            let mut outcomes = stream.alloc_zeros::<Outcome>(given.len())?;
            let mut list = DecompressList::new(&stream);
            for (given, planes) in given.iter().zip(&mut planes) {
                match planes {
                    Planes::F32(planes) => list.push(given, &mut planes[0])?,
                    Planes::F64(planes) => list.push(given, &mut planes[0])?,
                }
            }
            plan.decompress_many(list, Some(outcomes.as_view_mut()))?;
            for (name, outcome) in names.iter().zip(stream.clone_dtoh(&outcomes)?) {
                outcome.result().with_context(|| format!("cannot restore {name}"))?;
            }
        }
        let stencils = [ElementType::F32, ElementType::F64]
            .into_iter()
            .zip(functions)
            .filter_map(|(element, function)| Stencil::new(&stream, function, element, &planes).transpose())
            .collect::<anyhow::Result<_>>()?;
        let (full, slots) = channel();
        let copy_stream = context.new_stream()?;
        let collector_names = names.clone();
        let collector = std::thread::spawn(move || collect(&copy_stream, &collector_names, slots, give_back, writer));
        stream.synchronize()?;
        Ok(Self { stream, plan, names, planes, stencils, current: 0, free, full: Some(full), collector: Some(collector) })
    }

    fn step(&mut self, side: usize) -> anyhow::Result<()> {
        const THREADS: u32 = 256;
        let (from, to) = (self.current, 1 - self.current);
        for stencil in &self.stencils {
            let grid_dim = (((side * side) as u32).div_ceil(THREADS), stencil.fields, 1);
            let mut launch = self.stream.launch_builder(&stencil.function);
            let side = side as u32;
            launch.arg(&stencil.addresses[from]).arg(&stencil.addresses[to]).arg(&side);
            // SAFETY: the kernel's parameters; as many addresses as fields, of planes of side * side values
            unsafe { launch.launch(LaunchConfig { grid_dim, block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 }) }?;
        }
        self.current = to;
        Ok(())
    }

    /// Queues the compression of all fields and gives how long a free slot had to be waited for.
    fn checkpoint(&mut self, step: u64, bound: Bound) -> anyhow::Result<Duration> {
        let waited = Instant::now();
        let Ok(mut slot) = self.free.recv() else {
            // the collector ends early only with an error
            let collector = self.collector.take().context("the collector has failed before")?;
            collector.join().expect("the collector does not panic")?;
            anyhow::bail!("the collector ended early");
        };
        let waited = waited.elapsed();
        let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let begun = self.stream.record_event(flags)?;
        let mut list = CompressList::new(&self.stream);
        for (planes, stream) in self.planes.iter().zip(&mut slot.streams) {
            match planes {
                Planes::F32(planes) => list.push(&planes[self.current], bound, stream)?,
                Planes::F64(planes) => list.push(&planes[self.current], bound, stream)?,
            }
        }
        self.plan.compress_many(list, Some(slot.outcomes.as_view_mut()))?;
        slot.events = Some((begun, self.stream.record_event(flags)?));
        // a collector that has ended is found at the next checkpoint or at the end
        let _ = self.full.as_ref().map(|full| full.send((step, slot)));
        Ok(waited)
    }
}

impl Stencil {
    fn new(stream: &Arc<CudaStream>, function: &CudaFunction, of: ElementType, planes: &[Planes]) -> anyhow::Result<Option<Self>> {
        let addresses = [0, 1].map(|parity| {
            let address = |planes: &Planes| match (planes, of) {
                (Planes::F32(planes), ElementType::F32) => Some(planes[parity].device_ptr(stream).0),
                (Planes::F64(planes), ElementType::F64) => Some(planes[parity].device_ptr(stream).0),
                _ => None,
            };
            planes.iter().filter_map(address).collect::<Vec<u64>>()
        });
        let fields = addresses[0].len() as u32;
        if fields == 0 {
            return Ok(None);
        }
        let [even, odd] = addresses;
        Ok(Some(Self { function: function.clone(), fields, addresses: [stream.clone_htod(&even)?, stream.clone_htod(&odd)?] }))
    }
}

/// Copies full slots to the host as soon as their compression is done, gives them back, and sends the streams on.
fn collect(
    copy_stream: &Arc<CudaStream>,
    names: &[String],
    slots: Receiver<(u64, Slot)>,
    give_back: Sender<Slot>,
    writer: Sender<(u64, Vec<Stream>)>,
) -> anyhow::Result<Collected> {
    let pinned = |bytes: usize| -> anyhow::Result<PinnedHostSlice<u8>> {
        // SAFETY: any bytes will do; read only where a copy has written
        Ok(unsafe { copy_stream.context().alloc_pinned_with_flags(bytes, 0) }?)
    };
    let mut room = pinned(1 << 20)?;
    let mut collected = Collected::default();
    for (step, mut slot) in slots {
        let (before, after) = slot.events.take().context("a full slot has events")?;
        after.synchronize()?;
        collected.compressing.push(Duration::from_secs_f32(before.elapsed_ms(&after)? / 1e3));
        let begun = Instant::now();
        let outcomes = copy_stream.clone_dtoh(&slot.outcomes)?;
        let mut lengths = Vec::with_capacity(names.len());
        for (name, outcome) in names.iter().zip(&outcomes) {
            lengths.push(outcome.result().with_context(|| format!("cannot compress {name}"))? as usize);
        }
        let total = lengths.iter().sum::<usize>();
        if total > room.len() {
            // more than needed, so that checkpoints that grow do not allocate each time
            room = pinned(total + total / 4)?;
        }
        let mut rest = room.as_mut_slice()?;
        for (stream, &length) in slot.streams.iter().zip(&lengths) {
            let (place, after) = rest.split_at_mut(length);
            // SAFETY: the stream is written, and both sides stay where they are until the synchronization below
            unsafe { result::memcpy_dtoh_async(place, stream.device_ptr(copy_stream).0, copy_stream.cu_stream()) }?;
            rest = after;
        }
        copy_stream.synchronize()?;
        // the solver may have ended
        let _ = give_back.send(slot);
        let mut rest = room.as_slice()?;
        let mut streams = Vec::with_capacity(names.len());
        for (name, length) in names.iter().zip(lengths) {
            let (bytes, after) = rest.split_at(length);
            streams.push(Stream { name: name.clone(), bytes: bytes.to_vec() });
            rest = after;
        }
        collected.stream_bytes += total as u64;
        collected.copying += begun.elapsed();
        if writer.send((step, streams)).is_err() {
            // the writer's own error says more
            break;
        }
    }
    Ok(collected)
}

fn write_all(lanes: Receiver<(u64, Vec<Stream>)>, count: usize, folder: PathBuf, bound: Bound) -> anyhow::Result<Duration> {
    let mut writing = Duration::ZERO;
    let mut pending = BTreeMap::<u64, (usize, Vec<Stream>)>::new();
    for (step, streams) in lanes {
        let (sent, all) = pending.entry(step).or_default();
        *sent += 1;
        all.extend(streams);
        if *sent == count {
            let (_, streams) = pending.remove(&step).expect("just filled");
            let begun = Instant::now();
            file::write(&folder, step, bound.get().into(), &streams)?;
            writing += begun.elapsed();
        }
    }
    Ok(writing)
}

impl Solver for Gpu {
    fn advance(&mut self, steps: u64) -> anyhow::Result<()> {
        for _ in 0..steps {
            for lane in &mut self.lanes {
                lane.step(self.side)?;
            }
        }
        Ok(())
    }

    fn checkpoint(&mut self, step: u64) -> anyhow::Result<()> {
        self.report.checkpoints += 1;
        for lane in &mut self.lanes {
            self.report.waited += lane.checkpoint(step, self.bound)?;
            self.report.field_bytes += lane.planes.iter().map(Planes::bytes).sum::<u64>();
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<Report> {
        for lane in &self.lanes {
            lane.stream.synchronize()?;
        }
        let waited = Instant::now();
        let mut compressing = vec![Duration::ZERO; self.report.checkpoints as usize];
        let mut copying = Duration::ZERO;
        for lane in &mut self.lanes {
            lane.full = None;
            if let Some(collector) = lane.collector.take() {
                let collected = collector.join().expect("the collector does not panic")?;
                self.report.stream_bytes += collected.stream_bytes;
                copying = copying.max(collected.copying);
                for (longest, lane) in compressing.iter_mut().zip(collected.compressing) {
                    *longest = lane.max(*longest);
                }
            }
            // the last sender of the writer's channel goes with the collectors
        }
        if let Some(writer) = self.writer.take() {
            self.report.writing = copying + writer.join().expect("the writer does not panic")?;
        }
        self.report.stall = self.report.waited + compressing.iter().sum::<Duration>();
        self.report.overlap = self.report.writing.saturating_sub(waited.elapsed());
        self.report.elapsed = self.begun.elapsed();
        Ok(self.report)
    }

    fn fields(&mut self) -> anyhow::Result<Vec<Field>> {
        fn host<T: Element + pfpl::cuda::cudarc::driver::DeviceRepr>(lane: &Lane, planes: &CudaSlice<T>) -> anyhow::Result<Vec<T>> {
            Ok(lane.stream.clone_dtoh(planes)?)
        }
        let mut fields = Vec::new();
        for lane in &self.lanes {
            for (name, planes) in lane.names.iter().zip(&lane.planes) {
                let values = match planes {
                    Planes::F32(planes) => Values::F32(host(lane, &planes[lane.current])?),
                    Planes::F64(planes) => Values::F64(host(lane, &planes[lane.current])?),
                };
                fields.push(Field { name: name.clone(), side: self.side, values });
            }
            lane.stream.synchronize()?;
        }
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(fields)
    }
}

impl Planes {
    /// Bytes of one plane.
    fn bytes(&self) -> u64 {
        match self {
            Self::F32(planes) => 4 * planes[0].len() as u64,
            Self::F64(planes) => 8 * planes[0].len() as u64,
        }
    }
}
