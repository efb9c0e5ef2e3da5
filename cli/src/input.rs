//! Inputs: mapped files and spooled standard input, raw or NumPy.

use std::fs::{self, File};
use std::io::{self, BufWriter, Cursor, Write};
use std::path::Path;

use anyhow::{Context, anyhow, bail, ensure};
use memmap2::Mmap;
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};
use pfpl::{Element, ElementType};

use crate::args::FieldArgs;

/// The bytes of a file, or of standard input spooled to an unnamed one.
pub struct Bytes(Option<Mmap>);

impl Bytes {
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            let mut spool = tempfile::tempfile().context("cannot make a temporary file")?;
            io::copy(&mut io::stdin().lock(), &mut spool).context("cannot spool standard input")?;
            return Self::map(&spool);
        }
        let opening = || format!("cannot open {}", path.display());
        // before opening, which waits for a pipe's writer
        ensure!(fs::metadata(path).with_context(opening)?.is_file(), "{} is not a file", path.display());
        let file = File::open(path).with_context(opening)?;
        Self::map(&file).with_context(|| format!("cannot map {}", path.display()))
    }

    fn map(file: &File) -> anyhow::Result<Self> {
        if file.metadata()?.len() == 0 {
            return Ok(Self(None));
        }
        // SAFETY: the map is read-only and private to us; as with every mapped input, another process that truncates the file meanwhile ends us
        Ok(Self(Some(unsafe { Mmap::map(file)? })))
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(&[])
    }
}

/// The type of raw values in a file, where its name tells.
pub fn named_type(path: &Path) -> Option<ElementType> {
    match path.extension()?.to_str()? {
        "f32" => Some(ElementType::F32),
        "f64" => Some(ElementType::F64),
        _ => None,
    }
}

/// The values in an array of a shape; `None` where a `u64` cannot count them.
pub fn values_in(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1, |product: u64, &length| product.checked_mul(length))
}

/// What comes before the values in a .npy file, as far as it is there.
fn npy_head(bytes: &[u8]) -> &[u8] {
    let length = match *bytes {
        [_, _, _, _, _, _, 1, _, a, b, ..] => 10 + usize::from(u16::from_le_bytes([a, b])),
        [_, _, _, _, _, _, _, _, a, b, c, d, ..] => 12 + u32::from_le_bytes([a, b, c, d]) as usize,
        _ => bytes.len(),
    };
    &bytes[..length.min(bytes.len())]
}

/// A field: native-endian values in C order, somewhere in mapped bytes.
pub struct Field {
    pub element: ElementType,
    bytes: Bytes,
    values_at: usize,
}

impl Field {
    pub fn open(path: &Path, args: &FieldArgs) -> anyhow::Result<Self> {
        Self::open_as(path, args, None)
    }

    /// As [`Field::open`]; `guess` is the type of raw values whose name does not tell it.
    pub fn open_as(path: &Path, args: &FieldArgs, guess: Option<ElementType>) -> anyhow::Result<Self> {
        let bytes = Bytes::open(path)?;
        let name = path.display();
        let dtype = args.dtype.map(ElementType::from);
        if path.extension().is_some_and(|ending| ending == "npy") || (bytes.starts_with(b"\x93NUMPY") && dtype.is_none()) {
            let field = Self::from_npy(bytes).with_context(|| format!("cannot read {name}"))?;
            if let Some(dtype) = dtype.filter(|dtype| *dtype != field.element) {
                return Err(crate::usage(format!("{name} holds {} values, not {dtype}", field.element)));
            }
            return Ok(field);
        }
        let Some(element) = dtype.or(named_type(path)).or(guess) else {
            return Err(crate::usage(format!("{name}: the name does not tell the element type: give --dtype f32 or f64")));
        };
        ensure!(
            bytes.len() % element.bytes() == 0,
            "{name}: {} bytes are not a whole number of {element} values of {} bytes",
            bytes.len(),
            element.bytes()
        );
        if cfg!(target_endian = "big") {
            let n = bytes.len() / element.bytes();
            return Self::reordered(&bytes, element, Endianness::Little, &[n], &[1]);
        }
        Ok(Self { element, bytes, values_at: 0 })
    }

    fn from_npy(bytes: Bytes) -> anyhow::Result<Self> {
        let head = npy_head(&bytes);
        // the parser's time and stack grow with what is nested, and NumPy refuses long headers too
        let brackets = head.iter().filter(|byte| b"([{".contains(byte)).count();
        ensure!(head.len() <= 10_000 && brackets <= 8, "its header is not that of a plain array");
        let mut cursor = Cursor::new(head);
        let header =
            NpyHeader::from_reader(&mut cursor).map_err(|error| anyhow!("{}", error.to_string().lines().next().unwrap_or_default()))?;
        let values_at = cursor.position() as usize;
        let DType::Plain(dtype) = header.dtype() else { bail!("it holds records, not float32 or float64") };
        let element = match (dtype.type_char(), dtype.size_field()) {
            (TypeChar::Float, 4) => ElementType::F32,
            (TypeChar::Float, 8) => ElementType::F64,
            _ => bail!("it holds {dtype}, not float32 or float64"),
        };
        let shape = header.shape();
        let needed = values_in(shape).and_then(|n| n.checked_mul(element.bytes() as u64));
        ensure!(
            needed == Some((bytes.len() - values_at) as u64),
            "its {} bytes of values are not what its shape {shape:?} needs",
            bytes.len() - values_at
        );
        if values_at == bytes.len() {
            return Ok(Self { element, bytes, values_at });
        }
        let shape = shape.iter().map(|&length| usize::try_from(length)).collect::<Result<Vec<_>, _>>()?;
        let native = if cfg!(target_endian = "little") { Endianness::Little } else { Endianness::Big };
        let in_order = header.order() == Order::C || shape.iter().filter(|&&length| length > 1).count() < 2;
        if dtype.endianness() == native && in_order && values_at.is_multiple_of(element.bytes()) {
            return Ok(Self { element, bytes, values_at });
        }
        let mut strides = vec![1; shape.len()];
        match header.order() {
            Order::C => (1..shape.len()).rev().for_each(|axis| strides[axis - 1] = strides[axis] * shape[axis]),
            Order::Fortran => (1..shape.len()).for_each(|axis| strides[axis] = strides[axis - 1] * shape[axis - 1]),
        }
        Self::reordered(&bytes[values_at..], element, dtype.endianness(), &shape, &strides)
    }

    /// Spools values of any byte order and layout (strides in values) as native-endian values in C order.
    fn reordered(bytes: &[u8], element: ElementType, endianness: Endianness, shape: &[usize], strides: &[usize]) -> anyhow::Result<Self> {
        let spool = tempfile::tempfile().context("cannot make a temporary file")?;
        let mut out = BufWriter::with_capacity(1 << 20, &spool);
        let swap = (endianness == Endianness::Big) != cfg!(target_endian = "big");
        let size = element.bytes();
        let mut index = vec![0; shape.len()];
        let mut at = 0;
        for _ in 0..shape.iter().product() {
            let mut value = [0; 8];
            value[..size].copy_from_slice(&bytes[at * size..][..size]);
            if swap {
                value[..size].reverse();
            }
            out.write_all(&value[..size]).context("cannot spool the field")?;
            for axis in (0..shape.len()).rev() {
                index[axis] += 1;
                at += strides[axis];
                if index[axis] < shape[axis] {
                    break;
                }
                at -= strides[axis] * shape[axis];
                index[axis] = 0;
            }
        }
        out.flush().context("cannot spool the field")?;
        drop(out);
        Ok(Self { element, bytes: Bytes::map(&spool)?, values_at: 0 })
    }

    /// The values; `T` is the field's element type.
    pub fn values<T: Element>(&self) -> &[T] {
        let bytes = &self.bytes[self.values_at..];
        // no bytes have no alignment either
        if bytes.is_empty() { &[] } else { bytemuck::cast_slice(bytes) }
    }
}

/// Calls a generic function with the element type of a field or header.
macro_rules! with_element {
    ($element:expr, $T:ident => $call:expr) => {
        match $element {
            pfpl::ElementType::F32 => {
                type $T = f32;
                $call
            }
            pfpl::ElementType::F64 => {
                type $T = f64;
                $call
            }
        }
    };
}
pub(crate) use with_element;
