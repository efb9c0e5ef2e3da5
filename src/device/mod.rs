//! What the device backends share: launch arguments, argument checks, the splitting of lists into launches, and the plan.

pub(crate) mod args;
mod check;
pub(crate) mod driver;
mod error;
pub(crate) mod figures;
mod list;
mod memory;
mod plan;

pub use args::{Outcome, Refusal};
pub use driver::Driver;
pub(crate) use driver::{EntryPoint, Kernel, Kernels, driver_table};
pub use error::{Error, Fault};
pub use figures::Figures;
pub use list::{Decode, Encode};
pub use plan::{Capacity, Forced, Plan, Prepared};
