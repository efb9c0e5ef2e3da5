//! A driver that only logs, built from C and loaded under the name that the runtime looks for.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use libloading::Library;

/// The driver, in no other test's use.
pub struct Fake {
    library: &'static Library,
    _alone: MutexGuard<'static, ()>,
}

fn build(source: &str, name: &str) -> Library {
    let folder = std::env::temp_dir().join(format!("pfpl-fake-driver-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let library = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_driver").join(source);
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-shared", "-fPIC", "-w", "-o"]).arg(&library).arg(source).arg(format!("-Wl,-soname,{name}"));
    assert!(compiler.status().expect("a C compiler").success());
    // SAFETY: it has no initializers. The runtime's search by name then finds this one, for it is loaded already.
    let loaded = unsafe { Library::new(&library) }.unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    loaded
}

impl Fake {
    /// The one driver of this test program, its log empty.
    pub fn take(source: &str, name: &str) -> Self {
        static USE: Mutex<()> = Mutex::new(());
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        let alone = USE.lock().unwrap_or_else(PoisonError::into_inner);
        let fake = Self { library: LIBRARY.get_or_init(|| build(source, name)), _alone: alone };
        fake.log();
        fake
    }

    fn variable<T>(&self, name: &str) -> *mut T {
        // SAFETY: callers name variables of the driver with their types
        unsafe { *self.library.get::<*mut T>(name).unwrap() }
    }

    /// Sets a variable of the driver.
    pub fn set<T>(&self, name: &str, value: T) {
        // SAFETY: as above; this test has the driver to itself
        unsafe { *self.variable(name) = value }
    }

    /// A variable of the driver.
    pub fn get<T: Copy>(&self, name: &str) -> T {
        // SAFETY: as in set
        unsafe { *self.variable(name) }
    }

    /// The double word at this byte of a variable.
    pub fn word(&self, name: &str, at: usize) -> u64 {
        // SAFETY: callers stay within the variable
        unsafe { self.variable::<u8>(name).add(at).cast::<u64>().read_unaligned() }
    }

    /// The calls since the last time.
    pub fn log(&self) -> Vec<String> {
        // SAFETY: functions of the driver with these types
        unsafe {
            let log = self.library.get::<unsafe extern "C" fn() -> *const c_char>("fake_log").unwrap();
            let lines = CStr::from_ptr(log()).to_str().unwrap().lines().map(str::to_owned).collect();
            self.library.get::<unsafe extern "C" fn()>("fake_clear").unwrap()();
            lines
        }
    }
}
