//! Runs GPU kernel sources on the CPU, lane by lane, and proves what a run alone does not show.
//!
//! The sources are compiled as C++17 against `cxx/executor.h`, whose primitives call back here, with the compiler's instrumentation of every
//! load and store.  Each lane is a fiber; a seeded [`Schedule`] interleaves blocks, warps and lanes.  A launch ends in a [`Fault`] when
//!
//! * two accesses of a byte race: in shared memory without a barrier (for lanes of one warp, a warp barrier) in between; in device memory
//!   without a release and an acquire; votes and shuffles order no memory;
//! * an access leaves its buffer, writes what is only to be read, reads undefined bytes, is misaligned for its type, or indexes past an
//!   array; or a shift is by the width of its type or more;
//! * bytes of an asynchronous copy are touched before the wait;
//! * lanes diverge around a collective or a barrier; or nothing ends within [`Schedule::steps`].
//!
//! Atomic loads give any value that the memory model allows when [`Schedule::weak`] is set.
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod clock;
pub mod compile;
mod hooks;
mod image;
mod machine;
mod memory;
mod run;

pub use image::Image;
pub use memory::{Access, Buffer, Memory};
pub use run::{Fault, Launch};

/// The order in which blocks start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dispatch {
    /// By index.
    Forward,
    /// From the last to the first.
    Reversed,
    /// Shuffled.
    Random,
}

/// How lanes are interleaved.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Seeds every choice.
    pub seed: u64,
    /// The order in which blocks start.
    pub dispatch: Dispatch,
    /// Blocks that run at the same time, at most.
    pub residency: usize,
    /// Rounds that a block runs at a stretch, at most; each stretch's length is random.
    pub quantum: u32,
    /// Whether an atomic load may give an older value where the memory model allows it.
    pub weak: bool,
    /// Whether reading undefined bytes of shared memory is a fault; otherwise they are garbage of the seed's choice.
    pub strict: bool,
    /// Resumptions of lanes after which the launch counts as hanging.
    pub steps: u64,
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule { seed: 0, dispatch: Dispatch::Forward, residency: 4, quantum: 16, weak: true, strict: true, steps: 20_000_000 }
    }
}

/// What a launch did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// Resumptions of lanes.
    pub steps: u64,
    /// Barriers, once a block.
    pub barriers: u64,
    /// Warp barriers, once a warp.
    pub warp_barriers: u64,
    /// Votes, shuffles and reductions, once a warp.
    pub collectives: u64,
    /// Atomic accesses.
    pub atomics: u64,
    /// Asynchronous copies.
    pub copies: u64,
    /// Shared memory of a block, in bytes.
    pub shared_bytes: usize,
}
