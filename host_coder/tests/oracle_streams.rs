//! The streams that the format's executable specification writes for real fields.

use std::path::{Path, PathBuf};

use pfpl_host::{Bound, Element, compress, decompress};

fn shared() -> Option<PathBuf> {
    let shared = std::env::var_os("PFPL_SHARED").map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    shared.join("data").is_dir().then_some(shared)
}

fn check<T: Element>(field: &[u8], bound: f64, golden: &[u8]) {
    let field: &[T] = bytemuck::cast_slice(field);
    let stream = compress(field, Bound::new(bound).unwrap());
    assert!(stream == golden, "stream differs");
    let mut decoded = vec![T::zeroed(); field.len()];
    assert_eq!(decompress(&stream, &mut decoded), Ok(stream.len()));
}

#[test]
fn equal_the_oracles() {
    let Some(shared) = shared() else {
        eprintln!("SKIPPED: no PFPL_SHARED folder");
        return;
    };
    let mut checked = 0;
    for entry in std::fs::read_dir(shared.join("data/oracle_streams")).unwrap() {
        let path = entry.unwrap().path();
        let Some(stem) = path.file_name().unwrap().to_str().unwrap().strip_suffix(".pfpl") else { continue };
        let dot = stem.find(".f").unwrap() + 4;
        let (name, bound) = (&stem[..dot], stem[dot + 1..].parse().unwrap());
        let field = std::fs::read(shared.join("data/fields").join(name)).unwrap();
        let golden = std::fs::read(&path).unwrap();
        if name.ends_with(".f64") {
            check::<f64>(&field, bound, &golden)
        } else {
            check::<f32>(&field, bound, &golden)
        }
        checked += 1;
    }
    assert!(checked > 10);
}
