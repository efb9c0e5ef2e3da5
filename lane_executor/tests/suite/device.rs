//! A device made of the executor: a plan's state, fields and streams in its memory, and launches as the runtime makes them.

use pfpl_host::{Bound, Element};
use pfpl_lane_executor::{Access, Buffer, Dispatch, Fault, Image, Launch, Memory, Report, Schedule};

/// An element type, and what launches need of it.
pub trait Value: Element {
    const NAME: &'static str;
    const CODES: usize;
    fn from_bits64(bits: u64) -> Self;
    fn from_f64(v: f64) -> Self;
    fn inverse(bound: Bound) -> f64;
    fn bytes(field: &[Self]) -> Vec<u8>;
    fn values(bytes: &[u8]) -> Vec<Self>;
}
macro_rules! value {
    ($t:ident, $bits:ident, $inverse:expr) => {
        impl Value for $t {
            const NAME: &'static str = stringify!($t);
            const CODES: usize = 16384 / size_of::<$t>();
            fn from_bits64(bits: u64) -> Self {
                $t::from_bits(bits as $bits)
            }
            fn from_f64(v: f64) -> Self {
                v as $t
            }
            fn inverse(bound: Bound) -> f64 {
                $inverse(bound.get())
            }
            fn bytes(field: &[Self]) -> Vec<u8> {
                field.iter().flat_map(|v| v.to_le_bytes()).collect()
            }
            fn values(bytes: &[u8]) -> Vec<Self> {
                bytes.chunks_exact(size_of::<$t>()).map(|b| $t::from_le_bytes(b.try_into().unwrap())).collect()
            }
        }
    };
}
value!(f32, u32, |b: f32| f64::from(1.0 / (2.0 * b)));
value!(f64, u64, |b: f32| 1.0 / (2.0 * f64::from(b)));

/// Whose kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Cuda,
    Amd,
}

impl Target {
    /// The kernels that encode a single field.
    pub fn encoders(self) -> &'static [Form] {
        match self {
            Target::Cuda => &[Form::Small, Form::One, Form::List],
            Target::Amd => &[Form::One],
        }
    }
    /// The kernels that take a single field and no list, either way.
    pub fn singles(self) -> &'static [Form] {
        match self {
            Target::Cuda => &[Form::Small, Form::One],
            Target::Amd => &[Form::One],
        }
    }
}

/// Which of the kernels that can do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// One chunk a block (CUDA's kernels for short fields).
    Small,
    /// One field.
    One,
    /// The fields as arguments.
    List,
    /// The fields in device memory.
    DeviceList,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub stream_bytes: u64,
    pub status: u32,
    pub chunk: u32,
}
pub const NO_CHUNK: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub struct Encode<'a, T> {
    pub field: &'a [T],
    pub bound: Bound,
    pub capacity: usize,
    pub wide: bool,
    /// Addresses modulo 16 of field and stream.
    pub align: (usize, usize),
    pub outcome: bool,
}

#[derive(Clone, Debug)]
pub struct Decode<'a> {
    pub stream: &'a [u8],
    pub n: u64,
    pub first: u64,
    pub count: u64,
    pub align: (usize, usize),
    pub outcome: bool,
}

/// What a call left: its outcome, if wanted, and bytes or values.
pub type Left<V> = (Option<Outcome>, Vec<V>);

/// The fields of a launch as the kernels take them, and their chunks.
struct Part<'a> {
    fields: &'a [[u8; 64]],
    chunks: u32,
}

pub struct Device {
    pub target: Target,
    memory: Memory,
    /// Of the last launch that ended well.
    pub report: Report,
    state: Buffer,
    image: Image,
    /// What the state has room for.
    fields: usize,
    chunks: usize,
    kept: usize,
}

const CONTROL: usize = 4096;

impl Device {
    /// A device with a fresh plan.
    pub fn new(image: &str, fields: usize, chunks: usize) -> Self {
        let target = if image.starts_with("cuda") { Target::Cuda } else { Target::Amd };
        let image = Image::named(image).unwrap_or_else(|e| panic!("{e}"));
        let mut memory = Memory::new(16 << 20);
        let bytes = CONTROL + 16 * fields + 8 * chunks;
        let state = memory.buffer("state", bytes, 0, Access::ReadWrite);
        memory.write(state, 0, &vec![0; bytes]);
        if target == Target::Amd {
            // every block reads the epoch before it draws, and the last draw advances it
            memory.order(state, 256..264);
        }
        let kept = memory.buffers();
        Device { target, memory, report: Report::default(), state, image, fields, chunks, kept }
    }

    /// What differs between the targets: the kernel's name, and its shared memory's size.
    fn kernel(&self, encodes: bool, form: Form, fields: usize, value: &str) -> (String, usize) {
        let direction = if encodes { "encode" } else { "decode" };
        match self.target {
            Target::Amd => (format!("pfpl_{direction}_{value}"), 0),
            Target::Cuda => {
                let suffix = match form {
                    Form::Small => "small",
                    Form::One => "1",
                    Form::List | Form::DeviceList if fields <= 63 => "63",
                    Form::List | Form::DeviceList => "511",
                };
                let shared = match (encodes, form) {
                    (true, Form::Small) => 52176,
                    (true, _) => 45552,
                    (false, Form::Small) => 21632,
                    (false, _) => 37888,
                };
                (format!("pfpl_{direction}_{value}_{suffix}"), shared)
            }
        }
    }

    fn launch<T: Value>(&mut self, encodes: bool, form: Form, part: Part<'_>, grid: u32, schedule: &Schedule) -> Result<(), Fault> {
        let Part { fields, chunks } = part;
        let grid = if form == Form::Small { chunks.max(1) } else { grid };
        let (kernel, shared_bytes) = self.kernel(encodes, form, fields.len(), T::NAME);
        let room = match self.target {
            Target::Amd => 62,
            Target::Cuda => kernel.rsplit('_').next().and_then(|n| n.parse().ok()).unwrap_or(1),
        };
        let list = (form == Form::DeviceList).then(|| {
            let list = self.memory.buffer("list", 64 * fields.len(), 0, Access::Read);
            self.memory.write(list, 0, fields.as_flattened());
            list
        });
        let mut arguments = Vec::new();
        arguments.extend(self.state.address().to_le_bytes());
        arguments.extend(list.map_or(0, |l| l.address()).to_le_bytes());
        for v in [self.fields as u32, fields.len() as u32, chunks, self.chunks as u32] {
            arguments.extend(v.to_le_bytes());
        }
        if list.is_none() {
            arguments.extend(fields.as_flattened());
        }
        // what is not given is garbage
        arguments.resize(32 + 64 * room, 0xEE);
        let threads = self.image.threads(&kernel).unwrap_or_else(|e| panic!("{e}"));
        Launch { image: &self.image, kernel: &kernel, grid, threads, shared_bytes, arguments: &arguments }
            .run(&mut self.memory, schedule)
            .map(|r| self.report = r)
    }

    fn outcome_buffer(&mut self, wanted: bool) -> Option<Buffer> {
        wanted.then(|| self.memory.buffer("outcome", 16, 8, Access::ReadWrite))
    }

    fn outcome(&self, buffer: Option<Buffer>) -> Option<Outcome> {
        let buffer = buffer?;
        assert!(self.memory.written(buffer).all(|w| w), "an outcome is written");
        let b = self.memory.bytes(buffer);
        Some(Outcome {
            stream_bytes: u64::from_le_bytes(b[..8].try_into().unwrap()),
            status: u32::from_le_bytes(b[8..12].try_into().unwrap()),
            chunk: u32::from_le_bytes(b[12..].try_into().unwrap()),
        })
    }

    /// Encodes fields in one launch of `grid` blocks (`Form::Small`: one a chunk): each outcome, and the bytes below each capacity.
    pub fn encode<T: Value>(
        &mut self,
        calls: &[Encode<'_, T>],
        form: Form,
        grid: u32,
        schedule: &Schedule,
    ) -> Result<Vec<Left<u8>>, Fault> {
        self.memory.truncate(self.kept);
        let mut chunks = 0;
        let mut results = Vec::new();
        let mut fields = Vec::new();
        for c in calls {
            let field = self.memory.buffer("field", size_of_val(c.field), c.align.0, Access::Read);
            self.memory.write(field, 0, &T::bytes(c.field));
            let stream = self.memory.buffer("stream", c.capacity, c.align.1, Access::ReadWrite);
            let outcome = self.outcome_buffer(c.outcome);
            results.push((outcome, stream));
            let mut f = [0u8; 64];
            let words = [
                field.address(),
                stream.address(),
                c.field.len() as u64,
                c.capacity as u64,
                outcome.map_or(0, |o| o.address()),
                T::inverse(c.bound).to_bits(),
            ];
            for (to, w) in f.chunks_exact_mut(8).zip(words) {
                to.copy_from_slice(&w.to_le_bytes());
            }
            f[48..52].copy_from_slice(&c.bound.get().to_le_bytes());
            f[52..56].copy_from_slice(&u32::from(c.wide).to_le_bytes());
            f[56..60].copy_from_slice(&(chunks as u32).to_le_bytes());
            fields.push(f);
            chunks += c.field.len().div_ceil(T::CODES);
        }
        self.launch::<T>(true, form, Part { fields: &fields, chunks: chunks as u32 }, grid, schedule)?;
        Ok(results.into_iter().map(|(outcome, stream)| (self.outcome(outcome), self.memory.bytes(stream).to_vec())).collect())
    }

    /// Decodes (ranges of) streams in one launch of `grid` blocks (`Form::Small`: one a chunk): each outcome, and the values.
    pub fn decode<T: Value>(&mut self, calls: &[Decode<'_>], form: Form, grid: u32, schedule: &Schedule) -> Result<Vec<Left<T>>, Fault> {
        self.memory.truncate(self.kept);
        let mut chunks = 0;
        let mut results = Vec::new();
        let mut fields = Vec::new();
        for c in calls {
            let stream = self.memory.buffer("stream", c.stream.len(), c.align.1, Access::Read);
            self.memory.write(stream, 0, c.stream);
            let field = self.memory.buffer("field", c.count as usize * size_of::<T>(), c.align.0, Access::ReadWrite);
            let outcome = self.outcome_buffer(c.outcome);
            results.push((outcome, field));
            let mut f = [0u8; 64];
            let words =
                [field.address(), stream.address(), c.n, c.stream.len() as u64, outcome.map_or(0, |o| o.address()), c.first, c.count];
            for (to, w) in f.chunks_exact_mut(8).zip(words) {
                to.copy_from_slice(&w.to_le_bytes());
            }
            f[56..60].copy_from_slice(&(chunks as u32).to_le_bytes());
            fields.push(f);
            let codes = T::CODES as u64;
            chunks += if c.count == 0 { 0 } else { (c.first + c.count - 1) / codes - c.first / codes + 1 };
        }
        self.launch::<T>(false, form, Part { fields: &fields, chunks: chunks as u32 }, grid, schedule)?;
        Ok(results.into_iter().map(|(outcome, field)| (self.outcome(outcome), T::values(self.memory.bytes(field)))).collect())
    }

    /// Decodes them so, and with CUDA each in a launch of its own, too.
    pub fn decode_all<'c, 's, T: Value>(
        &mut self,
        calls: &'c [Decode<'s>],
        form: Form,
        grid: u32,
        schedule: &Schedule,
    ) -> Result<Vec<(&'c Decode<'s>, Left<T>)>, Fault> {
        let mut left: Vec<_> = calls.iter().zip(self.decode(calls, form, grid, schedule)?).collect();
        for call in if self.target == Target::Cuda { calls } else { &[] } {
            left.extend(self.decode(std::slice::from_ref(call), Form::Small, 1, schedule)?.into_iter().map(|result| (call, result)));
        }
        Ok(left)
    }

    /// Sets the count of launches that the encoders' words are told apart by.
    pub fn set_epoch(&mut self, epoch: u64) {
        match self.target {
            Target::Cuda => self.memory.write(self.state, 0, &(epoch << 32).to_le_bytes()),
            Target::Amd => self.memory.write(self.state, 256, &epoch.to_le_bytes()),
        }
    }

    /// Sets that count, and makes every chunk word that of an earlier launch, or a cleared one.
    pub fn age(&mut self, epoch: u64, mut earlier: impl FnMut(usize) -> Option<u64>) {
        self.set_epoch(epoch);
        let words = CONTROL + 16 * self.fields;
        for i in 0..self.chunks {
            match self.target {
                Target::Cuda => self.memory.write(
                    self.state,
                    words + 4 * i,
                    &earlier(i).map_or(0, |e| (e as u32).wrapping_add(1) << 15 | 77).to_le_bytes(),
                ),
                Target::Amd => self.memory.write(self.state, words + 8 * i, &earlier(i).map_or(0, |e| e << 15 | 77).to_le_bytes()),
            }
        }
    }
}

/// A schedule of every kind, by seed.
pub fn schedule(seed: u64) -> Schedule {
    let mut rng = fastrand::Rng::with_seed(seed);
    Schedule {
        seed,
        dispatch: [Dispatch::Forward, Dispatch::Reversed, Dispatch::Random][(seed % 3) as usize],
        residency: [1, 2, 3, 8, 16][rng.usize(..5)],
        quantum: [1, 8, 100, 1000][rng.usize(..4)],
        // kernels read a word or two behind what they need, and shift or mask them off
        strict: false,
        ..Schedule::default()
    }
}
