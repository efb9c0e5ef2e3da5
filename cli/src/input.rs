//! Inputs: mapped files and spooled standard input, raw or NumPy.

use std::fs::File;
use std::io::{self, BufWriter, Cursor, Write};
use std::path::Path;

use anyhow::{Context, bail, ensure};
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
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        ensure!(file.metadata()?.is_file(), "{} is not a file", path.display());
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

/// A field: native-endian values in C order, somewhere in mapped bytes.
pub struct Field {
    pub element: ElementType,
    bytes: Bytes,
    values_at: usize,
}

impl Field {
    pub fn open(path: &Path, args: &FieldArgs) -> anyhow::Result<Self> {
        let bytes = Bytes::open(path)?;
        let name = path.display();
        if bytes.starts_with(b"\x93NUMPY") && args.dtype.is_none() {
            return Self::from_npy(bytes).with_context(|| format!("cannot read {name}"));
        }
        let ending = path.extension().and_then(|ending| ending.to_str());
        let element = match (args.dtype, ending) {
            (Some(dtype), _) => dtype.into(),
            (None, Some("f32")) => ElementType::F32,
            (None, Some("f64")) => ElementType::F64,
            _ => return Err(crate::usage(format!("{name}: the name does not tell the element type: give --dtype f32 or f64"))),
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
        let mut cursor = Cursor::new(&bytes[..]);
        let header = NpyHeader::from_reader(&mut cursor)?;
        let values_at = cursor.position() as usize;
        let DType::Plain(dtype) = header.dtype() else { bail!("it holds records, not float32 or float64") };
        let element = match (dtype.type_char(), dtype.size_field()) {
            (TypeChar::Float, 4) => ElementType::F32,
            (TypeChar::Float, 8) => ElementType::F64,
            _ => bail!("it holds {dtype}, not float32 or float64"),
        };
        let shape = header.shape().iter().map(|&length| usize::try_from(length)).collect::<Result<Vec<_>, _>>()?;
        let needed = shape.iter().try_fold(element.bytes(), |product, &length| product.checked_mul(length));
        ensure!(
            needed == Some(bytes.len() - values_at),
            "its {} bytes of values are not what its shape {shape:?} needs",
            bytes.len() - values_at
        );
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
