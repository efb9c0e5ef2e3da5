//! Sends all 2³² binary32 patterns through the coder, on every instruction set that this processor has, and sees that each comes back
//! within the bound in exact arithmetic, or bit for bit where no bin holds it, and as the scalar model says.
//!
//!     cargo run --release -p pfpl-host --example exhaustive -- [--threads N] [--bounds B,B,…] [--factor ODD] [--every K]
//!
//! Patterns come in order, or each times an odd factor, which mixes exponents within a chunk. `--every K` sends every Kth block of 2¹⁸.

#[path = "../tests/model/mod.rs"]
mod model;

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use model::Patterns;
use pfpl_host::Bound;
use pfpl_host::internal::Codec;

const BLOCK: usize = 1 << 18;

fn main() -> ExitCode {
    let mut threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut bounds = vec![1e-3, 1e-4, 0.1, 3e-5, 1.0];
    let (mut factor, mut every) = (1u32, 1);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} takes a value"));
        match name.as_str() {
            "--threads" => threads = value.parse().expect("a number of threads"),
            "--bounds" => bounds = value.split(',').map(|bound| bound.parse().expect("a bound")).collect(),
            "--factor" => factor = value.parse().expect("an odd number"),
            "--every" => every = value.parse().expect("a number"),
            _ => panic!("unknown argument {name}"),
        }
    }
    assert!(factor % 2 == 1, "an even factor sends patterns twice");
    let codecs: Vec<Codec> = Codec::each().collect();
    println!("| bound | instruction set | patterns | raw | raw without second try | bound broken | unlike the model | seconds |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut good = true;
    for bound in bounds {
        let start = Instant::now();
        let bound = Bound::new(bound).expect("a bound");
        let blocks = Mutex::new((0..1u64 << 32).step_by(BLOCK * every));
        let sums = Mutex::new(vec![Patterns::default(); codecs.len()]);
        let next = || blocks.lock().expect("no thread panics").next();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(first) = next() {
                        let found = Patterns::send(first as u32, BLOCK, factor, bound, &codecs);
                        sums.lock().expect("no thread panics").iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
                    }
                });
            }
        });
        for (Codec { isa, .. }, sum) in codecs.iter().zip(sums.into_inner().expect("no thread panics")) {
            let Patterns { all, raw, broken, unlike } = sum;
            let seconds = start.elapsed().as_secs();
            println!("| {bound} | {isa:?} | {all} | {} | {} | {broken} | {unlike} | {seconds} |", raw[0], raw[1]);
            good &= broken == 0 && unlike == 0;
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
