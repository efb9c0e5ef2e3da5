//! Plans and calls from C, on a driver that only logs: what reaches it is what the caller has said.

#![cfg(target_os = "linux")]

use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, without_provenance, without_provenance_mut};

#[path = "../../tests/common/fake_driver.rs"]
mod fake_driver;

use fake_driver::Fake;
use pfpl_capi::pfpl_status::*;
use pfpl_capi::*;

const CONTEXT: *mut c_void = without_provenance_mut(0x1000);
const STREAM: *mut c_void = without_provenance_mut(0x77);
const F32: u32 = pfpl_type::PFPL_F32 as u32;
const F64: u32 = pfpl_type::PFPL_F64 as u32;

fn fake() -> Fake {
    let fake = Fake::take(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fake_driver/cuda.c"), "libcuda.so.1");
    for (name, value) in [("fake_depth", 0), ("fake_fail_allocation", 0), ("fake_capturing", 0), ("fake_pools", 1), ("fake_major", 9)] {
        fake.set::<c_int>(name, value);
    }
    fake.set("fake_refused_image", c"none".as_ptr());
    fake
}

fn plan(capacity: pfpl_capacity) -> *mut pfpl_plan {
    let mut plan = null_mut();
    // SAFETY: the fake driver takes any handles
    let status = unsafe { pfpl_plan_new(1, CONTEXT, 0, STREAM, capacity, &raw mut plan, null_mut(), 0) };
    assert_eq!(status, PFPL_OK);
    plan
}

fn encode(element: u32, number: usize, n: u64) -> pfpl_encode {
    pfpl_encode {
        field: without_provenance((1 << 40) + (number << 20)),
        n,
        bound: 1e-3,
        stream: without_provenance_mut((1 << 42) + (number << 20)),
        capacity: 1 << 20,
        outcome: without_provenance_mut((1 << 44) + 16 * number),
        element,
        reserved: 0,
    }
}

fn decode(element: u32, number: usize, n: u64) -> pfpl_decode {
    let pfpl_encode { field, stream, capacity, outcome, .. } = encode(element, number, n);
    pfpl_decode {
        stream: stream.cast_const(),
        bytes: capacity,
        n,
        field: field.cast_mut(),
        first: 0,
        count: n,
        outcome,
        element,
        reserved: 0,
    }
}

fn launches(fake: &Fake) -> Vec<String> {
    fake.log().into_iter().filter(|line| line != "push 0x1000" && line != "pop").collect()
}

#[test]
fn calls_are_launches_in_stream_order() {
    let fake = fake();
    let plan = plan(pfpl_capacity { fields: 10, chunks: 1000 });
    fake.log();
    // SAFETY: the fake driver reads no device memory
    unsafe {
        assert_eq!(pfpl_plan_compress(plan, STREAM, &encode(F32, 0, 3 * 4096), 1), PFPL_OK);
        let log = launches(&fake);
        assert!(
            log.len() == 1 && log[0].starts_with("launch pfpl_encode_f32_small 3x1x1 of ") && log[0].ends_with("stream 0x77"),
            "{log:?}"
        );
        assert_eq!([0, 8, 16, 24, 32].map(|at| fake.word("fake_fields", at)), [1 << 40, 1 << 42, 3 * 4096, 1 << 20, 1 << 44]);

        // a mixed list: one launch a type
        let list = [encode(F32, 0, 5000), encode(F64, 1, 5000), encode(F32, 2, 10)];
        assert_eq!(pfpl_plan_compress(plan, STREAM, list.as_ptr(), 3), PFPL_OK);
        let log = launches(&fake);
        assert!(
            log.len() == 2 && log[0].starts_with("launch pfpl_encode_f32_63") && log[1].starts_with("launch pfpl_encode_f64_"),
            "{log:?}"
        );

        let range = pfpl_decode { first: 4000, count: 200, ..decode(F64, 0, 9000) };
        assert_eq!(pfpl_plan_decompress(plan, null_mut(), &raw const range, 1), PFPL_OK);
        let log = launches(&fake);
        assert!(
            log.len() == 1 && log[0].starts_with("launch pfpl_decode_f64_small 2x1x1 of ") && log[0].ends_with("stream (nil)"),
            "{log:?}"
        );

        assert_eq!(pfpl_plan_compress(plan, STREAM, std::ptr::null(), 0), PFPL_OK);
        assert!(launches(&fake).is_empty());
        pfpl_plan_free(plan);
    }
    assert_eq!(fake.get::<c_int>("fake_depth"), 0);
}

#[test]
fn what_makes_no_sense_launches_nothing() {
    let fake = fake();
    let plan = plan(pfpl_capacity_of(F32, 5 * 4096));
    fake.log();
    let good = encode(F32, 0, 5000);
    let off = |bytes: usize| without_provenance_mut(good.stream.addr() + bytes);
    let bad = [
        (pfpl_encode { field: without_provenance(good.field.addr() + 2), ..good }, PFPL_INVALID_ARGUMENT),
        (pfpl_encode { field: std::ptr::null(), ..good }, PFPL_INVALID_ARGUMENT),
        (pfpl_encode { stream: off(2), ..good }, PFPL_INVALID_ARGUMENT),
        (pfpl_encode { field: off(8), ..good }, PFPL_INVALID_ARGUMENT),
        (pfpl_encode { outcome: off(8).cast(), ..good }, PFPL_INVALID_ARGUMENT),
        (pfpl_encode { outcome: without_provenance_mut(good.outcome.addr() + 4), ..good }, PFPL_INVALID_ARGUMENT),
        (pfpl_encode { element: 5, ..good }, PFPL_INVALID_ARGUMENT),
        (pfpl_encode { n: u64::MAX, ..good }, PFPL_INVALID_ARGUMENT),
        (pfpl_encode { bound: f64::NAN, ..good }, PFPL_INVALID_BOUND),
        (pfpl_encode { n: 6 * 4096, ..good }, PFPL_PLAN_TOO_SMALL),
    ];
    // SAFETY: the fake driver reads no device memory
    unsafe {
        for (field, status) in bad {
            assert_eq!(pfpl_plan_compress(plan, STREAM, &raw const field, 1), status, "{field:?}");
        }
        assert_eq!(pfpl_plan_compress(plan, STREAM, [good, good].as_ptr(), 2), PFPL_INVALID_ARGUMENT);
        let range = pfpl_decode { first: 4000, count: 1001, ..decode(F32, 0, 5000) };
        assert_eq!(pfpl_plan_decompress(plan, STREAM, &raw const range, 1), PFPL_INVALID_ARGUMENT);
        assert!(launches(&fake).is_empty());

        // grown, it takes what was too much
        assert_eq!(pfpl_plan_reserve(plan, pfpl_capacity_of(F32, 6 * 4096)), PFPL_OK);
        assert_eq!(pfpl_plan_compress(plan, STREAM, &encode(F32, 0, 6 * 4096), 1), PFPL_OK);
        fake.set::<c_int>("fake_fail_allocation", 1);
        assert_eq!(pfpl_plan_reserve(plan, pfpl_capacity_of(F32, 1 << 30)), PFPL_DEVICE_ERROR);
        assert_eq!(pfpl_plan_compress(plan, STREAM, &encode(F32, 0, 6 * 4096), 1), PFPL_OK);
        pfpl_plan_free(plan);
    }
}
