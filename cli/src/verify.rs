//! `pfpl verify`.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use pfpl::Header;
use rayon::prelude::*;

use crate::args;
use crate::exact::{Value, finite_range, within};
use crate::input::{Bytes, Field, with_element};
use crate::output::print;

/// Values restored at a time, whatever the field's size.
const PIECE: usize = 1 << 23;

/// What a comparison of values counts.
#[derive(Default)]
struct Comparison {
    max_error: f64,
    past_bound: u64,
    /// Of those past the bound, pairs that are not both finite.
    not_finite: u64,
    raw: u64,
    /// Sum of squared errors and number of the pairs that are both finite.
    squares: f64,
    finite: u64,
}

impl Comparison {
    fn add<T: Value>(mut self, x: T, y: T, bound: f64) -> Self {
        let same_bits = bytemuck::bytes_of(&x) == bytemuck::bytes_of(&y);
        self.raw += u64::from(!y.is_bin(bound));
        let (x, y): (f64, f64) = (x.into(), y.into());
        if !(x.is_finite() && y.is_finite()) {
            if !same_bits {
                self.past_bound += 1;
                self.not_finite += 1;
                self.max_error = f64::INFINITY;
            }
            return self;
        }
        let error = (x - y).abs();
        self.past_bound += u64::from(!within(x, y, bound));
        self.max_error = self.max_error.max(error);
        self.squares += error * error;
        self.finite += 1;
        self
    }

    fn merge(self, other: Self) -> Self {
        Self {
            max_error: self.max_error.max(other.max_error),
            past_bound: self.past_bound + other.past_bound,
            not_finite: self.not_finite + other.not_finite,
            raw: self.raw + other.raw,
            squares: self.squares + other.squares,
            finite: self.finite + other.finite,
        }
    }
}

/// Prints the comparison; true where the bound is kept.
pub fn run(args: &args::Verify) -> anyhow::Result<bool> {
    if [&args.original, &args.stream].iter().all(|path| *path == Path::new("-")) {
        return Err(crate::usage("standard input cannot be both the field and its stream"));
    }
    let stream = Bytes::open(&args.stream)?;
    let name = args.stream.display();
    let header = Header::read(&stream).with_context(|| format!("cannot read {name}"))?;
    let field = Field::open_as(&args.original, &args.field, Some(header.element))?;
    ensure!(field.element == header.element, "{name} holds {} values, the original {}", header.element, field.element);
    let n = with_element!(header.element, T => field.values::<T>().len());
    ensure!(header.n == n as u64, "{name} holds {} values, the original {n}", header.n);
    let (comparison, range) = args.threads.run(|| {
        with_element!(header.element, T => compare::<T>(field.values(), &stream, &header).map(|done| (done, finite_range(field.values::<T>()))))
    })?.with_context(|| format!("cannot decompress {name}"))?;
    let Comparison { max_error, past_bound, not_finite, raw, squares, finite } = comparison;
    let mut text = String::new();
    writeln!(text, "max error         {max_error:e}")?;
    writeln!(text, "bound             {:e}", header.bound.get())?;
    writeln!(text, "values past it    {past_bound} of {}", header.n)?;
    if not_finite > 0 {
        writeln!(text, "of these          {not_finite} where the original or the restored value is NaN or infinite")?;
    }
    writeln!(text, "values kept raw   {raw}")?;
    let psnr = match range {
        _ if not_finite > 0 => "-inf dB".into(),
        None => "none: no finite value".into(),
        Some(_) if max_error == 0.0 => "none: no error".into(),
        Some(0.0) => "none: the field is constant".into(),
        Some(range) => format!("{:.2} dB", 20.0 * (range / (squares / finite as f64).sqrt()).log10()),
    };
    writeln!(text, "PSNR              {psnr}")?;
    writeln!(text, "ratio             {:.3}", (header.n as f64 * header.element.bytes() as f64) / header.stream_bytes() as f64)?;
    print(text)?;
    Ok(past_bound == 0)
}

fn compare<T: Value>(field: &[T], stream: &[u8], header: &Header) -> Result<Comparison, pfpl::Error> {
    // what no piece of an empty field would find
    if header.stream_bytes() > stream.len() as u64 {
        return Err(pfpl::Error::Truncated { needed: header.stream_bytes() });
    }
    let bound = f64::from(header.bound.get());
    let mut restored = vec![T::zeroed(); PIECE.min(field.len())];
    let mut sum = Comparison::default();
    for (piece, original) in field.chunks(PIECE).enumerate() {
        let first = (piece * PIECE) as u64;
        let restored = &mut restored[..original.len()];
        pfpl::decompress_range(stream, first, restored)?;
        let compared = original
            .par_chunks(1 << 14)
            .zip(restored.par_chunks(1 << 14))
            .map(|(original, restored)| original.iter().zip(restored).fold(Comparison::default(), |sum, (&x, &y)| sum.add(x, y, bound)));
        sum = sum.merge(compared.reduce(Comparison::default, Comparison::merge));
    }
    Ok(sum)
}
