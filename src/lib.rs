#![doc = include_str!("../README.md")]

pub use pfpl_host::*;

#[cfg(all(feature = "cuda", feature = "rayon"))]
// the first definition of a link holds: the guide's own are for who reads it as a file
#[doc = "[`Bound::get`]: crate::Bound::get"]
#[doc = "[`Bound::power_of_two`]: crate::Bound::power_of_two"]
#[doc = "[`Header::read`]: crate::Header::read"]
#[doc = "[`Outcome`]: crate::device::Outcome"]
#[doc = "[`Plan::prepare_compress`]: crate::device::Plan::prepare_compress"]
#[doc = "[`Plan::reserve`]: crate::device::Plan::reserve"]
#[doc = "[`Status`]: crate::Status"]
#[doc = "[`max_stream_bytes`]: crate::max_stream_bytes"]
#[doc = include_str!("../docs/guide.md")]
pub mod guide {}

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(any(feature = "cuda", feature = "hip"))]
pub mod device;
#[cfg(feature = "hip")]
pub mod hip;
