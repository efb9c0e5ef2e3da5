//! What compression bought.

use std::fmt;
use std::time::Duration;

/// Sums over a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub checkpoints: u64,
    /// Bytes of the fields and of their streams, over all checkpoints.
    pub field_bytes: u64,
    pub stream_bytes: u64,
    /// How long the solver stood still for checkpoints: compressing (on a GPU by events), and waiting for earlier ones to be copied.
    pub stall: Duration,
    /// The second part of that.
    pub waited: Duration,
    /// How long copying and writing went on, most of it while the solver ran.
    pub writing: Duration,
    /// Of that, how long the solver ran meanwhile.
    pub overlap: Duration,
    pub elapsed: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        writeln!(f, "checkpoints  {}", self.checkpoints)?;
        writeln!(
            f,
            "bytes        {:.1} MiB of fields in {:.1} MiB of streams: {:.2} times smaller",
            mib(self.field_bytes),
            mib(self.stream_bytes),
            self.field_bytes as f64 / self.stream_bytes.max(1) as f64
        )?;
        writeln!(
            f,
            "overlap      {:.3} s of {:.3} s of copying and writing went on while the solver ran",
            self.overlap.as_secs_f64(),
            self.writing.as_secs_f64()
        )?;
        write!(f, "stall        {:.4} s of {:.3} s", self.stall.as_secs_f64(), self.elapsed.as_secs_f64())
    }
}
