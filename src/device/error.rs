use std::fmt;

use super::Capacity;
use super::args::Refusal;

/// Why a call was refused before anything was launched, or what the driver said.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The driver's library is missing or lacks a function.
    NoDriver {
        /// What was looked for, and why it failed.
        reason: String,
    },
    /// The device, or the one asked for, cannot run the kernels.
    Unsupported {
        /// What it is and what is supported.
        reason: String,
    },
    /// A driver's call failed.
    Driver {
        /// Its name.
        call: &'static str,
        /// What it returned.
        code: u32,
        /// The driver's words for that.
        message: String,
    },
    /// The plan is too small: reserve what is needed beforehand.
    TooSmall {
        /// What the call needs.
        needed: Capacity,
        /// What the plan has.
        reserved: Capacity,
    },
    /// An argument is not usable.
    Argument {
        /// Which field of a list; 0 for a single field.
        index: usize,
        /// What is wrong with it.
        fault: Fault,
    },
    /// A plan cannot be made or grown while its stream captures a graph.
    Capturing,
    /// A call that waited for its outcome found it not ok.
    Refused(Refusal),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What is wrong with an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The field is not aligned to its element, is null, or does not end within the address space.
    Field,
    /// The stream is not 4-byte aligned, is null, or does not end within the address space.
    Stream,
    /// The outcome is not 8-byte aligned or does not end within the address space.
    Outcome,
    /// What the call writes overlaps something else that it writes or reads.
    Overlap,
    /// The field has 2³¹ chunks or more.
    TooLong,
    /// The range does not lie within the field.
    Range,
    /// The memory is of another context than the plan's, or the list was made for another CUDA stream.
    Context,
    /// There are fewer outcomes than fields.
    Outcomes,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Field => "the field's address is null, not aligned to its element, or too close to the end of memory",
            Self::Stream => "the stream's address is null, not 4-byte aligned, or too close to the end of memory",
            Self::Outcome => "the outcome's address is not 8-byte aligned or too close to the end of memory",
            Self::Overlap => "its output overlaps another input or output of the call",
            Self::TooLong => "the field has 2^31 chunks or more",
            Self::Range => "the range does not lie within the field",
            Self::Context => "its memory is of another context than the plan's, or its list is for another CUDA stream",
            Self::Outcomes => "there are fewer outcomes than fields",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDriver { reason } => write!(f, "no driver: {reason}"),
            Self::Unsupported { reason } => f.write_str(reason),
            Self::Driver { call, code, message } => write!(f, "{call} failed with {code}: {message}"),
            Self::TooSmall { needed, reserved } => write!(f, "the plan has room for {reserved}, the call needs {needed}: reserve it first"),
            Self::Argument { index, fault } => write!(f, "field {index}: {fault}"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Capturing => f.write_str("a plan cannot be made or grown while its stream captures a graph"),
        }
    }
}

impl std::error::Error for Error {}
