//! What the AMD backend asks of HIP, seen by a runtime that only logs.

#![cfg(all(feature = "hip", target_os = "linux"))]

mod common;

use std::ffi::{CStr, c_int, c_void};

use common::fake_driver::Fake;
use pfpl::hip::{Capacity, Decode, Encode, Error, Fault, Plan, compress_host, decompress_host, device_count, measure};
use pfpl::{Bound, ElementType};

fn fake() -> Fake {
    let fake = Fake::take("hip.c", "libamdhip64.so.7");
    for (name, value) in
        [("fake_device", 0), ("fake_fail_allocation", 0), ("fake_capturing", 0), ("fake_pools", 1), ("fake_fail_compile", 0)]
    {
        fake.set::<c_int>(name, value);
    }
    fake.set::<c_int>("fake_warp", 32);
    fake.set("fake_architecture", c"gfx90a:sramecc+:xnack-".as_ptr());
    fake
}

const STREAM: *mut c_void = 0x77 as *mut c_void;

fn plan_on(device: i32, capacity: Capacity) -> Result<Plan, Error> {
    // SAFETY: the fake runtime takes any handles
    unsafe { Plan::new(device, STREAM, capacity) }
}

fn encode(element: ElementType, number: u64, n: u64) -> Encode {
    let bound = Bound::new(1e-3).unwrap();
    let outcome = (1 << 44) + 16 * number;
    Encode { element, field: (1 << 40) + (number << 20), n, bound, stream: (1 << 42) + (number << 20), capacity: 1 << 20, outcome }
}

#[test]
fn a_call_is_one_launch() {
    let fake = fake();
    // a device of no other test, so that its kernels are loaded here
    let mut plan = plan_on(21, Capacity::of::<f32>(1 << 20)).unwrap();
    let log = fake.log();
    assert_eq!(log[..3], ["device 21", "load ELF\u{2}", "device 0"], "{log:?}");
    assert_eq!(log[3..], ["device 21", "allocate 6160 stream 0x77", "clear 6160 stream 0x77", "device 0"]);
    // SAFETY: the fake runtime reads no device memory
    unsafe { plan.compress(STREAM, &encode(ElementType::F32, 0, 5 * 4096)) }.unwrap();
    let launch = "launch pfpl_encode_f32 5x1x1 of 256x1x1 shared 0 stream 0x77 arguments 4000";
    assert_eq!(fake.log(), ["device 21", launch, "device 0"]);
    let word = |at: usize| fake.word("fake_arguments", at);
    assert_eq!((word(0), word(8)), (plan.state(), 0));
    // field capacity and fields, chunks and their capacity
    assert_eq!((word(16), word(24)), (1 << 32 | 1, 256 << 32 | 5));
    assert_eq!([32, 40, 48, 56, 64].map(word), [1 << 40, 1 << 42, 5 * 4096, 1 << 20, 1 << 44]);
    drop(plan);
    assert_eq!(fake.log(), ["device 21", "free stream 0x77", "device 0"]);
}

#[test]
fn lists_take_few_launches() {
    let fake = fake();
    fake.set::<c_int>("fake_device", 1);
    let mut plan = plan_on(1, Capacity { fields: 200, chunks: 1000 }).unwrap();
    fake.log();
    let fields: Vec<_> = (0..130).map(|i| encode(if i % 2 == 0 { ElementType::F64 } else { ElementType::F32 }, i, 3000)).collect();
    // SAFETY: the fake runtime reads no device memory
    unsafe { plan.compress_many(STREAM, &fields) }.unwrap();
    let log: Vec<_> = fake.log().iter().map(|line| line.split(" of").next().unwrap().to_owned()).collect();
    let expected =
        ["launch pfpl_encode_f32 30x1x1", "launch pfpl_encode_f32 3x1x1", "launch pfpl_encode_f64 30x1x1", "launch pfpl_encode_f64 6x1x1"];
    assert_eq!(log, expected);
    // the last launch: 3 fields of 2 chunks
    assert_eq!(fake.word("fake_arguments", 16), 3 << 32 | 200);
    assert_eq!([32, 96, 160, 224].map(|at| fake.word("fake_arguments", at)), [fields[124].field, fields[126].field, fields[128].field, 0]);
    assert_eq!([88, 152, 216].map(|at| fake.word("fake_arguments", at)), [0, 2, 4]);
    let range =
        Decode { element: ElementType::F32, stream: 1 << 42, bytes: 1 << 20, n: 50_000, field: 1 << 40, first: 4095, count: 2, outcome: 0 };
    // SAFETY: as above
    unsafe { plan.decompress(STREAM, &range) }.unwrap();
    assert!(fake.log()[0].starts_with("launch pfpl_decode_f32 2x1x1"));
    // SAFETY: as above
    let refused = unsafe { plan.decompress_many(STREAM, &[range, range]) };
    assert_eq!(refused, Err(Error::Argument { index: 1, fault: Fault::Overlap }));
    assert_eq!(fake.log(), [""; 0]);
}

#[test]
fn a_prepared_list_is_one_launch_a_type() {
    let fake = fake();
    fake.set::<c_int>("fake_device", 1);
    let fields: Vec<_> = (0..300u64).map(|i| encode(ElementType::F32, i, 3000)).collect();
    let mut plan = plan_on(1, Capacity { fields: 300, chunks: 300 }).unwrap();
    // SAFETY: the fake runtime reads no device memory
    let mut list = unsafe { plan.prepare_compress(STREAM, &fields) }.unwrap();
    fake.log();
    // SAFETY: as above
    unsafe { plan.compress_prepared(STREAM, &mut list) }.unwrap();
    assert_eq!(fake.log(), ["launch pfpl_encode_f32 30x1x1 of 256x1x1 shared 0 stream 0x77 arguments 4000"]);
    // SAFETY: the fake runtime's memory is the host's
    let last = unsafe { (fake.word("fake_arguments", 8) as *const u64).add(8 * 299).read() };
    assert_eq!((last, fake.word("fake_arguments", 16), fake.word("fake_arguments", 32)), (fields[299].field, 300 << 32 | 300, 0));
}

#[test]
fn other_architectures_are_compiled() {
    let fake = fake();
    let compiled = |device, architecture: &'static CStr, warp| {
        fake.set("fake_architecture", architecture.as_ptr());
        fake.set::<c_int>("fake_warp", warp);
        let plan = plan_on(device, Capacity::default());
        (plan.map(|_| ()), fake.log())
    };
    let (plan, log) = compiled(10, c"gfx1030", 32);
    plan.unwrap();
    let options = "-std=c++17 -O3 -ffp-contract=off";
    let expected = [
        "device 10",
        "create pfpl.hip with kernels",
        &format!("compile --offload-arch=gfx1030 -DPFPL_WAVE=32 {options} -mcumode -mno-wavefrontsize64"),
        "destroy 0x20",
        "load code",
    ];
    assert_eq!(log[..5], expected);
    let (plan, log) = compiled(11, c"gfx908:sramecc+", 64);
    plan.unwrap();
    assert_eq!(log[2], format!("compile --offload-arch=gfx908 -DPFPL_WAVE=64 {options}"));
    fake.set::<c_int>("fake_fail_compile", 1);
    let (plan, log) = compiled(12, c"gfx1200", 32);
    let message = plan.unwrap_err().to_string();
    let expected = "the crate has kernels for gfx90a, gfx942 and gfx1100; compiling them for gfx1200, wave width 32, failed: \
                    hiprtcCompileProgram failed with 6: compilation: no such";
    assert_eq!(message, expected);
    assert_eq!(log.last().unwrap(), "device 0");
}

#[test]
fn errors_leave_the_plan_and_the_device() {
    let fake = fake();
    assert_eq!(device_count(), Ok(2));
    let mut plan = plan_on(1, Capacity::of::<f32>(4096)).unwrap();
    fake.set::<c_int>("fake_fail_allocation", 1);
    let failed = plan.reserve(Capacity::of::<f32>(1 << 30));
    assert_eq!(failed, Err(Error::Driver { call: "hipMallocAsync", code: 2, message: "out of memory".to_owned() }));
    fake.set::<c_int>("fake_fail_allocation", 0);
    fake.set::<c_int>("fake_capturing", 1);
    assert_eq!(plan.reserve(Capacity::of::<f32>(1 << 30)), Err(Error::Capturing));
    fake.set::<c_int>("fake_capturing", 0);
    fake.log();
    // SAFETY: the fake runtime reads no device memory
    unsafe { plan.compress(STREAM, &encode(ElementType::F64, 0, 2048)) }.unwrap();
    assert_eq!(fake.log().len(), 3);
    // no memory pools: another device, for the choice is kept with its kernels
    fake.set::<c_int>("fake_pools", 0);
    drop(plan_on(5, Capacity::default()).unwrap());
    let log = fake.log();
    assert_eq!(log[log.len() - 6..], ["allocate 4112 now", "clear 4112 stream 0x77", "device 0", "device 5", "free now", "device 0"]);
}

#[test]
fn host_fields_leave_no_memory_behind() {
    let fake = fake();
    // the fake kernels do nothing, so the outcome is the fill of fresh memory
    let refused = compress_host(0, &[1.0f32; 5000], Bound::new(1e-3).unwrap());
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    let count = |log: &[String], start: &str| log.iter().filter(|line| line.starts_with(start)).count();
    let log = fake.log();
    assert_eq!(["allocate", "free", "launch", "copy 20000"].map(|call| count(&log, call)), [5, 5, 1, 1], "{log:?}");
    // an outcome of zeros: an empty stream
    fake.set::<c_int>("fake_fill", 0);
    assert_eq!(compress_host(0, &[1.0f32; 5000], Bound::new(1e-3).unwrap()), Ok(vec![]));
    assert_eq!(decompress_host(0, &[7; 40], &mut [1.0f64; 50]), Ok(0));
    let log = fake.log();
    assert!(log.contains(&"launch pfpl_decode_f64 1x1x1 of 256x1x1 shared 0 stream (nil) arguments 4000".to_owned()), "{log:?}");
    let figures = measure(0, &[1.0f32; 1 << 20], Bound::new(1e-3).unwrap(), 3).unwrap();
    let seconds = [figures.encode_seconds, figures.decode_seconds, figures.copy_seconds];
    assert!(seconds.iter().all(|seconds| (seconds - 0.002 / 16.0).abs() < 1e-9), "{figures:?}");
    let log = fake.log();
    assert_eq!(["allocate", "free", "launch"].map(|call| count(&log, call)), [5, 5, 2 * 4 * 16]);
    fake.set::<c_int>("fake_fill", 0xAB);
}
