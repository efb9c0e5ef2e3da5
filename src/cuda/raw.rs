//! The driver's own handles and device addresses: for bindings, and for programs that do not use `cudarc`.
//!
//! Contexts and streams are borrowed: nothing here destroys one, and the context that was current on the calling thread is current
//! afterwards.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::device::args::Launch;
use crate::device::driver::{FieldWords, Stream, load_library};
pub use crate::device::{Capacity, Decode, Driver, Encode};
use crate::device::{EntryPoint, Error, Kernel, Kernels, driver_table};

use super::image::{self, Image};

/// A plan on raw handles.
pub type Plan = crate::device::Plan<Cuda>;

/// A prepared list on raw handles.
pub type Prepared<F> = crate::device::Prepared<Cuda, F>;

/// `CUdevice_attribute`
mod attribute {
    pub const MULTIPROCESSORS: i32 = 16;
    pub const CAPABILITY_MAJOR: i32 = 75;
    pub const CAPABILITY_MINOR: i32 = 76;
    pub const MEMORY_POOLS: i32 = 115;
}

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const DYNAMIC_SHARED_BYTES: i32 = 8;

/// Drivers from this version on capture early launches into graphs.
const EARLY_LAUNCHES: c_int = 12_030;

/// `CUlaunchConfig`
#[repr(C)]
struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: Stream,
    attributes: *const LaunchAttribute,
    attribute_count: c_uint,
}

/// `CUlaunchAttribute`: its number, and a union of 64 bytes, 8-byte aligned.
#[repr(C)]
struct LaunchAttribute {
    id: c_uint,
    value: [u64; 8],
}

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`: the launch may begin before the kernel before it has ended.
static EARLY: LaunchAttribute = LaunchAttribute { id: 6, value: [1, 0, 0, 0, 0, 0, 0, 0] };

/// `cuLaunchKernelEx`
type LaunchKernelEx = unsafe extern "C" fn(*const LaunchConfig, *mut c_void, *mut *mut c_void, *mut *mut c_void) -> u32;

driver_table! {
    /// The CUDA driver.
    Cuda;
    init: "cuInit"(flags: c_uint);
    version: "cuDriverGetVersion"(version: *mut c_int);
    error_string: "cuGetErrorString"(code: u32, text: *mut *const c_char);
    current: "cuCtxGetCurrent"(context: *mut *mut c_void);
    push: "cuCtxPushCurrent_v2"(context: *mut c_void);
    pop: "cuCtxPopCurrent_v2"(context: *mut *mut c_void);
    context_id: "cuCtxGetId"(context: *mut c_void, id: *mut u64);
    device: "cuCtxGetDevice"(device: *mut c_int);
    attribute: "cuDeviceGetAttribute"(value: *mut c_int, attribute: c_int, device: c_int);
    load_module: "cuModuleLoadData"(module: *mut *mut c_void, image: *const c_void);
    unload_module: "cuModuleUnload"(module: *mut c_void);
    function: "cuModuleGetFunction"(function: *mut *mut c_void, module: *mut c_void, name: *const c_char);
    set_function_attribute: "cuFuncSetAttribute"(function: *mut c_void, attribute: c_int, value: c_int);
    resident_blocks: "cuOccupancyMaxActiveBlocksPerMultiprocessor"(blocks: *mut c_int, function: *mut c_void, threads: c_int, shared: usize);
    allocate_async: "cuMemAllocAsync"(address: *mut u64, bytes: usize, stream: Stream);
    free_async: "cuMemFreeAsync"(address: u64, stream: Stream);
    allocate_now: "cuMemAlloc_v2"(address: *mut u64, bytes: usize);
    free_now: "cuMemFree_v2"(address: u64);
    clear_async: "cuMemsetD8Async"(address: u64, byte: u8, bytes: usize, stream: Stream);
    upload_async: "cuMemcpyHtoDAsync_v2"(address: u64, bytes: *const c_void, count: usize, stream: Stream);
    synchronize: "cuStreamSynchronize"(stream: Stream);
    is_capturing: "cuStreamIsCapturing"(stream: Stream, status: *mut c_int);
    launch_kernel: "cuLaunchKernel"(
        function: *mut c_void,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: Stream,
        params: *mut *mut c_void,
        extra: *mut *mut c_void
    );
}

impl Cuda {
    /// The driver, loaded at the first call.
    pub(super) fn get() -> Result<&'static Self, Error> {
        static CUDA: OnceLock<Result<Cuda, Error>> = OnceLock::new();
        CUDA.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, Error> {
        let names: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };
        let library = load_library(names)?;
        // SAFETY: the driver's functions have the types of its manual
        let cuda = unsafe { Self::of(library) }?;
        // SAFETY: may be called at any time
        unsafe { cuda.init(0) }.map(|()| cuda)
    }

    fn message(&self, code: u32) -> String {
        let mut text = std::ptr::null();
        // SAFETY: gives a string that lives as long as the driver, or none
        match unsafe { (self.error_string)(code, &raw mut text) } {
            // SAFETY: as above
            0 if !text.is_null() => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
            _ => "unknown error".to_owned(),
        }
    }

    /// The context current on this thread.
    fn current_context(&self) -> Result<*mut c_void, Error> {
        let mut context = null_mut();
        // SAFETY: writes the handle
        unsafe { self.current(&raw mut context) }.map(|()| context)
    }

    /// The kernels of the current context, which is `context`.
    fn kernels(&self, context: *mut c_void) -> Result<&'static Kernels, Error> {
        type Loaded = HashMap<(u64, Option<Image>), &'static Kernels>;
        static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);
        let forced = image::forced()?;
        let mut id = 0;
        // SAFETY: writes the number, which no other context of this process ever has
        unsafe { self.context_id(context, &raw mut id) }?;
        // a panic elsewhere leaves the table whole
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = loaded.get_or_insert_default();
        if let Some(kernels) = loaded.get(&(id, forced)) {
            return Ok(kernels);
        }
        let kernels = &*Box::leak(Box::new(self.load_kernels(forced)?));
        loaded.insert((id, forced), kernels);
        Ok(kernels)
    }

    fn load_kernels(&self, forced: Option<Image>) -> Result<Kernels, Error> {
        let mut device = 0;
        // SAFETY: writes the number
        unsafe { self.device(&raw mut device) }?;
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY: writes the value
            unsafe { self.attribute(&raw mut value, attribute, device) }.map(|()| value)
        };
        let capability = (attribute(attribute::CAPABILITY_MAJOR)?, attribute(attribute::CAPABILITY_MINOR)?);
        let multiprocessors = attribute(attribute::MULTIPROCESSORS)?;
        let pools = attribute(attribute::MEMORY_POOLS)? != 0;
        let (major, minor) = capability;
        let mut result =
            Err(Error::Unsupported { reason: format!("the device has compute capability {major}.{minor}; 7.0 and later run the kernels") });
        for image in Image::ALL.into_iter().filter(|&image| forced.map_or(image.fits(capability), |forced| forced == image)) {
            result = self.load_image(image, multiprocessors, pools);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Has the driver load the function now, where it would at the first launch. Drivers before 12.4 cannot be asked to.
    ///
    /// # Safety
    /// The function's module is loaded.
    unsafe fn load_function(&self, function: *mut c_void) -> Result<(), Error> {
        type FuncLoad = unsafe extern "C" fn(*mut c_void) -> u32;
        // SAFETY: the driver's function of this name has this type
        self.checked("cuFuncLoad", unsafe { self.library.get::<FuncLoad>("cuFuncLoad").map_or(0, |load| load(function)) })
    }

    /// The launch with attributes; drivers before 11.8 have none.
    fn launch_kernel_ex(&self) -> Option<LaunchKernelEx> {
        static LAUNCH: OnceLock<Option<LaunchKernelEx>> = OnceLock::new();
        // SAFETY: the driver's function of this name has this type
        *LAUNCH.get_or_init(|| unsafe { self.library.get::<LaunchKernelEx>("cuLaunchKernelEx") }.ok().map(|launch| *launch))
    }

    fn launches_early(&self) -> bool {
        let mut version = 0;
        // SAFETY: writes the number
        unsafe { self.version(&raw mut version) }.is_ok() && version >= EARLY_LAUNCHES && self.launch_kernel_ex().is_some()
    }

    fn load_image(&self, image: Image, multiprocessors: i32, pools: bool) -> Result<Kernels, Error> {
        let mut module = null_mut();
        // SAFETY: the image ends in a zero byte, as PTX must
        unsafe { self.load_module(&raw mut module, image.bytes().as_ptr().cast()) }?;
        let early = image.awaits() && self.launches_early();
        let kernels = Kernels::load(pools, early, image::ENCODERS, image::DECODERS, |name, entry| {
            let symbol = CString::new(name).expect("names have no zero byte");
            let (mut function, mut blocks) = (null_mut(), 0);
            // SAFETY: the module is loaded
            unsafe {
                self.function(&raw mut function, module, symbol.as_ptr())?;
                self.set_function_attribute(function, DYNAMIC_SHARED_BYTES, entry.shared_bytes as c_int)?;
                self.load_function(function)?;
                self.resident_blocks(&raw mut blocks, function, entry.threads as c_int, entry.shared_bytes as usize)?;
            }
            Ok((function as u64, (blocks * multiprocessors) as u32))
        });
        // SAFETY: nothing of the module is in use
        kernels.inspect_err(|_| drop(unsafe { self.unload_module(module) }))
    }
}

impl crate::device::driver::sealed::Sealed for Cuda {}

impl Driver for Cuda {
    type Context = *mut c_void;

    const FIELDS: usize = image::LIST_FIELDS;

    unsafe fn within<R>(&self, context: *mut c_void, work: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        if self.current_context()? == context {
            return work();
        }
        // SAFETY: the context is alive, as the caller promises
        unsafe { self.push(context) }?;
        let result = work();
        let mut pushed = null_mut();
        // SAFETY: pops what was pushed
        let popped = unsafe { self.pop(&raw mut pushed) };
        result.and_then(|value| popped.map(|()| value))
    }

    unsafe fn allocate(&self, bytes: usize, stream: Stream, pools: bool) -> Result<u64, Error> {
        let mut address = 0;
        let address_out = &raw mut address;
        // SAFETY: writes the address; the stream is of the current context, as the caller promises
        unsafe { if pools { self.allocate_async(address_out, bytes, stream) } else { self.allocate_now(address_out, bytes) } }?;
        Ok(address)
    }

    unsafe fn free(&self, address: u64, stream: Stream, pools: bool) -> Result<(), Error> {
        // SAFETY: as the caller promises; without pools the driver waits for work on the memory
        unsafe { if pools { self.free_async(address, stream) } else { self.free_now(address) } }
    }

    unsafe fn clear(&self, address: u64, bytes: usize, stream: Stream) -> Result<(), Error> {
        // SAFETY: as the caller promises
        unsafe { self.clear_async(address, 0, bytes, stream) }
    }

    unsafe fn upload(&self, address: u64, bytes: &[u8], stream: Stream) -> Result<(), Error> {
        // SAFETY: as the caller promises
        unsafe {
            self.upload_async(address, bytes.as_ptr().cast(), bytes.len(), stream)?;
            self.synchronize(stream)
        }
    }

    unsafe fn capturing(&self, stream: Stream) -> Result<bool, Error> {
        let mut status = 0;
        // SAFETY: writes the status
        unsafe { self.is_capturing(stream, &raw mut status) }.map(|()| status != 0)
    }

    unsafe fn launch(&self, kernel: &Kernel, blocks: u32, launch: &Launch, fields: &[FieldWords], stream: Stream) -> Result<(), Error> {
        let (function, EntryPoint { threads, shared_bytes, .. }) = (kernel.function as *mut c_void, kernel.entry);
        // the driver reads all that the kernel takes
        assert!(fields.len() >= kernel.entry.fields);
        let mut params = [(&raw const *launch).cast_mut().cast::<c_void>(), fields.as_ptr().cast_mut().cast()];
        if let Some(launch) = self.launch_kernel_ex().filter(|_| kernel.early) {
            let config = LaunchConfig {
                grid: [blocks, 1, 1],
                block: [threads, 1, 1],
                shared_bytes,
                stream,
                attributes: &raw const EARLY,
                attribute_count: 1,
            };
            // SAFETY: as below; the kernel waits for the stream's work before it reads or writes memory
            return self.checked("cuLaunchKernelEx", unsafe { launch(&raw const config, function, params.as_mut_ptr(), null_mut()) });
        }
        // SAFETY: the kernel takes a Launch and its number of fields, which the driver copies during the call
        unsafe { self.launch_kernel(function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, params.as_mut_ptr(), null_mut()) }
    }
}

impl Plan {
    /// A plan with room for `capacity`, its state allocated and cleared in the order of `stream`. `context` is a `CUcontext`, or null for
    /// the one current on this thread; `stream` is a `CUstream` of it. The first plan of a context loads the kernels, which takes
    /// milliseconds, or longer where the driver compiles them.
    ///
    /// # Errors
    /// Where there is no driver, no context, no image for the device, no memory, or the stream captures a graph.
    ///
    /// # Safety
    /// Context and stream are alive as long as the plan, which frees its state on the last stream that it was used on.
    pub unsafe fn new(context: *mut c_void, stream: *mut c_void, capacity: Capacity) -> Result<Self, Error> {
        let cuda = Cuda::get()?;
        let context = if context.is_null() { cuda.current_context()? } else { context };
        if context.is_null() {
            return Err(Error::Unsupported { reason: "no CUDA context is current on this thread".to_owned() });
        }
        // SAFETY: the caller promises that it is alive
        let kernels = unsafe { cuda.within(context, || cuda.kernels(context)) }?;
        // SAFETY: as the caller promises
        unsafe { Self::with_kernels(cuda, context, stream, kernels, capacity) }
    }
}
