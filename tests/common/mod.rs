//! What several test programs need.
#![allow(dead_code)]

pub mod corpus;
pub mod gpu;

use std::path::Path;
use std::process::Command;

use libloading::Library;

/// Builds a driver that only logs and loads it under the name that the runtime looks for.
pub fn fake_driver(source: &str, name: &str) -> Library {
    let folder = std::env::temp_dir().join(format!("pfpl-fake-driver-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let library = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_driver").join(source);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status =
        Command::new(compiler).args(["-shared", "-fPIC", "-w", "-o"]).arg(&library).arg(source).arg(format!("-Wl,-soname,{name}")).status();
    assert!(status.expect("a C compiler").success());
    // SAFETY: it has no initializers. The runtime's search by name then finds this one, for it is loaded already.
    let loaded = unsafe { Library::new(&library) }.unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    loaded
}
