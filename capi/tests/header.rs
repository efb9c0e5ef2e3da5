//! The committed header is what the sources say; `UPDATE=1` rewrites it.

use std::path::Path;

#[test]
fn pfpl_h_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut header = Vec::new();
    cbindgen::Builder::new().with_crate(root).with_config(config).generate().unwrap().write(&mut header);
    let path = root.join("include/pfpl.h");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &header).unwrap();
    }
    assert!(std::fs::read(&path).is_ok_and(|committed| committed == header), "run UPDATE=1 cargo test -p pfpl-capi --test header");
}
