//! Outputs: written beside their target, synced and renamed; never over a file without leave.

use std::fs::File;
use std::io::{self, Seek, StdoutLock, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use fs4::FileExt;
use memmap2::MmapMut;
use tempfile::NamedTempFile;

use crate::ending::unfinished;

/// Prints to standard output, which may be a full disk or a pipe that nobody reads any more.
pub fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let done = || {
        let mut stdout = stdout()?;
        stdout.write_all(text.as_ref())?;
        stdout.flush()
    };
    done().context("cannot write standard output")
}

/// Whether the command began without a standard output: before `main`, the runtime puts `/dev/null` in its place.
#[cfg(unix)]
#[ctor::ctor(unsafe)]
static STDOUT_IS_CLOSED: bool = {
    // SAFETY: only asks
    unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) == -1 }
};

fn stdout() -> io::Result<StdoutLock<'static>> {
    #[cfg(unix)]
    if *STDOUT_IS_CLOSED {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    Ok(io::stdout().lock())
}

/// A file under construction.
pub struct Output {
    /// `None`: standard output.
    target: Option<PathBuf>,
    force: bool,
    file: NamedTempFile,
}

impl Output {
    pub fn new(target: &Path, force: bool) -> anyhow::Result<Self> {
        let target = match target {
            stdout if stdout == Path::new("-") => None,
            // a link stays one: what it points to, which must be there, is replaced
            link if link.is_symlink() => {
                Some(link.canonicalize().with_context(|| format!("cannot write {}: where the link points", link.display()))?)
            }
            path => Some(path.to_path_buf()),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".pfpl-");
        let mut unfinished = unfinished();
        let file = match &target {
            None => builder.tempfile(),
            Some(path) => {
                if let Ok(there) = path.metadata() {
                    // renaming would put a file in the place of a device or a pipe
                    ensure!(there.is_file(), "cannot write {}: it is there and not a file (- is standard output)", path.display());
                    ensure!(force, "{} exists: give --force to overwrite it", path.display());
                }
                #[cfg(unix)]
                builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
                builder.tempfile_in(directory(path))
            }
        };
        let file = file.with_context(|| format!("cannot write {}", name(&target)))?;
        *unfinished = Some(file.path().into());
        Ok(Self { target, force, file })
    }

    /// Maps the first `bytes` bytes for writing. Their space on the disk is reserved first, so that a full disk is an error here and not
    /// a signal later.
    pub fn map(&self, bytes: u64) -> anyhow::Result<Mapped> {
        let reserved = || -> io::Result<MmapMut> {
            let file = self.file.as_file();
            FileExt::allocate(file, bytes)?;
            file.set_len(bytes)?;
            // SAFETY: nobody else writes the temporary file, whose name only we know
            unsafe { MmapMut::map_mut(file) }
        };
        if bytes == 0 {
            return Ok(Mapped(None));
        }
        reserved().map(|map| Mapped(Some(map))).with_context(|| format!("cannot write {}: no room for {bytes} bytes", name(&self.target)))
    }

    /// Cuts the file to `bytes` and puts it in place.
    pub fn finish(self, bytes: u64) -> anyhow::Result<()> {
        let Self { target, force, file } = self;
        let done = || -> io::Result<()> {
            file.as_file().set_len(bytes)?;
            let Some(path) = &target else {
                let mut file = file.into_file();
                file.rewind()?;
                let mut stdout = stdout()?;
                io::copy(&mut file, &mut stdout)?;
                return stdout.flush();
            };
            file.as_file().sync_all()?;
            let mut unfinished = unfinished();
            if force { file.persist(path) } else { file.persist_noclobber(path) }?;
            *unfinished = None;
            #[cfg(unix)]
            File::open(directory(path))?.sync_all()?;
            Ok(())
        };
        let name = name(&target);
        done().with_context(|| format!("cannot write {name}"))
    }
}

/// Bytes of an output, mapped.
pub struct Mapped(Option<MmapMut>);

impl std::ops::Deref for Mapped {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(&[])
    }
}

impl std::ops::DerefMut for Mapped {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.as_deref_mut().unwrap_or(&mut [])
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn name(target: &Option<PathBuf>) -> String {
    target.as_ref().map_or("standard output".into(), |path| path.display().to_string())
}
