use std::fmt;

/// Element type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// IEEE-754 binary32.
    F32,
    /// IEEE-754 binary64.
    F64,
}

impl ElementType {
    /// Bytes of a value, and of its code.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Codes of a chunk: 4096 or 2048.
    pub const fn codes_per_chunk(self) -> usize {
        crate::header::CHUNK_BYTES / self.bytes()
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// A type that a field can have: `f32` or `f64`. Sealed.
pub trait Element: sealed::Sealed + bytemuck::Pod + Send + Sync + PartialOrd + fmt::Debug {
    /// The type as a value.
    const TYPE: ElementType;
}

impl Element for f32 {
    const TYPE: ElementType = ElementType::F32;
}

impl Element for f64 {
    const TYPE: ElementType = ElementType::F64;
}

pub(crate) mod sealed {
    pub trait Sealed: crate::chunk::Chunked {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}
