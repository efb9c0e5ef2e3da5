//! Fields, and what is measured on each.
#![allow(dead_code)] // each bench takes a part of it

use std::cell::OnceCell;
use std::f64::consts::TAU;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{Bencher, Criterion, Throughput};
use pfpl_host::Bound;
use pfpl_host::internal::Codec;

#[path = "../../tests/model/mod.rs"]
pub mod model;
use model::Value;

/// Deterministic noise: standard normal, by Box and Muller.
fn normal(i: u64) -> f64 {
    let uniform = |i: u64| {
        let z = (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ i >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    };
    (-2.0 * (1.0 - uniform(2 * i)).ln()).sqrt() * (TAU * uniform(2 * i + 1)).cos()
}

fn smooth(i: usize) -> f64 {
    0.5 * (TAU * i as f64 / 4096.0).sin() + 0.25 * (TAU * i as f64 / 65536.0).cos()
}

/// A field of `bytes`, made when a benchmark first asks for it, with its bounds.
pub struct Field<T> {
    name: String,
    bounds: Vec<f64>,
    bytes: usize,
    make: Box<dyn Fn(usize) -> Vec<T>>,
    made: OnceCell<Vec<T>>,
}

impl<T: Value> Field<T> {
    fn new(name: &str, bounds: &[f64], bytes: usize, make: impl Fn(usize) -> Vec<T> + 'static) -> Self {
        Self { name: name.to_owned(), bounds: bounds.to_vec(), bytes, make: Box::new(make), made: OnceCell::new() }
    }

    pub fn values(&self) -> &[T] {
        self.made.get_or_init(|| (self.make)(self.bytes / size_of::<T>()))
    }
}

const LARGE: usize = 64 << 20;

pub fn fields<T: Value>(of_f64: fn(f64) -> T) -> Vec<Field<T>> {
    let double = T::WIDTH == 64;
    let noisy = move |n| (0..n).map(|i| of_f64(smooth(i) + 0.01 * normal(i as u64))).collect();
    let quiet = move |n| (0..n).map(|i| of_f64(smooth(i))).collect();
    let bits =
        |n: usize| (0..n as u64).map(|i| T::of_bits((i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ normal(i).to_bits() << 12)).collect();
    let mut fields = vec![
        Field::new("A", if double { &[1e-9, 1e-4] } else { &[1e-4, 1e-6, 1e-2] }, LARGE, noisy),
        Field::new("B", if double { &[1e-9] } else { &[1e-4, 1e-2] }, LARGE, quiet),
        Field::new("random bits", &[1e-3], LARGE, bits),
    ];
    for bytes in [16 << 10, 128 << 10, 1 << 20, 256 << 20] {
        fields.push(Field::new("A", if double { &[1e-9] } else { &[1e-4] }, bytes, noisy));
    }
    // real ones: the repository's, and more where they are
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = std::env::var_os("PFPL_SHARED").map_or_else(|| root.join("../../shared"), Into::into).join("data/fields");
    let real = [
        ("coads_wind_nan_90x180.f32", 0.0393),
        ("icon_log10_sic_inf_20480.f32", 0.00479),
        ("etopo120_rose_90x180.f32", 0.119),
        ("space_weather_ne_8x31x31.f64", 8.05e-5),
        ("coads_wind_nan_2x12x90x180.f32", 0.0393),
        ("coads_sst_12x90x180.f32", 0.0358),
        ("echam_t_17x96x192.f32", 0.132),
        ("echam_t_17x96x192.f32", 0.00132),
        ("pop_urot_384x320.f32", 0.222),
        ("sao_psl_2196x24.f32", 0.11),
        ("obspy_karc_corrected_86399.f64", 1.22e-8),
        ("eofs_sst_nan_15x11x18.f64", 3.38e-5),
    ];
    for (name, bound) in real.into_iter().filter(|(name, _)| name.ends_with(".f64") == double) {
        let Some(file) = [root.join("../tests/data"), shared.clone()].into_iter().map(|at| at.join(name)).find(|file| file.exists()) else {
            continue;
        };
        let bytes = file.metadata().expect("a file").len() as usize;
        let read = move |_| std::fs::read(&file).expect("a file").chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect();
        fields.push(Field::new(name, &[bound], bytes, read));
    }
    fields
}

/// Who codes: the scalar model, an instruction set on one thread, or the best one on all.
pub struct Coder {
    pub name: String,
    /// `None` is the model.
    pub codec: Option<Codec>,
    all_threads: bool,
}

impl Coder {
    fn all() -> Vec<Self> {
        let coder = |name: String, codec, all_threads| Self { name, codec, all_threads };
        let mut coders = vec![coder("model".to_owned(), None, false)];
        coders.extend(Codec::each().map(|codec| coder(format!("{:?}", codec.isa).to_lowercase(), Some(codec), false)));
        if cfg!(feature = "rayon") {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            coders.push(coder(format!("all {threads} threads"), Some(Codec::default()), true));
        }
        coders
    }

    /// Runs `job` where it finds this coder's threads.
    pub fn run(&self, job: impl FnOnce() + Send) {
        #[cfg(feature = "rayon")]
        if self.all_threads {
            return rayon::ThreadPoolBuilder::new().build().expect("threads").install(job);
        }
        job();
    }
}

/// Bytes of a field that the model is given: its speed does not depend on how many.
const MODEL_BYTES: usize = 128 << 10;

/// One group for each field and bound: memcpy, and `bench` for each coder and the values it is given.
pub fn groups<T: Value>(
    criterion: &mut Criterion,
    what: &str,
    of_f64: fn(f64) -> T,
    bench: impl Fn(&mut Bencher<'_>, &Coder, &[T], Bound),
) {
    for field in fields(of_f64) {
        for &bound in &field.bounds {
            let size = if field.bytes >= 1 << 20 { format!("{} MiB", field.bytes >> 20) } else { format!("{} KiB", field.bytes >> 10) };
            let mut group = criterion.benchmark_group(format!("{what}/{}/{} {bound:e}/{size}", T::TYPE, field.name));
            group.sample_size(15).warm_up_time(Duration::from_millis(200));
            group.measurement_time(Duration::from_millis(if field.bytes < LARGE { 500 } else { 1500 }));
            group.throughput(Throughput::Bytes(field.bytes as u64));
            group.bench_function("memcpy", |bencher| {
                let mut copy = vec![T::of_bits(1); field.values().len()];
                bencher.iter(|| black_box(&mut copy).copy_from_slice(black_box(field.values())));
            });
            for coder in Coder::all() {
                let bytes = if coder.codec.is_none() { field.bytes.min(MODEL_BYTES) } else { field.bytes };
                group.throughput(Throughput::Bytes(bytes as u64));
                group.bench_function(&coder.name, |bencher| {
                    bench(bencher, &coder, &field.values()[..bytes / size_of::<T>()], Bound::new(bound).expect("a bound"));
                });
            }
            group.finish();
        }
    }
}
