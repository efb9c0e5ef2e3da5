//! Changes the kernels one place at a time and tells which changes the tests catch.
//!
//! `cargo run -p pfpl-lane-executor --bin mutate [--list] [words]` tries (or lists) the mutations whose line contains all of the words.  They are made from
//! the sources (every barrier, warp barrier, wait and fence dropped; every release, acquire and ordered update relaxed; two digits of every
//! permute's selector changed) and read from `mutations.txt`.

use pfpl_lane_executor::compile::{RECIPES, Recipe, Unit, compile, copy_sources};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const WORKERS: usize = 2;
const FOLDERS: [&str; 3] = ["kernels_shared", "kernels_cuda", "kernels_amd"];
const SOURCES: [&str; 9] = [
    "kernels_cuda/encode.h",
    "kernels_cuda/decode.h",
    "kernels_cuda/decode_small.h",
    "kernels_cuda/transpose.h",
    "kernels_amd/encode.h",
    "kernels_amd/decode.h",
    "kernels_amd/chunk.h",
    "kernels_shared/format.h",
    "kernels_cuda/pfpl.cu",
];
/// Calls, and what each becomes: `$` stands for the arguments.
const CALLS: [(&str, &str); 10] = [
    ("await_predecessors", "((void)0)"),
    ("barrier", "((void)0)"),
    ("warp_barrier", "((void)0)"),
    ("barrier_or", "($)"),
    ("copies_wait", "((void)0)"),
    ("fence", "((void)0)"),
    ("fence_acquire", "((void)0)"),
    ("store_release", "store_relaxed($)"),
    ("load_acquire", "load_relaxed($)"),
    ("fetch_add_ordered", "fetch_add($)"),
];

struct Mutation {
    file: String,
    line: usize,
    what: String,
    text: String,
}

/// Places where `call` is called in the code of `source`: from the name to behind the closing parenthesis.
fn calls<'a>(source: &'a str, call: &'a str) -> impl Iterator<Item = (usize, usize, &'a str)> {
    source.match_indices(call).filter_map(move |(at, _)| {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let line = &source[source[..at].rfind('\n').map_or(0, |n| n + 1)..at];
        let open = at + call.len();
        if line.contains("//") || source[..at].ends_with(word) || !source[open..].starts_with('(') {
            return None;
        }
        let mut depth = 0;
        let close = source[open..].find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        })?;
        Some((at, open + close + 1, &source[open + 1..open + close]))
    })
}

fn generated(file: &str, source: &str) -> Vec<Mutation> {
    let mut made = Vec::new();
    let mut add = |from: usize, to: usize, with: &str, what: String| {
        made.push(Mutation {
            file: file.to_owned(),
            line: source[..from].lines().count(),
            what,
            text: format!("{}{with}{}", &source[..from], &source[to..]),
        });
    };
    for (call, with) in CALLS {
        for (from, to, arguments) in calls(source, call) {
            add(from, to, &with.replace('$', arguments), format!("{call}({arguments}) becomes {}", with.replace('$', arguments)));
        }
    }
    // selectors: four or more hexadecimal digits in a permute's arguments, or in the tables and constants that are named so
    let mut start = 0;
    for line in source.split_inclusive('\n') {
        let code = line.split("//").next().unwrap_or_default();
        if code.contains("permute")
            || code.contains("selector")
            || code.contains("join =")
            || code.contains("low =")
            || code.contains("high =")
        {
            for (at, _) in code.match_indices("0x") {
                let digits: String = code[at + 2..].chars().take_while(char::is_ascii_hexdigit).collect();
                let bytes = if file.contains("amd") { 8 } else { 4 };
                if digits.len() == bytes {
                    for i in [bytes - 1, 1] {
                        let mut wrong: Vec<char> = digits.chars().collect();
                        let digit = wrong[i].to_digit(16).unwrap_or(0);
                        wrong[i] = char::from_digit(digit ^ 1, 16).unwrap_or('0');
                        let wrong: String = wrong.into_iter().collect();
                        let from = start + at + 2;
                        add(from, from + bytes, &wrong, format!("selector 0x{digits} becomes 0x{wrong}"));
                    }
                }
            }
        }
        start += line.len();
    }
    made
}

/// `mutations.txt`: paragraphs of a title, a file, and lines `- old` and `+ new`; the old text is on one line, once in the file.
fn listed(list: &str, read: impl Fn(&str) -> String) -> Vec<Mutation> {
    let paragraphs = list.split("\n\n").map(|p| p.lines().filter(|l| !l.starts_with('#')).collect::<Vec<_>>()).filter(|p| !p.is_empty());
    paragraphs
        .map(|lines| {
            let [title, file, old, new] = lines[..] else { panic!("four lines: {lines:?}") };
            let (old, new) = (old.strip_prefix("- ").expect("- old"), new.strip_prefix("+ ").unwrap_or_default());
            let source = read(file);
            assert_eq!(source.matches(old).count(), 1, "{title}: once in {file}: {old}");
            let line = source[..source.find(old).unwrap_or(0)].lines().count();
            Mutation { file: file.to_owned(), line, what: title.to_owned(), text: source.replacen(old, new, 1) }
        })
        .collect()
}

/// The tests that could notice, the likely ones first.
fn tests(file: &str) -> Vec<String> {
    const ENCODE: [&str; 5] = ["schedules", "encode_corpus", "overflow", "raw_threshold", "every_capacity"];
    const DECODE: [&str; 5] = ["schedules", "decode_corpus", "hostile", "hostile_ranges", "long_tables"];
    let names: Vec<&str> = match file {
        f if f.ends_with("encode.h") => ENCODE.to_vec(),
        f if f.ends_with("decode.h") || f.ends_with("decode_small.h") => DECODE.to_vec(),
        _ => ENCODE.into_iter().chain(DECODE[1..].iter().copied()).collect(),
    };
    let both = names.into_iter().chain(["lists"]).flat_map(|n| [format!("f32::{n}"), format!("f64::{n}")]);
    both.chain(["reuse", "stale_words", "cuda_look_f32", "cuda_look_f64"].map(str::to_owned)).collect()
}

/// Runs one test; what it said if it failed.
fn fails(executable: &Path, image: &str, object: &Path, test: &str) -> Option<String> {
    let log = object.with_extension("log");
    let out = std::fs::File::create(&log).expect("a log");
    let mut child = Command::new(executable)
        .args(["--exact", test, "--test-threads", "1"])
        .env(format!("LANES_IMAGE_{image}"), object)
        .env("RUST_BACKTRACE", "0")
        .stdout(out.try_clone().expect("a log"))
        .stderr(out)
        .stdin(Stdio::null())
        .spawn()
        .expect("the test runs");
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the test ends") {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let told = text.lines().skip_while(|l| !l.contains("panicked at")).nth(1).unwrap_or("it ended early");
            return (!status.success()).then(|| told.chars().take(230).collect());
        }
        if begun.elapsed() > Duration::from_secs(300) {
            child.kill().expect("the test can be ended");
            child.wait().expect("the test ends");
            return Some("it does not end".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The sources of an image, changed twice: by its recipe and by the mutation.
fn recipe_sources(recipe: &Recipe, m: &Mutation, root: &Path, scratch: &Path) -> Result<(), String> {
    // nothing left of the mutation before
    let _ = std::fs::remove_dir_all(scratch);
    for folder in ["kernels_shared", recipe.kernels] {
        let (from, to) = (root.join(folder), scratch.join(folder));
        if !m.file.starts_with(folder) {
            copy_sources(&from, &to)?;
            continue;
        }
        let mutated = scratch.join("mutated");
        copy_sources(&from, &mutated)?;
        std::fs::write(mutated.join(m.file.rsplit('/').next().unwrap_or_default()), &m.text).map_err(|e| e.to_string())?;
        if folder == recipe.kernels { recipe.copy(&mutated, &to)? } else { copy_sources(&mutated, &to)? }
    }
    Ok(())
}

/// The executables of the targets' tests.
fn executables() -> Vec<(String, PathBuf)> {
    let output = Command::new(env!("CARGO")).args(["test", "-p", "pfpl-lane-executor", "--no-run"]).output().expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let path = |l: &str| Some(PathBuf::from(l.split_once('(')?.1.trim_end_matches(')')));
    text.lines()
        .filter(|l| l.contains("Executable tests/"))
        .filter_map(|l| path(l).map(|p| (p.file_name().unwrap_or_default().to_string_lossy().into_owned(), p)))
        .collect()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crate_folder.parent().expect("the workspace");
    std::env::set_current_dir(root).expect("the workspace");
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut mutations: Vec<Mutation> = SOURCES.iter().flat_map(|file| generated(file, &read(file))).collect();
    mutations.extend(listed(&read("lane_executor/mutations.txt"), read));
    let title = |m: &Mutation| format!("{}:{} {}", m.file, m.line, m.what);
    let mut jobs = Vec::new();
    for m in &mutations {
        for recipe in RECIPES.iter().filter(|r| r.kernels != "kernels_shared" && r.change.is_none()) {
            let line = format!("{} {}", recipe.name, title(m));
            if FOLDERS.iter().any(|f| m.file.starts_with(f) && [recipe.kernels, "kernels_shared"].contains(f))
                && words.iter().all(|w| w == "--list" || line.contains(w.as_str()))
            {
                jobs.push((m, recipe, line));
            }
        }
    }
    if words.iter().any(|w| w == "--list") {
        jobs.iter().for_each(|j| println!("{}", j.2));
        return;
    }
    let executables = executables();
    let cxx: Vec<OsString> = vec![env!("LANES_CXX").into()];
    let (next, survived) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let scratch = root.join("target/mutations");
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (jobs, next, survived, executables, cxx, scratch) =
                (&jobs, &next, &survived, &executables, &cxx, scratch.join(worker.to_string()));
            scope.spawn(move || {
                while let Some((m, recipe, line)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let executable = &executables
                        .iter()
                        .find(|(name, _)| name.starts_with(&format!("{}-", recipe.name)))
                        .expect("a test of the image")
                        .1;
                    let catch = |recipe: &Recipe, options: &[&str], prefix: &str| {
                        let folders = ["kernels_shared", recipe.kernels].map(|f| scratch.join(f));
                        let object = scratch.join(format!("{}.so", recipe.name));
                        recipe_sources(recipe, m, root, &scratch).expect("scratch files");
                        let unit = Unit {
                            source: &crate_folder.join(recipe.source),
                            includes: &folders,
                            width: recipe.width,
                            options,
                            object: &object,
                        };
                        if compile(cxx, &crate_folder.join("cxx"), &unit).is_err() {
                            return Some("does not compile".to_owned());
                        }
                        let told =
                            |test: &String| fails(executable, recipe.name, &object, test).map(|told| format!("caught by {test}: {told}"));
                        tests(&m.file).iter().filter(|t| t.starts_with(prefix)).find_map(told)
                    };
                    // only the kernels of one type while nothing more is needed: most changes are caught by then; compiled faster
                    let variants = RECIPES.iter().filter(|r| r.change.is_some() && r.kernels == recipe.kernels);
                    let verdict = catch(recipe, &["-O1", "-DLANES_F32"], "f32")
                        .or_else(|| catch(recipe, &["-O1", "-DLANES_F64"], "f64"))
                        .or_else(|| ["reuse", "stale"].into_iter().find_map(|test| catch(recipe, &["-O1"], test)))
                        .or_else(|| variants.filter(|_| m.file.ends_with("encode.h")).find_map(|v| catch(v, &["-O1"], v.name)));
                    let verdict = verdict.unwrap_or_else(|| {
                        survived.lock().expect("no worker panics").push(line.clone());
                        "SURVIVED".to_owned()
                    });
                    println!("{line}\n    {verdict}");
                }
            });
        }
    });
    let survived = survived.into_inner().expect("no worker panics");
    println!("\n{} of {} survived", survived.len(), jobs.len());
    for line in survived {
        println!("{line}");
    }
}
