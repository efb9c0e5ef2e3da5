//! What a plan needs of a driver.

use std::ffi::{OsStr, c_void};
use std::fmt::Debug;

use libloading::Library;
use pfpl_host::ElementType;

use super::Error;
use super::args::Launch;

/// An entry point that the images have for each direction and element type: what tells it from the others, and its launch.
#[derive(Clone, Copy, Debug)]
pub struct EntryPoint {
    /// The end of its name, after direction and element type.
    pub suffix: &'static str,
    /// Fields that it takes as a parameter.
    pub fields: usize,
    /// Chunks that it takes; where it is not `u32::MAX`, each needs a block of its own and all blocks run at once.
    pub chunks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
}

/// An entry point as loaded into a context.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// The driver's function handle.
    pub function: u64,
    /// What it takes; `chunks` no more than it can on this device.
    pub entry: EntryPoint,
    /// Blocks that the device runs at once: the largest useful grid.
    pub resident: u32,
    /// It waits itself for the stream's work before it, so its launch may begin earlier.
    pub early: bool,
}

/// All kernels of a context, loaded once and kept as long as the process.
#[derive(Debug)]
pub struct Kernels {
    /// Encoders of f32 and f64, the preferred ones first.
    encoders: [Vec<Kernel>; 2],
    /// Decoders of f32 and f64, likewise.
    decoders: [Vec<Kernel>; 2],
    /// The device allocates and frees in stream order.
    pub pools: bool,
}

impl Kernels {
    /// Fills the table: `load` gives the function of this name and how many of its blocks the device runs at once; `early` is as in
    /// [`Kernel`].
    pub fn load(
        pools: bool,
        early: bool,
        encoders: &[EntryPoint],
        decoders: &[EntryPoint],
        mut load: impl FnMut(&str, &EntryPoint) -> Result<(u64, u32), Error>,
    ) -> Result<Self, Error> {
        let mut kernels = |direction, element, entries: &[EntryPoint]| {
            let kernel = |entry: &EntryPoint| {
                let name = format!("pfpl_{direction}_{element}{}", entry.suffix);
                let (function, resident) = load(&name, entry)?;
                if resident == 0 {
                    return Err(Error::Unsupported { reason: format!("the device has no room for a block of {name}") });
                }
                let chunks = if entry.chunks == u32::MAX { u32::MAX } else { entry.chunks.min(resident) };
                Ok(Kernel { function, entry: EntryPoint { chunks, ..*entry }, resident, early })
            };
            entries.iter().map(kernel).collect::<Result<Vec<_>, _>>()
        };
        let mut both = |direction, entries| {
            Ok::<_, Error>([kernels(direction, ElementType::F32, entries)?, kernels(direction, ElementType::F64, entries)?])
        };
        Ok(Self { encoders: both("encode", encoders)?, decoders: both("decode", decoders)?, pools })
    }

    /// The preferred kernel for a launch of so many fields and chunks.
    pub fn choose(&self, encodes: bool, element: ElementType, fields: usize, chunks: u32) -> &Kernel {
        let kernels = if encodes { &self.encoders } else { &self.decoders };
        let mut kernels = kernels[usize::from(element == ElementType::F64)].iter();
        kernels.find(|kernel| fields <= kernel.entry.fields && chunks <= kernel.entry.chunks).expect("lists are split to fit the last")
    }
}

/// A driver, as loaded at run time. Sealed: implemented by the crate's backends.
pub trait Driver: Sized + Sync + 'static + sealed::Sealed {
    /// What device work is done in: borrowed, never destroyed.
    type Context: Copy + Debug;

    /// Fields that one launch takes.
    const FIELDS: usize;

    /// Runs `work` with `context` current on this thread, then makes current what was before.
    ///
    /// # Safety
    /// `context` is alive.
    #[doc(hidden)]
    unsafe fn within<R>(&self, context: Self::Context, work: impl FnOnce() -> Result<R, Error>) -> Result<R, Error>;

    /// Allocates device memory, in the stream's order where the device can.
    ///
    /// # Safety
    /// As for all below: called within the context of `stream`.
    #[doc(hidden)]
    unsafe fn allocate(&self, bytes: usize, stream: Stream, pools: bool) -> Result<u64, Error>;

    /// Frees it after the stream's work so far.
    ///
    /// # Safety
    /// `address` came from `allocate` with the same `pools`; work on other streams no longer uses it.
    #[doc(hidden)]
    unsafe fn free(&self, address: u64, stream: Stream, pools: bool) -> Result<(), Error>;

    /// Clears device memory in the stream's order.
    ///
    /// # Safety
    /// There are `bytes` bytes at `address`.
    #[doc(hidden)]
    unsafe fn clear(&self, address: u64, bytes: usize, stream: Stream) -> Result<(), Error>;

    /// Copies to device memory after the stream's work so far, and waits for that.
    ///
    /// # Safety
    /// There is room for the bytes at `address`.
    #[doc(hidden)]
    unsafe fn upload(&self, address: u64, bytes: &[u8], stream: Stream) -> Result<(), Error>;

    /// The stream captures a graph.
    ///
    /// # Safety
    /// `stream` is alive.
    #[doc(hidden)]
    unsafe fn capturing(&self, stream: Stream) -> Result<bool, Error>;

    /// Queues a kernel: one driver call, which copies its arguments. There are as many `fields` as the kernel takes, or as the launch has.
    ///
    /// # Safety
    /// The memory that the arguments name is there until the kernel has run.
    #[doc(hidden)]
    unsafe fn launch(&self, kernel: &Kernel, blocks: u32, launch: &Launch, fields: &[FieldWords], stream: Stream) -> Result<(), Error>;
}

/// A field as the kernels take it.
pub type FieldWords = [u64; 8];

/// A stream handle of either driver; null is the default stream.
pub type Stream = *mut c_void;

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// The first of these libraries that can be loaded.
pub fn load_library(names: &[impl AsRef<OsStr>]) -> Result<Library, Error> {
    let mut reasons = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        // SAFETY: drivers may be loaded at any time
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(library),
            Err(error) => reasons.push(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)),
        }
    }
    Err(Error::NoDriver { reason: reasons.join("; ") })
}

/// Defines a table of a driver's functions, found in its library by name, each with a method that calls it and turns what it returns into
/// a [`Result`]. The type implements `fn message(&self, code: u32) -> String`.
macro_rules! driver_table {
    ($(#[$attribute:meta])* $table:ident; $($method:ident: $symbol:literal ($($argument:ident: $type:ty),*);)*) => {
        $(#[$attribute])*
        pub struct $table {
            $($method: unsafe extern "C" fn($($type),*) -> u32,)*
            // the functions are in it; others are looked up by name
            library: libloading::Library,
        }

        // not every function is called through its method; arguments are the driver's
        #[allow(dead_code, clippy::too_many_arguments)]
        impl $table {
            /// # Safety
            /// The functions of these names in `library` have these types.
            unsafe fn of(library: libloading::Library) -> Result<Self, $crate::device::Error> {
                let missing = |error: libloading::Error| $crate::device::Error::NoDriver { reason: error.to_string() };
                Ok(Self {
                    $(
                        // SAFETY: the caller vouches for the types
                        $method: *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }.map_err(missing)?,
                    )*
                    library,
                })
            }

            $(
                #[doc = concat!("`", $symbol, "`")]
                /// # Safety
                /// As the driver's manual says.
                unsafe fn $method(&self, $($argument: $type),*) -> Result<(), $crate::device::Error> {
                    // SAFETY: the caller keeps to the manual
                    self.checked($symbol, unsafe { (self.$method)($($argument),*) })
                }
            )*

            /// What the driver's function of this name returned, as a result.
            fn checked(&self, call: &'static str, code: u32) -> Result<(), $crate::device::Error> {
                match code {
                    0 => Ok(()),
                    code => Err($crate::device::Error::Driver { call, code, message: self.message(code) }),
                }
            }
        }
    };
}
pub(crate) use driver_table;
