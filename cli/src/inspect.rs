//! `pfpl inspect`.

use std::fmt::Write;

use anyhow::Context;
use pfpl::Header;
use serde::Serialize;

use crate::args;
use crate::input::Bytes;
use crate::output::print;

/// Coded length of a chunk whose codes are all zero.
const EMPTY_BYTES: usize = 2;

/// What a stream holds, as `--json` prints it.
#[derive(Serialize)]
struct Report {
    element: String,
    header: &'static str,
    bound: f32,
    n: u64,
    field_bytes: u64,
    stream_bytes: u64,
    ratio: f64,
    chunks: u64,
    raw_chunks: u64,
    empty_chunks: u64,
    /// Bytes of the file after the stream.
    trailing_bytes: u64,
}

pub fn run(args: &args::Inspect) -> anyhow::Result<()> {
    let stream = Bytes::open(&args.stream)?;
    let report = report(&stream).with_context(|| format!("cannot read {}", args.stream.display()))?;
    if args.json {
        return print(serde_json::to_string_pretty(&report)? + "\n");
    }
    let mut text = String::new();
    writeln!(text, "values    {} {}", report.n, report.element)?;
    writeln!(text, "bound     {:e}", report.bound)?;
    writeln!(text, "ratio     {:.3} ({} bytes to {})", report.ratio, report.field_bytes, report.stream_bytes)?;
    writeln!(text, "chunks    {} ({} raw, {} empty)", report.chunks, report.raw_chunks, report.empty_chunks)?;
    writeln!(text, "header    {}", report.header)?;
    if report.trailing_bytes > 0 {
        writeln!(text, "trailing  {} bytes", report.trailing_bytes)?;
    }
    print(text)
}

fn report(stream: &[u8]) -> Result<Report, pfpl::Error> {
    let header = Header::read(stream)?;
    let (mut raw_chunks, mut empty_chunks) = (0, 0);
    for (length, raw) in pfpl::internal::chunk_sizes(stream)? {
        raw_chunks += u64::from(raw);
        empty_chunks += u64::from(length == EMPTY_BYTES);
    }
    let (field_bytes, stream_bytes) = (header.n.saturating_mul(header.element.bytes() as u64), header.stream_bytes());
    Ok(Report {
        element: header.element.to_string(),
        header: if header.wide { "wide" } else { "narrow" },
        bound: header.bound.get(),
        n: header.n,
        field_bytes,
        stream_bytes,
        ratio: field_bytes as f64 / stream_bytes as f64,
        chunks: header.chunks(),
        raw_chunks,
        empty_chunks,
        trailing_bytes: stream.len() as u64 - stream_bytes,
    })
}
