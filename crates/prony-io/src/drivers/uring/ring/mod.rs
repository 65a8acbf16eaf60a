//! The ring itself: set up, submission, waits in nanoseconds, the memory that the kernel uses, and
//! the test that the kernel does what the driver builds on.
//!
//! The ring owns all memory that its requests point to, so that nothing that is safe to call here
//! can free or change it too early:
//! - A request without memory is a [`Request`], which can only be made from numbers.
//! - What is decided when the submission returns (a send at once, the address of a connect) lies in
//!   an arena, which is used again only when nothing is queued.
//! - A send that may take longer is given its bytes, and gives them back with its completion.
//! - Receive buffers are the kernel's until a completion names them ([`Buffers`]).
//! - When the ring is dropped, it stops everything first. What the kernel may still use after that
//!   is leaked.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use prony_core::units::Span;

use super::buffers::{Arena, Buffers, Filled, Piece};
use crate::host;
use crate::time::pace::Poll;

/// Requests that fit between two submissions, and completions that fit before the kernel has to
/// keep them elsewhere. A ring's memory is locked. Processes without the right to lock as much as
/// they like have a limit of it, often 8 MiB for all of the user's rings together, of which the
/// largest takes 1.3 and the next 0.2. More requests than fit are submitted in between, more
/// completions wait in the kernel.
const SIZES: [(u32, u32); 3] = [(4_096, 65_536), (1_024, 8_192), (256, 2_048)];
/// How long the kernel may refuse to take requests, and how long to wait before it is asked again.
const REFUSAL_LIMIT: Duration = Duration::from_secs(2);
const REFUSAL_PAUSE: Duration = Duration::from_micros(200);
/// How often everything is stopped, and for how many nanoseconds at most each time.
const STOPS: u32 = 10;
const STOP_LIMIT: i64 = 100_000_000;

/// An io_uring instance, used by the thread that made it.
pub(super) struct Ring {
    // Goes before the memory that it uses.
    ring: IoUring,
    buffers: Buffers,
    /// Of the batch being worked through and of the one before.
    arenas: [Arena; 2],
    /// Bytes of sends that are not complete, by the request's name.
    lent: HashMap<u64, Lent>,
    /// Which batch of completions this is, what it brought, and how much of it is worked through.
    batch: u64,
    done: Vec<cqueue::Entry>,
    next: usize,
}

/// Bytes that are being sent, and how many of them were sent by requests before.
type Lent = (Vec<u8>, usize);

/// A request that points to no memory, but for receive buffers, which the ring owns.
pub(super) struct Request(squeue::Entry);

/// What a request has come to. There is one for each completion.
pub(super) struct Completed {
    what: u64,
    pub(super) result: i32,
    /// Whether the request goes on.
    pub(super) more: bool,
    flags: u32,
}

impl Request {
    /// Receive again and again, into the ring's buffers.
    pub(super) fn receive(fd: RawFd) -> Self {
        Self(opcode::RecvMulti::new(Fd(fd), 0).build())
    }

    /// Accept again and again.
    pub(super) fn accept(listener: RawFd) -> Self {
        Self(opcode::AcceptMulti::new(Fd(listener)).flags(libc::SOCK_CLOEXEC).build())
    }

    /// Complete when there is something to read.
    pub(super) fn until_readable(fd: RawFd) -> Self {
        Self(opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).build())
    }

    /// Cancel the request of that name; completes only where there is none.
    pub(super) fn cancel(what: u64) -> Self {
        Self(opcode::AsyncCancel::new(what).build().flags(squeue::Flags::SKIP_SUCCESS))
    }

    /// Close a descriptor; completes only on failure.
    pub(super) fn close(fd: OwnedFd) -> Self {
        Self(opcode::Close::new(Fd(fd.into_raw_fd())).build().flags(squeue::Flags::SKIP_SUCCESS))
    }
}

impl Completed {
    /// The name of the request.
    #[inline]
    pub(super) fn what(&self) -> u64 {
        self.what
    }

    /// What an accept has brought. The socket is the caller's now.
    ///
    /// # Safety
    /// The request is one made by [`Request::accept`].
    pub(super) unsafe fn accepted(self) -> Option<OwnedFd> {
        // SAFETY: by the caller's promise the kernel has given us this descriptor with this
        // completion, of which `self` is the only one, so that nobody else knows it.
        (self.result >= 0).then(|| unsafe { OwnedFd::from_raw_fd(self.result) })
    }

    /// What was received, where it is in a buffer. That buffer is the caller's now.
    #[inline]
    pub(super) fn filled(self) -> Option<Filled> {
        let buffer = cqueue::buffer_select(self.flags)?;
        // SAFETY: the kernel has named the buffer in a completion, of which `self` is the only one,
        // and it has put so many bytes there.
        Some(unsafe { Filled::new(buffer, usize::try_from(self.result).unwrap_or(0)) })
    }
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
        let buffers = Buffers::new();
        let (at, entries) = buffers.entries();
        // SAFETY: the entries stay until `buffers` is dropped, which is after the ring.
        unsafe { ring.submitter().register_buf_ring_with_flags(at, entries, 0, 0) }?;
        let mut ring = Self {
            ring,
            buffers,
            arenas: Default::default(),
            lent: HashMap::new(),
            batch: 0,
            done: Vec::new(),
            next: 0,
        };
        ring.check_short_sends()?;
        Ok(ring)
    }

    /// The buffers to receive into.
    #[inline]
    pub(super) fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    /// Which batch of completions this is.
    #[inline]
    pub(super) fn batch(&self) -> u64 {
        self.batch
    }

    /// Queue a request, whose completions have that name.
    #[inline]
    pub(super) fn push(&mut self, request: Request, what: u64) {
        // SAFETY: the request points to no memory.
        unsafe { self.queue(&request.0.user_data(what)) };
    }

    /// The same where the kernel may take nothing more; whether the request is queued.
    pub(super) fn offer(&mut self, request: Request, what: u64) -> bool {
        // SAFETY: the request points to no memory.
        unsafe { self.try_queue(&request.0.user_data(what)) }.is_ok()
    }

    /// Where the bytes of sends of this batch are put together.
    #[inline]
    pub(super) fn arena(&mut self) -> &mut Arena {
        &mut self.arenas[(self.batch & 1) as usize]
    }

    /// The bytes of a piece of this batch or the one before.
    #[inline]
    pub(super) fn bytes(&self, batch: u64, piece: Piece) -> &[u8] {
        assert!(self.batch.wrapping_sub(batch) <= 1, "the arena has been used again");
        self.arenas[(batch & 1) as usize].bytes(piece)
    }

    /// Send a piece of this batch's arena. That is decided at submission: all of it or, with a
    /// completion, less.
    #[inline]
    pub(super) fn send_at_once(&mut self, fd: RawFd, piece: Piece, what: u64) {
        let entry = send_at_once(fd, self.arena().bytes(piece)).user_data(what);
        // SAFETY: the bytes lie in an arena, which is used again by `next_batch` alone, after all
        // that is queued was submitted. With MSG_DONTWAIT the kernel then needs them no more.
        unsafe { self.queue(&entry) };
    }

    /// Send all of these bytes from the given one on, which may take as long as it likes. They come
    /// back from [`Ring::take_back`].
    pub(super) fn send_slowly(&mut self, fd: RawFd, bytes: Vec<u8>, from: usize, what: u64) {
        let Entry::Vacant(place) = self.lent.entry(what) else {
            panic!("two sends of one name are in flight");
        };
        let (bytes, _) = place.insert((bytes, from));
        let rest = &bytes[from..];
        let entry = opcode::Send::new(Fd(fd), rest.as_ptr(), rest.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .user_data(what);
        // SAFETY: the bytes are on the heap and stay there, unchanged, until the completion of that
        // name (`take_back`); without one they are leaked when the ring is dropped.
        unsafe { self.queue(&entry) };
    }

    /// The bytes of a send that is complete, and how many were sent before it.
    pub(super) fn take_back(&mut self, completed: Completed) -> Option<Lent> {
        if completed.more { None } else { self.lent.remove(&completed.what) }
    }

    /// Connect a socket to that address.
    pub(super) fn connect(&mut self, fd: RawFd, address: &[u8], what: u64) {
        let arena = self.arena();
        let mut piece = arena.begin();
        arena.append(&mut piece, address);
        let at = arena.bytes(piece).as_ptr();
        let entry = opcode::Connect::new(Fd(fd), at.cast(), address.len() as u32).build();
        // SAFETY: the kernel copies the address when it takes the request in, and it stays in the
        // arena until all that is queued was submitted.
        unsafe { self.queue(&entry.user_data(what)) };
    }

    /// Queue a request.
    ///
    /// # Safety
    /// What it points to must stay until it is submitted or, where it completes later, until then.
    ///
    /// # Panics
    /// Where the queue is full and the kernel takes nothing more.
    #[inline]
    unsafe fn queue(&mut self, entry: &squeue::Entry) {
        // SAFETY: as asked of the caller.
        if let Err(e) = unsafe { self.try_queue(entry) } {
            takes_no_more(&e);
        }
    }

    /// Queue a request, or return why the kernel takes nothing more.
    ///
    /// # Safety
    /// As of [`Ring::queue`], unless it fails.
    #[inline]
    unsafe fn try_queue(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: as asked of the caller.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.try_submit()?;
        }
    }

    /// Hand over all that is queued, without waiting for what comes of it.
    ///
    /// # Panics
    /// Where the kernel takes nothing more. There is then no way on for this thread.
    pub(super) fn submit(&mut self) {
        if let Err(e) = self.try_submit() {
            takes_no_more(&e);
        }
    }

    fn try_submit(&mut self) -> io::Result<()> {
        let mut since = None;
        while !self.ring.submission().is_empty() {
            let Err(e) = self.ring.submit() else { continue };
            let began = *since.get_or_insert_with(Instant::now);
            if !passes(&e) || began.elapsed() > REFUSAL_LIMIT {
                return Err(e);
            }
            // EBUSY ends when completions are taken, a shortage of memory by itself.
            self.done.extend(self.ring.completion());
            std::thread::sleep(REFUSAL_PAUSE);
        }
        Ok(())
    }

    /// Begin the next batch, with the completions that are there.
    pub(super) fn next_batch(&mut self) {
        // All of the last batch is submitted, so that what became of its sends is known to this
        // one, and nothing needs the arena of the one before.
        if !self.ring.submission().is_empty() {
            self.submit();
        }
        loop {
            self.done.extend(self.ring.completion());
            if !self.ring.submission().cq_overflow() {
                break;
            }
            // The kernel keeps completions that did not fit. It hands them out now that there is
            // room.
            self.poll(Span::ZERO);
        }
        self.batch += 1;
        self.arena().clear();
    }

    /// The next completion of the batch.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Completed> {
        let Some(c) = self.done.get(self.next) else {
            self.done.clear();
            self.next = 0;
            return None;
        };
        self.next += 1;
        let (flags, result) = (c.flags(), c.result());
        Some(Completed { what: c.user_data(), result, more: cqueue::more(flags), flags })
    }

    /// Stop all that is in flight; whether the kernel says that nothing is left. Completions are
    /// there for [`Ring::next`].
    pub(super) fn stop_all(&mut self) -> bool {
        if self.try_submit().is_err() {
            return false;
        }
        // What was cancelled by its name is gone first, or the search for the rest would be among
        // all of it again and again.
        loop {
            let before = self.done.len();
            let _ = self.enter(0, Span::ZERO);
            self.done.extend(self.ring.completion());
            if self.done.len() == before {
                break;
            }
        }
        for _ in 0..STOPS {
            let stopped = cancel_everything(self.ring.as_raw_fd());
            // Cancelled requests complete when the kernel is entered. Where that fails, they have
            // no completion, and so keep their memory.
            let _ = self.enter(0, Span::ZERO);
            self.done.extend(self.ring.completion());
            match stopped.map_err(|e| e.raw_os_error()) {
                Ok(0) | Err(Some(libc::ENOENT)) => return !self.ring.submission().cq_overflow(),
                Ok(_) | Err(Some(libc::ETIME | libc::EINTR | libc::EALREADY)) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Submit and wait. ETIME is the time that was asked for; EINTR is seen by whoever looks at the
    /// stop flag; EBUSY and EAGAIN pass once completions are taken.
    #[inline]
    fn enter_or_give_up(&mut self, want: usize, at_most: Span) {
        if let Err(e) = self.enter(want, at_most)
            && !passes(&e)
        {
            panic!("io_uring cannot be waited for any more: {e}");
        }
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
        // SAFETY: `data` lives until the request is submitted; were it not decided then, the last
        // lines would leak it.
        unsafe { self.queue(&entry) };
        let submitted = self.try_submit();
        self.done.extend(self.ring.completion());
        let mut there = 0;
        let mut buf = vec![0; 1 << 16];
        while let Ok(n @ 1..) = to.read(&mut buf) {
            there += n;
        }
        let is_as_wanted = match self.done.as_slice() {
            [one] => one.result() > 0 && one.result() as usize == there && there < WHOLE,
            _ => false,
        };
        self.done.clear();
        if submitted.is_err() || !is_as_wanted {
            std::mem::forget(data);
            return Err(submitted.err().unwrap_or_else(|| io::ErrorKind::Unsupported.into()));
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let is_over = self.stop_all();
        while let Some(completed) = self.next() {
            drop(self.take_back(completed));
        }
        // Without a completion the kernel may still read them.
        std::mem::forget(std::mem::take(&mut self.lent));
        if !is_over {
            self.buffers.leak();
            std::mem::forget(std::mem::take(&mut self.arenas));
        }
    }
}

/// Cancel everything that is in flight; how many requests that were. The crate's own function does
/// not return that number.
fn cancel_everything(ring: RawFd) -> io::Result<u64> {
    /// `struct io_uring_sync_cancel_reg`.
    #[repr(C)]
    struct SyncCancel {
        name: u64,
        fd: i32,
        flags: u32,
        limit: [i64; 2],
        opcode: u8,
        pad: [u8; 7],
        reserved: [u64; 3],
    }
    const REGISTER_SYNC_CANCEL: libc::c_uint = 24;
    const CANCEL_ANY: u32 = 1 << 2;
    let (name, fd, limit) = (0, -1, [0, STOP_LIMIT]);
    let all =
        SyncCancel { name, fd, flags: CANCEL_ANY, limit, opcode: 0, pad: [0; 7], reserved: [0; 3] };
    let at = &raw const all;
    // SAFETY: the kernel reads one such struct there, and writes nothing.
    let n =
        unsafe { libc::syscall(libc::SYS_io_uring_register, ring, REGISTER_SYNC_CANCEL, at, 1) };
    u64::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// There is no way on for this thread. What the kernel may still use is leaked on the way out.
#[cold]
fn takes_no_more(e: &io::Error) -> ! {
    panic!("io_uring takes no more requests: {e}");
}

/// Whether a refusal to take requests may be over soon.
fn passes(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM | libc::ETIME)
    )
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
                self.enter_or_give_up(0, Span::ZERO);
            }
        } else {
            self.enter_or_give_up(1, at_most);
        }
        self.ring.completion().len()
    }
}

/// A send that is decided at submission: all of it or, with a completion, less.
#[inline]
fn send_at_once(fd: RawFd, data: &[u8]) -> squeue::Entry {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL | libc::MSG_DONTWAIT;
    opcode::Send::new(Fd(fd), data.as_ptr(), data.len() as u32)
        .flags(flags)
        .build()
        .flags(squeue::Flags::SKIP_SUCCESS)
}

#[cfg(test)]
pub(super) mod tests;
