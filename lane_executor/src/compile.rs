//! Kernel sources to a shared object that [`Image::load`](crate::Image::load) opens.  Also part of the build script.
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An image that the build script makes.
pub struct Recipe {
    /// Its name.
    pub name: &'static str,
    /// The C++ source, in this crate.
    pub source: &'static str,
    /// The folder of its kernels.
    pub kernels: &'static str,
    /// Lanes of a warp.
    pub width: u32,
    /// A change to the kernels: file, old text, new text.
    pub change: Option<[&'static str; 3]>,
}

const fn recipe(name: &'static str, source: &'static str, kernels: &'static str, width: u32) -> Recipe {
    Recipe { name, source, kernels, width, change: None }
}

/// All of them.
pub const RECIPES: &[Recipe] = &[
    recipe("detector32", "tests/kernels/detector.cpp", "kernels_shared", 32),
    recipe("detector64", "tests/kernels/detector.cpp", "kernels_shared", 64),
    recipe("cuda", "cxx/cuda.cpp", "kernels_cuda", 32),
    recipe("amd64", "cxx/amd.cpp", "kernels_amd", 64),
    recipe("amd32", "cxx/amd.cpp", "kernels_amd", 32),
    // looks at few sizes at a time: else it takes hundreds of resident blocks to look twice
    Recipe { change: Some(["encode.h", "COVER = LOADS * T;", "COVER = 3;"]), ..recipe("cuda_look", "cxx/cuda.cpp", "kernels_cuda", 32) },
];

impl Recipe {
    /// Copies the kernels from the folder `from` to `to`, with the change applied.
    pub fn copy(&self, from: &Path, to: &Path) -> Result<(), String> {
        copy_sources(from, to)?;
        let fail = |e: std::io::Error| format!("{}: {e}", to.display());
        let Some([file, old, new]) = self.change else { return Ok(()) };
        let source = std::fs::read_to_string(to.join(file)).map_err(fail)?;
        if source.matches(old).count() != 1 {
            return Err(format!("{file} should contain `{old}` once"));
        }
        std::fs::write(to.join(file), source.replace(old, new)).map_err(fail)
    }
}

/// Copies the files of the folder `from` to `to`.
pub fn copy_sources(from: &Path, to: &Path) -> Result<(), String> {
    let fail = |e: std::io::Error| format!("{}: {e}", to.display());
    std::fs::create_dir_all(to).map_err(fail)?;
    for entry in std::fs::read_dir(from).map_err(fail)?.flatten().filter(|e| e.path().is_file()) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).map_err(fail)?;
    }
    Ok(())
}

/// One shared object: a source that includes the kernels, and how to compile it.
pub struct Unit<'a> {
    /// The C++ source.
    pub source: &'a Path,
    /// Folders of `#include`s, after the source's own.
    pub includes: &'a [PathBuf],
    /// Lanes of a warp: 32 or 64.
    pub width: u32,
    /// More arguments of the compiler.
    pub options: &'a [&'a str],
    /// Where the object goes.
    pub object: &'a Path,
}

/// Compiles `unit` with the C++ compiler `cxx` (a program and its first arguments); `cxx_folder` holds executor.h and shim.cpp.
///
/// Instrumentation alone is wanted, not the sanitizer's library, so compiling and linking are separate commands.
pub fn compile(cxx: &[OsString], cxx_folder: &Path, unit: &Unit<'_>) -> Result<(), String> {
    let run = |arguments: &dyn Fn(&mut Command)| {
        let (program, first) = cxx.split_first().expect("a compiler has a name");
        let mut command = Command::new(program);
        command.args(first);
        arguments(&mut command);
        let output = command
            .output()
            .map_err(|e| format!("no C++ compiler: {}: {e}; install g++ or clang++, or set CXX", program.to_string_lossy()))?;
        if output.status.success() { Ok(()) } else { Err(format!("{command:?}\n{}", String::from_utf8_lossy(&output.stderr))) }
    };
    let kernel = unit.object.with_extension("kernel.o");
    let shim = unit.object.with_extension("shim.o");
    let compile = |source: &Path, object: &Path, sanitize: bool| {
        run(&|command: &mut Command| {
            command.args([
                "-std=c++17",
                "-O2",
                "-g1",
                "-fPIC",
                "-fvisibility=hidden",
                "-ffp-contract=off",
                "-fno-strict-aliasing",
                "-fno-exceptions",
                "-fno-rtti",
            ]);
            command.arg("-w");
            command.args(sanitize.then_some("-fsanitize=thread,alignment,bounds,shift-exponent"));
            command.arg(format!("-DLANES_WIDTH={}", unit.width)).arg("-DPFPL_LANES").args(unit.options).arg("-I").arg(cxx_folder);
            for folder in unit.includes {
                command.arg("-I").arg(folder);
            }
            command.arg("-c").arg("-o").arg(object).arg(source);
        })
    };
    compile(unit.source, &kernel, true)?;
    compile(&cxx_folder.join("shim.cpp"), &shim, false)?;
    run(&|command: &mut Command| {
        command.args(["-shared", "-Wl,-Bsymbolic", "-Wl,--no-undefined", "-o"]).arg(unit.object).arg(&kernel).arg(&shim);
    })
}
