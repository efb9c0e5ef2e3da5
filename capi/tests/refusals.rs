//! What a caller hears of calls that cannot succeed: all of it, and no abort.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CStr;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use pfpl_capi::pfpl_status::*;
use pfpl_capi::*;

/// Refuses what is larger than this.
static LARGEST: AtomicUsize = AtomicUsize::new(usize::MAX);

struct Limited;

// SAFETY: the system's allocator, or nothing
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise
        if layout.size() > LARGEST.load(Ordering::Relaxed) { null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

#[test]
fn no_memory_is_a_status() {
    let field = vec![1.0f32; 1 << 20];
    let (mut stream, mut bytes) = (null_mut(), 0);
    let mut compress = |n| {
        // SAFETY: the field has as many values, or n is refused
        unsafe { pfpl_compress(4, field.as_ptr().cast(), n, 1e-3, &raw mut stream, &raw mut bytes, null()) }
    };
    assert_eq!(compress(u64::MAX / 2), PFPL_INVALID_ARGUMENT);
    LARGEST.store(1 << 21, Ordering::Relaxed);
    assert_eq!(compress(1 << 20), PFPL_OUT_OF_RESOURCES);
    LARGEST.store(usize::MAX, Ordering::Relaxed);
    assert_eq!(compress(1 << 20), PFPL_OK);
    assert!(bytes < 1 << 20 && stream.addr() % 16 == 0);
    let mut restored = vec![0.0f32; 1 << 20];
    // SAFETY: buffers of these sizes; the stream is the library's
    unsafe {
        assert_eq!(pfpl_decompress(4, stream, bytes, restored.as_mut_ptr().cast(), 1 << 20, null_mut(), null_mut(), null()), PFPL_OK);
        pfpl_free(stream, bytes);
    }
    assert!(restored.iter().all(|x| (x - 1.0).abs() <= 1e-3));
}

#[test]
fn lengths_within_the_buffers_are_refused() {
    let mut stream = [0u64; 4000];
    let mut field = [1.0f64; 64];
    let (stream, field) = (&raw mut stream, &raw mut field);
    let (in_stream, in_field) = (stream.cast::<u64>(), field.cast::<u64>());
    let mut length = 0;
    let mut compress = |bytes: Option<*mut u64>| {
        let bytes = bytes.unwrap_or(&raw mut length);
        // SAFETY: buffers of these sizes
        unsafe { pfpl_compress_into(8, field.cast(), 64, 1e-3, stream.cast(), 32_000, bytes, null()) }
    };
    assert_eq!(
        [compress(Some(in_stream)), compress(Some(in_field)), compress(None)],
        [PFPL_INVALID_ARGUMENT, PFPL_INVALID_ARGUMENT, PFPL_OK]
    );
    for (bytes, damage) in [(in_stream, null_mut()), (in_field, null_mut()), (null_mut(), in_field)] {
        // SAFETY: as before
        let status = unsafe { pfpl_decompress(8, stream.cast(), 32_000, field.cast(), 64, bytes, damage.cast(), null()) };
        assert_eq!(status, PFPL_INVALID_ARGUMENT);
    }
    // SAFETY: as before
    assert_eq!(unsafe { pfpl_decompress(8, stream.cast(), 32_000, field.cast(), 64, null_mut(), null_mut(), null()) }, PFPL_OK);
    // SAFETY: as before
    let status = unsafe { pfpl_decompress_range(8, stream.cast(), 32_000, 0, field.cast(), 64, in_field.cast(), null()) };
    assert_eq!(status, PFPL_INVALID_ARGUMENT);
}

#[test]
fn damage_is_written_whatever_the_status() {
    let (mut field, stream) = ([0.0f32; 4], [0u8; 64]);
    for (element, bytes, n) in [(4, 64, 4), (7, 64, 4), (4, 64, u64::MAX), (4, u64::MAX, 4)] {
        let mut damage = pfpl_damage { chunk: 1, offset: 2 };
        let (stream, field, damage_at) = (stream.as_ptr().cast(), field.as_mut_ptr().cast(), &raw mut damage);
        // SAFETY: sizes that are not the buffers' are refused
        assert_ne!(unsafe { pfpl_decompress(element, stream, bytes, field, n, null_mut(), damage_at, null()) }, PFPL_OK);
        assert_eq!((damage.chunk, damage.offset), (u64::MAX, u64::MAX));
        damage.chunk = 1;
        // SAFETY: as before
        assert_ne!(unsafe { pfpl_decompress_range(element, stream, bytes, 0, field, n, &raw mut damage, null()) }, PFPL_OK);
        assert_eq!(damage.chunk, u64::MAX);
    }
}

#[test]
fn every_plan_that_is_not_made_says_why() {
    let capacity = pfpl_capacity_of(4, 1000);
    let mut plan = null_mut();
    for (backend, at) in [(0, &raw mut plan), (3, &raw mut plan), (1, null_mut()), (2, null_mut())] {
        let mut message = [1; 200];
        // SAFETY: the message has this length, nothing else is looked at
        let status = unsafe { pfpl_plan_new(backend, null_mut(), 0, null_mut(), capacity, at, message.as_mut_ptr(), 200) };
        assert_eq!(status, PFPL_INVALID_ARGUMENT);
        let message = message.map(|byte| byte as u8);
        let message = CStr::from_bytes_until_nul(&message).unwrap().to_str().unwrap();
        assert!(message.contains("backend"), "{message}");
    }
    let mut message = [1; 12];
    // SAFETY: as before
    unsafe { pfpl_plan_new(0, null_mut(), 0, null_mut(), capacity, &raw mut plan, message.as_mut_ptr(), 10) };
    assert_eq!(message[9..], [0, 1, 1]);
}
