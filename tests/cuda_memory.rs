//! On a device: plans when memory is short, and fields and streams beyond 32-bit sizes. One test at a time: each wants the memory.

#![cfg(feature = "cuda")]

mod common;

use std::sync::{Mutex, PoisonError};

use common::corpus::{Random, Sample, field, wave};
use common::gpu::{Buffer, Lab, context, plan};
use cudarc::driver::result;
use pfpl::cuda::raw::{Decode, Encode};
use pfpl::cuda::{Capacity, Error};
use pfpl::{Bound, Element, compress, decompress, max_stream_bytes};
use rayon::prelude::*;

static MEMORY: Mutex<()> = Mutex::new(());

#[test]
fn a_reserved_plan_needs_no_memory() {
    let _alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(context) = context("cuda_memory::a_reserved_plan_needs_no_memory") else { return };
    let cuda_stream = context.new_stream().unwrap();
    let n = 3_000_000;
    let (values, bound) = field::<f32>("noisy", n, 1);
    let stream = compress(&values, bound);
    let given = Buffer::with(&cuda_stream, bytemuck::cast_slice(&values), 0);
    let written = Buffer::new(&cuda_stream, stream.len(), 0);
    let decoded = Buffer::new(&cuda_stream, 4 * n, 0);
    let outcomes = [0, 1].map(|_| Buffer::new(&cuda_stream, 16, 0));
    let mut plan = plan(&cuda_stream, Capacity { fields: 100, chunks: 1000 });
    cuda_stream.synchronize().unwrap();

    context.bind_to_thread().unwrap();
    let mut taken = Vec::new();
    for shift in (16..=36).rev() {
        // SAFETY: freed below
        while let Ok(address) = unsafe { result::malloc_sync(1 << shift) } {
            taken.push(address);
        }
    }
    // what the driver counts as free then cannot be had
    println!("{} bytes of device memory are free", result::mem_get_info().unwrap().0);
    // SAFETY: expected to fail
    assert!(unsafe { result::malloc_sync(1 << 20) }.is_err(), "there is still memory");

    let (element, n) = (f32::TYPE, n as u64);
    let encode = Encode {
        element,
        field: given.address(),
        n,
        bound,
        stream: written.address(),
        capacity: stream.len() as u64,
        outcome: outcomes[0].address(),
    };
    let decode = Decode {
        element,
        stream: written.address(),
        bytes: stream.len() as u64,
        n,
        field: decoded.address(),
        first: 0,
        count: n,
        outcome: outcomes[1].address(),
    };
    let handle = cuda_stream.cu_stream().cast();
    for _ in 0..3 {
        // SAFETY: the buffers are alive until read
        unsafe {
            plan.compress(handle, &encode).unwrap();
            plan.decompress(handle, &decode).unwrap();
        }
        // no memory for this: an error, and the plan goes on
        assert!(matches!(plan.reserve(Capacity { fields: 1, chunks: 1 << 30 }), Err(Error::Driver { .. })));
    }
    cuda_stream.synchronize().unwrap();
    // SAFETY: allocated above
    taken.into_iter().for_each(|address| unsafe { result::free_sync(address) }.unwrap());
    for outcome in &outcomes {
        assert_eq!(outcome.outcome(&cuda_stream).result(), Ok(stream.len() as u64));
    }
    assert!(written.read(&cuda_stream) == stream);
    let mut restored = vec![0f32; values.len()];
    decompress(&stream, &mut restored).unwrap();
    assert!(decoded.read(&cuda_stream) == bytemuck::cast_slice::<f32, u8>(&restored));
}

/// Both directions of a field too long for 32-bit sizes.
fn large<T: Sample>(n: usize, value: impl Fn(usize, &mut Random) -> T + Sync) {
    let context = context("").expect("the caller has found one");
    let total = context.total_mem().unwrap();
    let needed = n * T::TYPE.bytes() + max_stream_bytes::<T>(n as u64) as usize;
    assert!(needed + (4 << 30) < total, "the device has {total} bytes, the test needs {needed}");
    let bound = Bound::new(1e-4).unwrap();
    let mut values = vec![T::zeroed(); n];
    values.par_chunks_mut(1 << 20).enumerate().for_each(|(part, values)| {
        let mut random = Random(part as u64);
        values.iter_mut().enumerate().for_each(|(i, out)| *out = value((part << 20) + i, &mut random));
    });
    // in the global pool: gigabytes
    let stream = rayon::scope(|_| compress(&values, bound));
    let mut lab = Lab::new(&context, Capacity::of::<T>(n as u64));
    assert!(lab.stream_of(&values, bound) == stream);
    drop(values);
    let mut restored = vec![T::zeroed(); n];
    rayon::scope(|_| decompress(&stream, &mut restored)).unwrap();
    let (outcome, decoded) = lab.decompress::<T>(&stream, n, 0, n);
    assert_eq!(outcome.result(), Ok(stream.len() as u64));
    let equal = decoded.par_chunks(1 << 20).zip(restored.par_chunks(1 << 20));
    assert!(equal.all(|(a, b)| common::corpus::same(a, b)));
    // the last values alone
    let (outcome, decoded) = lab.decompress::<T>(&stream, n, n - 5000, 5000);
    assert_eq!(outcome.status, 0);
    assert!(common::corpus::same(&decoded, &restored[n - 5000..]));
}

#[test]
fn more_than_two_to_the_31_values() {
    let _alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(_context) = context("cuda_memory::more_than_two_to_the_31_values") else { return };
    large::<f32>((1 << 31) + 4097, |i, random| wave(i % (1 << 24), if i % 5 == 0 { 0.01 } else { 0.0 }, random));
}

#[test]
fn streams_beyond_4_gib() {
    let _alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(_context) = context("cuda_memory::streams_beyond_4_gib") else { return };
    large::<f32>((1 << 30) + (1 << 26) + 5, |_, random| f32::of_bits(random.word()));
    large::<f64>((1 << 29) + (1 << 25) + 5, |_, random| f64::of_bits(random.word()));
}

#[test]
fn contexts_that_come_and_go() {
    let _alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let (values, bound) = field::<f32>("noisy", 10_000, 1);
    let stream = compress(&values, bound);
    for life in 0..3 {
        // the primary context's, which the last of its users destroys, and another
        let Some(primary) = context("cuda_memory::contexts_that_come_and_go") else { return };
        let other = cudarc::driver::CudaContext::new_non_primary(0, 0).unwrap();
        for context in [primary, other] {
            assert!(Lab::new(&context, Capacity::of::<f32>(10_000)).stream_of(&values, bound) == stream, "life {life}");
            context.synchronize().unwrap();
        }
    }
}
