//! Any values at any bound: the scalar model's stream on every instruction set, and back within the bound or bit for bit.
//!
//! The input is a bound, a byte of choices, and the values.
#![no_main]

mod common;

use common::{codecs, model, model::Value};
use libfuzzer_sys::fuzz_target;
use pfpl_host::Bound;

fn round_trip<T: Value + Into<f64>>(bound: Bound, wide: bool, repeat: usize, bytes: &[u8]) {
    let values = bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>);
    let field: Vec<T> = values.flat_map(|value| std::iter::repeat_n(value, repeat)).take(5 * T::CODES).collect();
    let expected = model::compress(&field, bound.get(), wide);
    for mut codec in codecs() {
        codec.wide = wide;
        let mut stream = vec![0; expected.len()];
        assert_eq!(codec.compress_into(&field, bound, &mut stream), Ok(expected.len()));
        assert!(stream == expected);
        let mut back = vec![T::of_bits(0); field.len()];
        assert_eq!(codec.decompress(&stream, &mut back), Ok(stream.len()));
        for (&x, &y) in field.iter().zip(&back) {
            assert!(x.bits() == y.bits() || model::within(x.into(), y.into(), bound.get()), "{x:?} {y:?}");
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((head, bytes)) = input.split_first_chunk::<5>() else { return };
    let [bound @ .., choices] = head;
    let Ok(bound) = Bound::new(f32::from_le_bytes(*bound).into()) else { return };
    let repeat = [1, 1, 3, 60][usize::from(choices >> 2 & 3)];
    let wide = choices & 2 != 0;
    if choices & 1 == 0 { round_trip::<f32>(bound, wide, repeat, bytes) } else { round_trip::<f64>(bound, wide, repeat, bytes) }
});
