//! Processes that stay below the one that started them.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Makes the process that this command starts adopt its descendants whose parents end, in place of
/// init: those who fork, or leave their process group or session, stay below it.
pub fn adopt_orphans(command: &mut Command) {
    let adopt = || {
        let (yes, no): (libc::c_ulong, libc::c_ulong) = (1, 0);
        // SAFETY: no pointers; the call sets an attribute of the calling process.
        match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, yes, no, no, no) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec, it makes one system call, allocates nothing and takes no lock.
    unsafe { command.pre_exec(adopt) };
}
