//! The streams that the format's executable specification and FZGPUModules write.

mod model;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use model::Value;
use pfpl_host::internal::Codec;
use pfpl_host::{Bound, Element, Header};
use sha2::{Digest, Sha256};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data")
}

/// The data of the folder that `PFPL_SHARED` names, or of the repository's neighbour.
fn shared() -> Option<PathBuf> {
    let shared = std::env::var_os("PFPL_SHARED").map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let data = shared.join("data");
    if !data.is_dir() {
        eprintln!("SKIPPED: PFPL_SHARED names no folder with shared data");
        return None;
    }
    Some(data)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

fn values<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

fn codecs(wide: bool) -> impl Iterator<Item = Codec> {
    Codec::each().map(move |codec| Codec { wide, ..codec })
}

fn check<T: Value>(field: &[u8], bound: Bound, wide: bool, length: usize, stream_digest: &str, field_digest: &str) -> Vec<u8> {
    let field = values::<T>(field);
    let mut stream = vec![0; length];
    for codec in codecs(wide) {
        stream.fill(0xAA);
        assert_eq!(codec.compress_into(&field, bound, &mut stream), Ok(length), "{codec:?}");
        assert_eq!(sha256(&stream), stream_digest, "{codec:?}");
        let mut decoded = vec![T::of_bits(0x55); field.len()];
        assert_eq!(codec.decompress(&stream, &mut decoded), Ok(length), "{codec:?}");
        assert_eq!(sha256(bytemuck::cast_slice(&decoded)), field_digest, "{codec:?}");
    }
    assert_eq!(model::compress(&field, bound.get(), wide), stream, "the model");
    stream
}

/// Checks the streams that a list gives, and gives their number.
fn check_list(list: &Path, fields: &Path, streams: &Path) -> usize {
    let list = std::fs::read_to_string(list).unwrap();
    let mut kept = 0;
    for line in list.lines().skip(1) {
        let columns: Vec<_> = line.split('\t').collect();
        let (name, bound) = (columns[0], columns[1]);
        let (wide, rest) = if columns.len() == 6 { (columns[2] == "wide", &columns[3..]) } else { (false, &columns[2..]) };
        let [length, stream_digest, field_digest] = rest else { panic!("{line}") };
        let check = if name.ends_with(".f64") { check::<f64> } else { check::<f32> };
        let field = std::fs::read(fields.join(name)).unwrap();
        let bound_value = Bound::new(bound.parse().unwrap()).unwrap();
        let stream = check(&field, bound_value, wide, length.parse().unwrap(), stream_digest, field_digest);
        if let Ok(golden) = std::fs::read(streams.join(format!("{name}.{bound}{}.pfpl", if wide { ".wide" } else { "" }))) {
            assert!(golden == stream, "{line}");
            kept += 1;
        }
    }
    assert!(kept > 10);
    list.lines().count() - 1
}

#[test]
fn those_of_the_repository() {
    assert_eq!(check_list(&data().join("STREAMS.tsv"), &data(), &data()), 40);
}

#[test]
fn those_of_the_shared_data() {
    let Some(shared) = shared() else { return };
    let streams = shared.join("oracle_streams");
    assert!(check_list(&streams.join("STREAMS.tsv"), &shared.join("fields"), &streams) > 20);
}

fn equals_archive(field: &[f32], bound: f64, archive: &Path) {
    let archive = std::fs::read(archive).unwrap();
    for codec in codecs(false) {
        let mut stream = vec![0; 16 + archive.len()];
        assert_eq!(codec.compress_into(field, Bound::new(bound).unwrap(), &mut stream), Ok(stream.len()));
        assert!(stream[16..] == archive, "{codec:?}");
        assert_eq!(Header::read(&stream).unwrap().archive_bytes, archive.len() as u64);
    }
}

#[test]
fn archives_of_fzgpumodules() {
    let field = |name: &str| values::<f32>(&std::fs::read(data().join(name)).unwrap());
    equals_archive(&field("sn2.f32")[..4096], 1e-2, &data().join("sn1_1e-2.fzrze"));
    equals_archive(&field("sn2.f32"), 1e-2, &data().join("sn2_1e-2.fzrze"));
    equals_archive(&field("random_bits.f32"), 1e-4, &data().join("rnd1_1e-4.fzrze"));
    equals_archive(&[0.0; 4096], 1e-4, &data().join("zero1_1e-4.fzrze"));
    equals_archive(&[0.0; 7 * 4096], 1e-4, &data().join("zero7_1e-4.fzrze"));
}

#[test]
fn the_longest_archive_of_fzgpumodules() {
    let Some(shared) = shared() else { return };
    let field = values::<f32>(&std::fs::read(shared.join("fz_archives/sn7.f32")).unwrap());
    equals_archive(&field, 1e-2, &shared.join("fz_archives/sn7_1e-2.fzrze"));
}

/// Where an archive is not that of a coder with a single try: in the chunks in which a second try found a bin, and in no others.
#[test]
fn chunks_unlike_those_of_a_single_try() {
    let (mut alike, mut unlike) = (0, 0);
    for (name, bound) in
        [("etopo120_rose_90x180.f32", 0.119), ("hswm_tracer2_3x2562.f32", 0.0203), ("coads_wind_nan_90x180.f32", 0.000_393)]
    {
        let (field, bound) = (values::<f32>(&std::fs::read(data().join(name)).unwrap()), Bound::new(bound).unwrap());
        for chunk in field.chunks_exact(4096) {
            let [both, single] = [true, false].map(|second| chunk.iter().map(|x| x.code(bound.get(), second)).collect::<Vec<_>>());
            let archive = model::assemble::<f32>(4096, bound.get(), false, &[model::encode_chunk::<f32>(&single)]);
            let stream = pfpl_host::compress(chunk, bound);
            assert_eq!(stream == archive, both == single, "{name}");
            if both == single {
                alike += 1
            } else {
                unlike += 1
            }
            // what the other has kept raw ours decodes all the same
            let mut restored = vec![0f32; 4096];
            assert_eq!(pfpl_host::decompress(&archive, &mut restored), Ok(archive.len()));
            assert!(
                chunk
                    .iter()
                    .zip(&restored)
                    .all(|(x, y)| x.to_bits() == y.to_bits() || model::within(f64::from(*x), f64::from(*y), bound.get()))
            );
        }
    }
    println!("{alike} chunks alike, {unlike} not");
    assert!(alike > 0 && unlike > 0, "{alike} {unlike}");
}
