//! Registered files: a request on a socket whose file is registered need not look up the
//! descriptor, which takes two atomic operations on the file.
//!
//! A registered file stays open when its descriptor is closed, so it is first unregistered.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;

use io_uring::opcode;
use io_uring::types::{Fd, Fixed};
use io_uring::{IoUring, squeue};

use super::Ring;

/// How many files can be registered, those of the first connections. A place takes eight bytes.
const PLACES: u32 = 1_024;

/// No file, as the kernel reads it from memory.
static NO_FILE: RawFd = -1;

/// The socket of a request.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Socket {
    Descriptor(RawFd),
    /// A registered file, by its place.
    Registered(u32),
}

/// Prepare the places for files, if the kernel allows it. Returns their number.
pub(super) fn register(ring: &IoUring) -> u32 {
    ring.submitter().register_files_sparse(PLACES).map_or(0, |()| PLACES)
}

impl Socket {
    /// A send from this memory.
    #[inline]
    pub(super) fn send(self, data: &[u8]) -> opcode::Send {
        let (at, len) = (data.as_ptr(), data.len() as u32);
        match self {
            Self::Descriptor(fd) => opcode::Send::new(Fd(fd), at, len),
            Self::Registered(place) => opcode::Send::new(Fixed(place), at, len),
        }
    }
}

impl Ring {
    /// Register a socket's file in this place. Returns false if that is not possible. The file
    /// stays open until [`Ring::unregister_file`].
    pub(in super::super) fn register_file(&mut self, place: u32, socket: BorrowedFd<'_>) -> bool {
        place < self.places
            && self
                .ring
                .submitter()
                .register_files_update(place, &[socket.as_raw_fd()])
                .is_ok_and(|n| n == 1)
    }

    /// Unregister the file in this place, after the queued requests that use it.
    pub(in super::super) fn unregister_file(&mut self, place: u32) {
        let at = &raw const NO_FILE;
        let entry = opcode::FilesUpdate::new(at, 1).offset(place as i32).build();
        // SAFETY: the memory is a constant.
        unsafe { self.queue(&entry.flags(squeue::Flags::SKIP_SUCCESS)) };
    }

    /// Unregister all files. None can be registered afterwards.
    pub(in super::super) fn unregister_all(&mut self) {
        if std::mem::take(&mut self.places) > 0 {
            let _ = self.ring.submitter().unregister_files();
        }
    }

    /// Older kernels may close an unregistered file up to a second late. Check this one with a
    /// socket pair, and register no files if it is late.
    pub(super) fn check_closing(&mut self) -> io::Result<()> {
        let (socket, mut peer) = UnixStream::pair()?;
        peer.set_nonblocking(true)?;
        let mut closes = false;
        if self.register_file(0, socket.as_fd()) {
            self.unregister_file(0);
            drop(socket);
            self.try_submit()?;
            closes = matches!(peer.read(&mut [0]), Ok(0));
        }
        self.done.extend(self.ring.completion());
        self.done.clear();
        if !closes {
            self.unregister_all();
        }
        Ok(())
    }
}
