use std::ffi::{c_char, c_void};

use pfpl::device::{Capacity, Decode, Encode, Error, Outcome};
use pfpl::{Bound, cuda, hip};

use crate::host::{element_type, optional, place, slice};
use crate::pfpl_status::{self, *};
use crate::status::guarded;

/// Which devices a plan is for.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, missing_docs)]
pub enum pfpl_backend {
    /// `stream` arguments are `CUstream`s, 0 the default stream.
    PFPL_CUDA = 1,
    /// `stream` arguments are `hipStream_t`s, 0 the default stream.
    PFPL_HIP = 2,
}

/// The kernels of a context or device and the memory they need between and during calls: opaque. Calls of one plan run one after the
/// other: use a plan for each stream. A plan may be used by any thread, by one at a time.
#[allow(non_camel_case_types)]
pub struct pfpl_plan(Plan);

enum Plan {
    Cuda(cuda::raw::Plan),
    Hip(hip::Plan),
}

/// What a plan has room for, or a call needs: add those of the fields of a list.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pfpl_capacity {
    /// Fields of a call.
    pub fields: u64,
    /// Chunks of those fields together.
    pub chunks: u64,
}

/// What a call leaves in device memory, in stream order, on success too.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pfpl_outcome {
    /// Bytes of the stream: needed (compressing) or consumed (decompressing).
    pub stream_bytes: u64,
    /// A `pfpl_status` from 0 to 8.
    pub status: u32,
    /// Lowest chunk to blame, or `UINT32_MAX`.
    pub chunk: u32,
}

const _: () = assert!(size_of::<pfpl_outcome>() == size_of::<Outcome>());

/// A field to compress on a device. All addresses are device memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pfpl_encode {
    /// Values, aligned to their type.
    pub field: *const c_void,
    /// How many.
    pub n: u64,
    /// Bound to keep.
    pub bound: f64,
    /// Stream to write, 4-byte aligned.
    pub stream: *mut c_void,
    /// Bytes there; 0 asks for the stream's length.
    pub capacity: u64,
    /// Where to leave the outcome (8-byte aligned), or NULL.
    pub outcome: *mut pfpl_outcome,
    /// `PFPL_F32` or `PFPL_F64`.
    pub element: u32,
    /// 0.
    pub reserved: u32,
}

/// A field to decompress on a device, or a range of its values. All addresses are device memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pfpl_decode {
    /// Stream, 4-byte aligned.
    pub stream: *const c_void,
    /// Bytes there; what follows the stream is not looked at.
    pub bytes: u64,
    /// Values of the whole field.
    pub n: u64,
    /// Where to write the values wanted, aligned to their type.
    pub field: *mut c_void,
    /// First of the values wanted.
    pub first: u64,
    /// How many: all of the field is `first` 0 and `count` n.
    pub count: u64,
    /// Where to leave the outcome (8-byte aligned), or NULL.
    pub outcome: *mut pfpl_outcome,
    /// `PFPL_F32` or `PFPL_F64`.
    pub element: u32,
    /// 0.
    pub reserved: u32,
}

/// What a field of `n` values needs of a plan. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn pfpl_capacity_of(element: u32, n: u64) -> pfpl_capacity {
    let chunks = element_type(element).map_or(0, |element| pfpl::internal::chunks_of(element, n));
    pfpl_capacity { fields: 1, chunks }
}

/// Makes a plan with room for `capacity`, its memory allocated and cleared in the order of `stream`. The first plan of a context loads
/// the kernels. `context` is, for CUDA, a `CUcontext` or NULL for the one current on this thread, which stays current; for HIP it is NULL
/// and the device number `device` counts, which CUDA does not look at. Where the call fails and `message` is not NULL, up to
/// `message_bytes` bytes of text, ended by a zero, say why. To be freed with `pfpl_plan_free`. Any thread.
///
/// # Safety
/// `context` and `stream` are alive as long as the plan; `plan` is writable; `message` is NULL or writable for `message_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_plan_new(
    backend: u32,
    context: *mut c_void,
    device: i32,
    stream: *mut c_void,
    capacity: pfpl_capacity,
    plan: *mut *mut pfpl_plan,
    message: *mut c_char,
    message_bytes: u64,
) -> pfpl_status {
    guarded(|| {
        // SAFETY: the caller's promise
        unsafe { tell("invalid argument: no such backend, or nowhere to put the plan", message, message_bytes) };
        // SAFETY: the caller's promise
        let plan = unsafe { place(plan)? };
        let capacity = capacity_of(capacity)?;
        let made = match backend {
            // SAFETY: the caller's promise
            1 => unsafe { cuda::raw::Plan::new(context, stream, capacity) }.map(Plan::Cuda),
            // SAFETY: the caller's promise
            2 => unsafe { hip::Plan::new(device, stream, capacity) }.map(Plan::Hip),
            _ => return Err(PFPL_INVALID_ARGUMENT),
        };
        let made = made.map_err(|error| {
            // SAFETY: the caller's promise
            unsafe { tell(&error.to_string(), message, message_bytes) };
            status_of(&error)
        })?;
        *plan = Box::into_raw(Box::new(pfpl_plan(made)));
        Ok(())
    })
}

/// Grows a plan where it is too small, in the order of the stream that it was used on last. With `pfpl_plan_new` the only call that
/// allocates or may wait for the device. After a failure the plan is as it was.
///
/// # Safety
/// `plan` is NULL (which is refused) or live, and no other thread is using it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_plan_reserve(plan: *mut pfpl_plan, capacity: pfpl_capacity) -> pfpl_status {
    guarded(|| {
        // SAFETY: the caller's promise
        let pfpl_plan(plan) = unsafe { place(plan)? };
        let capacity = capacity_of(capacity)?;
        match plan {
            Plan::Cuda(plan) => plan.reserve(capacity),
            Plan::Hip(plan) => plan.reserve(capacity),
        }
        .map_err(|error| status_of(&error))
    })
}

/// Frees a plan, whose last calls may still be under way; NULL is nothing to free. Captured graphs of its calls must not be launched
/// afterwards.
///
/// # Safety
/// `plan` comes from `pfpl_plan_new`, has not been freed, and no other thread is using it; its context and last stream are alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_plan_free(plan: *mut pfpl_plan) {
    if !plan.is_null() {
        guarded(|| {
            // SAFETY: the caller's promise
            drop(unsafe { Box::from_raw(plan) });
            Ok(())
        });
    }
}

/// Compresses `count` fields, of both types in any order, in the order of `stream`, with as few kernels as take them and nothing else: no
/// copy, no allocation, no wait. What comes of each is for its outcome to say; the status here is of the call alone, and unless it is
/// `PFPL_DEVICE_ERROR` nothing was started where it is not 0.
///
/// # Safety
/// `plan` is live and used by no other thread; `stream` is of its context; `fields` is readable for `count` of them, whose addresses are
/// device memory of the sizes said, in no other use until the stream has come past this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_plan_compress(
    plan: *mut pfpl_plan,
    stream: *mut c_void,
    fields: *const pfpl_encode,
    count: u64,
) -> pfpl_status {
    let encode = |field: &pfpl_encode| {
        Ok(Encode {
            element: element_type(field.element)?,
            field: field.field.addr() as u64,
            n: field.n,
            bound: Bound::new(field.bound).map_err(|_| PFPL_INVALID_BOUND)?,
            stream: field.stream.addr() as u64,
            capacity: field.capacity,
            outcome: field.outcome.addr() as u64,
        })
    };
    guarded(|| {
        // SAFETY: the caller's promise
        let (pfpl_plan(plan), fields) = unsafe { (place(plan)?, slice(fields, count)?) };
        // SAFETY: the caller's promise
        each(fields, encode, |fields| unsafe {
            match (plan, fields) {
                (Plan::Cuda(plan), [field]) => plan.compress(stream, field),
                (Plan::Cuda(plan), fields) => plan.compress_many(stream, fields),
                (Plan::Hip(plan), [field]) => plan.compress(stream, field),
                (Plan::Hip(plan), fields) => plan.compress_many(stream, fields),
            }
        })
    })
}

/// Decompresses `count` fields or ranges, of both types in any order. As `pfpl_plan_compress` otherwise.
///
/// # Safety
/// As `pfpl_plan_compress`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfpl_plan_decompress(
    plan: *mut pfpl_plan,
    stream: *mut c_void,
    fields: *const pfpl_decode,
    count: u64,
) -> pfpl_status {
    let decode = |field: &pfpl_decode| {
        Ok(Decode {
            element: element_type(field.element)?,
            stream: field.stream.addr() as u64,
            bytes: field.bytes,
            n: field.n,
            field: field.field.addr() as u64,
            first: field.first,
            count: field.count,
            outcome: field.outcome.addr() as u64,
        })
    };
    guarded(|| {
        // SAFETY: the caller's promise
        let (pfpl_plan(plan), fields) = unsafe { (place(plan)?, slice(fields, count)?) };
        // SAFETY: the caller's promise
        each(fields, decode, |fields| unsafe {
            match (plan, fields) {
                (Plan::Cuda(plan), [field]) => plan.decompress(stream, field),
                (Plan::Cuda(plan), fields) => plan.decompress_many(stream, fields),
                (Plan::Hip(plan), [field]) => plan.decompress(stream, field),
                (Plan::Hip(plan), fields) => plan.decompress_many(stream, fields),
            }
        })
    })
}

/// Translates descriptions and calls with them; a single one without allocating.
fn each<C, R>(
    fields: &[C],
    translate: impl Fn(&C) -> Result<R, pfpl_status>,
    call: impl FnOnce(&[R]) -> Result<(), Error>,
) -> Result<(), pfpl_status> {
    let called = match fields {
        [field] => call(&[translate(field)?]),
        fields => call(&fields.iter().map(translate).collect::<Result<Vec<_>, _>>()?),
    };
    called.map_err(|error| status_of(&error))
}

fn capacity_of(capacity: pfpl_capacity) -> Result<Capacity, pfpl_status> {
    let fields = usize::try_from(capacity.fields).map_err(|_| PFPL_INVALID_ARGUMENT)?;
    Ok(Capacity { fields, chunks: capacity.chunks })
}

fn status_of(error: &Error) -> pfpl_status {
    match error {
        Error::NoDriver { .. } | Error::Unsupported { .. } => PFPL_NO_DEVICE,
        Error::TooSmall { .. } => PFPL_PLAN_TOO_SMALL,
        Error::Argument { .. } => PFPL_INVALID_ARGUMENT,
        _ => PFPL_DEVICE_ERROR,
    }
}

/// Leaves a text.
///
/// # Safety
/// `message` is NULL or writable for `bytes` bytes.
unsafe fn tell(text: &str, message: *mut c_char, bytes: u64) {
    // SAFETY: the caller's promise
    if let (Ok(Some(_)), Some(room)) = (unsafe { optional(message) }, (bytes as usize).checked_sub(1)) {
        let length = (0..=room.min(text.len())).rev().find(|&length| text.is_char_boundary(length)).unwrap_or(0);
        // SAFETY: the caller's promise; length is less than bytes
        unsafe {
            message.copy_from_nonoverlapping(text.as_ptr().cast(), length);
            message.add(length).write(0);
        }
    }
}
