use crate::chunk::{Chunked, Coded, SLACK, Step, avx512, portable};
use crate::header::{CHUNK_BYTES, RAW};

/// xorshift64*
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    /// 0 to 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn supported() -> bool {
    let supported = avx512::available();
    if !supported {
        eprintln!("SKIPPED: this CPU lacks what the AVX-512 coder needs; it was NOT tested");
    }
    supported
}

macro_rules! tests {
    ($value:ident, $code:ty) => {
        mod $value {
            use super::*;

            const CODES: usize = CHUNK_BYTES / size_of::<$value>();

            #[derive(Default)]
            struct Coders {
                portable: portable::Scratch,
                avx512: avx512::Scratch,
            }

            impl Coders {
                fn encode(&mut self, values: &[$value], step: &Step<$value>) -> (u32, Vec<u8>) {
                    let (mut expected, mut out) = (vec![0; CHUNK_BYTES + SLACK], vec![0xEE; CHUNK_BYTES + SLACK]);
                    let entry = portable::$value::encode(values, step, &mut self.portable, &mut expected);
                    // SAFETY: the CPU was asked.
                    let ours = unsafe { avx512::$value::encode(values, step, &mut self.avx512, &mut out) };
                    assert_eq!(ours, entry);
                    let length = (entry & !RAW) as usize;
                    assert!(out[..length] == expected[..length]);
                    expected.truncate(length);
                    (entry, expected)
                }

                /// Decodes by both, from the end of an allocation and from within a stream.
                fn decode(&mut self, chunk: &[u8], raw: bool, step: &Step<$value>, n: usize) -> bool {
                    let mut stream = vec![0x5A; 100];
                    stream.extend_from_slice(chunk);
                    stream.shrink_to_fit();
                    let mut long = stream.clone();
                    long.resize(stream.len() + 200, 0xA5);
                    let mut expected = vec![0.0; n];
                    let coded = Coded { stream: &stream, at: 100, length: chunk.len(), raw, streamed: false };
                    let valid = portable::$value::decode(coded, step, &mut self.portable, &mut expected);
                    for (stream, streamed) in [(&stream, false), (&long, true)] {
                        let mut values = vec![1.0; n];
                        let coded = Coded { stream, streamed, ..coded };
                        // SAFETY: the CPU was asked.
                        let ours = unsafe { avx512::$value::decode(coded, step, &mut self.avx512, &mut values) };
                        assert_eq!(ours, valid);
                        assert!(!valid || values.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()));
                    }
                    valid
                }

                fn round_trip(&mut self, values: &[$value], bound: f32) -> (u32, Vec<u8>) {
                    let step = <$value as Chunked>::step(bound);
                    let (entry, chunk) = self.encode(values, &step);
                    assert!(self.decode(&chunk, entry & RAW != 0, &step, values.len()));
                    (entry, chunk)
                }
            }

            fn fields() -> Vec<(&'static str, Vec<$value>)> {
                let mut random = Random(7);
                let mut make =
                    |mut value: Box<dyn FnMut(usize, &mut Random) -> $value>| (0..CODES).map(|i| value(i, &mut random)).collect();
                let odd = [
                    0.0,
                    -0.0,
                    <$value>::NAN,
                    -<$value>::NAN,
                    <$value>::from_bits(<$value>::INFINITY.to_bits() | 1),
                    <$value>::INFINITY,
                    <$value>::NEG_INFINITY,
                    <$value>::MAX,
                    <$value>::MIN,
                    <$value>::MIN_POSITIVE,
                    <$value>::from_bits(1),
                    -<$value>::from_bits(77),
                ];
                let radius = if size_of::<$value>() == 4 { (1u64 << 22) as $value } else { (1u64 << 51) as $value };
                vec![
                    ("smooth", make(Box::new(|i, _| (i as $value * 0.003).sin()))),
                    ("far from zero", make(Box::new(|i, _| 273.15 + (i as $value * 0.003).sin()))),
                    ("far below zero", make(Box::new(|i, _| -998.0 - (i as $value * 0.01).sin()))),
                    ("noisy", make(Box::new(|i, r| ((i as f64 * 0.003).sin() + 0.01 * r.unit()) as $value))),
                    ("coarse", make(Box::new(|_, r| ((r.unit() - 0.5) * 1e4) as $value))),
                    ("random bits", make(Box::new(|_, r| <$value>::from_bits(r.next() as $code)))),
                    ("zero", make(Box::new(|_, _| 0.0))),
                    ("constant", make(Box::new(|_, _| 12.5))),
                    ("one spike", make(Box::new(|i, _| if i == 777 { 1e3 } else { 0.0 }))),
                    ("last only", make(Box::new(|i, _| if i == CODES - 1 { -1.0 } else { 0.0 }))),
                    ("fill", make(Box::new(|i, r| if r.below(3) == 0 { 1e20 } else { (i as $value * 0.01).cos() }))),
                    (
                        "rare odd values",
                        make(Box::new(move |i, r| if r.below(200) == 0 { odd[r.below(12)] } else { (i as $value * 0.01).cos() })),
                    ),
                    ("odd values", make(Box::new(move |_, r| odd[r.below(12)]))),
                    (
                        "blocks",
                        make(Box::new(|i, r| {
                            if i / 512 % 3 == 0 {
                                0.0
                            } else if i / 512 % 3 == 1 {
                                (r.unit() * 1e-2) as $value
                            } else {
                                <$value>::from_bits(r.next() as $code)
                            }
                        })),
                    ),
                    ("subnormal", make(Box::new(|_, r| <$value>::from_bits(r.next() as $code >> 12)))),
                    ("ties", make(Box::new(|_, r| (r.below(4000) as $value - 2000.0) * 0.0009765625))),
                    (
                        "near ties",
                        make(Box::new(|_, r| {
                            let tie = (r.below(4000) as $value - 2000.5) * 0.0002;
                            <$value>::from_bits(tie.to_bits().wrapping_add(r.below(5) as $code).wrapping_sub(2))
                        })),
                    ),
                    (
                        "radius",
                        make(Box::new(move |_, r| {
                            let edge =
                                (radius + r.below(9) as $value * 0.5 - 2.0) * 0.0009765625 * if r.below(2) == 0 { 1.0 } else { -1.0 };
                            <$value>::from_bits(edge.to_bits().wrapping_add(r.below(3) as $code).wrapping_sub(1))
                        })),
                    ),
                    ("slow steps", make(Box::new(|i, _| (i / 100) as $value * 0.37))),
                    ("ramp", make(Box::new(|i, _| i as $value * 0.61))),
                    ("long jumps", make(Box::new(|i, r| if r.below(300) == 0 { 700.0 } else { i as $value * 0.01 }))),
                ]
            }

            const BOUNDS: [f32; 9] = [1e-3, 1e-4, 0.000_488_281_25, 0.1, 3e-5, 1.0, 1e-6, f32::MIN_POSITIVE, f32::MAX / 2.0];

            #[test]
            fn equals_the_portable_coder() {
                if !supported() {
                    return;
                }
                let mut coders = Coders::default();
                let mut seen = [0; 3];
                for (name, field) in fields() {
                    for bound in BOUNDS {
                        eprintln!("{name} at {bound:e}");
                        let (entry, _) = coders.round_trip(&field, bound);
                        seen[if entry == 2 { 0 } else { 1 + usize::from(entry & RAW != 0) }] += 1;
                    }
                }
                assert!(seen.iter().all(|&seen| seen > 5), "{seen:?}");
            }

            #[test]
            fn partial_chunks() {
                if !supported() {
                    return;
                }
                let mut coders = Coders::default();
                for (_, field) in fields() {
                    for n in [1, 2, 7, 8, 31, 63, 64, 65, 511, 512, 513, 1000, CODES - 1] {
                        coders.round_trip(&field[CODES - n..], 1e-3);
                    }
                }
            }

            /// Quantization at values that no field would pick.
            #[test]
            fn random_values_at_random_bounds() {
                if !supported() {
                    return;
                }
                let mut coders = Coders::default();
                let mut random = Random(11);
                for _ in 0..300 {
                    let bound = f32::from_bits((1 << 23) + random.below(0x7E7F_FFFF - (1 << 23)) as u32);
                    let spread = (random.unit() * 40.0).exp2() as $value * bound as $value;
                    let field: Vec<_> = (0..CODES).map(|_| (random.unit() - 0.5) as $value * spread).collect();
                    coders.round_trip(&field, bound);
                }
            }

            #[test]
            fn damaged_chunks() {
                if !supported() {
                    return;
                }
                let mut coders = Coders::default();
                let mut random = Random(3);
                let step = <$value as Chunked>::step(1e-3);
                let (mut valid, mut corrupt) = (0, 0);
                for (_, field) in fields() {
                    let (entry, chunk) = coders.round_trip(&field, 1e-3);
                    for _ in 0..250 {
                        let mut chunk = chunk.clone();
                        for _ in 0..1 + random.below(3) {
                            // mostly in the levels, which are at the end
                            let back = if random.below(2) == 0 { chunk.len() } else { chunk.len().min(80) };
                            let at = chunk.len() - 1 - random.below(back);
                            match random.below(3) {
                                0 => chunk[at] ^= 1 << random.below(8),
                                1 => chunk[at] = random.next() as u8,
                                _ if entry & RAW == 0 && chunk.len() > 10 => {
                                    chunk.remove(at);
                                    if random.below(2) == 0 || chunk.len() < 10 {
                                        chunk.insert(random.below(chunk.len()), random.next() as u8);
                                    }
                                }
                                _ => {}
                            }
                        }
                        match coders.decode(&chunk, entry & RAW != 0, &step, field.len()) {
                            true => valid += 1,
                            false => corrupt += 1,
                        }
                    }
                }
                assert!(valid > 500 && corrupt > 500, "{valid} {corrupt}");
            }

            /// Any planes: differences that no encoder makes, sums that wrap.
            #[test]
            fn random_planes() {
                if !supported() {
                    return;
                }
                let mut coders = Coders::default();
                let mut random = Random(5);
                let step = <$value as Chunked>::step(1e-3);
                for _ in 0..400 {
                    let first = random.below(64) * 256;
                    let mut planes = [0u8; CHUNK_BYTES];
                    let shift = random.below(8);
                    planes[first..].iter_mut().for_each(|byte| *byte = if random.below(8) < shift { 0xFF } else { random.next() as u8 });
                    coders.decode(&planes, true, &step, CODES);
                    let mut out = vec![0; CHUNK_BYTES + SLACK];
                    let entry = portable::eliminate_zeros(&planes, &mut out);
                    coders.decode(&out[..(entry & !RAW) as usize], entry & RAW != 0, &step, CODES);
                }
            }

            /// Codes that leave what a signed half of a code holds, by small steps, on either side.
            #[test]
            fn walks_at_the_ends_of_halves() {
                if !supported() {
                    return;
                }
                const WIDTH: usize = <$code>::BITS as usize;
                const NEGABINARY: $code = <$code>::MAX / 3 * 2;
                let mut coders = Coders::default();
                let mut random = Random(13);
                let step = <$value as Chunked>::step(1e-3);
                for _ in 0..1000 {
                    // even digits are positive, odd ones negative
                    let digits = WIDTH / 2 - random.below(3);
                    let (up, down) = (!NEGABINARY & ((1 << digits) - 1), NEGABINARY & ((1 << digits) - 1));
                    let calm = 1 + random.below(4000);
                    let mut planes = [0u8; CHUNK_BYTES];
                    for i in 0..CODES {
                        let jump = random.below(calm) == 0 || (i % 512 == 0 && random.below(4) != 0);
                        let n = match random.below(4) {
                            0 if jump => up,
                            _ if jump => down,
                            bits => bits as $code & 1,
                        };
                        for bit in (0..WIDTH).filter(|bit| n >> bit & 1 == 1) {
                            let at = (WIDTH - 1 - bit) * CODES + i / WIDTH * WIDTH + WIDTH - 1 - i % WIDTH;
                            planes[at / 8] |= 1 << (at % 8);
                        }
                    }
                    let mut out = vec![0; CHUNK_BYTES + SLACK];
                    let entry = portable::eliminate_zeros(&planes, &mut out);
                    assert!(entry & RAW == 0 && coders.decode(&out[..entry as usize], false, &step, CODES));
                }
            }
        }
    };
}

tests!(f32, u32);
tests!(f64, u64);
