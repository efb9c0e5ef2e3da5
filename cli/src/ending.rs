//! The file under construction, which a signal that ends the command takes along.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The file to remove at a signal. The lock is held while the file comes or goes, and by a signal to the end.
pub fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the signals that users, terminals and batch systems send remove the unfinished file, and a file too large an error of its write.
#[cfg(unix)]
pub fn watch_signals() -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
    use signal_hook::{flag, iterator::Signals, low_level};
    use std::io::Write;
    use std::sync::{Arc, atomic::AtomicBool};

    flag::register(SIGXFSZ, Arc::<AtomicBool>::default())?;
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|&signal| !is_ignored(signal)))?;
    std::thread::Builder::new().spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        let unfinished = unfinished();
        if let Some(path) = &*unfinished {
            _ = std::fs::remove_file(path);
        }
        // the terminal may be gone
        _ = writeln!(std::io::stderr(), "pfpl: ended by {}", low_level::signal_name(signal).unwrap_or("a signal"));
        // not `exit`: a shell's loop goes on after that
        _ = low_level::emulate_default_handler(signal);
    })?;
    Ok(())
}

/// Whether a signal is ignored since the start, as `nohup` has it: it stays so.
#[cfg(unix)]
fn is_ignored(signal: std::ffi::c_int) -> bool {
    // SAFETY: `sigaction` is plain data, for which zeros are valid
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only asks; `action` is there to be written
    unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN }
}

#[cfg(not(unix))]
pub fn watch_signals() -> std::io::Result<()> {
    Ok(())
}
