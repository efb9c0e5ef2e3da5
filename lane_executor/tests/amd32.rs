//! The AMD kernels, lane by lane, with waves of 32 lanes.

mod suite;

const IMAGE: &str = "amd32";

suite!();

#[test]
fn seven_barriers_a_chunk() {
    suite::barriers::<f32>(IMAGE, 7);
    suite::barriers::<f64>(IMAGE, 7);
}
