use std::fmt;

/// Largest difference allowed between a value and its decoded value: a normal binary32 of at most half the largest.
///
/// ```
/// use pfpl_host::Bound;
///
/// let bound = Bound::new(0.1)?;
/// assert!(f64::from(bound.get()) <= 0.1 && f64::from(bound.get().next_up()) > 0.1);
/// assert_eq!(Bound::power_of_two(0.1)?.get(), 0.0625);
/// assert!(Bound::new(0.0).is_err() && Bound::new(f64::NAN).is_err());
/// # Ok::<(), pfpl_host::BoundError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Bound(f32);

/// Why a [`Bound`] was refused: after rounding to binary32 it is not normal, not positive or above half the largest binary32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundError(pub(crate) f64);

impl Bound {
    const LARGEST: f32 = f32::MAX / 2.0;

    /// The largest binary32 that does not exceed `bound`: the bound used and recorded.
    ///
    /// # Errors
    /// When that is zero, negative, NaN, infinite, subnormal or above half the largest binary32.
    pub fn new(bound: f64) -> Result<Self, BoundError> {
        let nearest = bound as f32;
        let below = if f64::from(nearest) > bound { nearest.next_down() } else { nearest };
        Self::from_f32(below).ok_or(BoundError(bound))
    }

    /// The largest power of two that does not exceed `bound`.
    ///
    /// With such a step every bin is exact in the field's type, so nothing is kept raw near the field's own precision. It pays where
    /// the bound is close to the spacing of the field's values: measured at 10⁻⁵ of the range, the ratio went from 2.9 to 12.1 on packed
    /// model output and from 1.3 to 2.1 on a temperature. Far from that the smaller step costs up to one bit a value: at worst 4 to 9 %
    /// of the ratio on other fields. [`crate::estimate`] tells by a sample. (Where the largest values are near 2²² steps, or 2⁵¹ for
    /// binary64, the smaller step can also put them beyond the largest bin, and they are kept raw.)
    ///
    /// # Errors
    /// As [`Bound::new`].
    pub fn power_of_two(bound: f64) -> Result<Self, BoundError> {
        let Self(rounded) = Self::new(bound)?;
        Ok(Self(f32::from_bits(rounded.to_bits() & 0x7f80_0000)))
    }

    /// The bound that a header records, or `None` where no encoder may have written it.
    pub(crate) fn from_f32(bound: f32) -> Option<Self> {
        (bound.is_normal() && bound > 0.0 && bound <= Self::LARGEST).then_some(Self(bound))
    }

    /// The bound as recorded.
    pub fn get(self) -> f32 {
        self.0
    }
}

impl TryFrom<f64> for Bound {
    type Error = BoundError;
    fn try_from(bound: f64) -> Result<Self, BoundError> {
        Self::new(bound)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for BoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bound {:e} is not usable: give a positive number from {:e} to {:e}", self.0, f32::MIN_POSITIVE, Bound::LARGEST)
    }
}

impl std::error::Error for BoundError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_down() {
        for bound in [1e-3, 1e-4, 0.1, 3e-5, 1.0, 1.0 / 3.0, f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX) / 2.0] {
            let recorded = Bound::new(bound).unwrap().get();
            assert!(f64::from(recorded) <= bound && f64::from(recorded.next_up()) > bound, "{bound}");
        }
    }

    #[test]
    fn refuses_what_is_not_normal() {
        let half = f64::from(f32::MAX) / 2.0;
        for bound in [
            0.0,
            -0.0,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e-39,
            f64::from(f32::MIN_POSITIVE).next_down(),
            f64::MAX,
            f64::from((half as f32).next_up()),
        ] {
            assert!(Bound::new(bound).is_err(), "{bound}");
        }
        assert_eq!(Bound::new(half.next_up()).unwrap().get(), half as f32);
    }

    #[test]
    fn powers_of_two() {
        assert_eq!(Bound::power_of_two(1e-4).unwrap().get(), 2f32.powi(-14));
        assert_eq!(Bound::power_of_two(0.25).unwrap().get(), 0.25);
    }
}
