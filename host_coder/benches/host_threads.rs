//! `cargo bench -p pfpl-host --bench host_threads [-- ROUNDS]`: what threads gain, by the median of interleaved runs: in each round
//! memcpy, encode and decode of 64 MiB run once on every number of threads.
#![allow(missing_docs)]

mod common;

#[cfg(feature = "rayon")]
fn main() {
    use common::model::Value;
    use pfpl_host::{Bound, compress, compress_into, decompress, max_stream_bytes};
    use rayon::prelude::*;
    use std::time::Instant;

    fn measure<T: Value>(name: &str, bound: f64, rounds: usize, of_f64: fn(f64) -> T) {
        let fields = common::fields(of_f64);
        let field = fields[0].values();
        let bound = Bound::new(bound).expect("a bound");
        let coded = compress(field, bound);
        let mut stream = vec![1; max_stream_bytes::<T>(field.len() as u64) as usize + 20_000];
        let mut values = vec![T::of_bits(1); field.len()];
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        let pools: Vec<_> = (0..).map(|i| 1 << i).take_while(|&threads| threads < all).chain([all]).collect();
        let pools: Vec<_> =
            pools.into_iter().map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads")).collect();
        let mut seconds = vec![[const { Vec::new() }; 3]; pools.len()];
        for round in 0..=rounds {
            for (pool, seconds) in pools.iter().zip(&mut seconds) {
                let mut time = |what: usize, job: &mut (dyn FnMut() + Send)| {
                    let start = Instant::now();
                    pool.install(job);
                    // the first round only warms up
                    if round > 0 {
                        seconds[what].push(start.elapsed().as_secs_f64());
                    }
                };
                time(0, &mut || {
                    values.par_chunks_mut(1 << 16).zip(field.par_chunks(1 << 16)).for_each(|(to, from)| to.copy_from_slice(from))
                });
                time(1, &mut || assert!(compress_into(field, bound, &mut stream).is_ok()));
                time(2, &mut || assert!(decompress(&coded, &mut values).is_ok()));
            }
        }
        let speed = |seconds: &mut Vec<f64>| {
            seconds.sort_by(f64::total_cmp);
            size_of_val(field) as f64 / seconds[seconds.len() / 2] / 1e9
        };
        let mut one = [0.0; 3];
        for (pool, seconds) in pools.iter().zip(&mut seconds) {
            let speeds = [0, 1, 2].map(|what| speed(&mut seconds[what]));
            let threads = pool.current_num_threads();
            if threads == 1 {
                one = speeds;
            }
            let cells: Vec<_> = speeds.iter().zip(one).map(|(speed, one)| format!("{speed:.2} ({:.2} ×)", speed / one)).collect();
            println!("| {name} | {threads} | {} |", cells.join(" | "));
        }
    }

    let rounds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(15);
    println!("| field | threads | memcpy GB/s | encode GB/s | decode GB/s |\n|---|---|---|---|---|");
    measure::<f32>("A 1e-4, f32, 64 MiB", 1e-4, rounds, |x| x as f32);
    measure::<f64>("A 1e-9, f64, 64 MiB", 1e-9, rounds, |x| x);
}

#[cfg(not(feature = "rayon"))]
fn main() {}
