//! Runs a function before SIGQUIT terminates the process.

use std::io::{self, Read as _};
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use crate::host::signals::is_ignored;

/// The pipe to which the handler writes.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// From now on, call `then` before SIGQUIT terminates the process as it would by default, with a
/// core file. Only the first call has an effect, and none if the signal is ignored.
///
/// # Errors
/// The kernel refuses a pipe or a thread.
pub fn before_quit(then: impl FnOnce() + Send + 'static) -> io::Result<()> {
    if PIPE.load(Ordering::Relaxed) >= 0 || is_ignored(libc::SIGQUIT) {
        return Ok(());
    }
    let (mut reader, writer) = io::pipe()?;
    thread::Builder::new().name("quit".into()).spawn(move || {
        let mut byte = [0];
        if reader.read_exact(&mut byte).is_ok() {
            then();
            terminate();
        }
    })?;
    // Stays open until the process exits, because the handler may run at any time.
    PIPE.store(OwnedFd::from(writer).into_raw_fd(), Ordering::Relaxed);
    // SAFETY: zero is a valid value of all its fields.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int) = on_quit;
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler is async-signal-safe, and lives as long as the process.
    match unsafe { libc::sigaction(libc::SIGQUIT, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_quit(_signal: libc::c_int) {
    let byte = 0_u8;
    let fd = PIPE.load(Ordering::Relaxed);
    // SAFETY: write is async-signal-safe, and one byte is readable. If the pipe is full, a byte was
    // written before.
    unsafe { libc::write(fd, std::ptr::from_ref(&byte).cast(), 1) };
}

/// Terminate by the signal's default action.
fn terminate() {
    // SAFETY: no pointers; the signal's default action terminates the process.
    unsafe {
        libc::signal(libc::SIGQUIT, libc::SIG_DFL);
        libc::kill(libc::getpid(), libc::SIGQUIT);
    }
}
