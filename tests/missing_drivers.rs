//! Without a driver each backend says so, and the CPU coder works.

#[cfg(feature = "cuda")]
#[test]
fn without_cuda() {
    use pfpl::cuda::raw::{Capacity, Plan};
    use pfpl::cuda::{Error, compress_host, context, decompress_host};
    let bound = pfpl::Bound::new(1e-3).unwrap();
    let stream = pfpl::compress(&[1.0f32; 5], bound);
    // SAFETY: nothing to keep alive
    let raw = unsafe { Plan::new(std::ptr::null_mut(), std::ptr::null_mut(), Capacity::default()) }.map(drop);
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

#[cfg(feature = "hip")]
#[test]
fn without_hip() {
    use pfpl::hip::{Capacity, Error, Plan, compress_host, decompress_host, device_count};
    let bound = pfpl::Bound::new(1e-3).unwrap();
    let stream = pfpl::compress(&[1.0f32; 5], bound);
    let Err(missing @ Error::NoDriver { .. }) = device_count() else { return };
    let verdicts = [
        missing,
        // SAFETY: nothing to keep alive
        unsafe { Plan::new(0, std::ptr::null_mut(), Capacity::default()) }.map(drop).unwrap_err(),
        compress_host(0, &[1.0f32; 5], bound).unwrap_err(),
        decompress_host(0, &stream, &mut [0f32; 5]).unwrap_err(),
    ];
    for verdict in verdicts {
        let message = verdict.to_string();
        assert!(message.starts_with("no driver: ") && message.contains("/opt/rocm/lib/libamdhip64.so.6"), "{message}");
    }
}
