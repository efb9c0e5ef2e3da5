//! Fields of every kind that the coders treat differently, made here so that no test needs a file.

use pfpl::{Bound, Element};

/// A generator of uniform 64-bit words (SplitMix64).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.word() % limit as u64) as usize
    }

    /// In [-1, 1).
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// About normal, variance 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() / 2.0
    }
}

/// An element type that fields can be made of.
pub trait Sample: Element {
    fn of(value: f64) -> Self;
    fn of_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
    /// The bins' radius.
    const RADIUS: f64;
}

impl Sample for f32 {
    fn of(value: f64) -> Self {
        value as f32
    }
    fn of_bits(bits: u64) -> Self {
        f32::from_bits(bits as u32)
    }
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
    const RADIUS: f64 = 4_194_304.0;
}

impl Sample for f64 {
    fn of(value: f64) -> Self {
        value
    }
    fn of_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
    const RADIUS: f64 = 2_251_799_813_685_248.0;
}

/// The benches' field A: two waves and noise of this strength (B: none).
pub fn wave<T: Sample>(i: usize, noise: f64, random: &mut Random) -> T {
    let turn = 2.0 * std::f64::consts::PI * i as f64;
    let noise = if noise == 0.0 { 0.0 } else { noise * random.normal() };
    T::of(0.5 * (turn / 4096.0).sin() + 0.25 * (turn / 65536.0).cos() + noise)
}

/// The kinds of fields.
pub const KINDS: [&str; 12] = [
    "smooth",
    "noisy",
    "fine",
    "random bits",
    "zeros",
    "negative zeros",
    "NaN payloads",
    "infinities",
    "fill values",
    "beyond the radius",
    "mixed chunks",
    "bin borders",
];

/// `n` values of this kind, and a bound for them.
pub fn field<T: Sample>(kind: &str, n: usize, seed: u64) -> (Vec<T>, Bound) {
    let mut random = Random(seed);
    let bound = Bound::new(match kind {
        "fine" => 1e-6,
        "bin borders" => 0.1,
        _ => 1e-3,
    })
    .unwrap();
    let step = 2.0 * f64::from(bound.get());
    let field = (0..n)
        .map(|i| match kind {
            "smooth" => wave(i, 0.0, &mut random),
            "noisy" | "fine" => wave(i, 0.01, &mut random),
            "random bits" => T::of_bits(random.word()),
            "zeros" => T::of(0.0),
            "negative zeros" => T::of(if random.below(3) == 0 { -0.0 } else { 0.0 }),
            "NaN payloads" if random.below(5) == 0 => {
                let quiet = if T::TYPE.bytes() == 4 { 0x7f80_0001 } else { 0x7ff0_0000_0000_0001 };
                T::of_bits(quiet | random.word() >> 1 & (quiet >> 12) | random.word() & (1 << (8 * T::TYPE.bytes() - 1)))
            }
            "infinities" if random.below(50) == 0 => T::of(if random.below(2) == 0 { f64::INFINITY } else { f64::NEG_INFINITY }),
            "fill values" if i / 700 % 3 == 1 => T::of(if i % 2 == 0 { 1e20 } else { -1e34 }),
            "beyond the radius" => T::of(T::RADIUS * step * (1.0 + 1e-6 * random.unit()) * random.unit().signum()),
            "mixed chunks" => match i / 2048 % 5 {
                0 => T::of(0.0),
                1 => T::of_bits(random.word()),
                2 => T::of(1.0),
                3 => wave(i, 0.01, &mut random),
                _ => wave(i, 0.0, &mut random),
            },
            "bin borders" => T::of(step * (random.below(2000) as f64 - 1000.0 + 0.5)),
            _ => wave(i, 0.0, &mut random),
        })
        .collect();
    (field, bound)
}

/// The lengths at which something changes.
pub const LENGTHS: [usize; 13] = [0, 1, 2, 31, 32, 33, 2047, 2048, 2049, 4095, 4096, 4097, 20_000];

/// Equal bit for bit, NaN included.
pub fn same<T: Sample>(a: &[T], b: &[T]) -> bool {
    a.len() == b.len() && bytemuck::cast_slice::<T, u8>(a) == bytemuck::cast_slice::<T, u8>(b)
}
