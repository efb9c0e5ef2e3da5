//! Peak memory beside the caller's buffers: at most 2 MiB a thread, whatever the field's size.
//!
//! One test, because the allocator counts for the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pfpl_host::internal::Codec;
use pfpl_host::{Bound, Element, Header, compress};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grown(by: usize) {
    PEAK.fetch_max(NOW.fetch_add(by, Relaxed) + by, Relaxed);
}

// SAFETY: all is the system allocator's; only sums are kept
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's promise
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's promise
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // both may exist for a while
        grown(size);
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that `call` had allocated at most at a time, beyond what there was before.
fn peak(call: impl FnOnce()) -> usize {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    call();
    PEAK.load(Relaxed) - before
}

fn check<T: Element>(field: &[T], threads: usize, within: impl Fn(&mut (dyn FnMut() + Send)) + Sync) {
    const LIMIT: usize = 2 << 20;
    let bound = Bound::new(1e-4).unwrap();
    let stream = compress(field, bound);
    let mut out = vec![0; stream.len()];
    let mut values = vec![T::zeroed(); field.len()];
    for codec in Codec::each() {
        for capacity in [stream.len(), stream.len() / 2, 0] {
            let used = peak(|| {
                within(&mut || assert_eq!(codec.compress_into(field, bound, &mut out[..capacity]).is_ok(), capacity > stream.len() / 2))
            });
            assert!(used <= threads * LIMIT, "{codec:?}, {} values, {threads} threads: {used} bytes to encode", field.len());
        }
        let used = peak(|| within(&mut || assert!(codec.decompress(&stream, &mut values).is_ok())));
        assert!(used <= threads * LIMIT, "{codec:?}, {} values, {threads} threads: {used} bytes to decode", field.len());
        let n = field.len();
        let used = peak(|| within(&mut || codec.decompress_range(&stream, 5, &mut values[5..n - 5]).unwrap()));
        assert!(used <= threads * LIMIT, "{used} bytes to decode a range");
        let used = peak(|| within(&mut || assert!(codec.estimate(field, bound, 100).ratio > 0.0)));
        assert!(used <= threads * LIMIT, "{used} bytes to estimate");
    }
}

#[test]
fn at_most_two_mebibytes_a_thread() {
    for n in [10_000, 4 << 20] {
        let f32s: Vec<f32> = (0..n).map(|i| (i as f32 * 1e-3).sin()).collect();
        let f64s: Vec<f64> = (0..n / 2).map(|i| (i as f64 * 1e-3).sin()).collect();
        check(&f32s, 1, |call| call());
        check(&f64s, 1, |call| call());
        #[cfg(feature = "rayon")]
        for threads in [2, 6] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            check(&f32s, threads, |call| pool.install(call));
            check(&f64s, threads, |call| pool.install(call));
        }
    }
    // a header that claims much allocates nothing for it
    let mut stream = [&b"PFW4"[..], &1f32.to_le_bytes(), &(1u64 << 44).to_le_bytes(), &(1u64 << 40).to_le_bytes()].concat();
    stream.extend((1u64 << 32).to_le_bytes());
    stream.resize(4096, 0);
    assert_eq!(Header::read(&stream).unwrap().n, 1 << 44);
    let used = peak(|| assert!(pfpl_host::decompress_range(&stream, 1 << 43, &mut [0f32; 10]).is_err()));
    assert!(used < 4096, "{used}");
}
