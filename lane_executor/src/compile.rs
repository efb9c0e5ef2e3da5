//! Kernel sources to a shared object that [`Image::load`](crate::Image::load) opens.  Also part of the build script.
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The images that the build script makes: name, source, folder of kernels, lanes of a warp.
pub const UNITS: &[(&str, &str, &str, u32)] = &[
    ("detector32", "tests/kernels/detector.cpp", "kernels_shared", 32),
    ("detector64", "tests/kernels/detector.cpp", "kernels_shared", 64),
    ("cuda", "cxx/cuda.cpp", "kernels_cuda", 32),
    ("amd64", "cxx/amd.cpp", "kernels_amd", 64),
    ("amd32", "cxx/amd.cpp", "kernels_amd", 32),
];

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
