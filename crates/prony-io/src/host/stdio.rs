//! Whether the process was started with a standard output.
//!
//! The Rust runtime opens `/dev/null` for standard descriptors that are closed, before `main`, so
//! that no other file gets their numbers. From then on a report that nobody can read looks written.
//! Whoever wants to know must look before the runtime does.

use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed when the process started (`>&-`): what is written to it is
/// lost without an error.
pub fn stdout_was_closed() -> bool {
    STDOUT_CLOSED.load(Ordering::Relaxed)
}

// SAFETY: the loader calls what stands in this section before the runtime starts, on the one thread
// that there is, and ignores what the function does not take or give back.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: no pointers; it fails where the descriptor is closed, and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    STDOUT_CLOSED.store(flags < 0, Ordering::Relaxed);
}
