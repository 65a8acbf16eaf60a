//! The ring itself: set up, submission, waits in nanoseconds, and the test that the kernel does
//! what the driver builds on.

use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use prony_core::units::Span;

use crate::host;
use crate::pace::Poll;

/// Requests that fit between two submissions, and completions that fit before the kernel has to
/// keep them elsewhere. A ring's memory is locked. Processes without the right to lock as much as
/// they like have a limit of it, often 8 MiB for all of the user's rings together, of which the
/// largest takes 1.3 and the next 0.2. More requests than fit are submitted in between, more
/// completions wait in the kernel.
const SIZES: [(u32, u32); 3] = [(4_096, 65_536), (1_024, 8_192), (256, 2_048)];

/// An io_uring instance, used by the thread that made it.
pub(super) struct Ring {
    ring: IoUring,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl Ring {
    /// A ring for the calling thread. Fails where the kernel refuses or lacks what is needed (6.1).
    pub(super) fn new() -> io::Result<Self> {
        let ring = largest(sizes(host::ring_memory()), of_size)?;
        let p = ring.params();
        if !p.is_feature_ext_arg() || !p.is_feature_nodrop() || !p.is_feature_skip_cqe_on_success()
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut ring = Self { ring };
        ring.check_short_sends()?;
        Ok(ring)
    }

    /// Queue a request. What it points to must stay until it is submitted, or, where it completes
    /// later, until then.
    #[inline]
    pub(super) fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: the callers keep what the entry points to: addresses live in the driver's
            // tables for the whole run, sent bytes in its arenas until the batch after the
            // submission or in its table of slow sends until the completion.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            self.submit();
        }
    }

    /// Hand over what is queued, without waiting.
    pub(super) fn submit(&mut self) {
        // EINTR and EBUSY leave requests queued; the next call takes them.
        drop(self.ring.submit());
    }

    /// Move the completions that are there to `to`; whether the kernel keeps more.
    #[inline]
    pub(super) fn reap(&mut self, to: &mut Vec<cqueue::Entry>) -> bool {
        to.extend(self.ring.completion());
        self.ring.submission().cq_overflow()
    }

    /// Stop all that is under way, for at most 100 ms.
    pub(super) fn cancel_all(&mut self) {
        let limit = Timespec::new().nsec(100_000_000);
        // It fails where nothing is under way, which is what is wanted.
        drop(self.ring.submitter().register_sync_cancel(Some(limit), CancelBuilder::any()));
    }

    /// The ring's buffers for receiving begin there.
    ///
    /// # Safety
    /// `at` must point to `entries` entries that stay until the ring is gone.
    pub(super) unsafe fn register_buffers(&mut self, at: u64, entries: u16) -> io::Result<()> {
        // SAFETY: as asked of the caller.
        unsafe { self.ring.submitter().register_buf_ring_with_flags(at, entries, 0, 0) }
    }

    fn enter(&mut self, want: usize, at_most: Span) -> io::Result<usize> {
        let n = at_most.as_nanos();
        let limit = Timespec::new().sec(n / 1_000_000_000).nsec((n % 1_000_000_000) as u32);
        self.ring.submitter().submit_with_args(want, &SubmitArgs::new().timespec(&limit))
    }

    /// The driver's sends must be decided when their submission returns: taken whole without a
    /// completion, or taken in part, or not at all, with a completion that says how far. Fill a
    /// socket pair and see.
    fn check_short_sends(&mut self) -> io::Result<()> {
        const WHOLE: usize = 4 << 20;
        let (from, mut to) = UnixStream::pair()?;
        to.set_nonblocking(true)?;
        let data = vec![7_u8; WHOLE];
        let entry = send_at_once(from.as_raw_fd(), &data).user_data(1);
        self.push(&entry);
        self.submit();
        let mut done = Vec::new();
        self.reap(&mut done);
        let mut there = 0;
        let mut buf = vec![0; 1 << 16];
        while let Ok(n @ 1..) = to.read(&mut buf) {
            there += n;
        }
        match done.as_slice() {
            [one] if one.result() > 0 && one.result() as usize == there && there < WHOLE => Ok(()),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// The sizes that are tried. Where memory is limited, a large ring is nobody's: few of them would
/// leave nothing to the threads that come after them.
fn sizes(ring_memory: Option<u64>) -> &'static [(u32, u32)] {
    const LITTLE: u64 = 64 << 20;
    if ring_memory.is_some_and(|bytes| bytes < LITTLE) { &SIZES[1..] } else { &SIZES }
}

/// The first of these sizes for which there is memory.
fn largest<T>(sizes: &[(u32, u32)], make: impl Fn((u32, u32)) -> io::Result<T>) -> io::Result<T> {
    let mut refused = io::Error::from_raw_os_error(libc::ENOMEM);
    for &size in sizes {
        match make(size) {
            Err(e) if e.raw_os_error() == Some(libc::ENOMEM) => refused = e,
            other => return other,
        }
    }
    Err(refused)
}

fn of_size((requests, completions): (u32, u32)) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_coop_taskrun()
        .setup_submit_all()
        .setup_cqsize(completions)
        .dontfork()
        .build(requests)
}

impl Poll for Ring {
    #[inline]
    fn poll(&mut self, at_most: Span) -> usize {
        let there = self.ring.completion().len();
        let queued = !self.ring.submission().is_empty();
        // The kernel raises a flag in shared memory when it has something, so that looking costs no
        // call.
        if at_most == Span::ZERO || there > 0 {
            let raised = {
                let sq = self.ring.submission();
                sq.taskrun() || sq.cq_overflow()
            };
            if queued || raised {
                drop(self.enter(0, Span::ZERO));
            }
        } else {
            // ETIME is the time that was asked for; EINTR is seen by whoever looks at the stop
            // flag; EBUSY and EAGAIN pass once completions are taken.
            drop(self.enter(1, at_most));
        }
        self.ring.completion().len()
    }
}

/// A send that is decided at submission: all of it or, with a completion, less.
#[inline]
pub(super) fn send_at_once(fd: RawFd, data: &[u8]) -> squeue::Entry {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL | libc::MSG_DONTWAIT;
    opcode::Send::new(Fd(fd), data.as_ptr(), data.len() as u32)
        .flags(flags)
        .build()
        .flags(squeue::Flags::SKIP_SUCCESS)
}

/// A send that completes when all is taken.
pub(super) fn send_all(fd: RawFd, data: &[u8]) -> squeue::Entry {
    opcode::Send::new(Fd(fd), data.as_ptr(), data.len() as u32)
        .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
        .build()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_ring_is_as_large_as_there_is_memory_for() {
        let refused = |errno, least| {
            let tried = RefCell::new(Vec::new());
            let made = largest(&SIZES, |(requests, _)| {
                tried.borrow_mut().push(requests);
                if requests > least {
                    Err(io::Error::from_raw_os_error(errno))
                } else {
                    Ok(requests)
                }
            });
            (made.map_err(|e| e.raw_os_error()), tried.into_inner())
        };
        assert_eq!(refused(libc::ENOMEM, 4_096), (Ok(4_096), vec![4_096]));
        assert_eq!(refused(libc::ENOMEM, 1_024), (Ok(1_024), vec![4_096, 1_024]));
        assert_eq!(refused(libc::ENOMEM, 256), (Ok(256), vec![4_096, 1_024, 256]));
        let none = (Err(Some(libc::ENOMEM)), vec![4_096, 1_024, 256]);
        assert_eq!(refused(libc::ENOMEM, 0), none);
        assert_eq!([None, Some(1 << 30), Some(8 << 20)].map(|n| sizes(n).len()), [3, 3, 2]);
        assert_eq!(refused(libc::EPERM, 1_024), (Err(Some(libc::EPERM)), vec![4_096]));
    }
}
