//! Error-bounded compression of float and double fields: the CPU coder of [`pfpl_host`], re-exported, and the device backends.

pub use pfpl_host::*;
