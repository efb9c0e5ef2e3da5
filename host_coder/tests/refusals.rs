//! What a decoder refuses, in its order of precedence, and that it refuses nothing else: by the scalar model, on every instruction set.

mod model;

use model::{CHUNK, RAW, Value};
use pfpl_host::internal::Codec;
use pfpl_host::{Bound, ElementType, Error, Header, Status, compress, decompress};
use proptest::prelude::*;

fn codecs() -> impl Iterator<Item = Codec> {
    Codec::each().flat_map(|codec| [codec, Codec { streamed: 0, ..codec }])
}

/// Decodes with every instruction set what lies in a buffer of exactly its length, and compares with the model. Gives the outcome.
fn check<T: Value>(stream: &[u8], n: usize) -> Result<Vec<T>, Error> {
    let expected = model::decompress::<T>(stream, n as u64);
    let stream: Box<[u8]> = stream.into();
    let mut outcome = None;
    for codec in codecs() {
        let mut values = vec![T::of_bits(0x33); n].into_boxed_slice();
        let result = codec.decompress(&stream, &mut values);
        match (&expected, &result) {
            (Ok(expected), Ok(length)) => {
                assert_eq!(*length as u64, Header::read(&stream).unwrap().stream_bytes());
                assert!(values.iter().zip(expected).all(|(a, b)| a.bits() == b.bits()), "{codec:?}");
            }
            (Err(expected), Err(error)) => assert_eq!((error.status() as u32, error.chunk()), *expected, "{codec:?}"),
            _ => panic!("{codec:?}: {result:?}, not {:?}", expected.as_ref().map(|_| ())),
        }
        let result = result.map(|_| values.into_vec());
        if let Some(before) = outcome.replace(result.clone()) {
            assert_eq!(before.err(), result.err());
        }
    }
    outcome.unwrap()
}

fn refused<T: Value>(stream: &[u8], n: usize) -> Error {
    check::<T>(stream, n).unwrap_err()
}

fn set(stream: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut stream = stream.to_vec();
    stream[at..at + bytes.len()].copy_from_slice(bytes);
    stream
}

/// Three chunks: smooth, empty, raw; in both headers.
fn samples<T: Value>() -> (usize, [Vec<u8>; 2]) {
    let n = 2 * T::CODES + 1000;
    let field: Vec<T> = (0..n as u64)
        .map(|i| match i as usize / T::CODES {
            0 => T::value(i * i % 1000, 0.01),
            1 => T::value(0, 0.01),
            _ => T::of_bits(i.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 << (T::WIDTH - 2)),
        })
        .collect();
    let mut chunks: Vec<_> =
        field.chunks(T::CODES).map(|x| model::encode_chunk::<T>(&x.iter().map(|x| x.code(0.01, true)).collect::<Vec<_>>())).collect();
    // the last chunk's unused codes are not 0
    let noise: Vec<u8> = (0..CHUNK).map(|i| (i * 7 + i / 300) as u8).collect();
    chunks[2] = (noise, RAW | CHUNK as u32);
    (n, [false, true].map(|wide| model::assemble::<T>(n, 0.01, wide, &chunks)))
}

fn refusals<T: Value, Other: Value>(other: ElementType) {
    let (n, streams) = samples::<T>();
    for (wide, stream) in [false, true].into_iter().zip(&streams) {
        let (header, table) = if wide { (32, 32) } else { (16, 24) };
        let (bound_at, archive_at) = if wide { (4, 16) } else { (8, 4) };
        let word = |at: usize| u32::from_le_bytes(stream[at..at + 4].try_into().unwrap());
        let payload = table + 12;
        let second = payload + word(table) as usize;
        check::<T>(stream, n).unwrap();

        // 2
        for length in 0..header {
            assert_eq!(refused::<T>(&stream[..length], n), Error::NotAStream);
        }
        for at in 0..4 {
            for flip in 1..=255u8 {
                let magic = set(stream, at, &[stream[at] ^ flip]);
                let known = [b"PFP4", b"PFP8", b"PFW4", b"PFW8"].contains(&magic[..4].try_into().unwrap());
                let error = check::<T>(&magic, n);
                assert_eq!(matches!(error, Err(Error::NotAStream)), !known, "{:?}", &magic[..4]);
            }
        }
        assert_eq!(refused::<T>(&vec![0; stream.len()], n), Error::NotAStream);
        // 3, whatever the count
        for count in [0, 1, n] {
            let error = refused::<Other>(stream, count);
            assert_eq!(error, Error::WrongType { found: if other == ElementType::F32 { ElementType::F64 } else { ElementType::F32 } });
        }
        // 4, before a bad header
        for count in [0, 1, n - 1, n + 1] {
            assert_eq!(refused::<T>(&set(stream, bound_at, &[0xFF; 4]), count), Error::WrongCount { found: n as u64 });
        }
        // 5: bounds
        let half = f32::MAX / 2.0;
        let bad = [
            0.0,
            -0.0,
            -1.0,
            -0.01,
            f32::NAN,
            -f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MIN_POSITIVE.next_down(),
            1e-45,
            half.next_up(),
        ];
        for bound in bad {
            assert_eq!(refused::<T>(&set(stream, bound_at, &bound.to_le_bytes()), n), Error::BadHeader, "{bound}");
            // before a truncation
            let short = &set(stream, bound_at, &bound.to_le_bytes())[..header.max(24)];
            assert_eq!(refused::<T>(short, n), Error::BadHeader);
        }
        for bound in [f32::MIN_POSITIVE, half, 1.0] {
            check::<T>(&set(stream, bound_at, &bound.to_le_bytes()), n).unwrap();
        }
        // 5: counts of chunks, padded bytes, archive
        if wide {
            for chunks in [0u64, 2, 4, 1 << 32 | 3, u64::MAX] {
                assert_eq!(refused::<T>(&set(stream, 24, &chunks.to_le_bytes()), n), Error::BadHeader);
            }
        } else {
            for (padded, chunks) in
                [(3 * CHUNK as u32, 2u32), (2 * CHUNK as u32, 3), (2 * CHUNK as u32, 2), (0, 0), (n as u32 * 4, 3), (u32::MAX, u32::MAX)]
            {
                let words = [padded.to_le_bytes(), chunks.to_le_bytes()].concat();
                assert_eq!(refused::<T>(&set(stream, 16, &words), n), Error::BadHeader);
            }
        }
        let archive = |bytes: u64| set(stream, archive_at, &bytes.to_le_bytes()[..if wide { 8 } else { 4 }]);
        let smallest = (payload - header) as u64;
        for bytes in 0..smallest {
            assert_eq!(refused::<T>(&archive(bytes), n), Error::BadHeader);
        }
        // 6: too long an archive, and one cut at every byte
        let whole = (stream.len() - header) as u64;
        for bytes in [whole + 1, whole + 4, u64::from(u32::MAX)] {
            assert_eq!(refused::<T>(&archive(bytes), n), Error::Truncated { needed: bytes + header as u64 });
        }
        if wide {
            for bytes in [u64::MAX, u64::MAX - 31, u64::MAX - 32, 1 << 63] {
                assert_eq!(refused::<T>(&archive(bytes), n).status(), Status::Truncated);
            }
        }
        for length in header..stream.len() {
            assert_eq!(refused::<T>(&stream[..length], n), Error::Truncated { needed: stream.len() as u64 });
        }
        // 7: an archive that holds less than its entries sum up to
        for bytes in [smallest, smallest + 1, (second - header) as u64, whole - 4] {
            let error = refused::<T>(&archive(bytes), n);
            assert_eq!(error.status(), Status::BadTable, "{bytes}");
            let chunk = error.chunk().unwrap();
            assert_eq!(error.offset(), Some(table as u64 + 4 * chunk));
            assert_eq!(
                chunk,
                if bytes < (second - header) as u64 {
                    0
                } else if bytes == whole - 4 {
                    2
                } else {
                    1
                }
            );
        }
        // 7: impossible entries, before corrupt chunks, the lowest first
        let corrupt = set(stream, second, &[1]);
        assert_eq!(refused::<T>(&corrupt, n), Error::CorruptChunk { chunk: 1, offset: second as u64 });
        let raw = |length: u32| RAW | length;
        for entry in [0, 1, 3, 4, 5, 6, 7, 8, 9, 16384, 16385, 1 << 30, raw(0), raw(2), raw(16383), raw(16385), u32::MAX] {
            for chunk in 0..3 {
                let at = table + 4 * chunk;
                let error = Error::BadTable { chunk: chunk as u64, offset: at as u64 };
                assert_eq!(refused::<T>(&set(&corrupt, at, &entry.to_le_bytes()), n), error, "{entry:#x}");
                let two = set(&corrupt, table + 8, &entry.to_le_bytes());
                assert_eq!(refused::<T>(&set(&two, at, &entry.to_le_bytes()), n), error);
            }
        }
        // entries that are possible are refused for what the chunk then is, or not at all
        for entry in [2u32, 10, 11, 100, 16383, raw(16384)] {
            let result = check::<T>(&set(stream, table, &entry.to_le_bytes()), n);
            assert!(matches!(result.as_ref().map_err(Error::status), Ok(_) | Err(Status::BadTable | Status::CorruptChunk)), "{result:?}");
        }
        // 8: the lowest of two
        let two = set(&corrupt, second - 1, &[7]);
        assert_eq!(refused::<T>(&two, n), Error::CorruptChunk { chunk: 0, offset: payload as u64 });
    }
}

#[test]
fn refusals_f32() {
    refusals::<f32, f64>(ElementType::F64);
}

#[test]
fn refusals_f64() {
    refusals::<f64, f32>(ElementType::F32);
}

/// Every size that a chunk's u16 can claim, and every length that its parts can miss by.
fn corrupt_chunks<T: Value>() {
    let n = T::CODES;
    let codes: Vec<u64> = (0..n as u64).map(|i| i * i % 300).collect();
    let (coded, _) = model::encode_chunk::<T>(&codes);
    let stream = |bytes: &[u8]| model::assemble::<T>(n, 0.5, false, &[(bytes.to_vec(), bytes.len() as u32)]);
    let corrupt = Error::CorruptChunk { chunk: 0, offset: 28 };
    for size in (0..=u16::MAX).step_by(13).chain([16383, 16384, 16385]) {
        let bytes = set(&coded, coded.len() - 2, &size.to_le_bytes());
        assert_eq!(check::<T>(&stream(&bytes), n).err(), (size != 16384).then_some(corrupt.clone()));
        assert_eq!(check::<T>(&stream(&size.to_le_bytes()), n).err(), (size != 16384).then_some(corrupt.clone()));
    }
    for missing in 1..=coded.len() - 10 {
        assert_eq!(refused::<T>(&stream(&coded[missing..]), n), corrupt);
    }
    for more in 1..70 {
        assert_eq!(refused::<T>(&stream(&[&vec![1; more], &coded[..]].concat()), n), corrupt);
    }
    // every bit of the parts that count
    for bit in 0..8 * 60 {
        let mut bytes = coded.clone();
        let at = bytes.len() - 1 - bit / 8;
        bytes[at] ^= 1 << (bit % 8);
        let _ = check::<T>(&stream(&bytes), n);
    }
    // all flags set, at every level
    for length in [10, 11, 50, 300, 2400, 16383] {
        let mut bytes = vec![0xFF; length];
        bytes[length - 2..].copy_from_slice(&16384u16.to_le_bytes());
        assert_eq!(refused::<T>(&stream(&bytes), n), corrupt);
    }
}

#[test]
fn corrupt_chunks_f32() {
    corrupt_chunks::<f32>();
}

#[test]
fn corrupt_chunks_f64() {
    corrupt_chunks::<f64>();
}

/// What no encoder writes and every decoder takes.
fn oddities<T: Value>() {
    let n = T::CODES + 100;
    let codes: Vec<u64> = (0..2 * T::CODES as u64).map(|i| i * i % 300).collect();
    let chunks: Vec<_> = codes.chunks(T::CODES).map(model::encode_chunk::<T>).collect();
    // unused codes that are not 0
    let stream = model::assemble::<T>(n, 0.5, false, &chunks);
    let plain = check::<T>(&stream, n).unwrap();
    // bytes after the stream
    assert_eq!(check::<T>(&[&stream[..], &[9; 100]].concat(), n).unwrap(), plain);
    // padding that is not 0, and more of it, of any length, in the archive
    let end = stream.len();
    for more in 0..9usize {
        let mut padded = [&stream[..], &vec![0xEE; more]].concat();
        let padding = chunks.iter().map(|(bytes, _)| bytes.len()).sum::<usize>() + 32;
        padded[padding..end].fill(0xDD);
        padded[4..8].copy_from_slice(&((end - 16 + more) as u32).to_le_bytes());
        assert_eq!(check::<T>(&padded, n).unwrap(), plain);
    }
    // an archive without its padding
    let exact = chunks.iter().map(|(bytes, _)| bytes.len()).sum::<usize>() + 32;
    assert_eq!(check::<T>(&set(&stream[..exact], 4, &((exact - 16) as u32).to_le_bytes()), n).unwrap(), plain);
    // a raw chunk that RZE would shorten
    let planes: Vec<u8> = (0..CHUNK).map(|i| u8::from(i > CHUNK - 40)).collect();
    let raw = (planes.clone(), RAW | CHUNK as u32);
    let kept = model::eliminate_zeros(&planes).unwrap();
    let length = kept.len() as u32;
    let by_raw = check::<T>(&model::assemble::<T>(n, 0.5, false, &[chunks[0].clone(), raw]), n).unwrap();
    assert_eq!(check::<T>(&model::assemble::<T>(n, 0.5, false, &[chunks[0].clone(), (kept, length)]), n).unwrap(), by_raw);
    // kept bytes equal to 0: a plane byte, and a byte of each level's bitmap
    let (coded, entry) = &chunks[0];
    assert_eq!(*entry as usize, coded.len());
    for at in (0..coded.len() - 6).step_by(7) {
        let mut bytes = coded.clone();
        bytes[at] = 0;
        let _ = check::<T>(&model::assemble::<T>(n, 0.5, false, &[(bytes, *entry), chunks[1].clone()]), n);
    }
    let zero_byte = set(coded, 0, &[0]);
    check::<T>(&model::assemble::<T>(n, 0.5, false, &[(zero_byte, *entry), chunks[1].clone()]), n).unwrap();
    // an empty bitmap spelt out: one byte of 0 kept of the 2048, flagged by 1 of 256 (kept 1, 0), flagged by 3 of 32 (kept 3, 0)
    let empty = vec![0, 1, 0, 3, 0, 3, 0, 0, 0, 0, 0x40];
    let values = check::<T>(&model::assemble::<T>(n, 0.5, false, &[(empty, 11), chunks[1].clone()]), n).unwrap();
    assert!(values[..T::CODES].iter().all(|value| value.bits() == 0));
}

#[test]
fn oddities_f32() {
    oddities::<f32>();
}

#[test]
fn oddities_f64() {
    oddities::<f64>();
}

#[test]
fn hostile_bins_decode_to_infinity() {
    let codes = [2 * (1 << 21), 2 * (1 << 21) + 1, 0, 1];
    let chunk = model::encode_chunk::<f32>(&codes);
    let values = check::<f32>(&model::assemble::<f32>(4, f32::MAX / 2.0, false, &[chunk]), 4).unwrap();
    assert_eq!(values, [f32::INFINITY, f32::NEG_INFINITY, 0.0, -f32::MAX]);
}

#[test]
fn counts_that_no_memory_holds() {
    for n in [1u64 << 32, 1 << 40, u64::MAX / 4, u64::MAX] {
        for (magic, codes) in [(b"PFW4", 4096u64), (b"PFW8", 2048)] {
            for archive in [0, 1 << 20, n.div_ceil(codes) * 4, u64::MAX] {
                let mut stream = [&magic[..], &1f32.to_le_bytes(), &n.to_le_bytes(), &archive.to_le_bytes()].concat();
                stream.extend(n.div_ceil(codes).to_le_bytes());
                stream.resize(100, 0);
                let expected = if archive < n.div_ceil(codes) * 4 { Status::BadHeader } else { Status::Truncated };
                let mut values = [0f32; 3];
                let found = if codes == 4096 {
                    pfpl_host::decompress_range(&stream, 0, &mut values)
                } else {
                    pfpl_host::decompress_range(&stream, n - 1, &mut [0f64])
                };
                // Header::read looks at the header alone
                assert_eq!(
                    Header::read(&stream).map_err(|error| error.status()).err(),
                    (expected == Status::BadHeader).then_some(expected)
                );
                assert_eq!(found.unwrap_err().status(), expected);
                if n > 3 && codes == 4096 {
                    assert_eq!(decompress(&stream, &mut values), Err(Error::WrongCount { found: n }));
                }
            }
        }
    }
}

#[test]
fn narrow_counts_do_not_wrap() {
    // 2³⁰ values: the padded bytes are 2³², which a u32 cannot say
    let mut stream = [&b"PFP4"[..], &u32::MAX.to_le_bytes(), &1f32.to_le_bytes(), &(1u32 << 30).to_le_bytes()].concat();
    stream.extend(0u32.to_le_bytes());
    stream.extend((1u32 << 18).to_le_bytes());
    assert_eq!(Header::read(&stream), Err(Error::BadHeader));
    assert_eq!(model::decompress::<f32>(&stream, 1 << 30).unwrap_err(), (Status::BadHeader as u32, None));
}

fn flips<T: Value>() {
    let (n, streams) = samples::<T>();
    for (stream, table) in streams.iter().zip([24, 32]) {
        for bit in 0..8 * (table + 12) {
            let at = bit / 8;
            let flipped = set(stream, at, &[stream[at] ^ 1 << (bit % 8)]);
            let _ = check::<T>(&flipped, n);
        }
    }
}

#[test]
fn every_header_and_table_bit_f32() {
    flips::<f32>();
}

#[test]
fn every_header_and_table_bit_f64() {
    flips::<f64>();
}

fn truncations<T: Value>() {
    // the given bytes end anywhere, and so does an archive that claims to end there
    let field: Vec<T> = (0..3000u64).map(|i| T::value(i * i % 77, 0.1)).collect();
    for wide in [false, true] {
        let stream = model::compress(&field, 0.1, wide);
        let (header, at, width) = if wide { (32, 16, 8) } else { (16, 4, 4) };
        for length in 0..stream.len() {
            assert!(check::<T>(&stream[..length], field.len()).is_err());
            if length >= header {
                let claimed = ((length - header) as u64).to_le_bytes();
                let result = check::<T>(&set(&stream[..length], at, &claimed[..width]), field.len());
                assert!(result.is_err() || length + 4 > stream.len());
            }
        }
    }
}

#[test]
fn a_truncation_at_every_byte_f32() {
    truncations::<f32>();
}

#[test]
fn a_truncation_at_every_byte_f64() {
    truncations::<f64>();
}

fn mutated<T: Value>(edits: &[(u32, u8)], length: u32, sample: u8) {
    let n = T::CODES + 500;
    let field: Vec<T> = (0..n as u64)
        .map(|i| match sample % 4 {
            0 => T::value(i * i % 7, 0.1),
            1 => T::value(u64::from(i % 300 == 0), 0.1),
            2 => T::of_bits(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            _ => T::value(i % 4000, 0.1),
        })
        .collect();
    let mut stream = compress(&field, Bound::new(0.1).unwrap());
    for &(at, byte) in edits {
        // half of them among header, table and the ends of chunks
        let from_end = at as usize / 4 % 64 + 1;
        let at = match at % 4 {
            0 => at as usize / 4 % 36,
            1 if stream.len() > from_end => stream.len() - from_end,
            _ => at as usize / 4 % stream.len(),
        };
        stream[at] = byte;
    }
    if length.is_multiple_of(4) {
        stream.truncate(length as usize / 4 % stream.len());
    }
    let _ = check::<T>(&stream, n);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn mutated_f32(edits in prop::collection::vec(any::<(u32, u8)>(), 1..6), length: u32, sample: u8) {
        mutated::<f32>(&edits, length, sample);
    }

    #[test]
    fn mutated_f64(edits in prop::collection::vec(any::<(u32, u8)>(), 1..6), length: u32, sample: u8) {
        mutated::<f64>(&edits, length, sample);
    }

    #[test]
    fn arbitrary_chunks_f32(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0xFF), any::<u8>()], 8..600)) {
        let bytes = [&bytes[..], &16384u16.to_le_bytes()].concat();
        let _ = check::<f32>(&model::assemble::<f32>(4000, 0.5, false, &[(bytes.clone(), bytes.len() as u32)]), 4000);
    }

    #[test]
    fn arbitrary_chunks_f64(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0xFF), any::<u8>()], 8..600)) {
        let bytes = [&bytes[..], &16384u16.to_le_bytes()].concat();
        let _ = check::<f64>(&model::assemble::<f64>(2000, 0.5, true, &[(bytes.clone(), bytes.len() as u32)]), 2000);
    }
}
