//! Fields as callers describe them, checked and turned into launch arguments; lists split into launches.

use pfpl_host::internal::{chunks_of, takes_wide_header};
use pfpl_host::{Bound, ElementType};

use super::args::{DecodeField, EncodeField, Outcome};
use super::check::{Span, disjoint};
use super::{Capacity, Error, Fault};

/// Chunks of a launch stay below this, so that tickets and counters of 32 bits do not wrap within one.
pub(crate) const LAUNCH_CHUNKS: u64 = 1 << 31;

/// A field to compress, by device addresses.
#[derive(Clone, Copy, Debug)]
pub struct Encode {
    /// Element type of the field.
    pub element: ElementType,
    /// Address of the values, aligned to the element.
    pub field: u64,
    /// Values of the field.
    pub n: u64,
    /// Bound to keep.
    pub bound: Bound,
    /// Address of the stream to write, 4-byte aligned.
    pub stream: u64,
    /// Bytes there; 0 asks for the stream's length.
    pub capacity: u64,
    /// Address of an [`Outcome`], 8-byte aligned, or 0 for none.
    pub outcome: u64,
}

/// A field to decompress, or a range of its values, by device addresses.
#[derive(Clone, Copy, Debug)]
pub struct Decode {
    /// Element type of the field.
    pub element: ElementType,
    /// Address of the stream, 4-byte aligned.
    pub stream: u64,
    /// Bytes there; what follows the stream is not looked at.
    pub bytes: u64,
    /// Values of the whole field.
    pub n: u64,
    /// Address for the values wanted, aligned to the element.
    pub field: u64,
    /// First of the values wanted.
    pub first: u64,
    /// How many are wanted: all of them is `first` 0 and `count` n. Only the chunks that hold them are touched.
    pub count: u64,
    /// Address of an [`Outcome`], 8-byte aligned, or 0 for none.
    pub outcome: u64,
}

/// Either description: what checks, splitting and launches need of it.
pub(crate) trait Described {
    /// What the kernels take.
    type Args: bytemuck::Pod;
    /// Compressing.
    const ENCODES: bool;

    fn element(&self) -> ElementType;

    /// Chunks that the call touches.
    fn chunks(&self) -> u64;

    /// Checks all that concerns this field alone; gives what it writes, then what it reads.
    fn spans(&self, index: usize) -> Result<([Span; 2], Span), Fault>;

    /// `wide` forces the wide header.
    fn args(&self, first_chunk: u32, wide: bool) -> Self::Args;
}

#[inline]
fn outcome_span(index: usize, outcome: u64) -> Result<Span, Fault> {
    let bytes = if outcome == 0 { 0 } else { size_of::<Outcome>() as u64 };
    Span::new(index, outcome, bytes, align_of::<Outcome>() as u64, Fault::Outcome)
}

#[inline]
fn field_span(index: usize, address: u64, n: u64, element: ElementType) -> Result<Span, Fault> {
    let size = element.bytes() as u64;
    let bytes = n.checked_mul(size).ok_or(Fault::TooLong)?;
    Span::new(index, address, bytes, size, Fault::Field)
}

#[inline]
fn check_length(element: ElementType, n: u64) -> Result<(), Fault> {
    if chunks_of(element, n) < LAUNCH_CHUNKS { Ok(()) } else { Err(Fault::TooLong) }
}

impl Described for Encode {
    type Args = EncodeField;
    const ENCODES: bool = true;

    fn element(&self) -> ElementType {
        self.element
    }

    #[inline]
    fn chunks(&self) -> u64 {
        chunks_of(self.element, self.n)
    }

    #[inline]
    fn spans(&self, index: usize) -> Result<([Span; 2], Span), Fault> {
        check_length(self.element, self.n)?;
        let stream = Span::new(index, self.stream, self.capacity, 4, Fault::Stream)?;
        Ok(([stream, outcome_span(index, self.outcome)?], field_span(index, self.field, self.n, self.element)?))
    }

    #[inline]
    fn args(&self, first_chunk: u32, wide: bool) -> EncodeField {
        let bound = self.bound.get();
        EncodeField {
            field: self.field,
            stream: self.stream,
            n: self.n,
            capacity: self.capacity,
            outcome: self.outcome,
            inverse: match self.element {
                ElementType::F32 => f64::from(1.0 / (2.0 * bound)),
                ElementType::F64 => 1.0 / (2.0 * f64::from(bound)),
            },
            bound,
            wide: u32::from(wide || takes_wide_header(self.chunks())),
            first_chunk,
            reserved: 0,
        }
    }
}

impl Described for Decode {
    type Args = DecodeField;
    const ENCODES: bool = false;

    fn element(&self) -> ElementType {
        self.element
    }

    #[inline]
    fn chunks(&self) -> u64 {
        let codes = self.element.codes_per_chunk() as u64;
        // spans has checked that this does not wrap
        if self.count == 0 { 0 } else { (self.first + self.count - 1) / codes - self.first / codes + 1 }
    }

    #[inline]
    fn spans(&self, index: usize) -> Result<([Span; 2], Span), Fault> {
        check_length(self.element, self.n)?;
        if self.first.checked_add(self.count).is_none_or(|end| end > self.n) {
            return Err(Fault::Range);
        }
        let field = field_span(index, self.field, self.count, self.element)?;
        Ok(([field, outcome_span(index, self.outcome)?], Span::new(index, self.stream, self.bytes, 4, Fault::Stream)?))
    }

    #[inline]
    fn args(&self, first_chunk: u32, _wide: bool) -> DecodeField {
        let &Self { field, stream, n, bytes, outcome, first, count, .. } = self;
        DecodeField { field, stream, n, bytes, outcome, first, count, first_chunk, reserved: 0 }
    }
}

/// Working memory of [`check`].
#[derive(Default)]
pub(crate) struct Spans {
    written: Vec<Span>,
    outcomes: Vec<Span>,
    read: Vec<Span>,
}

/// Checks a whole list; gives what a plan needs for it.
pub(crate) fn check<C: Described>(calls: &[C], spans: &mut Spans) -> Result<Capacity, Error> {
    let Spans { written, outcomes, read } = spans;
    for spans in [&mut *written, &mut *outcomes, &mut *read] {
        spans.clear();
    }
    let mut chunks = 0u64;
    for (index, call) in calls.iter().enumerate() {
        let ([output, outcome], input) = call.spans(index).map_err(|fault| Error::Argument { index, fault })?;
        written.push(output);
        outcomes.push(outcome);
        read.push(input);
        chunks += call.chunks();
    }
    written.append(outcomes);
    disjoint(written, read)?;
    Ok(Capacity { fields: calls.len(), chunks })
}

/// What of a list one launch takes: the kernels' descriptions in a caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub fields: u32,
    pub chunks: u32,
}

/// Splits the fields of one type into as few launches as take at most `buffer.len()` fields and fewer than 2^31 chunks each, in order.
/// `launch` is called with each part in turn.
pub(crate) fn split<C: Described>(
    calls: &[C],
    element: ElementType,
    wide: bool,
    buffer: &mut [C::Args],
    mut launch: impl FnMut(Part, &[C::Args]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut part = Part { fields: 0, chunks: 0 };
    for call in calls.iter().filter(|call| call.element() == element) {
        // below 2^31, as its check found
        let chunks = call.chunks() as u32;
        if part.fields as usize == buffer.len() || u64::from(part.chunks) + u64::from(chunks) >= LAUNCH_CHUNKS {
            launch(part, buffer)?;
            part = Part { fields: 0, chunks: 0 };
        }
        buffer[part.fields as usize] = call.args(part.chunks, wide);
        part.fields += 1;
        part.chunks += chunks;
    }
    if part.fields > 0 { launch(part, buffer) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(element: ElementType, field: u64, n: u64, stream: u64, capacity: u64, outcome: u64) -> Encode {
        Encode { element, field, n, bound: Bound::new(1e-3).unwrap(), stream, capacity, outcome }
    }

    fn refused<C: Described>(calls: &[C]) -> (usize, Fault) {
        match check(calls, &mut Spans::default()) {
            Err(Error::Argument { index, fault }) => (index, fault),
            other => panic!("{other:?}"),
        }
    }

    const F32: ElementType = ElementType::F32;
    const F64: ElementType = ElementType::F64;

    #[test]
    fn arguments_of_a_compression() {
        let good = encode(F64, 0x1008, 3000, 0x10004, 99, 0x20008);
        assert_eq!(check(&[good], &mut Spans::default()), Ok(Capacity { fields: 1, chunks: 2 }));
        let empty = encode(F32, 0, 0, 0, 0, 0);
        assert_eq!(check(&[empty], &mut Spans::default()), Ok(Capacity { fields: 1, chunks: 0 }));
        for (call, fault) in [
            (Encode { field: 0x100c, ..good }, Fault::Field),
            (Encode { field: 0, ..good }, Fault::Field),
            (Encode { field: u64::MAX - 7, ..good }, Fault::Field),
            (Encode { stream: 0x10002, ..good }, Fault::Stream),
            (Encode { stream: 0, ..good }, Fault::Stream),
            (Encode { capacity: u64::MAX, ..good }, Fault::Stream),
            (Encode { outcome: 0x20004, ..good }, Fault::Outcome),
            (Encode { stream: 0x1008 + 23_996, ..good }, Fault::Overlap),
            (Encode { outcome: 0x10060, ..good }, Fault::Overlap),
            (Encode { outcome: 0x1010, ..good }, Fault::Overlap),
            (Encode { n: 1 << 42, ..good }, Fault::TooLong),
            (Encode { n: u64::MAX, ..good }, Fault::TooLong),
        ] {
            assert_eq!(refused(&[good, Encode { field: 1 << 40, stream: 1 << 41, outcome: 1 << 42, ..good }, call]).1, fault, "{call:x?}");
            assert_eq!(refused(&[call]), (0, fault), "{call:x?}");
        }
        // what ends where another begins does not overlap
        check(&[Encode { stream: 0x1008 + 24_000, outcome: 0x10068, ..good }], &mut Spans::default()).unwrap();
    }

    #[test]
    fn arguments_of_a_decompression() {
        let good = Decode { element: F32, stream: 0x10004, bytes: 99, n: 10_000, field: 0x4004, first: 4095, count: 2, outcome: 0 };
        assert_eq!(check(&[good], &mut Spans::default()), Ok(Capacity { fields: 1, chunks: 2 }));
        let none = Decode { field: 0, first: 10_000, count: 0, ..good };
        assert_eq!(check(&[none], &mut Spans::default()), Ok(Capacity { fields: 1, chunks: 0 }));
        for (call, fault) in [
            (Decode { field: 0x4002, ..good }, Fault::Field),
            (Decode { stream: 0x10001, ..good }, Fault::Stream),
            (Decode { count: 5906, ..good }, Fault::Range),
            (Decode { first: u64::MAX, ..good }, Fault::Range),
            (Decode { field: 0x10064, ..good }, Fault::Overlap),
            (Decode { n: 1 << 43, ..good }, Fault::TooLong),
        ] {
            assert_eq!(refused(&[call]), (0, fault), "{call:x?}");
        }
        // streams may be read twice, outputs not written twice
        check(&[good, Decode { field: 0x5000, ..good }], &mut Spans::default()).unwrap();
        assert_eq!(refused(&[good, Decode { field: 0x4008, ..good }]).1, Fault::Overlap);
    }

    #[test]
    fn descriptions() {
        let bound = Bound::new(0.1).unwrap();
        let narrow = Encode { bound, ..encode(F32, 8, 262_112 * 4096 - 1, 16, 24, 0) }.args(7, false);
        assert_eq!((narrow.field, narrow.stream, narrow.n, narrow.capacity, narrow.outcome), (8, 16, 262_112 * 4096 - 1, 24, 0));
        assert_eq!((narrow.inverse, narrow.bound, narrow.first_chunk), (f64::from(1.0 / (2.0 * bound.get())), bound.get(), 7));
        assert_eq!(Encode { bound, ..encode(F64, 8, 1, 16, 24, 0) }.args(0, false).inverse, 1.0 / (2.0 * f64::from(bound.get())));
        // the wide header begins at 24 + chunks * 16388 = 2^32
        let wide = |chunks: u64, force| encode(F32, 8, chunks * 4096, 16, 24, 0).args(0, force).wide;
        assert_eq!((wide(262_080, false), wide(262_081, false), wide(1, true)), (0, 1, 1));
    }

    /// A launch: its type and part, and each field's address and first chunk.
    type Taken = (ElementType, Part, Vec<(u64, u32)>);

    fn parts(calls: &[Encode], limit: usize) -> Vec<Taken> {
        let mut parts = Vec::new();
        let mut buffer = vec![bytemuck::Zeroable::zeroed(); limit];
        for element in [F32, F64] {
            split(calls, element, false, &mut buffer, |part, fields: &[EncodeField]| {
                parts.push((element, part, fields[..part.fields as usize].iter().map(|field| (field.field, field.first_chunk)).collect()));
                Ok(())
            })
            .unwrap();
        }
        parts
    }

    #[test]
    fn lists() {
        assert_eq!(parts(&[], 3), []);
        let calls: Vec<_> = (0..8).map(|i| encode(if i % 4 == 1 { F64 } else { F32 }, i, 4096 * i, 0, 0, 0)).collect();
        assert_eq!(
            parts(&calls, 3),
            [
                (F32, Part { fields: 3, chunks: 5 }, vec![(0, 0), (2, 0), (3, 2)]),
                (F32, Part { fields: 3, chunks: 17 }, vec![(4, 0), (6, 4), (7, 10)]),
                (F64, Part { fields: 2, chunks: 12 }, vec![(1, 0), (5, 2)]),
            ]
        );
        let long = encode(F32, 0, 4096 * ((1 << 31) - 2), 0, 0, 0);
        let one = encode(F32, 0, 1, 0, 0, 0);
        let most = Part { fields: 2, chunks: (1 << 31) - 1 };
        assert_eq!(parts(&[long, one, one], 3).iter().map(|part| part.1).collect::<Vec<_>>(), [most, Part { fields: 1, chunks: 1 }]);
    }

    #[test]
    fn a_failed_launch_ends_the_split() {
        let calls = [encode(F32, 0, 1, 0, 0, 0); 5];
        let mut launches = 0;
        let mut buffer = [bytemuck::Zeroable::zeroed(); 2];
        let result = split(&calls, F32, false, &mut buffer, |_, _| {
            launches += 1;
            if launches == 2 { Err(Error::Capturing) } else { Ok(()) }
        });
        assert_eq!((result, launches), (Err(Error::Capturing), 2));
    }
}
