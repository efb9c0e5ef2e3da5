//! `pfpl decompress`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use npyz::WriterBuilder;
use pfpl::internal::Codec;
use pfpl::{Element, Header};

use crate::args;
use crate::input::{Bytes, named_type, values_in, with_element};
use crate::output::Output;
use crate::progress::Progress;

/// Lengths of a shape that NumPy reads.
const MAX_LENGTHS: usize = 64;

pub fn run(args: &args::Decompress) -> anyhow::Result<()> {
    if let Some(lengths) = args.shape.as_ref().map(Vec::len).filter(|&lengths| lengths > MAX_LENGTHS) {
        return Err(crate::usage(format!("--shape has {lengths} lengths: NumPy reads {MAX_LENGTHS} at most")));
    }
    let target = match &args.output {
        Some(target) => target.clone(),
        None => default_output(&args.stream)?,
    };
    let npy = args.shape.is_some() || target.extension().is_some_and(|ending| ending == "npy");
    let output = Output::new(&target, args.force)?;
    let stream = Bytes::open(&args.stream)?;
    let name = args.stream.display();
    let header = Header::read(&stream).with_context(|| format!("cannot read {name}"))?;
    // before anything is sized by the header
    if header.stream_bytes() > stream.len() as u64 {
        return Err(pfpl::Error::Truncated { needed: header.stream_bytes() }).with_context(|| format!("cannot read {name}"));
    }
    // whoever reads the file goes by its name
    let told = named_type(&target);
    if told.is_some_and(|told| told != header.element) {
        return Err(crate::usage(format!("{name} holds {} values: {} names another type", header.element, target.display())));
    }
    if told.is_some() && npy {
        eprintln!("pfpl: {} will be .npy, as --shape asks, whatever its name", target.display());
    }
    let before = match (npy, &args.shape) {
        (false, _) => Vec::new(),
        (true, None) => npy_header(&header, &[header.n])?,
        (true, Some(shape)) => {
            if values_in(shape) != Some(header.n) {
                return Err(crate::usage(format!("--shape {shape:?} does not have the field's {} values", header.n)));
            }
            npy_header(&header, shape)?
        }
    };
    let length = header
        .n
        .checked_mul(header.element.bytes() as u64)
        .and_then(|bytes| bytes.checked_add(before.len() as u64))
        .with_context(|| format!("{name}: a field of {} values does not fit this machine", header.n))?;
    let mut mapped = output.map(length)?;
    mapped[..before.len()].copy_from_slice(&before);
    let values = &mut mapped[before.len()..];
    args.threads
        .run(|| with_element!(header.element, T => decompress::<T>(args, &stream, values)))?
        .with_context(|| format!("cannot decompress {name}"))?;
    drop(mapped);
    output.finish(length)
}

fn default_output(stream: &Path) -> anyhow::Result<PathBuf> {
    if stream == Path::new("-") {
        return Ok(stream.into());
    }
    match stream.extension() {
        Some(ending) if ending == "pfpl" => Ok(stream.with_extension("")),
        _ => Err(crate::usage(format!("{}: the name does not end in .pfpl: give an output", stream.display()))),
    }
}

fn decompress<T: Element>(args: &args::Decompress, stream: &[u8], field: &mut [u8]) -> anyhow::Result<()> {
    // no bytes have no alignment either
    let field: &mut [T] = if field.is_empty() { &mut [] } else { bytemuck::cast_slice_mut(field) };
    if args.device.device.decompress(stream, field)? {
        return Ok(());
    }
    let progress = Progress::new("restoring", size_of_val(field) as u64);
    let observe = |values| progress.add((values * size_of::<T>()) as u64);
    Codec::default().decompress_observed(stream, field, &observe)?;
    Ok(())
}

/// The head of a .npy file; its length is a multiple of 64, so the values after it are aligned.
fn npy_header(header: &Header, shape: &[u64]) -> anyhow::Result<Vec<u8>> {
    fn head<T: npyz::AutoSerialize>(shape: &[u64]) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        npyz::WriteOptions::<T>::new().default_dtype().shape(shape).writer(&mut bytes).begin_nd()?;
        Ok(bytes)
    }
    Ok(with_element!(header.element, T => head::<T>(shape))?)
}
