//! Compiled kernel sources.

use crate::hooks::{HOOKS, Hooks};
use libloading::{Library, Symbol};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) type Kernel = unsafe extern "C" fn(*const u8);

/// A shared object of kernels.
pub struct Image {
    library: Library,
    path: PathBuf,
    /// Its addresses.
    pub(crate) extent: Range<usize>,
    width: u32,
    /// Its launches may begin early.
    pub(crate) early: bool,
}

impl Image {
    /// Loads a shared object made by [`compile`](crate::compile::compile).
    ///
    /// # Errors
    /// The dynamic linker's.
    pub fn load(path: &Path) -> Result<Image, String> {
        let fail = |e: libloading::Error| format!("{}: {e}", path.display());
        // SAFETY: the object is compiled from our sources; its static initialization calls nothing but the hooks' stubs.
        let library = unsafe { Library::new(path) }.map_err(fail)?;
        let mut range = [0usize; 2];
        // SAFETY: cxx/shim.cpp defines these functions with these types, and every object contains it.
        let width = unsafe {
            let bind: Symbol<'_, unsafe extern "C" fn(*const Hooks)> = library.get("lanes_bind").map_err(fail)?;
            let extent: Symbol<'_, unsafe extern "C" fn(*mut usize)> = library.get("lanes_extent").map_err(fail)?;
            let width: Symbol<'_, unsafe extern "C" fn() -> u32> = library.get("lanes_width").map_err(fail)?;
            bind(&HOOKS);
            extent(range.as_mut_ptr());
            width()
        };
        // SAFETY: cxx/executor.h defines it with this type
        let early = unsafe { library.get::<*const u32>("lanes_early") }.is_ok();
        Ok(Image { library, path: path.to_owned(), extent: range[0]..range[1], width, early })
    }

    /// Loads the image `name` that the build script compiled, or the file that the variable `LANES_IMAGE_<name>` names instead.
    ///
    /// # Errors
    /// What the compiler said if it did not compile.
    pub fn named(name: &str) -> Result<Image, String> {
        if let Some(path) = std::env::var_os(format!("LANES_IMAGE_{name}")) {
            return Image::load(Path::new(&path));
        }
        let folder = Path::new(env!("LANES_OBJECTS"));
        let error = std::fs::read_to_string(folder.join(format!("{name}.error"))).map_err(|_| format!("no image {name}"))?;
        if !error.is_empty() {
            return Err(error);
        }
        Image::load(&folder.join(format!("{name}.so")))
    }

    /// Lanes of a warp.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Lanes of a block of `kernel`, as its source fixes them.
    ///
    /// # Errors
    /// If there is no such kernel, or it takes any number.
    pub fn threads(&self, kernel: &str) -> Result<u32, String> {
        // SAFETY: PFPL_KERNEL defines such symbols with this type.
        unsafe { self.library.get::<*const u32>(format!("lanes_threads_{kernel}")).map(|t| **t) }.map_err(|e| format!("{kernel}: {e}"))
    }

    pub(crate) fn kernel(&self, name: &str) -> Result<Kernel, String> {
        // SAFETY: LANES_EXPORT defines such symbols with this type.
        unsafe { self.library.get::<Kernel>(format!("lanes_kernel_{name}")) }.map(|k| *k).map_err(|e| format!("no kernel {name}: {e}"))
    }

    /// The source lines of a return address, innermost first; empty where binutils are missing.
    pub(crate) fn line(&self, pc: usize) -> String {
        let Some(at) = pc.checked_sub(self.extent.start + 1) else { return String::new() };
        let output = Command::new("addr2line").args(["-Cfipse"]).arg(&self.path).arg(format!("{at:#x}")).output();
        output.map(|o| String::from_utf8_lossy(&o.stdout).trim().replace('\n', "\n    ")).unwrap_or_default()
    }
}
