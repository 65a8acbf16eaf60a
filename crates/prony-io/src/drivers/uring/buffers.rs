//! Receive buffers for the kernel (a ring of provided buffers), and memory for output that waits
//! for submission.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

/// The number of receive buffers; a power of two.
const BUFFERS: u16 = 512;
/// The size of each buffer.
const SIZE: usize = 16 * 1024;
/// The kernel requires the entries to be page-aligned.
const PAGE: usize = 4096;

/// The worker's receive buffers. The kernel owns a buffer from `give_back` until a completion
/// refers to it.
#[derive(Debug)]
pub(super) struct Buffers {
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    tail: u16,
    /// Leak them when dropped, because the kernel may still write to them.
    leaks: bool,
}

/// A buffer that the kernel has filled and released. It is unique, and `give_back` consumes it.
#[derive(Debug)]
pub(super) struct Filled {
    id: u16,
    len: usize,
}

impl Filled {
    /// Buffer `id` with `len` bytes.
    ///
    /// # Safety
    /// A completion refers to the buffer, and this is the only `Filled` made from that completion.
    #[inline]
    pub(super) unsafe fn new(id: u16, len: usize) -> Self {
        assert!(id < BUFFERS && len <= SIZE, "buffer {id} of {len} bytes");
        Self { id, len }
    }
}

impl Buffers {
    /// Buffers that all belong to the kernel once it knows the entries.
    pub(super) fn new() -> Self {
        let mut b = Self {
            entries: allocate(entries_layout()).cast(),
            memory: allocate(memory_layout()),
            tail: 0,
            leaks: false,
        };
        for id in 0..BUFFERS {
            b.put(id);
        }
        b.publish();
        b
    }

    /// The page-aligned address of the entries, and their number.
    pub(super) fn entries(&self) -> (u64, u16) {
        (self.entries.as_ptr() as u64, BUFFERS)
    }

    /// The data in the buffer.
    #[inline]
    pub(super) fn received(&mut self, buffer: &Filled) -> &mut [u8] {
        // SAFETY: the range is inside `memory` by the assertion in `Filled::new`. The kernel has
        // released the buffer, and `give_back` needs `&mut self`, so nothing writes to it while the
        // slice lives.
        unsafe {
            let at = self.memory.as_ptr().add(usize::from(buffer.id) * SIZE);
            std::slice::from_raw_parts_mut(at, buffer.len)
        }
    }

    /// Return the buffer to the kernel with the next `publish`.
    #[inline]
    pub(super) fn give_back(&mut self, buffer: Filled) {
        self.put(buffer.id);
    }

    /// Never free the memory: the kernel may still write to it.
    pub(super) fn leak(&mut self) {
        self.leaks = true;
    }

    /// Make the returned buffers visible to the kernel.
    #[inline]
    pub(super) fn publish(&mut self) {
        // SAFETY: `entries` points to the first entry, which contains the tail; it is aligned, and
        // the kernel reads it with acquire ordering, which AtomicU16 allows.
        unsafe {
            let at = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(at).store(self.tail, Ordering::Release);
        }
    }

    #[inline]
    fn put(&mut self, id: u16) {
        let at = usize::from(self.tail & (BUFFERS - 1));
        // SAFETY: `at` is below BUFFERS, so the entry is inside the allocation. It is not between
        // head and tail, because there are as many entries as buffers, so the kernel does not read
        // it. Only addr, len and bid are written: the rest of the first entry is the tail.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(at);
            entry.set_addr(self.memory.as_ptr().add(usize::from(id) * SIZE) as u64);
            entry.set_len(SIZE as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.leaks {
            return;
        }
        #[cfg(test)]
        FREED.set(FREED.get() + 1);
        // SAFETY: both were allocated with these layouts, and the kernel no longer uses them:
        // otherwise the ring has called `leak`.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), entries_layout());
            dealloc(self.memory.as_ptr(), memory_layout());
        }
    }
}

fn entries_layout() -> Layout {
    let size = size_of::<BufRingEntry>() * usize::from(BUFFERS);
    Layout::from_size_align(size, PAGE).expect("a small layout")
}

/// Not aligned more strictly than the allocator's default: it then uses pages that the kernel
/// zeroes on first write, instead of writing 8 MiB of zeros at the start.
fn memory_layout() -> Layout {
    Layout::from_size_align(SIZE * usize::from(BUFFERS), 16).expect("a small layout")
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layouts above do not have size zero.
    let at = unsafe { alloc_zeroed(layout) };
    NonNull::new(at).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Output of one batch that waits for submission. The bytes stay in place until the batch after the
/// next starts; by then all their sends have finished.
#[derive(Debug, Default)]
pub(super) struct Arena {
    chunks: Vec<Box<[u8]>>,
    /// The current chunk, and how much of it is used.
    chunk: usize,
    used: usize,
}

/// A piece of an arena.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Piece {
    chunk: u32,
    at: u32,
    pub(super) len: u32,
}

const CHUNK: usize = 256 * 1024;
/// The minimum capacity of a new piece.
const ROOM: usize = 64 * 1024;

impl Piece {
    /// No bytes.
    pub(super) const NONE: Self = Self { chunk: 0, at: 0, len: 0 };
}

impl Arena {
    /// Remove all pieces.
    pub(super) fn clear(&mut self) {
        (self.chunk, self.used) = (0, 0);
    }

    /// Start a piece.
    pub(super) fn start(&mut self) -> Piece {
        if CHUNK - self.used < ROOM {
            self.chunk += 1;
            self.used = 0;
        }
        if self.chunk >= self.chunks.len() {
            self.chunks.push(vec![0; CHUNK].into_boxed_slice());
        }
        Piece { chunk: self.chunk as u32, at: self.used as u32, len: 0 }
    }

    /// Append to the last started piece. Returns how many bytes fit.
    #[inline]
    pub(super) fn append(&mut self, piece: &mut Piece, data: &[u8]) -> usize {
        let n = data.len().min(CHUNK - self.used);
        self.chunks[self.chunk][self.used..self.used + n].copy_from_slice(&data[..n]);
        self.used += n;
        piece.len += n as u32;
        n
    }

    /// The piece's bytes.
    #[inline]
    pub(super) fn bytes(&self, piece: Piece) -> &[u8] {
        let at = piece.at as usize;
        &self.chunks[piece.chunk as usize][at..at + piece.len as usize]
    }

    /// Remove the last started piece.
    pub(super) fn undo(&mut self, piece: Piece) {
        self.used = piece.at as usize;
    }
}

#[cfg(test)]
thread_local! {
    /// How often this thread has freed its buffers.
    pub(super) static FREED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_move() {
        let mut arena = Arena::default();
        let mut all = Vec::new();
        for i in 0..100_u8 {
            let mut piece = arena.start();
            let data = vec![i; 1 + usize::from(i) * 700];
            let n = arena.append(&mut piece, &data);
            assert!(n == data.len() || n >= ROOM);
            all.push((piece, i, arena.bytes(piece).as_ptr()));
        }
        for (piece, i, at) in all {
            assert!(arena.bytes(piece).iter().all(|&b| b == i));
            assert_eq!(arena.bytes(piece).as_ptr(), at);
        }
    }

    #[test]
    fn undo_frees_the_room_of_a_piece() {
        let mut arena = Arena::default();
        let mut piece = arena.start();
        let n = arena.append(&mut piece, &[1; CHUNK + 5]);
        assert_eq!(n, CHUNK);
        arena.undo(piece);
        let mut again = arena.start();
        assert_eq!(arena.append(&mut again, &[2; 10]), 10);
        assert_eq!(arena.bytes(again), [2; 10]);
    }
}
