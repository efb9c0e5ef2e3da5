//! CUDA: a field goes from one device array into another, and back, in one kernel launch in stream order.
//!
//! ```no_run
//! use pfpl::cuda::{Capacity, Outcome, Plan, context};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let n = 1 << 20;
//! let cuda_stream = context(0)?.new_stream()?;
//! let mut plan = Plan::new(&cuda_stream, Capacity::of::<f32>(n))?;
//! let field = cuda_stream.clone_htod(&vec![1.0f32; n as usize])?;
//! let mut stream = cuda_stream.alloc_zeros::<u8>(pfpl::max_stream_bytes::<f32>(n) as usize)?;
//! let mut outcome = cuda_stream.alloc_zeros::<Outcome>(1)?;
//! plan.compress(&field, pfpl::Bound::new(1e-3)?, &mut stream, Some(outcome.as_view_mut()))?;
//! // queued, not waited for; what reads the outcome after it in stream order finds the length and the verdict
//! let bytes = cuda_stream.clone_dtoh(&outcome)?[0].result()?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Plan`] belongs to one CUDA stream: use one plan a stream. Calls on slices whose context tracks events (`cudarc`'s default once
//! there are several streams) also wait for and record those slices' events; to capture a call into a graph as a kernel node alone, use
//! slices made while tracking was disabled, or [`raw`].
//!
//! Streams given are 4-byte aligned and fields aligned to their element; slices of either are, unless a view begins inside.

mod image;
pub mod raw;

use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr, DeviceSlice, DriverError, SyncOnDrop,
    ValidAsZeroBits,
};
use pfpl_host::{Bound, Element, max_stream_bytes};

pub use cudarc;

use crate::device::figures::{calls_of, median};
pub use crate::device::{Capacity, Error, Fault, Figures, Outcome, Refusal};
use crate::device::{Decode, Driver, Encode, Forced};
use raw::Cuda;

// SAFETY: plain words
unsafe impl DeviceRepr for Outcome {}
// SAFETY: all zero is a value
unsafe impl ValidAsZeroBits for Outcome {}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        let message = error.error_string().map_or_else(|_| "unknown error".to_owned(), |text| text.to_string_lossy().into_owned());
        Self::Driver { call: "a call of the CUDA driver", code: error.0 as u32, message }
    }
}

/// The primary context of device number `ordinal`. (`cudarc` itself panics where there is no driver.)
///
/// # Errors
/// Where there is no driver or no such device.
pub fn context(ordinal: usize) -> Result<Arc<CudaContext>, Error> {
    Cuda::get()?;
    Ok(CudaContext::new(ordinal)?)
}

/// A plan on a CUDA stream: see [`crate::device::Plan`] for what it holds and what graphs ask of it.
#[derive(Debug)]
pub struct Plan {
    // dropped first: it frees its state on the stream
    raw: raw::Plan,
    cuda_stream: Arc<CudaStream>,
}

impl Plan {
    /// A plan with room for `capacity`, its state allocated and cleared in stream order. The first plan of a context loads the kernels.
    ///
    /// # Errors
    /// Where there is no image for the device, no memory, or the stream captures a graph.
    pub fn new(cuda_stream: &Arc<CudaStream>, capacity: Capacity) -> Result<Self, Error> {
        let context = cuda_stream.context().cu_ctx();
        // SAFETY: the plan keeps the stream, which keeps the context
        let raw = unsafe { raw::Plan::new(context.cast(), cuda_stream.cu_stream().cast(), capacity) }?;
        Ok(Self { raw, cuda_stream: cuda_stream.clone() })
    }

    /// Grows the plan where it is too small for `needed`; a smaller plan keeps its state.
    ///
    /// # Errors
    /// What the driver says; the plan is then as it was.
    pub fn reserve(&mut self, needed: Capacity) -> Result<(), Error> {
        self.raw.reserve(needed)
    }

    /// What the plan has room for.
    pub fn capacity(&self) -> Capacity {
        self.raw.capacity()
    }

    /// The CUDA stream that the plan's calls are ordered on.
    pub fn cuda_stream(&self) -> &Arc<CudaStream> {
        &self.cuda_stream
    }

    /// Compresses `field` into `stream`, which may be empty to ask for the length. The first of `outcome` gets the verdict.
    ///
    /// # Errors
    /// [`Error::Argument`] and [`Error::TooSmall`] before any work; what the driver says of the launch.
    pub fn compress<T: Element>(
        &mut self,
        field: &impl DevicePtr<T>,
        bound: Bound,
        stream: &mut impl DevicePtrMut<u8>,
        outcome: Option<CudaViewMut<'_, Outcome>>,
    ) -> Result<(), Error> {
        let Self { raw, cuda_stream } = self;
        within(cuda_stream, || {
            let mut list = CompressList::new(cuda_stream);
            list.add(field, bound, stream)?;
            list.run(outcome, |fields| {
                // SAFETY: the slices are borrowed, and cudarc orders their later uses after this stream's work
                unsafe { raw.compress(cuda_stream.cu_stream().cast(), &fields[0]) }
            })
        })
    }

    /// Decompresses `stream`, which may be followed by other bytes, into `field`. The first of `outcome` gets the verdict.
    ///
    /// # Errors
    /// As [`Plan::compress`].
    pub fn decompress<T: Element>(
        &mut self,
        stream: &impl DevicePtr<u8>,
        field: &mut impl DevicePtrMut<T>,
        outcome: Option<CudaViewMut<'_, Outcome>>,
    ) -> Result<(), Error> {
        let n = field.len() as u64;
        self.decompress_range(stream, n, 0, field, outcome)
    }

    /// Decompresses `values.len()` values from `first` on of the field of `n` values that `stream` holds. Only their chunks are touched.
    ///
    /// # Errors
    /// As [`Plan::compress`].
    pub fn decompress_range<T: Element>(
        &mut self,
        stream: &impl DevicePtr<u8>,
        n: u64,
        first: u64,
        values: &mut impl DevicePtrMut<T>,
        outcome: Option<CudaViewMut<'_, Outcome>>,
    ) -> Result<(), Error> {
        let Self { raw, cuda_stream } = self;
        within(cuda_stream, || {
            let mut list = DecompressList::new(cuda_stream);
            list.add(stream, n, first, values)?;
            list.run(outcome, |fields| {
                // SAFETY: as in compress
                unsafe { raw.decompress(cuda_stream.cu_stream().cast(), &fields[0]) }
            })
        })
    }

    /// Compresses a list of fields with as few launches as take it; the outcomes are in the list's order.
    ///
    /// # Errors
    /// As [`Plan::compress`]. When a launch fails, those before it are queued.
    pub fn compress_many(&mut self, list: CompressList<'_>, outcomes: Option<CudaViewMut<'_, Outcome>>) -> Result<(), Error> {
        let Self { raw, cuda_stream } = self;
        list.check_stream(cuda_stream)?;
        within(cuda_stream, || {
            list.run(outcomes, |fields| {
                // SAFETY: as in compress
                unsafe { raw.compress_many(cuda_stream.cu_stream().cast(), fields) }
            })
        })
    }

    /// Decompresses a list of fields with as few launches as take it; the outcomes are in the list's order.
    ///
    /// # Errors
    /// As [`Plan::compress_many`].
    pub fn decompress_many(&mut self, list: DecompressList<'_>, outcomes: Option<CudaViewMut<'_, Outcome>>) -> Result<(), Error> {
        let Self { raw, cuda_stream } = self;
        list.check_stream(cuda_stream)?;
        within(cuda_stream, || {
            list.run(outcomes, |fields| {
                // SAFETY: as in compress
                unsafe { raw.decompress_many(cuda_stream.cu_stream().cast(), fields) }
            })
        })
    }

    /// What tests force.
    #[doc(hidden)]
    pub fn force(&mut self, forced: Forced) {
        self.raw.force(forced);
    }

    /// Device address of the state, for tests.
    #[doc(hidden)]
    pub fn state(&self) -> u64 {
        self.raw.state()
    }
}

/// Runs `work`, calls of `cudarc` among it, without changing the thread's current context.
fn within<R>(cuda_stream: &CudaStream, work: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // SAFETY: the stream keeps its context alive
    unsafe { Cuda::get()?.within(cuda_stream.context().cu_ctx().cast(), work) }
}

/// Fields for one call of a plan: borrowed until the call, in the CUDA stream's order afterwards.
#[derive(Debug)]
pub struct List<'a, F> {
    cuda_stream: &'a Arc<CudaStream>,
    fields: Vec<F>,
    capacity: Capacity,
    // record the slices' events once the call is queued
    uses: Vec<SyncOnDrop<'a>>,
}

/// Fields for [`Plan::compress_many`].
pub type CompressList<'a> = List<'a, Encode>;
/// Fields for [`Plan::decompress_many`].
pub type DecompressList<'a> = List<'a, Decode>;

impl<'a, F: OutcomeAt> List<'a, F> {
    /// An empty list for a plan on this CUDA stream.
    pub fn new(cuda_stream: &'a Arc<CudaStream>) -> Self {
        Self { cuda_stream, fields: Vec::new(), capacity: Capacity::default(), uses: Vec::new() }
    }

    /// Fields of the list.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// There is no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// What a plan needs for the list.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn check_stream(&self, cuda_stream: &CudaStream) -> Result<(), Error> {
        if **self.cuda_stream == *cuda_stream { Ok(()) } else { Err(Error::Argument { index: 0, fault: Fault::Context }) }
    }

    fn check_context(&self, of: &CudaStream) -> Result<(), Error> {
        let index = self.fields.len();
        if of.context() == self.cuda_stream.context() { Ok(()) } else { Err(Error::Argument { index, fault: Fault::Context }) }
    }

    /// Calls `launch` with the fields, outcomes set.
    fn run(mut self, outcomes: Option<CudaViewMut<'_, Outcome>>, launch: impl FnOnce(&[F]) -> Result<(), Error>) -> Result<(), Error> {
        let Some(mut outcomes) = outcomes else { return launch(&self.fields) };
        if outcomes.len() < self.fields.len() {
            return Err(Error::Argument { index: outcomes.len(), fault: Fault::Outcomes });
        }
        if DeviceSlice::stream(&outcomes).context() != self.cuda_stream.context() {
            return Err(Error::Argument { index: 0, fault: Fault::Context });
        }
        let (address, _use) = outcomes.device_ptr_mut(self.cuda_stream);
        for (index, field) in self.fields.iter_mut().enumerate() {
            *field.outcome() = address + (index * size_of::<Outcome>()) as u64;
        }
        launch(&self.fields)
    }
}

impl<'a> CompressList<'a> {
    /// Adds a field and where its stream goes.
    ///
    /// # Errors
    /// [`Fault::Context`].
    pub fn push<T: Element>(
        &mut self,
        field: &'a impl DevicePtr<T>,
        bound: Bound,
        stream: &'a mut impl DevicePtrMut<u8>,
    ) -> Result<(), Error> {
        within(self.cuda_stream, || self.add(field, bound, stream))
    }

    fn add<T: Element>(&mut self, field: &'a impl DevicePtr<T>, bound: Bound, stream: &'a mut impl DevicePtrMut<u8>) -> Result<(), Error> {
        self.check_context(field.stream())?;
        self.check_context(stream.stream())?;
        let (n, capacity) = (field.len() as u64, stream.len() as u64);
        let (field, field_use) = field.device_ptr(self.cuda_stream);
        let (stream, stream_use) = stream.device_ptr_mut(self.cuda_stream);
        self.uses.extend([field_use, stream_use]);
        self.capacity = self.capacity + Capacity::of::<T>(n);
        self.fields.push(Encode { element: T::TYPE, field, n, bound, stream, capacity, outcome: 0 });
        Ok(())
    }
}

impl<'a> DecompressList<'a> {
    /// Adds a stream, which may be followed by other bytes, and where its field goes.
    ///
    /// # Errors
    /// [`Fault::Context`].
    pub fn push<T: Element>(&mut self, stream: &'a impl DevicePtr<u8>, field: &'a mut impl DevicePtrMut<T>) -> Result<(), Error> {
        let n = field.len() as u64;
        self.push_range(stream, n, 0, field)
    }

    /// Adds a stream of a field of `n` values, and where its values from `first` on go.
    ///
    /// # Errors
    /// [`Fault::Context`].
    pub fn push_range<T: Element>(
        &mut self,
        stream: &'a impl DevicePtr<u8>,
        n: u64,
        first: u64,
        values: &'a mut impl DevicePtrMut<T>,
    ) -> Result<(), Error> {
        within(self.cuda_stream, || self.add(stream, n, first, values))
    }

    fn add<T: Element>(
        &mut self,
        stream: &'a impl DevicePtr<u8>,
        n: u64,
        first: u64,
        values: &'a mut impl DevicePtrMut<T>,
    ) -> Result<(), Error> {
        self.check_context(stream.stream())?;
        self.check_context(values.stream())?;
        let (bytes, count) = (stream.len() as u64, values.len() as u64);
        let (stream, stream_use) = stream.device_ptr(self.cuda_stream);
        let (field, field_use) = values.device_ptr_mut(self.cuda_stream);
        self.uses.extend([stream_use, field_use]);
        self.capacity = self.capacity + Capacity::of::<T>(n);
        self.fields.push(Decode { element: T::TYPE, stream, bytes, n, field, first, count, outcome: 0 });
        Ok(())
    }
}

/// Where a description keeps its outcome's address.
#[doc(hidden)]
pub trait OutcomeAt {
    fn outcome(&mut self) -> &mut u64;
}

impl OutcomeAt for Encode {
    fn outcome(&mut self) -> &mut u64 {
        &mut self.outcome
    }
}

impl OutcomeAt for Decode {
    fn outcome(&mut self) -> &mut u64 {
        &mut self.outcome
    }
}

/// Compresses a field in host memory on device number `ordinal`: copies it there, waits, copies the stream back.
///
/// # Errors
/// What the driver says; no memory for the field and its largest stream.
pub fn compress_host<T: Element>(ordinal: usize, field: &[T], bound: Bound) -> Result<Vec<u8>, Error> {
    let cuda_stream = context(ordinal)?.new_stream()?;
    let n = field.len() as u64;
    let mut plan = Plan::new(&cuda_stream, Capacity::of::<T>(n))?;
    let mut outcome = cuda_stream.alloc_zeros::<Outcome>(1)?;
    let values = upload(&cuda_stream, bytemuck::cast_slice(field))?;
    // SAFETY: the values are there
    let values = unsafe { values.transmute::<T>(field.len()) }.expect("as long as the field");
    // SAFETY: read only as far as the outcome says that it is written
    let mut stream = unsafe { cuda_stream.alloc::<u8>(max_stream_bytes::<T>(n) as usize) }?;
    plan.compress(&values, bound, &mut stream, Some(outcome.as_view_mut()))?;
    let bytes = cuda_stream.clone_dtoh(&outcome)?[0].result()?;
    Ok(cuda_stream.clone_dtoh(&stream.slice(..bytes as usize))?)
}

/// Decompresses a stream in host memory into a field there, on device number `ordinal`; gives the bytes of the stream.
///
/// # Errors
/// [`Error::Refused`]; what the driver says; no memory for the stream and its field.
pub fn decompress_host<T: Element>(ordinal: usize, stream: &[u8], field: &mut [T]) -> Result<u64, Error> {
    let cuda_stream = context(ordinal)?.new_stream()?;
    let n = field.len() as u64;
    let mut plan = Plan::new(&cuda_stream, Capacity::of::<T>(n))?;
    let mut outcome = cuda_stream.alloc_zeros::<Outcome>(1)?;
    let given = upload(&cuda_stream, stream)?;
    // SAFETY: read only where the outcome says that it is written
    let mut values = unsafe { cuda_stream.alloc::<u8>(size_of_val(field).max(1)) }?;
    // SAFETY: any bytes are values
    let mut typed = unsafe { values.transmute_mut::<T>(field.len()) }.expect("as long as the field");
    plan.decompress(&given.slice(..stream.len()), &mut typed, Some(outcome.as_view_mut()))?;
    let bytes = cuda_stream.clone_dtoh(&outcome)?[0].result()?;
    if !field.is_empty() {
        cuda_stream.memcpy_dtoh(&values, bytemuck::cast_slice_mut::<T, u8>(field))?;
        cuda_stream.synchronize()?;
    }
    Ok(bytes)
}

/// Times a field in host memory on device number `ordinal`: the medians of `repeats` measurements.
///
/// # Errors
/// What the driver says; no memory for the field twice and its largest stream.
///
/// # Panics
/// Where `repeats` is 0.
pub fn measure<T: Element>(ordinal: usize, field: &[T], bound: Bound, repeats: usize) -> Result<Figures, Error> {
    let cuda_stream = context(ordinal)?.new_stream()?;
    let (n, bytes) = (field.len() as u64, size_of_val(field));
    let mut plan = Plan::new(&cuda_stream, Capacity::of::<T>(n))?;
    let mut outcome = cuda_stream.alloc_zeros::<Outcome>(1)?;
    let values = upload(&cuda_stream, bytemuck::cast_slice(field))?;
    let mut restored = cuda_stream.alloc_zeros::<u8>(bytes.max(1))?;
    let mut stream = cuda_stream.alloc_zeros::<u8>(max_stream_bytes::<T>(n) as usize)?;
    let time = |call: &mut dyn FnMut() -> Result<(), Error>| {
        let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let calls = calls_of(bytes);
        // the first is not counted
        let times = (0..=repeats).map(|_| {
            let start = cuda_stream.record_event(flags)?;
            (0..calls).try_for_each(|_| call())?;
            Ok(f64::from(start.elapsed_ms(&cuda_stream.record_event(flags)?)?) / 1000.0 / calls as f64)
        });
        Ok::<_, Error>(median(times.skip(1).collect::<Result<_, Error>>()?))
    };
    // SAFETY: any bytes are values, and as many
    let (given, mut typed) = unsafe { (values.transmute::<T>(field.len()), restored.transmute_mut::<T>(field.len())) };
    let (given, typed) = (given.expect("as long as the field"), typed.as_mut().expect("as long as the field"));
    let encode_seconds = time(&mut || plan.compress(&given, bound, &mut stream, Some(outcome.as_view_mut())))?;
    let stream_bytes = cuda_stream.clone_dtoh(&outcome)?[0].result()?;
    let coded = stream.slice(..stream_bytes as usize);
    let decode_seconds = time(&mut || plan.decompress(&coded, typed, Some(outcome.as_view_mut())))?;
    cuda_stream.clone_dtoh(&outcome)?[0].result()?;
    let copy_seconds = time(&mut || Ok(cuda_stream.memcpy_dtod(&values, &mut restored)?))?;
    Ok(Figures { encode_seconds, decode_seconds, copy_seconds, stream_bytes })
}

/// A copy of the bytes in device memory, and at least one byte, for nothing cannot be allocated.
fn upload(cuda_stream: &Arc<CudaStream>, bytes: &[u8]) -> Result<CudaSlice<u8>, Error> {
    if bytes.is_empty() { Ok(cuda_stream.alloc_zeros(1)?) } else { Ok(cuda_stream.clone_htod(bytes)?) }
}
