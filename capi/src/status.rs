use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pfpl::Error;

/// What every call gives back. 0 to 8 are the stream format's own statuses, which device-side outcomes hold too.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, missing_docs)]
pub enum pfpl_status {
    PFPL_OK = 0,
    /// The stream does not fit; the bytes that it needs are reported.
    PFPL_OVERFLOW = 1,
    /// Too short for a header, or none of the four magics.
    PFPL_NOT_A_STREAM = 2,
    /// The stream holds the other element type.
    PFPL_WRONG_TYPE = 3,
    /// The stream holds another number of values, or the range is not within the field.
    PFPL_WRONG_COUNT = 4,
    /// The header contradicts itself.
    PFPL_BAD_HEADER = 5,
    /// The stream is longer than the bytes given.
    PFPL_TRUNCATED = 6,
    /// An impossible entry of the size table.
    PFPL_BAD_TABLE = 7,
    /// A chunk does not add up to its length.
    PFPL_CORRUPT_CHUNK = 8,
    /// A null, misaligned or overlapping pointer, a size past the address space, or an unknown type.
    PFPL_INVALID_ARGUMENT = 100,
    /// The bound is not usable: zero, negative, NaN, infinite, or outside the normal float32 numbers up to half the largest.
    PFPL_INVALID_BOUND = 101,
    /// No memory, or no threads, for what was asked.
    PFPL_OUT_OF_RESOURCES = 102,
    /// The backend's driver or device is not there.
    PFPL_NO_DEVICE = 103,
    /// The device's driver refused a call.
    PFPL_DEVICE_ERROR = 104,
    /// The plan has no room for that many values or fields.
    PFPL_PLAN_TOO_SMALL = 105,
    /// A defect of this library: please report it.
    PFPL_INTERNAL_ERROR = 106,
}

use pfpl_status::*;

impl pfpl_status {
    const ALL: [Self; 16] = [
        PFPL_OK,
        PFPL_OVERFLOW,
        PFPL_NOT_A_STREAM,
        PFPL_WRONG_TYPE,
        PFPL_WRONG_COUNT,
        PFPL_BAD_HEADER,
        PFPL_TRUNCATED,
        PFPL_BAD_TABLE,
        PFPL_CORRUPT_CHUNK,
        PFPL_INVALID_ARGUMENT,
        PFPL_INVALID_BOUND,
        PFPL_OUT_OF_RESOURCES,
        PFPL_NO_DEVICE,
        PFPL_DEVICE_ERROR,
        PFPL_PLAN_TOO_SMALL,
        PFPL_INTERNAL_ERROR,
    ];

    fn text(self) -> &'static CStr {
        match self {
            PFPL_OK => c"ok",
            PFPL_OVERFLOW => c"overflow",
            PFPL_NOT_A_STREAM => c"not a stream",
            PFPL_WRONG_TYPE => c"wrong type",
            PFPL_WRONG_COUNT => c"wrong count",
            PFPL_BAD_HEADER => c"bad header",
            PFPL_TRUNCATED => c"truncated",
            PFPL_BAD_TABLE => c"bad table",
            PFPL_CORRUPT_CHUNK => c"corrupt chunk",
            PFPL_INVALID_ARGUMENT => c"invalid argument",
            PFPL_INVALID_BOUND => c"invalid bound",
            PFPL_OUT_OF_RESOURCES => c"out of resources",
            PFPL_NO_DEVICE => c"no device",
            PFPL_DEVICE_ERROR => c"device error",
            PFPL_PLAN_TOO_SMALL => c"plan too small",
            PFPL_INTERNAL_ERROR => c"internal error",
        }
    }

    /// A status of the format's number.
    pub(crate) fn of_format(status: pfpl::Status) -> Self {
        Self::ALL.into_iter().find(|known| *known as u32 == status as u32).unwrap_or(PFPL_INTERNAL_ERROR)
    }
}

impl From<&Error> for pfpl_status {
    fn from(error: &Error) -> Self {
        Self::of_format(error.status())
    }
}

/// A few words for a status; for a number that is none, they say so. Never NULL, never to be freed. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn pfpl_status_string(status: c_int) -> *const c_char {
    let known = pfpl_status::ALL.into_iter().find(|known| *known as c_int == status);
    known.map_or(c"unknown status", pfpl_status::text).as_ptr()
}

/// Runs the body of a call: a refusal becomes its status, and a panic stays on this side of the boundary.
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), pfpl_status>) -> pfpl_status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => PFPL_OK,
        Ok(Err(status)) => status,
        Err(_) => PFPL_INTERNAL_ERROR,
    }
}
