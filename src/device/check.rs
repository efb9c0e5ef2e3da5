//! Checks of device addresses before a launch.

use super::{Error, Fault};

/// Bytes of device memory that a field of the list reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub start: u64,
    pub end: u64,
    pub index: usize,
}

impl Span {
    /// Refuses null (where there are bytes), misaligned and wrapping addresses. `alignment` is a power of two.
    #[inline]
    pub fn new(index: usize, start: u64, bytes: u64, alignment: u64, fault: Fault) -> Result<Self, Fault> {
        let (end, wraps) = start.overflowing_add(bytes);
        let refused = wraps | (start & (alignment - 1) != 0) | ((start == 0) & (bytes != 0));
        if refused { Err(fault) } else { Ok(Self { start, end, index }) }
    }
}

/// Refuses a written span that shares a byte with another span. Callers mostly list their buffers in the order of their addresses, and
/// the stable sort takes runs as it finds them: then this takes a few passes over each slice.
pub fn disjoint(written: &mut [Span], read: &mut [Span]) -> Result<(), Error> {
    for spans in [&mut *written, &mut *read] {
        if !spans.is_sorted_by_key(|span| span.start) {
            spans.sort_by_key(|span| span.start);
        }
    }
    let overlap = |index| Error::Argument { index, fault: Fault::Overlap };
    let mut read = read.iter().filter(|span| span.start < span.end);
    // the furthest end, and whose it is, of what was written and read before
    let (mut written_end, mut read_end) = (0, 0);
    let mut next = read.next();
    for span in written.iter().filter(|span| span.start < span.end) {
        while let Some(input) = next.filter(|input| input.start <= span.start) {
            if input.start < written_end {
                return Err(overlap(input.index));
            }
            read_end = read_end.max(input.end);
            next = read.next();
        }
        if span.start < written_end.max(read_end) {
            return Err(overlap(span.index));
        }
        written_end = span.end;
    }
    next.filter(|input| input.start < written_end).map_or(Ok(()), |input| Err(overlap(input.index)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let fault = |start, bytes, alignment| Span::new(3, start, bytes, alignment, Fault::Stream).is_err();
        assert!(!fault(0, 0, 4) && !fault(8, 5, 4) && !fault(u64::MAX - 7, 7, 8));
        assert!(fault(0, 1, 4) && fault(6, 4, 4) && fault(u64::MAX - 7, 8, 8));
        assert_eq!(Span::new(3, 2, 4, 4, Fault::Stream).unwrap_err(), Fault::Stream);
    }

    /// Every pair compared: the definition.
    fn overlap(written: &[Span], read: &[Span]) -> bool {
        let meet = |a: &Span, b: &Span| a.start.max(b.start) < a.end.min(b.end);
        written.iter().enumerate().any(|(i, a)| written[..i].iter().chain(read).any(|b| meet(a, b)))
    }

    #[test]
    fn as_the_definition_says() {
        // all small sets of spans: two written and two read, of every place and length below 5
        let spans: Vec<_> = (0..5u64).flat_map(|start| (start..5).map(move |end| (start, end))).collect();
        let span = |index: usize| Span { start: 8 + spans[index].0, end: 8 + spans[index].1, index };
        let (mut seen, k) = ([0; 2], spans.len());
        for code in 0..k.pow(4) {
            let mut written = [span(code % k), span(code / k % k)];
            let mut read = [span(code / k.pow(2) % k), span(code / k.pow(3))];
            let expected = overlap(&written, &read);
            assert_eq!(disjoint(&mut written, &mut read).is_err(), expected, "{written:?} {read:?}");
            seen[usize::from(expected)] += 1;
        }
        assert!(seen[0] > 1000 && seen[1] > 1000);
    }
}
