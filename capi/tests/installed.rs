//! The installed library: programs of three languages against it, and the HDF5 filter built on it.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Whether all the tools are there. Under CI they must be.
fn tools(names: &[&str]) -> bool {
    let missing: Vec<_> = names.iter().filter(|tool| Command::new(tool).arg("--version").output().is_err()).collect();
    assert!(missing.is_empty() || std::env::var_os("CI").is_none(), "scripts/setup.sh installs {missing:?}");
    if !missing.is_empty() {
        eprintln!("SKIPPED: no {missing:?}: scripts/setup.sh installs them");
    }
    missing.is_empty()
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("== done"), "{out}\n{error}");
}

#[test]
fn programs_of_three_languages_build_and_run() {
    if tools(&["cc", "c++", "gfortran", "cmake", "pkg-config", "readelf"]) {
        succeed(&mut Command::new(root().join("capi/tests/consumers/run.sh")));
    }
}

#[test]
fn the_hdf5_filter_writes_and_reads() {
    if tools(&["cc", "pkg-config", "h5dump", "h5repack", "/usr/bin/python3"]) {
        succeed(&mut Command::new(root().join("hdf5/tests/run.sh")));
    }
}
