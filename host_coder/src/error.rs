use std::fmt;

use crate::ElementType;

/// Outcome of a call, as the format numbers them. On refusal of a stream the smallest that applies is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum Status {
    /// No error.
    Ok = 0,
    /// Encoding: the stream is longer than the capacity.
    Overflow = 1,
    /// Too short for a header, or the magic is none of the four.
    NotAStream = 2,
    /// The magic is the other element type's.
    WrongType = 3,
    /// The header's count is not the caller's.
    WrongCount = 4,
    /// Bound, chunk count, padded size or archive size are inconsistent.
    BadHeader = 5,
    /// Header and archive are longer than the bytes given.
    Truncated = 6,
    /// A size-table entry that no encoder writes, or entries past the archive.
    BadTable = 7,
    /// A chunk whose parts do not add up to its length.
    CorruptChunk = 8,
}

impl Status {
    /// The status of this number.
    pub const fn from_u32(status: u32) -> Option<Self> {
        Some(match status {
            0 => Self::Ok,
            1 => Self::Overflow,
            2 => Self::NotAStream,
            3 => Self::WrongType,
            4 => Self::WrongCount,
            5 => Self::BadHeader,
            6 => Self::Truncated,
            7 => Self::BadTable,
            8 => Self::CorruptChunk,
            _ => return None,
        })
    }

    /// The format's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Overflow => "overflow",
            Self::NotAStream => "not a stream",
            Self::WrongType => "wrong type",
            Self::WrongCount => "wrong count",
            Self::BadHeader => "bad header",
            Self::Truncated => "truncated",
            Self::BadTable => "bad table",
            Self::CorruptChunk => "corrupt chunk",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a field could not be coded or a stream was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The stream does not fit: it needs `needed` bytes.
    Overflow {
        /// Bytes that the stream needs.
        needed: u64,
    },
    /// The bytes are not a PFPL stream.
    NotAStream,
    /// The stream holds the other element type.
    WrongType {
        /// What the stream holds.
        found: ElementType,
    },
    /// The stream holds another number of values.
    WrongCount {
        /// What the stream holds.
        found: u64,
    },
    /// The header contradicts itself.
    BadHeader,
    /// The stream needs `needed` bytes (or more, where not even its header is complete).
    Truncated {
        /// Bytes that the stream needs.
        needed: u64,
    },
    /// The size-table entry of `chunk` is impossible.
    BadTable {
        /// Lowest such chunk.
        chunk: u64,
        /// Where its entry is, in bytes from the stream's start.
        offset: u64,
    },
    /// The parts of `chunk` do not add up to its length.
    CorruptChunk {
        /// Lowest such chunk.
        chunk: u64,
        /// Where its coded bytes are, in bytes from the stream's start.
        offset: u64,
    },
    /// The range of values asked for does not lie within the field.
    BadRange {
        /// Values of the field.
        n: u64,
    },
}

impl Error {
    /// The format's status; a range that is not the field's counts as [`Status::WrongCount`].
    pub fn status(&self) -> Status {
        match self {
            Self::Overflow { .. } => Status::Overflow,
            Self::NotAStream => Status::NotAStream,
            Self::WrongType { .. } => Status::WrongType,
            Self::WrongCount { .. } | Self::BadRange { .. } => Status::WrongCount,
            Self::BadHeader => Status::BadHeader,
            Self::Truncated { .. } => Status::Truncated,
            Self::BadTable { .. } => Status::BadTable,
            Self::CorruptChunk { .. } => Status::CorruptChunk,
        }
    }

    /// The chunk to blame: the lowest with this status.
    pub fn chunk(&self) -> Option<u64> {
        match *self {
            Self::BadTable { chunk, .. } | Self::CorruptChunk { chunk, .. } => Some(chunk),
            _ => None,
        }
    }

    /// Where in the stream, in bytes from its start, the chunk to blame or its table entry is.
    pub fn offset(&self) -> Option<u64> {
        match *self {
            Self::BadTable { offset, .. } | Self::CorruptChunk { offset, .. } => Some(offset),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overflow { needed } => write!(f, "the stream needs {needed} bytes: give that much, or max_stream_bytes"),
            Self::NotAStream => f.write_str("not a PFPL stream: too short, or none of the four magics"),
            Self::WrongType { found } => write!(f, "the stream holds {found} values: decode it as {found}"),
            Self::WrongCount { found } => write!(f, "the stream holds {found} values: give an output of that length"),
            Self::BadHeader => f.write_str("damaged stream: its header contradicts itself"),
            Self::Truncated { needed } => write!(f, "truncated stream: it needs {needed} bytes"),
            Self::BadTable { chunk, offset } => write!(f, "damaged stream: impossible size of chunk {chunk} in the table at byte {offset}"),
            Self::CorruptChunk { chunk, offset } => {
                write!(f, "damaged stream: chunk {chunk} at byte {offset} does not add up to its length")
            }
            Self::BadRange { n } => {
                write!(f, "the range does not lie within the field's {n} values")
            }
        }
    }
}

impl std::error::Error for Error {}
