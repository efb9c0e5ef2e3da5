//! A simulation that writes compressed checkpoints while it goes on: many fields diffuse on a plane, every N steps all of them are
//! compressed with one call, and writer threads put the streams into one HDF5 file while the next steps run.

mod cpu;
mod field;
mod file;
mod report;

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use pfpl::Bound;

use field::{Field, Values};
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
    #[arg(long, default_value_t = 20)]
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
    #[arg(long, default_value_t = 256)]
    pub side: usize,
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

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Run(args) => run(args),
        Command::Check(args) => check(args),
        Command::Inspect { file } => {
            let checkpoint = file::read(&file)?;
            let bytes: usize = checkpoint.streams.iter().map(|stream| stream.bytes.len()).sum();
            println!("step {}: {} fields in {bytes} bytes, every sum right", checkpoint.step, checkpoint.streams.len());
            Ok(())
        }
    }
}

fn run(args: Run) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.folder)?;
    let bound = Bound::new(args.bound)?;
    let latest = if args.resume { file::latest(&args.folder)? } else { None };
    let (begun, fields) = match latest {
        Some(path) => restore(&path, &args.setup)?,
        None => (0, field::initial(&args.setup)),
    };
    let mut solver: Box<dyn Solver> = Box::new(cpu::Cpu::new(fields, bound, args.folder));
    let mut step = begun;
    while step < args.steps {
        let next = (step + args.every - step % args.every).min(args.steps);
        solver.advance(next - step)?;
        step = next;
        if step % args.every == 0 {
            solver.checkpoint(step)?;
        }
    }
    let report = solver.finish()?;
    println!("{report}");
    Ok(())
}

/// Step and fields of a checkpoint.
fn restore(path: &std::path::Path, setup: &Setup) -> anyhow::Result<(u64, Vec<Field>)> {
    let checkpoint = file::read(path)?;
    ensure!(checkpoint.streams.len() == setup.fields, "{} holds {} fields, not {}", path.display(), checkpoint.streams.len(), setup.fields);
    let fields = cpu::decompress(&checkpoint.streams, setup.side).with_context(|| format!("cannot restore {}", path.display()))?;
    Ok((checkpoint.step, fields))
}

fn check(args: Check) -> anyhow::Result<()> {
    let (step, restored) = restore(&args.file, &args.setup)?;
    ensure!(step <= args.steps, "the checkpoint's step {step} is past --steps {}", args.steps);
    let bound = file::bound(&args.file)?;
    let run = |fields, steps| -> anyhow::Result<_> {
        let mut solver = cpu::Cpu::new(fields, Bound::new(bound)?, PathBuf::new());
        solver.advance(steps)?;
        solver.fields()
    };
    let continued = run(restored, args.steps - step)?;
    let reference = run(field::initial(&args.setup), args.steps)?;
    let (mut largest, mut allowed) = (0.0f64, 0.0f64);
    for (a, b) in continued.iter().zip(&reference) {
        let (difference, rounding) = (a.largest_difference(b), b.rounding(args.steps - step));
        ensure!(difference <= bound + rounding, "{}: {difference:e} apart, more than {bound:e} and {rounding:e} of rounding", a.name);
        (largest, allowed) = (largest.max(difference), allowed.max(bound + rounding));
    }
    println!("continued from step {step} to {}: at most {largest:.3e} from the run without compression, {allowed:.3e} allowed", args.steps);
    Ok(())
}

impl Values {
    /// Bytes of the values.
    pub fn bytes(&self) -> usize {
        match self {
            Self::F32(values) => size_of_val(&values[..]),
            Self::F64(values) => size_of_val(&values[..]),
        }
    }
}
