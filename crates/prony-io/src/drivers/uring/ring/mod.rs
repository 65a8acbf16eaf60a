//! The ring: setup, submission, waits with nanosecond timeouts, the memory that the kernel uses,
//! and the check that the kernel behaves as the driver requires.
//!
//! The ring owns all memory that its requests point to, so that safe functions cannot free or
//! change it too early:
//! - A request without memory is a [`Request`], which can only be made from numbers.
//! - Memory that is needed only until the submission returns (immediate sends, addresses of
//!   connects) is in an arena, which is reused only when nothing is queued.
//! - A slow send owns its bytes, and returns them with its completion.
//! - Receive buffers belong to the kernel until a completion refers to them ([`Buffers`]).
//! - When the ring is dropped, it first cancels everything. Memory that the kernel may still use
//!   after that is leaked.

mod files;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use prony_base::units::Span;

use super::buffers::{Arena, Buffers, Filled, Piece};
use crate::host;
use crate::time::pace::Poll;
pub(super) use files::Socket;

/// Sizes of the submission and completion queues. A ring's memory is locked. Processes without the
/// privilege to lock any amount have a limit, often 8 MiB for all rings of the user; the largest
/// size takes 1.3 MiB and the next 0.2 MiB. If the submission queue is full, it is submitted early.
/// If the completion queue is full, completions wait in the kernel.
const SIZES: [(u32, u32); 3] = [(4_096, 65_536), (1_024, 8_192), (256, 2_048)];
/// How long the kernel may refuse requests, and the pause before a retry.
const REFUSAL_LIMIT: Duration = Duration::from_secs(2);
const REFUSAL_PAUSE: Duration = Duration::from_micros(200);
/// How often to cancel everything, and the time limit of each attempt in nanoseconds.
const STOPS: u32 = 10;
const STOP_LIMIT: i64 = 100_000_000;

/// An io_uring instance, used only by the thread that created it.
pub(super) struct Ring {
    // Dropped before the memory that it uses.
    ring: IoUring,
    buffers: Buffers,
    /// Of the current batch and of the previous one.
    arenas: [Arena; 2],
    /// Bytes of sends in flight, by the request's ID.
    in_flight: HashMap<u64, InFlight>,
    /// The number of the current batch, its completions, and the index of the next one to process.
    batch: u64,
    done: Vec<cqueue::Entry>,
    next: usize,
    /// How many files can be registered.
    places: u32,
}

/// Bytes of a send in flight, and how many of them earlier requests have sent.
type InFlight = (Vec<u8>, usize);

/// A request that points to no memory except the receive buffers, which the ring owns.
pub(super) struct Request(squeue::Entry);

/// The completion of a request. Each completion has exactly one such value.
pub(super) struct Completed {
    id: u64,
    pub(super) result: i32,
    /// Whether the request stays active.
    pub(super) more: bool,
    flags: u32,
}

impl Request {
    /// A multishot receive into the ring's buffers.
    pub(super) fn receive(fd: RawFd) -> Self {
        Self(opcode::RecvMulti::new(Fd(fd), 0).build())
    }

    /// A multishot accept.
    pub(super) fn accept(listener: RawFd) -> Self {
        Self(opcode::AcceptMulti::new(Fd(listener)).flags(libc::SOCK_CLOEXEC).build())
    }

    /// Complete when the socket is readable.
    pub(super) fn until_readable(fd: RawFd) -> Self {
        Self(opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).build())
    }

    /// Cancel the request with this ID; completes only if there is none.
    pub(super) fn cancel(id: u64) -> Self {
        Self(opcode::AsyncCancel::new(id).build().flags(squeue::Flags::SKIP_SUCCESS))
    }

    /// Close a descriptor; completes only on failure.
    pub(super) fn close(fd: OwnedFd) -> Self {
        Self(opcode::Close::new(Fd(fd.into_raw_fd())).build().flags(squeue::Flags::SKIP_SUCCESS))
    }
}

impl Completed {
    /// The ID of the request.
    #[inline]
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The socket of an accept. The caller becomes its owner.
    ///
    /// # Safety
    /// The request was made by [`Request::accept`].
    pub(super) unsafe fn accepted(self) -> Option<OwnedFd> {
        // SAFETY: the caller guarantees that this completion returned a new descriptor. `self` is
        // its only completion, so nothing else owns the descriptor.
        (self.result >= 0).then(|| unsafe { OwnedFd::from_raw_fd(self.result) })
    }

    /// The buffer with received data, if any. The caller becomes its owner.
    #[inline]
    pub(super) fn filled(self) -> Option<Filled> {
        let buffer = cqueue::buffer_select(self.flags)?;
        // SAFETY: this completion refers to the buffer, `self` is the only value for it, and the
        // kernel has written this many bytes.
        Some(unsafe { Filled::new(buffer, usize::try_from(self.result).unwrap_or(0)) })
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl Ring {
    /// A ring for the calling thread. Fails if the kernel refuses or lacks a required feature
    /// (6.1).
    pub(super) fn new() -> io::Result<Self> {
        let ring = largest(sizes(host::ring_memory()), of_size)?;
        let p = ring.params();
        if !p.is_feature_ext_arg() || !p.is_feature_nodrop() || !p.is_feature_skip_cqe_on_success()
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let buffers = Buffers::new();
        let (at, entries) = buffers.entries();
        // SAFETY: the entries live until `buffers` is dropped, after the ring.
        unsafe { ring.submitter().register_buf_ring_with_flags(at, entries, 0, 0) }?;
        let places = files::register(&ring);
        let mut ring = Self {
            ring,
            buffers,
            arenas: Default::default(),
            in_flight: HashMap::new(),
            batch: 0,
            done: Vec::new(),
            next: 0,
            places,
        };
        ring.check_short_sends()?;
        ring.check_closing()?;
        Ok(ring)
    }

    /// The receive buffers.
    #[inline]
    pub(super) fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    /// The number of the current batch.
    #[inline]
    pub(super) fn batch(&self) -> u64 {
        self.batch
    }

    /// Queue a request with this ID for its completions.
    #[inline]
    pub(super) fn push(&mut self, request: Request, id: u64) {
        // SAFETY: the request points to no memory.
        unsafe { self.queue(&request.0.user_data(id)) };
    }

    /// Like [`Ring::push`], but returns false if the kernel accepts nothing more.
    pub(super) fn offer(&mut self, request: Request, id: u64) -> bool {
        // SAFETY: the request points to no memory.
        unsafe { self.try_queue(&request.0.user_data(id)) }.is_ok()
    }

    /// The arena for the output of this batch.
    #[inline]
    pub(super) fn arena(&mut self) -> &mut Arena {
        &mut self.arenas[(self.batch & 1) as usize]
    }

    /// The bytes of a piece of this batch or the previous one.
    #[inline]
    pub(super) fn bytes(&self, batch: u64, piece: Piece) -> &[u8] {
        assert!(self.batch.wrapping_sub(batch) <= 1, "the arena was reused");
        self.arenas[(batch & 1) as usize].bytes(piece)
    }

    /// Send a piece of this batch's arena. The send finishes at submission: completely or, with a
    /// completion, partially.
    #[inline]
    pub(super) fn send_at_once(&mut self, socket: Socket, piece: Piece, id: u64) {
        let entry = send_at_once(socket, self.arena().bytes(piece)).user_data(id);
        // SAFETY: the bytes are in an arena, which only `next_batch` reuses, after everything
        // queued was submitted. With MSG_DONTWAIT the kernel does not need them after that.
        unsafe { self.queue(&entry) };
    }

    /// Send all bytes starting at `from`, without a time limit. [`Ring::take_back`] returns them.
    pub(super) fn send_slowly(&mut self, fd: RawFd, bytes: Vec<u8>, from: usize, id: u64) {
        let Entry::Vacant(place) = self.in_flight.entry(id) else {
            panic!("two sends with the same ID are in flight");
        };
        let (bytes, _) = place.insert((bytes, from));
        let rest = &bytes[from..];
        let entry = opcode::Send::new(Fd(fd), rest.as_ptr(), rest.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .user_data(id);
        // SAFETY: the bytes are on the heap and stay there, unchanged, until the completion with
        // this ID (`take_back`). Without a completion they are leaked when the ring is dropped.
        unsafe { self.queue(&entry) };
    }

    /// The bytes of a completed send, and how many were sent before it.
    pub(super) fn take_back(&mut self, completed: Completed) -> Option<InFlight> {
        if completed.more { None } else { self.in_flight.remove(&completed.id) }
    }

    /// Connect a socket to an address.
    pub(super) fn connect(&mut self, fd: RawFd, address: &[u8], id: u64) {
        let arena = self.arena();
        let mut piece = arena.start();
        arena.append(&mut piece, address);
        let at = arena.bytes(piece).as_ptr();
        let entry = opcode::Connect::new(Fd(fd), at.cast(), address.len() as u32).build();
        // SAFETY: the kernel copies the address at submission, and it stays in the arena until
        // everything queued was submitted.
        unsafe { self.queue(&entry.user_data(id)) };
    }

    /// Queue a request.
    ///
    /// # Safety
    /// The memory that it points to must stay valid until the submission or, if the kernel needs it
    /// longer, until the completion.
    ///
    /// # Panics
    /// If the queue is full and the kernel accepts nothing more.
    #[inline]
    unsafe fn queue(&mut self, entry: &squeue::Entry) {
        // SAFETY: the caller guarantees it.
        if let Err(e) = unsafe { self.try_queue(entry) } {
            panic_refused(&e);
        }
    }

    /// Queue a request, or return why the kernel accepts nothing more.
    ///
    /// # Safety
    /// Like [`Ring::queue`], unless it fails.
    #[inline]
    unsafe fn try_queue(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: the caller guarantees it.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.try_submit()?;
        }
    }

    /// Submit everything queued, without waiting for completions.
    ///
    /// # Panics
    /// If the kernel accepts nothing more. This thread then cannot continue.
    pub(super) fn submit(&mut self) {
        if let Err(e) = self.try_submit() {
            panic_refused(&e);
        }
    }

    fn try_submit(&mut self) -> io::Result<()> {
        let mut since = None;
        while !self.ring.submission().is_empty() {
            let Err(e) = self.ring.submit() else { continue };
            let began = *since.get_or_insert_with(Instant::now);
            if !is_temporary(&e) || began.elapsed() > REFUSAL_LIMIT {
                return Err(e);
            }
            // EBUSY ends when completions are taken, a memory shortage by itself.
            self.done.extend(self.ring.completion());
            std::thread::sleep(REFUSAL_PAUSE);
        }
        Ok(())
    }

    /// Start the next batch with the available completions.
    pub(super) fn next_batch(&mut self) {
        // Submit the last batch, so that this batch has the results of its sends, and nothing needs
        // the arena of the batch before it.
        if !self.ring.submission().is_empty() {
            self.submit();
        }
        loop {
            self.done.extend(self.ring.completion());
            if !self.ring.submission().cq_overflow() {
                break;
            }
            // The kernel keeps completions that did not fit. It returns them now that there is
            // room.
            self.poll(Span::ZERO);
        }
        self.batch += 1;
        self.arena().clear();
    }

    /// Have these completions of the batch come before all others. Returns how many they are.
    pub(super) fn put_first(&mut self, is_first: impl Fn(u64) -> bool) -> usize {
        let mut place = self.next;
        for at in self.next..self.done.len() {
            if is_first(self.done[at].user_data()) {
                self.done[place..=at].rotate_right(1);
                place += 1;
            }
        }
        place - self.next
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
        Some(Completed { id: c.user_data(), result, more: cqueue::more(flags), flags })
    }

    /// Cancel everything in flight. Returns whether the kernel confirms that nothing is left.
    /// [`Ring::next`] returns the completions.
    pub(super) fn stop_all(&mut self) -> bool {
        if self.try_submit().is_err() {
            return false;
        }
        // First take the completions of requests canceled by ID; otherwise each search for the rest
        // would go through all of them.
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
            // Canceled requests complete when the kernel is entered. If that fails, they have no
            // completion, and so keep their memory.
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

    /// Submit and wait. ETIME is the requested timeout; after EINTR the caller checks the stop
    /// flag; EBUSY and EAGAIN end once completions are taken.
    #[inline]
    fn enter_or_give_up(&mut self, want: usize, at_most: Span) {
        if let Err(e) = self.enter(want, at_most)
            && !is_temporary(&e)
        {
            panic!("waiting for io_uring failed: {e}");
        }
    }

    fn enter(&mut self, want: usize, at_most: Span) -> io::Result<usize> {
        let n = at_most.as_nanos();
        let limit = Timespec::new().sec(n / 1_000_000_000).nsec((n % 1_000_000_000) as u32);
        self.ring.submitter().submit_with_args(want, &SubmitArgs::new().timespec(&limit))
    }

    /// The driver's sends must finish when their submission returns: completely without a
    /// completion, or partially or not at all with a completion that reports how much. Fill a
    /// socket pair to check that.
    fn check_short_sends(&mut self) -> io::Result<()> {
        const WHOLE: usize = 256 << 10;
        let (from, mut to) = UnixStream::pair()?;
        // Less than that, even when the kernel doubles it.
        rustix::net::sockopt::set_socket_send_buffer_size(&from, WHOLE / 8)?;
        to.set_nonblocking(true)?;
        let data = vec![7_u8; WHOLE];
        let entry = send_at_once(Socket::Descriptor(from.as_raw_fd()), &data).user_data(1);
        // SAFETY: `data` lives until the request is submitted; if the send does not finish then,
        // the last lines leak it.
        unsafe { self.queue(&entry) };
        let submitted = self.try_submit();
        self.done.extend(self.ring.completion());
        let mut available = 0;
        let mut buf = vec![0; 1 << 16];
        while let Ok(n @ 1..) = to.read(&mut buf) {
            available += n;
        }
        let is_as_wanted = match self.done.as_slice() {
            [one] => one.result() > 0 && one.result() as usize == available && available < WHOLE,
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
        let is_idle = self.stop_all();
        while let Some(completed) = self.next() {
            drop(self.take_back(completed));
        }
        // Without a completion the kernel may still read them.
        std::mem::forget(std::mem::take(&mut self.in_flight));
        if !is_idle {
            self.buffers.leak();
            std::mem::forget(std::mem::take(&mut self.arenas));
        }
    }
}

/// Cancel everything in flight. Returns the number of requests, which the crate's own function does
/// not return.
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

/// This thread cannot continue. Memory that the kernel may still use is leaked while unwinding.
#[cold]
fn panic_refused(e: &io::Error) -> ! {
    panic!("io_uring accepts no more requests: {e}");
}

/// Whether a refusal may be temporary.
fn is_temporary(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM | libc::ETIME)
    )
}

/// The sizes to try. If memory is limited, skip the largest: a few rings of that size would leave
/// nothing for other threads.
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
        let available = self.ring.completion().len();
        let queued = !self.ring.submission().is_empty();
        // The kernel sets a flag in shared memory when it has completions, so checking costs no
        // system call.
        if at_most == Span::ZERO || available > 0 {
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

/// A send that finishes at submission: completely or, with a completion, partially.
#[inline]
fn send_at_once(socket: Socket, data: &[u8]) -> squeue::Entry {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL | libc::MSG_DONTWAIT;
    socket.send(data).flags(flags).build().flags(squeue::Flags::SKIP_SUCCESS)
}

#[cfg(test)]
pub(super) mod tests;
