//! Fields of every kind that the format treats differently.

use super::device::Value;

pub const KINDS: [&str; 9] = ["smooth", "noisy", "random bits", "zeros", "special", "fill", "large", "steps", "mixed"];

/// `n` values of kind `kind`, by seed.
pub fn field<T: Value>(kind: &str, n: usize, seed: u64) -> Vec<T> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let phase = rng.f64() * 6.0;
    let smooth = |i: usize| 0.5 * (phase + i as f64 / 300.0).sin() + 0.25 * (i as f64 / 5000.0).cos();
    let special = [
        0x7ff8_0000_0000_0001u64,
        0xfff0_0000_0000_0000,
        0x7ff0_0000_0000_0000,
        0x8000_0000_0000_0000,
        1,
        0x7ff0_0000_0000_00ff,
        0xffff_ffff_ffff_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0123,
        0x8000_0000,
        0x0000_0001,
        0x807f_ffff,
        0x7f7f_ffff,
        0xffc0_0000,
    ];
    (0..n)
        .map(|i| match kind {
            "smooth" => T::from_f64(smooth(i)),
            "noisy" => T::from_f64(smooth(i) + 0.01 * (rng.f64() + rng.f64() - rng.f64() - rng.f64())),
            "random bits" => T::from_bits64(rng.u64(..)),
            "zeros" => T::from_f64(0.0),
            "special" => {
                if rng.u8(..4) == 0 {
                    T::from_bits64(rng.choice(special).unwrap_or(0))
                } else {
                    T::from_f64(smooth(i))
                }
            }
            "fill" => T::from_f64(match (i / 37) % 5 {
                0 => 1e20,
                3 => -1e34,
                _ => smooth(i),
            }),
            "large" => T::from_f64((rng.f64() - 0.5) * 2f64.powi(rng.i32(-10..60))),
            "steps" => T::from_f64((i / 700) as f64 * 0.125),
            // another kind each chunk, and within it
            "mixed" => match (i / T::CODES * 5 + i % T::CODES / 1500) % 7 {
                0 | 3 => T::from_f64(smooth(i)),
                1 => T::from_bits64(rng.u64(..)),
                2 | 5 => T::from_f64(0.0),
                4 => T::from_f64(smooth(i) + 0.3 * rng.f64()),
                _ => T::from_f64(if rng.u8(..50) == 0 { 1e30 } else { 2.5 }),
            },
            other => panic!("no kind {other}"),
        })
        .collect()
}
