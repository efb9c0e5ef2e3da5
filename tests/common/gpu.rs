//! A device to test on, or a line that says that there is none.

use std::ffi::c_void;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, result, sys};
use pfpl::cuda::raw::{Decode, Encode, Plan};
use pfpl::cuda::{Capacity, Outcome};
use pfpl::device::Forced;
use pfpl::{Bound, max_stream_bytes};

use super::corpus::Sample;

/// The first device's context, without event tracking, or a counted line that this test is skipped (past the test harness's capture).
/// With `PFPL_REQUIRE_CUDA=1` that is a failure.
pub fn context(test: &str) -> Option<Arc<CudaContext>> {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    match pfpl::cuda::context(0) {
        Ok(context) => {
            // SAFETY: every slice of the tests is used on the stream that it was made on, or after a synchronization
            unsafe { context.disable_event_tracking() };
            Some(context)
        }
        Err(error) => {
            assert!(std::env::var_os("PFPL_REQUIRE_CUDA").is_none_or(|value| value != "1"), "{test}: {error}");
            let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
            // in one piece, for tests run side by side
            std::io::stderr().write_all(format!("SKIPPED {count}: {test}: {error}\n").as_bytes()).unwrap();
            None
        }
    }
}

/// Bytes around every buffer that must stay as they are.
const GUARD: usize = 256;
const GUARD_BYTE: u8 = 0xC7;

/// Device memory between guards, `offset` bytes past an aligned address.
pub struct Buffer {
    slice: CudaSlice<u8>,
    start: usize,
    bytes: usize,
}

impl Buffer {
    /// Memory of unspecified content.
    pub fn new(stream: &Arc<CudaStream>, bytes: usize, offset: usize) -> Self {
        let start = GUARD + offset;
        // SAFETY: filled at once
        let slice = unsafe { stream.alloc::<u8>(start + bytes + GUARD) }.unwrap();
        let address = slice.device_ptr(stream).0;
        // SAFETY: the slice is this long
        unsafe { result::memset_d8_async(address, GUARD_BYTE, slice.len(), stream.cu_stream()) }.unwrap();
        Self { slice, start, bytes }
    }

    pub fn with(stream: &Arc<CudaStream>, bytes: &[u8], offset: usize) -> Self {
        let mut buffer = Self::new(stream, bytes.len(), offset);
        buffer.write(stream, bytes);
        buffer
    }

    pub fn write(&mut self, stream: &Arc<CudaStream>, bytes: &[u8]) {
        if !bytes.is_empty() {
            stream.memcpy_htod(bytes, &mut self.slice.slice_mut(self.start..self.start + bytes.len())).unwrap();
        }
    }

    pub fn address(&self) -> u64 {
        self.slice.device_ptr(self.slice.stream()).0 + self.start as u64
    }

    /// The content, once the stream has come this far; checks the guards.
    pub fn read(&self, stream: &Arc<CudaStream>) -> Vec<u8> {
        let mut bytes = stream.clone_dtoh(&self.slice).unwrap();
        stream.synchronize().unwrap();
        let (before, after) = (&bytes[..self.start], &bytes[self.start + self.bytes..]);
        assert!(before.iter().chain(after).all(|&byte| byte == GUARD_BYTE), "written outside of the buffer");
        bytes.truncate(self.start + self.bytes);
        bytes.drain(..self.start);
        bytes
    }

    /// Checks that an input is as it was, unless that would take long.
    fn check(&self, stream: &Arc<CudaStream>, bytes: &[u8]) {
        assert!(self.bytes > 1 << 25 || self.read(stream) == bytes, "an input was written");
    }

    pub fn outcome(&self, stream: &Arc<CudaStream>) -> Outcome {
        bytemuck::pod_read_unaligned(&self.read(stream))
    }
}

/// A CUDA stream with a plan and calls that wait for their results.
pub struct Lab {
    // dropped before its stream
    pub plan: Plan,
    pub stream: Arc<CudaStream>,
    /// Bytes that fields and streams begin past an aligned address.
    pub offsets: (usize, usize),
}

impl Lab {
    pub fn new(context: &Arc<CudaContext>, capacity: Capacity) -> Self {
        let stream = context.new_stream().unwrap();
        let plan = plan(&stream, capacity);
        Self { stream, plan, offsets: (0, 0) }
    }

    pub fn handle(&self) -> *mut c_void {
        self.stream.cu_stream().cast()
    }

    pub fn force(&mut self, wide: bool, blocks: u32, persistent: bool) {
        self.plan.force(Forced { wide, blocks, persistent });
    }

    /// What compressing leaves: the verdict and the bytes given for the stream.
    pub fn compress<T: Sample>(&mut self, field: &[T], bound: Bound, capacity: usize) -> (Outcome, Vec<u8>) {
        let values = Buffer::with(&self.stream, bytemuck::cast_slice(field), self.offsets.0);
        let stream = Buffer::new(&self.stream, capacity, self.offsets.1);
        let outcome = Buffer::new(&self.stream, 16, 0);
        let call = Encode {
            element: T::TYPE,
            field: values.address(),
            n: field.len() as u64,
            bound,
            stream: stream.address(),
            capacity: capacity as u64,
            outcome: outcome.address(),
        };
        // SAFETY: the buffers are alive until read
        unsafe { self.plan.compress(self.handle(), &call) }.unwrap();
        let result = (outcome.outcome(&self.stream), stream.read(&self.stream));
        values.check(&self.stream, bytemuck::cast_slice(field));
        result
    }

    /// The stream of a field.
    pub fn stream_of<T: Sample>(&mut self, field: &[T], bound: Bound) -> Vec<u8> {
        let (outcome, mut stream) = self.compress(field, bound, max_stream_bytes::<T>(field.len() as u64) as usize + 8);
        stream.truncate(outcome.result().unwrap() as usize);
        stream
    }

    /// What decompressing `count` values from `first` on leaves.
    pub fn decompress<T: Sample>(&mut self, stream: &[u8], n: usize, first: usize, count: usize) -> (Outcome, Vec<T>) {
        let given = Buffer::with(&self.stream, stream, self.offsets.1);
        let values = Buffer::new(&self.stream, count * T::TYPE.bytes(), self.offsets.0);
        let outcome = Buffer::new(&self.stream, 16, 0);
        let call = Decode {
            element: T::TYPE,
            stream: given.address(),
            bytes: stream.len() as u64,
            n: n as u64,
            field: values.address(),
            first: first as u64,
            count: count as u64,
            outcome: outcome.address(),
        };
        // SAFETY: the buffers are alive until read
        unsafe { self.plan.decompress(self.handle(), &call) }.unwrap();
        let result = outcome.outcome(&self.stream);
        let values = values.read(&self.stream);
        given.check(&self.stream, stream);
        (result, bytemuck::pod_collect_to_vec(&values))
    }
}

/// A raw plan on this stream.
pub fn plan(stream: &Arc<CudaStream>, capacity: Capacity) -> Plan {
    // SAFETY: the tests keep the stream as long as the plan
    unsafe { Plan::new(stream.context().cu_ctx().cast(), stream.cu_stream().cast(), capacity) }.unwrap()
}

/// A kernel that does nothing for a number of clock cycles, to hold back a stream or to fill the device.
pub struct Spin(sys::CUfunction);

// SAFETY: functions may be used from any thread
unsafe impl Send for Spin {}
// SAFETY: as above
unsafe impl Sync for Spin {}

const SPIN: &std::ffi::CStr = c"
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 cycles) {
  .reg .u64 %r<4>;
  .reg .pred %p;
  ld.param.u64 %r0, [cycles];
  mov.u64 %r1, %clock64;
again:
  mov.u64 %r2, %clock64;
  sub.u64 %r3, %r2, %r1;
  setp.lt.u64 %p, %r3, %r0;
  @%p bra again;
  ret;
}
";

impl Spin {
    pub fn new(context: &Arc<CudaContext>) -> Self {
        context.bind_to_thread().unwrap();
        // SAFETY: valid PTX; the module is never unloaded
        unsafe {
            let module = result::module::load_data(SPIN.as_ptr().cast()).unwrap();
            Self(result::module::get_function(module, c"spin".to_owned()).unwrap())
        }
    }

    pub fn launch(&self, stream: &CudaStream, blocks: u32, threads: u32, mut cycles: u64) {
        stream.context().bind_to_thread().unwrap();
        let mut params = [(&raw mut cycles).cast()];
        // SAFETY: the kernel takes one word
        unsafe { result::launch_kernel(self.0, (blocks, 1, 1), (threads, 1, 1), 0, stream.cu_stream(), &mut params) }.unwrap();
    }
}
