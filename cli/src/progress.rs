//! A progress bar on a terminal for work over a second; nothing otherwise.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub struct Progress {
    begun: Instant,
    what: &'static str,
    total: u64,
    done: AtomicU64,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    const QUIET: Duration = Duration::from_secs(1);

    /// `total` in bytes.
    pub fn new(what: &'static str, total: u64) -> Self {
        Self { begun: Instant::now(), what, total, done: AtomicU64::new(0), bar: OnceLock::new() }
    }

    /// `bytes` more are done. Any thread may say so.
    pub fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.begun.elapsed() > Self::QUIET && std::io::stderr().is_terminal() {
            let bar = self.bar.get_or_init(|| {
                let style = ProgressStyle::with_template("{msg} {bar:40} {bytes} of {total_bytes}, {eta} left").expect("a valid template");
                ProgressBar::with_draw_target(Some(self.total), ProgressDrawTarget::stderr()).with_style(style).with_message(self.what)
            });
            bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
