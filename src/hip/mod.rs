//! AMD GPUs: the same plans, calls and outcomes as [`crate::cuda`], on the raw handles of HIP.
//!
//! HIP is loaded when it is first used: `libamdhip64` of ROCm 5 to 7, from the loader's path, `ROCM_PATH` or `/opt/rocm`; nothing of ROCm
//! is needed to build. Kernels for gfx90a, gfx942 and gfx1100 are part of the crate; for other architectures `hiprtc` compiles them when
//! the first plan of a device is made.
//!
//! No AMD hardware was at hand: the kernels are tested on an emulator, the calls below on a library that only logs. Compiling with
//! `hiprtc` has not been run.

#[cfg(feature = "hip-rs")]
mod interop;
mod object;
mod rtc;

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock, PoisonError};

use pfpl_host::{Bound, Element, max_stream_bytes};

use crate::device::args::Launch;
use crate::device::driver::{FieldWords, Stream, load_library};
use crate::device::figures::{calls_of, median};
pub use crate::device::{Capacity, Decode, Driver, Encode, Error, Fault, Figures, Outcome, Refusal};
use crate::device::{EntryPoint, Kernel, Kernels, driver_table};

/// A plan: see [`crate::device::Plan`].
pub type Plan = crate::device::Plan<Hip>;

/// A prepared list.
pub type Prepared<F> = crate::device::Prepared<Hip, F>;

/// Fields of a list that one launch takes: `MAX_FIELDS` of the kernels, whose arguments are at most 4 KiB.
const LIST_FIELDS: usize = 62;

/// The kernels' arguments.
const ARGUMENT_BYTES: usize = size_of::<Launch>() + LIST_FIELDS * size_of::<FieldWords>();

/// The one entry point of each direction and element type.
const ENTRY_POINTS: &[EntryPoint] = &[EntryPoint { suffix: "", fields: LIST_FIELDS, chunks: u32::MAX, threads: 256, shared_bytes: 0 }];

/// `hipDeviceAttribute_t`, whose numbers ROCm 6 and 7 share. The properties structure differs between versions, so it is used only for
/// the architecture's name.
mod attribute {
    pub const MULTIPROCESSORS: i32 = 63;
    pub const WARP_SIZE: i32 = 87;
    pub const MEMORY_POOLS: i32 = 88;
}

/// `HIP_LAUNCH_PARAM_*`
mod launch_param {
    use std::ffi::c_void;
    use std::ptr::without_provenance_mut;
    pub const BUFFER_POINTER: *mut c_void = without_provenance_mut(1);
    pub const BUFFER_SIZE: *mut c_void = without_provenance_mut(2);
    pub const END: *mut c_void = without_provenance_mut(3);
}

/// `hipMemcpyDefault`: either way, by the addresses.
const COPY_BY_ADDRESS: c_int = 4;

driver_table! {
    /// The HIP runtime.
    Hip;
    init: "hipInit"(flags: c_uint);
    count: "hipGetDeviceCount"(count: *mut c_int);
    current: "hipGetDevice"(device: *mut c_int);
    set_current: "hipSetDevice"(device: c_int);
    attribute: "hipDeviceGetAttribute"(value: *mut c_int, attribute: c_int, device: c_int);
    load_module: "hipModuleLoadData"(module: *mut *mut c_void, image: *const c_void);
    unload_module: "hipModuleUnload"(module: *mut c_void);
    function: "hipModuleGetFunction"(function: *mut *mut c_void, module: *mut c_void, name: *const c_char);
    resident_blocks: "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"(
        blocks: *mut c_int,
        function: *mut c_void,
        threads: c_int,
        shared: usize
    );
    allocate_async: "hipMallocAsync"(address: *mut *mut c_void, bytes: usize, stream: Stream);
    free_async: "hipFreeAsync"(address: *mut c_void, stream: Stream);
    allocate_now: "hipMalloc"(address: *mut *mut c_void, bytes: usize);
    free_now: "hipFree"(address: *mut c_void);
    clear_async: "hipMemsetAsync"(address: *mut c_void, byte: c_int, bytes: usize, stream: Stream);
    copy_now: "hipMemcpy"(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int);
    copy_async: "hipMemcpyAsync"(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int, stream: Stream);
    synchronize: "hipStreamSynchronize"(stream: Stream);
    create_event: "hipEventCreate"(event: *mut *mut c_void);
    record_event: "hipEventRecord"(event: *mut c_void, stream: Stream);
    wait_for_event: "hipEventSynchronize"(event: *mut c_void);
    elapsed: "hipEventElapsedTime"(milliseconds: *mut f32, start: *mut c_void, end: *mut c_void);
    destroy_event: "hipEventDestroy"(event: *mut c_void);
    is_capturing: "hipStreamIsCapturing"(stream: Stream, status: *mut c_int);
    launch_kernel: "hipModuleLaunchKernel"(
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

/// Names under which a ROCm library is looked for: the loader's path first.
fn library_names(name: &str) -> Vec<OsString> {
    if cfg!(windows) {
        let name = name.trim_start_matches("lib");
        return [format!("{name}_7.dll"), format!("{name}_6.dll"), format!("{name}.dll")].map(OsString::from).into();
    }
    let plain = [7, 6, 5].map(|version| format!("{name}.so.{version}")).into_iter().chain([format!("{name}.so")]);
    let installed = std::env::var_os("ROCM_PATH").into_iter().chain([OsString::from("/opt/rocm")]);
    let folders = [OsString::new()].into_iter().chain(installed.map(|folder| [folder, OsString::from("/lib/")].into_iter().collect()));
    folders.flat_map(|folder| plain.clone().map(move |name| [folder.clone(), OsString::from(name)].into_iter().collect())).collect()
}

/// A library's text for a code, by its function of this name.
fn error_text(library: &libloading::Library, function: &str, code: u32) -> String {
    type ErrorText = unsafe extern "C" fn(u32) -> *const c_char;
    // SAFETY: ROCm's functions of this kind have this type, and their texts live as long as the library
    unsafe {
        let text = library.get::<ErrorText>(function).ok().map(|text| text(code)).filter(|text| !text.is_null());
        text.map_or_else(|| "unknown error".to_owned(), |text| CStr::from_ptr(text).to_string_lossy().into_owned())
    }
}

impl Hip {
    /// The runtime, loaded at the first call.
    fn get() -> Result<&'static Self, Error> {
        static HIP: OnceLock<Result<Hip, Error>> = OnceLock::new();
        HIP.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, Error> {
        let library = load_library(&library_names("libamdhip64"))?;
        // SAFETY: the runtime's functions have the types of its manual
        let hip = unsafe { Self::of(library) }?;
        // SAFETY: may be called at any time
        unsafe { hip.init(0) }.map(|()| hip)
    }

    fn message(&self, code: u32) -> String {
        error_text(&self.library, "hipGetErrorString", code)
    }

    fn device_attribute(&self, device: i32, attribute: i32) -> Result<i32, Error> {
        let mut value = 0;
        // SAFETY: writes the value
        unsafe { self.attribute(&raw mut value, attribute, device) }.map(|()| value)
    }

    /// The device's architecture, as `gfx90a` in `gfx90a:sramecc+:xnack-`.
    fn architecture(&self, device: i32) -> Result<String, Error> {
        type Properties = unsafe extern "C" fn(*mut c_void, c_int) -> u32;
        // larger than any version's structure
        let mut properties = vec![0u64; 1 << 11];
        // SAFETY: the runtime's functions of these names have this type
        let get = unsafe {
            let newer = self.library.get::<Properties>("hipGetDevicePropertiesR0600");
            newer.or_else(|_| self.library.get::<Properties>("hipGetDeviceProperties"))
        };
        let get = get.map_err(|error| Error::NoDriver { reason: error.to_string() })?;
        // SAFETY: writes the structure
        self.checked("hipGetDeviceProperties", unsafe { get(properties.as_mut_ptr().cast(), device) })?;
        object::architecture(bytemuck::cast_slice(&properties))
    }

    /// The kernels of the current device, which is `device`.
    fn kernels(&self, device: i32) -> Result<&'static Kernels, Error> {
        static LOADED: Mutex<Option<HashMap<i32, &'static Kernels>>> = Mutex::new(None);
        // a panic elsewhere leaves the table whole
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = loaded.get_or_insert_default();
        if let Some(kernels) = loaded.get(&device) {
            return Ok(kernels);
        }
        let kernels = &*Box::leak(Box::new(self.load_kernels(device)?));
        loaded.insert(device, kernels);
        Ok(kernels)
    }

    fn load_kernels(&self, device: i32) -> Result<Kernels, Error> {
        let architecture = self.architecture(device)?;
        let units = self.device_attribute(device, attribute::MULTIPROCESSORS)?.max(1);
        // a runtime that does not know the attribute has no pools
        let pools = self.device_attribute(device, attribute::MEMORY_POOLS).is_ok_and(|pools| pools == 1);
        let object = match object::shipped(&architecture) {
            Some(object) => object.to_vec(),
            None => rtc::compile(&architecture, self.device_attribute(device, attribute::WARP_SIZE)?)?,
        };
        let mut module = null_mut();
        // SAFETY: a code object
        unsafe { self.load_module(&raw mut module, object.as_ptr().cast()) }?;
        let kernels = Kernels::load(pools, false, ENTRY_POINTS, ENTRY_POINTS, |name, entry| {
            let symbol = CString::new(name).expect("names have no zero byte");
            let (mut function, mut blocks) = (null_mut(), 0);
            // SAFETY: the module is loaded
            unsafe {
                self.function(&raw mut function, module, symbol.as_ptr())?;
                self.resident_blocks(&raw mut blocks, function, entry.threads as c_int, 0)?;
            }
            Ok((function as u64, (blocks * units) as u32))
        });
        // SAFETY: nothing of the module is in use
        kernels.inspect_err(|_| drop(unsafe { self.unload_module(module) }))
    }
}

impl crate::device::driver::sealed::Sealed for Hip {}

impl Driver for Hip {
    /// A device's number.
    type Context = i32;

    const FIELDS: usize = LIST_FIELDS;

    unsafe fn within<R>(&self, device: i32, work: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        let mut before = 0;
        // SAFETY: writes the number
        unsafe { self.current(&raw mut before) }?;
        if before == device {
            return work();
        }
        // SAFETY: may be called at any time
        unsafe { self.set_current(device) }?;
        let result = work();
        // SAFETY: as above
        let restored = unsafe { self.set_current(before) };
        result.and_then(|value| restored.map(|()| value))
    }

    unsafe fn allocate(&self, bytes: usize, stream: Stream, pools: bool) -> Result<u64, Error> {
        let mut address = null_mut();
        let address_out = &raw mut address;
        // SAFETY: writes the address; the stream is of the current device, as the caller promises
        unsafe { if pools { self.allocate_async(address_out, bytes, stream) } else { self.allocate_now(address_out, bytes) } }?;
        Ok(address as u64)
    }

    unsafe fn free(&self, address: u64, stream: Stream, pools: bool) -> Result<(), Error> {
        let address = address as *mut c_void;
        // SAFETY: as the caller promises; without pools the runtime waits for the device
        unsafe { if pools { self.free_async(address, stream) } else { self.free_now(address) } }
    }

    unsafe fn clear(&self, address: u64, bytes: usize, stream: Stream) -> Result<(), Error> {
        // SAFETY: as the caller promises
        unsafe { self.clear_async(address as *mut c_void, 0, bytes, stream) }
    }

    unsafe fn upload(&self, address: u64, bytes: &[u8], stream: Stream) -> Result<(), Error> {
        // SAFETY: as the caller promises
        unsafe {
            self.copy_async(address as *mut c_void, bytes.as_ptr().cast(), bytes.len(), COPY_BY_ADDRESS, stream)?;
            self.synchronize(stream)
        }
    }

    unsafe fn capturing(&self, stream: Stream) -> Result<bool, Error> {
        let mut status = 0;
        // SAFETY: writes the status
        unsafe { self.is_capturing(stream, &raw mut status) }.map(|()| status != 0)
    }

    unsafe fn launch(&self, kernel: &Kernel, blocks: u32, launch: &Launch, fields: &[FieldWords], stream: Stream) -> Result<(), Error> {
        let mut arguments = [0u64; ARGUMENT_BYTES / 8];
        let (first, list) = arguments.split_at_mut(size_of::<Launch>() / 8);
        first.copy_from_slice(bytemuck::cast_slice(std::slice::from_ref(launch)));
        let count = if launch.list == 0 { launch.fields as usize } else { 0 };
        let fields = fields[..count].as_flattened();
        list[..fields.len()].copy_from_slice(fields);
        let mut bytes = ARGUMENT_BYTES;
        let mut extra = [
            launch_param::BUFFER_POINTER,
            arguments.as_mut_ptr().cast(),
            launch_param::BUFFER_SIZE,
            (&raw mut bytes).cast(),
            launch_param::END,
        ];
        let function = kernel.function as *mut c_void;
        // SAFETY: the kernel takes these arguments, which the runtime copies during the call
        unsafe { self.launch_kernel(function, blocks, 1, 1, kernel.entry.threads, 1, 1, 0, stream, null_mut(), extra.as_mut_ptr()) }
    }
}

impl Plan {
    /// A plan on device number `device` with room for `capacity`, its state allocated and cleared in the order of `stream`, a
    /// `hipStream_t` of that device. The device that is current on the calling thread stays so. The first plan of a device loads the
    /// kernels, or compiles them where the crate has none for its architecture.
    ///
    /// # Errors
    /// Where there is no HIP, no such device, no kernel for it, no memory, or the stream captures a graph.
    ///
    /// # Safety
    /// The stream is alive as long as the plan, which frees its state on the last stream that it was used on. The device is not reset.
    pub unsafe fn new(device: i32, stream: *mut c_void, capacity: Capacity) -> Result<Self, Error> {
        let hip = Hip::get()?;
        // SAFETY: devices are always there
        let kernels = unsafe { hip.within(device, || hip.kernels(device)) }?;
        // SAFETY: as the caller promises
        unsafe { Self::with_kernels(hip, device, stream, kernels, capacity) }
    }
}

/// Devices that HIP finds.
///
/// # Errors
/// Where there is no HIP.
pub fn device_count() -> Result<i32, Error> {
    let mut count = 0;
    // SAFETY: writes the number
    unsafe { Hip::get()?.count(&raw mut count) }.map(|()| count)
}

/// Device memory that is freed with this; its device is current meanwhile.
struct Memory {
    hip: &'static Hip,
    address: u64,
}

impl Memory {
    fn new(hip: &'static Hip, bytes: usize) -> Result<Self, Error> {
        // SAFETY: not in stream order, so any stream will do; no bytes cannot be allocated
        unsafe { hip.allocate(bytes.max(1), null_mut(), false) }.map(|address| Self { hip, address })
    }

    fn of(hip: &'static Hip, bytes: &[u8]) -> Result<Self, Error> {
        Self::with(hip, bytes.len(), bytes)
    }

    /// `length` bytes or more, the first of which are these.
    fn with(hip: &'static Hip, length: usize, bytes: &[u8]) -> Result<Self, Error> {
        let memory = Self::new(hip, length.max(bytes.len()))?;
        // SAFETY: both are this long
        unsafe { hip.copy_now(memory.address as *mut c_void, bytes.as_ptr().cast(), bytes.len(), COPY_BY_ADDRESS) }?;
        Ok(memory)
    }

    /// Copies the first bytes, which are there, once the device has come this far.
    fn read(&self, bytes: &mut [u8]) -> Result<(), Error> {
        // SAFETY: callers ask for no more than was allocated
        unsafe { self.hip.copy_now(bytes.as_mut_ptr().cast(), self.address as *const c_void, bytes.len(), COPY_BY_ADDRESS) }
    }

    fn outcome(&self) -> Result<u64, Error> {
        let mut outcome = Outcome::default();
        self.read(bytemuck::bytes_of_mut(&mut outcome))?;
        Ok(outcome.result()?)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated likewise; the runtime waits for work on it
        drop(unsafe { self.hip.free(self.address, null_mut(), false) });
    }
}

/// A field and its stream in device memory, with a plan and the calls for a round trip on the default stream.
struct Trip {
    plan: Plan,
    encode: Encode,
    decode: Decode,
    values: Memory,
    stream: Memory,
    restored: Memory,
    outcome: Memory,
}

impl Trip {
    /// For `n` values, which are copied from `field` or to come from `stream`.
    fn new<T: Element>(hip: &'static Hip, device: i32, n: usize, field: &[T], stream: &[u8], bound: Bound) -> Result<Self, Error> {
        let (n, bytes) = (n as u64, n * T::TYPE.bytes());
        // SAFETY: the default stream is always there
        let plan = unsafe { Plan::new(device, null_mut(), Capacity::of::<T>(n)) }?;
        let values = Memory::of(hip, bytemuck::cast_slice(field))?;
        let capacity = max_stream_bytes::<T>(n).max(stream.len() as u64);
        let stream = Memory::with(hip, capacity as usize, stream)?;
        let (restored, outcome) = (Memory::new(hip, bytes)?, Memory::new(hip, size_of::<Outcome>())?);
        let element = T::TYPE;
        let encode = Encode { element, field: values.address, n, bound, stream: stream.address, capacity, outcome: outcome.address };
        let decode =
            Decode { element, stream: stream.address, bytes: 0, n, field: restored.address, first: 0, count: n, outcome: outcome.address };
        Ok(Self { plan, encode, decode, values, stream, restored, outcome })
    }

    fn compress(&mut self) -> Result<(), Error> {
        // SAFETY: the memory is freed once the device has come this far
        unsafe { self.plan.compress(null_mut(), &self.encode) }
    }

    fn decompress(&mut self) -> Result<(), Error> {
        // SAFETY: as above
        unsafe { self.plan.decompress(null_mut(), &self.decode) }
    }
}

/// Compresses a field in host memory on device number `device`: copies it there, waits, copies the stream back.
///
/// # Errors
/// What HIP says; no memory for the field twice and its largest stream.
pub fn compress_host<T: Element>(device: i32, field: &[T], bound: Bound) -> Result<Vec<u8>, Error> {
    let hip = Hip::get()?;
    let work = || {
        let mut trip = Trip::new(hip, device, field.len(), field, &[], bound)?;
        trip.compress()?;
        let mut stream = vec![0; trip.outcome.outcome()? as usize];
        trip.stream.read(&mut stream).map(|()| stream)
    };
    // SAFETY: devices are always there
    unsafe { hip.within(device, work) }
}

/// Decompresses a stream in host memory into a field there, on device number `device`; gives the bytes of the stream.
///
/// # Errors
/// [`Error::Refused`]; what HIP says; no memory for the stream and its field.
pub fn decompress_host<T: Element>(device: i32, stream: &[u8], field: &mut [T]) -> Result<u64, Error> {
    let hip = Hip::get()?;
    let work = || {
        // decompressing takes the stream's bound
        let bound = Bound::new(1.0).expect("a bound");
        let mut trip = Trip::new::<T>(hip, device, field.len(), &[], stream, bound)?;
        trip.decode.bytes = stream.len() as u64;
        trip.decompress()?;
        let consumed = trip.outcome.outcome()?;
        trip.restored.read(bytemuck::cast_slice_mut(field)).map(|()| consumed)
    };
    // SAFETY: devices are always there
    unsafe { hip.within(device, work) }
}

/// Times a field in host memory on device number `device`: the medians of `repeats` measurements.
///
/// # Errors
/// What HIP says; no memory for the field twice and its largest stream.
///
/// # Panics
/// Where `repeats` is 0.
pub fn measure<T: Element>(device: i32, field: &[T], bound: Bound, repeats: usize) -> Result<Figures, Error> {
    let hip = Hip::get()?;
    let calls = calls_of(size_of_val(field));
    let time = |call: &mut dyn FnMut() -> Result<(), Error>| {
        let events = [Event::new(hip)?, Event::new(hip)?];
        // the first is not counted
        let times = (0..=repeats).map(|_| {
            events[0].record()?;
            (0..calls).try_for_each(|_| call())?;
            events[1].record()?;
            Ok(events[0].seconds_to(&events[1])? / calls as f64)
        });
        Ok::<_, Error>(median(times.skip(1).collect::<Result<_, Error>>()?))
    };
    let work = || {
        let mut trip = Trip::new(hip, device, field.len(), field, &[], bound)?;
        let encode_seconds = time(&mut || trip.compress())?;
        let stream_bytes = trip.outcome.outcome()?;
        trip.decode.bytes = stream_bytes;
        let decode_seconds = time(&mut || trip.decompress())?;
        trip.outcome.outcome()?;
        let (to, from) = (trip.restored.address as *mut c_void, trip.values.address as *const c_void);
        // SAFETY: both are as long as the field
        let copy_seconds = time(&mut || unsafe { hip.copy_async(to, from, size_of_val(field), COPY_BY_ADDRESS, null_mut()) })?;
        Ok(Figures { encode_seconds, decode_seconds, copy_seconds, stream_bytes })
    };
    // SAFETY: devices are always there
    unsafe { hip.within(device, work) }
}

/// An event of the default stream.
struct Event {
    hip: &'static Hip,
    handle: *mut c_void,
}

impl Event {
    fn new(hip: &'static Hip) -> Result<Self, Error> {
        let mut handle = null_mut();
        // SAFETY: writes the handle
        unsafe { hip.create_event(&raw mut handle) }.map(|()| Self { hip, handle })
    }

    fn record(&self) -> Result<(), Error> {
        // SAFETY: the event is alive
        unsafe { self.hip.record_event(self.handle, null_mut()) }
    }

    /// Waits for both.
    fn seconds_to(&self, end: &Self) -> Result<f64, Error> {
        let mut milliseconds = 0.0;
        // SAFETY: both are alive and recorded
        unsafe {
            self.hip.wait_for_event(end.handle)?;
            self.hip.elapsed(&raw mut milliseconds, self.handle, end.handle)?;
        }
        Ok(f64::from(milliseconds) / 1000.0)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created likewise
        drop(unsafe { self.hip.destroy_event(self.handle) });
    }
}
