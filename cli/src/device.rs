//! Which device does the work.

use anyhow::Context;
use clap::ValueEnum;
use pfpl::device::{Error, Figures};
use pfpl::{Bound, Element, cuda, hip};

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Device {
    /// A GPU where there is one, else the CPU
    Auto,
    Cpu,
    Cuda,
    Hip,
}

#[derive(clap::Args)]
pub struct DeviceArgs {
    /// What codes the field; the bytes are the same.
    #[arg(long, value_enum, default_value_t = Device::Auto)]
    pub device: Device,
}

impl Device {
    /// Does the work on the device asked for; `None` where it is the CPU's: asked for, or left by any GPU that `auto` has tried.
    fn run<R>(self, cuda: impl FnOnce() -> Result<R, Error>, hip: impl FnOnce() -> Result<R, Error>) -> anyhow::Result<Option<R>> {
        match self {
            Self::Auto => Ok(cuda().or_else(|_| hip()).ok()),
            Self::Cpu => Ok(None),
            Self::Cuda => cuda().map(Some).context("--device cuda"),
            Self::Hip => hip().map(Some).context("--device hip"),
        }
    }

    /// The stream of a field.
    pub fn compress<T: Element>(self, field: &[T], bound: Bound) -> anyhow::Result<Option<Vec<u8>>> {
        self.run(|| cuda::compress_host(0, field, bound), || hip::compress_host(0, field, bound))
    }

    /// Restores a field; whether it has been.
    pub fn decompress<T: Element>(self, stream: &[u8], field: &mut [T]) -> anyhow::Result<bool> {
        let field = std::cell::RefCell::new(field);
        let cuda = || cuda::decompress_host(0, stream, &mut field.borrow_mut());
        let hip = || hip::decompress_host(0, stream, &mut field.borrow_mut());
        self.run(cuda, hip).map(|done| done.is_some())
    }

    /// Times a field.
    pub fn measure<T: Element>(self, field: &[T], bound: Bound, repeats: usize) -> anyhow::Result<Option<(&'static str, Figures)>> {
        self.run(
            || cuda::measure(0, field, bound, repeats).map(|figures| ("cuda", figures)),
            || hip::measure(0, field, bound, repeats).map(|figures| ("hip", figures)),
        )
    }
}
