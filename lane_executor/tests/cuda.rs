//! The CUDA kernels, lane by lane.

mod suite;

use suite::device::Device;
use suite::fields::field;
use suite::{bound, encode_and_check};

const IMAGE: &str = "cuda";

suite!();

/// CUDA's words carry 17 bits of the epoch: each call zeroes some of those that it does not use, so that none outlives its tag.
#[test]
fn stale_words() {
    const CHUNKS: usize = 8;
    let mut device = Device::new(IMAGE, 1, CHUNKS);
    let long = field::<f32>("noisy", CHUNKS * 4096, 1);
    let later = 0x12345;
    device.age(0, |_| Some(later));
    for seed in 0..CHUNKS as u64 {
        encode_and_check(&mut device, "noisy", &long[..50], bound(1e-3), seed);
    }
    device.set_epoch(later);
    encode_and_check(&mut device, "noisy", &long, bound(1e-3), 1);
    // the last epochs before the wrap, and the first after it, whose tags a cleared word must not have
    let mut device = Device::new(IMAGE, 1, CHUNKS);
    device.set_epoch(0x1fffc);
    encode_and_check(&mut device, "noisy", &long[..50], bound(1e-3), 2);
    encode_and_check(&mut device, "noisy", &long, bound(1e-3), 1);
}

/// Sizes of earlier chunks looked at in several goes.
#[test]
fn cuda_look_f32() {
    suite::schedules::<f32>("cuda_look");
    suite::lists::<f32>("cuda_look");
}
#[test]
fn cuda_look_f64() {
    suite::schedules::<f64>("cuda_look");
}

/// With nobody else to wait for.
#[test]
fn barriers_of_a_chunk() {
    suite::barriers::<f32>(IMAGE, 7);
    suite::barriers::<f64>(IMAGE, 7);
}
