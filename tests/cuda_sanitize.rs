//! On a device, few and small calls in memory that ends where they should: for compute-sanitizer, which slows each call a great deal.

#![cfg(feature = "cuda")]

mod common;

use std::sync::Arc;

use common::corpus::{Sample, field};
use common::gpu::{context, plan};
use cudarc::driver::{CudaContext, result};
use pfpl::cuda::raw::{Decode, Encode, Plan};
use pfpl::cuda::{Capacity, Outcome};
use pfpl::device::Forced;
use pfpl::internal::Codec;
use pfpl::{Status, decompress, max_stream_bytes};

/// Device memory of exactly so many bytes.
struct Exact {
    address: u64,
    bytes: usize,
    context: Arc<CudaContext>,
}

impl Exact {
    fn new(context: &Arc<CudaContext>, bytes: usize) -> Self {
        context.bind_to_thread().unwrap();
        // SAFETY: freed with this
        let address = unsafe { result::malloc_sync(bytes.max(1)) }.unwrap();
        Self { address, bytes, context: context.clone() }
    }

    fn of(context: &Arc<CudaContext>, bytes: &[u8]) -> Self {
        let memory = Self::new(context, bytes.len());
        if !bytes.is_empty() {
            // SAFETY: as long as the bytes
            unsafe { result::memcpy_htod_sync(memory.address, bytes) }.unwrap();
            // a short copy may still be on its way, and streams do not wait for it
            context.synchronize().unwrap();
        }
        memory
    }

    fn read(&self) -> Vec<u8> {
        self.context.synchronize().unwrap();
        let mut bytes = vec![0; self.bytes];
        if self.bytes > 0 {
            // SAFETY: as long as this
            unsafe { result::memcpy_dtoh_sync(&mut bytes, self.address) }.unwrap();
        }
        bytes
    }
}

impl Drop for Exact {
    fn drop(&mut self) {
        self.context.synchronize().unwrap();
        // SAFETY: allocated likewise, and no longer in use
        unsafe { result::free_sync(self.address) }.unwrap();
    }
}

fn outcome(memory: &Exact) -> Outcome {
    bytemuck::pod_read_unaligned(&memory.read())
}

fn small_calls_of<T: Sample>(context: &Arc<CudaContext>, plan: &mut Plan, stream: *mut std::ffi::c_void) {
    let codes = T::TYPE.codes_per_chunk();
    for (number, (kind, n)) in
        [("noisy", 0), ("noisy", 1), ("random bits", 33), ("mixed chunks", codes + 7), ("noisy", 3 * codes), ("NaN payloads", 700)]
            .into_iter()
            .enumerate()
    {
        let (values, bound) = field::<T>(kind, n, number as u64);
        for (wide, blocks, persistent) in [(false, 0, false), (true, 0, false), (false, 2, true)] {
            plan.force(Forced { wide, blocks, persistent });
            let mut golden = vec![0; max_stream_bytes::<T>(n as u64) as usize + 8];
            let length = Codec { wide, ..Codec::default() }.compress_into(&values, bound, &mut golden).unwrap();
            golden.truncate(length);
            let (input, verdict) = (Exact::of(context, bytemuck::cast_slice(&values)), Exact::new(context, 16));
            for capacity in [length, length - 1, 17, 0] {
                let written = Exact::new(context, capacity);
                let call = Encode {
                    element: T::TYPE,
                    field: input.address,
                    n: n as u64,
                    bound,
                    stream: written.address,
                    capacity: capacity as u64,
                    outcome: verdict.address,
                };
                // SAFETY: the memory is freed after a synchronization
                unsafe { plan.compress(stream, &call) }.unwrap();
                assert_eq!((outcome(&verdict).stream_bytes, outcome(&verdict).status), (length as u64, u32::from(capacity < length)));
                assert!(capacity < length || written.read() == golden);
            }
            let mut restored = vec![T::zeroed(); n];
            decompress(&golden, &mut restored).unwrap();
            let mut check = |given: &[u8], first: usize, count: usize| {
                let (given, decoded) = (Exact::of(context, given), Exact::new(context, count * T::TYPE.bytes()));
                let call = Decode {
                    element: T::TYPE,
                    stream: given.address,
                    bytes: given.bytes as u64,
                    n: n as u64,
                    field: decoded.address,
                    first: first as u64,
                    count: count as u64,
                    outcome: verdict.address,
                };
                // SAFETY: as above
                unsafe { plan.decompress(stream, &call) }.unwrap();
                let status = outcome(&verdict).status();
                // of a refused stream nothing need have been written, which initcheck would see
                (status, if status == Some(Status::Ok) { decoded.read() } else { Vec::new() })
            };
            let (status, decoded) = check(&golden, 0, n);
            assert_eq!(status, Some(Status::Ok));
            assert!(decoded == bytemuck::cast_slice::<T, u8>(&restored));
            let (status, decoded) = check(&golden, n / 3, n / 2);
            assert_eq!(status, Some(Status::Ok));
            assert!(decoded == bytemuck::cast_slice::<T, u8>(&restored[n / 3..n / 3 + n / 2]));
            for damage in [8, 20, length / 2, length - 3, length - 1] {
                let mut damaged = golden.clone();
                damaged[damage] ^= 0x10;
                let expected = decompress(&damaged, &mut restored).map_or_else(|error| error.status(), |_| Status::Ok);
                assert_eq!(check(&damaged, 0, n).0, Some(expected));
            }
            for short in [0, 15, 23, length - 1] {
                assert_ne!(check(&golden[..short.min(length - 1)], 0, n).0, Some(Status::Ok));
            }
        }
    }
}

#[test]
fn small_calls() {
    let Some(context) = context("cuda_sanitize::small_calls") else { return };
    let stream = context.new_stream().unwrap();
    let mut plan = plan(&stream, Capacity { fields: 70, chunks: 200 });
    small_calls_of::<f32>(&context, &mut plan, stream.cu_stream().cast());
    small_calls_of::<f64>(&context, &mut plan, stream.cu_stream().cast());
    // a list for each of the entry points
    plan.force(Forced::default());
    for count in [5, 70] {
        let fields: Vec<_> = (0..count).map(|i| field::<f32>("mixed chunks", 100 * i, i as u64)).collect();
        let inputs: Vec<_> = fields.iter().map(|(values, _)| Exact::of(&context, bytemuck::cast_slice(values))).collect();
        let golden: Vec<_> = fields.iter().map(|(values, bound)| pfpl::compress(values, *bound)).collect();
        let written: Vec<_> = golden.iter().map(|stream| Exact::new(&context, stream.len())).collect();
        let verdicts = Exact::new(&context, 16 * count);
        let calls: Vec<_> = (0..count)
            .map(|i| Encode {
                element: pfpl::ElementType::F32,
                field: inputs[i].address,
                n: fields[i].0.len() as u64,
                bound: fields[i].1,
                stream: written[i].address,
                capacity: golden[i].len() as u64,
                outcome: verdicts.address + 16 * i as u64,
            })
            .collect();
        // SAFETY: the memory is freed after a synchronization
        unsafe { plan.compress_many(stream.cu_stream().cast(), &calls) }.unwrap();
        assert!(written.iter().zip(&golden).all(|(written, golden)| written.read() == *golden));
        let decoded: Vec<_> = inputs.iter().map(|input| Exact::new(&context, input.bytes)).collect();
        let calls: Vec<_> = (0..count)
            .map(|i| {
                let Encode { element, stream, n, outcome, .. } = calls[i];
                Decode { element, stream, bytes: golden[i].len() as u64, n, field: decoded[i].address, first: 0, count: n, outcome }
            })
            .collect();
        // SAFETY: as above
        unsafe { plan.decompress_many(stream.cu_stream().cast(), &calls) }.unwrap();
        let verdicts: Vec<Outcome> = bytemuck::pod_collect_to_vec(&verdicts.read());
        assert!(verdicts.iter().zip(&golden).all(|(verdict, golden)| verdict.result() == Ok(golden.len() as u64)));
    }
}

#[test]
#[ignore = "writes past its memory: `run.sh sanitize` of scripts/pack-gpu-tests.sh runs it, for memcheck to see that it would"]
fn planted_overrun() {
    let context = context("cuda_sanitize::planted_overrun").expect("a device");
    let stream = context.new_stream().unwrap();
    let mut plan = plan(&stream, Capacity::of::<f32>(4096));
    let (values, bound) = field::<f32>("random bits", 4096, 1);
    let (input, written) = (Exact::of(&context, bytemuck::cast_slice(&values)), Exact::new(&context, 64));
    let call = Encode {
        element: pfpl::ElementType::F32,
        field: input.address,
        n: 4096,
        bound,
        stream: written.address,
        capacity: 20_000,
        outcome: 0,
    };
    // SAFETY: not safe: the capacity is not there
    unsafe { plan.compress(stream.cu_stream().cast(), &call) }.unwrap();
    stream.synchronize().unwrap();
}
