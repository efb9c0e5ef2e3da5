//! A plan: the kernels of a context and a state in device memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Add;

use bytemuck::Zeroable;
use pfpl_host::internal::chunks_of;
use pfpl_host::{Element, ElementType};

use super::args::{CHUNK_STATE_BYTES, CONTROL_BYTES, FIELD_STATE_BYTES, Launch};
use super::driver::{FieldWords, Kernels, Stream};
use super::list::{Described, LAUNCH_CHUNKS, Part, Spans, check, split};
use super::memory::Memory;
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

    /// Fields that the state has room for.
    fn state_fields(self) -> u32 {
        u32::try_from(self.fields.max(1)).unwrap_or(u32::MAX)
    }

    /// Chunks that it has room for: those of one launch, which the next launch of a list uses again.
    fn state_chunks(self) -> u32 {
        self.chunks.min(LAUNCH_CHUNKS) as u32
    }

    fn state_bytes(self) -> usize {
        let fields = u64::from(self.state_fields()) * FIELD_STATE_BYTES;
        let chunks = u64::from(self.state_chunks()) * CHUNK_STATE_BYTES;
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
/// Only making, growing and dropping a plan, or a list prepared with it, allocates or frees, in the order of its stream (where the device
/// has no memory pools, the driver may wait for the device then). A call is one kernel launch (a list: as few as take it), nothing else: no copy, no event, no
/// synchronization; so calls can be captured into graphs. A graph uses its plan's state: it must not be launched after the plan is
/// dropped or grown, and its launches must not overlap each other or other calls of that plan.
pub struct Plan<D: Driver> {
    driver: &'static D,
    context: D::Context,
    kernels: &'static Kernels,
    state: Memory<D>,
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
        let capacity = Capacity { fields: capacity.fields.max(1), ..capacity };
        // SAFETY: as the caller promises
        let state = unsafe { fresh_state(driver, context, stream, kernels, capacity) }?;
        let fields = vec![Zeroable::zeroed(); D::FIELDS];
        Ok(Self { driver, context, kernels, state, capacity, fields, spans: Spans::default(), forced: Forced::default() })
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
        // SAFETY: as the plan's maker promised
        self.state = unsafe { fresh_state(self.driver, self.context, self.state.stream, self.kernels, capacity) }?;
        self.capacity = capacity;
        Ok(())
    }

    /// What the plan has room for.
    pub fn capacity(&self) -> Capacity {
        self.capacity
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
        self.state.stream = stream;
        let field = [call.args(0, self.forced.wide)];
        // SAFETY: as the caller promises; the check of the length has found that the chunks fit
        let work = || unsafe { self.launch::<C>(call.element(), Part { fields: 1, chunks: chunks as u32 }, 0, &field) };
        // SAFETY: the context is alive, as the plan's maker promised
        unsafe { self.driver.within(self.context, work) }
    }

    unsafe fn many<C: Described>(&mut self, stream: Stream, calls: &[C]) -> Result<(), Error> {
        let needed = check(calls, &mut self.spans)?;
        self.check_capacity(needed)?;
        self.state.stream = stream;
        let mut buffer = std::mem::take(&mut self.fields);
        let work = || {
            [ElementType::F32, ElementType::F64].into_iter().try_for_each(|element| {
                split(calls, element, self.forced.wide, bytemuck::cast_slice_mut(&mut buffer), |part, fields| {
                    // SAFETY: as the caller promises
                    unsafe { self.launch::<C>(element, part, 0, fields) }
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

    /// Checks a list of fields and keeps it in device memory, for [`Plan::compress_prepared`]. Allocates and waits for the stream.
    ///
    /// # Errors
    /// As [`Plan::reserve`], and [`Error::Argument`].
    ///
    /// # Safety
    /// `stream` is alive and of the plan's context, until the list is dropped or used on another.
    pub unsafe fn prepare_compress(&self, stream: Stream, fields: &[Encode]) -> Result<Prepared<D, Encode>, Error> {
        // SAFETY: as the caller promises
        unsafe { self.prepare(stream, fields) }
    }

    /// Checks a list of fields or ranges and keeps it in device memory, for [`Plan::decompress_prepared`].
    ///
    /// # Errors
    /// As [`Plan::prepare_compress`].
    ///
    /// # Safety
    /// As [`Plan::prepare_compress`].
    pub unsafe fn prepare_decompress(&self, stream: Stream, fields: &[Decode]) -> Result<Prepared<D, Decode>, Error> {
        // SAFETY: as the caller promises
        unsafe { self.prepare(stream, fields) }
    }

    /// Compresses a prepared list: one launch for each element type.
    ///
    /// # Errors
    /// [`Error::TooSmall`]; what the driver says of the launch.
    ///
    /// # Safety
    /// As [`Plan::compress`], for each field of the list, which is of the plan's context.
    pub unsafe fn compress_prepared(&mut self, stream: Stream, list: &mut Prepared<D, Encode>) -> Result<(), Error> {
        // SAFETY: as the caller promises
        unsafe { self.prepared(stream, list) }
    }

    /// Decompresses a prepared list: one launch for each element type.
    ///
    /// # Errors
    /// As [`Plan::compress_prepared`].
    ///
    /// # Safety
    /// As [`Plan::compress_prepared`].
    pub unsafe fn decompress_prepared(&mut self, stream: Stream, list: &mut Prepared<D, Decode>) -> Result<(), Error> {
        // SAFETY: as the caller promises
        unsafe { self.prepared(stream, list) }
    }

    unsafe fn prepare<C: Described>(&self, stream: Stream, calls: &[C]) -> Result<Prepared<D, C>, Error> {
        let capacity = check(calls, &mut Spans::default())?;
        let mut buffer: Vec<C::Args> = vec![Zeroable::zeroed(); calls.len()];
        let (mut fields, mut parts) = (Vec::<C::Args>::with_capacity(calls.len()), Vec::new());
        for element in [ElementType::F32, ElementType::F64] {
            split(calls, element, self.forced.wide, &mut buffer, |part, taken| {
                parts.push((element, part, size_of_val(&fields[..]) as u64));
                fields.extend_from_slice(&taken[..part.fields as usize]);
                Ok(())
            })?;
        }
        let (driver, bytes) = (self.driver, bytemuck::cast_slice::<_, u8>(&fields));
        // SAFETY: the memory is as long as the bytes, or a byte, for nothing cannot be allocated
        let upload = |address| unsafe { driver.upload(address, bytes, stream) };
        // SAFETY: as the caller and the plan's maker promised
        let memory = unsafe { Memory::new(driver, self.context, stream, self.kernels.pools, bytes.len().max(1), upload) }?;
        Ok(Prepared { memory, parts, capacity, calls: PhantomData })
    }

    unsafe fn prepared<C: Described>(&mut self, stream: Stream, list: &mut Prepared<D, C>) -> Result<(), Error> {
        self.check_capacity(list.capacity)?;
        (self.state.stream, list.memory.stream) = (stream, stream);
        let work = || {
            list.parts.iter().try_for_each(|&(element, part, offset)| {
                // SAFETY: as the caller promises; the fields that come as parameters are not looked at
                unsafe { self.launch::<C>(element, part, list.memory.address + offset, bytemuck::cast_slice(&self.fields)) }
            })
        };
        // SAFETY: the context is alive, as the plan's maker promised
        unsafe { self.driver.within(self.context, work) }
    }

    /// Launches one kernel, on the fields at device address `list` or, where that is 0, on `fields`: [`Driver::FIELDS`], or one.
    unsafe fn launch<C: Described>(&self, element: ElementType, part: Part, list: u64, fields: &[C::Args]) -> Result<(), Error> {
        let Forced { blocks, persistent, .. } = self.forced;
        // any kernel but one for a single field takes a list in memory
        let taken = if list == 0 { part.fields as usize } else { 2 };
        let chunks = if persistent || blocks > 0 { u32::MAX } else { part.chunks };
        let kernel = self.kernels.choose(C::ENCODES, element, taken, chunks);
        let most = if blocks == 0 { kernel.resident } else { blocks.min(kernel.resident) };
        let launch = Launch {
            state: self.state.address,
            list,
            field_capacity: self.capacity.state_fields(),
            fields: part.fields,
            chunks: part.chunks,
            chunk_capacity: self.capacity.state_chunks(),
        };
        // SAFETY: the addresses are memory as the caller promises
        unsafe { self.driver.launch(kernel, part.chunks.clamp(1, most), &launch, bytemuck::cast_slice(fields), self.state.stream) }
    }

    /// What tests force.
    #[doc(hidden)]
    pub fn force(&mut self, forced: Forced) {
        self.forced = forced;
    }

    /// Device address of the state, for tests.
    #[doc(hidden)]
    pub fn state(&self) -> u64 {
        self.state.address
    }
}

/// A cleared state, allocated and cleared in the stream's order.
///
/// # Safety
/// As [`Plan::with_kernels`].
unsafe fn fresh_state<D: Driver>(
    driver: &'static D,
    context: D::Context,
    stream: Stream,
    kernels: &Kernels,
    capacity: Capacity,
) -> Result<Memory<D>, Error> {
    let bytes = capacity.state_bytes();
    // SAFETY: the memory is this long
    let clear = |address| unsafe { driver.clear(address, bytes, stream) };
    // SAFETY: as the caller promises
    unsafe { Memory::new(driver, context, stream, kernels.pools, bytes, clear) }
}

/// A list of fields kept in device memory, for calls on the same fields again and again: a call is one launch for each element type,
/// however many fields there are, and spends no time on the host checking them. It is freed in the order of the stream that it was last
/// used on.
pub struct Prepared<D: Driver, F> {
    memory: Memory<D>,
    /// Each launch: its type, what it takes, and where in the memory its fields begin.
    parts: Vec<(ElementType, Part, u64)>,
    capacity: Capacity,
    calls: PhantomData<F>,
}

// SAFETY: as a plan's
unsafe impl<D: Driver, F> Send for Prepared<D, F> {}

impl<D: Driver, F> Prepared<D, F> {
    /// What a plan needs for the list.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }
}

impl<D: Driver, F> fmt::Debug for Prepared<D, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("parts", &self.parts).field("capacity", &self.capacity).finish()
    }
}

impl<D: Driver> fmt::Debug for Plan<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("context", &self.context)
            .field("stream", &self.state.stream)
            .field("capacity", &self.capacity)
            .finish()
    }
}
