//! The promise: every value comes back within the bound in exact arithmetic, or bit for bit.

mod model;

use model::{Patterns, Value, within};
use pfpl_host::internal::Codec;
use pfpl_host::{Bound, compress, decompress};

fn codecs() -> Vec<Codec> {
    Codec::each().collect()
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The exact comparison against one in integers, for values that are multiples of 2⁻⁶⁰ below 2⁶⁰.
#[test]
fn exact_comparison_is_exact() {
    let exact = |x: f64| {
        let scaled = x * 2f64.powi(60);
        assert!(scaled == 0.0 || scaled.abs() >= 1.0 && scaled.abs() < 2f64.powi(120));
        scaled as i128
    };
    let mut state = 1;
    let (mut inside, mut outside, mut ties) = (0, 0, 0);
    for _ in 0..200_000 {
        let bits = random(&mut state);
        let bound = f32::from_bits(0x3F80_0000 | bits as u32 & 0x007F_FFFF) * 2f32.powi((bits >> 32) as i32 % 12 - 6);
        // multiples of 2⁻⁶⁰, because their spacing is at least that
        let x = f64::from_bits(0x3FF0_0000_0000_0000 | random(&mut state) >> 12) * 2f64.powi((random(&mut state) % 40) as i32 - 7);
        let near = if bits >> 60 & 1 == 0 { x - f64::from(bound) } else { x + f64::from(bound) };
        let y = f64::from_bits(near.to_bits().wrapping_add(random(&mut state) % 5).wrapping_sub(2));
        if near.abs() < 2f64.powi(-8) {
            continue;
        }
        let difference = (exact(x) - exact(y)).abs();
        let expected = difference <= exact(bound.into());
        assert_eq!(within(x, y, bound), expected, "{x:e} {y:e} {bound:e}");
        ties += usize::from((x - y).abs() == f64::from(bound) && difference != exact(bound.into()));
        if expected { inside += 1 } else { outside += 1 }
    }
    assert!(inside > 10_000 && outside > 10_000 && ties > 1000, "{inside} {outside} {ties}");
    assert!(
        !within(f64::NAN, 0.0, 1.0) && !within(0.0, f64::NAN, 1.0) && !within(f64::MAX, -f64::MAX, 1.0) && !within(f64::INFINITY, 0.0, 1.0)
    );
}

/// A 2⁻¹⁰th of what the example `exhaustive` sends.
#[test]
fn a_sample_of_all_binary32_patterns() {
    for (i, bound) in [1e-3, 1e-4, 0.1, 3e-5, 1.0].into_iter().enumerate() {
        let mut sums = vec![Patterns::default(); codecs().len()];
        for block in 0..64u32 {
            let first = (block << 26).wrapping_add(0x0357_9BDF * i as u32);
            for factor in [1, 0x9E37_79B9] {
                let found = Patterns::send(first, 1 << 15, factor, Bound::new(bound).unwrap(), &codecs());
                sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
            }
        }
        for sum in sums {
            assert_eq!((sum.broken, sum.unlike, sum.all), (0, 0, 1 << 22), "bound {bound}");
            // where the step is a power of two the nearest bin holds whenever one does
            let second_try_counts = bound != 1.0;
            assert!((sum.raw[0] < sum.raw[1]) == second_try_counts && sum.raw[0] <= sum.raw[1] && sum.raw[1] < sum.all, "{sum:?}");
        }
    }
}

/// Sends a field there and back on every instruction set. Gives the number of values kept raw.
fn send<T: Value + Into<f64>>(field: &[T], bound: f64) -> usize {
    let bound = Bound::new(bound).unwrap();
    let codes: Vec<u64> = field.iter().map(|x| x.code(bound.get(), true)).collect();
    for codec in codecs() {
        let mut stream = vec![0; pfpl_host::max_stream_bytes::<T>(field.len() as u64) as usize];
        codec.compress_into(field, bound, &mut stream).unwrap();
        let mut values = vec![T::zeroed(); field.len()];
        codec.decompress(&stream, &mut values).unwrap();
        for ((&x, &y), &code) in field.iter().zip(&values).zip(&codes) {
            assert_eq!(y.bits(), T::value(code, bound.get()).bits(), "{codec:?}: {x:?} at {bound}");
            assert!(x.bits() == y.bits() || within(x.into(), y.into(), bound.get()), "{codec:?}: {x:?} became {y:?} at {bound}");
        }
    }
    codes.iter().filter(|&&code| code >= 2 * T::RADIUS).count()
}

const BOUNDS: [f64; 14] = [1e-3, 1e-4, 0.1, 3e-5, 1.0, 0.25, 1.0 / 3.0, 1e-9, 1e-15, 1e-30, 1.2e-38, 1e20, 1.7e38, 123.456];

/// Where bins meet, are centred, and cease to exist, and some steps to either side.
fn borders<T: Value + Into<f64>>(of_f64: impl Fn(f64) -> T) {
    let mut raw = 0;
    for bound in BOUNDS {
        let eb2 = 2.0 * f64::from(Bound::new(bound).unwrap().get());
        let mut state = bound.to_bits();
        let mut bins: Vec<f64> = (-40..40).map(f64::from).collect();
        for magnitude in 0..T::WIDTH as i32 + 2 {
            for _ in 0..if T::WIDTH == 64 { 20 } else { 40 } {
                bins.push((2f64.powi(magnitude) * (1.0 + (random(&mut state) >> 12) as f64 * 2f64.powi(-52))).trunc());
            }
        }
        let radius = T::RADIUS as f64;
        bins.extend([0.5, 1.0, 2.0].iter().flat_map(|part| (-6..6).map(move |i| part * radius + f64::from(i))));
        let mut field = Vec::new();
        for bin in bins.iter().flat_map(|&bin| [bin, -bin]) {
            for part in [0.0, 0.25, 0.5] {
                let centre = of_f64((bin + part) * eb2).bits();
                let steps = (0..7).chain([20, 300]);
                field.extend(steps.flat_map(|step: u64| [centre.wrapping_add(step), centre.wrapping_sub(step)]).map(T::of_bits));
            }
        }
        raw += send(&field, bound);
    }
    assert!(raw > 1000);
}

#[test]
fn borders_f32() {
    borders::<f32>(|x| x as f32);
}

#[test]
fn borders_f64() {
    borders::<f64>(|x| x);
}

/// Binary64 values built so that each rounding of the quantizer matters: products and differences that lie within a few steps of where
/// the comparison with the bound turns, for bins so large that a bin's centre is itself rounded by as much as the bound.
#[test]
fn adversarial_f64() {
    let (mut second_tries, mut raw) = (0, 0);
    for bound in BOUNDS {
        let recorded = Bound::new(bound).unwrap().get();
        let eb = f64::from(recorded);
        let mut state = bound.to_bits() ^ 77;
        let mut field = Vec::new();
        for _ in 0..20_000 {
            // large bins matter most: there q·2eb is rounded to multiples of a step comparable to eb
            let magnitude = if random(&mut state).is_multiple_of(3) { random(&mut state) % 52 } else { 44 + random(&mut state) % 8 };
            let q = (random(&mut state) >> (63 - magnitude)) as f64 * if random(&mut state).is_multiple_of(2) { 1.0 } else { -1.0 };
            let centre = q * (2.0 * eb);
            let spacing = centre.abs().next_up() - centre.abs();
            let offset = if random(&mut state).is_multiple_of(2) { eb } else { -eb };
            // the border as the quantizer sees it, as it is, and the steps around
            for step in [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0] {
                field.push(centre + offset + step * spacing);
            }
        }
        let codes: Vec<_> = field.iter().map(|x| [true, false].map(|second| x.code(recorded, second))).collect();
        second_tries += codes.iter().filter(|[with, without]| with != without).count();
        raw += send(&field, bound);
    }
    assert!(second_tries > 1000 && raw > 1000, "{second_tries} second tries, {raw} raw");
}

#[test]
fn what_no_bin_holds_comes_back_bit_for_bit() {
    fn check<T: Value>(infinity: u64) {
        let sign = 1u64 << (T::WIDTH - 1);
        let mut field: Vec<T> = [infinity, infinity | 1, infinity | infinity >> 1, infinity | infinity >> 1 | 1, sign - 1, infinity - 1]
            .iter()
            .flat_map(|&bits| [bits, bits | sign])
            .map(T::of_bits)
            .collect();
        field.extend((0..T::WIDTH - 12).map(|bit| T::of_bits(infinity | 1 << bit)));
        let before = field.clone();
        field.resize(5000, T::of_bits(0));
        for bound in [1e-3, 1.0, f64::from(f32::MIN_POSITIVE), 1e30] {
            let stream = compress(&field, Bound::new(bound).unwrap());
            let mut values = vec![T::zeroed(); field.len()];
            decompress(&stream, &mut values).unwrap();
            assert!(before.iter().zip(&values).all(|(a, b)| a.bits() == b.bits()));
        }
    }
    check::<f32>(f32::INFINITY.to_bits().into());
    check::<f64>(f64::INFINITY.to_bits());
}

#[test]
fn subnormals_and_negative_zero_fall_into_bin_zero() {
    let tiny = [f32::from_bits(1), f32::MIN_POSITIVE.next_down(), -f32::from_bits(1), -f32::MIN_POSITIVE.next_down(), -0.0, 0.0];
    let mut values = [1f32; 6];
    decompress(&compress(&tiny, Bound::new(f32::MIN_POSITIVE.into()).unwrap()), &mut values).unwrap();
    assert!(values.iter().all(|value| value.to_bits() == 0));
    let tiny = tiny.map(f64::from);
    let mut values = [1f64; 6];
    decompress(&compress(&tiny, Bound::new(1.0).unwrap()), &mut values).unwrap();
    assert!(values.iter().all(|value| value.to_bits() == 0));
}

/// With a power of two for a step every bin is exact, so what a field's own precision puts near a border is not kept raw.
#[test]
fn power_of_two_keeps_less_raw() {
    let field: Vec<f32> = (0..8192).map(|i| 230.0 + (i * i % 3001) as f32 * 0.007).collect();
    let kept = |bound: Bound| field.iter().filter(|x| x.code(bound.get(), true) >= 2 * f32::RADIUS).count();
    let asked = 4e-5;
    assert!(kept(Bound::new(asked).unwrap()) > 0 && kept(Bound::power_of_two(asked).unwrap()) == 0);
    assert!(send(&field, Bound::power_of_two(asked).unwrap().get().into()) == 0);
}
