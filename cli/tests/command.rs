//! The command as a person or a script runs it.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const PFPL: &str = env!("CARGO_BIN_EXE_pfpl");

struct Sandbox(TempDir);

impl Sandbox {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    fn run(&self, line: &str) -> Output {
        self.run_with(line, b"")
    }

    fn run_with(&self, line: &str, input: &[u8]) -> Output {
        let mut child = Command::new(PFPL)
            .args(line.split_whitespace())
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input));
            child.wait_with_output().unwrap()
        })
    }

    fn succeed(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The line fails with `code`, says one line that contains `message`, and leaves the folder as it was.
    fn fail(&self, line: &str, code: i32, message: &str) {
        let before = self.names();
        let output = self.run(line);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {error}");
        assert!(error.contains(message), "{line}: {error}");
        assert!(code == 2 || error.trim_end().lines().count() == 1, "{line}: {error}");
        assert_eq!(self.names(), before, "{line}");
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn wave(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * 0.001).sin() * 100.0).collect()
}

fn bytes(values: &[f32]) -> &[u8] {
    bytemuck::cast_slice(values)
}

fn assert_close(original: &[f32], restored: &[u8], bound: f32) {
    let restored: Vec<f32> = bytemuck::allocation::pod_collect_to_vec(restored);
    assert_eq!(original.len(), restored.len());
    assert!(original.iter().zip(&restored).all(|(x, y)| (x - y).abs() <= bound));
}

fn npy(descr: &str, fortran: bool, shape: &str, values: &[u8]) -> Vec<u8> {
    let mut head = format!("{{'descr': '{descr}', 'fortran_order': {}, 'shape': {shape}, }}", if fortran { "True" } else { "False" });
    while (10 + head.len() + 1) % 64 != 0 {
        head.push(' ');
    }
    head.push('\n');
    [b"\x93NUMPY\x01\x00", &(head.len() as u16).to_le_bytes()[..], head.as_bytes(), values].concat()
}

#[test]
fn round_trip_with_default_names() {
    let sandbox = Sandbox::new();
    let field = wave(100_000);
    sandbox.write("wave.f32", bytes(&field));
    sandbox.succeed("compress wave.f32 --bound 1e-3");
    assert!(fs::metadata(sandbox.path("wave.f32.pfpl")).unwrap().len() < 200_000);
    let report = sandbox.succeed("verify wave.f32 wave.f32.pfpl");
    assert!(report.contains("values past it    0 of 100000"), "{report}");
    sandbox.fail("decompress wave.f32.pfpl", 3, "wave.f32 exists");
    fs::rename(sandbox.path("wave.f32"), sandbox.path("original")).unwrap();
    sandbox.succeed("decompress wave.f32.pfpl");
    assert_close(&field, &fs::read(sandbox.path("wave.f32")).unwrap(), 1e-3);
    sandbox.succeed("decompress wave.f32.pfpl --force");
    assert_eq!(sandbox.names(), ["original", "wave.f32", "wave.f32.pfpl"]);
    // the type of an original whose name does not tell comes from the stream
    sandbox.succeed("verify original wave.f32.pfpl");
}

#[test]
fn one_result_whatever_the_threads_and_the_way_in() {
    let sandbox = Sandbox::new();
    let field = wave(50_000);
    sandbox.write("wave.f32", bytes(&field));
    sandbox.succeed("compress wave.f32 one.pfpl --bound 1e-3 --threads 1");
    sandbox.succeed("compress wave.f32 three.pfpl --bound 1e-3 --threads 3");
    let stream = fs::read(sandbox.path("one.pfpl")).unwrap();
    assert_eq!(stream, fs::read(sandbox.path("three.pfpl")).unwrap());
    let piped = sandbox.run_with("compress - --dtype f32 --bound 1e-3", bytes(&field));
    assert!(piped.status.success() && piped.stdout == stream);
    let restored = sandbox.run_with("decompress -", &stream);
    assert!(restored.status.success());
    assert_close(&field, &restored.stdout, 1e-3);
    assert_eq!(sandbox.run_with("inspect -", &stream).status.code(), Some(0));
}

#[test]
fn doubles() {
    let sandbox = Sandbox::new();
    let field: Vec<f64> = wave(5000).into_iter().map(f64::from).collect();
    sandbox.write("wave.f64", bytemuck::cast_slice(&field));
    sandbox.succeed("compress wave.f64 --bound 1e-9");
    sandbox.succeed("verify wave.f64 wave.f64.pfpl");
    let report: serde_json::Value = serde_json::from_str(&sandbox.succeed("inspect wave.f64.pfpl --json")).unwrap();
    assert_eq!((report["n"].as_u64(), report["element"].as_str(), report["chunks"].as_u64()), (Some(5000), Some("f64"), Some(3)));
}

#[test]
fn an_empty_field() {
    let sandbox = Sandbox::new();
    sandbox.write("none.f32", b"");
    sandbox.succeed("compress none.f32 --bound 1");
    assert_eq!(fs::metadata(sandbox.path("none.f32.pfpl")).unwrap().len(), 24);
    sandbox.succeed("decompress none.f32.pfpl --force");
    assert_eq!(fs::metadata(sandbox.path("none.f32")).unwrap().len(), 0);
    sandbox.succeed("verify none.f32 none.f32.pfpl");
}

#[test]
fn numpy_in_either_order_of_bytes_and_axes() {
    let sandbox = Sandbox::new();
    let field = wave(6);
    let columns: Vec<f32> = [0, 3, 1, 4, 2, 5].map(|i| field[i]).to_vec();
    let swapped = |values: &[f32]| values.iter().flat_map(|x| x.to_be_bytes()).collect::<Vec<_>>();
    sandbox.write("c.npy", npy("<f4", false, "(2, 3)", bytes(&field)));
    sandbox.write("fortran.npy", npy("<f4", true, "(2, 3)", bytes(&columns)));
    sandbox.write("big.npy", npy(">f4", false, "(6,)", &swapped(&field)));
    sandbox.write("both.npy", npy(">f4", true, "(2, 3)", &swapped(&columns)));
    sandbox.write("plain.f32", bytes(&field));
    sandbox.succeed("compress plain.f32 --bound 1e-3");
    let stream = fs::read(sandbox.path("plain.f32.pfpl")).unwrap();
    for name in ["c", "fortran", "big", "both"] {
        sandbox.succeed(&format!("compress {name}.npy --bound 1e-3"));
        assert_eq!(fs::read(sandbox.path(&format!("{name}.npy.pfpl"))).unwrap(), stream, "{name}");
        sandbox.succeed(&format!("verify {name}.npy {name}.npy.pfpl"));
    }
    sandbox.succeed("decompress c.npy.pfpl out.npy --shape 2,3");
    let restored = fs::read(sandbox.path("out.npy")).unwrap();
    assert!(restored.len() % 64 == 24 && restored.windows(7).any(|window| window == b"(2, 3, " || window == b"(2, 3),"));
    assert_close(&field, &restored[restored.len() - 24..], 1e-3);
    // and our own reader takes it back
    sandbox.succeed("verify out.npy plain.f32.pfpl");
    sandbox.succeed("decompress c.npy.pfpl flat.npy");
    sandbox.fail("decompress c.npy.pfpl wrong.npy --shape 2,2", 2, "does not have the field's 6 values");
    sandbox.write("ints.npy", npy("<i4", false, "(6,)", bytes(&field)));
    sandbox.fail("compress ints.npy --bound 1", 3, "not float32 or float64");
    sandbox.write("short.npy", npy("<f4", false, "(7,)", bytes(&field)));
    sandbox.fail("compress short.npy --bound 1", 3, "shape");
}

#[test]
fn relative_bounds_and_steps() {
    let sandbox = Sandbox::new();
    let field = wave(20_000);
    sandbox.write("wave.f32", bytes(&field));
    sandbox.succeed("compress wave.f32 --rel 1e-3");
    let bound = |name: &str| {
        let report: serde_json::Value = serde_json::from_str(&sandbox.succeed(&format!("inspect {name} --json"))).unwrap();
        report["bound"].as_f64().unwrap()
    };
    let range = f64::from(field.iter().copied().fold(f32::MIN, f32::max)) - f64::from(field.iter().copied().fold(f32::MAX, f32::min));
    assert!((bound("wave.f32.pfpl") - range * 1e-3).abs() < 1e-7);
    sandbox.succeed("compress wave.f32 pow2.pfpl --bound 1e-3 --step pow2");
    assert_eq!(bound("pow2.pfpl"), 2f64.powi(-10));
    // values on a grid of 2^-10, at half its spacing: only a power of two keeps its bins exact
    let packed: Vec<f32> = (0..40_000).map(|i| 270.0 + (i * i % 8191) as f32 / 1024.0).collect();
    sandbox.write("packed.f32", bytes(&packed));
    for step in ["exact", "pow2", "auto"] {
        sandbox.succeed(&format!("compress packed.f32 {step}.pfpl --bound 1e-5 --step {step} --force"));
    }
    let length = |name: &str| fs::metadata(sandbox.path(name)).unwrap().len();
    assert_eq!(length("auto.pfpl"), length("exact.pfpl").min(length("pow2.pfpl")));
    sandbox.write("flat.f32", bytes(&[1.0; 10]));
    sandbox.fail("compress flat.f32 --rel 1e-3", 2, "two different finite values");
}

#[test]
fn a_broken_bound_is_reported() {
    let sandbox = Sandbox::new();
    let mut field = wave(10_000);
    sandbox.write("wave.f32", bytes(&field));
    sandbox.succeed("compress wave.f32 --bound 1e-3");
    field[7] += 1.0;
    field[9] = f32::NAN;
    sandbox.write("other.f32", bytes(&field));
    let output = sandbox.run("verify other.f32 wave.f32.pfpl");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("values past it    2 of 10000"));
}

#[test]
fn a_finite_value_against_one_that_is_not() {
    let sandbox = Sandbox::new();
    let field = wave(10_000);
    sandbox.write("wave.f32", bytes(&field));
    let report = |at: usize, value: f32| {
        let mut other = field.clone();
        other[at] = value;
        sandbox.write("other.f32", bytes(&other));
        // lost by the stream, and restored where it was not
        [("wave.f32", "other.f32"), ("other.f32", "wave.f32")].map(|(original, coded)| {
            sandbox.succeed(&format!("compress {coded} stream.pfpl --bound 1e-3 --force"));
            let output = sandbox.run(&format!("verify {original} stream.pfpl"));
            (output.status.code(), String::from_utf8(output.stdout).unwrap())
        })
    };
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for (code, report) in report(5000, value) {
            assert_eq!(code, Some(1), "{report}");
            for line in
                ["max error         inf\n", "values past it    1 of 10000\nof these          1 where", "PSNR              -inf dB\n"]
            {
                assert!(report.contains(line), "{report}");
            }
        }
    }
    // a finite value past the bound has its own error
    for (code, report) in report(5000, 1000.0) {
        assert!(code == Some(1) && !report.contains("inf") && !report.contains("of these"), "{report}");
    }
    // a payload of NaN is a value like another
    let mut other = field.clone();
    other[1] = f32::from_bits(0x7fc0_0001);
    sandbox.write("one.f32", bytes(&other));
    other[1] = f32::from_bits(0x7fc0_0002);
    sandbox.write("two.f32", bytes(&other));
    sandbox.succeed("compress one.f32 --bound 1e-3");
    assert!(sandbox.succeed("verify one.f32 one.f32.pfpl").contains("values past it    0 of 10000"));
    let output = sandbox.run("verify two.f32 one.f32.pfpl");
    assert!(output.status.code() == Some(1) && String::from_utf8(output.stdout).unwrap().contains("max error         inf\n"));
}

#[test]
fn fields_without_a_psnr() {
    let sandbox = Sandbox::new();
    for (field, psnr) in
        [([0.7f32; 100], "none: the field is constant"), ([0.0; 100], "none: no error"), ([f32::NAN; 100], "none: no finite value")]
    {
        sandbox.write("field.f32", bytes(&field));
        sandbox.succeed("compress field.f32 --bound 0.25 --force");
        let report = sandbox.succeed("verify field.f32 field.f32.pfpl");
        assert!(report.contains(&format!("PSNR              {psnr}\n")), "{report}");
    }
}

#[test]
fn a_name_does_not_contradict_the_type() {
    let sandbox = Sandbox::new();
    let field = wave(6);
    sandbox.write("wave.f32", bytes(&field));
    sandbox.write("other.f64", b"not to be lost");
    sandbox.succeed("compress wave.f32 --bound 1e-3");
    sandbox.fail("decompress wave.f32.pfpl raw.f64", 2, "holds f32 values");
    sandbox.fail("decompress wave.f32.pfpl other.f64 --force", 2, "holds f32 values");
    assert_eq!(fs::read(sandbox.path("other.f64")).unwrap(), b"not to be lost");
    for name in ["raw.f32", "raw.bin", "raw"] {
        let output = sandbox.run(&format!("decompress wave.f32.pfpl {name}"));
        assert!(output.status.success() && output.stderr.is_empty(), "{name}");
        assert_close(&field, &fs::read(sandbox.path(name)).unwrap(), 1e-3);
    }
    // what --shape makes of a raw name is said
    let output = sandbox.run("decompress wave.f32.pfpl shaped.f32 --shape 2,3");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && told.contains("shaped.f32 will be .npy") && told.lines().count() == 1, "{told}");
    assert!(fs::read(sandbox.path("shaped.f32")).unwrap().starts_with(b"\x93NUMPY"));
}

#[test]
fn verify_counts_raw_values() {
    let sandbox = Sandbox::new();
    let mut field = wave(10_000);
    field[3] = f32::NAN;
    field[4] = f32::NEG_INFINITY;
    field[5] = 1e20;
    field[6] = -0.0;
    sandbox.write("wave.f32", bytes(&field));
    sandbox.succeed("compress wave.f32 --bound 1e-3");
    let report = sandbox.succeed("verify wave.f32 wave.f32.pfpl");
    // −0 is within the bound of bin 0
    assert!(report.contains("values kept raw   3"), "{report}");
}

#[test]
fn clear_errors_that_lose_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("odd.f32", [0; 7]);
    sandbox.write("wave.f32", bytes(&wave(5000)));
    sandbox.succeed("compress wave.f32 --bound 1e-3");
    let stream = fs::read(sandbox.path("wave.f32.pfpl")).unwrap();
    sandbox.write("cut.pfpl", &stream[..stream.len() - 1]);
    let mut damaged = stream.clone();
    damaged[24..28].fill(0xff);
    sandbox.write("damaged.pfpl", &damaged);
    sandbox.write("noise.pfpl", [7; 100]);
    sandbox.write("name", bytes(&wave(10)));
    sandbox.fail("compress missing.f32 --bound 1", 3, "cannot open missing.f32");
    sandbox.fail("compress . --bound 1 --dtype f32", 3, "not a file");
    sandbox.fail("compress odd.f32 --bound 1", 3, "not a whole number");
    sandbox.fail("compress name --bound 1", 2, "--dtype");
    sandbox.fail("compress wave.f32 --bound many --force", 2, "many");
    for bound in ["nan", "0", "-1", "inf", "1e-40", "3e38"] {
        sandbox.fail(&format!("compress wave.f32 --bound {bound} --force"), 2, "not usable");
    }
    for command in ["compress wave.f32", "bench wave.f32"] {
        sandbox.fail(command, 2, "<--bound <BOUND>|--rel <REL>>");
    }
    sandbox.fail("compress wave.f32 --bound 1 --rel 1", 2, "cannot be used with");
    sandbox.fail("compress wave.f32 --bound 1", 3, "--force");
    sandbox.fail("compress wave.f32 nowhere/out.pfpl --bound 1", 3, "cannot write nowhere/out.pfpl");
    sandbox.fail("decompress noise.pfpl", 3, "not a PFPL stream");
    sandbox.fail("decompress cut.pfpl", 3, "truncated");
    sandbox.fail("decompress damaged.pfpl", 3, "chunk 0");
    sandbox.fail("inspect cut.pfpl", 3, "truncated");
    sandbox.fail("verify odd.f32 wave.f32.pfpl", 3, "not a whole number");
    sandbox.fail("verify name wave.f32.pfpl", 3, "wave.f32.pfpl holds 5000 values, the original 10");
    sandbox.fail("decompress name", 2, ".pfpl");
    // what was there before a failed --force is still there
    sandbox.fail("decompress damaged.pfpl wave.f32 --force", 3, "chunk 0");
    assert_eq!(fs::read(sandbox.path("wave.f32")).unwrap(), bytes(&wave(5000)));
}

/// Headers in the words given, with 24 values of 4 bytes.
fn npy_of(head: &str) -> Vec<u8> {
    let values = bytemuck::allocation::pod_collect_to_vec::<f32, u8>(&wave(24));
    [b"\x93NUMPY\x02\x00", &(head.len() as u32 + 1).to_le_bytes()[..], head.as_bytes(), b"\n", &values].concat()
}

#[test]
fn numpy_headers_at_their_edges() {
    let sandbox = Sandbox::new();
    let described =
        |descr: &str, order: &str, shape: &str| npy_of(&format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}}}"));
    // values that are not aligned in the file, in any order of three axes
    for (shape, order) in [("(24,)", "False"), ("(2, 3, 4)", "True"), ("(1, 24, 1)", "True")] {
        for pad in ["", " ", "  ", "   "] {
            sandbox.write("odd.npy", described("<f4", order, &format!("{shape}{pad}")));
            sandbox.succeed("compress odd.npy --bound 1e-3 --force");
            sandbox.succeed("verify odd.npy odd.npy.pfpl");
        }
    }
    sandbox.write("nothing.npy", npy(">f4", false, "(0, 1099511627776, 1099511627776)", b""));
    sandbox.succeed("compress nothing.npy --bound 1");
    sandbox.write("late.npy", npy("<f4", false, "(4611686018427387904, 4, 0)", b""));
    sandbox.succeed("compress late.npy --bound 1");
    sandbox.succeed("decompress late.npy.pfpl late.npy --shape 4611686018427387904,4,0 --force");
    sandbox.succeed("verify late.npy late.npy.pfpl");
    sandbox.write("one.npy", npy("<f8", false, "()", &[0; 8]));
    sandbox.succeed("compress one.npy --bound 1");
    let nested = |depth| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {}1{}}}", "(".repeat(depth), ",)".repeat(depth));
    for (name, bytes) in [
        ("huge", described("<f4", "False", "(1099511627776, 1099511627776)")),
        ("negative", described("<f4", "False", "(-1,)")),
        ("deep", npy_of(&nested(3000))),
        ("deeper", npy_of(&nested(100_000))),
        ("open", npy_of(&"{'descr': (".repeat(500))),
        ("lines", npy_of("{\n(\n")),
        ("long", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{".to_vec()),
        ("version", b"\x93NUMPY\x09\x00\x02\x00{}".to_vec()),
        ("magic", b"\x93NUMPY".to_vec()),
        ("none", Vec::new()),
    ] {
        sandbox.write(&format!("{name}.npy"), bytes);
        sandbox.fail(&format!("compress {name}.npy --bound 1"), 3, &format!("cannot read {name}.npy"));
    }
}

#[test]
fn shapes_of_many_lengths() {
    let sandbox = Sandbox::new();
    sandbox.write("wave.f32", bytes(&wave(24)));
    sandbox.succeed("compress wave.f32 --bound 1e-3");
    let shape = |ones: usize| format!("decompress wave.f32.pfpl out.npy --shape {}24", "1,".repeat(ones));
    for ones in [64, 3400, 30_000] {
        sandbox.fail(&shape(ones), 2, &format!("--shape has {} lengths", ones + 1));
    }
    sandbox.succeed(&shape(63));
    sandbox.succeed("verify out.npy wave.f32.pfpl");
}

#[test]
fn a_header_is_never_taken_for_values() {
    let sandbox = Sandbox::new();
    sandbox.write("wave.npy", npy("<f4", false, "(24,)", bytes(&wave(24))));
    sandbox.succeed("compress wave.npy --dtype f32 --bound 1e-3");
    sandbox.fail("compress wave.npy wide.pfpl --dtype f64 --bound 1e-3", 2, "holds f32 values, not f64");
    assert!(sandbox.succeed("inspect wave.npy.pfpl").starts_with("values    24 f32"));
    // nor where the name does not tell
    fs::copy(sandbox.path("wave.npy"), sandbox.path("wave")).unwrap();
    sandbox.succeed("verify wave wave.npy.pfpl");
    let piped = sandbox.run_with("verify - wave.npy.pfpl", &fs::read(sandbox.path("wave")).unwrap());
    assert_eq!(piped.status.code(), Some(0));
    sandbox.fail("verify - -", 2, "both");
}

#[test]
fn a_truncated_stream_of_an_empty_field() {
    let sandbox = Sandbox::new();
    sandbox.write("none.f32", b"");
    sandbox.succeed("compress none.f32 --bound 1");
    let mut stream = fs::read(sandbox.path("none.f32.pfpl")).unwrap();
    stream[4..8].copy_from_slice(&1000u32.to_le_bytes());
    sandbox.write("cut.pfpl", stream);
    for command in ["decompress cut.pfpl out.f32", "inspect cut.pfpl", "verify none.f32 cut.pfpl"] {
        sandbox.fail(command, 3, "truncated");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_standard_output_that_takes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("wave.f32", bytes(&wave(100)));
    sandbox.succeed("compress wave.f32 --bound 1e-3");
    for command in [
        "inspect wave.f32.pfpl",
        "inspect wave.f32.pfpl --json",
        "verify wave.f32 wave.f32.pfpl",
        "bench wave.f32 --bound 1",
        "bench wave.f32 --bound 1 --json",
        "completions bash",
        "man",
        "compress wave.f32 - --bound 1",
        "decompress wave.f32.pfpl -",
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (reader, unread) = std::io::pipe().unwrap();
        drop(reader);
        let outputs = [Stdio::from(full), Stdio::from(unread)].map(|stdout| {
            Command::new(PFPL).args(command.split_whitespace()).current_dir(sandbox.0.path()).stdout(stdout).output().unwrap()
        });
        let closed = shell(&sandbox, &["sh", "-c", "true"], &format!("$PFPL {command} >&-"));
        for output in outputs.into_iter().chain(closed) {
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(3), "{command}: {error}");
            assert!(error.starts_with("pfpl: cannot write standard output") && error.lines().count() == 1, "{command}: {error}");
        }
    }
}

#[cfg(unix)]
#[test]
fn only_files_are_replaced() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let sandbox = Sandbox::new();
    sandbox.write("wave.f32", bytes(&wave(100)));
    fs::create_dir(sandbox.path("folder")).unwrap();
    assert!(Command::new("mkfifo").arg(sandbox.path("pipe")).status().unwrap().success());
    for name in ["folder", "folder/", "pipe"] {
        sandbox.fail(&format!("compress wave.f32 {name} --bound 1 --force"), 3, "not a file");
    }
    assert!(fs::metadata(sandbox.path("pipe")).unwrap().file_type().is_fifo());
    for command in ["inspect pipe", "compress pipe out --bound 1 --dtype f32", "decompress pipe out", "verify wave.f32 pipe"] {
        sandbox.fail(command, 3, "pipe is not a file");
    }
    // a link stays a link
    sandbox.write("real", b"");
    symlink("real", sandbox.path("link")).unwrap();
    sandbox.fail("compress wave.f32 link --bound 1", 3, "--force");
    sandbox.succeed("compress wave.f32 link --bound 1 --force");
    assert!(sandbox.path("link").is_symlink());
    sandbox.succeed("verify wave.f32 real");
    symlink("gone", sandbox.path("dangling")).unwrap();
    for command in ["compress wave.f32 dangling --bound 1", "compress wave.f32 dangling --bound 1 --force", "decompress real dangling"] {
        sandbox.fail(command, 3, "cannot write dangling: where the link points");
    }
    assert!(sandbox.path("dangling").is_symlink());
    // a field's own name is one like another
    sandbox.succeed("compress wave.f32 wave.f32 --bound 1e-3 --force");
    sandbox.succeed("decompress wave.f32 wave.f32 --force");
    assert_close(&wave(100), &fs::read(sandbox.path("wave.f32")).unwrap(), 1e-3);
}

#[test]
fn bench_reports_figures() {
    let sandbox = Sandbox::new();
    sandbox.write("wave.f32", bytes(&wave(50_000)));
    let report: serde_json::Value = serde_json::from_str(&sandbox.succeed("bench wave.f32 --bound 1e-3 --threads 1 --json")).unwrap();
    for key in ["encode_bytes_per_s", "decode_bytes_per_s", "memcpy_bytes_per_s", "ratio"] {
        assert!(report[key].as_f64().unwrap() > 0.0, "{key}");
    }
    // one batch of chunks is one thread's work, however many there are
    let report: serde_json::Value =
        serde_json::from_str(&sandbox.succeed("bench wave.f32 --bound 1e-3 --threads 3 --device cpu --json")).unwrap();
    assert_eq!((report["threads"].as_u64(), report["threads_given"].as_u64()), (Some(1), Some(3)));
    assert!(sandbox.succeed("bench wave.f32 --rel 1e-3 --threads 3 --device cpu").contains("cpu: 1 of 3 threads had work"));
    let most = 4 * std::thread::available_parallelism().unwrap().get();
    let report: serde_json::Value =
        serde_json::from_str(&sandbox.succeed("bench wave.f32 --bound 1e-3 --threads 65535 --device cpu --json")).unwrap();
    assert_eq!(report["threads_given"].as_u64(), Some(most as u64));
    sandbox.write("many.f32", bytes(&wave(8 << 20)));
    let report: serde_json::Value =
        serde_json::from_str(&sandbox.succeed("bench many.f32 --bound 1e-3 --threads 2 --device cpu --json")).unwrap();
    assert_eq!((report["threads"].as_u64(), report["threads_given"].as_u64()), (Some(2), Some(2)));
}

#[test]
fn devices() {
    let sandbox = Sandbox::new();
    sandbox.write("wave.f32", bytes(&wave(50_000)));
    for device in ["auto", "cpu"] {
        sandbox.succeed(&format!("compress wave.f32 {device}.pfpl --bound 1e-3 --device {device}"));
        sandbox.succeed(&format!("decompress {device}.pfpl {device}.f32 --device {device}"));
    }
    assert!(fs::read(sandbox.path("auto.pfpl")).unwrap() == fs::read(sandbox.path("cpu.pfpl")).unwrap());
    assert!(fs::read(sandbox.path("auto.f32")).unwrap() == fs::read(sandbox.path("cpu.f32")).unwrap());
    for (device, there) in [("cuda", pfpl::cuda::context(0).is_ok()), ("hip", false)] {
        if there {
            sandbox.succeed(&format!("compress wave.f32 {device}.pfpl --bound 1e-3 --device {device}"));
            assert!(fs::read(sandbox.path("cuda.pfpl")).unwrap() == fs::read(sandbox.path("cpu.pfpl")).unwrap());
        } else {
            eprintln!("SKIPPED: no {device} device: testing that the command says so");
            sandbox.fail(&format!("compress wave.f32 none.pfpl --bound 1e-3 --device {device}"), 3, device);
        }
    }
}

#[test]
fn completions_and_manual() {
    let sandbox = Sandbox::new();
    assert!(sandbox.succeed("completions bash").contains("decompress"));
    let manual = sandbox.succeed("man");
    assert!(manual.starts_with(".ie") && manual.contains(".TH pfpl 1"), "{manual}");
    // each option of each command, and no other page
    for command in ["compress", "decompress", "inspect", "verify", "bench", "completions", "man"] {
        let (_, part) = manual.split_once(&format!("\n.SH \"pfpl {command}\"\n")).unwrap_or_else(|| panic!("{command}: {manual}"));
        let part = part.split("\n.SH ").next().unwrap();
        let help = sandbox.succeed(&format!("{command} --help"));
        for option in help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2) {
            let option: String = option.chars().take_while(|&c| c == '-' || c.is_ascii_alphanumeric()).collect();
            assert!(part.contains(&option.replace('-', "\\-")), "{command} {option}: {part}");
        }
    }
    assert!(!manual.contains("(1)"), "{manual}");
}

/// Runs a shell script with `$PFPL`; `None`, after saying so, where the machine does not allow what it needs.
#[cfg(target_os = "linux")]
fn shell(sandbox: &Sandbox, needs: &[&str], script: &str) -> Option<Output> {
    let usable = Command::new(needs[0]).args(&needs[1..]).output().is_ok_and(|output| output.status.success());
    if !usable {
        eprintln!("SKIPPED: {} is not allowed here", needs.join(" "));
        return None;
    }
    let mut command = Command::new(needs[0]);
    command.args(&needs[1..needs.len() - 1]).arg(script).env("PFPL", PFPL).current_dir(sandbox.0.path());
    Some(command.output().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("noise.f32", (0..2_000_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect::<Vec<u8>>());
    fs::create_dir(sandbox.path("small")).unwrap();
    let script =
        "mount -t tmpfs -o size=4m none small && $PFPL compress noise.f32 small/noise.pfpl --bound 1e-30; code=$?; ls -A small; exit $code";
    let Some(output) = shell(&sandbox, &["unshare", "-rm", "sh", "-c", "mount -t tmpfs none /mnt"], script) else { return };
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("no room") && error.lines().count() == 1, "{error}");
    assert!(output.stdout.is_empty(), "left behind: {}", String::from_utf8_lossy(&output.stdout));
    let script = "$PFPL compress noise.f32 - --bound 1 > /dev/full";
    let output = shell(&sandbox, &["sh", "-c", "true"], script).unwrap();
    assert_eq!(output.status.code(), Some(3));
}

#[cfg(target_os = "linux")]
#[test]
fn a_stream_fits_where_the_largest_would_not() {
    let sandbox = Sandbox::new();
    sandbox.write("flat.f32", bytes(&vec![1.0; 2_000_000]));
    fs::create_dir(sandbox.path("small")).unwrap();
    let script = "mount -t tmpfs -o size=4m none small && $PFPL compress flat.f32 small/flat.pfpl --bound 1 && $PFPL verify flat.f32 small/flat.pfpl";
    let Some(output) = shell(&sandbox, &["unshare", "-rm", "sh", "-c", "mount -t tmpfs none /mnt"], script) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_larger_than_the_memory_allowed() {
    let sandbox = Sandbox::new();
    let field = wave(1 << 20);
    let mut file = fs::File::create(sandbox.path("large.f32")).unwrap();
    for _ in 0..48 {
        file.write_all(bytes(&field)).unwrap();
    }
    drop(file);
    // 192 MiB of field with 48 MiB of memory of its own, stacks included
    let script =
        "ulimit -d 49152 && $PFPL compress large.f32 --bound 1e-3 --threads 2 && $PFPL decompress large.f32.pfpl back.f32 --threads 2";
    let output = shell(&sandbox, &["sh", "-c", "ulimit -d 49152"], script).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let restored = fs::read(sandbox.path("back.f32")).unwrap();
    assert_eq!(restored.len(), 48 << 22);
    restored.chunks(1 << 22).for_each(|piece| assert_close(&field, piece, 1e-3));
    // the limit does bind: a field in memory would not fit
    assert!(
        !shell(&sandbox, &["sh", "-c", "ulimit -d 49152"], "ulimit -d 49152 && $PFPL bench large.f32 --bound 1e-3")
            .unwrap()
            .status
            .success()
    );
}

/// A signal to the command while it waits for more of its standard input.
#[cfg(target_os = "linux")]
fn interrupted(target: &str, ignored: &str, signals: &[&str]) -> Output {
    let sandbox = Sandbox::new();
    let script = format!("ulimit -c 0; exec env --default-signal {ignored} $PFPL compress - {target} --dtype f32 --bound 1");
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .env("PFPL", PFPL)
        .env("TMPDIR", sandbox.0.path())
        .current_dir(sandbox.0.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while sandbox.names().is_empty() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    for signal in signals {
        assert!(Command::new("sh").args(["-c", &format!("kill -s {signal} {}", child.id())]).status().unwrap().success());
    }
    let stdin = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(sandbox.names(), [""; 0], "{signals:?}");
    output
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_leaves_nothing_behind() {
    use std::os::unix::process::ExitStatusExt;
    for (signal, number) in [("HUP", 1), ("INT", 2), ("QUIT", 3), ("TERM", 15)] {
        for target in ["out.pfpl", "-"] {
            let output = interrupted(target, "", &[signal]);
            assert_eq!(output.status.signal(), Some(number));
            assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("pfpl: ended by SIG{signal}\n"));
        }
    }
    // what nohup has ignored stays so
    let output = interrupted("out.pfpl", "--ignore-signal=HUP", &["HUP", "TERM"]);
    assert_eq!(output.status.signal(), Some(15));
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_past_the_size_allowed_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.write("wave.f32", bytes(&wave(200_000)));
    sandbox.succeed("compress wave.f32 --bound 1e-3");
    let names = sandbox.names();
    for command in [
        "compress wave.f32 out.pfpl --bound 1e-3",
        "compress - out.pfpl --dtype f32 --bound 1e-3 < wave.f32",
        "decompress wave.f32.pfpl out",
    ] {
        let output = shell(&sandbox, &["sh", "-c", "ulimit -f 100"], &format!("ulimit -f 100 && $PFPL {command}")).unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{command}: {error}");
        assert!(error.contains("File too large") && error.lines().count() == 1, "{command}: {error}");
        assert_eq!(sandbox.names(), names, "{command}");
    }
}
