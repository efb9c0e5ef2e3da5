//! Checkpoints survive SIGKILL, and runs continue from them.

#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const CHECKPOINT: &str = env!("CARGO_BIN_EXE_checkpoint");
const SETUP: [&str; 4] = ["--fields", "7", "--side", "48"];

fn checkpoints(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "h5"));
    paths.sort();
    paths
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn nothing_to_do_is_a_usage_error() {
    for (option, value) in [("--every", "0"), ("--side", "0"), ("--streams", "0")] {
        let output = Command::new(CHECKPOINT).args(["run", "--device", "cpu", option, value]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn killed_at_100_random_moments() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = 88_172_645_463_325_252_u64;
    let mut latest = String::new();
    let mut advanced = 0;
    for kill in 0..100 {
        let mut run = Command::new(CHECKPOINT)
            .arg("run")
            .args(SETUP)
            .args(["--steps", "1000000000", "--every", "3", "--resume", "--folder"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // xorshift
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        std::thread::sleep(Duration::from_micros(state % 80_000));
        assert!(run.try_wait().unwrap().is_none(), "the run ended by itself");
        run.kill().unwrap();
        run.wait().unwrap();
        let paths = checkpoints(folder.path());
        assert!(!paths.is_empty() || latest.is_empty(), "kill {kill}: no checkpoint is left");
        for path in &paths {
            succeed(Command::new(CHECKPOINT).arg("inspect").arg(path));
        }
        if let Some(path) = paths.last() {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert!(name >= latest, "kill {kill}: {name} is before {latest}");
            advanced += usize::from(name > latest);
            latest = name;
        }
    }
    assert!(advanced > 20, "only {advanced} runs came to a checkpoint");
}

#[test]
fn a_continued_run_keeps_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let report =
        succeed(Command::new(CHECKPOINT).arg("run").args(SETUP).args(["--steps", "40", "--every", "10", "--folder"]).arg(folder.path()));
    assert!(report.contains("checkpoints  4") && report.contains("stall"), "{report}");
    let paths = checkpoints(folder.path());
    assert_eq!(paths.len(), 2);
    succeed(Command::new(CHECKPOINT).arg("check").args(SETUP).args(["--steps", "50"]).arg(&paths[1]));
    // from a field that is not what was saved, the difference is found
    let other = ["--fields", "7", "--side", "47"];
    assert!(!Command::new(CHECKPOINT).arg("check").args(other).arg(&paths[1]).output().unwrap().status.success());
}

#[test]
fn a_damaged_stream_is_found() {
    let folder = tempfile::tempdir().unwrap();
    succeed(Command::new(CHECKPOINT).arg("run").args(SETUP).args(["--steps", "10", "--every", "10", "--folder"]).arg(folder.path()));
    let path = checkpoints(folder.path()).pop().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(4).rposition(|window| window == b"PFP4").unwrap() + 100;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let output = Command::new(CHECKPOINT).arg("inspect").arg(&path).output().unwrap();
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("sum is wrong"));
}
