//! The kernel images that the crate ships, and what their entry points need.

use crate::device::{EntryPoint, Error};

/// Fields of a list that one launch takes: `LIST_FIELDS` of the kernels, whose parameters may be 32,764 bytes.
pub const LIST_FIELDS: usize = 511;

/// An image, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Image {
    /// Machine code for compute capability 9.0.
    Sm90,
    /// PTX for 8.0 and later.
    Sm80,
    /// PTX for 7.0 and later.
    Sm70,
}

impl Image {
    pub const ALL: [Self; 3] = [Self::Sm90, Self::Sm80, Self::Sm70];

    /// The device can load it.
    pub fn fits(self, capability: (i32, i32)) -> bool {
        match self {
            Self::Sm90 => capability == (9, 0),
            Self::Sm80 => capability >= (8, 0),
            Self::Sm70 => capability >= (7, 0),
        }
    }

    /// Its kernels begin by waiting for the stream's work before them (`griddepcontrol.wait`, which only 9.0 and later have).
    pub fn awaits(self) -> bool {
        self == Self::Sm90
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sm90 => "sm90",
            Self::Sm80 => "sm80",
            Self::Sm70 => "sm70",
        }
    }

    /// Its bytes and a zero byte.
    pub fn bytes(self) -> Vec<u8> {
        let image: &[u8] = match self {
            Self::Sm90 => include_bytes!("../../kernels_cuda/built/pfpl_sm90.cubin"),
            Self::Sm80 => include_bytes!("../../kernels_cuda/built/pfpl_sm80.ptx"),
            Self::Sm70 => include_bytes!("../../kernels_cuda/built/pfpl_sm70.ptx"),
        };
        [image, &[0]].concat()
    }
}

/// The image that the environment variable `PFPL_CUDA_FLAVOUR` (`sm70`, `sm80` or `sm90`) demands: for tests and diagnosis.
pub fn forced() -> Result<Option<Image>, Error> {
    let Some(name) = std::env::var_os("PFPL_CUDA_FLAVOUR") else { return Ok(None) };
    let image = Image::ALL.into_iter().find(|image| name.as_encoded_bytes() == image.name().as_bytes());
    image
        .map(Some)
        .ok_or_else(|| Error::Unsupported { reason: format!("PFPL_CUDA_FLAVOUR={} is none of sm70, sm80, sm90", name.display()) })
}

const fn entry(suffix: &'static str, fields: usize, threads: u32, shared_bytes: u32) -> EntryPoint {
    EntryPoint { suffix, fields, chunks: u32::MAX, threads, shared_bytes }
}

/// Chunks up to which the kernels for few chunks are the faster ones on an H200. The encoder takes no more; the decoders cross over at 6 to
/// 8 MiB.
const ENCODE_SMALL_CHUNKS: u32 = 512;
const DECODE_SMALL_CHUNKS: u32 = 384;

/// Encoders, as `kernels_cuda/pfpl.cu` describes them.
pub const ENCODERS: &[EntryPoint] = &[
    EntryPoint { chunks: ENCODE_SMALL_CHUNKS, ..entry("_small", 1, 256, 52_176) },
    entry("_1", 1, 128, 45_552),
    entry("_63", 63, 128, 45_552),
    entry("_511", LIST_FIELDS, 128, 45_552),
];

/// Decoders, likewise.
pub const DECODERS: &[EntryPoint] = &[
    EntryPoint { chunks: DECODE_SMALL_CHUNKS, ..entry("_small", 1, 256, 21_632) },
    entry("_1", 1, 128, 37_888),
    entry("_63", 63, 128, 37_888),
    entry("_511", LIST_FIELDS, 128, 37_888),
];

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = include_str!("../../kernels_cuda/pfpl.cu");

    /// What the source asserts to equal this.
    fn asserted(name: &str) -> u32 {
        let value = SOURCE.split_once(&format!("{name} == ")).unwrap_or_else(|| panic!("no assertion of {name}")).1;
        value[..value.find(|c: char| !c.is_ascii_digit()).unwrap()].parse().unwrap()
    }

    #[test]
    fn entry_points_are_as_the_source_says() {
        let shapes = [
            (&ENCODERS[..1], "(SMALL_THREADS", "sizeof(SmallShared<float>)", "sizeof(SmallShared<double>)"),
            (&ENCODERS[1..], "ENCODE_THREADS", "sizeof(Shared<float>)", "sizeof(Shared<double>)"),
            (&DECODERS[..1], "DECODE_SMALL_THREADS", "sizeof(DecodeSmallShared<float>)", "sizeof(DecodeSmallShared<double>)"),
            (&DECODERS[1..], "DECODE_THREADS", "sizeof(DecodeShared<float>)", "sizeof(DecodeShared<double>)"),
        ];
        for (entries, threads, shared_f32, shared_f64) in shapes {
            for entry in entries {
                assert_eq!((entry.threads, entry.shared_bytes), (asserted(threads), asserted(shared_f32)), "{}", entry.suffix);
                assert_eq!(entry.shared_bytes, asserted(shared_f64));
            }
        }
        let (_, most) = SOURCE.split_once("constexpr u32 ENCODE_SMALL_CHUNKS = ").unwrap();
        assert!(ENCODE_SMALL_CHUNKS <= most.split_once(';').unwrap().0.parse().unwrap());
    }

    #[test]
    fn images_have_all_entry_points() {
        for image in [Image::Sm80, Image::Sm70] {
            let text = String::from_utf8(image.bytes()).unwrap();
            for (direction, entries) in [("encode", ENCODERS), ("decode", DECODERS)] {
                for (element, EntryPoint { suffix, .. }) in
                    ["f32", "f64"].into_iter().flat_map(|e| entries.iter().map(move |entry| (e, entry)))
                {
                    assert!(
                        text.contains(&format!(".entry pfpl_{direction}_{element}{suffix}(")),
                        "{image:?} {direction} {element} {suffix}"
                    );
                }
            }
        }
    }

    #[test]
    fn devices() {
        let first = |capability| Image::ALL.into_iter().find(|image| image.fits(capability));
        assert_eq!([(6, 1), (7, 0), (7, 5)].map(first), [None, Some(Image::Sm70), Some(Image::Sm70)]);
        assert_eq!(
            [(8, 0), (8, 9), (9, 0), (10, 0)].map(first),
            [Some(Image::Sm80), Some(Image::Sm80), Some(Image::Sm90), Some(Image::Sm80)]
        );
    }
}
