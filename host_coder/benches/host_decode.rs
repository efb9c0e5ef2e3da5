//! `cargo bench -p pfpl-host --bench host_decode -- FILTER`: bytes of the field a second. A benchmark is named
//! `decode/TYPE/FIELD BOUND/SIZE/CODER`; coders are memcpy, the scalar model (on 128 KiB), each instruction set on one thread, and the
//! best one on all threads.
#![allow(missing_docs)] // criterion's macros make a public function

mod common;

use common::model::{self, Value};
use criterion::{Criterion, criterion_group, criterion_main};
use pfpl_host::compress;

fn decode<T: Value>(criterion: &mut Criterion, of_f64: fn(f64) -> T) {
    common::groups(criterion, "decode", of_f64, |bencher, coder, values, bound| {
        let stream = compress(values, bound);
        // not 0: its pages would only be mapped when first written, within the measured time
        let mut decoded = vec![T::of_bits(1); values.len()];
        coder.run(|| match coder.codec {
            None => bencher.iter(|| model::decompress::<T>(&stream, values.len() as u64)),
            Some(codec) => bencher.iter(|| codec.decompress(&stream, &mut decoded).expect("its own stream")),
        });
    });
}

fn both(criterion: &mut Criterion) {
    decode::<f32>(criterion, |x| x as f32);
    decode::<f64>(criterion, |x| x);
}

criterion_group!(benches, both);
criterion_main!(benches);
