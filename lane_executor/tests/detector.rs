//! The executor on small kernels: it runs the right ones right and finds what is wrong with the others.

use pfpl_lane_executor::{Access, Buffer, Dispatch, Fault, Image, Launch, Memory, Report, Schedule};

const THREADS: u32 = 128;
const IMAGES: [&str; 2] = ["detector32", "detector64"];

fn image(name: &str) -> Image {
    Image::named(name).unwrap_or_else(|e| panic!("{e}"))
}

fn schedules() -> impl Iterator<Item = Schedule> {
    let dispatches = [Dispatch::Forward, Dispatch::Reversed, Dispatch::Random];
    (0..24).map(move |i| Schedule {
        seed: i,
        dispatch: dispatches[i as usize % 3],
        residency: [1, 2, 4, 8][i as usize / 3 % 4],
        quantum: [1, 20][i as usize / 12],
        steps: 1_000_000,
        ..Schedule::default()
    })
}

fn run(image: &Image, kernel: &str, grid: u32, arguments: &[u64], memory: &mut Memory, schedule: &Schedule) -> Result<Report, Fault> {
    let arguments: Vec<u8> = arguments.iter().flat_map(|a| a.to_ne_bytes()).collect();
    Launch { image, kernel, grid, threads: THREADS, shared_bytes: 4 * THREADS as usize, arguments: &arguments }.run(memory, schedule)
}

fn words(memory: &Memory, buffer: Buffer) -> Vec<u32> {
    memory.bytes(buffer).chunks_exact(4).map(|b| u32::from_ne_bytes(b.try_into().unwrap())).collect()
}

struct Bench {
    memory: Memory,
    input: Buffer,
    output: Buffer,
    words: Buffer,
}

const BLOCKS: u32 = 6;

fn bench() -> Bench {
    let mut memory = Memory::new(1 << 16);
    let bytes = (4 * THREADS * BLOCKS) as usize;
    let input = memory.buffer("in", bytes, 4, Access::Read);
    let data: Vec<u8> = (0..THREADS * BLOCKS).flat_map(|i| (i * i + 1).to_ne_bytes()).collect();
    memory.write(input, 0, &data);
    let output = memory.buffer("out", bytes, 8, Access::ReadWrite);
    let words = memory.buffer("words", 64, 0, Access::ReadWrite);
    memory.write(words, 0, &[0; 64]);
    Bench { memory, input, output, words }
}

/// Runs `kernel` on every schedule: the number of faults, and the first one's words.
fn faults(image: &Image, kernel: &str, grid: u32, arguments: impl Fn(&Bench) -> Vec<u64>, check: impl Fn(&Bench)) -> (usize, String) {
    let mut faults = (0, String::new());
    for schedule in schedules() {
        let mut b = bench();
        let arguments = arguments(&b);
        match run(image, kernel, grid, &arguments, &mut b.memory, &schedule) {
            Ok(_) => check(&b),
            Err(fault) => {
                faults.0 += 1;
                if faults.1.is_empty() {
                    faults.1 = fault.to_string();
                }
            }
        }
    }
    faults
}

fn in_and_out(b: &Bench) -> Vec<u64> {
    vec![b.input.address(), b.output.address()]
}
fn with_words(b: &Bench) -> Vec<u64> {
    vec![b.input.address(), b.output.address(), b.words.address(), b.words.address() + 60]
}

#[test]
fn missing_barriers_are_races() {
    let scanned = |b: &Bench| {
        for (given, got) in words(&b.memory, b.input).chunks(THREADS as usize).zip(words(&b.memory, b.output).chunks(THREADS as usize)) {
            let sums: Vec<u32> = given
                .iter()
                .scan(0u32, |s, v| {
                    *s = s.wrapping_add(*v);
                    Some(*s)
                })
                .collect();
            assert_eq!(sums, got);
        }
    };
    for image in IMAGES.map(image) {
        assert_eq!(faults(&image, "scan", BLOCKS, in_and_out, scanned), (0, String::new()));
        for kernel in ["scan_without_first_barrier", "scan_without_second_barrier"] {
            let (count, first) = faults(&image, kernel, BLOCKS, in_and_out, |_| {});
            assert_eq!(count, 24, "{kernel}");
            assert!(first.contains("race: block") || first.contains("undefined"), "{first}");
            assert!(first.contains(kernel) && first.contains("shared["), "{first}");
        }
    }
}

#[test]
fn votes_order_no_memory() {
    let exchanged = |b: &Bench| {
        let (given, got) = (words(&b.memory, b.input), words(&b.memory, b.output));
        assert!(got.iter().enumerate().all(|(i, v)| *v == given[i ^ 1]));
    };
    for image in IMAGES.map(image) {
        assert_eq!(faults(&image, "exchange", BLOCKS, in_and_out, exchanged), (0, String::new()));
        for kernel in ["exchange_by_ballot", "exchange_by_nothing"] {
            assert_eq!(faults(&image, kernel, BLOCKS, in_and_out, |_| {}).0, 24, "{kernel}");
        }
    }
}

#[test]
fn payloads_behind_flags_need_release_and_acquire() {
    let chained = |b: &Bench| {
        let (given, got) = (words(&b.memory, b.input), words(&b.memory, b.output));
        for lane in 0..THREADS as usize {
            let mut sum = 0u32;
            for block in 0..BLOCKS as usize {
                sum = sum.wrapping_add(given[block * THREADS as usize + lane]);
                assert_eq!(got[block * THREADS as usize + lane], sum);
            }
        }
    };
    for image in IMAGES.map(image) {
        for kernel in ["chain", "chain_fences"] {
            assert_eq!(faults(&image, kernel, BLOCKS, with_words, chained), (0, String::new()), "{kernel}");
        }
        for kernel in ["chain_relaxed_store", "chain_relaxed_load", "chain_no_second_fence", "chain_no_barrier"] {
            let (count, first) = faults(&image, kernel, BLOCKS, with_words, |_| {});
            assert!(count >= 20, "{kernel}: {count}");
            assert!(first.contains("race: block") && first.contains("out["), "{first}");
        }
        for schedule in schedules().filter(|s| s.residency > 2) {
            let mut b = bench();
            let arguments = [b.words.address(), b.output.address()];
            run(&image, "relay", 3, &arguments, &mut b.memory, &schedule).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(words(&b.memory, b.output)[1], 7);
        }
    }
}

#[test]
fn relaxed_loads_may_be_stale() {
    let image = image("detector32");
    for (kernel, stale_expected) in [("message", false), ("message_relaxed", true)] {
        let mut stale = 0;
        for seed in 0..200 {
            let mut b = bench();
            let arguments = [b.words.address(), b.output.address()];
            run(&image, kernel, 2, &arguments, &mut b.memory, &Schedule { seed, ..Schedule::default() }).unwrap();
            stale += words(&b.memory, b.output)[0];
        }
        assert_eq!(stale > 0, stale_expected, "{kernel}: {stale} of 200");
    }
}

#[test]
fn late_stores_follow_early_loads() {
    let image = image("detector32");
    for (kernel, sound) in [("retire", true), ("retire_relaxed", false)] {
        for seed in 0..20 {
            let mut b = bench();
            b.memory.order(b.words, 0..4);
            let result = run(&image, kernel, 4, &[b.words.address()], &mut b.memory, &Schedule { seed, ..Schedule::default() });
            assert_eq!(result.is_ok(), sound, "{kernel} {seed}: {result:?}");
        }
    }
}

#[test]
fn asynchronous_copies_need_a_wait_and_barriers() {
    let copied = |b: &Bench| {
        let (mut given, got) = (words(&b.memory, b.input), words(&b.memory, b.output));
        given[2 * THREADS as usize] &= 0xffff;
        for (given, got) in given.chunks(THREADS as usize).zip(got.chunks(THREADS as usize)).take(3) {
            assert!(given.iter().rev().eq(got));
        }
    };
    for image in IMAGES.map(image) {
        assert_eq!(faults(&image, "copies", 1, in_and_out, copied), (0, String::new()));
        for (kernel, what) in [("copies_without_wait", "in flight"), ("copies_without_arrival", ""), ("copies_without_consumption", "race")]
        {
            let (count, first) = faults(&image, kernel, 1, in_and_out, |_| {});
            assert_eq!(count, 24, "{kernel}");
            assert!(first.contains(what), "{kernel}: {first}");
        }
    }
}

#[test]
fn accesses_stay_within_their_buffers() {
    let image = image("detector32");
    let bytes = u64::from(4 * THREADS * BLOCKS);
    let shared = u64::from(4 * THREADS);
    // what, first offset that is fine, first offset at fault, its words
    let cases = [
        (0, bytes - 1, bytes, "reads 1 bytes at in[3072] (of 3072 bytes): byte 0 of it is outside every buffer"),
        (0, 0, u64::MAX, "in[-1]"),
        (0, 0, 1 << 40, "outside every buffer"),
        (1, bytes - 1, bytes, "writes 1 bytes at out[3072]"),
        (2, u64::MAX, 0, "not writable"),
        (3, bytes - 4, bytes, "outside"),
        (3, 8, 6, "misaligned"),
        (4, bytes - 24, bytes - 8, "outside"),
        (4, 8, 4, "misaligned"),
        (5, shared - 1, shared, "outside shared memory"),
        (6, u64::MAX, 3, "undefined"),
        (7, bytes - 20, bytes - 4, "byte 4 of it is outside every buffer"),
        (7, 12, 8, "misaligned"),
        (8, bytes - 4, bytes - 3, "byte 3 of it is outside"),
        (9, u64::MAX, bytes, "atomic access of 4 bytes at out"),
        (9, u64::MAX, 8, "undefined"),
        (10, u64::MAX, 17, "undefined"),
        (11, 3, 4, "index outside an array"),
        (12, 31, 32, "shift by too much"),
    ];
    for (what, fine, wrong, words) in cases {
        for (at, faulty) in [(fine, false), (wrong, true)] {
            if at == u64::MAX && !faulty {
                continue;
            }
            let mut b = bench();
            // what is a u32 and `at` too: pointer arithmetic is done here where it leaves 32 bits
            let far = if at > u64::from(u32::MAX) { at } else { 0 };
            let arguments =
                [b.input.address().wrapping_add(far), b.output.address().wrapping_add(far), (at.wrapping_sub(far) << 32) | what];
            let result = run(&image, "touch", 1, &arguments, &mut b.memory, &Schedule::default());
            match result {
                Ok(_) => assert!(!faulty, "{what} at {at}"),
                Err(fault) => {
                    assert!(faulty, "{what} at {at}: {fault}");
                    assert_eq!(fault.at, Some((0, 5)));
                    assert!(fault.to_string().contains(words), "{what} at {at}: {fault}");
                }
            }
        }
    }
}

#[test]
fn faults_name_the_source_line() {
    let mut b = bench();
    let arguments = [b.input.address(), b.output.address(), 1 << 32 | 2];
    let fault = run(&image("detector32"), "touch", 1, &arguments, &mut b.memory, &Schedule::default()).unwrap_err();
    let source = include_str!("kernels/detector.cpp");
    let line = 1 + source.lines().position(|l| l.contains("case 2:")).unwrap();
    assert!(fault.line.is_empty() || fault.line.contains(&format!("detector.cpp:{line}")), "{fault}");
}

#[test]
fn divergence_and_hangs_end() {
    for image in IMAGES.map(image) {
        for what in 0..5u64 {
            let mut b = bench();
            let fault = run(&image, "diverge", 1, &[what], &mut b.memory, &Schedule::default()).expect_err(&format!("diverge {what}"));
            assert!(fault.what.contains("diverged"), "{what}: {fault}");
        }
        for (dispatch, residency, ends) in [(Dispatch::Forward, 2, true), (Dispatch::Reversed, 1, true), (Dispatch::Forward, 1, false)] {
            let mut b = bench();
            let arguments = [b.words.address()];
            let schedule = Schedule { dispatch, residency, steps: 20_000, ..Schedule::default() };
            let result = run(&image, "wait_for_later", 2, &arguments, &mut b.memory, &schedule);
            assert_eq!(result.is_ok(), ends);
            assert!(ends || result.unwrap_err().what.contains("hangs"));
        }
    }
}

#[test]
fn collectives_compute_what_they_say() {
    for image in IMAGES.map(image) {
        let width = image.width() as usize;
        let mut memory = Memory::new(1 << 16);
        let output = memory.buffer("out", 32 * THREADS as usize, 0, Access::ReadWrite);
        run(&image, "collectives", 1, &[output.address()], &mut memory, &Schedule::default()).unwrap();
        let got = words(&memory, output);
        let value = |t: usize| (t as u32).wrapping_mul(2_654_435_761);
        for t in 0..THREADS as usize {
            let (first, lane) = (t / width * width, t % width);
            let all = || (first..first + width).map(value);
            let ballot = all().enumerate().fold(0u64, |m, (i, v)| m | u64::from(v >> 31) << i);
            let sum = |n: usize| all().take(n).fold(0u32, u32::wrapping_add);
            let or = (first..first + width).fold(0, |m, t| m | value(t) & 0x11 << (t % 8));
            let up = value(if lane < 3 { t } else { t - 3 });
            let down = value(if lane + 3 < width { t + 3 } else { t });
            let expected = [
                ballot as u32,
                (ballot >> 32) as u32,
                sum(width),
                or,
                sum(lane + 1),
                up,
                down,
                value(t ^ 5).wrapping_add(value(first + 6)),
            ];
            assert_eq!(got[8 * t..8 * t + 8], expected, "lane {t} of width {width}");
        }
    }
}
