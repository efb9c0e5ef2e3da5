//! `pfpl bench`.

use std::fmt::Write;
use std::time::Instant;

use pfpl::internal::useful_threads;
use serde::Serialize;

use crate::args;
use crate::exact::{Value, finite_range};
use crate::input::{Field, with_element};
use crate::output::print;

const RUNS: usize = 15;

/// Figures, as `--json` prints them.
#[derive(Serialize)]
struct Report {
    encode_bytes_per_s: f64,
    decode_bytes_per_s: f64,
    memcpy_bytes_per_s: f64,
    ratio: f64,
    bound: f32,
    field_bytes: usize,
    /// `cpu`, `cuda` or `hip`.
    device: &'static str,
    /// Threads of the CPU coder that the field gives work to; 0 where a GPU was measured.
    threads: usize,
    /// Threads that it was given.
    threads_given: usize,
}

pub fn run(args: &args::Bench) -> anyhow::Result<()> {
    let field = Field::open(&args.input, &args.field)?;
    let report = args.threads.run(|| with_element!(field.element, T => measure::<T>(field.values(), args)))??;
    if args.json {
        return print(serde_json::to_string_pretty(&report)? + "\n");
    }
    let mut text = String::new();
    writeln!(text, "encode  {:8.3} GB/s", report.encode_bytes_per_s / 1e9)?;
    writeln!(text, "decode  {:8.3} GB/s", report.decode_bytes_per_s / 1e9)?;
    writeln!(text, "memcpy  {:8.3} GB/s", report.memcpy_bytes_per_s / 1e9)?;
    writeln!(text, "ratio   {:8.3} at bound {:e}", report.ratio, report.bound)?;
    match report.threads {
        0 => writeln!(text, "device  {}: device memory to device memory", report.device),
        threads => writeln!(text, "device  cpu: {threads} of {} threads had work; memcpy on one", report.threads_given),
    }?;
    print(text)
}

fn measure<T: Value>(field: &[T], args: &args::Bench) -> anyhow::Result<Report> {
    if field.is_empty() {
        return Err(crate::usage("an empty field takes no time: give one with values"));
    }
    let bound = args.step.bound(field, || finite_range(field))?;
    let field_bytes = size_of_val(field);
    if let Some((device, figures)) = args.device.device.measure(field, bound, RUNS)? {
        let rate = |seconds| field_bytes as f64 / seconds;
        return Ok(Report {
            encode_bytes_per_s: rate(figures.encode_seconds),
            decode_bytes_per_s: rate(figures.decode_seconds),
            memcpy_bytes_per_s: rate(figures.copy_seconds),
            ratio: field_bytes as f64 / figures.stream_bytes as f64,
            bound: bound.get(),
            field_bytes,
            device,
            threads: 0,
            threads_given: 0,
        });
    }
    // copied, so that no page of a mapped file is read for the first time while the clock runs
    let field = field.to_vec();
    let mut stream = vec![0; pfpl::max_stream_bytes::<T>(field.len() as u64) as usize];
    let mut restored = vec![T::zeroed(); field.len()];
    let length = pfpl::compress_into(&field, bound, &mut stream)?;
    // interleaved, so that whatever else the machine does meets all three
    let mut seconds = [const { Vec::new() }; 3];
    for _ in 0..RUNS {
        let mut time = |which: usize, work: &mut dyn FnMut() -> Result<(), pfpl::Error>| {
            let begun = Instant::now();
            let result = work();
            seconds[which].push(begun.elapsed().as_secs_f64());
            result
        };
        time(0, &mut || pfpl::compress_into(&field, bound, &mut stream).map(drop))?;
        time(1, &mut || pfpl::decompress(&stream[..length], &mut restored).map(drop))?;
        time(2, &mut || {
            restored.copy_from_slice(&field);
            std::hint::black_box(&mut restored);
            Ok(())
        })?;
    }
    let [encode_bytes_per_s, decode_bytes_per_s, memcpy_bytes_per_s] = seconds.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        field_bytes as f64 / seconds[RUNS / 2]
    });
    Ok(Report {
        encode_bytes_per_s,
        decode_bytes_per_s,
        memcpy_bytes_per_s,
        ratio: field_bytes as f64 / length as f64,
        bound: bound.get(),
        field_bytes,
        device: "cpu",
        threads: useful_threads(&field),
        threads_given: rayon::current_num_threads(),
    })
}
