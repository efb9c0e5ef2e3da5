//! The command `pfpl`: compresses, restores and checks float and double fields.

mod args;
mod bench;
mod compress;
mod decompress;
mod device;
mod ending;
mod exact;
mod input;
mod inspect;
mod manual;
mod output;
mod progress;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Args, Command};

/// `verify` found a value past the bound.
const BROKEN: u8 = 1;
/// The command line asks for something impossible.
const USAGE: u8 = 2;
/// An input, an output or the machine is to blame.
const FAILED: u8 = 3;

/// An error of the command line, found after parsing it.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

fn run(args: Args) -> anyhow::Result<ExitCode> {
    ending::watch_signals()?;
    match args.command {
        Command::Compress(args) => compress::run(&args)?,
        Command::Decompress(args) => decompress::run(&args)?,
        Command::Inspect(args) => inspect::run(&args)?,
        Command::Verify(args) => {
            if !verify::run(&args)? {
                return Ok(ExitCode::from(BROKEN));
            }
        }
        Command::Bench(args) => bench::run(&args)?,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "pfpl", &mut script);
            output::print(&script)?;
        }
        Command::Man => output::print(manual::page(Args::command())?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    run(Args::parse()).unwrap_or_else(|error| {
        eprintln!("pfpl: {error:#}");
        ExitCode::from(if error.is::<Usage>() { USAGE } else { FAILED })
    })
}
