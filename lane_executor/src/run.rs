//! Launching: dispatches blocks, chooses who runs next, and ends with a report or a fault.

use crate::clock::{BLOCKS, LANES};
use crate::hooks::enter;
use crate::image::{Image, Kernel};
use crate::machine::{Block, State, Status};
use crate::memory::Memory;
use crate::{Dispatch, Report, Schedule};
use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult};
use std::cell::RefCell;
use std::fmt;
use std::ptr::null_mut;

/// A kernel and what it is launched with.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// Where the kernel is.
    pub image: &'a Image,
    /// Its name.
    pub kernel: &'a str,
    /// Blocks.
    pub grid: u32,
    /// Lanes of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: usize,
    /// The arguments, each at its alignment.
    pub arguments: &'a [u8],
}

/// Why a launch ended early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The kernel.
    pub kernel: String,
    /// Block and lane, unless the launch as a whole is to blame.
    pub at: Option<(u32, u32)>,
    /// What happened.
    pub what: String,
    /// The source lines, innermost first, if known.
    pub line: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kernel)?;
        if let Some((block, lane)) = self.at {
            write!(f, ", block {block}, lane {lane}")?;
        }
        write!(f, ": {}", self.what)?;
        if !self.line.is_empty() {
            write!(f, "\n    {}", self.line)?;
        }
        Ok(())
    }
}
impl std::error::Error for Fault {}

const STACK_BYTES: usize = 256 << 10;

type Fiber = Coroutine<(), (), (), DefaultStack>;

thread_local! {
    // mapping a stack costs more than running a lane
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
    static BLOCKS_KEPT: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

impl Launch<'_> {
    /// Runs the kernel to its end.
    ///
    /// # Errors
    /// The first [`Fault`]; the memory then holds what was written before it.
    ///
    /// # Panics
    /// If the kernel is not in the image or the launch is empty or larger than the executor's limits (8191 blocks of 1024 lanes).
    pub fn run(&self, memory: &mut Memory, schedule: &Schedule) -> Result<Report, Fault> {
        assert!((1..BLOCKS).contains(&self.grid) && (1..=LANES).contains(&self.threads) && schedule.residency > 0, "launch size");
        let kernel = self.image.kernel(self.kernel).unwrap_or_else(|e| panic!("{e}"));
        // 16-byte aligned, as a launch's parameters are
        let mut arguments = vec![0u128; self.arguments.len().div_ceil(16).max(1)];
        // SAFETY: the vector has at least as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.arguments.as_ptr(), arguments.as_mut_ptr().cast::<u8>(), self.arguments.len()) };
        let first = arguments.as_ptr() as usize;
        let state = State::new(memory.next_launch(), self, schedule, memory, first..first + self.arguments.len());
        let mut machine = Machine { state: Box::into_raw(Box::new(state)), fibers: Vec::new(), kernel, arguments: first };
        enter(machine.state);
        let result = machine.run(schedule);
        enter(null_mut());
        machine.retire();
        // SAFETY: `into_raw` above; the fibers that held copies of the pointer are gone.
        let mut state = unsafe { Box::from_raw(machine.state) };
        BLOCKS_KEPT.with_borrow_mut(|kept| kept.append(&mut state.blocks));
        let fault = |at, what, pc| Fault {
            kernel: self.kernel.to_owned(),
            at,
            what,
            line: if pc == 0 { String::new() } else { self.image.line(pc) },
        };
        result.map_err(|(at, what, pc)| fault(at, what, pc))?;
        if let Some(zone) = memory.broken_zone() {
            return Err(fault(None, format!("writes unseen: {zone}"), 0));
        }
        Ok(state.report)
    }
}

type Wrong = (Option<(u32, u32)>, String, usize);

struct Machine {
    /// Shared with the hooks, so that references to it last no longer than one step of the scheduler.
    state: *mut State,
    fibers: Vec<Vec<Fiber>>,
    kernel: Kernel,
    arguments: usize,
}

impl Machine {
    fn state(&mut self) -> &mut State {
        // SAFETY: `Launch::run` owns the state; no lane runs while the scheduler holds this reference.
        unsafe { &mut *self.state }
    }

    fn run(&mut self, schedule: &Schedule) -> Result<(), Wrong> {
        let grid = self.state().grid;
        let mut order: Vec<u32> = (0..grid).collect();
        match schedule.dispatch {
            Dispatch::Forward => {}
            Dispatch::Reversed => order.reverse(),
            Dispatch::Random => self.state().rng.shuffle(&mut order),
        }
        let mut waiting = order.into_iter();
        // slots with a block
        let mut resident: Vec<usize> = Vec::new();
        let mut free: Vec<usize> = (0..schedule.residency.min(grid as usize)).rev().collect();
        loop {
            while let Some(&slot) = free.last() {
                let Some(block) = waiting.next() else { break };
                free.pop();
                self.dispatch(slot, block);
                resident.push(slot);
            }
            if resident.is_empty() {
                return Ok(());
            }
            let state = self.state();
            let pick = state.rng.usize(..resident.len());
            let rounds = state.rng.u32(1..=schedule.quantum.max(1));
            for _ in 0..rounds {
                if self.round(resident[pick], schedule.steps)? {
                    free.push(resident.swap_remove(pick));
                    break;
                }
            }
        }
    }

    fn dispatch(&mut self, slot: usize, id: u32) {
        let (raw, kernel, arguments) = (self.state, self.kernel, self.arguments as *const u8);
        let state = self.state();
        while state.blocks.len() <= slot {
            state.blocks.push(BLOCKS_KEPT.with_borrow_mut(Vec::pop).unwrap_or_else(Block::new));
        }
        let (threads, width, early, garbage) = (state.threads, state.width, state.early, state.rng.u128(..));
        state.blocks[slot].begin(id, threads, width, early, garbage);
        let fibers = (0..threads as usize).map(|lane| {
            let stack =
                STACKS.with_borrow_mut(Vec::pop).unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("memory for a lane's stack"));
            state.blocks[slot].lanes[lane].stack = stack.limit().get()..stack.base().get();
            Coroutine::with_stack(stack, move |yielder, ()| {
                // SAFETY: the scheduler holds no reference to the state while a lane runs.
                unsafe { (*raw).me().yielder = yielder };
                // SAFETY: the launch's arguments outlive its fibers; that the kernel fits them is the caller's promise to the test.
                unsafe { kernel(arguments) };
            })
        });
        let fibers = fibers.collect();
        if self.fibers.len() <= slot {
            self.fibers.resize_with(slot + 1, Vec::new);
        }
        recycle(std::mem::replace(&mut self.fibers[slot], fibers));
    }

    /// Runs the ready lanes of one warp, each to its next suspension.  True when the block has ended.
    fn round(&mut self, slot: usize, steps: u64) -> Result<bool, Wrong> {
        let state = self.state();
        state.slot = slot;
        let width = state.width;
        let block = &state.blocks[slot];
        let id = block.id;
        let warps = block.warps();
        let first = state.rng.usize(..warps);
        let ready = |w: usize| block.lanes[block.warp(w, width)].iter().any(|l| l.status == Status::Ready);
        let Some(warp) = (0..warps).map(|i| (first + i) % warps).find(|w| ready(*w)) else {
            return Ok(true);
        };
        let range = block.warp(warp, width);
        let (start, forward) = (state.rng.usize(..range.len()), state.rng.bool());
        for i in 0..range.len() {
            let step = (start + i) % range.len();
            let lane = if forward { range.start + step } else { range.end - 1 - step };
            let state = self.state();
            if state.blocks[slot].lanes[lane].status != Status::Ready {
                continue;
            }
            state.lane = lane;
            state.report.steps += 1;
            let result = self.fibers[slot][lane].resume(());
            let state = self.state();
            if let Some((what, pc)) = state.fault.take() {
                return Err((Some((id, lane as u32)), what, pc));
            }
            if let CoroutineResult::Return(()) = result {
                state.blocks[slot].lanes[lane].status = Status::Done;
            }
        }
        let State { blocks, report, .. } = self.state();
        if report.steps > steps {
            return Err((Some((id, range.start as u32)), format!("hangs: no end after {steps} steps"), 0));
        }
        let block = &mut blocks[slot];
        block
            .settle_warp(warp, width, report)
            .and_then(|()| block.settle_block(report))
            .map_err(|(lane, what)| (Some((id, lane as u32)), what, 0))?;
        Ok(block.lanes.iter().all(|l| l.status == Status::Done))
    }

    fn retire(&mut self) {
        for fibers in std::mem::take(&mut self.fibers) {
            recycle(fibers);
        }
    }
}

fn recycle(fibers: Vec<Fiber>) {
    STACKS.with_borrow_mut(|stacks| {
        for mut fiber in fibers {
            if !fiber.done() {
                // SAFETY: kernels own nothing that a destructor would free, and the hooks hold nothing across a suspension but a message
                // that a fault leaks at most once a launch.
                unsafe { fiber.force_reset() };
            }
            stacks.push(fiber.into_stack());
        }
    });
}
