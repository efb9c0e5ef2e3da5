//! Against the portable coder: equal chunks, equal values, equal refusals.

use super::super::{Chunked, Coded, SLACK, portable};
use super::Scratch;
use crate::header::{CHUNK_BYTES, RAW};

/// splitmix64
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
    /// From -1 to 1.
    fn unit(&mut self) -> f64 {
        self.next() as i64 as f64 / 2f64.powi(63)
    }
}

/// Many kinds of fields, each with a bound.
fn fields(random: &mut Random) -> Vec<(&'static str, f32, Vec<f64>)> {
    let wave = |i: usize| 0.5 * (i as f64 * 1.5e-3).sin() + 0.25 * (i as f64 * 1e-4).cos();
    let mut fields = Vec::new();
    let mut add = |name, bound, value: &mut dyn FnMut(usize) -> f64| fields.push((name, bound, (0..3 * 4096).map(value).collect()));
    for exponent in 1..=12 {
        let bound = 10f32.powi(-exponent);
        add("smooth", bound, &mut |i| wave(i));
        add("noisy", bound, &mut |i| wave(i) + 0.01 * random.unit());
        add("offset", bound, &mut |i| 300.0 + wave(i) + 0.01 * random.unit());
        add("negative offset", bound, &mut |i| -40.0 + wave(i));
        add("gaps", bound, &mut |_| f64::from(bound) * 1024.0 * (random.below(9) as f64 - 4.0));
    }
    for step in [200.0, 5461.0, 10922.0, 10923.0, 16384.0, 22000.0, 40000.0, 4e6, 2.0e8, 3.5e8, 3.6e8, 6e8, 1.1e9, 2.2e9] {
        // codes about the widths' limits, at once and by and by
        add("alternating", 0.5, &mut |i| if i % 2 == 0 { step } else { -step });
        add("ramp", 0.5, &mut |i| step / 4096.0 * i as f64);
        add("steps", 0.5, &mut |i| if i / 300 % 2 == 0 { step } else { 3.0 });
    }
    for bound in [1.0, 1e-3, 1e-30] {
        add("bits of binary32", bound, &mut |_| f32::from_bits(random.next() as u32).into());
        add("bits of binary64", bound, &mut |_| f64::from_bits(random.next()));
    }
    let special = [
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        1e-40,
        -1e-40,
        5e-324,
        1e38,
        -3e38,
        1e300,
        65504.0,
        f64::MAX,
        4194303.0,
    ];
    for every in [2, 7, 40, 3000] {
        for bound in [0.5, 1e-4, 1e-6] {
            add("special", bound, &mut |i| if random.below(every) == 0 { special[random.below(special.len())] } else { wave(i) });
            add("NaN", bound, &mut |i| if random.below(every) == 0 { f64::from(f32::from_bits(0x7FC0_0001)) } else { wave(i) });
            add("fill", bound, &mut |i| if i / every % 2 == 0 { -9999.0 } else { wave(i) });
            add("sparse", bound, &mut |_| if random.below(every) == 0 { random.unit() } else { 0.0 });
        }
    }
    for bound in [0.25f32, 0.1, 3e-5, 1.2e-7] {
        let b = f64::from(bound);
        add("ties", bound, &mut |i| (i as f64 - 6000.0) * b);
        add("radius of binary32", bound, &mut |i| (i as f64 - 6000.0 + [4194304.0, -4194304.0, 2097152.0][i % 3]) * b);
        add("radius of binary64", bound, &mut |i| (i as f64 - 6000.0 + [2251799813685248.0, -2251799813685248.0][i % 2]) * 2.0 * b);
        add("near borders", bound, &mut |i| ((i as f64 - 6000.0) * b).next_up().next_down() + b * [1.0, -1.0][i % 2] * (1.0 + 1e-7));
        add("integers of 32 bits", bound, &mut |i| (2147483647.0 + [0.0, 1.0, 2.0, -4294967295.0][i % 4]) * 2.0 * b);
    }
    add("zero", 1e-3, &mut |_| 0.0);
    add("one value", 1e-3, &mut |i| if i == 5000 { 1.0 } else { 0.0 });
    add("subnormal", 1.2e-38, &mut |_| 1e-39 * random.unit());
    add("huge", 1.6e38, &mut |_| 3.4e38 * random.unit());
    fields
}

macro_rules! tests {
    ($value:ident, $codes:literal) => {
        mod $value {
            use super::*;

            fn encoded(values: &[$value], bound: f32, scratch: &mut Scratch) -> Vec<u8> {
                let step = $value::step(bound);
                let [mut out, mut expected] = [(); 2].map(|()| vec![0xA5; CHUNK_BYTES + SLACK]);
                assert!(super::super::available());
                // SAFETY: available.
                let entry = unsafe { super::super::$value::encode(values, &step, scratch, &mut out) };
                assert_eq!(entry, portable::$value::encode(values, &step, &mut Default::default(), &mut expected));
                expected.truncate((entry & !RAW) as usize);
                assert!(out[..expected.len()] == expected, "other bytes");
                expected
            }

            /// Compares the decoding of a chunk, with nothing readable after it, or before it.
            fn decode(chunk: &[u8], bound: f32, count: usize, scratch: &mut Scratch) -> bool {
                let step = $value::step(bound);
                let stream: Box<[u8]> = chunk.into();
                let coded = Coded { stream: &stream, at: 0, length: chunk.len(), raw: chunk.len() == CHUNK_BYTES, streamed: false };
                let [mut values, mut expected] = [(); 2].map(|()| vec![7.0 as $value; count]);
                // SAFETY: available, as in `encoded`.
                let ok = unsafe { super::super::$value::decode(coded, &step, scratch, &mut values) };
                assert_eq!(ok, portable::$value::decode(coded, &step, &mut Default::default(), &mut expected));
                if ok {
                    let same = values.iter().zip(&expected).position(|(a, b)| a.to_bits() != b.to_bits());
                    assert_eq!(same, None, "other values");
                    let padded = [&[0xEE; 40], chunk, &[0xEE; 40]].concat();
                    let coded = Coded { stream: &padded, at: 40, streamed: true, ..coded };
                    values.fill(7.0);
                    // SAFETY: available, as in `encoded`.
                    assert!(unsafe { super::super::$value::decode(coded, &step, scratch, &mut values) });
                    assert!(values.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "other values");
                }
                ok
            }

            #[test]
            fn fields_as_portable() {
                let mut scratch = Scratch::default();
                for (name, bound, field) in fields(&mut Random(1)) {
                    println!("{name} {bound}");
                    let field: Vec<_> = field.into_iter().map(|x| x as $value).collect();
                    for values in field.chunks($codes) {
                        let chunk = encoded(values, bound, &mut scratch);
                        assert!(decode(&chunk, bound, $codes, &mut scratch));
                    }
                }
            }

            #[test]
            fn parts_of_chunks_as_portable() {
                let mut random = Random(2);
                let mut scratch = Scratch::default();
                let field: Vec<_> = (0..$codes).map(|i| (i as $value * 0.01).sin() + 0.01 * random.unit() as $value).collect();
                let counts =
                    (1..=70).chain((1..16).flat_map(|i| [-1, 0, 1].map(|d| (256 * i + d) as usize))).filter(|&count| count <= $codes);
                for count in counts.chain([$codes - 1]) {
                    for bound in [1e-4, 1e-7] {
                        let chunk = encoded(&field[..count], bound, &mut scratch);
                        assert!(decode(&chunk, bound, count, &mut scratch));
                    }
                }
            }

            #[test]
            fn damaged_chunks_as_portable() {
                let mut random = Random(3);
                let mut scratch = Scratch::default();
                let mut decoded = 0;
                let fields = fields(&mut Random(1));
                for round in 0..6000 {
                    let (_, bound, field) = &fields[random.below(fields.len())];
                    let values: Vec<_> = field[..$codes].iter().map(|&x| x as $value).collect();
                    let mut chunk = encoded(&values, *bound, &mut scratch);
                    let length = chunk.len();
                    for _ in 0..1 + random.below(3) {
                        // the levels, at the end, are hit more often
                        let at = if round % 2 == 0 { random.below(length) } else { length - 1 - random.below(length.min(40)) };
                        chunk[at] = if random.below(2) == 0 { random.next() as u8 } else { chunk[at] ^ 1 << random.below(8) };
                    }
                    let length = if random.below(8) == 0 { random.below(length) } else { length };
                    if length == 2 || (10..=CHUNK_BYTES).contains(&length) {
                        decoded += u32::from(decode(&chunk[..length], *bound, $codes - random.below(2) * random.below(300), &mut scratch));
                    }
                }
                assert!((1000..6000).contains(&decoded), "{decoded} of 6000 decoded");
            }

            /// Chunks made of planes of any density, which no encoder may ever write.
            #[test]
            fn random_planes_as_portable() {
                let mut random = Random(4);
                let mut scratch = Scratch::default();
                for _ in 0..600 {
                    let mut planes = vec![0; CHUNK_BYTES];
                    let mut density = 0;
                    let first = random.below(CHUNK_BYTES);
                    for (i, byte) in planes.iter_mut().enumerate().skip(first) {
                        if i % 256 == 0 || i == first {
                            density = [0, 1, 4, 100, 250, 256, 256][random.below(7)];
                        }
                        *byte = if random.below(256) < density { random.next() as u8 } else { 0 };
                    }
                    let mut out = vec![0; CHUNK_BYTES + SLACK];
                    let length = (portable::eliminate_zeros(&planes, &mut out) & !RAW) as usize;
                    assert!(decode(&out[..length], 1e-3, $codes, &mut scratch));
                }
            }
        }
    };
}

tests!(f32, 4096);
tests!(f64, 2048);
