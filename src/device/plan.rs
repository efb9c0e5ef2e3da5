//! A plan: the kernels of a context and a state in device memory.

use std::fmt;
use std::ops::Add;

use bytemuck::Zeroable;
use pfpl_host::internal::chunks_of;
use pfpl_host::{Element, ElementType};

use super::args::{CHUNK_STATE_BYTES, CONTROL_BYTES, FIELD_STATE_BYTES, Launch};
use super::driver::{FieldWords, Kernels, Stream};
use super::list::{Described, LAUNCH_CHUNKS, Part, Spans, check, split};
use super::{Decode, Driver, Encode, Error};

/// What a plan has room for, or a call needs: fields, and chunks of all of them together. Add capacities for a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Fields of a call.
    pub fields: usize,
    /// Chunks of those fields.
    pub chunks: u64,
}

impl Capacity {
    /// What a field of `n` values of type `T` needs.
    pub fn of<T: Element>(n: u64) -> Self {
        Self { fields: 1, chunks: chunks_of(T::TYPE, n) }
    }

    fn holds(self, needed: Self) -> bool {
        needed.fields <= self.fields && needed.chunks <= self.chunks
    }

    /// Fields of one launch, whose state the next launch of a list uses again.
    fn launch_fields<D: Driver>(self) -> usize {
        self.fields.clamp(1, D::FIELDS)
    }

    /// Chunks of one launch, likewise.
    fn launch_chunks(self) -> u32 {
        self.chunks.min(LAUNCH_CHUNKS) as u32
    }

    fn state_bytes<D: Driver>(self) -> usize {
        let fields = self.launch_fields::<D>() as u64 * FIELD_STATE_BYTES;
        let chunks = u64::from(self.launch_chunks()) * CHUNK_STATE_BYTES;
        (CONTROL_BYTES + fields + chunks) as usize
    }
}

impl Add for Capacity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { fields: self.fields.saturating_add(other.fields), chunks: self.chunks.saturating_add(other.chunks) }
    }
}

impl std::iter::Sum for Capacity {
    fn sum<I: Iterator<Item = Self>>(capacities: I) -> Self {
        capacities.fold(Self::default(), Self::add)
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fields of {} chunks in all", self.fields, self.chunks)
    }
}

/// What tests force.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Forced {
    /// The wide header where the narrow one would do.
    pub wide: bool,
    /// Grids of at most this many blocks, which need a kernel for any number of chunks; 0: as many as run at once.
    pub blocks: u32,
    /// A kernel for any number of chunks.
    pub persistent: bool,
}

/// The kernels of a context and what they need between and during calls: 4 KiB, 16 bytes a field of a list and 8 bytes a chunk of device
/// memory. Calls of one plan run one after the other: a plan serves one stream, or several that the caller orders.
///
/// Only making, growing and dropping a plan allocates or frees, in the order of its stream (where the device has no memory pools, the
/// driver may wait for the device then). A call is one kernel launch (a list: as few as take it), nothing else: no copy, no event, no
/// synchronization; so calls can be captured into graphs. A graph uses its plan's state: it must not be launched after the plan is
/// dropped or grown, and its launches must not overlap each other or other calls of that plan.
pub struct Plan<D: Driver> {
    driver: &'static D,
    context: D::Context,
    /// The last one used.
    stream: Stream,
    kernels: &'static Kernels,
    state: u64,
    capacity: Capacity,
    /// The fields of a launch, as the kernels take them.
    fields: Vec<FieldWords>,
    spans: Spans,
    forced: Forced,
}

// SAFETY: contexts and streams may be used from any thread, and a plan owns its state
unsafe impl<D: Driver> Send for Plan<D> {}

impl<D: Driver> Plan<D> {
    /// # Safety
    /// Context and stream are alive as long as the plan, `kernels` are the context's.
    pub(crate) unsafe fn with_kernels(
        driver: &'static D,
        context: D::Context,
        stream: Stream,
        kernels: &'static Kernels,
        capacity: Capacity,
    ) -> Result<Self, Error> {
        let fields = vec![Zeroable::zeroed(); D::FIELDS];
        let (capacity, state) = (Capacity { fields: capacity.fields.max(1), ..capacity }, 0);
        let mut plan =
            Self { driver, context, stream, kernels, state, capacity, fields, spans: Spans::default(), forced: Forced::default() };
        plan.state = plan.fresh_state(capacity)?;
        Ok(plan)
    }

    /// A cleared state, allocated and cleared in the stream's order.
    fn fresh_state(&self, capacity: Capacity) -> Result<u64, Error> {
        let (driver, stream, pools) = (self.driver, self.stream, self.kernels.pools);
        let bytes = capacity.state_bytes::<D>();
        let work = || {
            // SAFETY: the stream is alive and of this context, which is current
            unsafe {
                if driver.capturing(stream)? {
                    return Err(Error::Capturing);
                }
                let state = driver.allocate(bytes, stream, pools)?;
                driver.clear(state, bytes, stream).inspect_err(|_| drop(driver.free(state, stream, pools)))?;
                Ok(state)
            }
        };
        // SAFETY: the context is alive, as the plan's maker promised
        unsafe { driver.within(self.context, work) }
    }

    /// Grows the plan where it is too small for `needed`, in the order of the stream of its last call.
    ///
    /// # Errors
    /// What the driver says, [`Error::Capturing`]; the plan is then as it was.
    pub fn reserve(&mut self, needed: Capacity) -> Result<(), Error> {
        if self.capacity.holds(needed) {
            return Ok(());
        }
        let capacity = Capacity { fields: self.capacity.fields.max(needed.fields), chunks: self.capacity.chunks.max(needed.chunks) };
        let state = self.fresh_state(capacity)?;
        self.release();
        (self.state, self.capacity) = (state, capacity);
        Ok(())
    }

    /// What the plan has room for.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Frees the state in stream order. What cannot be freed is leaked: while the stream captures a graph, or when its context is gone.
    fn release(&mut self) {
        let (driver, stream, state, pools) = (self.driver, self.stream, self.state, self.kernels.pools);
        // SAFETY: the stream is alive and of this context; all work on the state is in its order
        let work = || unsafe { if driver.capturing(stream)? { Ok(()) } else { driver.free(state, stream, pools) } };
        // SAFETY: the context is alive, as the plan's maker promised
        drop(unsafe { driver.within(self.context, work) });
    }

    /// Compresses a field.
    ///
    /// # Errors
    /// [`Error::Argument`] and [`Error::TooSmall`] before any work; what the driver says of the launch. What comes of the work itself is
    /// for the outcome to say.
    ///
    /// # Safety
    /// `stream` is alive and of the plan's context, until the plan is dropped or used on another; earlier calls of this plan on other
    /// streams come before it. The addresses are device memory of the sizes given, in no other use until the stream has done this call,
    /// apart from being read where this call reads.
    pub unsafe fn compress(&mut self, stream: Stream, field: &Encode) -> Result<(), Error> {
        // SAFETY: as the caller promises
        unsafe { self.one(stream, field) }
    }

    /// Decompresses a field, or a range of it.
    ///
    /// # Errors
    /// As [`Plan::compress`].
    ///
    /// # Safety
    /// As [`Plan::compress`].
    pub unsafe fn decompress(&mut self, stream: Stream, field: &Decode) -> Result<(), Error> {
        // SAFETY: as the caller promises
        unsafe { self.one(stream, field) }
    }

    /// Compresses a list of fields, of both types in any order, with as few launches as take it.
    ///
    /// # Errors
    /// As [`Plan::compress`]. When a launch fails, those before it are queued.
    ///
    /// # Safety
    /// As [`Plan::compress`], for each field.
    pub unsafe fn compress_many(&mut self, stream: Stream, fields: &[Encode]) -> Result<(), Error> {
        // SAFETY: as the caller promises
        unsafe { self.many(stream, fields) }
    }

    /// Decompresses a list of fields or ranges, of both types in any order, with as few launches as take it.
    ///
    /// # Errors
    /// As [`Plan::compress_many`].
    ///
    /// # Safety
    /// As [`Plan::compress`], for each field.
    pub unsafe fn decompress_many(&mut self, stream: Stream, fields: &[Decode]) -> Result<(), Error> {
        // SAFETY: as the caller promises
        unsafe { self.many(stream, fields) }
    }

    unsafe fn one<C: Described>(&mut self, stream: Stream, call: &C) -> Result<(), Error> {
        let (mut written, read) = call.spans(0).map_err(|fault| Error::Argument { index: 0, fault })?;
        super::check::disjoint(&mut written, &mut [read])?;
        let chunks = call.chunks();
        self.check_capacity(Capacity { fields: 1, chunks })?;
        self.stream = stream;
        let field = [call.args(0, self.forced.wide)];
        // SAFETY: as the caller promises; the check of the length has found that the chunks fit
        let work = || unsafe { self.launch::<C>(call.element(), Part { fields: 1, chunks: chunks as u32 }, &field) };
        // SAFETY: the context is alive, as the plan's maker promised
        unsafe { self.driver.within(self.context, work) }
    }

    unsafe fn many<C: Described>(&mut self, stream: Stream, calls: &[C]) -> Result<(), Error> {
        let needed = check(calls, &mut self.spans)?;
        self.check_capacity(needed)?;
        self.stream = stream;
        let mut buffer = std::mem::take(&mut self.fields);
        let work = || {
            [ElementType::F32, ElementType::F64].into_iter().try_for_each(|element| {
                split(calls, element, self.forced.wide, bytemuck::cast_slice_mut(&mut buffer), |part, fields| {
                    // SAFETY: as the caller promises
                    unsafe { self.launch::<C>(element, part, fields) }
                })
            })
        };
        // SAFETY: the context is alive, as the plan's maker promised
        let result = unsafe { self.driver.within(self.context, work) };
        self.fields = buffer;
        result
    }

    fn check_capacity(&self, needed: Capacity) -> Result<(), Error> {
        if self.capacity.holds(needed) { Ok(()) } else { Err(Error::TooSmall { needed, reserved: self.capacity }) }
    }

    /// Launches one kernel. `fields` holds [`Driver::FIELDS`] where the part has more than one.
    unsafe fn launch<C: Described>(&self, element: ElementType, part: Part, fields: &[C::Args]) -> Result<(), Error> {
        let Forced { blocks, persistent, .. } = self.forced;
        let chunks = if persistent || blocks > 0 { u32::MAX } else { part.chunks };
        let kernel = self.kernels.choose(C::ENCODES, element, part.fields as usize, chunks);
        let most = if blocks == 0 { kernel.resident } else { blocks.min(kernel.resident) };
        let launch = Launch {
            state: self.state,
            list: 0,
            field_capacity: self.capacity.launch_fields::<D>() as u32,
            fields: part.fields,
            chunks: part.chunks,
            chunk_capacity: self.capacity.launch_chunks(),
        };
        // SAFETY: the addresses are memory as the caller promises
        unsafe { self.driver.launch(kernel, part.chunks.clamp(1, most), &launch, bytemuck::cast_slice(fields), self.stream) }
    }

    /// What tests force.
    #[doc(hidden)]
    pub fn force(&mut self, forced: Forced) {
        self.forced = forced;
    }

    /// Device address of the state, for tests.
    #[doc(hidden)]
    pub fn state(&self) -> u64 {
        self.state
    }
}

impl<D: Driver> Drop for Plan<D> {
    fn drop(&mut self) {
        if self.state != 0 {
            self.release();
        }
    }
}

impl<D: Driver> fmt::Debug for Plan<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("context", &self.context).field("stream", &self.stream).field("capacity", &self.capacity).finish()
    }
}
