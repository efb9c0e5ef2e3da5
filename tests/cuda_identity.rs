//! On a device: the bytes and values of the CPU coder, for every kind of field, at every alignment, in lists; overflow and refusals too.

#![cfg(feature = "cuda")]

mod common;

use common::corpus::{KINDS, LENGTHS, Random, Sample, field, same};
use common::gpu::{Buffer, Lab, context};
use pfpl::cuda::raw::{Decode, Encode};
use pfpl::cuda::{Capacity, Outcome};
use pfpl::internal::Codec;
use pfpl::{Bound, Element, Status, decompress, max_stream_bytes};

/// The stream that the CPU coder writes.
fn golden<T: Element>(field: &[T], bound: Bound, wide: bool) -> Vec<u8> {
    let mut stream = vec![0; max_stream_bytes::<T>(field.len() as u64) as usize + 8];
    let length = Codec { wide, ..Codec::default() }.compress_into(field, bound, &mut stream).unwrap();
    stream.truncate(length);
    stream
}

fn restored<T: Element>(stream: &[u8], n: usize) -> Vec<T> {
    let mut field = vec![T::zeroed(); n];
    decompress(stream, &mut field).unwrap();
    field
}

/// Both directions of one field.
fn check<T: Sample>(lab: &mut Lab, values: &[T], bound: Bound, wide: bool, what: &str) {
    let stream = golden(values, bound, wide);
    assert!(lab.stream_of(values, bound) == stream, "stream differs: {what}");
    let (outcome, decoded) = lab.decompress::<T>(&stream, values.len(), 0, values.len());
    assert_eq!(outcome, Outcome { stream_bytes: stream.len() as u64, status: 0, chunk: Outcome::NO_CHUNK }, "{what}");
    assert!(same(&decoded, &restored(&stream, values.len())), "values differ: {what}");
}

fn corpus<T: Sample>(lab: &mut Lab) {
    for (number, kind) in KINDS.iter().enumerate() {
        let longer: &[usize] = if number % 3 == 0 { &[(1 << 20) - 1, 1 << 20, (1 << 20) + 1] } else { &[300_000] };
        for &n in LENGTHS.iter().chain(longer) {
            let (values, bound) = field::<T>(kind, n, (number + 100 * n) as u64);
            // the kernels for few chunks and for many; both headers; at least one block
            for (wide, blocks, persistent) in [(false, 0, false), (true, 0, false), (false, 0, true), (true, 1, true)] {
                lab.force(wide, blocks, persistent);
                check(lab, &values, bound, wide, &format!("{} {kind} {n} {wide} {blocks} {persistent}", T::TYPE));
            }
        }
    }
}

#[test]
fn corpus_f32() {
    let Some(context) = context("cuda_identity::corpus_f32") else { return };
    corpus::<f32>(&mut Lab::new(&context, Capacity::of::<f32>((1 << 20) + 1)));
}

#[test]
fn corpus_f64() {
    let Some(context) = context("cuda_identity::corpus_f64") else { return };
    corpus::<f64>(&mut Lab::new(&context, Capacity::of::<f64>((1 << 20) + 1)));
}

fn every_alignment<T: Sample>(lab: &mut Lab) {
    for n in [33, 4097, 12_289] {
        let (values, bound) = field::<T>("mixed chunks", n, 5);
        for field_offset in (0..16).step_by(T::TYPE.bytes()) {
            for stream_offset in (0..16).step_by(4) {
                lab.offsets = (field_offset, stream_offset);
                for persistent in [false, true] {
                    lab.force(false, 0, persistent);
                    check(lab, &values, bound, false, &format!("{} at {field_offset} and {stream_offset}", T::TYPE));
                }
            }
        }
    }
}

#[test]
fn alignments() {
    let Some(context) = context("cuda_identity::alignments") else { return };
    let mut lab = Lab::new(&context, Capacity::of::<f64>(12_289));
    every_alignment::<f32>(&mut lab);
    every_alignment::<f64>(&mut lab);
}

fn every_range<T: Sample>(lab: &mut Lab, random: &mut Random) {
    let codes = T::TYPE.codes_per_chunk();
    let n = 7 * codes + 100;
    let (values, bound) = field::<T>("mixed chunks", n, 9);
    for wide in [false, true] {
        let stream = golden(&values, bound, wide);
        let whole = restored::<T>(&stream, n);
        let edges = [0, 1, codes - 1, codes, codes + 1, 3 * codes, n - 1, n];
        let edges = edges.iter().flat_map(|&first| edges.iter().filter(move |&&end| end >= first).map(move |&end| (first, end)));
        let mut ranges: Vec<_> = edges.collect();
        ranges.extend((0..40).map(|_| (random.below(n), random.below(n + 1))).filter(|(first, end)| first <= end));
        for (first, end) in ranges {
            for persistent in [false, true] {
                lab.force(false, 0, persistent);
                let (outcome, decoded) = lab.decompress::<T>(&stream, n, first, end - first);
                assert_eq!(outcome.result(), Ok(stream.len() as u64), "{first}..{end}");
                assert!(same(&decoded, &whole[first..end]), "{} {first}..{end} {persistent}", T::TYPE);
            }
        }
        // the other chunks are not looked at: their bytes may be anything
        let mut damaged = stream.clone();
        let table = if wide { 32 } else { 24 };
        let entry = |chunk: usize| u32::from_le_bytes(stream[table + 4 * chunk..][..4].try_into().unwrap()) as usize & 0x7fff_ffff;
        let chunk_start = |chunk: usize| table + 4 * 8 + (0..chunk).map(entry).sum::<usize>();
        damaged[chunk_start(0)..chunk_start(3)].fill(0x55);
        damaged[chunk_start(5)..].fill(0x55);
        for persistent in [false, true] {
            lab.force(false, 0, persistent);
            let (outcome, decoded) = lab.decompress::<T>(&damaged, n, 3 * codes, 2 * codes);
            assert_eq!(outcome.status, 0);
            assert!(same(&decoded, &whole[3 * codes..5 * codes]));
        }
    }
}

#[test]
fn ranges() {
    let Some(context) = context("cuda_identity::ranges") else { return };
    let mut lab = Lab::new(&context, Capacity::of::<f64>(20_000));
    let mut random = Random(3);
    every_range::<f32>(&mut lab, &mut random);
    every_range::<f64>(&mut lab, &mut random);
}

/// A field of a list with everything that is compared, in either type.
enum Member {
    F32(Vec<f32>, Bound),
    F64(Vec<f64>, Bound),
}

impl Member {
    fn new(number: usize, n: usize) -> Self {
        let kind = KINDS[number % KINDS.len()];
        if number.is_multiple_of(3) {
            let (values, bound) = field(kind, n, number as u64);
            Self::F64(values, bound)
        } else {
            let (values, bound) = field(kind, n, number as u64);
            Self::F32(values, bound)
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::F32(values, _) => bytemuck::cast_slice(values),
            Self::F64(values, _) => bytemuck::cast_slice(values),
        }
    }

    fn golden(&self) -> Vec<u8> {
        match self {
            Self::F32(values, bound) => golden(values, *bound, false),
            Self::F64(values, bound) => golden(values, *bound, false),
        }
    }

    fn restored(&self, stream: &[u8]) -> Vec<u8> {
        match self {
            Self::F32(values, _) => bytemuck::cast_slice(&restored::<f32>(stream, values.len())).to_vec(),
            Self::F64(values, _) => bytemuck::cast_slice(&restored::<f64>(stream, values.len())).to_vec(),
        }
    }
}

/// A list in one call each way; every seventh stream too short, every eleventh damaged.
fn check_list(lab: &mut Lab, members: &[Member], prepared: bool) {
    let cuda_stream = lab.stream.clone();
    let streams: Vec<_> = members.iter().map(Member::golden).collect();
    let needed = |number: usize| if number % 7 == 6 { streams[number].len() - 1 } else { streams[number].len() };
    let fields: Vec<_> = members.iter().map(|member| Buffer::with(&cuda_stream, member.bytes(), 0)).collect();
    let outputs: Vec<_> = (0..members.len()).map(|number| Buffer::new(&cuda_stream, needed(number), 0)).collect();
    let outcomes = Buffer::new(&cuda_stream, 16 * members.len(), 0);
    let calls: Vec<_> = (0..members.len())
        .map(|i| {
            let (element, n, bound) = match &members[i] {
                Member::F32(values, bound) => (f32::TYPE, values.len() as u64, *bound),
                Member::F64(values, bound) => (f64::TYPE, values.len() as u64, *bound),
            };
            let (field, stream, capacity) = (fields[i].address(), outputs[i].address(), needed(i) as u64);
            Encode { element, field, n, bound, stream, capacity, outcome: outcomes.address() + 16 * i as u64 }
        })
        .collect();
    // as parameters, or from device memory
    let handle = lab.handle();
    // SAFETY: the buffers are alive until read
    unsafe {
        if prepared {
            let mut list = lab.plan.prepare_compress(handle, &calls).unwrap();
            lab.plan.compress_prepared(handle, &mut list).unwrap();
        } else {
            lab.plan.compress_many(handle, &calls).unwrap();
        }
    }
    let verdicts: Vec<Outcome> = bytemuck::pod_collect_to_vec(&outcomes.read(&cuda_stream));
    for (i, stream) in streams.iter().enumerate() {
        let status = if needed(i) < stream.len() { Status::Overflow } else { Status::Ok };
        assert_eq!(
            verdicts[i],
            Outcome { stream_bytes: stream.len() as u64, status: status as u32, chunk: Outcome::NO_CHUNK },
            "field {i}"
        );
        let written = outputs[i].read(&cuda_stream);
        assert!(status == Status::Overflow || written == *stream, "field {i}");
    }

    let damaged = |i: usize| i % 11 == 10;
    let given: Vec<_> = streams
        .iter()
        .enumerate()
        .map(|(i, stream)| Buffer::with(&cuda_stream, if damaged(i) { &stream[..stream.len() - 4] } else { stream }, 0))
        .collect();
    let restored: Vec<_> = members.iter().map(|member| Buffer::new(&cuda_stream, member.bytes().len(), 0)).collect();
    let outcomes = Buffer::new(&cuda_stream, 16 * members.len(), 0);
    let calls: Vec<_> = (0..members.len())
        .map(|i| {
            let Encode { element, n, .. } = calls[i];
            let bytes = streams[i].len() as u64 - if damaged(i) { 4 } else { 0 };
            let outcome = outcomes.address() + 16 * i as u64;
            Decode { element, stream: given[i].address(), bytes, n, field: restored[i].address(), first: 0, count: n, outcome }
        })
        .collect();
    // SAFETY: the buffers are alive until read
    unsafe {
        if prepared {
            let mut list = lab.plan.prepare_decompress(handle, &calls).unwrap();
            lab.plan.decompress_prepared(handle, &mut list).unwrap();
        } else {
            lab.plan.decompress_many(handle, &calls).unwrap();
        }
    }
    let verdicts: Vec<Outcome> = bytemuck::pod_collect_to_vec(&outcomes.read(&cuda_stream));
    for (i, stream) in streams.iter().enumerate() {
        if damaged(i) {
            assert_eq!((verdicts[i].status, verdicts[i].chunk), (Status::Truncated as u32, Outcome::NO_CHUNK), "field {i}");
        } else {
            assert_eq!(verdicts[i].result(), Ok(stream.len() as u64), "field {i}");
            assert!(restored[i].read(&cuda_stream) == members[i].restored(stream), "field {i}");
        }
    }
}

#[test]
fn lists() {
    let Some(context) = context("cuda_identity::lists") else { return };
    let mut random = Random(11);
    let mut lab = Lab::new(&context, Capacity { fields: 3000, chunks: 40_000 });
    for count in [0, 1, 2, 5, 62, 63, 64, 200, 513, 1100] {
        let members: Vec<_> = (0..count).map(|i| Member::new(i, [0, 1, 100, 4096, random.below(30_000)][random.below(5)])).collect();
        check_list(&mut lab, &members, false);
        check_list(&mut lab, &members, true);
    }
    let empty: Vec<_> = (0..700).map(|i| Member::new(i, 0)).collect();
    check_list(&mut lab, &empty, false);
    check_list(&mut lab, &empty, true);
    let tiny: Vec<_> = (0..3000).map(|i| Member::new(i, 1 + i % 70)).collect();
    check_list(&mut lab, &tiny, false);
    check_list(&mut lab, &tiny, true);
    // one block serves them all
    lab.force(false, 1, true);
    let few: Vec<_> = (0..80).map(|i| Member::new(i, i * 97)).collect();
    check_list(&mut lab, &few, false);
    check_list(&mut lab, &few, true);
}

fn every_capacity<T: Sample>(lab: &mut Lab) {
    for (kind, n) in [("noisy", 0), ("noisy", 40), ("mixed chunks", 2 * T::TYPE.codes_per_chunk() / 8), ("random bits", 300)] {
        let (values, bound) = field::<T>(kind, n, 21);
        for wide in [false, true] {
            let stream = golden(&values, bound, wide);
            for persistent in [false, true] {
                lab.force(wide, 0, persistent);
                for capacity in 0..stream.len() + 5 {
                    let (outcome, written) = lab.compress(&values, bound, capacity);
                    let status = if capacity < stream.len() { Status::Overflow } else { Status::Ok };
                    let expected = Outcome { stream_bytes: stream.len() as u64, status: status as u32, chunk: Outcome::NO_CHUNK };
                    assert_eq!(outcome, expected, "{kind} {n} {wide} {capacity}");
                    let header = if wide { 32 } else { 16 };
                    assert!(capacity < header || written[..header] == stream[..header], "{kind} {n} {wide} {capacity}");
                    assert!(status == Status::Overflow || written[..stream.len()] == stream, "{kind} {n} {wide} {capacity}");
                }
            }
        }
    }
    // several chunks, some raw: around each chunk's end
    let (values, bound) = field::<T>("mixed chunks", 6 * T::TYPE.codes_per_chunk(), 22);
    let stream = golden(&values, bound, false);
    for persistent in [false, true] {
        lab.force(false, 0, persistent);
        for capacity in (0..stream.len()).step_by(997).chain(stream.len() - 70..=stream.len()) {
            let (outcome, written) = lab.compress(&values, bound, capacity);
            assert_eq!((outcome.stream_bytes, outcome.status), (stream.len() as u64, u32::from(capacity < stream.len())), "{capacity}");
            assert!(capacity < stream.len() || written == stream);
        }
    }
}

#[test]
fn overflow() {
    let Some(context) = context("cuda_identity::overflow") else { return };
    let mut lab = Lab::new(&context, Capacity::of::<f64>(20_000));
    every_capacity::<f32>(&mut lab);
    every_capacity::<f64>(&mut lab);
}

/// Same status, chunk and values as the CPU coder for this stream, whatever it is, from both decoders.
fn check_hostile<T: Sample>(lab: &mut Lab, stream: &[u8], n: usize) -> Status {
    let mut expected = vec![T::zeroed(); n];
    let verdict = decompress(stream, &mut expected);
    for persistent in [false, true] {
        lab.force(false, 0, persistent);
        let (outcome, decoded) = lab.decompress::<T>(stream, n, 0, n);
        match &verdict {
            Ok(length) => {
                assert_eq!(outcome.result(), Ok(*length as u64));
                assert!(same(&decoded, &expected));
            }
            Err(error) => {
                let chunk = error.chunk().map_or(Outcome::NO_CHUNK, |chunk| chunk as u32);
                assert_eq!((outcome.status, outcome.chunk), (error.status() as u32, chunk), "{error} {persistent}");
            }
        }
    }
    verdict.map_or_else(|error| error.status(), |_| Status::Ok)
}

fn mutations<T: Sample>(lab: &mut Lab, seed: u64, rounds: usize) {
    let mut random = Random(seed);
    let mut seen = [0; 9];
    for round in 0..rounds {
        let kind = KINDS[round % KINDS.len()];
        let n = [100, T::TYPE.codes_per_chunk(), 3 * T::TYPE.codes_per_chunk() + 5, 0][round % 4];
        let (values, bound) = field::<T>(kind, n, round as u64);
        let mut stream = golden(&values, bound, round % 3 == 0);
        let table = if round % 3 == 0 { 32 } else { 24 };
        let payload = table + 4 * n.div_ceil(T::TYPE.codes_per_chunk());
        for _ in 0..1 + random.below(3) {
            let length = stream.len();
            match random.below(8) {
                0 => stream.truncate(random.below(length + 1)),
                1 if length > 0 => stream[random.below(length.min(table))] ^= 1 << random.below(8),
                2 if length > payload => stream[table + random.below(payload - table + 1)] ^= 1 << random.below(8),
                3 | 4 if length > payload => stream[payload + random.below(length - payload)] ^= 1 << random.below(8),
                5 if length > payload => stream[payload + random.below(length - payload)] = random.word() as u8,
                6 => stream.extend((0..random.below(40)).map(|_| 0x3c)),
                7 if length > payload + 8 => {
                    // move bytes from one chunk's entry to the next one's
                    let at = table + 4 * random.below((payload - table).max(4) / 4);
                    stream[at] = stream[at].wrapping_add(1);
                    if at + 4 < payload {
                        stream[at + 4] = stream[at + 4].wrapping_sub(1);
                    }
                }
                _ => {}
            }
        }
        let n = if random.below(50) == 0 { n + 1 } else { n };
        seen[check_hostile::<T>(lab, &stream, n) as usize] += 1;
        if round % 100 == 99 {
            check(lab, &values, bound, false, "after hostile streams");
        }
    }
    // each verdict that a mutation of one type can meet was met
    assert!(seen[0] > 0 && [2, 4, 5, 6, 7, 8].iter().all(|&status| seen[status] > 0), "{seen:?}");
}

#[test]
fn hostile_streams() {
    let Some(context) = context("cuda_identity::hostile_streams") else { return };
    let mut lab = Lab::new(&context, Capacity::of::<f64>(20_000));
    mutations::<f32>(&mut lab, 41, 4000);
    mutations::<f64>(&mut lab, 42, 4000);
    // the other type's stream, and arbitrary bytes
    let (values, bound) = field::<f64>("noisy", 5000, 1);
    assert_eq!(check_hostile::<f32>(&mut lab, &golden(&values, bound, false), 5000), Status::WrongType);
    let mut random = Random(43);
    for length in 0..200 {
        let bytes: Vec<_> = (0..length).map(|_| random.word() as u8).collect();
        assert_eq!(check_hostile::<f32>(&mut lab, &bytes, 5), Status::NotAStream);
    }
    // every truncation of a small stream
    let (values, bound) = field::<f32>("noisy", 60, 1);
    for wide in [false, true] {
        let stream = golden(&values, bound, wide);
        for length in 0..stream.len() {
            assert_ne!(check_hostile::<f32>(&mut lab, &stream[..length], 60), Status::Ok);
        }
    }
}

#[test]
fn without_an_outcome() {
    let Some(context) = context("cuda_identity::without_an_outcome") else { return };
    let mut lab = Lab::new(&context, Capacity::of::<f32>(5000));
    let (values, bound) = field::<f32>("noisy", 5000, 1);
    let stream = golden(&values, bound, false);
    let given = Buffer::with(&lab.stream, bytemuck::cast_slice(&values), 0);
    let written = Buffer::new(&lab.stream, stream.len(), 0);
    let decoded = Buffer::new(&lab.stream, 20_000, 0);
    let encode = Encode {
        element: f32::TYPE,
        field: given.address(),
        n: 5000,
        bound,
        stream: written.address(),
        capacity: stream.len() as u64,
        outcome: 0,
    };
    let decode = Decode {
        element: f32::TYPE,
        stream: written.address(),
        bytes: stream.len() as u64,
        n: 5000,
        field: decoded.address(),
        first: 0,
        count: 5000,
        outcome: 0,
    };
    // SAFETY: the buffers are alive until read
    unsafe {
        lab.plan.compress(lab.handle(), &encode).unwrap();
        lab.plan.decompress(lab.handle(), &decode).unwrap();
    }
    assert!(written.read(&lab.stream) == stream);
    assert!(decoded.read(&lab.stream) == bytemuck::cast_slice::<f32, u8>(&restored::<f32>(&stream, 5000)));
}
