use std::alloc::{Layout, alloc_zeroed, dealloc, realloc};
use std::ffi::{c_char, c_void};

use pfpl::{Bound, Element, ElementType, Error, Header};

use crate::pfpl_status::{self, *};
use crate::status::guarded;

/// Element type of a field.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, missing_docs)]
pub enum pfpl_type {
    PFPL_F32 = 4,
    PFPL_F64 = 8,
}

/// Threads for the host calls: an opaque pool, to be made once and used by any thread.
#[allow(non_camel_case_types)]
pub struct pfpl_pool {
    pool: rayon::ThreadPool,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// What a stream's header says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pfpl_header {
    /// Values of the field.
    pub n: u64,
    /// Bytes of the whole stream.
    pub stream_bytes: u64,
    /// Chunks.
    pub chunks: u64,
    /// Bound recorded.
    pub bound: f32,
    /// `PFPL_F32` or `PFPL_F64`.
    pub element: u32,
    /// 1 for the wide header, else 0.
    pub wide: u32,
    /// 0.
    pub reserved: u32,
}

/// Where a decoder found a stream damaged, for `PFPL_BAD_TABLE` and `PFPL_CORRUPT_CHUNK`; `UINT64_MAX` in both for any other status.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pfpl_damage {
    /// Lowest chunk with the status.
    pub chunk: u64,
    /// Where that chunk or its table entry is, in bytes from the stream's start.
    pub offset: u64,
}

/// Version of the library: 10000 major + 100 minor + patch. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn pfpl_version() -> u32 {
    const fn number(digits: &str) -> u32 {
        let (digits, mut value, mut i) = (digits.as_bytes(), 0, 0);
        while i < digits.len() {
            value = 10 * value + (digits[i] - b'0') as u32;
            i += 1;
        }
        value
    }
    const {
        10_000 * number(env!("CARGO_PKG_VERSION_MAJOR"))
            + 100 * number(env!("CARGO_PKG_VERSION_MINOR"))
            + number(env!("CARGO_PKG_VERSION_PATCH"))
    }
}

/// Version of the library as text. Never to be freed. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn pfpl_version_string() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Version of the stream format that this library writes and reads: 1. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn pfpl_format_version() -> u32 {
    1
}

/// The largest power of two at or below `bound`, with which every bin is exact; NaN where `bound` is not usable. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn pfpl_power_of_two_bound(bound: f64) -> f64 {
    Bound::power_of_two(bound).map_or(f64::NAN, |bound| bound.get().into())
}

/// Largest stream of a field of `n` values, in bytes; UINT64_MAX where that is past 64 bits, 0 for an unknown type. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn pfpl_max_stream_bytes(element: u32, n: u64) -> u64 {
    match element_type(element) {
        Ok(ElementType::F32) => pfpl::max_stream_bytes::<f32>(n),
        Ok(ElementType::F64) => pfpl::max_stream_bytes::<f64>(n),
        Err(_) => 0,
    }
}

/// Reads the header at the start of `stream`, of which `bytes` bytes are there (32 are enough). Any thread.
///
/// # Safety
/// `stream` is readable for `bytes` bytes and `header` writable, or NULL (which is refused).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_read_header(stream: *const c_void, bytes: u64, header: *mut pfpl_header) -> pfpl_status {
    guarded(|| {
        // SAFETY: the caller's promise
        let (stream, header) = unsafe { (input::<u8>(stream, bytes)?, place(header)?) };
        let read = Header::read(stream).map_err(|error| pfpl_status::from(&error))?;
        *header = pfpl_header {
            n: read.n,
            stream_bytes: read.stream_bytes(),
            chunks: read.chunks(),
            bound: read.bound.get(),
            element: read.element.bytes() as u32,
            wide: read.wide.into(),
            reserved: 0,
        };
        Ok(())
    })
}

/// Bytes of the stream that begins at `stream`, of which `bytes` bytes are there (32 are enough). Any thread.
///
/// # Safety
/// `stream` is readable for `bytes` bytes and `stream_bytes` writable, or NULL (which is refused).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_stream_bytes(stream: *const c_void, bytes: u64, stream_bytes: *mut u64) -> pfpl_status {
    guarded(|| {
        // SAFETY: the caller's promise
        let (stream, stream_bytes) = unsafe { (input::<u8>(stream, bytes)?, place(stream_bytes)?) };
        *stream_bytes = pfpl::stream_bytes(stream).map_err(|error| pfpl_status::from(&error))?;
        Ok(())
    })
}

/// Makes a pool of `threads` threads, 0 for as many as there are cores. To be freed with `pfpl_pool_free`. Any thread.
///
/// # Safety
/// `pool` is writable, or NULL (which is refused).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_pool_new(threads: u32, pool: *mut *mut pfpl_pool) -> pfpl_status {
    guarded(|| {
        // SAFETY: the caller's promise
        let pool = unsafe { place(pool)? };
        let mut handles = Vec::new();
        let spawn = |thread: rayon::ThreadBuilder| {
            handles.push(std::thread::Builder::new().spawn(|| thread.run())?);
            Ok(())
        };
        let built = rayon::ThreadPoolBuilder::new().num_threads(threads as usize).spawn_handler(spawn).build();
        let built = built.map_err(|_| PFPL_OUT_OF_RESOURCES)?;
        *pool = Box::into_raw(Box::new(pfpl_pool { pool: built, threads: handles }));
        Ok(())
    })
}

/// Frees a pool that no call is using, once its threads have ended; NULL is nothing to free.
///
/// # Safety
/// `pool` comes from `pfpl_pool_new` and has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_pool_free(pool: *mut pfpl_pool) {
    if !pool.is_null() {
        guarded(|| {
            // SAFETY: the caller's promise
            let pfpl_pool { pool, threads } = *unsafe { Box::from_raw(pool) };
            drop(pool);
            // a library may be unloaded once none of its threads runs
            threads.into_iter().for_each(|thread| drop(thread.join()));
            Ok(())
        });
    }
}

/// Compresses `n` values at `field` into `capacity` bytes at `stream` and reports the stream's length in `stream_bytes`. Where the
/// stream does not fit, the status is `PFPL_OVERFLOW` and `stream_bytes` says what it needs: capacity 0 (with any `stream`) asks.
/// Runs on the calling thread, or on `pool` where it is not NULL. Any thread, also several at once with one pool.
///
/// # Safety
/// `field` is readable for `n` values of its type, `stream` writable for `capacity` bytes, `stream_bytes` writable, `pool` NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_compress_into(
    element: u32,
    field: *const c_void,
    n: u64,
    bound: f64,
    stream: *mut c_void,
    capacity: u64,
    stream_bytes: *mut u64,
    pool: *const pfpl_pool,
) -> pfpl_status {
    guarded(|| {
        let length_at = region(stream_bytes);
        // SAFETY: the caller's promise
        let (stream_bytes, pool) = unsafe { (place(stream_bytes)?, pool.as_ref()) };
        let bound = Bound::new(bound).map_err(|_| PFPL_INVALID_BOUND)?;
        disjoint(&[(field.addr(), field_bytes(element, n)?), (stream.addr(), capacity), length_at])?;
        // SAFETY: the caller's promise
        let stream = unsafe { output::<u8>(stream, capacity)? };
        let result = match element_type(element)? {
            // SAFETY: the caller's promise
            ElementType::F32 => unsafe { compress_into::<f32>(field, n, bound, stream, pool)? },
            // SAFETY: the caller's promise
            ElementType::F64 => unsafe { compress_into::<f64>(field, n, bound, stream, pool)? },
        };
        let (length, status) = match result {
            Ok(length) => (length as u64, Ok(())),
            Err(Error::Overflow { needed }) => (needed, Err(PFPL_OVERFLOW)),
            Err(error) => return Err(pfpl_status::from(&error)),
        };
        *stream_bytes = length;
        status
    })
}

/// Compresses `n` values at `field` into new memory, given in `stream` and to be freed with `pfpl_free(*stream, *stream_bytes)`. As
/// `pfpl_compress_into` otherwise.
///
/// # Safety
/// `field` is readable for `n` values of its type, `stream` and `stream_bytes` writable, `pool` NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_compress(
    element: u32,
    field: *const c_void,
    n: u64,
    bound: f64,
    stream: *mut *mut c_void,
    stream_bytes: *mut u64,
    pool: *const pfpl_pool,
) -> pfpl_status {
    guarded(|| {
        // SAFETY: the caller's promise
        let (stream, stream_bytes, pool) = unsafe { (place(stream)?, place(stream_bytes)?, pool.as_ref()) };
        let bound = Bound::new(bound).map_err(|_| PFPL_INVALID_BOUND)?;
        let (room, length) = match element_type(element)? {
            // SAFETY: the caller's promise
            ElementType::F32 => unsafe { compress::<f32>(field, n, bound, pool)? },
            // SAFETY: the caller's promise
            ElementType::F64 => unsafe { compress::<f64>(field, n, bound, pool)? },
        };
        *stream = room.cut(length)?.cast();
        *stream_bytes = length as u64;
        Ok(())
    })
}

/// Frees a stream that `pfpl_compress` made, given its length; NULL is nothing to free.
///
/// # Safety
/// Both come from one call of `pfpl_compress` and have not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_free(stream: *mut c_void, stream_bytes: u64) {
    if let (false, Some(layout)) = (stream.is_null(), stream_layout(stream_bytes as usize)) {
        // SAFETY: the caller's promise; pfpl_compress allocated with this layout
        unsafe { dealloc(stream.cast(), layout) };
    }
}

/// Decompresses the stream at `stream`, which has at most `bytes` bytes, into `n` values at `field`. `stream_bytes` (NULL, or where to
/// report the stream's length) and `damage` (NULL, or where to report what is damaged) are optional. After a refusal the values are
/// unspecified. Runs on the calling thread, or on `pool` where it is not NULL. Any thread, also several at once with one pool.
///
/// # Safety
/// `stream` is readable for `bytes` bytes, `field` writable for `n` values of its type, the others NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_decompress(
    element: u32,
    stream: *const c_void,
    bytes: u64,
    field: *mut c_void,
    n: u64,
    stream_bytes: *mut u64,
    damage: *mut pfpl_damage,
    pool: *const pfpl_pool,
) -> pfpl_status {
    guarded(|| {
        let (length_at, damage_at) = (region(stream_bytes), region(damage));
        // SAFETY: the caller's promise
        let (stream_bytes, mut damage, pool) = unsafe { (optional(stream_bytes)?, optional(damage)?, pool.as_ref()) };
        report(&mut damage, None);
        disjoint(&[(stream.addr(), bytes), (field.addr(), field_bytes(element, n)?), length_at, damage_at])?;
        // SAFETY: the caller's promise
        let stream = unsafe { input::<u8>(stream, bytes)? };
        let result = match element_type(element)? {
            ElementType::F32 => {
                // SAFETY: the caller's promise
                let field = unsafe { output::<f32>(field, n)? };
                within(pool, || pfpl::decompress(stream, field))
            }
            ElementType::F64 => {
                // SAFETY: the caller's promise
                let field = unsafe { output::<f64>(field, n)? };
                within(pool, || pfpl::decompress(stream, field))
            }
        };
        report(&mut damage, result.as_ref().err());
        let length = result.map_err(|error| pfpl_status::from(&error))?;
        if let Some(stream_bytes) = stream_bytes {
            *stream_bytes = length as u64;
        }
        Ok(())
    })
}

/// Decompresses `count` values from value `first` on into `field`, touching only the chunks that hold them. As `pfpl_decompress`
/// otherwise.
///
/// # Safety
/// `stream` is readable for `bytes` bytes, `field` writable for `count` values of its type, the others NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_decompress_range(
    element: u32,
    stream: *const c_void,
    bytes: u64,
    first: u64,
    field: *mut c_void,
    count: u64,
    damage: *mut pfpl_damage,
    pool: *const pfpl_pool,
) -> pfpl_status {
    guarded(|| {
        let damage_at = region(damage);
        // SAFETY: the caller's promise
        let (mut damage, pool) = unsafe { (optional(damage)?, pool.as_ref()) };
        report(&mut damage, None);
        disjoint(&[(stream.addr(), bytes), (field.addr(), field_bytes(element, count)?), damage_at])?;
        // SAFETY: the caller's promise
        let stream = unsafe { input::<u8>(stream, bytes)? };
        let result = match element_type(element)? {
            ElementType::F32 => {
                // SAFETY: the caller's promise
                let field = unsafe { output::<f32>(field, count)? };
                within(pool, || pfpl::decompress_range(stream, first, field))
            }
            ElementType::F64 => {
                // SAFETY: the caller's promise
                let field = unsafe { output::<f64>(field, count)? };
                within(pool, || pfpl::decompress_range(stream, first, field))
            }
        };
        report(&mut damage, result.as_ref().err());
        result.map_err(|error| pfpl_status::from(&error))
    })
}

/// Memory for a stream, freed where it is not handed out.
struct Room {
    memory: *mut u8,
    layout: Layout,
}

impl Room {
    fn new(bytes: u64) -> Result<Self, pfpl_status> {
        let layout = usize::try_from(bytes).ok().and_then(stream_layout).ok_or(PFPL_OUT_OF_RESOURCES)?;
        // SAFETY: the layout has bytes
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() { Err(PFPL_OUT_OF_RESOURCES) } else { Ok(Self { memory, layout }) }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: allocated with this size, and zeroed
        unsafe { std::slice::from_raw_parts_mut(self.memory, self.layout.size()) }
    }

    /// Hands out the first `bytes` bytes, of which there is at least one.
    fn cut(self, bytes: usize) -> Result<*mut u8, pfpl_status> {
        // SAFETY: allocated with this layout; fewer bytes do not overflow
        let memory = unsafe { realloc(self.memory, self.layout, bytes) };
        if memory.is_null() {
            return Err(PFPL_OUT_OF_RESOURCES);
        }
        std::mem::forget(self);
        Ok(memory)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout
        unsafe { dealloc(self.memory, self.layout) };
    }
}

/// Streams are allocated as the strictest reader of them, a device, would have them.
fn stream_layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, 16).ok().filter(|layout| layout.size() > 0)
}

unsafe fn compress_into<T: Element>(
    field: *const c_void,
    n: u64,
    bound: Bound,
    stream: &mut [u8],
    pool: Option<&pfpl_pool>,
) -> Result<Result<usize, Error>, pfpl_status> {
    // SAFETY: the caller's promise
    let field = unsafe { input::<T>(field, n)? };
    Ok(within(pool, || pfpl::compress_into(field, bound, stream)))
}

unsafe fn compress<T: Element>(field: *const c_void, n: u64, bound: Bound, pool: Option<&pfpl_pool>) -> Result<(Room, usize), pfpl_status> {
    // SAFETY: the caller's promise
    let field = unsafe { input::<T>(field, n)? };
    let mut room = Room::new(pfpl::max_stream_bytes::<T>(n))?;
    let stream = room.bytes();
    let length = within(pool, || pfpl::compress_into(field, bound, stream)).map_err(|error| pfpl_status::from(&error))?;
    Ok((room, length))
}

fn within<R: Send>(pool: Option<&pfpl_pool>, work: impl FnOnce() -> R + Send) -> R {
    match pool {
        Some(pool) => pool.pool.install(work),
        None => work(),
    }
}

fn report(damage: &mut Option<&mut pfpl_damage>, error: Option<&Error>) {
    if let Some(damage) = damage {
        let part = |part: fn(&Error) -> Option<u64>| error.and_then(part).unwrap_or(u64::MAX);
        **damage = pfpl_damage { chunk: part(Error::chunk), offset: part(Error::offset) };
    }
}

pub(crate) fn element_type(element: u32) -> Result<ElementType, pfpl_status> {
    match element {
        4 => Ok(ElementType::F32),
        8 => Ok(ElementType::F64),
        _ => Err(PFPL_INVALID_ARGUMENT),
    }
}

fn field_bytes(element: u32, n: u64) -> Result<u64, pfpl_status> {
    n.checked_mul(element_type(element)?.bytes() as u64).ok_or(PFPL_INVALID_ARGUMENT)
}

/// Address and bytes of a single value, NULL having none.
fn region<T>(address: *const T) -> (usize, u64) {
    (address.addr(), if address.is_null() { 0 } else { size_of::<T>() as u64 })
}

/// Refuses regions (address and bytes) any two of which share a byte.
fn disjoint(regions: &[(usize, u64)]) -> Result<(), pfpl_status> {
    let apart = |low: (usize, u64), high: (usize, u64)| low.0 as u64 <= high.0 as u64 && high.0 as u64 - low.0 as u64 >= low.1;
    let all = regions.iter().enumerate().all(|(i, &a)| regions[..i].iter().all(|&b| a.1 == 0 || b.1 == 0 || apart(a, b) || apart(b, a)));
    if all { Ok(()) } else { Err(PFPL_INVALID_ARGUMENT) }
}

/// Refuses what no slice can be: NULL, a misaligned address, more bytes than an address space half has.
fn checked<T>(address: usize, length: u64) -> Result<usize, pfpl_status> {
    let bytes = length.checked_mul(size_of::<T>() as u64).filter(|&bytes| bytes <= isize::MAX as u64).ok_or(PFPL_INVALID_ARGUMENT)?;
    if address == 0 || !address.is_multiple_of(align_of::<T>()) || address.checked_add(bytes as usize).is_none() {
        return Err(PFPL_INVALID_ARGUMENT);
    }
    Ok(length as usize)
}

/// # Safety
/// `address` is readable for `length` values, for as long as the slice lives.
unsafe fn input<'a, T>(address: *const c_void, length: u64) -> Result<&'a [T], pfpl_status> {
    if length == 0 {
        return Ok(&[]);
    }
    let length = checked::<T>(address.addr(), length)?;
    // SAFETY: checked above, the rest is the caller's promise
    Ok(unsafe { std::slice::from_raw_parts(address.cast(), length) })
}

/// As [`input`], of a typed address.
///
/// # Safety
/// As [`input`].
pub(crate) unsafe fn slice<'a, T>(address: *const T, length: u64) -> Result<&'a [T], pfpl_status> {
    // SAFETY: the caller's promise
    unsafe { input(address.cast(), length) }
}

/// # Safety
///
/// `address` is readable and writable for `length` values, and used by nobody else, for as long as the slice lives.
unsafe fn output<'a, T>(address: *mut c_void, length: u64) -> Result<&'a mut [T], pfpl_status> {
    if length == 0 {
        return Ok(&mut []);
    }
    let length = checked::<T>(address.addr(), length)?;
    // SAFETY: checked above, the rest is the caller's promise
    Ok(unsafe { std::slice::from_raw_parts_mut(address.cast(), length) })
}

/// # Safety
/// `address` is NULL or writable, and used by nobody else.
pub(crate) unsafe fn place<'a, T>(address: *mut T) -> Result<&'a mut T, pfpl_status> {
    // SAFETY: the caller's promise
    unsafe { optional(address)? }.ok_or(PFPL_INVALID_ARGUMENT)
}

/// As [`place`], NULL meaning nothing.
///
/// # Safety
/// `address` is NULL or writable, and used by nobody else.
pub(crate) unsafe fn optional<'a, T>(address: *mut T) -> Result<Option<&'a mut T>, pfpl_status> {
    if !address.is_null() {
        checked::<T>(address.addr(), 1)?;
    }
    // SAFETY: aligned; the rest is the caller's promise
    Ok(unsafe { address.as_mut() })
}
