//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use pfpl::{Bound, ElementType};

use crate::device::DeviceArgs;

/// Error-bounded compression of float and double fields.
///
/// Every restored value differs from the original by at most the bound, in exact arithmetic; what cannot be binned so (NaN, infinities,
/// values too large or too fine) comes back bit for bit.
#[derive(Parser)]
#[command(name = "pfpl", version, propagate_version = true, after_help = EXIT_STATUS)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_STATUS: &str = "Exit status: 0 done, 1 verify found the bound broken, 2 usage, 3 an input, an output or the machine is to blame, \
                           128 + N ended by signal N.";

#[derive(Subcommand)]
pub enum Command {
    Compress(Compress),
    Decompress(Decompress),
    Inspect(Inspect),
    Verify(Verify),
    Bench(Bench),
    /// Print a completion script for a shell.
    Completions {
        shell: clap_complete::Shell,
    },
    /// Print the manual page, all commands on one: pfpl man | man -l -
    Man,
}

/// Compress a field into a stream.
#[derive(clap::Args)]
pub struct Compress {
    /// Raw little-endian values (.f32, .f64, or any name with --dtype) or NumPy .npy, whose values are taken in C order; - for standard
    /// input. The stream does not record a shape.
    pub input: PathBuf,
    /// Stream to write; - for standard output [default: INPUT.pfpl]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub step: StepArgs,
    #[command(flatten)]
    pub field: FieldArgs,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub threads: Threads,
    /// Overwrite the output.
    #[arg(long)]
    pub force: bool,
}

/// Restore a field from a stream.
#[derive(clap::Args)]
pub struct Decompress {
    /// Stream to read; - for standard input.
    pub stream: PathBuf,
    /// Field to write: raw little-endian, or .npy where the name says so; - for standard output [default: STREAM without .pfpl]
    ///
    /// A name that ends in .f32 or .f64 must be that of the stream's type.
    pub output: Option<PathBuf>,
    /// Write .npy of this shape, in C order: at most 64 lengths separated by commas. Without it .npy has one axis, whatever the shape was.
    #[arg(long, value_delimiter = ',', value_name = "D,D,…")]
    pub shape: Option<Vec<u64>>,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub threads: Threads,
    /// Overwrite the output.
    #[arg(long)]
    pub force: bool,
}

/// Say what a stream holds.
#[derive(clap::Args)]
pub struct Inspect {
    /// Stream to read; - for standard input.
    pub stream: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Compare a stream with the field it came from; exit status 1 when the bound is broken.
#[derive(clap::Args)]
pub struct Verify {
    /// The original field.
    pub original: PathBuf,
    /// Its stream.
    pub stream: PathBuf,
    #[command(flatten)]
    pub field: FieldArgs,
    #[command(flatten)]
    pub threads: Threads,
}

/// Measure encoding, decoding and memcpy on a field: medians, in bytes of field a second.
#[derive(clap::Args)]
pub struct Bench {
    /// Field to read.
    pub input: PathBuf,
    #[command(flatten)]
    pub step: StepArgs,
    #[command(flatten)]
    pub field: FieldArgs,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub threads: Threads,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct FieldArgs {
    /// Element type of a raw field [default: from the name's ending]
    #[arg(long)]
    pub dtype: Option<Dtype>,
}

#[derive(clap::Args)]
pub struct Threads {
    /// Threads of the CPU coder; four a core at most are started [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

impl Threads {
    /// Runs `work` in a pool of that many threads.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> anyhow::Result<R> {
        let most = 4 * std::thread::available_parallelism().map_or(1, usize::from);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads.map_or(0, |threads| most.min(threads.into()))).build()?;
        Ok(pool.install(work))
    }
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct BoundArgs {
    /// Largest difference allowed between a value and its restored value.
    #[arg(long, allow_negative_numbers = true)]
    bound: Option<f64>,
    /// The bound as a part of the range of the field's finite values.
    #[arg(long, allow_negative_numbers = true)]
    rel: Option<f64>,
}

#[derive(clap::Args)]
#[group(skip)]
pub struct StepArgs {
    #[command(flatten)]
    bound: BoundArgs,
    /// Use the bound itself, the largest power of two below it (pays for values whose own precision is near the bound), or whichever
    /// gives the smaller stream on a sample.
    #[arg(long, value_enum, default_value_t = StepChoice::Exact)]
    step: StepChoice,
}

/// Chunks that `--step auto` codes both ways.
const SAMPLE_CHUNKS: usize = 64;

#[derive(Clone, Copy, ValueEnum)]
pub enum StepChoice {
    Exact,
    Pow2,
    Auto,
}

impl StepArgs {
    /// The bound asked for, as a number; `range` gives that of the finite values.
    fn number(&self, range: impl FnOnce() -> Option<f64>) -> anyhow::Result<f64> {
        let Some(rel) = self.bound.rel else { return Ok(self.bound.bound.expect("one of the two is required")) };
        match range() {
            Some(range) if range > 0.0 => Ok(rel * range),
            _ => Err(crate::usage("--rel needs a field with two different finite values: give --bound")),
        }
    }

    /// The bound to use for `field`.
    pub fn bound<T: pfpl::Element>(&self, field: &[T], range: impl FnOnce() -> Option<f64>) -> anyhow::Result<Bound> {
        let number = self.number(range)?;
        let exact = Bound::new(number).map_err(|error| crate::usage(error.to_string()))?;
        let pow2 = Bound::power_of_two(number).map_err(|error| crate::usage(error.to_string()))?;
        let estimate = |bound| pfpl::estimate(field, bound, SAMPLE_CHUNKS).ratio;
        Ok(match self.step {
            StepChoice::Exact => exact,
            StepChoice::Pow2 => pow2,
            StepChoice::Auto if estimate(pow2) > estimate(exact) => pow2,
            StepChoice::Auto => exact,
        })
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Dtype {
    F32,
    F64,
}

impl From<Dtype> for ElementType {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F32 => Self::F32,
            Dtype::F64 => Self::F64,
        }
    }
}
