//! The code objects that the crate ships, and the source of the others.

use crate::device::Error;

/// The code object for this architecture.
pub fn shipped(architecture: &str) -> Option<&'static [u8]> {
    Some(match architecture {
        "gfx90a" => include_bytes!("../../kernels_amd/built/pfpl.gfx90a.co"),
        "gfx942" => include_bytes!("../../kernels_amd/built/pfpl.gfx942.co"),
        "gfx1100" => include_bytes!("../../kernels_amd/built/pfpl.gfx1100.co"),
        _ => return None,
    })
}

/// The kernels in one file without includes.
pub const SOURCE: &str = include_str!("../../kernels_amd/built/pfpl.hip");

/// The name in a properties structure, whatever its layout: its last zero-terminated text that looks like an architecture's. (The
/// device's own name, which might, comes first.)
pub fn architecture(properties: &[u8]) -> Result<String, Error> {
    let texts = properties.split(|&byte| byte == 0).rev().filter_map(|text| std::str::from_utf8(text).ok());
    let mut names = texts.map(|text| text.split(':').next().expect("there is a first part"));
    let is_name = |name: &&str| {
        let number = name.strip_prefix("gfx");
        number.is_some_and(|number| (3..=5).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let name = names.find(is_name).map(str::to_owned);
    name.ok_or_else(|| Error::Unsupported { reason: "the device does not say its architecture".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures() {
        let mut properties = vec![0u8; 4096];
        properties[..12].copy_from_slice(b"AMD Radeon R");
        properties[300] = 0xff;
        assert!(architecture(&properties).is_err());
        properties[1160..1182].copy_from_slice(b"gfx90a:sramecc+:xnack-");
        assert_eq!(architecture(&properties).unwrap(), "gfx90a");
        properties[..12].copy_from_slice(b"gfx1036\0\0\0\0\0");
        properties[1160..1182].copy_from_slice(b"gfx1100\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(architecture(&properties).unwrap(), "gfx1100");
    }

    #[test]
    fn objects() {
        for name in ["gfx90a", "gfx942", "gfx1100"] {
            let object = shipped(name).unwrap();
            assert!(object.starts_with(b"\x7fELF"));
            for kernel in ["encode_f32", "encode_f64", "decode_f32", "decode_f64"].map(|kernel| format!("pfpl_{kernel}.kd")) {
                assert!(object.windows(kernel.len()).any(|bytes| bytes == kernel.as_bytes()), "{name} {kernel}");
                assert!(SOURCE.contains(kernel.trim_end_matches(".kd")));
            }
        }
        assert!(shipped("gfx906").is_none());
        assert!(!SOURCE.contains("#include"));
        assert!(SOURCE.contains(&format!("MAX_FIELDS = {};", crate::hip::LIST_FIELDS)));
        assert!(SOURCE.contains(&format!("THREADS = {},", crate::hip::ENTRY_POINTS[0].threads)));
    }
}
