//! Comparison of values in exact arithmetic, and the range of a field.

use pfpl::Element;
use rayon::prelude::*;

/// The exact difference of two finite numbers as a sum of two, the first being the rounded one (Knuth's two-sum).
fn difference(x: f64, y: f64) -> (f64, f64) {
    let rounded = x - y;
    let minus_y = rounded - x;
    (rounded, (x - (rounded - minus_y)) + (-y - minus_y))
}

/// Whether |x − y| ≤ bound in exact arithmetic, for finite numbers.
pub fn within(x: f64, y: f64, bound: f64) -> bool {
    let (rounded, rest) = difference(x, y);
    // a difference beyond the largest number is past any bound
    rounded.abs() < bound || (rounded.abs() == bound && rest * rounded.signum() <= 0.0)
}

/// A field's values as this command computes with them.
pub trait Value: Element + Into<f64> {
    /// Whether the value is one that a bin decodes to; an encoder keeps every other value raw.
    fn is_bin(self, bound: f64) -> bool;
}

macro_rules! value {
    ($value:ty, $radius:expr) => {
        impl Value for $value {
            fn is_bin(self, bound: f64) -> bool {
                let step = 2.0 * bound as $value;
                let nearest = (self / step).round_ties_even();
                // the quotient of a large bin's value rounds to within one of it
                [nearest, nearest - 1.0, nearest + 1.0].iter().any(|&q| q.abs() < $radius && (q + 0.0) * step == self)
                    && self.to_bits() != (-0.0 as $value).to_bits()
            }
        }
    };
}

value!(f32, 4_194_304.0);
value!(f64, 2_251_799_813_685_248.0);

/// Largest less smallest finite value; `None` where there is none.
pub fn finite_range<T: Value>(field: &[T]) -> Option<f64> {
    let (low, high) = field
        .par_chunks(1 << 16)
        .map(|values| {
            let finite = values.iter().map(|&x| x.into()).filter(|x: &f64| x.is_finite());
            finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
        })
        .reduce(|| (f64::INFINITY, f64::NEG_INFINITY), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    (low <= high).then_some(high - low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decides_ties_exactly() {
        let bound = 1.0;
        assert!(within(2.0, 1.0, bound) && !within(2.0, 1.0 - f64::EPSILON, bound));
        // the difference rounds to the bound from above, and from below
        assert!(!within(1.0, -f64::EPSILON / 8.0, bound) && within(1.0, f64::EPSILON / 8.0, bound));
        assert!(!within(-1.0, f64::EPSILON / 8.0, bound) && within(-1.0, -f64::EPSILON / 8.0, bound));
        assert!(!within(f64::MAX, -f64::MAX, 1e38));
    }

    #[test]
    fn ranges_over_finite_values() {
        assert_eq!(finite_range(&[f32::NAN, 1.0, f32::INFINITY, -2.0]), Some(3.0));
        assert_eq!(finite_range(&[f64::NAN, f64::NEG_INFINITY]), None);
    }
}
