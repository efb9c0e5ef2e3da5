//! The kernels against the host coder, on every schedule: the same suite for every target.

pub mod device;
pub mod fields;

use device::{Decode, Device, Encode, Form, NO_CHUNK, Outcome, Target, Value, schedule};
use fields::{KINDS, field};
use pfpl_host::internal::Codec;
use pfpl_host::{Bound, Error, decompress, decompress_range, max_stream_bytes};

/// All tests of a target, whose image the including file names `IMAGE`.
#[macro_export]
macro_rules! suite {
    () => {
        $crate::tests! {
            f32: encode_corpus, decode_corpus, every_capacity, overflow, raw_threshold, lists, hostile, hostile_ranges, long_tables, schedules;
            f64: encode_corpus, decode_corpus, every_capacity, overflow, raw_threshold, lists, hostile, hostile_ranges, long_tables, schedules;
        }
        #[test]
        fn reuse() {
            $crate::suite::reuse(IMAGE);
        }
    };
}
#[doc(hidden)]
#[macro_export]
macro_rules! tests {
    ($($value:ident: $($name:ident),*;)*) => {
        $(mod $value {
            $(#[test]
            fn $name() {
                $crate::suite::$name::<$value>($crate::IMAGE);
            })*
        })*
    };
}

pub fn bound(b: f64) -> Bound {
    Bound::new(b).unwrap()
}

fn host<T: Value>(field: &[T], bound: Bound, wide: bool) -> Vec<u8> {
    let codec = Codec { wide, ..Codec::default() };
    let mut stream = vec![0; max_stream_bytes::<T>(field.len() as u64) as usize + 32];
    let length = codec.compress_into(field, bound, &mut stream).unwrap();
    stream.truncate(length);
    stream
}

/// Encodes a field with every kernel that can, on schedules from `seed` on, and checks the bytes.
pub fn encode_and_check<T: Value>(device: &mut Device, what: &str, values: &[T], bound: Bound, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for (i, &form) in device.target.encoders().iter().enumerate() {
        let seed = seed + i as u64;
        let wide = rng.bool();
        let expected = host(values, bound, wide);
        let align = (rng.usize(..16 / size_of::<T>()) * size_of::<T>(), rng.usize(..4) * 4);
        let capacity = expected.len() + rng.usize(..3) * 5;
        let call = Encode { field: values, bound, capacity, wide, align, outcome: rng.u8(..4) > 0 };
        let grid = [1, 2, 3, 5, 9][rng.usize(..5)];
        let context = || {
            format!("{what}, {} {}, bound {bound}, {form:?}, wide {wide}, align {align:?}, grid {grid}, seed {seed}", values.len(), T::NAME)
        };
        let (outcome, bytes) =
            device.encode(&[call], form, grid, &schedule(seed)).unwrap_or_else(|f| panic!("{}: {f}", context())).remove(0);
        if let Some(outcome) = outcome {
            assert_eq!(outcome, Outcome { stream_bytes: expected.len() as u64, status: 0, chunk: NO_CHUNK }, "{}", context());
        }
        if let Some(at) = expected.iter().zip(&bytes).position(|(a, b)| a != b) {
            panic!("{}: byte {at} of {} differs", context(), expected.len());
        }
    }
}

pub fn encode_corpus<T: Value>(image: &str) {
    let mut device = Device::new(image, 3, 16);
    let bounds = if T::CODES == 4096 { [1e-4, 1e-2, 0.3] } else { [1e-9, 1e-4, 0.1] };
    let mut seed = 0;
    for (k, kind) in KINDS.iter().enumerate() {
        for (l, n) in [T::CODES * 3 - 5, T::CODES + 1, T::CODES, T::CODES - 1, 33].into_iter().enumerate() {
            encode_and_check(&mut device, kind, &field::<T>(kind, n, seed), bound(bounds[(k + l) % 3]), seed);
            seed += 10;
        }
    }
    for n in [0, 1, 2, 31, 32, 63, 64, 65] {
        encode_and_check(&mut device, "noisy", &field::<T>("noisy", n, seed), bound(1e-3), seed);
        seed += 10;
    }
}

/// What the host coder says of a stream: the outcome, and the values if it decodes.
fn host_decode<T: Value>(stream: &[u8], n: usize) -> (u32, u32, Option<(u64, Vec<T>)>) {
    let mut values = vec![T::from_f64(0.0); n];
    refusal(decompress(stream, &mut values).map(|length| (length as u64, values)))
}
fn refusal<V>(result: Result<V, Error>) -> (u32, u32, Option<V>) {
    match result {
        Ok(v) => (0, NO_CHUNK, Some(v)),
        Err(e) => (e.status() as u32, e.chunk().map_or(NO_CHUNK, |c| c as u32), None),
    }
}

/// A whole stream.
fn whole(stream: &[u8], n: usize) -> Decode<'_> {
    Decode { stream, n: n as u64, first: 0, count: n as u64, align: (0, 0), outcome: true }
}

fn check_values<T: Value>(expected: &[T], got: &[T], context: &str) {
    let (expected, got) = (T::bytes(expected), T::bytes(got));
    if let Some(at) = expected.iter().zip(&got).position(|(a, b)| a != b) {
        panic!("{context}: value {} of {} differs", at / size_of::<T>(), expected.len() / size_of::<T>());
    }
}

fn some_align<T>(rng: &mut fastrand::Rng) -> (usize, usize) {
    (rng.usize(..16 / size_of::<T>()) * size_of::<T>(), rng.usize(..4) * 4)
}

pub fn decode_corpus<T: Value>(image: &str) {
    let mut device = Device::new(image, 3, 16);
    let bounds = if T::CODES == 4096 { [1e-4, 1e-2, 0.3, 1e30] } else { [1e-9, 1e-4, 0.1, 1e35] };
    let mut check = |what: &str, n: usize, bound: Bound, seed: u64| {
        let mut rng = fastrand::Rng::with_seed(seed);
        let field = field::<T>(what, n, seed);
        let mut stream = host(&field, bound, rng.bool());
        let consumed = stream.len() as u64;
        let expected = host_decode::<T>(&stream, n).2.expect("a sound stream").1;
        // bytes after a stream are not looked at
        stream.resize(stream.len() + [0, 0, 5, 40][rng.usize(..4)], 0xAB);
        let mut launches = vec![];
        for (form, ranges) in device.target.singles().iter().map(|&form| (form, 0)).chain([(Form::DeviceList, 4)]) {
            let align = some_align::<T>(&mut rng);
            let mut calls = vec![Decode { align, outcome: rng.bool(), ..whole(&stream, n) }];
            for _ in 0..if n > 0 { ranges } else { 0 } {
                let first = rng.usize(..n);
                let count = rng.usize(..=(n - first).min(3 * T::CODES / 2));
                calls.push(Decode { first: first as u64, count: count as u64, align: some_align::<T>(&mut rng), ..calls[0] });
            }
            if form == Form::DeviceList && device.target == Target::Cuda {
                launches.extend(calls[1..].iter().map(|call| (Form::Small, vec![call.clone()])));
            }
            launches.push((form, calls));
        }
        for (form, calls) in launches {
            let align = calls[0].align;
            let grid = [1, 2, 3, 5, 9][rng.usize(..5)];
            let context = format!("{what}, {n} {}, bound {bound}, {form:?}, align {align:?}, grid {grid}, seed {seed}", T::NAME);
            let results = device.decode::<T>(&calls, form, grid, &schedule(seed)).unwrap_or_else(|f| panic!("{context}: {f}"));
            for (call, (outcome, got)) in calls.iter().zip(results) {
                let (first, count) = (call.first as usize, call.count as usize);
                let context = format!("{context}, values {first} to {}", first + count);
                if let Some(outcome) = outcome {
                    assert_eq!(outcome, Outcome { stream_bytes: consumed, status: 0, chunk: NO_CHUNK }, "{context}");
                }
                check_values(&expected[first..first + count], &got, &context);
            }
        }
    };
    let mut seed = 1000;
    for (k, kind) in KINDS.iter().enumerate() {
        for (l, n) in [T::CODES * 3 - 5, T::CODES + 1, T::CODES, T::CODES - 1, 33].into_iter().enumerate() {
            check(kind, n, self::bound(bounds[(k + l) % 4]), seed);
            seed += 1;
        }
    }
    for n in [0, 1, 2, 31, 32, 63, 64, 65] {
        check("noisy", n, self::bound(1e-3), seed);
        seed += 1;
    }
}

/// Every capacity of a small field: the length needed, the header if it fits, no byte past the capacity (the executor sees to that).
pub fn every_capacity<T: Value>(image: &str) {
    let mut device = Device::new(image, 1, 4);
    let values = field::<T>("noisy", 40, 7);
    for &form in device.target.encoders() {
        for wide in [false, true] {
            let expected = host(&values, bound(1e-3), wide);
            for capacity in 0..expected.len() + 3 {
                let context = format!("{} {form:?} wide {wide} capacity {capacity} of {}", T::NAME, expected.len());
                let call = Encode { field: &values, bound: bound(1e-3), capacity, wide, align: (0, 4), outcome: true };
                let (outcome, bytes) =
                    device.encode(&[call], form, 1, &schedule(capacity as u64)).unwrap_or_else(|f| panic!("{context}: {f}")).remove(0);
                let status = u32::from(capacity < expected.len());
                assert_eq!(outcome, Some(Outcome { stream_bytes: expected.len() as u64, status, chunk: NO_CHUNK }), "{context}");
                let sure = match capacity {
                    c if c >= expected.len() => expected.len(),
                    c if c >= if wide { 32 } else { 16 } => {
                        if wide {
                            32
                        } else {
                            16
                        }
                    }
                    _ => 0,
                };
                assert_eq!(bytes[..sure], expected[..sure], "{context}");
            }
        }
    }
}

/// Several chunks into capacities that end within one of them.
pub fn overflow<T: Value>(image: &str) {
    let mut device = Device::new(image, 1, 8);
    let values = field::<T>("mixed", 4 * T::CODES - 9, 3);
    let expected = host(&values, bound(1e-3), false);
    let mut rng = fastrand::Rng::with_seed(5);
    for round in 0..8 {
        for &form in device.target.encoders() {
            let capacity = if round == 0 { expected.len() - 1 } else { rng.usize(..expected.len()) };
            let call =
                Encode { field: &values, bound: bound(1e-3), capacity, wide: false, align: some_align::<T>(&mut rng), outcome: true };
            let context = format!("{} {form:?} capacity {capacity} of {}", T::NAME, expected.len());
            let (outcome, bytes) =
                device.encode(&[call], form, 3, &schedule(capacity as u64)).unwrap_or_else(|f| panic!("{context}: {f}")).remove(0);
            assert_eq!(outcome, Some(Outcome { stream_bytes: expected.len() as u64, status: 1, chunk: NO_CHUNK }), "{context}");
            let header = if capacity < 16 { 0 } else { 16 };
            assert_eq!(bytes[..header], expected[..header], "{context}");
        }
    }
}

/// Lists of fields of any length, some with too small a capacity, some whose outcome nobody wants; decoded again as a list.
pub fn lists<T: Value>(image: &str) {
    let mut device = Device::new(image, 70, 64);
    let mut rng = fastrand::Rng::with_seed(11);
    let mut seed = 0;
    for (form, count) in [(Form::List, 1), (Form::List, 6), (Form::DeviceList, 12), (Form::List, 40), (Form::DeviceList, 66)] {
        for _ in 0..2 {
            seed += 1;
            let fields: Vec<Vec<T>> = (0..count)
                .map(|i| {
                    let most = if count > 12 { 90 } else { 5 * T::CODES / 2 };
                    let n = [0, rng.usize(..70), rng.usize(..most)][rng.usize(..3)];
                    field(KINDS[rng.usize(..KINDS.len())], n, seed * 100 + i)
                })
                .collect();
            let calls: Vec<Encode<'_, T>> = fields
                .iter()
                .map(|field| {
                    let (bound, wide) = (bound([1e-3, 0.1, 1e-6][rng.usize(..3)]), rng.bool());
                    let needed = host(field, bound, wide).len();
                    let capacity = if rng.u8(..5) == 0 { rng.usize(..needed) } else { needed };
                    Encode { field, bound, capacity, wide, align: some_align::<T>(&mut rng), outcome: rng.u8(..4) > 0 }
                })
                .collect();
            let grid = rng.u32(1..8);
            let context = format!("{count} {} {form:?}, grid {grid}, seed {seed}", T::NAME);
            let coded = device.encode(&calls, form, grid, &schedule(seed)).unwrap_or_else(|f| panic!("{context}: {f}"));
            for (i, (call, (outcome, bytes))) in calls.iter().zip(&coded).enumerate() {
                let expected = host(call.field, call.bound, call.wide);
                let status = u32::from(call.capacity < expected.len());
                if let Some(outcome) = outcome {
                    assert_eq!(*outcome, Outcome { stream_bytes: expected.len() as u64, status, chunk: NO_CHUNK }, "{context}, field {i}");
                }
                assert!(status == 1 || *bytes == expected, "{context}, field {i}");
            }
            let streams: Vec<Decode<'_>> = calls
                .iter()
                .zip(&coded)
                .map(|(c, (_, bytes))| Decode { align: some_align::<T>(&mut rng), outcome: rng.u8(..4) > 0, ..whole(bytes, c.field.len()) })
                .collect();
            let decoded = device.decode::<T>(&streams, form, grid, &schedule(seed + 50)).unwrap_or_else(|f| panic!("{context}: {f}"));
            for (i, (call, (outcome, values))) in streams.iter().zip(&decoded).enumerate() {
                let (status, chunk, sound) = host_decode::<T>(call.stream, call.n as usize);
                if let Some(outcome) = outcome {
                    assert_eq!((outcome.status, outcome.chunk), (status, chunk), "{context}, stream {i}");
                }
                if let Some((_, expected)) = sound {
                    check_values(&expected, values, &format!("{context}, stream {i}"));
                }
            }
        }
    }
}

/// One change to a stream: where it hurts, or anywhere.
fn damage<T: Value>(stream: &mut Vec<u8>, n: usize, rng: &mut fastrand::Rng) {
    let wide = stream.get(2) == Some(&b'W');
    let table = if wide { 32 } else { 24 };
    let chunks = n.div_ceil(T::CODES);
    let length = stream.len();
    let payload = (table + 4 * chunks).min(length);
    let put = |stream: &mut Vec<u8>, at: usize, v: u32| {
        if at + 4 <= stream.len() {
            stream[at..at + 4].copy_from_slice(&v.to_le_bytes());
        }
    };
    match rng.u8(..13) {
        0 => put(
            stream,
            rng.usize(..8) * 4,
            [0, 1, u32::MAX, 0x8000_0000, 0x0080_0000, 0x007f_ffff, 0x7f00_0000, 0x7eff_ffff, rng.u32(..)][rng.usize(..9)],
        ),
        1 => {
            let at = rng.usize(..table + 4);
            if at < length {
                stream[at] = stream[at].wrapping_add([1, 255, 4, 128][rng.usize(..4)]);
            }
        }
        2 => stream.truncate(rng.usize(..=length)),
        3 => stream.truncate(length - rng.usize(..length.min(9))),
        4 => stream[..4].copy_from_slice([b"PFP4", b"PFP8", b"PFW4", b"PFW8", b"PFX4", b"PFP5"][rng.usize(..6)]),
        5 | 6 if chunks > 0 => {
            let at = table + 4 * rng.usize(..chunks);
            let old = stream.get(at..at + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().unwrap()));
            let near = [old.wrapping_add(1), old.wrapping_sub(1), old ^ 0x8000_0000, old / 2, rng.u32(..)];
            let limits = [0, 1, 2, 3, 9, 10, 16383, 16384, 0x8000_4000, 0x8000_3fff, 0x8000_4001, u32::MAX];
            let values: Vec<u32> = near.into_iter().chain(limits).collect();
            put(stream, at, values[rng.usize(..values.len())]);
        }
        7 | 8 if chunks > 0 => {
            // the end of a chunk, where its levels and its mark are
            let chunk = rng.usize(..chunks);
            let entry = |i: usize| {
                stream.get(table + 4 * i..table + 4 * i + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().unwrap()) as usize & 0x7fff_ffff)
            };
            let end = payload + (0..=chunk).map(entry).sum::<usize>();
            let reach = [2, 6, 40, 400][rng.usize(..4)];
            let at = end.wrapping_sub(1 + rng.usize(..reach));
            if at >= payload && at < stream.len() {
                stream[at] = [rng.u8(..), stream[at] ^ 1 << rng.u8(..8), 0, 255][rng.usize(..4)];
            }
        }
        9 => put(stream, if wide { 16 } else { 4 }, rng.u32(..2 * length as u32 + 2)),
        // no padding behind the payload, or less payload
        11 if length > table + 3 => {
            let cut = rng.usize(1..4);
            let archive = if wide { 16 } else { 4 };
            let bytes = (length - if wide { 32 } else { 16 } - cut) as u32;
            put(stream, archive, bytes);
            stream.truncate(length - cut);
        }
        10 => stream.resize(length + rng.usize(..20), rng.u8(..)),
        _ if payload < length => {
            let at = rng.usize(payload..length);
            stream[at] ^= 1 << rng.u8(..8);
        }
        _ => {}
    }
}

/// Damaged streams, several in a launch, each refused as the host coder refuses it, or decoded to the same values.
pub fn hostile<T: Value>(image: &str) {
    let mut device = Device::new(image, 8, 32);
    const LAUNCHES: u64 = 300;
    let mut refused = [0; 9];
    for seed in 0..LAUNCHES {
        let mut rng = fastrand::Rng::with_seed(seed);
        let streams: Vec<(usize, Vec<u8>)> = (0..rng.u64(1..=8))
            .map(|i| {
                let n = [rng.usize(..100), rng.usize(..2 * T::CODES), T::CODES * 3 - rng.usize(..9)][[0, 0, 1, 2][rng.usize(..4)]];
                let field = field::<T>(KINDS[rng.usize(..KINDS.len())], n, seed * 10 + i);
                let mut stream = host(&field, bound([1e-3, 1e-1, 1e-6][rng.usize(..3)]), rng.bool());
                for _ in 0..[1, 1, 1, 2, 5][rng.usize(..5)] {
                    if stream.len() >= 4 {
                        damage::<T>(&mut stream, n, &mut rng);
                    }
                }
                (n, stream)
            })
            .collect();
        let calls: Vec<Decode<'_>> =
            streams.iter().map(|(n, stream)| Decode { align: some_align::<T>(&mut rng), ..whole(stream, *n) }).collect();
        let form = if calls.len() == 1 { Form::One } else { [Form::List, Form::DeviceList][rng.usize(..2)] };
        let grid = rng.u32(1..7);
        let context = format!("{} hostile seed {seed}, {form:?}, grid {grid}", T::NAME);
        let results = device.decode_all::<T>(&calls, form, grid, &schedule(seed)).unwrap_or_else(|f| panic!("{context}: {f}"));
        for (i, (call, (outcome, values))) in results.into_iter().enumerate() {
            let context = format!("{context}, call {i}, a stream of {} values, {} bytes", call.n, call.stream.len());
            let (status, chunk, sound) = host_decode::<T>(call.stream, call.n as usize);
            let outcome = outcome.expect("asked for");
            assert_eq!((outcome.status, outcome.chunk), (status, chunk), "{context}");
            refused[status as usize] += 1;
            if let Some((consumed, expected)) = sound {
                assert_eq!(outcome.stream_bytes, consumed, "{context}");
                check_values(&expected, &values, &context);
            }
        }
    }
    for status in [0, 2, 3, 4, 5, 6, 7, 8] {
        assert!(refused[status] > 0, "no stream with status {status} among them");
    }
}

/// Ranges of streams with damage outside the header: what is not read goes unnoticed, as by the host coder.
pub fn hostile_ranges<T: Value>(image: &str) {
    const LAUNCHES: u64 = 60;
    let mut device = Device::new(image, 8, 32);
    for seed in 0..LAUNCHES {
        let mut rng = fastrand::Rng::with_seed(seed + 77_000);
        let n = 5 * T::CODES - 3;
        let field = field::<T>(KINDS[rng.usize(..KINDS.len())], n, seed);
        let mut stream = host(&field, bound(1e-3), rng.bool());
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(32..(32 + 60).max(stream.len() / 8).min(stream.len()));
            stream[at] = rng.u8(..);
        }
        let calls: Vec<Decode<'_>> = (0..4)
            .map(|_| {
                let first = rng.usize(..n);
                let count = rng.usize(1..=(n - first).min(T::CODES));
                Decode { first: first as u64, count: count as u64, align: some_align::<T>(&mut rng), ..whole(&stream, n) }
            })
            .collect();
        let context = format!("{} ranges of hostile seed {seed}", T::NAME);
        let results =
            device.decode_all::<T>(&calls, Form::List, rng.u32(1..5), &schedule(seed)).unwrap_or_else(|f| panic!("{context}: {f}"));
        for (call, (outcome, values)) in results {
            let mut expected = vec![T::from_f64(0.0); call.count as usize];
            let (status, chunk, sound) = refusal(decompress_range(call.stream, call.first, &mut expected));
            let outcome = outcome.expect("asked for");
            let context = format!("{context}, {} values from {}", call.count, call.first);
            assert_eq!((outcome.status, outcome.chunk), (status, chunk), "{context}");
            if sound.is_some() {
                check_values(&expected, &values, &context);
            }
        }
    }
}

/// Ranges at the end of a field of many chunks, with bad entries far before them.
pub fn long_tables<T: Value>(image: &str) {
    const CHUNKS: usize = 1500;
    let mut device = Device::new(image, 4, 16);
    let sound = host(&vec![T::from_f64(0.0); CHUNKS * T::CODES], bound(1.0), false);
    for seed in 0..20 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut stream = sound.clone();
        for _ in 0..rng.usize(..4) {
            let (at, entry) = (24 + 4 * rng.usize(..CHUNKS), [1u32, 9, 0x8000_0001, 16383, 0x8000_4000][rng.usize(..5)]);
            stream[at..at + 4].copy_from_slice(&entry.to_le_bytes());
        }
        let n = CHUNKS * T::CODES;
        let firsts = [rng.usize(..n - 10), n - 10 - rng.usize(..2 * T::CODES), n - 10];
        let calls = firsts.map(|first| Decode { first: first as u64, count: 10, ..whole(&stream, n) });
        let context = format!("{} long table, seed {seed}", T::NAME);
        let results =
            device.decode_all::<T>(&calls, Form::List, rng.u32(1..4), &schedule(seed)).unwrap_or_else(|f| panic!("{context}: {f}"));
        for (call, (outcome, values)) in results {
            let mut expected = vec![T::from_f64(1.0); 10];
            let (status, chunk, sound) = refusal(decompress_range(call.stream, call.first, &mut expected));
            let outcome = outcome.expect("asked for");
            assert_eq!((outcome.status, outcome.chunk), (status, chunk), "{context}, from {}", call.first);
            if sound.is_some() {
                check_values(&expected, &values, &context);
            }
        }
    }
}

/// One field on many schedules, both ways.
pub fn schedules<T: Value>(image: &str) {
    let mut device = Device::new(image, 1, 16);
    let values = field::<T>("mixed", 11 * T::CODES + 100, 1);
    let expected = host(&values, bound(1e-4), false);
    for seed in 0..24 {
        let grid = [1, 2, 4, 7, 12, 20][(seed % 6) as usize];
        for &form in device.target.encoders() {
            let call = Encode { field: &values, bound: bound(1e-4), capacity: expected.len(), wide: false, align: (0, 0), outcome: true };
            let (_, bytes) = device
                .encode(&[call], form, grid, &schedule(seed))
                .unwrap_or_else(|f| panic!("{form:?} grid {grid} seed {seed}: {f}"))
                .remove(0);
            assert!(bytes == expected, "{form:?} grid {grid} seed {seed}");
        }
        for &form in device.target.singles() {
            let (_, decoded) = device
                .decode::<T>(&[whole(&expected, values.len())], form, grid, &schedule(seed))
                .unwrap_or_else(|f| panic!("decode, {form:?} grid {grid} seed {seed}: {f}"))
                .remove(0);
            let context = format!("{form:?} grid {grid} seed {seed}");
            check_values(&host_decode::<T>(&expected, values.len()).2.expect("sound").1, &decoded, &context);
        }
    }
}

/// One plan for calls of every kind in turn, and across the wrap of its counters with words of earlier launches all about.
pub fn reuse(image: &str) {
    let mut device = Device::new(image, 4, 24);
    let target = device.target;
    let wraps: &[u64] = match target {
        Target::Cuda => &[0, 0x1fffe, 0x1fffd, 0x7fff, 0x8000],
        Target::Amd => &[0, (1 << 49) - 1, u64::MAX, (1 << 32) - 1],
    };
    let mut seed = 500;
    for &epoch in wraps {
        let modulus = if target == Target::Cuda { 0x1ffff } else { 1 << 49 };
        let mut rng = fastrand::Rng::with_seed(epoch);
        device.age(epoch, |i| (i % 3 > 0).then(|| (epoch.wrapping_add(modulus) - 1 - rng.u64(..1000)) % modulus));
        for _ in 0..4 {
            let n = rng.usize(..3 * 4096);
            encode_and_check(&mut device, "mixed", &field::<f32>("mixed", n, seed), bound(1e-3), seed);
            let stream = host(&field::<f64>("noisy", n / 2, seed), bound(1e-5), false);
            let decoded = device
                .decode::<f64>(&[whole(&stream, n / 2)], Form::List, 3, &schedule(seed))
                .unwrap_or_else(|f| panic!("{f}"))
                .remove(0)
                .1;
            check_values(&host_decode::<f64>(&stream, n / 2).2.expect("sound").1, &decoded, "reuse");
            encode_and_check(&mut device, "noisy", &field::<f64>("noisy", n / 2, seed), bound(1e-7), seed + 1);
            seed += 10;
        }
    }
}

/// Chunks whose coded length is just below that of a raw chunk, or just not.
pub fn raw_threshold<T: Value>(image: &str) {
    let mut device = Device::new(image, 1, 1);
    let bound = bound(1e-37);
    let mut close = 0;
    for seed in 0..200 {
        let random = field::<T>("random bits", T::CODES, seed);
        // random values, then zeros: more of them, more bytes
        let some = |count: usize| -> Vec<T> {
            random[..count].iter().copied().chain(std::iter::repeat_n(T::from_f64(0.0), T::CODES - count)).collect()
        };
        let length = |count: usize| u32::from_le_bytes(host(&some(count), bound, false)[24..28].try_into().unwrap());
        let counts: Vec<usize> = (0..T::CODES).collect();
        let raw = counts.partition_point(|&count| length(count) < 1 << 31);
        if raw > 0 && length(raw - 1) >= 16383 {
            close += 1;
            for count in [raw - 1, raw] {
                encode_and_check(&mut device, "threshold", &some(count), bound, seed);
            }
        }
        if close == 6 {
            return;
        }
    }
    panic!("only {close} fields close to the threshold");
}

/// No chunk of any kind costs more than `most` barriers, either way.
pub fn barriers<T: Value>(image: &str, most: u64) {
    let mut device = Device::new(image, 1, 4);
    for kind in KINDS {
        let values = field::<T>(kind, 4 * T::CODES, 1);
        let mut counts = [(0, 0); 2];
        for (n, count) in [T::CODES, 4 * T::CODES].into_iter().zip(&mut counts) {
            let stream = host(&values[..n], bound(1e-4), false);
            let call =
                Encode { field: &values[..n], bound: bound(1e-4), capacity: stream.len(), wide: false, align: (0, 0), outcome: true };
            device.encode(&[call], Form::One, 1, &schedule(0)).unwrap_or_else(|f| panic!("{kind}: {f}"));
            count.0 = device.report.barriers;
            device.decode::<T>(&[whole(&stream, n)], Form::One, 1, &schedule(0)).unwrap_or_else(|f| panic!("{kind}: {f}"));
            count.1 = device.report.barriers;
        }
        let [one, four] = counts;
        assert!(four.0 - one.0 <= 3 * most && four.1 - one.1 <= 3 * most, "{kind}: {one:?} barriers for a chunk, {four:?} for four");
    }
}
