//! The signals that ask a process to end: SIGINT, SIGTERM and SIGHUP.

use std::io::{self, Read as _};
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Where the handler reports a signal.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// The same signal sent again within that time is the same request: timeout(1) signals its child
/// and then its process group.
const BURST: Duration = Duration::from_millis(5);

/// A request to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM: a supervisor, which will kill the process before long.
    Terminate,
    /// SIGHUP: the terminal is gone.
    Hangup,
}

impl EndSignal {
    const ALL: [(libc::c_int, Self); 3] = [
        (libc::SIGINT, Self::Interrupt),
        (libc::SIGTERM, Self::Terminate),
        (libc::SIGHUP, Self::Hangup),
    ];
}

/// From now on, call this for each of these signals, in a thread of its own. The last call counts.
/// An ignored SIGHUP (nohup) stays ignored.
///
/// # Errors
/// The kernel has no pipe or no thread for it.
pub fn on_end(mut then: impl FnMut(EndSignal) + Send + 'static) -> io::Result<()> {
    let (mut heard, tell) = io::pipe()?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut last: Option<(u8, Instant)> = None;
        let mut byte = [0];
        while heard.read_exact(&mut byte).is_ok() {
            let now = Instant::now();
            let again = last.is_some_and(|(b, at)| b == byte[0] && now - at < BURST);
            last = Some((byte[0], now));
            let signal = EndSignal::ALL.iter().find(|(n, _)| *n == libc::c_int::from(byte[0]));
            if let Some(&(_, signal)) = signal.filter(|_| !again) {
                then(signal);
            }
        }
    })?;
    // Open as long as the process is there: the handler may come at any time.
    PIPE.store(OwnedFd::from(tell).into_raw_fd(), Ordering::Relaxed);
    for (number, signal) in EndSignal::ALL {
        if signal != EndSignal::Hangup || !is_ignored(number) {
            catch(number)?;
        }
    }
    Ok(())
}

fn catch(number: libc::c_int) -> io::Result<()> {
    // SAFETY: zero is a valid value of all its fields.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int) = on_signal;
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler does only what a handler may, and lives as long as the process.
    match unsafe { libc::sigaction(number, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether whoever started the process wants it to ignore that signal.
pub(crate) fn is_ignored(number: libc::c_int) -> bool {
    // SAFETY: zero is a valid value of all its fields; the call only fills them in.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `now` outlives the call.
    let asked = unsafe { libc::sigaction(number, std::ptr::null(), &mut now) };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}

extern "C" fn on_signal(number: libc::c_int) {
    let byte = number as u8;
    let fd = PIPE.load(Ordering::Relaxed);
    // SAFETY: errno belongs to this thread, which the handler interrupts and must not change it for;
    // write may be called in a handler; one byte is there. If the pipe is full, 65,536 signals wait.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(fd, std::ptr::from_ref(&byte).cast(), 1);
        *errno = before;
    }
}
