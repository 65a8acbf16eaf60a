//! Whether the process was started with a standard output.
//!
//! The Rust runtime opens `/dev/null` for closed standard descriptors before `main`, so that no
//! other file gets their numbers. After that, writing the report to that file succeeds. So
//! this module checks the descriptor before the runtime starts.

use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed when the process started (`>&-`): output is lost without an
/// error.
pub fn stdout_was_closed() -> bool {
    STDOUT_CLOSED.load(Ordering::Relaxed)
}

// SAFETY: the loader calls the functions in this section before the runtime starts, on the only
// thread, and ignores arguments and results that the function does not have.
#[used]
#[unsafe(link_section = ".init_array")]
static CHECK: extern "C" fn() = check;

extern "C" fn check() {
    // SAFETY: no pointers; it fails if the descriptor is closed, and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    STDOUT_CLOSED.store(flags < 0, Ordering::Relaxed);
}
