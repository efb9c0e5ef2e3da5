//! `cargo bench -p pfpl-host --bench host_encode -- FILTER`: bytes of the field a second. A benchmark is named
//! `encode/TYPE/FIELD BOUND/SIZE/CODER`; coders are memcpy, the scalar model (on 128 KiB), each instruction set on one thread, and the
//! best one on all threads.
#![allow(missing_docs)] // criterion's macros make a public function

mod common;

use common::model::{self, Value};
use criterion::{Criterion, criterion_group, criterion_main};
use pfpl_host::max_stream_bytes;

fn encode<T: Value>(criterion: &mut Criterion, of_f64: fn(f64) -> T) {
    common::groups(criterion, "encode", of_f64, |bencher, coder, values, bound| {
        let mut stream = vec![1; max_stream_bytes::<T>(values.len() as u64) as usize + 20_000];
        coder.run(|| match coder.codec {
            None => bencher.iter(|| model::compress(values, bound.get(), false)),
            Some(codec) => bencher.iter(|| codec.compress_into(values, bound, &mut stream).expect("room")),
        });
    });
}

fn both(criterion: &mut Criterion) {
    encode::<f32>(criterion, |x| x as f32);
    encode::<f64>(criterion, |x| x);
}

criterion_group!(benches, both);
criterion_main!(benches);
