//! Device memory of plans and prepared lists.

use super::driver::Stream;
use super::{Driver, Error};

/// Device memory, freed in the order of the stream that it was last used on.
pub(crate) struct Memory<D: Driver> {
    driver: &'static D,
    context: D::Context,
    pools: bool,
    /// The last one used.
    pub stream: Stream,
    pub address: u64,
}

impl<D: Driver> Memory<D> {
    /// Memory that `fill` has been called with, within the context; both in the stream's order.
    ///
    /// # Safety
    /// Context and stream are alive, now and when the memory is dropped; `pools` is what the context's device has.
    pub unsafe fn new(
        driver: &'static D,
        context: D::Context,
        stream: Stream,
        pools: bool,
        bytes: usize,
        fill: impl FnOnce(u64) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let work = || {
            // SAFETY: the stream is alive and of this context, which is current
            let address = unsafe {
                if driver.capturing(stream)? {
                    return Err(Error::Capturing);
                }
                driver.allocate(bytes, stream, pools)?
            };
            // SAFETY: just allocated
            fill(address).inspect_err(|_| drop(unsafe { driver.free(address, stream, pools) }))?;
            Ok(Self { driver, context, pools, stream, address })
        };
        // SAFETY: the context is alive
        unsafe { driver.within(context, work) }
    }
}

impl<D: Driver> Drop for Memory<D> {
    /// What cannot be freed is leaked: while the stream captures a graph, or when its context is gone.
    fn drop(&mut self) {
        let &mut Self { driver, context, pools, stream, address } = self;
        // SAFETY: the stream is alive and of this context; all work on the memory is in its order
        let work = || unsafe { if driver.capturing(stream)? { Ok(()) } else { driver.free(address, stream, pools) } };
        // SAFETY: the context is alive, as the maker promised
        drop(unsafe { driver.within(context, work) });
    }
}
