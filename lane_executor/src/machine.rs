//! Blocks, warps and lanes of one launch: who may run, what they wait for, and what their accesses mean.

use crate::clock::{By, Knowledge, Now, Stamp, Store, TIMES, Word};
use crate::memory::{Memory, Shadow};
use crate::{Launch, Report, Schedule};
use corosensei::Yielder;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

// the same numbers in cxx/executor.h
pub(crate) const ACQUIRE: u32 = 1;
pub(crate) const RELEASE: u32 = 2;
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    None,
    Ballot,
    Shuffle,
    Scan,
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareExchange,
}
impl Op {
    pub(crate) fn of(code: u32) -> Op {
        use Op::*;
        [None, Ballot, Shuffle, Scan, Add, Min, Max, And, Or, Xor, Exchange, CompareExchange][code as usize]
    }
    fn apply(self, a: u64, b: u64) -> u64 {
        match self {
            Op::Add => a.wrapping_add(b),
            Op::Min => a.min(b),
            Op::Max => a.max(b),
            Op::And => a & b,
            Op::Or => a | b,
            Op::Xor => a ^ b,
            Op::Exchange => b,
            Op::None | Op::Ballot | Op::Shuffle | Op::Scan | Op::CompareExchange => a,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Ready,
    Barrier { op: Op, value: u64 },
    Warp { op: Op, value: u64, source: u32 },
    Done,
}

struct Copy {
    shared: usize,
    global: usize,
    bytes: usize,
    given: usize,
}

pub(crate) struct Lane {
    pub status: Status,
    pub result: u64,
    pub stack: Range<usize>,
    pub yielder: *const Yielder<(), ()>,
    time: u32,
    /// Acquired since the last barrier of the warp.
    known: Knowledge,
    /// What relaxed loads saw; a fence makes it known.
    observed: Knowledge,
    /// What the last fence publishes with every later store.
    fenced: Option<Rc<Knowledge>>,
    copies: Vec<Copy>,
    last_load: (usize, u64),
    /// Has yet to wait for the work before its launch.
    pub awaits: bool,
}

pub(crate) struct Block {
    pub id: u32,
    pub lanes: Vec<Lane>,
    time: u32,
    block_time: u32,
    warp_times: Vec<u32>,
    known: Knowledge,
    warps_known: Vec<Knowledge>,
    // u128: 16-byte alignment; the base is aligned within it
    store: Vec<u128>,
    shared_used: usize,
    variables: Vec<(usize, usize)>,
    shadow: Shadow,
    words: HashMap<usize, Word>,
}

const SHARED_BYTES: usize = 228 << 10;
const SHARED_ALIGN: usize = 1024;

pub(crate) struct State {
    pub launch: u32,
    pub width: u32,
    pub grid: u32,
    pub threads: u32,
    pub early: bool,
    pub dynamic_shared: usize,
    pub schedule: Schedule,
    pub rng: fastrand::Rng,
    pub memory: *mut Memory,
    pub constants: [Range<usize>; 2],
    pub blocks: Vec<Block>,
    pub slot: usize,
    pub lane: usize,
    pub fault: Option<(String, usize)>,
    pub report: Report,
    words: HashMap<usize, Word>,
    many: HashMap<usize, Vec<Stamp>>,
}

enum Place {
    Private,
    Shared(usize),
    Global(usize),
    Constant,
}

#[derive(Clone, Copy)]
struct Mode {
    write: bool,
    atomic: bool,
}

impl Block {
    pub(crate) fn new() -> Self {
        Block {
            id: 0,
            lanes: Vec::new(),
            time: 0,
            block_time: 0,
            warp_times: Vec::new(),
            known: Knowledge::default(),
            warps_known: Vec::new(),
            store: vec![0; (SHARED_BYTES + SHARED_ALIGN) / 16],
            shared_used: 0,
            variables: Vec::new(),
            shadow: Shadow::default(),
            words: HashMap::new(),
        }
    }

    pub(crate) fn begin(&mut self, id: u32, threads: u32, width: u32, early: bool, garbage: u128) {
        let warps = threads.div_ceil(width) as usize;
        self.id = id;
        (self.time, self.block_time) = (1, 1);
        self.warp_times = vec![1; warps];
        self.known.clear();
        self.warps_known = vec![Knowledge::default(); warps];
        self.store.fill(garbage);
        self.shadow = Shadow::default();
        self.shared_used = 0;
        self.variables.clear();
        self.words.clear();
        self.lanes.clear();
        self.lanes.resize_with(threads as usize, || Lane {
            status: Status::Ready,
            result: 0,
            stack: 0..0,
            yielder: std::ptr::null(),
            time: 1,
            known: Knowledge::default(),
            observed: Knowledge::default(),
            fenced: None,
            copies: Vec::new(),
            last_load: (0, 0),
            awaits: early,
        });
    }

    fn shared_base(&self) -> usize {
        (self.store.as_ptr() as usize).next_multiple_of(SHARED_ALIGN)
    }

    pub(crate) fn warp(&self, warp: usize, width: u32) -> Range<usize> {
        warp * width as usize..((warp + 1) * width as usize).min(self.lanes.len())
    }

    pub(crate) fn warps(&self) -> usize {
        self.warp_times.len()
    }

    fn tick(&mut self) -> u32 {
        self.time += 1;
        assert!(self.time < TIMES - 1, "a block with too many synchronizations");
        self.time
    }

    /// Completes what all of a warp's lanes wait for, if they do; an error if they never can.
    pub(crate) fn settle_warp(&mut self, warp: usize, width: u32, report: &mut Report) -> Result<(), (usize, String)> {
        let range = self.warp(warp, width);
        let first = range.start;
        let lanes = &mut self.lanes[range];
        let Some((at, op)) =
            lanes.iter().enumerate().find_map(|(i, l)| if let Status::Warp { op, .. } = l.status { Some((i, op)) } else { None })
        else {
            return Ok(());
        };
        if lanes.iter().any(|l| l.status == Status::Ready) {
            return Ok(());
        }
        let mut values = Vec::with_capacity(lanes.len());
        for (i, lane) in lanes.iter().enumerate() {
            match lane.status {
                Status::Warp { op: other, value, source } if other == op => values.push((value, source)),
                other => return Err((first + at, format!("diverged: this lane calls {op:?} of its warp, lane {}: {other:?}", first + i))),
            }
        }
        let common = match op {
            Op::Ballot => values.iter().enumerate().fold(0, |m, (i, v)| m | u64::from(v.0 != 0) << i),
            Op::None | Op::Shuffle | Op::Scan => 0,
            _ => values.iter().map(|v| v.0).reduce(|a, b| op.apply(a, b)).unwrap_or(0),
        };
        let mut sum = 0u64;
        for (lane, (value, source)) in lanes.iter_mut().zip(&values) {
            sum = sum.wrapping_add(*value);
            lane.status = Status::Ready;
            lane.result = match op {
                Op::Shuffle => values.get(*source as usize).map_or(0, |v| v.0),
                Op::Scan => sum,
                _ => common,
            };
        }
        if op == Op::None {
            report.warp_barriers += 1;
            let time = self.tick();
            self.warp_times[warp] = time;
            let range = self.warp(warp, width);
            for lane in &mut self.lanes[range] {
                lane.time = time;
                self.warps_known[warp].join(&lane.known);
                lane.known.clear();
            }
        } else {
            report.collectives += 1;
        }
        Ok(())
    }

    /// Completes the block's barrier if every lane waits at it; an error if no lane can run and not all wait there.
    pub(crate) fn settle_block(&mut self, report: &mut Report) -> Result<(), (usize, String)> {
        let mut met: Option<(Op, u64)> = None;
        let mut exited = None;
        for (i, lane) in self.lanes.iter().enumerate() {
            match lane.status {
                Status::Ready | Status::Warp { .. } => return Ok(()),
                Status::Barrier { op, value } => match &mut met {
                    Some((first, all)) if *first == op => *all = op.apply(*all, value),
                    Some((first, _)) => return Err((i, format!("diverged: barriers of different kinds meet: {first:?}, {op:?}"))),
                    None => met = Some((op, value)),
                },
                Status::Done => exited = Some(i),
            }
        }
        let Some((_, value)) = met else { return Ok(()) };
        if let Some(lane) = exited {
            return Err((lane, "diverged: this lane has exited, others wait at a barrier".to_owned()));
        }
        report.barriers += 1;
        let time = self.tick();
        self.block_time = time;
        self.warp_times.fill(time);
        for lane in &mut self.lanes {
            lane.time = time;
            self.known.join(&lane.known);
            lane.known.clear();
            (lane.status, lane.result) = (Status::Ready, value);
        }
        for warp in &mut self.warps_known {
            self.known.join(warp);
            warp.clear();
        }
        Ok(())
    }
}

impl State {
    /// `arguments`: where they are; `number`: this launch's, for its stamps.
    pub(crate) fn new(number: u32, launch: &Launch<'_>, schedule: &Schedule, memory: *mut Memory, arguments: Range<usize>) -> Self {
        State {
            launch: number,
            width: launch.image.width(),
            grid: launch.grid,
            threads: launch.threads,
            early: launch.image.early,
            dynamic_shared: launch.shared_bytes,
            schedule: schedule.clone(),
            rng: fastrand::Rng::with_seed(schedule.seed),
            memory,
            constants: [launch.image.extent.clone(), arguments],
            blocks: Vec::new(),
            slot: 0,
            lane: 0,
            fault: None,
            report: Report::default(),
            words: HashMap::new(),
            many: HashMap::new(),
        }
    }

    pub(crate) fn block(&mut self) -> &mut Block {
        &mut self.blocks[self.slot]
    }
    pub(crate) fn me(&mut self) -> &mut Lane {
        let lane = self.lane;
        &mut self.block().lanes[lane]
    }
    fn memory(&mut self) -> &mut Memory {
        // SAFETY: `Launch::run` holds the memory's only reference and lends it to this launch.
        unsafe { &mut *self.memory }
    }
    fn now(&self) -> Now {
        let block = &self.blocks[self.slot];
        let warp_time = block.warp_times[self.lane / self.width as usize];
        Now {
            launch: self.launch,
            block: block.id,
            lane: self.lane as u32,
            width: self.width,
            block_time: block.block_time,
            warp_time,
            time: block.lanes[self.lane].time,
        }
    }

    fn place(&mut self, address: usize) -> Option<Place> {
        let block = &self.blocks[self.slot];
        if block.lanes[self.lane].stack.contains(&address) {
            return Some(Place::Private);
        }
        if let Some(at) = address.checked_sub(block.shared_base()).filter(|at| *at < SHARED_BYTES) {
            return Some(Place::Shared(at));
        }
        if let Some(at) = self.memory().place(address) {
            return Some(Place::Global(at));
        }
        self.constants.iter().any(|range| range.contains(&address)).then_some(Place::Constant)
    }

    /// The variable of shared memory that `key` names.
    pub(crate) fn shared(&mut self, key: usize, bytes: usize) -> Result<usize, String> {
        let bytes = match key {
            0 if bytes <= self.dynamic_shared => self.dynamic_shared,
            0 => return Err(format!("{bytes} bytes of shared memory, launched with {}", self.dynamic_shared)),
            _ => bytes,
        };
        let block = self.block();
        let base = block.shared_base();
        if let Some((_, at)) = block.variables.iter().find(|(k, _)| *k == key) {
            return Ok(base + at);
        }
        let at = block.shared_used.next_multiple_of(128);
        if at + bytes > SHARED_BYTES {
            return Err(format!("{} bytes of shared memory", at + bytes));
        }
        block.shared_used = at + bytes;
        block.shadow.grow(at + bytes);
        block.variables.push((key, at));
        self.report.shared_bytes = self.report.shared_bytes.max(at + bytes);
        Ok(base + at)
    }

    /// A plain access of the current lane; says what is wrong with it.
    pub(crate) fn access(&mut self, address: usize, bytes: usize, write: bool) -> Option<String> {
        let mode = Mode { write, atomic: false };
        let wrong = match self.place(address) {
            Some(Place::Private) => None,
            Some(Place::Constant) if !write => None,
            Some(Place::Shared(at)) => self.touch_shared(at, bytes, mode),
            Some(Place::Global(at)) => self.memory().check(at, bytes, write).or_else(|| self.touch_global(at, bytes, mode)),
            Some(Place::Constant) | None => Some("outside every buffer".to_owned()),
        };
        wrong.map(|wrong| format!("{} {bytes} bytes at {}: {wrong}", if write { "writes" } else { "reads" }, self.describe(address)))
    }

    fn describe(&mut self, address: usize) -> String {
        match self.place(address) {
            Some(Place::Private) => "its stack".to_owned(),
            Some(Place::Constant) => "a constant".to_owned(),
            Some(Place::Shared(at)) => format!("shared[{at}] (of {} bytes)", self.block().shared_used),
            Some(Place::Global(at)) => self.memory().describe(at),
            None => format!("{address:#x}"),
        }
    }

    fn touch_shared(&mut self, at: usize, bytes: usize, mode: Mode) -> Option<String> {
        let now = self.now();
        let Block { lanes, known, warps_known, shadow, shared_used, .. } = &mut self.blocks[self.slot];
        if at + bytes > *shared_used {
            return Some("outside shared memory".to_owned());
        }
        let (lane, warp) = (&lanes[self.lane].known, &warps_known[self.lane / self.width as usize]);
        let valid = |s: Stamp| s != Stamp::NONE;
        let follows = |s: Stamp| now.follows_in_block(s) || [lane, warp, &*known].iter().any(|k| k.covers(s, now.width));
        if !mode.write && self.schedule.strict && !shadow.writes[at..at + bytes].iter().all(|s| valid(*s)) {
            return Some("undefined".to_owned());
        }
        touch(shadow, at, bytes, mode, &now, valid, follows, &mut self.many)
    }

    fn touch_global(&mut self, at: usize, bytes: usize, mode: Mode) -> Option<String> {
        if self.me().awaits {
            return Some("before the wait for the work before the launch".to_owned());
        }
        let now = self.now();
        let Block { lanes, known, warps_known, .. } = &self.blocks[self.slot];
        let (lane, warp) = (&lanes[self.lane].known, &warps_known[self.lane / self.width as usize]);
        // SAFETY: as in `memory`; written out because `lanes` is borrowed.
        let shadow = unsafe { &mut (*self.memory).shadow };
        let valid = |s: Stamp| s.launch() == now.launch;
        let follows =
            |s: Stamp| (s.block() == now.block && now.follows_in_block(s)) || [lane, warp, known].iter().any(|k| k.covers(s, now.width));
        touch(shadow, at, bytes, mode, &now, valid, follows, &mut self.many)
    }

    /// What the current lane releases: all that it knows and did.
    fn release(&mut self) -> Rc<Knowledge> {
        let time = self.block().tick();
        self.me().time = time;
        let now = self.now();
        let block = &self.blocks[self.slot];
        let mut released = block.known.clone();
        released.join(&block.warps_known[self.lane / self.width as usize]);
        released.join(&block.lanes[self.lane].known);
        released.add(&now);
        Rc::new(released)
    }

    /// Runs `f` on the atomic word at `address`, after checking the access.
    fn with_word<T>(
        &mut self,
        address: usize,
        bytes: u32,
        write: bool,
        f: impl FnOnce(&mut Self, &mut Word, &dyn Fn(Stamp) -> bool) -> T,
    ) -> Result<T, String> {
        self.report.atomics += 1;
        let fail = |s: &mut Self, wrong: String| Err(format!("atomic access of {bytes} bytes at {}: {wrong}", s.describe(address)));
        if !address.is_multiple_of(bytes as usize) {
            return fail(self, "misaligned".to_owned());
        }
        let mode = Mode { write, atomic: true };
        let (wrong, shared) = match self.place(address) {
            Some(Place::Shared(at)) => (self.touch_shared(at, bytes as usize, mode), true),
            Some(Place::Global(at)) => {
                let memory = self.memory();
                let wrong =
                    memory.check(at, bytes as usize, false).or_else(|| if write { memory.check(at, bytes as usize, true) } else { None });
                let mode = Mode { atomic: !memory.ordered(at), ..mode };
                (wrong.or_else(|| self.touch_global(at, bytes as usize, mode)), false)
            }
            _ => (Some("neither in shared memory nor in a buffer".to_owned()), false),
        };
        if let Some(wrong) = wrong {
            return fail(self, wrong);
        }
        let value = peek(address, bytes);
        let words = if shared { &mut self.block().words } else { &mut self.words };
        let mut word = words.remove(&address).unwrap_or_else(|| Word::new(bytes, value));
        if word.bytes != bytes {
            return fail(self, format!("elsewhere it is one of {} bytes", word.bytes));
        }
        if word.last().value != value {
            word.push(Store { value, stamp: Stamp::NONE, release: None });
        }
        let now = self.now();
        let block = &self.blocks[self.slot];
        let known = [block.lanes[self.lane].known.clone(), block.warps_known[self.lane / self.width as usize].clone(), block.known.clone()];
        let before = move |s: Stamp| {
            s == Stamp::NONE || (s.block() == now.block && now.follows_in_block(s)) || known.iter().any(|k| k.covers(s, now.width))
        };
        let result = f(self, &mut word, &before);
        let words = if shared { &mut self.block().words } else { &mut self.words };
        words.insert(address, word);
        Ok(result)
    }

    fn observe(&mut self, release: Option<Rc<Knowledge>>, order: u32) {
        if let Some(release) = release {
            let lane = self.me();
            if order & ACQUIRE != 0 { lane.known.join(&release) } else { lane.observed.join(&release) }
        }
    }

    /// An atomic load: its value, and whether other lanes should run before the lane goes on.
    pub(crate) fn load(&mut self, address: usize, bytes: u32, order: u32) -> Result<(u64, bool), String> {
        let (value, release) = self.with_word(address, bytes, false, |state, word, before| {
            let newest = word.stores.len() - 1;
            let mut index = newest;
            if newest > 0 {
                if state.schedule.weak {
                    index = state.rng.usize(word.oldest(before)..=newest);
                }
                let stamp = state.now().stamp(true);
                word.saw(stamp, index);
                index = index.min(word.stores.len() - 1);
            }
            (word.stores[index].value, word.stores[index].release.clone())
        })?;
        self.observe(release, order);
        let polls = self.me().last_load == (address, value);
        self.me().last_load = (address, value);
        Ok((value, polls || self.rng.u8(..8) == 0))
    }

    pub(crate) fn store(&mut self, address: usize, bytes: u32, value: u64, order: u32) -> Result<(), String> {
        let release = if order & RELEASE != 0 { Some(self.release()) } else { self.me().fenced.clone() };
        let value = truncated(value, bytes);
        self.with_word(address, bytes, true, |state, word, _| {
            word.push(Store { value, stamp: state.now().stamp(true), release });
            poke(address, bytes, value);
        })
    }

    /// An atomic update: the value before.
    pub(crate) fn update(&mut self, address: usize, bytes: u32, op: Op, value: u64, expected: u64, order: u32) -> Result<u64, String> {
        let release = if order & RELEASE != 0 { Some(self.release()) } else { self.me().fenced.clone() };
        let (before, acquired) = self.with_word(address, bytes, true, |state, word, _| {
            let before = word.last().value;
            let acquired = word.last().release.clone();
            let stamp = state.now().stamp(true);
            if op != Op::CompareExchange || before == truncated(expected, bytes) {
                let after = truncated(if op == Op::CompareExchange { value } else { op.apply(before, truncated(value, bytes)) }, bytes);
                // an update continues the release sequence of the store that it read
                let release = match (&acquired, release) {
                    (Some(a), Some(b)) => {
                        let mut joined = (*b).clone();
                        joined.join(a);
                        Some(Rc::new(joined))
                    }
                    (a, b) => b.or_else(|| a.clone()),
                };
                word.push(Store { value: after, stamp, release });
                poke(address, bytes, after);
            }
            (before, acquired)
        })?;
        self.observe(acquired, order);
        Ok(before)
    }

    pub(crate) fn fence(&mut self, order: u32) {
        if order & ACQUIRE != 0 {
            let observed = std::mem::take(&mut self.me().observed);
            self.me().known.join(&observed);
        }
        if order & RELEASE != 0 {
            let released = self.release();
            self.me().fenced = Some(released);
        }
    }

    /// Begins an asynchronous copy, which takes place no earlier than the lane's next wait.
    pub(crate) fn copy(&mut self, shared: usize, global: usize, bytes: usize, given: usize) -> Option<String> {
        self.report.copies += 1;
        if given > bytes || !matches!(bytes, 4 | 8 | 16) || !shared.is_multiple_of(bytes) || (given > 0 && !global.is_multiple_of(bytes)) {
            return Some(format!("copies {given} of {bytes} bytes, misaligned"));
        }
        let Some(Place::Shared(at)) = self.place(shared) else { return Some("copies to other than shared memory".to_owned()) };
        if given > 0 && !matches!(self.place(global), Some(Place::Global(_))) {
            return Some(format!("copies from {}", self.describe(global)));
        }
        let wrong = (if given > 0 { self.access(global, given, false) } else { None }).or_else(|| self.access(shared, bytes, true));
        if wrong.is_some() {
            return wrong.map(|wrong| format!("begins a copy that {wrong}"));
        }
        let flying = Stamp::new(self.launch, self.block().id, By::Many, TIMES - 1, false);
        self.block().shadow.writes[at..at + bytes].fill(flying);
        self.me().copies.push(Copy { shared, global, bytes, given });
        None
    }

    pub(crate) fn copy_wait(&mut self) -> Option<String> {
        let stamp = self.now().stamp(false);
        for copy in std::mem::take(&mut self.me().copies) {
            let wrong = if copy.given > 0 { self.access(copy.global, copy.given, false) } else { None };
            if wrong.is_some() {
                return wrong.map(|wrong| format!("completes a copy that {wrong}"));
            }
            let block = self.block();
            let at = copy.shared - block.shared_base();
            block.shadow.writes[at..at + copy.bytes].fill(stamp);
            // SAFETY: `copy` checked both ranges: shared memory of this block, and a buffer of the memory.
            unsafe {
                std::ptr::copy_nonoverlapping(copy.global as *const u8, copy.shared as *mut u8, copy.given);
                std::ptr::write_bytes((copy.shared + copy.given) as *mut u8, 0, copy.bytes - copy.given);
            }
        }
        None
    }
}

/// Checks an access against earlier ones and records it; says whom it races with.
#[expect(clippy::too_many_arguments, reason = "two closures tell shared from global memory")]
fn touch(
    shadow: &mut Shadow,
    at: usize,
    bytes: usize,
    mode: Mode,
    now: &Now,
    valid: impl Fn(Stamp) -> bool,
    follows: impl Fn(Stamp) -> bool,
    many: &mut HashMap<usize, Vec<Stamp>>,
) -> Option<String> {
    let stamp = now.stamp(mode.atomic);
    let fine = |s: Stamp| !valid(s) || (mode.atomic && s.atomic()) || follows(s);
    let race = |i: usize, s: Stamp, how: &str| {
        let who = match s.by() {
            By::Many if s.time() == TIMES - 1 => return Some(format!("byte {i} of it belongs to an asynchronous copy in flight")),
            By::Lane(lane) => format!("lane {lane}"),
            By::Warp(warp) => format!("warp {warp}"),
            By::Block | By::Many => "several warps".to_owned(),
        };
        let atomically = if s.atomic() { " atomically" } else { "" };
        Some(format!("race: block {} {who}{atomically} {how} byte {i} of it and nothing orders the two", s.block()))
    };
    let (writes, reads) = (&mut shadow.writes[at..at + bytes], &mut shadow.reads[at..at + bytes]);
    let mut checked = Stamp::NONE;
    for (i, &s) in writes.iter().enumerate() {
        if s != checked && !fine(s) {
            return race(i, s, "wrote");
        }
        checked = s;
    }
    if mode.write {
        checked = Stamp::NONE;
        for (i, r) in reads.iter_mut().enumerate().filter(|(_, r)| **r != Stamp::NONE) {
            if *r != checked && valid(*r) {
                let conflict = match r.by() {
                    By::Many => many.remove(&(at + i)).unwrap_or_default().into_iter().find(|s| !fine(*s)),
                    _ => (!fine(*r)).then_some(*r),
                };
                if let Some(s) = conflict {
                    return race(i, s, "read");
                }
                if r.by() != By::Many {
                    checked = *r;
                }
            }
            *r = Stamp::NONE;
        }
        writes.fill(stamp);
    } else if !mode.atomic {
        let (mut from, mut to) = (Stamp::NONE, stamp);
        for (i, r) in reads.iter_mut().enumerate() {
            if *r == stamp {
                continue;
            }
            if *r != from || r.by() == By::Many {
                from = *r;
                to = if !valid(*r) || follows(*r) { stamp } else { both_read(*r, now, at + i, many) };
            }
            *r = to;
        }
    }
    None
}

/// The stamp that stands for the readers `r` and the lane at `now`, neither before the other.
fn both_read(r: Stamp, now: &Now, at: usize, many: &mut HashMap<usize, Vec<Stamp>>) -> Stamp {
    let within = |r: Stamp| {
        let warp = now.lane / now.width;
        let same_warp = match r.by() {
            By::Lane(lane) => lane / now.width == warp,
            By::Warp(w) => w == warp,
            By::Block | By::Many => false,
        };
        Stamp::new(now.launch, now.block, if same_warp { By::Warp(warp) } else { By::Block }, r.time().max(now.time), false)
    };
    if r.by() != By::Many && r.block() == now.block {
        return within(r);
    }
    let list = many.entry(at).or_default();
    if r.by() != By::Many {
        list.clear();
        list.push(r);
    }
    match list.iter_mut().find(|s| s.block() == now.block) {
        Some(s) => *s = if now.follows_in_block(*s) { now.stamp(false) } else { within(*s) },
        None => list.push(now.stamp(false)),
    }
    Stamp::new(now.launch, now.block, By::Many, 0, false)
}

fn truncated(value: u64, bytes: u32) -> u64 {
    if bytes == 4 { value & 0xffff_ffff } else { value }
}
fn peek(address: usize, bytes: u32) -> u64 {
    // SAFETY: the caller checked that these aligned bytes lie in shared memory or in a readable buffer.
    unsafe { if bytes == 4 { u64::from(*(address as *const u32)) } else { *(address as *const u64) } }
}
fn poke(address: usize, bytes: u32, value: u64) {
    // SAFETY: as in `peek`, and the buffer is writable.
    unsafe {
        if bytes == 4 {
            *(address as *mut u32) = value as u32;
        } else {
            *(address as *mut u64) = value;
        }
    }
}
