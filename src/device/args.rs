//! Launch arguments: the same bytes as `kernels_shared/format.h` lays out.

use bytemuck::{Pod, Zeroable};
use pfpl_host::Status;

/// What a call leaves in device memory (8-byte aligned) where the caller gives room for it: on success too, and nothing need be
/// cleared beforehand.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Outcome {
    /// Bytes of the stream: needed (compressing) or consumed (decompressing).
    pub stream_bytes: u64,
    /// Number of a [`Status`].
    pub status: u32,
    /// Lowest chunk to blame, or [`Outcome::NO_CHUNK`].
    pub chunk: u32,
}

impl Outcome {
    /// [`Outcome::chunk`] where no chunk is to blame.
    pub const NO_CHUNK: u32 = u32::MAX;

    /// The status, or `None` where no call has written this outcome.
    pub fn status(&self) -> Option<Status> {
        Status::from_u32(self.status)
    }

    /// The chunk to blame.
    pub fn chunk(&self) -> Option<u32> {
        (self.chunk != Self::NO_CHUNK).then_some(self.chunk)
    }

    /// The stream's bytes, or why there are none.
    ///
    /// # Errors
    /// [`Refusal`] with the status and chunk, where the status is not 0.
    pub fn result(&self) -> Result<u64, Refusal> {
        if self.status == Status::Ok as u32 { Ok(self.stream_bytes) } else { Err(Refusal(*self)) }
    }
}

/// An outcome that is not ok.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub Outcome);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(outcome) = self;
        match outcome.status() {
            Some(Status::Overflow) => write!(f, "{}: the stream needs {} bytes", Status::Overflow, outcome.stream_bytes),
            Some(status) => write!(f, "{status}"),
            None => write!(f, "status {} is none of the format's: the outcome was not written", outcome.status),
        }?;
        outcome.chunk().map_or(Ok(()), |chunk| write!(f, " (chunk {chunk})"))
    }
}

impl std::error::Error for Refusal {}

/// A field to compress, as the kernels take it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct EncodeField {
    pub field: u64,
    pub stream: u64,
    pub n: u64,
    pub capacity: u64,
    pub outcome: u64,
    pub inverse: f64,
    pub bound: f32,
    pub wide: u32,
    pub first_chunk: u32,
    pub reserved: u32,
}

/// A field to decompress, as the kernels take it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct DecodeField {
    pub field: u64,
    pub stream: u64,
    pub n: u64,
    pub bytes: u64,
    pub outcome: u64,
    pub first: u64,
    pub count: u64,
    pub first_chunk: u32,
    pub reserved: u32,
}

/// First argument of every kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Launch {
    pub state: u64,
    pub list: u64,
    pub field_capacity: u32,
    pub fields: u32,
    pub chunks: u32,
    pub chunk_capacity: u32,
}

/// Bytes of a plan's state before its fields' and chunks' words.
pub const CONTROL_BYTES: u64 = 4096;
/// Bytes of a plan's state for a field of a list.
pub const FIELD_STATE_BYTES: u64 = 16;
/// Bytes of a plan's state for a chunk.
pub const CHUNK_STATE_BYTES: u64 = 8;

#[cfg(test)]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use super::*;

    /// Member names and offsets of a struct in the shared header, which aligns every member to its size.
    fn layout(name: &str) -> Vec<(String, usize)> {
        const HEADER: &str = include_str!("../../kernels_shared/format.h");
        let body = HEADER.split_once(&format!("struct {name} {{")).unwrap().1.split_once("};").unwrap().0;
        let mut at = 0;
        let mut members = Vec::new();
        for declaration in body.lines().map(|line| line.split("//").next().unwrap()).flat_map(|line| line.split(';')) {
            let Some((kind, names)) = declaration.trim().split_once(' ') else { continue };
            let size = match kind {
                "u64" | "double" => 8,
                "u32" | "float" => 4,
                other => panic!("unknown type {other}"),
            };
            for member in names.split(',') {
                assert_eq!(at % size, 0, "padding before {member}");
                members.push((member.trim().to_owned(), at));
                at += size;
            }
        }
        members.push((String::new(), at));
        members
    }

    macro_rules! same_layout {
        ($type:ident: $($member:ident),*) => {
            let ours = [$((stringify!($member).to_owned(), offset_of!($type, $member)),)* (String::new(), size_of::<$type>())];
            assert_eq!(layout(stringify!($type)), ours);
            assert_eq!(align_of::<$type>(), 8);
        };
    }

    #[test]
    fn as_the_shared_header_says() {
        same_layout!(Outcome: stream_bytes, status, chunk);
        same_layout!(EncodeField: field, stream, n, capacity, outcome, inverse, bound, wide, first_chunk, reserved);
        same_layout!(DecodeField: field, stream, n, bytes, outcome, first, count, first_chunk, reserved);
        same_layout!(Launch: state, list, field_capacity, fields, chunks, chunk_capacity);
    }

    #[test]
    fn refusals_speak() {
        let outcome = |status, chunk| Outcome { stream_bytes: 40, status, chunk };
        assert_eq!(outcome(0, Outcome::NO_CHUNK).result(), Ok(40));
        let message = |status, chunk| outcome(status, chunk).result().unwrap_err().to_string();
        assert_eq!(message(1, Outcome::NO_CHUNK), "overflow: the stream needs 40 bytes");
        assert_eq!(message(8, 3), "corrupt chunk (chunk 3)");
        assert_eq!(message(77, Outcome::NO_CHUNK), "status 77 is none of the format's: the outcome was not written");
    }
}
