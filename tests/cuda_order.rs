//! On a device: graphs, streams, threads, contexts and the life of plans. One test at a time: a capture forbids other threads calls that concern
//! its whole context, and some tests compare times.

#![cfg(feature = "cuda")]

mod common;

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use common::corpus::{KINDS, Random, Sample, field, same};
use common::gpu::{Buffer, Lab, Spin, plan};
use cudarc::driver::{CudaContext, CudaStream, result, sys};
use pfpl::cuda::raw::{Decode, Encode, Plan};
use pfpl::cuda::{Capacity, CompressList, Error, Fault, Outcome};
use pfpl::{Bound, compress, decompress, max_stream_bytes};

/// The device and this test's turn on it.
fn turn(test: &str) -> Option<(Arc<CudaContext>, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    common::gpu::context(test).map(|context| (context, turn))
}

/// A field, its stream by the CPU coder, and device memory for a round trip.
struct Trip {
    stream: Vec<u8>,
    restored: Vec<u8>,
    encode: Encode,
    decode: Decode,
    field: Buffer,
    written: Buffer,
    given: Buffer,
    decoded: Buffer,
    outcomes: [Buffer; 2],
}

impl Trip {
    fn new<T: Sample>(cuda_stream: &Arc<CudaStream>, kind: &str, n: usize, seed: u64) -> Self {
        let (values, bound) = field::<T>(kind, n, seed);
        let stream = compress(&values, bound);
        let mut restored = vec![T::zeroed(); n];
        decompress(&stream, &mut restored).unwrap();
        let bytes: &[u8] = bytemuck::cast_slice(&values);
        let [field, given] = [bytes, &stream].map(|bytes| Buffer::with(cuda_stream, bytes, 0));
        let written = Buffer::new(cuda_stream, stream.len(), 0);
        let decoded = Buffer::new(cuda_stream, bytes.len(), 0);
        let outcomes = [0, 1].map(|_| Buffer::new(cuda_stream, 16, 0));
        let (element, n, length) = (T::TYPE, n as u64, stream.len() as u64);
        let (encode_outcome, decode_outcome) = (outcomes[0].address(), outcomes[1].address());
        let encode =
            Encode { element, field: field.address(), n, bound, stream: written.address(), capacity: length, outcome: encode_outcome };
        let (first, bytes) = (0, length);
        let decode =
            Decode { element, stream: given.address(), bytes, n, field: decoded.address(), first, count: n, outcome: decode_outcome };
        let restored = bytemuck::cast_slice(&restored).to_vec();
        Self { stream, restored, encode, decode, field, written, given, decoded, outcomes }
    }

    /// Trips of many kinds, sizes and both types.
    fn several(cuda_stream: &Arc<CudaStream>, count: usize, longest: usize, seed: u64) -> Vec<Self> {
        let mut random = Random(seed);
        (0..count)
            .map(|i| {
                let (kind, n) = (KINDS[random.below(KINDS.len())], random.below(longest));
                if i % 2 == 0 { Self::new::<f32>(cuda_stream, kind, n, seed) } else { Self::new::<f64>(cuda_stream, kind, n, seed) }
            })
            .collect()
    }

    fn queue(&self, plan: &mut Plan, cuda_stream: &CudaStream) {
        let handle = cuda_stream.cu_stream().cast();
        // SAFETY: the buffers are alive until checked
        unsafe {
            plan.compress(handle, &self.encode).unwrap();
            plan.decompress(handle, &self.decode).unwrap();
        }
    }

    fn check(&self, cuda_stream: &Arc<CudaStream>) {
        for outcome in &self.outcomes {
            assert_eq!(outcome.outcome(cuda_stream).result(), Ok(self.stream.len() as u64));
        }
        assert!(self.written.read(cuda_stream) == self.stream);
        assert!(self.decoded.read(cuda_stream) == self.restored);
    }

    /// Spoils what calls write.
    fn spoil(&mut self, cuda_stream: &Arc<CudaStream>) {
        self.written.write(cuda_stream, &vec![0xEE; self.stream.len()]);
        self.decoded.write(cuda_stream, &vec![0xEE; self.restored.len()]);
        self.outcomes.iter_mut().for_each(|outcome| outcome.write(cuda_stream, &[0xEE; 16]));
    }
}

/// A graph of the calls that `work` makes on the stream.
struct Graph {
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
}

impl Graph {
    fn capture(cuda_stream: &CudaStream, work: impl FnOnce()) -> Self {
        cuda_stream.context().bind_to_thread().unwrap();
        // SAFETY: the stream is alive
        unsafe {
            result::stream::begin_capture(cuda_stream.cu_stream(), sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
            work();
            let graph = result::stream::end_capture(cuda_stream.cu_stream()).unwrap();
            let mut executable = null_mut();
            sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0).result().unwrap();
            Self { graph, executable }
        }
    }

    /// Kinds of its nodes.
    fn nodes(&self) -> Vec<sys::CUgraphNodeType> {
        let mut count = 100;
        let mut nodes = [null_mut(); 100];
        // SAFETY: there is room for 100 nodes
        unsafe { sys::cuGraphGetNodes(self.graph, nodes.as_mut_ptr(), &raw mut count) }.result().unwrap();
        nodes[..count]
            .iter()
            .map(|&node| {
                let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
                // SAFETY: the node is the graph's
                unsafe { sys::cuGraphNodeGetType(node, &raw mut kind) }.result().unwrap();
                kind
            })
            .collect()
    }

    fn launch(&self, cuda_stream: &CudaStream) {
        // SAFETY: the graph's plan and buffers are alive
        unsafe { result::graph::launch(self.executable, cuda_stream.cu_stream()) }.unwrap();
    }
}

const KERNEL: sys::CUgraphNodeType = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL;

#[test]
fn a_captured_call_is_one_kernel_node() {
    let Some((context, _turn)) = turn("cuda_order::a_captured_call_is_one_kernel_node") else { return };
    let cuda_stream = context.new_stream().unwrap();
    let handle: *mut c_void = cuda_stream.cu_stream().cast();
    for n in [0, 5, 70_000, 2_500_000] {
        let mut trip = Trip::new::<f32>(&cuda_stream, "noisy", n, 7);
        let mut plan = plan(&cuda_stream, Capacity::of::<f32>(n as u64));
        cuda_stream.synchronize().unwrap();
        let (encode, decode) = (trip.encode, trip.decode);
        // SAFETY: the buffers and the plan outlive the graphs' launches
        let compressing = Graph::capture(&cuda_stream, || unsafe { plan.compress(handle, &encode).unwrap() });
        // SAFETY: as above
        let decompressing = Graph::capture(&cuda_stream, || unsafe { plan.decompress(handle, &decode).unwrap() });
        assert_eq!((compressing.nodes(), decompressing.nodes()), (vec![KERNEL], vec![KERNEL]));
        for _ in 0..5 {
            trip.spoil(&cuda_stream);
            compressing.launch(&cuda_stream);
            decompressing.launch(&cuda_stream);
            trip.check(&cuda_stream);
        }
        // other values and another stream at the same addresses; ordinary calls of the plan in between
        for (round, kind) in KINDS.iter().enumerate() {
            let (values, bound) = field::<f32>(kind, n, round as u64);
            let stream = compress(&values, encode.bound);
            trip.field.write(&cuda_stream, bytemuck::cast_slice(&values));
            compressing.launch(&cuda_stream);
            let verdict = trip.outcomes[0].outcome(&cuda_stream);
            let fits = stream.len() as u64 <= encode.capacity;
            assert_eq!((verdict.stream_bytes, verdict.status), (stream.len() as u64, u32::from(!fits)), "{kind} {bound}");
            if fits {
                assert!(trip.written.read(&cuda_stream)[..stream.len()] == stream, "{kind}");
                let mut given = trip.given.read(&cuda_stream);
                given[..stream.len()].copy_from_slice(&stream);
                trip.given.write(&cuda_stream, &given);
                decompressing.launch(&cuda_stream);
                let mut restored = vec![0f32; n];
                decompress(&stream, &mut restored).unwrap();
                assert!(trip.decoded.read(&cuda_stream) == bytemuck::cast_slice::<f32, u8>(&restored), "{kind}");
            }
            // SAFETY: the buffers are alive until read
            unsafe { plan.compress(handle, &Encode { capacity: 0, ..encode }).unwrap() };
        }
    }
}

#[test]
fn a_captured_list_is_as_few_nodes() {
    let Some((context, _turn)) = turn("cuda_order::a_captured_list_is_as_few_nodes") else { return };
    let cuda_stream = context.new_stream().unwrap();
    let mut trips = Trip::several(&cuda_stream, 40, 20_000, 3);
    let calls: Vec<_> = trips.iter().map(|trip| trip.encode).collect();
    let mut plan = plan(&cuda_stream, Capacity { fields: 40, chunks: 1000 });
    let handle = cuda_stream.cu_stream().cast();
    cuda_stream.synchronize().unwrap();
    // SAFETY: the buffers and the plan outlive the graph's launches
    let graph = Graph::capture(&cuda_stream, || unsafe { plan.compress_many(handle, &calls).unwrap() });
    // SAFETY: the stream outlives the list
    let mut list = unsafe { plan.prepare_compress(handle, &calls) }.unwrap();
    // SAFETY: the list outlives the graph's launches too
    let prepared = Graph::capture(&cuda_stream, || unsafe { plan.compress_prepared(handle, &mut list).unwrap() });
    for graph in [graph, prepared] {
        assert_eq!(graph.nodes(), [KERNEL; 2]);
        for _ in 0..3 {
            trips.iter_mut().for_each(|trip| trip.spoil(&cuda_stream));
            graph.launch(&cuda_stream);
            for trip in &trips {
                assert_eq!(trip.outcomes[0].outcome(&cuda_stream).result(), Ok(trip.stream.len() as u64));
                assert!(trip.written.read(&cuda_stream) == trip.stream);
            }
        }
    }
}

#[test]
fn no_plan_is_made_or_grown_during_capture() {
    let Some((context, _turn)) = turn("cuda_order::no_plan_is_made_or_grown_during_capture") else { return };
    let cuda_stream = context.new_stream().unwrap();
    let mut plan = pfpl::cuda::Plan::new(&cuda_stream, Capacity::of::<f32>(1)).unwrap();
    cuda_stream.synchronize().unwrap();
    let graph = Graph::capture(&cuda_stream, || {
        assert_eq!(plan.reserve(Capacity::of::<f32>(1 << 20)), Err(pfpl::cuda::Error::Capturing));
        assert_eq!(pfpl::cuda::Plan::new(&cuda_stream, Capacity::default()).unwrap_err(), pfpl::cuda::Error::Capturing);
    });
    assert_eq!(graph.nodes(), []);
}

/// What `cudarc`'s event tracking does to a capture: without it a safe call is one kernel node; with it the call waits for events from
/// outside of the capture, which the driver refuses.
#[test]
fn event_tracking_and_capture() {
    let Some((untracked, _turn)) = turn("cuda_order::event_tracking_and_capture") else { return };
    let tracked = CudaContext::new(0).unwrap();
    for context in [&untracked, &tracked] {
        let tracking = context.is_event_tracking();
        let cuda_stream = context.new_stream().unwrap();
        let elsewhere = context.new_stream().unwrap();
        let values = elsewhere.clone_htod(&[1.0f32; 5000]).unwrap();
        let mut stream = elsewhere.alloc_zeros::<u8>(30_000).unwrap();
        let mut plan = pfpl::cuda::Plan::new(&cuda_stream, Capacity::of::<f32>(5000)).unwrap();
        context.synchronize().unwrap();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive
        unsafe { result::stream::begin_capture(cuda_stream.cu_stream(), mode) }.unwrap();
        let call = plan.compress(&values, Bound::new(1e-3).unwrap(), &mut stream, None);
        // SAFETY: as above
        let graph = unsafe { result::stream::end_capture(cuda_stream.cu_stream()) };
        if tracking {
            assert!(call.is_err() || graph.is_err() || context.check_err().is_err(), "a tracked call was captured");
        } else {
            let graph = Graph { graph: graph.unwrap(), executable: null_mut() };
            assert_eq!((call, graph.nodes()), (Ok(()), vec![KERNEL]));
        }
        // recorded by what the capture refused
        drop((values, stream, plan));
        context.check_err().ok();
    }
}

#[test]
fn streams_and_threads() {
    let Some((context, _turn)) = turn("cuda_order::streams_and_threads") else { return };
    let spin = Spin::new(&context);
    // each thread feeds two streams; all is queued before anything is waited for
    let barrier = std::sync::Barrier::new(4);
    let gate = (context.new_stream().unwrap(), Mutex::new(None));
    let base = &context.default_stream().record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)).unwrap();
    let times: Vec<(f32, f32)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (context, spin, barrier, gate) = (&context, &spin, &barrier, &gate);
                scope.spawn(move || {
                    let streams: Vec<_> = (0..2).map(|_| context.new_stream().unwrap()).collect();
                    let trips: Vec<Vec<_>> =
                        streams.iter().enumerate().map(|(i, s)| Trip::several(s, 25, 150_000, 10 * thread + i as u64)).collect();
                    let mut plans: Vec<_> = streams.iter().map(|stream| plan(stream, Capacity::of::<f64>(150_000))).collect();
                    streams.iter().for_each(|stream| stream.synchronize().unwrap());
                    let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
                    if barrier.wait().is_leader() {
                        // holds all streams back until they are fed
                        spin.launch(&gate.0, 1, 32, 200_000_000);
                        *gate.1.lock().unwrap() = Some(gate.0.record_event(flags).unwrap());
                    }
                    barrier.wait();
                    let starts: Vec<_> = streams
                        .iter()
                        .map(|stream| {
                            stream.wait(gate.1.lock().unwrap().as_ref().expect("the leader's event")).unwrap();
                            stream.record_event(flags).unwrap()
                        })
                        .collect();
                    for round in 0..8 {
                        for (number, pair) in trips[0].iter().zip(&trips[1]).enumerate() {
                            for (side, trip) in [pair.0, pair.1].into_iter().enumerate() {
                                if (number + round) % 9 == side {
                                    // an injected delay
                                    spin.launch(&streams[side], 40, 64, 20_000);
                                }
                                trip.queue(&mut plans[side], &streams[side]);
                            }
                        }
                    }
                    let ends: Vec<_> = streams.iter().map(|stream| stream.record_event(flags).unwrap()).collect();
                    barrier.wait();
                    for (stream, trips) in streams.iter().zip(&trips) {
                        trips.iter().for_each(|trip| trip.check(stream));
                    }
                    starts.iter().zip(&ends).map(|(a, b)| (base.elapsed_ms(a).unwrap(), base.elapsed_ms(b).unwrap())).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let last_start = times.iter().map(|time| time.0).fold(f32::MIN, f32::max);
    let first_end = times.iter().map(|time| time.1).fold(f32::MAX, f32::min);
    assert!(last_start < first_end, "the streams did not overlap: {times:?}");
}

/// A kernel of the caller's: `to[i] = from[i] * 0.75 + 0.125`.
const STEP: &CStr = c"
.version 7.0
.target sm_70
.address_size 64
.visible .entry step(.param .u64 from, .param .u64 to, .param .u64 n) {
  .reg .u32 %r<3>;
  .reg .u64 %d<5>;
  .reg .f32 %f;
  .reg .pred %p;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r0, %r0, %r1, %r2;
  cvt.u64.u32 %d0, %r0;
  ld.param.u64 %d1, [n];
  setp.ge.u64 %p, %d0, %d1;
  @%p ret;
  ld.param.u64 %d1, [from];
  ld.param.u64 %d2, [to];
  shl.b64 %d0, %d0, 2;
  add.u64 %d1, %d1, %d0;
  add.u64 %d2, %d2, %d0;
  ld.global.f32 %f, [%d1];
  mul.rn.f32 %f, %f, 0f3F400000;
  add.rn.f32 %f, %f, 0f3E000000;
  st.global.f32 [%d2], %f;
  ret;
}
";

/// Each call reads what the work just before it wrote, and writes what that still read: nothing may begin too early, in streams and in graphs.
#[test]
fn chains_of_calls() {
    const CALLS: usize = 25;
    let Some((context, _turn)) = turn("cuda_order::chains_of_calls") else { return };
    let cuda_stream = context.new_stream().unwrap();
    let handle = cuda_stream.cu_stream();
    // SAFETY: valid PTX; the module is never unloaded
    let step =
        unsafe { result::module::get_function(result::module::load_data(STEP.as_ptr().cast()).unwrap(), c"step".to_owned()) }.unwrap();
    for (kind, n) in [("noisy", 1000), ("noisy", 70 * 4096 + 5), ("mixed chunks", 3000 * 4096)] {
        let (mut values, bound) = field::<f32>(kind, n, 3);
        // values that stay finite
        values.iter_mut().for_each(|value| *value = if value.is_finite() { value.clamp(-1e6, 1e6) } else { 0.0 });
        let room = max_stream_bytes::<f32>(n as u64);
        let bytes: &[u8] = bytemuck::cast_slice(&values);
        let field = Buffer::with(&cuda_stream, bytes, 0);
        let restored = Buffer::with(&cuda_stream, bytes, 0);
        let written = Buffer::new(&cuda_stream, room as usize, 0);
        let outcomes = Buffer::new(&cuda_stream, 32 * CALLS, 0);
        let mut plan = plan(&cuda_stream, Capacity::of::<f32>(n as u64));
        let mut chain = |calls: usize| {
            for call in 0..calls {
                let (mut from, mut to, mut count) = (restored.address(), field.address(), n as u64);
                let mut params = [(&raw mut from).cast(), (&raw mut to).cast(), (&raw mut count).cast::<c_void>()];
                let outcome = outcomes.address() + 32 * call as u64;
                let (element, count) = (pfpl::ElementType::F32, n as u64);
                let (stream, field) = (written.address(), field.address());
                let encode = Encode { element, field, n: count, bound, stream, capacity: room, outcome };
                let outcome = outcome + 16;
                let decode = Decode { element, stream, bytes: room, n: count, field: restored.address(), first: 0, count, outcome };
                // SAFETY: the buffers are alive until read
                unsafe {
                    result::launch_kernel(step, (n.div_ceil(256) as u32, 1, 1), (256, 1, 1), 0, handle, &mut params).unwrap();
                    plan.compress(handle.cast(), &encode).unwrap();
                    plan.decompress(handle.cast(), &decode).unwrap();
                }
            }
        };
        chain(CALLS);
        let graph = Graph::capture(&cuda_stream, || chain(CALLS));
        assert_eq!(graph.nodes(), [KERNEL; 3 * CALLS]);
        graph.launch(&cuda_stream);
        graph.launch(&cuda_stream);
        let mut length = 0;
        for _ in 0..3 * CALLS {
            values.iter_mut().for_each(|value| *value = *value * 0.75 + 0.125);
            let stream = compress(&values, bound);
            decompress(&stream, &mut values).unwrap();
            length = stream.len() as u64;
        }
        assert!(restored.read(&cuda_stream) == bytemuck::cast_slice::<f32, u8>(&values));
        let outcomes: Vec<Outcome> = bytemuck::pod_collect_to_vec(&outcomes.read(&cuda_stream));
        assert!(outcomes.iter().all(|outcome| outcome.status == 0));
        assert_eq!(outcomes[2 * CALLS - 1].stream_bytes, length);
    }
}

#[test]
fn a_full_device() {
    let Some((context, _turn)) = turn("cuda_order::a_full_device") else { return };
    let spin = Spin::new(&context);
    let (fillers, cuda_stream) = ([(); 4].map(|()| context.new_stream().unwrap()), context.new_stream().unwrap());
    let mut trips = Trip::several(&cuda_stream, 4, 3_000_000, 77);
    trips.extend(Trip::several(&cuda_stream, 4, 800_000, 78));
    let mut plan = plan(&cuda_stream, Capacity::of::<f64>(3_000_000));
    for (blocks, persistent) in [(0, false), (0, true), (1, true), (7, true)] {
        plan.force(pfpl::device::Forced { blocks, persistent, wide: false });
        for _ in 0..3 {
            // blocks of other kernels come and go on every multiprocessor
            for filler in &fillers {
                for _ in 0..20 {
                    spin.launch(filler, 2000, 512, 40_000);
                }
            }
            trips.iter().for_each(|trip| trip.queue(&mut plan, &cuda_stream));
            trips.iter().for_each(|trip| trip.check(&cuda_stream));
        }
    }
}

#[test]
fn nothing_waits_for_the_default_stream() {
    let Some((context, _turn)) = turn("cuda_order::nothing_waits_for_the_default_stream") else { return };
    let spin = Spin::new(&context);
    let mut lab = Lab::new(&context, Capacity::of::<f32>(50_000));
    let trip = Trip::new::<f32>(&lab.stream, "noisy", 50_000, 1);
    trip.queue(&mut lab.plan, &lab.stream);
    trip.check(&lab.stream);
    // seconds, were it waited for
    spin.launch(&context.default_stream(), 1, 32, 3_000_000_000);
    let event = context.default_stream().record_event(None).unwrap();
    // dirty memory, cleared on the plan's own stream
    for round in 0..20u64 {
        // SAFETY: filled, then freed in the stream's order
        let dirt = unsafe { lab.stream.alloc::<u8>(1 << 20) }.unwrap();
        let address = cudarc::driver::DevicePtr::device_ptr(&dirt, &lab.stream).0;
        // SAFETY: the slice is this long
        unsafe { result::memset_d8_async(address, 0xFF, 1 << 20, lab.stream.cu_stream()) }.unwrap();
        drop(dirt);
        let mut fresh = plan(&lab.stream, Capacity::of::<f32>(50_000 + 3000 * round));
        trip.queue(&mut fresh, &lab.stream);
        trip.check(&lab.stream);
    }
    assert!(!event.is_complete(), "the default stream's kernel was waited for");
    event.synchronize().unwrap();
}

#[test]
fn plans_are_dropped_with_work_in_flight() {
    let Some((context, _turn)) = turn("cuda_order::plans_are_dropped_with_work_in_flight") else { return };
    let spin = Spin::new(&context);
    let cuda_stream = context.new_stream().unwrap();
    let mut trips = Trip::several(&cuda_stream, 10, 100_000, 5);
    cuda_stream.synchronize().unwrap();
    for _ in 0..10 {
        trips.iter_mut().for_each(|trip| trip.spoil(&cuda_stream));
        cuda_stream.synchronize().unwrap();
        spin.launch(&cuda_stream, 1, 32, 400_000_000);
        for trip in &trips {
            let mut plan = plan(&cuda_stream, Capacity::of::<f64>(100_000));
            trip.queue(&mut plan, &cuda_stream);
            // grown with work in flight too
            plan.reserve(Capacity::of::<f64>(200_000)).unwrap();
            trip.queue(&mut plan, &cuda_stream);
        }
        let event = cuda_stream.record_event(None).unwrap();
        assert!(!event.is_complete(), "something waited for the device");
        trips.iter().for_each(|trip| trip.check(&cuda_stream));
    }
}

#[test]
fn the_current_context_stays() {
    let Some((ours, _turn)) = turn("cuda_order::the_current_context_stays") else { return };
    let cuda_stream = ours.new_stream().unwrap();
    let trip = Trip::new::<f32>(&cuda_stream, "noisy", 5000, 1);
    let values = cuda_stream.clone_htod(&[1.0f32; 5000]).unwrap();
    let mut stream = cuda_stream.alloc_zeros::<u8>(30_000).unwrap();
    let other = CudaContext::new_non_primary(0, 0).unwrap();
    for current in [other.cu_ctx(), null_mut()] {
        // setting none takes off one context of the thread's stack
        while result::ctx::get_current().unwrap().unwrap_or(null_mut()) != current {
            // SAFETY: null or a context that is alive
            unsafe { result::ctx::set_current(current) }.unwrap();
        }
        let stays = || {
            let now = result::ctx::get_current().unwrap().unwrap_or(null_mut());
            assert_eq!(now, current, "another context is current");
        };
        let mut raw = plan(&cuda_stream, Capacity::of::<f32>(5000));
        stays();
        trip.queue(&mut raw, &cuda_stream);
        stays();
        raw.reserve(Capacity::of::<f32>(500_000)).unwrap();
        stays();
        drop(raw);
        stays();
        let mut safe = pfpl::cuda::Plan::new(&cuda_stream, Capacity::of::<f32>(5000)).unwrap();
        safe.compress(&values, Bound::new(1e-3).unwrap(), &mut stream, None).unwrap();
        stays();
        let mut list = CompressList::new(&cuda_stream);
        list.push(&values, Bound::new(1e-3).unwrap(), &mut stream).unwrap();
        safe.compress_many(list, None).unwrap();
        stays();
        drop(safe);
        stays();
        trip.check(&cuda_stream);
    }
    // an outcome there is not one here
    let theirs = other.new_stream().unwrap();
    let mut outcome = theirs.alloc_zeros::<Outcome>(1).unwrap();
    let mut safe = pfpl::cuda::Plan::new(&cuda_stream, Capacity::of::<f32>(5000)).unwrap();
    let refused = safe.compress(&values, Bound::new(1e-3).unwrap(), &mut stream, Some(outcome.as_view_mut()));
    assert_eq!(refused, Err(Error::Argument { index: 0, fault: Fault::Context }));
    // the other context runs kernels too, and outlives its plans
    let trip = Trip::new::<f64>(&theirs, "noisy", 5000, 1);
    let mut raw = plan(&theirs, Capacity::of::<f64>(5000));
    trip.queue(&mut raw, &theirs);
    trip.check(&theirs);
    drop(raw);
    other.synchronize().unwrap();
}

#[test]
fn several_devices() {
    let Some((_context, _turn)) = turn("cuda_order::several_devices") else { return };
    let devices = CudaContext::device_count().unwrap() as usize;
    // with one device, two contexts' plans side by side
    let contexts: Vec<_> = (0..devices.max(2)).map(|i| pfpl::cuda::context(i % devices).unwrap()).collect();
    let labs: Vec<_> = contexts
        .iter()
        .map(|context| {
            let lab = Lab::new(context, Capacity::of::<f64>(400_000));
            let trips = Trip::several(&lab.stream, 12, 400_000, 8);
            (lab, trips)
        })
        .collect();
    let mut labs = labs;
    for _ in 0..20 {
        for (lab, trips) in &mut labs {
            trips.iter().for_each(|trip| trip.queue(&mut lab.plan, &lab.stream));
        }
    }
    for (lab, trips) in &labs {
        trips.iter().for_each(|trip| trip.check(&lab.stream));
    }
}

#[test]
fn a_million_calls() {
    let Some((context, _turn)) = turn("cuda_order::a_million_calls") else { return };
    let cuda_stream = context.new_stream().unwrap();
    let mut trips = Trip::several(&cuda_stream, 30, 30_000, 15);
    trips.push(Trip::new::<f32>(&cuda_stream, "mixed chunks", 5_000_000, 1));
    let mut plan = plan(&cuda_stream, Capacity::of::<f64>(3_000_000));
    let handle = cuda_stream.cu_stream().cast();
    let mut random = Random(99);
    for round in 0..50 {
        // now and then the kernel for many chunks, and grids of few blocks
        let blocks = match round % 20 {
            3 => 1,
            7 | 13 => 5,
            _ => 0,
        };
        plan.force(pfpl::device::Forced { blocks, persistent: round % 3 == 0, wide: false });
        for call in 0..20_000 {
            let trip = &trips[if call == 7 { 30 } else { random.below(30) }];
            // SAFETY: the buffers are alive until checked
            unsafe {
                if random.below(2) == 0 { plan.compress(handle, &trip.encode) } else { plan.decompress(handle, &trip.decode) }.unwrap();
            }
        }
        trips.iter().for_each(|trip| trip.queue(&mut plan, &cuda_stream));
        trips.iter().for_each(|trip| trip.check(&cuda_stream));
        trips.iter_mut().for_each(|trip| trip.spoil(&cuda_stream));
    }
}

/// Encoders count their launches in the upper half of the state's first word and start again after this.
const LAST_EPOCH: u64 = 0x1fffe;

#[test]
fn the_epoch_wraps() {
    let Some((context, _turn)) = turn("cuda_order::the_epoch_wraps") else { return };
    let cuda_stream = context.new_stream().unwrap();
    let mut trips = Trip::several(&cuda_stream, 7, 2_000_000, 31);
    for persistent in [false, true] {
        for before in 0..5 {
            let mut plan = plan(&cuda_stream, Capacity::of::<f64>(2_000_000));
            plan.force(pfpl::device::Forced { blocks: 0, persistent, wide: false });
            let control = [(LAST_EPOCH - before) << 32];
            // SAFETY: the state begins with this word
            unsafe { result::memcpy_htod_async(plan.state(), &control, cuda_stream.cu_stream()) }.unwrap();
            cuda_stream.synchronize().unwrap();
            for _ in 0..3 {
                trips.iter_mut().for_each(|trip| trip.spoil(&cuda_stream));
                trips.iter().for_each(|trip| trip.queue(&mut plan, &cuda_stream));
                trips.iter().for_each(|trip| trip.check(&cuda_stream));
            }
            let mut after = [0u64];
            // SAFETY: as above
            unsafe { result::memcpy_dtoh_async(&mut after, plan.state(), cuda_stream.cu_stream()) }.unwrap();
            cuda_stream.synchronize().unwrap();
            assert!(after[0] >> 32 < 30, "the epoch did not wrap: {after:x?}");
        }
    }
}

#[test]
fn safe_calls() {
    let Some((_context, _turn)) = turn("cuda_order::safe_calls") else { return };
    // event tracking on: the slices' uses on several streams are ordered by cudarc
    let context = CudaContext::new(0).unwrap();
    let (upload, cuda_stream) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let (values, bound) = field::<f64>("mixed chunks", 70_000, 4);
    let expected = compress(&values, bound);
    let mut restored = vec![0.0; values.len()];
    decompress(&expected, &mut restored).unwrap();
    let mut plan = pfpl::cuda::Plan::new(&cuda_stream, Capacity::of::<f64>(70_000)).unwrap();
    for _ in 0..20 {
        let field = upload.clone_htod(&values).unwrap();
        let mut stream = upload.alloc_zeros::<u8>(max_stream_bytes::<f64>(70_000) as usize).unwrap();
        let mut outcomes = upload.alloc_zeros::<Outcome>(2).unwrap();
        plan.compress(&field, bound, &mut stream, Some(outcomes.slice_mut(..1))).unwrap();
        let mut decoded = upload.alloc_zeros::<f64>(70_000).unwrap();
        plan.decompress(&stream, &mut decoded, Some(outcomes.slice_mut(1..))).unwrap();
        let verdicts = upload.clone_dtoh(&outcomes).unwrap();
        assert_eq!(verdicts[..].iter().map(Outcome::result).collect::<Vec<_>>(), [Ok(expected.len() as u64); 2]);
        assert!(upload.clone_dtoh(&stream.slice(..expected.len())).unwrap() == expected);
        assert!(same(&upload.clone_dtoh(&decoded).unwrap(), &restored));
        // a range, and a list of one field and a misaligned view
        plan.decompress_range(&stream, 70_000, 3000, &mut decoded.slice_mut(..5), None).unwrap();
        assert!(same(&upload.clone_dtoh(&decoded.slice(..5)).unwrap(), &restored[3000..3005]));
        let mut list = CompressList::new(&cuda_stream);
        let mut view = stream.slice_mut(1..);
        list.push(&field, bound, &mut view).unwrap();
        let refused = plan.compress_many(list, Some(outcomes.as_view_mut()));
        assert_eq!(refused, Err(pfpl::cuda::Error::Argument { index: 0, fault: pfpl::cuda::Fault::Stream }));
    }
}

#[test]
fn whole_host_fields() {
    let Some((_context, _turn)) = turn("cuda_order::whole_host_fields") else { return };
    fn check<T: Sample>(n: usize) {
        let (values, bound) = field::<T>("noisy", n, 4);
        let stream = pfpl::cuda::compress_host(0, &values, bound).unwrap();
        assert!(stream == compress(&values, bound));
        let (mut expected, mut restored) = (vec![T::zeroed(); n], vec![T::zeroed(); n]);
        decompress(&stream, &mut expected).unwrap();
        assert_eq!(pfpl::cuda::decompress_host(0, &stream, &mut restored), Ok(stream.len() as u64));
        assert!(same(&restored, &expected));
        assert!(pfpl::cuda::decompress_host(0, &stream[..stream.len() - 1], &mut restored).is_err());
    }
    for n in [0, 1, 100_000] {
        check::<f32>(n);
        check::<f64>(n);
    }
}
