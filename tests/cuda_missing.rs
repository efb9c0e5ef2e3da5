//! Without a driver the CUDA backend says so, and the CPU coder works.

#![cfg(feature = "cuda")]

use pfpl::cuda::raw::{Capacity, Plan};
use pfpl::cuda::{Error, compress_host, context, decompress_host};
use pfpl::{Bound, compress};

#[test]
fn a_missing_driver_is_an_error() {
    // SAFETY: nothing to keep alive
    let raw = unsafe { Plan::new(std::ptr::null_mut(), std::ptr::null_mut(), Capacity::default()) }.map(|_| ());
    let bound = Bound::new(1e-3).unwrap();
    let stream = compress(&[1.0f32; 5], bound);
    let Err(Error::NoDriver { .. }) = raw else {
        // a driver is there, with or without a context or a device
        assert!(!matches!(context(0), Err(Error::NoDriver { .. })));
        return;
    };
    let verdicts = [
        raw.unwrap_err(),
        context(0).unwrap_err(),
        compress_host(0, &[1.0f32; 5], bound).unwrap_err(),
        decompress_host(0, &stream, &mut [0f32; 5]).unwrap_err(),
    ];
    for verdict in verdicts {
        let message = verdict.to_string();
        assert!(message.starts_with("no driver: ") && message.contains("cuda"), "{message}");
    }
}
