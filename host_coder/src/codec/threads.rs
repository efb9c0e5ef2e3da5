//! The caller's threads.

use crate::Element;

/// Chunks that a thread takes at once: 256 KiB of values, so that what a batch is coded to is still in the core's cache when it is
/// copied into place.
pub(super) const BATCH: usize = 16;

pub(super) fn batches<T: Element>(field: &[T]) -> std::slice::Chunks<'_, T> {
    field.chunks(BATCH * T::TYPE.codes_per_chunk())
}

/// Threads that `field` gives work to: of the rayon pool that this thread belongs to, or itself alone.
pub fn useful<T: Element>(field: &[T]) -> usize {
    #[cfg(feature = "rayon")]
    if rayon::current_thread_index().is_some() {
        return rayon::current_num_threads().min(batches(field).len());
    }
    let _ = field;
    1
}

/// Runs `work` on this thread and on up to `threads - 1` others of its pool.
pub(super) fn run(threads: usize, work: impl Fn() + Sync) {
    #[cfg(feature = "rayon")]
    if threads > 1 {
        return rayon::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|_| work());
            }
            work();
        });
    }
    let _ = threads;
    work();
}
