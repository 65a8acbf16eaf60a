//! Something to do before SIGQUIT ends the process.

use std::io::{self, Read as _};
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use crate::host::signals::is_ignored;

/// Where the handler tells of the signal.
static TELL: AtomicI32 = AtomicI32::new(-1);

/// From now on, do this before SIGQUIT ends the process as it would have otherwise, core file and
/// all. Only the first call counts, and none where the signal is ignored.
///
/// # Errors
/// The kernel has no pipe or no thread for it.
pub fn before_quit(then: impl FnOnce() + Send + 'static) -> io::Result<()> {
    if TELL.load(Ordering::Relaxed) >= 0 || is_ignored(libc::SIGQUIT) {
        return Ok(());
    }
    let (mut heard, tell) = io::pipe()?;
    thread::Builder::new().name("quit".into()).spawn(move || {
        let mut byte = [0];
        if heard.read_exact(&mut byte).is_ok() {
            then();
            end();
        }
    })?;
    // Open as long as the process is there: the handler may come at any time.
    TELL.store(OwnedFd::from(tell).into_raw_fd(), Ordering::Relaxed);
    // SAFETY: zero is a valid value of all its fields.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int) = on_quit;
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler does only what a handler may, and lives as long as the process.
    match unsafe { libc::sigaction(libc::SIGQUIT, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_quit(_signal: libc::c_int) {
    let byte = 0_u8;
    let fd = TELL.load(Ordering::Relaxed);
    // SAFETY: write may be called in a handler; one byte is there. If the pipe is full, it has been
    // told before.
    unsafe { libc::write(fd, std::ptr::from_ref(&byte).cast(), 1) };
}

/// End as if nobody had looked.
fn end() {
    // SAFETY: no pointers; the signal's default is to end the process.
    unsafe {
        libc::signal(libc::SIGQUIT, libc::SIG_DFL);
        libc::kill(libc::getpid(), libc::SIGQUIT);
    }
}
