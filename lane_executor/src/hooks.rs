//! What the kernels' code calls: the table that cxx/shim.cpp forwards to, and the lane's side of a suspension.

use crate::machine::{Op, State, Status};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

type Pointer = *const c_void;

#[repr(C)]
pub(crate) struct Hooks {
    access: extern "C" fn(Pointer, u64, u32, Pointer),
    index: extern "C" fn(u32) -> u32,
    shared: extern "C" fn(Pointer, u64) -> *mut c_void,
    barrier: extern "C" fn(u32, u64, Pointer) -> u64,
    collective: extern "C" fn(u32, u64, u32, Pointer) -> u64,
    load: extern "C" fn(Pointer, u32, u32, Pointer) -> u64,
    store: extern "C" fn(Pointer, u32, u64, u32, Pointer),
    update: extern "C" fn(Pointer, u32, u32, u64, u64, u32, Pointer) -> u64,
    fence: extern "C" fn(u32),
    copy: extern "C" fn(Pointer, Pointer, u32, u32, Pointer),
    copy_wait: extern "C" fn(Pointer),
    await_predecessors: extern "C" fn(),
    pause: extern "C" fn(),
    fail: extern "C" fn(*const c_char, u64, Pointer),
}

pub(crate) static HOOKS: Hooks =
    Hooks { access, index, shared, barrier, collective, load, store, update, fence, copy, copy_wait, await_predecessors, pause, fail };

thread_local! {
    static CURRENT: Cell<*mut State> = const { Cell::new(null_mut()) };
}

/// Makes `state` the launch that this thread's hooks belong to; null for none.
pub(crate) fn enter(state: *mut State) {
    CURRENT.set(state);
}

/// The launch in progress, for the time of one call that does not suspend.
fn state() -> &'static mut State {
    // SAFETY: hooks are called from kernel code only, which runs only between `enter(state)` and `enter(null)`; the scheduler holds no
    // reference into the state while a lane runs, and no hook keeps this one across a suspension.
    unsafe { CURRENT.get().as_mut().expect("a kernel runs only within a launch") }
}

/// Lets the scheduler go on; returns when it resumes this lane.
fn suspend() {
    let yielder = state().me().yielder;
    // SAFETY: the lane's fiber set it when it began, and it lives as long as the fiber does.
    unsafe { (*yielder).suspend(()) }
}

fn wait(status: Status) -> u64 {
    state().me().status = status;
    suspend();
    state().me().result
}

fn fault(what: String, pc: Pointer) -> ! {
    state().fault = Some((what, pc as usize));
    loop {
        suspend();
    }
}

extern "C" fn access(p: Pointer, bytes: u64, write: u32, pc: Pointer) {
    // static initialization runs outside launches
    if CURRENT.get().is_null() {
        return;
    }
    if let Some(wrong) = state().access(p as usize, bytes as usize, write != 0) {
        fault(wrong, pc);
    }
}

extern "C" fn index(which: u32) -> u32 {
    let state = state();
    match which {
        0 => state.lane as u32,
        1 => state.threads,
        2 => state.block().id,
        _ => state.grid,
    }
}

extern "C" fn shared(key: Pointer, bytes: u64) -> *mut c_void {
    match state().shared(key as usize, bytes as usize) {
        Ok(address) => address as *mut c_void,
        Err(wrong) => fault(wrong, key),
    }
}

extern "C" fn barrier(op: u32, value: u64, _pc: Pointer) -> u64 {
    wait(Status::Barrier { op: Op::of(op), value })
}

extern "C" fn collective(op: u32, value: u64, source: u32, _pc: Pointer) -> u64 {
    wait(Status::Warp { op: Op::of(op), value, source })
}

extern "C" fn load(p: Pointer, bytes: u32, order: u32, pc: Pointer) -> u64 {
    match state().load(p as usize, bytes, order) {
        Ok((value, pause)) => {
            if pause {
                suspend();
            }
            value
        }
        Err(wrong) => fault(wrong, pc),
    }
}

extern "C" fn store(p: Pointer, bytes: u32, value: u64, order: u32, pc: Pointer) {
    if let Err(wrong) = state().store(p as usize, bytes, value, order) {
        fault(wrong, pc);
    }
    pause_at_times();
}

extern "C" fn update(p: Pointer, bytes: u32, op: u32, value: u64, expected: u64, order: u32, pc: Pointer) -> u64 {
    match state().update(p as usize, bytes, Op::of(op), value, expected, order) {
        Ok(before) => {
            pause_at_times();
            before
        }
        Err(wrong) => fault(wrong, pc),
    }
}

extern "C" fn fence(order: u32) {
    state().fence(order);
}

extern "C" fn copy(shared: Pointer, global: Pointer, bytes: u32, given: u32, pc: Pointer) {
    if let Some(wrong) = state().copy(shared as usize, global as usize, bytes as usize, given as usize) {
        fault(wrong, pc);
    }
}

extern "C" fn copy_wait(pc: Pointer) {
    if let Some(wrong) = state().copy_wait() {
        fault(wrong, pc);
    }
}

extern "C" fn await_predecessors() {
    state().me().awaits = false;
}

extern "C" fn pause() {
    suspend();
}

extern "C" fn fail(what: *const c_char, value: u64, pc: Pointer) {
    // SAFETY: cxx/shim.cpp passes literals.
    let what = unsafe { CStr::from_ptr(what) }.to_string_lossy();
    fault(format!("{what} ({value:#x})"), pc);
}

fn pause_at_times() {
    if state().rng.u8(..4) == 0 {
        suspend();
    }
}
