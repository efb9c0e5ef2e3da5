/// Device times of one field, as [`crate::cuda::measure`] or [`crate::hip::measure`] gives them: medians, by device events around
/// calls queued back to back, without copies from or to the host. A field that fits the device's cache is found there.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// Seconds to compress it.
    pub encode_seconds: f64,
    /// Seconds to decompress it.
    pub decode_seconds: f64,
    /// Seconds to copy it from device memory to device memory.
    pub copy_seconds: f64,
    /// Bytes of its stream.
    pub stream_bytes: u64,
}

/// Calls between two events: several where they are short.
pub(crate) fn calls_of(bytes: usize) -> usize {
    ((64 << 20) / bytes.max(1)).clamp(1, 100)
}

/// The middle of some times.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
