//! Compiles the kernel sources for the executor.  Without a C++ compiler the crate still builds, and its tests say what is missing.
#[path = "src/compile.rs"]
mod compile;

use compile::{RECIPES, Unit};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

fn main() {
    let crate_folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let root = crate_folder.parent().expect("the workspace").to_owned();
    let tool = cc::Build::new().cpp(true).get_compiler();
    let cxx: Vec<OsString> = vec![tool.path().into()];
    for folder in ["kernels_shared", "kernels_cuda", "kernels_amd", "lane_executor/cxx", "lane_executor/tests/kernels"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    println!("cargo::rerun-if-changed=src/compile.rs");
    println!("cargo::rustc-env=LANES_CXX={}", tool.path().display());
    println!("cargo::rustc-env=LANES_OBJECTS={}", out.display());
    for recipe in RECIPES {
        let (name, original, copied) = (recipe.name, root.join(recipe.kernels), out.join(recipe.name));
        let kernels = if recipe.change.is_some() { &copied } else { &original };
        let includes = [root.join("kernels_shared"), kernels.clone()];
        let object = &out.join(format!("{name}.so"));
        let unit = Unit { source: &crate_folder.join(recipe.source), includes: &includes, width: recipe.width, options: &[], object };
        let _ = std::fs::remove_file(object);
        let ready = if recipe.change.is_some() { recipe.copy(&original, &copied) } else { Ok(()) };
        let message = ready.and_then(|()| compile::compile(&cxx, &crate_folder.join("cxx"), &unit)).err().unwrap_or_default();
        for line in message.lines() {
            println!("cargo::warning={line}");
        }
        std::fs::write(out.join(format!("{name}.error")), message).expect("OUT_DIR is writable");
    }
}
