//! The AMD kernels, lane by lane, with waves of 64 lanes.

mod suite;

const IMAGE: &str = "amd64";

suite!();

#[test]
fn seven_barriers_a_chunk() {
    suite::barriers::<f32>(IMAGE, 7);
    suite::barriers::<f64>(IMAGE, 7);
}
