//! The crate `hip-rs`: its streams and devices are borrowed raw handles here. (It does not show its memory's addresses.)

use hip_rs::{Device, Stream};

use super::{Capacity, Error, Plan};

impl Plan {
    /// As [`Plan::new`], on a device and a stream of `hip-rs`, whose [`Stream::handle`] the plan's calls take.
    ///
    /// # Errors
    /// As [`Plan::new`].
    ///
    /// # Safety
    /// As [`Plan::new`].
    pub unsafe fn on(device: Device, stream: &Stream, capacity: Capacity) -> Result<Self, Error> {
        // SAFETY: as the caller promises
        unsafe { Self::new(device.id(), stream.handle().cast(), capacity) }
    }
}
