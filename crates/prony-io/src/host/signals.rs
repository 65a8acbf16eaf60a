//! The signals that request a process to terminate: SIGINT, SIGTERM and SIGHUP.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often each signal of [`EndSignal::ALL`] arrived and was not handled yet.
static PENDING: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
/// Posted once per signal. A semaphore needs no descriptor.
static WAKE: Semaphore = Semaphore(UnsafeCell::new(MaybeUninit::zeroed()));

struct Semaphore(UnsafeCell<MaybeUninit<libc::sem_t>>);

// SAFETY: a semaphore is safe to share between threads; it is initialized once, before any other
// use.
unsafe impl Sync for Semaphore {}

/// A repeated signal within this time is the same request: timeout(1) signals its child and then
/// its process group.
const BURST: Duration = Duration::from_millis(5);

/// A request to terminate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM: a supervisor, which may kill the process soon after.
    Terminate,
    /// SIGHUP: the terminal was closed.
    Hangup,
}

impl EndSignal {
    const ALL: [(libc::c_int, Self); 3] = [
        (libc::SIGINT, Self::Interrupt),
        (libc::SIGTERM, Self::Terminate),
        (libc::SIGHUP, Self::Hangup),
    ];
}

/// From now on, call `then` for each of these signals, in a separate thread. Call this function
/// once. An ignored SIGHUP (nohup) stays ignored.
///
/// # Errors
/// The kernel refuses a thread.
pub fn on_end(mut then: impl FnMut(EndSignal) + Send + 'static) -> io::Result<()> {
    static INIT: Once = Once::new();
    INIT.call_once(|| {
        // SAFETY: the memory is static, and no thread waits or posts before this is done.
        unsafe { libc::sem_init(WAKE.get(), 0, 0) };
    });
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut last: Option<(EndSignal, Instant)> = None;
        loop {
            WAKE.wait();
            for ((_, signal), pending) in EndSignal::ALL.iter().zip(&PENDING) {
                for _ in 0..pending.swap(0, Ordering::Relaxed) {
                    let now = Instant::now();
                    let again = last.is_some_and(|(s, at)| s == *signal && now - at < BURST);
                    last = Some((*signal, now));
                    if !again {
                        then(*signal);
                    }
                }
            }
        }
    })?;
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
    // SAFETY: the handler is async-signal-safe, and lives as long as the process.
    match unsafe { libc::sigaction(number, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the process was started with this signal ignored.
pub(crate) fn is_ignored(number: libc::c_int) -> bool {
    // SAFETY: zero is a valid value of all its fields; the call only fills them in.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `now` outlives the call.
    let asked = unsafe { libc::sigaction(number, std::ptr::null(), &mut now) };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}

extern "C" fn on_signal(number: libc::c_int) {
    let place = EndSignal::ALL.iter().position(|&(n, _)| n == number);
    if let Some(pending) = place.and_then(|i| PENDING.get(i)) {
        pending.fetch_add(1, Ordering::Relaxed);
        // SAFETY: sem_post is async-signal-safe, and the semaphore is initialized before the
        // handler is installed.
        unsafe { libc::sem_post(WAKE.get()) };
    }
}

impl Semaphore {
    fn get(&self) -> *mut libc::sem_t {
        self.0.get().cast()
    }

    fn wait(&self) {
        // SAFETY: the semaphore is initialized before the waiting thread starts. A wait interrupted
        // by a signal causes one extra check, which does no harm.
        unsafe { libc::sem_wait(self.get()) };
    }
}
