//! Fields that diffuse on a plane.

use pfpl::ElementType;
use rayon::prelude::*;

use crate::Setup;

/// Share of a neighbour's difference that a step passes on. With at most 1/4 a step averages, so that no difference between two states
/// ever grows: an error of a checkpoint stays within its bound.
pub const DIFFUSION: f64 = 0.2;

#[derive(Clone)]
pub enum Values {
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl Values {
    pub fn element(&self) -> ElementType {
        match self {
            Self::F32(_) => ElementType::F32,
            Self::F64(_) => ElementType::F64,
        }
    }

    /// Bytes of the values.
    pub fn bytes(&self) -> usize {
        match self {
            Self::F32(values) => size_of_val(&values[..]),
            Self::F64(values) => size_of_val(&values[..]),
        }
    }
}

/// A square plane of values; its rim stays as it is.
#[derive(Clone)]
pub struct Field {
    pub name: String,
    pub side: usize,
    pub values: Values,
}

/// A few waves and a warm disc, different in each field.
pub fn initial(setup: &Setup) -> Vec<Field> {
    let side = setup.side;
    let value = |k: usize, i: usize| {
        let (x, y) = ((i % side) as f64 / side as f64, (i / side) as f64 / side as f64);
        let (waves, centre) = ((1 + k % 7) as f64, 0.2 + 0.6 * (k % 13) as f64 / 13.0);
        let disc = if (x - centre).hypot(y - 0.5) < 0.15 { 1.0 } else { 0.0 };
        10.0 * (waves * std::f64::consts::TAU * x).sin() * (std::f64::consts::TAU * y).cos() + 5.0 * disc
    };
    (0..setup.fields)
        .into_par_iter()
        .map(|k| Field {
            name: format!("field_{k:05}"),
            side,
            values: if k % 3 == 2 {
                Values::F64((0..side * side).map(|i| value(k, i)).collect())
            } else {
                Values::F32((0..side * side).map(|i| value(k, i) as f32).collect())
            },
        })
        .collect()
}

macro_rules! step {
    ($name:ident, $value:ty) => {
        fn $name(side: usize, old: &[$value], new: &mut [$value]) {
            new.copy_from_slice(old);
            for row in 1..side.saturating_sub(1) {
                let at = row * side;
                for i in at + 1..at + side - 1 {
                    let around = (old[i - 1] + old[i + 1]) + (old[i - side] + old[i + side]);
                    new[i] = old[i] + DIFFUSION as $value * (around - 4.0 * old[i]);
                }
            }
        }
    };
}

step!(step_f32, f32);
step!(step_f64, f64);

impl Field {
    /// One step.
    pub fn step(&mut self) {
        match &mut self.values {
            Values::F32(values) => {
                let old = values.clone();
                step_f32(self.side, &old, values);
            }
            Values::F64(values) => {
                let old = values.clone();
                step_f64(self.side, &old, values);
            }
        }
    }

    fn pairs<'a>(&'a self, other: &'a Self) -> Box<dyn Iterator<Item = (f64, f64)> + 'a> {
        match (&self.values, &other.values) {
            (Values::F32(a), Values::F32(b)) => Box::new(a.iter().zip(b).map(|(&x, &y)| (x.into(), y.into()))),
            (Values::F64(a), Values::F64(b)) => Box::new(a.iter().zip(b).map(|(&x, &y)| (x, y))),
            _ => Box::new(std::iter::once((f64::NAN, f64::NAN))),
        }
    }

    /// Largest difference from another state of the same field; NaN counts as infinite.
    pub fn largest_difference(&self, other: &Self) -> f64 {
        self.pairs(other).map(|(x, y)| (x - y).abs()).fold(0.0, |largest, x| {
            if x <= largest {
                largest
            } else if x.is_nan() {
                f64::INFINITY
            } else {
                x
            }
        })
    }

    /// What two runs can drift apart by through rounding alone in `steps` steps. A step rounds its result once, and with a weight of
    /// DIFFUSION sums and differences of up to eight times a value: less than two units in the last place, in each run.
    pub fn rounding(&self, steps: u64) -> f64 {
        let largest = self.pairs(self).map(|(x, _)| x.abs()).fold(0.0, f64::max);
        let epsilon = match self.values {
            Values::F32(_) => f64::from(f32::EPSILON),
            Values::F64(_) => f64::EPSILON,
        };
        4.0 * steps as f64 * epsilon * largest
    }
}
