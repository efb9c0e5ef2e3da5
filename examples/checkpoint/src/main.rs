//! A simulation that writes compressed checkpoints while it goes on: many fields diffuse on a plane, every N steps all of them are
//! compressed with one call, and writer threads put the streams into one HDF5 file while the next steps run.

mod cpu;
mod field;
mod file;
mod gpu;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::builder::RangedU64ValueParser;
use clap::{Parser, Subcommand, ValueEnum};
use pfpl::{Bound, Header};

use field::Field;
use file::Checkpoint;
use gpu::{Gpu, Start};
use report::Report;

#[derive(Parser)]
#[command(version, about = "A diffusing simulation that writes compressed checkpoints while it goes on")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the simulation and write checkpoints.
    Run(Run),
    /// Continue from a checkpoint, and compare with a run that never compressed.
    Check(Check),
    /// Check every sum of a checkpoint and print what it holds.
    Inspect {
        /// Checkpoint to read.
        file: PathBuf,
    },
}

#[derive(clap::Args)]
struct Run {
    #[command(flatten)]
    setup: Setup,
    /// Steps to run.
    #[arg(long, default_value_t = 100)]
    steps: u64,
    /// Steps between checkpoints.
    #[arg(long, default_value_t = 20, value_parser = at_least_one::<u64>())]
    every: u64,
    /// Largest error of a checkpoint's values.
    #[arg(long, default_value_t = 1e-3)]
    bound: f64,
    /// Folder for the checkpoints; the last two are kept.
    #[arg(long, default_value = "checkpoints")]
    folder: PathBuf,
    /// Continue from the latest checkpoint in the folder, where there is one.
    #[arg(long)]
    resume: bool,
}

#[derive(clap::Args)]
struct Check {
    #[command(flatten)]
    setup: Setup,
    /// Checkpoint to continue from.
    file: PathBuf,
    /// Step to run to.
    #[arg(long, default_value_t = 100)]
    steps: u64,
}

#[derive(clap::Args, Clone)]
pub struct Setup {
    /// Fields, every third of them float64.
    #[arg(long, default_value_t = 32)]
    pub fields: usize,
    /// Side of a field's square plane, in values.
    #[arg(long, default_value_t = 256, value_parser = at_least_one::<usize>())]
    pub side: usize,
    /// Where the fields are.
    #[arg(long, value_enum, default_value_t = Device::Auto)]
    pub device: Device,
    /// Streams of the device, each with its own fields, plan and thread that collects what it compresses.
    #[arg(long, default_value_t = 4, value_parser = at_least_one::<usize>())]
    pub streams: usize,
}

fn at_least_one<T: TryFrom<u64>>() -> RangedU64ValueParser<T> {
    RangedU64ValueParser::new().range(1..)
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Device {
    /// A CUDA device where there is one, else the CPU
    Auto,
    Cpu,
    Cuda,
}

impl Device {
    fn is_cuda(self) -> anyhow::Result<bool> {
        match self {
            Self::Auto => Ok(pfpl::cuda::context(0).is_ok()),
            Self::Cpu => Ok(false),
            Self::Cuda => Ok(pfpl::cuda::context(0).map(|_| true)?),
        }
    }
}

/// What advances the fields and compresses them.
pub trait Solver {
    /// Runs steps.
    fn advance(&mut self, steps: u64) -> anyhow::Result<()>;
    /// Compresses all fields as they are now and has them written as the checkpoint of `step`, as far as possible without waiting.
    fn checkpoint(&mut self, step: u64) -> anyhow::Result<()>;
    /// Waits for the checkpoints under way.
    fn finish(&mut self) -> anyhow::Result<Report>;
    /// The fields as they are now.
    fn fields(&mut self) -> anyhow::Result<Vec<Field>>;
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Run(args) => run(args),
        Command::Check(args) => check(args),
        Command::Inspect { file } => inspect(&file),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("checkpoint: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn inspect(file: &Path) -> anyhow::Result<()> {
    let checkpoint = file::read(file)?;
    let bytes: usize = checkpoint.streams.iter().map(|stream| stream.bytes.len()).sum();
    println!("step {}: {} fields in {bytes} bytes, every sum right", checkpoint.step, checkpoint.streams.len());
    Ok(())
}

/// A solver that starts from a checkpoint, or anew; and its step.
fn solver(setup: &Setup, from: Option<&Path>, bound: Bound, folder: PathBuf) -> anyhow::Result<(u64, Box<dyn Solver>)> {
    let checkpoint = from.map(|path| file::read(path).with_context(|| format!("cannot read {}", path.display()))).transpose()?;
    if let Some(Checkpoint { streams, .. }) = &checkpoint {
        ensure!(streams.len() == setup.fields, "the checkpoint holds {} fields, not {}", streams.len(), setup.fields);
        for stream in streams {
            let n = Header::read(&stream.bytes)?.n;
            ensure!(n == (setup.side * setup.side) as u64, "{} has {n} values, not those of a plane of side {}", stream.name, setup.side);
        }
    }
    let step = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.step);
    let solver: Box<dyn Solver> = match (setup.device.is_cuda()?, &checkpoint) {
        (true, Some(checkpoint)) => Box::new(Gpu::new(&Start::Streams(&checkpoint.streams), setup.side, bound, folder, setup.streams)?),
        (true, None) => Box::new(Gpu::new(&Start::Fields(&field::initial(setup)), setup.side, bound, folder, setup.streams)?),
        (false, Some(checkpoint)) => Box::new(cpu::Cpu::new(cpu::decompress(&checkpoint.streams, setup.side)?, bound, folder)),
        (false, None) => Box::new(cpu::Cpu::new(field::initial(setup), bound, folder)),
    };
    Ok((step, solver))
}

fn run(args: Run) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.folder)?;
    let bound = Bound::new(args.bound)?;
    let latest = if args.resume { file::latest(&args.folder)? } else { None };
    let (mut step, mut solver) = solver(&args.setup, latest.as_deref(), bound, args.folder)?;
    while step < args.steps {
        let next = (step + args.every - step % args.every).min(args.steps);
        solver.advance(next - step)?;
        step = next;
        if step.is_multiple_of(args.every) {
            solver.checkpoint(step)?;
        }
    }
    let report = solver.finish()?;
    println!("{report}");
    Ok(())
}

fn check(args: Check) -> anyhow::Result<()> {
    let bound = file::bound(&args.file)?;
    let run = |from: Option<&Path>| -> anyhow::Result<_> {
        let (step, mut solver) = solver(&args.setup, from, Bound::new(bound)?, PathBuf::new())?;
        ensure!(step <= args.steps, "the checkpoint's step {step} is past --steps {}", args.steps);
        solver.advance(args.steps - step)?;
        Ok((step, solver.fields()?))
    };
    let (step, continued) = run(Some(&args.file))?;
    let (_, reference) = run(None)?;
    let (mut largest, mut allowed) = (0.0f64, 0.0f64);
    for (a, b) in continued.iter().zip(&reference) {
        let (difference, rounding) = (a.largest_difference(b), b.rounding(args.steps - step));
        ensure!(difference <= bound + rounding, "{}: {difference:e} apart, more than {bound:e} and {rounding:e} of rounding", a.name);
        (largest, allowed) = (largest.max(difference), allowed.max(bound + rounding));
    }
    println!("continued from step {step} to {}: at most {largest:.3e} from the run without compression, {allowed:.3e} allowed", args.steps);
    Ok(())
}
