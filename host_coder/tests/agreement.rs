//! Every instruction set and header, any length: the scalar model's bytes and values.

mod model;

use model::{CHUNK, Value};
use pfpl_host::internal::Codec;
use pfpl_host::{Bound, Error, compress, decompress, decompress_range, estimate, max_stream_bytes, stream_bytes};
use proptest::prelude::*;

fn codecs() -> impl Iterator<Item = Codec> {
    Codec::each().flat_map(|codec| [codec, Codec { wide: true, streamed: 0, ..codec }])
}

fn same<T: Value>(a: &[T], b: &[T]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.bits() == b.bits())
}

/// Compresses with every codec to a buffer with `spare` bytes too many and back.
fn check<T: Value>(field: &[T], bound: f32, spare: usize) {
    let expected = [false, true].map(|wide| model::compress(field, bound, wide));
    let decoded = model::decompress::<T>(&expected[0], field.len() as u64).unwrap();
    let bound = Bound::new(bound.into()).unwrap();
    for codec in codecs() {
        let expected = &expected[usize::from(codec.wide)];
        let mut stream = vec![0x5A; expected.len() + spare];
        assert_eq!(codec.compress_into(field, bound, &mut stream), Ok(expected.len()), "{codec:?}");
        assert!(stream[..expected.len()] == expected[..], "{codec:?}");
        let mut values = vec![T::of_bits(0xAA); field.len()];
        assert_eq!(codec.decompress(&stream, &mut values), Ok(expected.len()), "{codec:?}");
        assert!(same(&values, &decoded), "{codec:?}");
    }
}

/// A little of everything: smooth, noisy, constant and wild stretches. Deterministic.
fn mixture<T: Value>(n: usize, bound: f32, seed: u64) -> Vec<T> {
    let mut state = seed;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd)
    };
    let (mut kind, mut q) = (0, 0i64);
    (0..n)
        .map(|i| {
            if i % 97 == 0 && random() % 3 == 0 {
                kind = random() % 8;
            }
            let random = random();
            q = match kind {
                0 => q,
                1 => q + (random % 5) as i64 - 2,
                2 => q + (random % 1001) as i64 - 500,
                3 => (random % (1 << 23)) as i64 - (1 << 22),
                4 => 0,
                5 => (i as f64 * 0.01).sin().mul_add(3e4, 0.0) as i64,
                6 => return T::of_bits(random),
                _ => (random % 3) as i64,
            };
            T::value(((q << 1) ^ (q >> 63)) as u64 & (2 * T::RADIUS - 1), bound)
        })
        .collect()
}

fn lengths<T: Value>() {
    let group = T::WIDTH;
    let around = [0, group, 2 * group, 128, 256, 512, 1024, T::CODES - group, T::CODES, T::CODES + group, 2 * T::CODES];
    let mut lengths: Vec<_> = around.iter().flat_map(|&n: &usize| n.saturating_sub(1)..n + 2).chain([7, 100, 777, 3000]).collect();
    lengths.dedup();
    for (i, n) in lengths.into_iter().enumerate() {
        check(&mixture::<T>(n, 1e-3, i as u64), 1e-3, [0, 1, 63, 64, 20000][i % 5]);
    }
}

#[test]
fn lengths_f32() {
    lengths::<f32>();
}

#[test]
fn lengths_f64() {
    lengths::<f64>();
}

fn contents<T: Value>() {
    let bound = 0.25;
    let value = |q: u64| T::value(q, bound);
    let n = 3 * T::CODES;
    let fields: Vec<Vec<T>> = vec![
        vec![value(0); n],
        vec![value(1); n],
        vec![value(2 * T::RADIUS - 1); n],
        (0..n as u64).map(value).collect(),
        // single planes, single words, single bytes
        (0..n).map(|i| value(if i % T::CODES == T::CODES - 1 { 2 } else { 0 })).collect(),
        (0..n).map(|i| value(if i % 64 == 0 { 1 << (i / 64 % 20) } else { 0 })).collect(),
        (0..n).map(|i| value((i as u64 % 2) << 20)).collect(),
        // raw values among quiet ones: one, few, half, all
        (0..n).map(|i| if i == 1000 { T::of_bits(u64::MAX) } else { value(4) }).collect(),
        (0..n).map(|i| if i % 251 == 0 { T::of_bits(u64::MAX >> 1) } else { value(i as u64 % 4) }).collect(),
        (0..n).map(|i| if i % 2 == 0 { T::of_bits(u64::MAX / 3 * 2) } else { value(3) }).collect(),
        (0..n as u64).map(|i| T::of_bits(i.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect(),
        // raw codes close to each other at the ends of blocks, infinity between them
        (0..n)
            .map(|i| {
                if i % 256 == 255 {
                    T::of_bits(u64::MAX)
                } else if i == 300 {
                    T::of_bits(0x7F80_0000)
                } else {
                    value(i as u64 % 900)
                }
            })
            .collect(),
        (0..n)
            .map(|i| {
                if i % 256 >= 200 {
                    T::of_bits(u64::MAX)
                } else if i % 7 == 0 {
                    T::of_bits(0x60AD_78EC)
                } else {
                    value(1120)
                }
            })
            .collect(),
        // chunks whose coded length is around the raw one's
        (0..n as u64).map(|i| T::of_bits(i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (i / 64 % 9))).collect(),
    ];
    for field in &fields {
        check(field, bound, 0);
    }
}

/// Raw codes at the ends of blocks, near each other and to those of ordinary values or far from them, in a few patterns of many: what a block's
/// codes are taken for must not hang on some of them.
fn clusters<T: Value>(rounds: u64) {
    let ones = !0u64 >> (64 - T::WIDTH);
    let centres =
        [0, 1, 0x5555, 0x7FFF, 0x8000, 0xFFFF, 2 * T::RADIUS - 1, 2 * T::RADIUS, ones, ones - 0x5555, ones / 2, 0x7F80_0000, 0xFFC0_0000];
    for seed in 0..rounds {
        let mut state = seed;
        let mut below = move |n: usize| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            ((z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) >> 33) as usize % n
        };
        let bound = [1.0, 1e-3, 3e-5, f32::MIN_POSITIVE][below(4)];
        let mut field = Vec::new();
        for _ in 0..T::CODES / 256 {
            let [usual, odd, last] = [(); 3].map(|()| centres[below(centres.len())]);
            let (spread, every) = ([1, 2, 100, 0x2AAA, 0x5556][below(5)], [3, 50, 128, 1000][below(4)]);
            for i in 0..256 {
                let centre = if i == 255 {
                    last
                } else if i % every == every - 1 {
                    odd
                } else {
                    usual
                };
                let code = centre.wrapping_sub(below(spread) as u64) & ones;
                field.push(if code < 2 * T::RADIUS { T::value(code, bound) } else { T::of_bits(code) });
            }
        }
        check(&field, bound, 0);
    }
}

#[test]
fn clusters_f32() {
    clusters::<f32>(300);
}

#[test]
fn clusters_f64() {
    clusters::<f64>(150);
}

#[test]
fn contents_f32() {
    contents::<f32>();
}

#[test]
fn contents_f64() {
    contents::<f64>();
}

/// Chunks of coded lengths around the longest: noise that no bin holds, with a constant stretch that shortens it just enough.
fn nearly_raw<T: Value>() {
    let mut closest = usize::MAX;
    let mut lengths = Vec::new();
    for seed in 0..40u64 {
        for constant in (0..400).step_by(8) {
            let noise = |i: usize| (i as u64 + 4096 * seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let bits = |i: usize| (noise(i) ^ noise(i) >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> (64 - T::WIDTH) | 1 << (T::WIDTH - 2);
            let field: Vec<T> = (0..T::CODES).map(|i| T::of_bits(bits(if (64..64 + constant).contains(&i) { 63 } else { i }))).collect();
            let length = compress(&field, Bound::new(f32::MIN_POSITIVE.into()).unwrap()).len() - 28;
            if length > CHUNK - 48 && (length < CHUNK || constant % 64 == 0) {
                check(&field, f32::MIN_POSITIVE, 0);
                lengths.push(length);
            }
            if length < CHUNK {
                closest = closest.min(CHUNK - length);
                break;
            }
        }
    }
    assert!(lengths.contains(&CHUNK) && closest <= 4, "{lengths:?}");
}

#[test]
fn nearly_raw_f32() {
    nearly_raw::<f32>();
}

#[test]
fn nearly_raw_f64() {
    nearly_raw::<f64>();
}

fn capacities<T: Value>() {
    let field = mixture::<T>(2 * T::CODES + 100, 1e-3, 5);
    let bound = Bound::new(1e-3).unwrap();
    for codec in codecs() {
        let expected = model::compress(&field, bound.get(), codec.wide);
        let header = if codec.wide { 32 } else { 16 };
        for capacity in (0..50).chain((50..expected.len()).step_by(997)).chain(expected.len() - 4..expected.len()) {
            let mut buffer = vec![0xEE; capacity + 100];
            let (stream, beyond) = buffer.split_at_mut(capacity);
            assert_eq!(codec.compress_into(&field, bound, stream), Err(Error::Overflow { needed: expected.len() as u64 }));
            assert!(beyond.iter().all(|&byte| byte == 0xEE));
            if capacity >= header {
                assert_eq!(stream[..header], expected[..header]);
                let refusal = codec.decompress(stream, &mut vec![T::zeroed(); field.len()]);
                assert_eq!(refusal, Err(Error::Truncated { needed: expected.len() as u64 }), "capacity {capacity}");
            }
        }
        for spare in [0, 1, 64, 16000, 16448, 16449, 40000] {
            let mut buffer = vec![0xEE; expected.len() + spare];
            assert_eq!(codec.compress_into(&field, bound, &mut buffer), Ok(expected.len()));
            assert!(buffer[..expected.len()] == expected[..]);
        }
    }
}

#[test]
fn capacities_f32() {
    capacities::<f32>();
}

#[test]
fn capacities_f64() {
    capacities::<f64>();
}

fn ranges<T: Value>() {
    let n = 5 * T::CODES + 123;
    let bound = Bound::new(1e-3).unwrap();
    let stream = compress(&mixture::<T>(n, 1e-3, 9), bound);
    let mut all = vec![T::zeroed(); n];
    decompress(&stream, &mut all).unwrap();
    let edges: Vec<usize> = (0..6)
        .flat_map(|chunk| [0, 1, 31, 64, 1000, T::CODES - 1].map(|at| chunk * T::CODES + at))
        .filter(|&at| at <= n)
        .chain([n - 1, n])
        .collect();
    let payload = 24 + 4 * 6;
    for &first in &edges {
        for &end in edges.iter().filter(|&&end| end >= first) {
            // all that the range does not need is damaged: chunks before and after, and the table after
            let mut damaged = stream.clone();
            let touched = if first == end { 0..0 } else { first / T::CODES..end.div_ceil(T::CODES) };
            let mut at = payload;
            for chunk in 0..6 {
                let entry: &mut [u8; 4] = (&mut damaged[24 + 4 * chunk..28 + 4 * chunk]).try_into().unwrap();
                let length = (u32::from_le_bytes(*entry) & !model::RAW) as usize;
                if chunk >= touched.end {
                    *entry = [0xFF; 4];
                }
                if !touched.contains(&chunk) {
                    damaged[at..at + length].fill(0xFF);
                }
                at += length;
            }
            for codec in codecs() {
                let mut values = vec![T::of_bits(0x77); end - first];
                assert_eq!(codec.decompress_range(&damaged, first as u64, &mut values), Ok(()), "{first}..{end}");
                assert!(same(&values, &all[first..end]), "{codec:?} {first}..{end}");
            }
        }
    }
    let outside = Err(Error::BadRange { n: n as u64 });
    assert_eq!(decompress_range(&stream, n as u64, &mut [T::zeroed()]), outside);
    assert_eq!(decompress_range(&stream, 1, &mut vec![T::zeroed(); n]), outside);
    assert_eq!(decompress_range(&stream, u64::MAX, &mut [T::zeroed(); 2]), outside);
    assert_eq!(decompress_range::<T>(&stream, n as u64 + 1, &mut []), outside);
}

#[test]
fn ranges_f32() {
    ranges::<f32>();
}

#[test]
fn ranges_f64() {
    ranges::<f64>();
}

#[test]
fn damage_within_a_range_is_found() {
    let field = mixture::<f32>(3 * 4096, 1e-3, 3);
    let mut stream = compress(&field, Bound::new(1e-3).unwrap());
    let length =
        |stream: &[u8], chunk: usize| (u32::from_le_bytes(stream[24 + 4 * chunk..][..4].try_into().unwrap()) & !model::RAW) as usize;
    let second = 36 + length(&stream, 0);
    let third = second + length(&stream, 1);
    stream[third - 1] ^= 0xFF;
    for (first, n, refused) in [(0, 4096, false), (0, 4097, true), (8191, 1, true), (8192, 4096, false)] {
        let result = decompress_range(&stream, first, &mut vec![0f32; n]);
        assert_eq!(result, if refused { Err(Error::CorruptChunk { chunk: 1, offset: second as u64 }) } else { Ok(()) });
    }
}

#[test]
fn sizes() {
    for n in [0, 1, 2048, 2049, 4096, 4097, 100_000] {
        let most = |random: u64| (random, random.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let noise: Vec<f64> = (0..n).map(|i| f64::from_bits(most(i).1 | 0x7FF0_0000_0000_0000)).collect();
        let stream = compress(&noise, Bound::new(1.0).unwrap());
        assert!(stream.len() as u64 <= max_stream_bytes::<f64>(n));
        assert_eq!(stream_bytes(&stream[..stream.len().min(32)]), Ok(stream.len() as u64));
    }
    // where the wide header begins: 24 + chunks × 16388 reaches 2³² at 262 081 chunks
    assert_eq!(max_stream_bytes::<f32>(262_079 * 4096), 24 + 262_079 * 16388);
    for chunks in [262_080u64, 262_081] {
        let wide = 24 + chunks * 16388 >= 1 << 32;
        assert_eq!(max_stream_bytes::<f32>(chunks * 4096), if wide { 32 } else { 24 } + chunks * 16388);
        assert_eq!(max_stream_bytes::<f64>((chunks - 1) * 2048 + 1), if wide { 32 } else { 24 } + chunks * 16388);
    }
    assert_eq!(max_stream_bytes::<f32>(0), 24);
    assert_eq!(max_stream_bytes::<f64>(u64::MAX), u64::MAX);
}

#[test]
fn estimates() {
    let bound = Bound::new(1e-3).unwrap();
    let field = mixture::<f32>(100_000, 1e-3, 1);
    let exact = compress(&field, bound).len() as u64;
    for chunks in [25, 1000, usize::MAX] {
        let all = estimate(&field, bound, chunks);
        assert_eq!((all.stream_bytes, all.sampled_bytes), (exact, 400_000));
        assert_eq!(all.ratio, 400_000.0 / exact as f64);
    }
    let some = estimate(&field, bound, 5);
    assert_eq!(some.sampled_bytes, 5 * 16384);
    assert!(some.stream_bytes != exact && some.stream_bytes > exact / 2 && some.stream_bytes < exact * 2);
    assert_eq!(estimate(&field, bound, 0), estimate(&field, bound, 1));
    let none = estimate::<f64>(&[], bound, 3);
    assert_eq!((none.ratio, none.stream_bytes, none.sampled_bytes), (0.0, 24, 0));
}

fn any_field<T: Value>() -> impl Strategy<Value = Vec<T>> {
    let value = prop_oneof![
        4 => (-3000i64..3000).prop_map(|q| T::value(((q << 1) ^ (q >> 63)) as u64, 0.01)),
        1 => any::<u64>().prop_map(T::of_bits),
        1 => Just(T::zeroed()),
    ];
    // runs, so that planes differ
    prop::collection::vec((value, 1usize..200), 0..120)
        .prop_map(|runs| runs.into_iter().flat_map(|(value, length)| std::iter::repeat_n(value, length)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_f32(field in any_field::<f32>(), exponent in -126i32..126, spare in 0usize..200) {
        check(&field, 2f32.powi(exponent) * 1.37, spare);
    }

    #[test]
    fn any_f64(field in any_field::<f64>(), exponent in -126i32..126, spare in 0usize..200) {
        check(&field, 2f32.powi(exponent) * 1.37, spare);
    }

    #[test]
    fn any_f32_at_a_fitting_bound(field in any_field::<f32>(), bound in 0.001f32..0.1) {
        check(&field, bound, 0);
    }

    #[test]
    fn any_f64_at_a_fitting_bound(field in any_field::<f64>(), bound in 0.001f32..0.1) {
        check(&field, bound, 0);
    }
}
