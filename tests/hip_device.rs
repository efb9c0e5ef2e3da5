//! On an AMD GPU: the bytes and values of the CPU coder. Written without one at hand; see `scripts/pack-gpu-tests.sh` for how to run it.

#![cfg(feature = "hip")]

#[path = "common/corpus.rs"]
#[allow(dead_code)]
mod corpus;

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use corpus::{KINDS, LENGTHS, Random, Sample, field, same};
use pfpl::hip::{Error, compress_host, decompress_host, device_count, measure};
use pfpl::{compress, decompress};

/// There is a device, or a counted line that this test is skipped. With `PFPL_REQUIRE_HIP=1` that is a failure.
fn device(test: &str) -> bool {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    let reason = match device_count() {
        Ok(0) => "HIP finds no device".to_owned(),
        Ok(_) => return true,
        Err(error) => error.to_string(),
    };
    assert!(std::env::var_os("PFPL_REQUIRE_HIP").is_none_or(|value| value != "1"), "{test}: {reason}");
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    // past the test harness's capture, in one piece
    std::io::stderr().write_all(format!("SKIPPED {count}: {test}: {reason}\n").as_bytes()).unwrap();
    false
}

fn corpus<T: Sample>() {
    for (number, kind) in KINDS.iter().enumerate() {
        for &n in LENGTHS.iter().chain(&[300_000, (1 << 20) + 1]) {
            let (values, bound) = field::<T>(kind, n, (number + 100 * n) as u64);
            let stream = compress(&values, bound);
            assert!(compress_host(0, &values, bound).unwrap() == stream, "stream differs: {} {kind} {n}", T::TYPE);
            let (mut expected, mut restored) = (vec![T::zeroed(); n], vec![T::zeroed(); n]);
            decompress(&stream, &mut expected).unwrap();
            assert_eq!(decompress_host(0, &stream, &mut restored), Ok(stream.len() as u64));
            assert!(same(&restored, &expected), "values differ: {} {kind} {n}", T::TYPE);
        }
    }
}

#[test]
fn corpus_f32() {
    if device("hip_device::corpus_f32") {
        corpus::<f32>();
    }
}

#[test]
fn corpus_f64() {
    if device("hip_device::corpus_f64") {
        corpus::<f64>();
    }
}

#[test]
fn hostile_streams() {
    if !device("hip_device::hostile_streams") {
        return;
    }
    let mut random = Random(5);
    for round in 0..1000 {
        let n = [100, 4096, 3 * 4096 + 5][round % 3];
        let (values, bound) = field::<f32>(KINDS[round % KINDS.len()], n, round as u64);
        let mut stream = compress(&values, bound);
        let at = random.below(stream.len());
        match round % 4 {
            0 => stream.truncate(at),
            1 => stream[at.min(40)] ^= 1 << random.below(8),
            _ => stream[at] ^= 1 << random.below(8),
        }
        let (mut expected, mut restored) = (vec![0f32; n], vec![0f32; n]);
        match (decompress(&stream, &mut expected), decompress_host(0, &stream, &mut restored)) {
            (Ok(length), Ok(consumed)) => {
                assert_eq!(length as u64, consumed);
                assert!(same(&restored, &expected));
            }
            (Err(error), Err(Error::Refused(refusal))) => {
                assert_eq!(refusal.0.status(), Some(error.status()));
                assert_eq!(refusal.0.chunk().map(u64::from), error.chunk());
            }
            (ours, theirs) => panic!("CPU {ours:?}, device {theirs:?}"),
        }
    }
}

#[test]
fn figures() {
    if !device("hip_device::figures") {
        return;
    }
    let mut random = Random(1);
    let values: Vec<f32> = (0..1 << 25).map(|i| corpus::wave(i, 0.01, &mut random)).collect();
    let figures = measure(0, &values, pfpl::Bound::new(1e-4).unwrap(), 15).unwrap();
    let rate = |seconds: f64| (4 << 25) as f64 / seconds / 1e9;
    let (encode, decode, copy) = (rate(figures.encode_seconds), rate(figures.decode_seconds), rate(figures.copy_seconds));
    println!("field A, 128 MiB, 1e-4: encode {encode:.0} GB/s, decode {decode:.0} GB/s, copy {copy:.0} GB/s");
    assert_eq!(figures.stream_bytes, compress(&values, pfpl::Bound::new(1e-4).unwrap()).len() as u64);
}
