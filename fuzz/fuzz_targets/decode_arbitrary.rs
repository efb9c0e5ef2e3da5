//! Any bytes as a stream: refused or decoded as the scalar model does, alike on every instruction set.
#![no_main]

mod common;

use common::{check, model::Value};
use libfuzzer_sys::fuzz_target;
use pfpl_host::{ElementType, Header, decompress_range};

fn decode<T: Value>(stream: &[u8], n: u64) {
    check::<T>(stream, n);
    let mut values = [T::of_bits(0); 100];
    let _ = decompress_range(stream, n / 3, &mut values[..n.min(100) as usize]);
}

fuzz_target!(|stream: &[u8]| {
    // as long as the header says where that is no longer than a few chunks, else of another length
    let header = Header::read(stream);
    let n = header.as_ref().map_or(5, |header| header.n);
    let n = if n <= 5 * 4096 { n } else { n % 4096 };
    match header.map(|header| header.element) {
        Ok(ElementType::F64) => decode::<f64>(stream, n),
        _ => decode::<f32>(stream, n),
    }
});
