//! What the CUDA runtime asks of a driver, seen by one that only logs: one launch a call and nothing else, contexts left as they were,
//! borrowed handles never destroyed, everything in stream order.

#![cfg(all(feature = "cuda", target_os = "linux"))]

mod common;

use std::ffi::{CStr, c_int, c_void};

use common::fake_driver::Fake;
use pfpl::cuda::raw::{Capacity, Decode, Encode, Plan};
use pfpl::cuda::{Error, Fault};
use pfpl::{Bound, ElementType};

fn fake() -> Fake {
    let fake = Fake::take("cuda.c", "libcuda.so.1");
    let variables = [
        ("fake_depth", 0),
        ("fake_fail_allocation", 0),
        ("fake_capturing", 0),
        ("fake_pools", 1),
        ("fake_major", 9),
        ("fake_version", 12_020),
    ];
    for (name, value) in variables {
        fake.set::<c_int>(name, value);
    }
    refuse(&fake, c"none");
    fake
}

/// Has loading an image that begins so fail.
fn refuse(fake: &Fake, image: &'static CStr) {
    fake.set("fake_refused_image", image.as_ptr());
}

/// A plan on a context that is not current.
fn plan_in(context: usize, capacity: Capacity) -> Result<Plan, Error> {
    // SAFETY: the fake driver takes any handles
    unsafe { Plan::new(context as *mut c_void, STREAM, capacity) }
}

/// The word at this byte of the last launch's first parameter.
fn launched(fake: &Fake, at: usize) -> u32 {
    fake.word("fake_launch", at) as u32
}

/// The double word at this byte of the last launch's field of this number.
fn launched_field(fake: &Fake, number: usize, at: usize) -> u64 {
    fake.word("fake_fields", 64 * number + at)
}

const STREAM: *mut c_void = 0x77 as *mut c_void;
const OTHER: *mut c_void = 0x88 as *mut c_void;

fn encode(element: ElementType, number: u64, n: u64) -> Encode {
    let bound = Bound::new(1e-3).unwrap();
    let outcome = (1 << 44) + 16 * number;
    Encode { element, field: (1 << 40) + (number << 20), n, bound, stream: (1 << 42) + (number << 20), capacity: 1 << 20, outcome }
}

fn decode(element: ElementType, number: u64, n: u64) -> Decode {
    let Encode { field, stream, capacity, outcome, .. } = encode(element, number, n);
    Decode { element, stream, bytes: capacity, n, field, first: 0, count: n, outcome }
}

#[test]
fn a_call_is_one_launch() {
    let fake = fake();
    let mut plan = plan_in(0x1000, Capacity::of::<f32>(1 << 20)).unwrap();
    fake.log();
    // SAFETY: the fake driver reads no device memory
    unsafe {
        plan.compress(STREAM, &encode(ElementType::F32, 0, 5 * 4096)).unwrap();
        let log = fake.log();
        assert_eq!(log.len(), 3, "{log:?}");
        assert!(log[0] == "push 0x1000" && log[1].starts_with("launch pfpl_encode_f32_small 5x1x1 of ") && log[2] == "pop", "{log:?}");
        assert!(log[1].ends_with("stream 0x77"), "{log:?}");
        assert_eq!(fake.word("fake_launch", 0), plan.state());
        assert_eq!([16, 20, 24, 28].map(|at| launched(&fake, at)), [1, 1, 5, 256]);
        assert_eq!([0, 8, 16, 24, 32].map(|at| launched_field(&fake, 0, at)), [1 << 40, 1 << 42, 5 * 4096, 1 << 20, 1 << 44]);

        // as many blocks as run at once, and at least one
        plan.compress(OTHER, &encode(ElementType::F64, 0, 1 << 19)).unwrap();
        plan.decompress(OTHER, &decode(ElementType::F32, 0, 0)).unwrap();
        plan.decompress(OTHER, &decode(ElementType::F64, 0, 1)).unwrap();
        plan.decompress(OTHER, &decode(ElementType::F64, 0, 1 << 19)).unwrap();
        let launches: Vec<_> = fake.log().into_iter().filter(|line| line.starts_with("launch")).collect();
        let starts = ["encode_f64_1 30x1x1", "decode_f32_small 1x1x1", "decode_f64_small 1x1x1", "decode_f64_1 30x1x1"];
        assert_eq!(launches.len(), starts.len());
        for (launch, start) in launches.iter().zip(starts) {
            assert!(launch.starts_with(&format!("launch pfpl_{start}")) && launch.ends_with("stream 0x88"), "{launch}");
        }
    }
    assert_eq!(fake.get::<c_int>("fake_depth"), 0);
}

#[test]
fn the_current_context_stays() {
    let fake = fake();
    let mut plan = plan_in(0x1000, Capacity::of::<f32>(4096)).unwrap();
    fake.set("fake_stack", 0x2000 as *mut c_void);
    fake.set::<c_int>("fake_depth", 1);
    fake.log();
    let launch = |plan: &mut Plan| {
        // SAFETY: the fake driver reads no device memory
        unsafe { plan.compress(STREAM, &encode(ElementType::F32, 0, 7)).unwrap() };
        fake.log().into_iter().filter(|line| !line.starts_with("launch")).collect::<Vec<_>>()
    };
    assert_eq!(launch(&mut plan), ["push 0x1000", "pop"]);
    // one that is current already needs neither
    fake.set("fake_stack", 0x1000 as *mut c_void);
    assert_eq!(launch(&mut plan), [""; 0]);
    assert_eq!(fake.get::<c_int>("fake_depth"), 1);
}

#[test]
fn state_is_cleared_and_freed_in_stream_order() {
    let fake = fake();
    let mut plan = plan_in(0x3000, Capacity::of::<f32>(4096 * 10)).unwrap();
    let log = fake.log();
    let state =
        |log: &[String]| log.iter().filter(|line| !line.starts_with("shared") && !line.starts_with("load")).cloned().collect::<Vec<_>>();
    assert_eq!(state(&log)[2..], ["push 0x3000", "allocate 4192 stream 0x77", "clear 4192 stream 0x77", "pop"], "{log:?}");
    // SAFETY: the fake driver's memory is the host's
    assert!(unsafe { std::slice::from_raw_parts(plan.state() as *const u8, 4192) }.iter().all(|&byte| byte == 0));

    plan.reserve(Capacity::of::<f64>(2048 * 10)).unwrap();
    assert_eq!(fake.log(), [""; 0]);
    // SAFETY: the fake driver reads no device memory
    unsafe { plan.compress(OTHER, &encode(ElementType::F32, 0, 7)).unwrap() };
    fake.log();
    plan.reserve(Capacity { fields: 1000, chunks: 11 }).unwrap();
    let bytes = 4096 + 1000 * 16 + 11 * 8;
    let grown = [format!("allocate {bytes} stream 0x88"), format!("clear {bytes} stream 0x88")];
    assert_eq!(fake.log(), ["push 0x3000", &grown[0], &grown[1], "pop", "push 0x3000", "free stream 0x88", "pop"]);
    drop(plan);
    assert_eq!(fake.log(), ["push 0x3000", "free stream 0x88", "pop"]);
}

#[test]
fn a_failed_reserve_leaves_the_plan() {
    let fake = fake();
    let mut plan = plan_in(0x1000, Capacity::of::<f32>(4096)).unwrap();
    let (state, capacity) = (plan.state(), plan.capacity());
    fake.set::<c_int>("fake_fail_allocation", 1);
    let failed = plan.reserve(Capacity::of::<f32>(1 << 30)).unwrap_err();
    assert_eq!(failed, Error::Driver { call: "cuMemAllocAsync", code: 2, message: "out of memory".to_owned() });
    fake.set::<c_int>("fake_capturing", 1);
    assert_eq!(plan.reserve(Capacity::of::<f32>(1 << 30)), Err(Error::Capturing));
    assert_eq!(plan_in(0x1000, Capacity::default()).unwrap_err(), Error::Capturing);
    assert_eq!((plan.state(), plan.capacity(), fake.get::<c_int>("fake_depth")), (state, capacity, 0));
    fake.log();
    // SAFETY: the fake driver reads no device memory
    unsafe { plan.compress(STREAM, &encode(ElementType::F32, 0, 4096)).unwrap() };
    assert_eq!(fake.log().len(), 3);
    // a free is no part of a graph
    drop(plan);
    assert_eq!(fake.log(), ["push 0x1000", "pop"]);
}

#[test]
fn refused_calls_launch_nothing() {
    let fake = fake();
    let mut plan = plan_in(0x1000, Capacity::of::<f32>(4096)).unwrap();
    fake.log();
    let good = encode(ElementType::F32, 0, 4096);
    let mut refused = |call| {
        // SAFETY: the fake driver reads no device memory
        unsafe { plan.compress(STREAM, &call).unwrap_err() }
    };
    let too_small = Error::TooSmall { needed: Capacity { fields: 1, chunks: 2 }, reserved: Capacity { fields: 1, chunks: 1 } };
    assert_eq!(refused(Encode { n: 4097, ..good }), too_small);
    for (call, fault) in [
        (Encode { field: good.field + 2, ..good }, Fault::Field),
        (Encode { stream: good.stream + 2, ..good }, Fault::Stream),
        (Encode { outcome: good.outcome + 4, ..good }, Fault::Outcome),
        (Encode { stream: good.field + 16380, ..good }, Fault::Overlap),
    ] {
        assert_eq!(refused(call), Error::Argument { index: 0, fault });
    }
    // SAFETY: the fake driver reads no device memory
    let result = unsafe { plan.compress_many(STREAM, &[good, good]) };
    assert_eq!(result, Err(Error::Argument { index: 1, fault: Fault::Overlap }));
    // SAFETY: as above
    let result = unsafe { plan.decompress_many(STREAM, &[decode(ElementType::F32, 0, 1), decode(ElementType::F64, 1, 1)]) };
    assert!(matches!(result, Err(Error::TooSmall { .. })));
    assert_eq!(fake.log(), [""; 0]);
}

#[test]
fn lists_take_few_launches() {
    let fake = fake();
    let fields: Vec<_> = (0..1071u64).map(|i| encode(if i % 22 == 11 { ElementType::F64 } else { ElementType::F32 }, i, 3000)).collect();
    let streams: Vec<_> = (0..513u64).map(|i| decode(ElementType::F32, i, 4097)).collect();
    let mut plan = plan_in(0x1000, Capacity { fields: 1100, chunks: 1200 }).unwrap();
    fake.log();
    let launches = |fake: &Fake| {
        let log = fake.log();
        assert!(log.first().unwrap() == "push 0x1000" && log.last().unwrap() == "pop");
        log[1..log.len() - 1].iter().map(|line| line.split(" of").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // SAFETY: the fake driver reads no device memory
    unsafe { plan.compress_many(STREAM, &fields).unwrap() };
    let expected = ["launch pfpl_encode_f32_511 30x1x1", "launch pfpl_encode_f32_511 30x1x1", "launch pfpl_encode_f64_63 30x1x1"];
    assert_eq!(launches(&fake), expected);
    assert_eq!([16, 20, 24].map(|at| launched(&fake, at)), [1100, 49, 98]);
    assert_eq!((launched_field(&fake, 48, 0), launched_field(&fake, 48, 32)), (fields[1067].field, fields[1067].outcome));
    // first chunk
    assert_eq!(launched_field(&fake, 48, 56), 96);
    // SAFETY: as above
    unsafe { plan.decompress_many(STREAM, &streams[..1]).unwrap() };
    assert_eq!(launches(&fake), ["launch pfpl_decode_f32_small 2x1x1"]);
    // SAFETY: as above
    unsafe { plan.decompress_many(STREAM, &streams).unwrap() };
    assert_eq!(launches(&fake), ["launch pfpl_decode_f32_511 30x1x1", "launch pfpl_decode_f32_63 4x1x1"]);
    assert_eq!((launched_field(&fake, 1, 0), launched_field(&fake, 1, 56)), (streams[512].field, 2));
    // SAFETY: as above
    unsafe { plan.decompress_many(STREAM, &[]).unwrap() };
    assert_eq!(launches(&fake), [""; 0]);
}

#[test]
fn a_prepared_list_is_one_launch_a_type() {
    let fake = fake();
    let fields: Vec<_> = (0..3000u64).map(|i| encode(if i % 3 == 0 { ElementType::F64 } else { ElementType::F32 }, i, 3000)).collect();
    let mut plan = plan_in(0x1000, Capacity { fields: 3000, chunks: 4000 }).unwrap();
    fake.log();
    // SAFETY: the fake driver reads no device memory
    let mut list = unsafe { plan.prepare_compress(OTHER, &fields) }.unwrap();
    assert_eq!(list.capacity(), Capacity { fields: 3000, chunks: 4000 });
    let bytes = 3000 * 64;
    let expected = [format!("allocate {bytes} stream 0x88"), format!("upload {bytes} stream 0x88")];
    assert_eq!(fake.log(), ["push 0x1000", &expected[0], &expected[1], "wait stream 0x88", "pop"]);
    for _ in 0..2 {
        // SAFETY: as above
        unsafe { plan.compress_prepared(STREAM, &mut list) }.unwrap();
        let log = fake.log();
        assert_eq!(log.len(), 4, "{log:?}");
        assert!(
            log[1].starts_with("launch pfpl_encode_f32_63 30x1x1") && log[2].starts_with("launch pfpl_encode_f64_63 30x1x1"),
            "{log:?}"
        );
    }
    // the second launch's fields begin after the first one's
    assert_eq!([16, 20, 24, 28].map(|at| launched(&fake, at)), [3000, 1000, 2000, 4000]);
    // SAFETY: the fake driver's memory is the host's
    let first = unsafe { (fake.word("fake_launch", 8) as *const u64).sub(8 * 2000).read() };
    assert_eq!(first, fields[1].field);
    plan.reserve(Capacity::of::<f32>(1)).unwrap();
    let mut small = plan_in(0x1000, Capacity { fields: 2999, chunks: 4000 }).unwrap();
    // SAFETY: as above
    assert!(matches!(unsafe { small.compress_prepared(STREAM, &mut list) }, Err(Error::TooSmall { .. })));
    fake.log();
    drop(list);
    assert_eq!(fake.log(), ["push 0x1000", "free stream 0x77", "pop"]);
    // SAFETY: as above
    let refused = unsafe { plan.prepare_compress(STREAM, &[fields[0], fields[0]]) }.unwrap_err();
    assert_eq!(refused, Error::Argument { index: 1, fault: Fault::Overlap });
    // SAFETY: as above
    let mut empty = unsafe { plan.prepare_decompress(STREAM, &[]) }.unwrap();
    fake.log();
    // SAFETY: as above
    unsafe { plan.decompress_prepared(STREAM, &mut empty) }.unwrap();
    assert_eq!(fake.log(), ["push 0x1000", "pop"]);
}

#[test]
fn images() {
    let fake = fake();
    let images = |context| {
        let plan = plan_in(context, Capacity::default());
        let log = fake.log();
        (plan, log.into_iter().filter(|line| line.starts_with("load") || line.starts_with("unload")).collect::<Vec<_>>())
    };
    assert_eq!(images(0x9000).1, ["load 90"]);
    // kept for the context
    assert_eq!(images(0x9000).1, [""; 0]);
    refuse(&fake, c"90");
    assert_eq!(images(0xa000).1, ["load 90", "load 80"]);
    for (major, context, expected) in [(8, 0xb000, "load 80"), (12, 0xc000, "load 80"), (7, 0xd000, "load 70")] {
        fake.set::<c_int>("fake_major", major);
        assert_eq!(images(context).1, [expected]);
    }
    fake.set::<c_int>("fake_major", 6);
    let (plan, loaded) = images(0xe000);
    assert_eq!(plan.unwrap_err().to_string(), "the device has compute capability 6.0; 7.0 and later run the kernels");
    assert_eq!(loaded, [""; 0]);
    // no context at all
    assert!(matches!(images(0).0, Err(Error::Unsupported { .. })));
}

/// Launches begin early where the image waits for what comes before, and the driver captures such launches.
#[test]
fn early_launches() {
    let fake = fake();
    for (version, refused, context, expected) in [
        (12_020, c"none", 0x1_1000, "launch pfpl_"),
        (12_030, c"none", 0x1_2000, "launch early pfpl_"),
        (13_000, c"90", 0x1_3000, "launch pfpl_"),
    ] {
        fake.set::<c_int>("fake_version", version);
        refuse(&fake, refused);
        let mut plan = plan_in(context, Capacity::of::<f32>(4096)).unwrap();
        fake.log();
        // SAFETY: the fake driver reads no device memory
        unsafe {
            plan.compress(STREAM, &encode(ElementType::F32, 0, 4096)).unwrap();
            plan.decompress(STREAM, &decode(ElementType::F32, 0, 4096)).unwrap();
        }
        let launches: Vec<_> = fake.log().into_iter().filter(|line| line.starts_with("launch")).collect();
        assert!(launches.len() == 2 && launches.iter().all(|line| line.starts_with(expected)), "{launches:?}");
        assert!(launches.iter().all(|line| line.ends_with("stream 0x77")) && launches[0].contains(" 1x1x1 of "), "{launches:?}");
        assert_eq!([16, 20, 24, 28].map(|at| launched(&fake, at)), [1, 1, 1, 1]);
    }
}

#[test]
fn without_memory_pools() {
    let fake = fake();
    fake.set::<c_int>("fake_pools", 0);
    let plan = plan_in(0xf000, Capacity::default()).unwrap();
    assert!(fake.log().contains(&"allocate 4112 now".to_owned()));
    drop(plan);
    assert_eq!(fake.log(), ["push 0xf000", "free now", "pop"]);
}

#[test]
fn plans_move_between_threads() {
    let _fake = fake();
    let mut plan = plan_in(0x1000, Capacity::of::<f32>(4096)).unwrap();
    std::thread::spawn(move || {
        // SAFETY: the fake driver reads no device memory
        unsafe { plan.compress(STREAM, &encode(ElementType::F32, 0, 7)).unwrap() };
    })
    .join()
    .unwrap();
}
