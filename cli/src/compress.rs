//! `pfpl compress`.

use std::path::{Path, PathBuf};

use pfpl::internal::Codec;
use pfpl::{Bound, Element, Error};

use crate::args;
use crate::exact::{Value, finite_range};
use crate::input::{Field, with_element};
use crate::output::{Mapped, Output};
use crate::progress::Progress;

pub fn run(args: &args::Compress) -> anyhow::Result<()> {
    let output = args.output.clone().unwrap_or_else(|| default_output(&args.input));
    let output = Output::new(&output, args.force)?;
    let field = Field::open(&args.input, &args.field)?;
    let length = args.threads.run(|| with_element!(field.element, T => compress::<T>(field.values(), args, &output)))??;
    output.finish(length)
}

fn default_output(input: &Path) -> PathBuf {
    if input == Path::new("-") {
        return input.into();
    }
    let mut name = input.as_os_str().to_owned();
    name.push(".pfpl");
    name.into()
}

fn compress<T: Value>(field: &[T], args: &args::Compress, output: &Output) -> anyhow::Result<u64> {
    let bound = args.step.bound(field, || finite_range(field))?;
    if let Some(coded) = args.device.device.compress(field, bound)? {
        output.map(coded.len() as u64)?.copy_from_slice(&coded);
        return Ok(coded.len() as u64);
    }
    let mut stream = room(field, bound, output)?;
    let progress = Progress::new("compressing", size_of_val(field) as u64);
    let observe = |values| progress.add((values * size_of::<T>()) as u64);
    Ok(Codec::default().compress_into_observed(field, bound, &mut stream, &observe)? as u64)
}

/// Room for the largest stream, or for this one where the disk has no more.
fn room<T: Element>(field: &[T], bound: Bound, output: &Output) -> anyhow::Result<Mapped> {
    output.map(pfpl::max_stream_bytes::<T>(field.len() as u64)).or_else(|_| match pfpl::compress_into(field, bound, &mut []) {
        Err(Error::Overflow { needed }) => output.map(needed),
        result => unreachable!("a size query overflows: {result:?}"),
    })
}
