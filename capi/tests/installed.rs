//! C, C++ and Fortran programs against the installed library.

use std::path::Path;
use std::process::Command;

#[test]
fn programs_of_three_languages_build_and_run() {
    for tool in ["cc", "c++", "gfortran", "cmake", "pkg-config", "readelf"] {
        if Command::new(tool).arg("--version").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "{tool} is missing: scripts/setup.sh installs it");
            eprintln!("SKIPPED: {tool} is missing: scripts/setup.sh installs it");
            return;
        }
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/consumers/run.sh");
    let output = Command::new(script).output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("== done"), "{out}\n{error}");
}
