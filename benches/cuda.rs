//! Device figures: times between device events of calls queued back to back, buffers rotating beyond the cache, medians of 15, results
//! compared with the CPU coder's in the same run. Arguments choose rows by a part of their names.

#[path = "../tests/common/corpus.rs"]
#[allow(dead_code)]
mod corpus;
#[path = "../tests/common/gpu.rs"]
#[allow(dead_code)]
mod gpu;

use std::cell::LazyCell;
use std::sync::Arc;
use std::time::Instant;

use corpus::{Random, Sample, wave};
use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr, result, sys};
use gpu::{Spin, context, plan};
use pfpl::cuda::raw::{Decode, Encode, Plan};
use pfpl::cuda::{Capacity, Outcome};
use pfpl::{Bound, compress, decompress, max_stream_bytes};
use rayon::prelude::*;

const REPEATS: usize = 15;
const MIB: usize = 1 << 20;
/// Memory that calls in turn go through: several times any cache.
const ROTATION: usize = 192 * MIB;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn timed(stream: &CudaStream) -> CudaEvent {
    stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)).unwrap()
}

struct Bench {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    spin: Spin,
}

impl Bench {
    /// Median microseconds of one of `calls` calls, each of which the host queues in `host` microseconds; `queue` gets a number that goes
    /// on counting.
    fn measure(&self, calls: usize, host: u64, mut queue: impl FnMut(usize)) -> f64 {
        let mut next = 0;
        let times = (0..=REPEATS)
            .map(|_| {
                // holds the stream until all is queued
                self.spin.launch(&self.stream, 1, 32, 2000 * host * calls as u64);
                let start = timed(&self.stream);
                for _ in 0..calls {
                    queue(next);
                    next += 1;
                }
                let end = timed(&self.stream);
                f64::from(start.elapsed_ms(&end).unwrap()) * 1000.0 / calls as f64
            })
            .skip(1)
            .collect();
        median(times)
    }
}

/// Fields in rotation: places in device memory for values, streams and restored values.
struct Rotation {
    n: usize,
    places: usize,
    bytes: usize,
    stream_bytes: usize,
    bound: Bound,
    element: pfpl::ElementType,
    values: CudaSlice<u8>,
    streams: CudaSlice<u8>,
    restored: CudaSlice<u8>,
    outcomes: CudaSlice<Outcome>,
    lengths: Vec<u64>,
}

impl Rotation {
    /// At least `places` places for fields of `n` values each, taken in turn from `source`.
    fn new<T: Sample>(stream: &Arc<CudaStream>, source: &[T], n: usize, bound: Bound, places: usize) -> Self {
        let bytes = n * T::TYPE.bytes();
        let places = ROTATION.div_ceil(bytes).max(places);
        let stream_bytes = (max_stream_bytes::<T>(n as u64) as usize).next_multiple_of(256);
        let mut values = stream.alloc_zeros::<u8>(places * bytes).unwrap();
        let source: &[u8] = bytemuck::cast_slice(source);
        for place in 0..places {
            let at = place * bytes % (source.len() - bytes + 1) / 16384 * 16384;
            stream.memcpy_htod(&source[at..at + bytes], &mut values.slice_mut(place * bytes..(place + 1) * bytes)).unwrap();
        }
        let streams = stream.alloc_zeros(places * stream_bytes).unwrap();
        let restored = stream.alloc_zeros(places * bytes).unwrap();
        let outcomes = stream.alloc_zeros(places).unwrap();
        let (element, lengths) = (T::TYPE, vec![0; places]);
        Self { n, places, bytes, stream_bytes, bound, element, values, streams, restored, outcomes, lengths }
    }

    fn encode(&self, call: usize) -> Encode {
        let place = call % self.places;
        let stream = self.values.stream();
        Encode {
            element: self.element,
            field: self.values.device_ptr(stream).0 + (place * self.bytes) as u64,
            n: self.n as u64,
            bound: self.bound,
            stream: self.streams.device_ptr(stream).0 + (place * self.stream_bytes) as u64,
            capacity: self.stream_bytes as u64,
            outcome: self.outcomes.device_ptr(stream).0 + 16 * place as u64,
        }
    }

    fn decode(&self, call: usize) -> Decode {
        let place = call % self.places;
        let Encode { element, n, stream, outcome, .. } = self.encode(place);
        let field = self.restored.device_ptr(self.values.stream()).0 + (place * self.bytes) as u64;
        Decode { element, stream, bytes: self.lengths[place], n, field, first: 0, count: n, outcome }
    }

    /// Reads the lengths of all streams.
    fn read_lengths(&mut self, stream: &Arc<CudaStream>) {
        let outcomes = stream.clone_dtoh(&self.outcomes).unwrap();
        self.lengths = outcomes.iter().map(|outcome| outcome.result().unwrap()).collect();
    }

    /// The last place's stream and values against the CPU coder's.
    fn check<T: Sample>(&self, stream: &Arc<CudaStream>) {
        let place = self.places - 1;
        let at = |bytes: usize| place * bytes..(place + 1) * bytes;
        let values = stream.clone_dtoh(&self.values.slice(at(self.bytes))).unwrap();
        let expected = compress::<T>(&bytemuck::pod_collect_to_vec(&values), self.bound);
        let written = stream.clone_dtoh(&self.streams.slice(at(self.stream_bytes))).unwrap();
        assert!(written[..expected.len()] == expected && self.lengths[place] == expected.len() as u64);
        let mut restored = vec![T::zeroed(); self.n];
        decompress(&expected, &mut restored).unwrap();
        assert!(stream.clone_dtoh(&self.restored.slice(at(self.bytes))).unwrap() == bytemuck::cast_slice::<T, u8>(&restored));
        let verdicts = stream.clone_dtoh(&self.outcomes).unwrap();
        assert!(verdicts.iter().all(|outcome| outcome.status == 0));
    }

    fn ratio(&self) -> f64 {
        self.bytes as f64 * self.places as f64 / self.lengths.iter().sum::<u64>() as f64
    }
}

fn size(kib: usize) -> String {
    if kib < 1024 { format!("{kib} KiB") } else { format!("{} MiB", kib / 1024) }
}
/// The command line's arguments choose rows by a part of their names; none means all.
fn chosen(name: &str) -> bool {
    let mut wanted = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    wanted.peek().is_none() || wanted.any(|part| name.contains(part.as_str()))
}

/// Both directions of single calls, and a copy of as many bytes.
fn row<T: Sample>(bench: &Bench, name: &str, source: &Source<T>, kib: usize, bound: f64) {
    let name = format!("{name}, {}", size(kib));
    if !chosen(&name) {
        return;
    }
    let stream = &bench.stream;
    let n = kib * 1024 / T::TYPE.bytes();
    let mut rotation = Rotation::new(stream, source, n, Bound::new(bound).unwrap(), 3);
    let mut plan = plan(stream, Capacity::of::<T>(n as u64));
    let handle = stream.cu_stream().cast();
    let calls = (16 * MIB / rotation.bytes).clamp(3, 500);
    // every place once
    for call in 0..rotation.places {
        // SAFETY: the rotation's memory is alive until read
        unsafe { plan.compress(handle, &rotation.encode(call)) }.unwrap();
    }
    rotation.read_lengths(stream);
    // SAFETY: as above
    let encode = bench.measure(calls, 10, |call| unsafe { plan.compress(handle, &rotation.encode(call)) }.unwrap());
    for call in 0..rotation.places {
        // SAFETY: as above
        unsafe { plan.decompress(handle, &rotation.decode(call)) }.unwrap();
    }
    // SAFETY: as above
    let decode = bench.measure(calls, 10, |call| unsafe { plan.decompress(handle, &rotation.decode(call)) }.unwrap());
    rotation.check::<T>(stream);
    let copy = bench.measure(calls, 10, |call| {
        let Decode { field, .. } = rotation.decode(call);
        // SAFETY: both places are this long
        unsafe { result::memcpy_dtod_async(field, rotation.encode(call).field, rotation.bytes, stream.cu_stream()) }.unwrap();
    });
    let rate = |time: f64| rotation.bytes as f64 / time / 1000.0;
    println!(
        "| {name} | {:.2} | {encode:.2} | {:.0} | {decode:.2} | {:.0} | {copy:.2} | {:.0} |",
        rotation.ratio(),
        rate(encode),
        rate(decode),
        rate(copy)
    );
}

/// Both directions of one call for a list.
fn list_row<T: Sample>(bench: &Bench, name: &str, source: &Source<T>, fields: usize, kib: usize, bound: f64) {
    let name = format!("{name}, {fields} of {}", size(kib));
    if !chosen(&name) {
        return;
    }
    let stream = &bench.stream;
    let n = kib * 1024 / T::TYPE.bytes();
    let mut rotation = Rotation::new(stream, source, n, Bound::new(bound).unwrap(), fields);
    // several lists in turn where the rotation holds them
    let lists = rotation.places / fields;
    let mut plan = plan(stream, Capacity { fields, chunks: fields as u64 * Capacity::of::<T>(n as u64).chunks });
    let handle = stream.cu_stream().cast();
    let encodes: Vec<Vec<_>> = (0..lists).map(|list| (0..fields).map(|i| rotation.encode(list * fields + i)).collect()).collect();
    for list in &encodes {
        // SAFETY: the rotation's memory is alive until read
        unsafe { plan.compress_many(handle, list) }.unwrap();
    }
    for place in lists * fields..rotation.places {
        // SAFETY: as above
        unsafe { plan.compress(handle, &rotation.encode(place)) }.unwrap();
    }
    rotation.read_lengths(stream);
    let decodes: Vec<Vec<_>> = (0..lists).map(|list| (0..fields).map(|i| rotation.decode(list * fields + i)).collect()).collect();
    // as parameters, and kept in device memory
    let mut figures = Vec::new();
    // SAFETY: as above
    figures.push(bench.measure(3, 3000, |call| unsafe { plan.compress_many(handle, &encodes[call % lists]) }.unwrap()));
    // SAFETY: as above
    figures.push(bench.measure(3, 3000, |call| unsafe { plan.decompress_many(handle, &decodes[call % lists]) }.unwrap()));
    // SAFETY: as above
    let mut prepared: Vec<_> = encodes.iter().map(|list| unsafe { plan.prepare_compress(handle, list) }.unwrap()).collect();
    // SAFETY: as above
    figures.push(bench.measure(3, 3000, |call| unsafe { plan.compress_prepared(handle, &mut prepared[call % lists]) }.unwrap()));
    // SAFETY: as above
    let mut prepared: Vec<_> = decodes.iter().map(|list| unsafe { plan.prepare_decompress(handle, list) }.unwrap()).collect();
    // SAFETY: as above
    figures.push(bench.measure(3, 3000, |call| unsafe { plan.decompress_prepared(handle, &mut prepared[call % lists]) }.unwrap()));
    let start = Instant::now();
    // SAFETY: as above
    unsafe { plan.compress_many(handle, &encodes[0]) }.unwrap();
    let host = start.elapsed().as_secs_f64() * 1e6;
    // SAFETY: as above
    unsafe { plan.decompress(handle, &rotation.decode(rotation.places - 1)) }.unwrap();
    rotation.check::<T>(stream);
    let rate = |time: f64| (fields * rotation.bytes) as f64 / time / 1000.0;
    for (kind, times) in ["", ", prepared"].into_iter().zip(figures.chunks(2)) {
        let [encode, decode] = [times[0], times[1]];
        println!("| {name}{kind} | {:.2} | {encode:.1} | {:.0} | {decode:.1} | {:.0} | | |", rotation.ratio(), rate(encode), rate(decode));
    }
    println!("(host {host:.0} µs for one list as parameters)");
}

/// 1 MiB calls on one stream and on eight.
fn streams<T: Sample>(bench: &Bench, source: &[T]) {
    const CALLS: usize = 200;
    let n = MIB / T::TYPE.bytes();
    let bound = Bound::new(1e-4).unwrap();
    let streams: Vec<_> = (0..8).map(|_| bench.context.new_stream().unwrap()).collect();
    let mut rotations: Vec<_> = streams.iter().map(|stream| Rotation::new(stream, source, n, bound, 1)).collect();
    let mut plans: Vec<Plan> = streams.iter().map(|stream| plan(stream, Capacity::of::<T>(n as u64))).collect();
    for (stream, (rotation, plan)) in streams.iter().zip(rotations.iter_mut().zip(&mut plans)) {
        for call in 0..rotation.places {
            // SAFETY: the rotations' memory is alive until read
            unsafe { plan.compress(stream.cu_stream().cast(), &rotation.encode(call)) }.unwrap();
        }
        rotation.read_lengths(stream);
    }
    // kernels that do nothing show how many the device can start
    for work in ["encode", "decode", "empty kernels"] {
        let mut rates = Vec::new();
        let mut host = Vec::new();
        for used in [1, 8] {
            let times = (0..REPEATS)
                .map(|repeat| {
                    bench.spin.launch(&bench.stream, 1, 32, 20_000 * CALLS as u64 * used as u64);
                    let start = timed(&bench.stream);
                    streams[..used].iter().for_each(|stream| stream.wait(&start).unwrap());
                    let queueing = Instant::now();
                    for call in 0..CALLS {
                        for i in 0..used {
                            let (handle, call) = (streams[i].cu_stream().cast(), call + repeat * CALLS);
                            match work {
                                // SAFETY: as above
                                "encode" => unsafe { plans[i].compress(handle, &rotations[i].encode(call)) }.unwrap(),
                                // SAFETY: as above
                                "decode" => unsafe { plans[i].decompress(handle, &rotations[i].decode(call)) }.unwrap(),
                                _ => bench.spin.launch(&streams[i], 64, 32, 0),
                            }
                        }
                    }
                    host.push(queueing.elapsed().as_secs_f64() * 1e6 / (CALLS * used) as f64);
                    streams[..used].iter().for_each(|stream| bench.stream.wait(&timed(stream)).unwrap());
                    let end = timed(&bench.stream);
                    f64::from(start.elapsed_ms(&end).unwrap()) * 1000.0
                })
                .collect();
            rates.push((CALLS * used * MIB) as f64 / median(times) / 1000.0);
        }
        println!(
            "{work}, 1 MiB a call: one stream {:.0} GB/s, eight {:.0} GB/s ({:.2} times); host {:.2} µs a call",
            rates[0],
            rates[1],
            rates[1] / rates[0],
            median(host)
        );
    }
    rotations.iter().zip(&streams).for_each(|(rotation, stream)| rotation.check::<T>(stream));
}

/// Values that the rows chosen may not need.
type Source<T> = LazyCell<Vec<T>>;

fn source<T: Sample>(mib: usize, value: impl Fn(usize, &mut Random) -> T + Sync) -> Vec<T> {
    let mut values = vec![T::zeroed(); mib * MIB / T::TYPE.bytes()];
    values.par_chunks_mut(1 << 16).enumerate().for_each(|(part, values)| {
        let mut random = Random(part as u64);
        values.iter_mut().enumerate().for_each(|(i, out)| *out = value((part << 16) + i, &mut random));
    });
    values
}

fn main() {
    let Some(context) = context("benches/cuda") else { return };
    let stream = context.new_stream().unwrap();
    let bench = Bench { spin: Spin::new(&context), stream: stream.clone(), context };
    println!("{}, driver {}", bench.context.name().unwrap(), driver_version());

    // times of a fresh process
    let start = Instant::now();
    let first = plan(&stream, Capacity::of::<f32>(MIB as u64));
    stream.synchronize().unwrap();
    let load = start.elapsed().as_secs_f64() * 1000.0;
    drop(first);
    let start = Instant::now();
    let mut second = plan(&stream, Capacity::of::<f32>(MIB as u64));
    stream.synchronize().unwrap();
    let again = start.elapsed().as_secs_f64() * 1e6;
    let rotation = Rotation::new(&stream, &vec![0f32; MIB], MIB / 4, Bound::new(1e-4).unwrap(), 3);
    stream.synchronize().unwrap();
    let calls: Vec<_> = (0..3)
        .map(|call| {
            let start = Instant::now();
            // SAFETY: the rotation's memory is alive until the synchronization
            unsafe { second.compress(stream.cu_stream().cast(), &rotation.encode(call)) }.unwrap();
            stream.synchronize().unwrap();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    println!("first plan (loads the kernels) {load:.1} ms, second {again:.0} µs; first calls of 1 MiB with their waits {calls:.0?} µs");
    let empty = bench.measure(500, 10, |_| bench.spin.launch(&stream, 1, 32, 0));
    println!("empty kernel {empty:.2} µs\n");

    println!("| field | ratio | encode µs | GB/s | decode µs | GB/s | copy µs | GB/s |\n|---|---|---|---|---|---|---|---|");
    let sizes = [16, 1024, 8 << 10, 32 << 10, 128 << 10, 512 << 10];
    let a = Source::new(|| source::<f32>(512, |i, random| wave(i, 0.01, random)));
    sizes.iter().for_each(|&kib| row(&bench, "A 1e-4", &a, kib, 1e-4));
    row(&bench, "A 1e-6", &a, 512 << 10, 1e-6);
    list_row(&bench, "lists A 1e-4", &a, 10_000, 16, 1e-4);
    list_row(&bench, "lists A 1e-4", &a, 1000, 1024, 1e-4);
    if chosen("streams") {
        streams(&bench, &a);
    }
    let b = Source::new(|| source::<f32>(512, |i, random| wave(i, 0.0, random)));
    for (name, bound) in [("B 1e-4", 1e-4), ("B 1e-2", 1e-2)] {
        sizes[1..].iter().for_each(|&kib| row(&bench, name, &b, kib, bound));
    }
    let random = Source::new(|| source::<f32>(512, |_, random| f32::of_bits(random.word())));
    sizes[4..].iter().for_each(|&kib| row(&bench, "random bits", &random, kib, 1e-4));
    let a = Source::new(|| source::<f64>(512, |i, random| wave(i, 0.01, random)));
    for (name, bound) in [("f64 A 1e-4", 1e-4), ("f64 A 1e-9", 1e-9), ("f64 A 1e-12", 1e-12)] {
        row(&bench, name, &a, 128 << 10, bound);
    }
    row(&bench, "f64 A 1e-9", &a, 512 << 10, 1e-9);
}

fn driver_version() -> i32 {
    let mut version = 0;
    // SAFETY: writes the number
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_or(0, |()| version)
}
