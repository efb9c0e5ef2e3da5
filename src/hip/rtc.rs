//! Compiling the kernels for an architecture that the crate has no code object for.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use crate::device::driver::load_library;
use crate::device::{Error, driver_table};

use super::{error_text, library_names, object};

driver_table! {
    /// The run-time compiler: a library of its own, or part of an older runtime's.
    Rtc;
    create: "hiprtcCreateProgram"(
        program: *mut *mut c_void,
        source: *const c_char,
        name: *const c_char,
        headers: c_int,
        texts: *const *const c_char,
        names: *const *const c_char
    );
    compile: "hiprtcCompileProgram"(program: *mut c_void, count: c_int, options: *const *const c_char);
    log_bytes: "hiprtcGetProgramLogSize"(program: *mut c_void, bytes: *mut usize);
    log: "hiprtcGetProgramLog"(program: *mut c_void, text: *mut c_char);
    code_bytes: "hiprtcGetCodeSize"(program: *mut c_void, bytes: *mut usize);
    code: "hiprtcGetCode"(program: *mut c_void, code: *mut c_char);
    destroy: "hiprtcDestroyProgram"(program: *mut *mut c_void);
}

/// What `kernels_amd/build.py` compiles with too.
fn options(architecture: &str, wave: i32) -> Vec<String> {
    let mut options = vec![format!("--offload-arch={architecture}"), format!("-DPFPL_WAVE={wave}")];
    options.extend(["-std=c++17", "-O3", "-ffp-contract=off"].map(str::to_owned));
    if !architecture.starts_with("gfx9") {
        let width = if wave == 64 { "-mwavefrontsize64" } else { "-mno-wavefrontsize64" };
        options.extend(["-mcumode", width].map(str::to_owned));
    }
    options
}

impl Rtc {
    fn message(&self, code: u32) -> String {
        error_text(&self.library, "hiprtcGetErrorString", code)
    }

    fn compile_source(&self, options: &[CString]) -> Result<Vec<u8>, Error> {
        let source = CString::new(object::SOURCE).expect("the source has no zero byte");
        let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = null_mut();
        // SAFETY: the texts outlive the calls, and buffers are as long as the compiler says
        unsafe {
            self.create(&raw mut program, source.as_ptr(), c"pfpl.hip".as_ptr(), 0, null(), null())?;
            let compiled = self.compile(program, options.len() as c_int, options.as_ptr());
            let result = compiled.map_err(|error| self.with_log(program, &error)).and_then(|()| {
                let mut bytes = 0;
                self.code_bytes(program, &raw mut bytes)?;
                let mut code = vec![0u8; bytes];
                self.code(program, code.as_mut_ptr().cast()).map(|()| code)
            });
            drop(self.destroy(&raw mut program));
            result
        }
    }

    /// The error and what the compiler says.
    ///
    /// # Safety
    /// The program is alive.
    unsafe fn with_log(&self, program: *mut c_void, error: &Error) -> Error {
        let mut bytes = 0;
        // SAFETY: the buffer is as long as the compiler says
        let log = unsafe {
            self.log_bytes(program, &raw mut bytes).and_then(|()| {
                let mut log = vec![0u8; bytes];
                self.log(program, log.as_mut_ptr().cast()).map(|()| log)
            })
        };
        let log = log.unwrap_or_default();
        Error::Unsupported { reason: format!("{error}: {}", String::from_utf8_lossy(&log).trim_end_matches(['\0', '\n'])) }
    }
}

/// The code object for this architecture and wave width.
///
/// # Errors
/// Where there is no compiler or it fails, with the architectures that need none.
pub fn compile(architecture: &str, wave: i32) -> Result<Vec<u8>, Error> {
    let failed = |error: Error| Error::Unsupported {
        reason: format!(
            "the crate has kernels for gfx90a, gfx942 and gfx1100; compiling them for {architecture}, wave width {wave}, failed: {error}"
        ),
    };
    if ![32, 64].contains(&wave) {
        return Err(failed(Error::Unsupported { reason: "no such wave width".to_owned() }));
    }
    let names = [library_names("libhiprtc"), library_names("libamdhip64")].concat();
    let options: Vec<_> = options(architecture, wave).into_iter().map(|option| CString::new(option).expect("no zero byte")).collect();
    // SAFETY: the compiler's functions have the types of its manual
    let rtc = load_library(&names).and_then(|library| unsafe { Rtc::of(library) });
    rtc.and_then(|rtc| rtc.compile_source(&options)).map_err(failed)
}

#[cfg(test)]
mod tests {
    #[test]
    fn options_are_the_build_scripts() {
        let script = include_str!("../../kernels_amd/build.py");
        assert!(script.contains(r#"OPTIONS = ["-std=c++17", "-O3", "-ffp-contract=off"]"#));
        assert!(script.contains(r#"["-mcumode", "-mwavefrontsize64" if wave == 64 else "-mno-wavefrontsize64"]"#));
        let all = |architecture, wave| super::options(architecture, wave).join(" ");
        assert_eq!(all("gfx908", 64), "--offload-arch=gfx908 -DPFPL_WAVE=64 -std=c++17 -O3 -ffp-contract=off");
        assert!(
            all("gfx1030", 32).ends_with("-mcumode -mno-wavefrontsize64") && all("gfx1200", 64).ends_with("-mcumode -mwavefrontsize64")
        );
    }
}
