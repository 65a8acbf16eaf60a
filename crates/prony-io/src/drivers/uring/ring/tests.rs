//! The ring's memory, with and without refusals of the kernel.

use std::cell::RefCell;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use super::super::buffers::FREED;
use super::*;

#[test]
fn ring_has_the_largest_size_that_fits_into_memory() {
    let refused = |errno, least| {
        let tried = RefCell::new(Vec::new());
        let made = largest(&SIZES, |(requests, _)| {
            tried.borrow_mut().push(requests);
            if requests > least { Err(io::Error::from_raw_os_error(errno)) } else { Ok(requests) }
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

/// From now on, make a system call of this thread fail with this error.
pub(in super::super) fn forbid(call: libc::c_long, errno: i32) {
    let stmt = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let is_call = libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: call as u32 };
    let refuse = libc::SECCOMP_RET_ERRNO | errno as u32;
    // Load the system call number, compare, refuse, allow.
    let mut filter =
        [stmt(0x20, 0), is_call, stmt(0x06, refuse), stmt(0x06, libc::SECCOMP_RET_ALLOW)];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter live until the calls return.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

/// Run `test` in a new thread with a ring, if the kernel allows one.
fn with_ring(test: impl FnOnce(Ring) + Send + 'static) {
    let run = || match Ring::new() {
        Ok(ring) => test(ring),
        Err(e) => eprintln!("no io_uring: {e}"),
    };
    std::thread::spawn(run).join().unwrap();
}

fn pair_with_receive(ring: &mut Ring) -> (UnixStream, UnixStream) {
    let (a, b) = UnixStream::pair().unwrap();
    ring.push(Request::receive(a.as_raw_fd()), 1);
    ring.submit();
    (a, b)
}

#[test]
fn frees_its_memory_when_nothing_is_in_flight() {
    with_ring(|mut ring| {
        let (_a, mut b) = pair_with_receive(&mut ring);
        b.write_all(b"hello").unwrap();
        ring.poll(Span::from_secs(5));
        ring.next_batch();
        let filled = ring.next().unwrap().filled().unwrap();
        assert_eq!(ring.buffers().received(&filled), b"hello");
        ring.buffers().give_back(filled);
        assert!(ring.stop_all(), "the active receive can be canceled");
        assert_eq!(ring.next().map(|c| (c.id(), c.more)), Some((1, false)));
        drop(ring);
        assert_eq!(FREED.get(), 1);
    });
}

#[test]
fn leaks_receive_buffers_when_the_receive_cannot_be_stopped() {
    with_ring(|mut ring| {
        let (_a, mut b) = pair_with_receive(&mut ring);
        forbid(libc::SYS_io_uring_register, libc::EPERM);
        assert!(!ring.stop_all());
        drop(ring);
        assert_eq!(FREED.get(), 0, "the kernel may still write to them");
        // Data that arrives now does no harm.
        let _ = b.write_all(b"late");
    });
}

#[test]
fn keeps_the_bytes_of_a_send_until_it_completes() {
    with_ring(|mut ring| {
        let (a, mut b) = UnixStream::pair().unwrap();
        ring.send_slowly(a.as_raw_fd(), vec![7; 4 << 20], 1, 9);
        ring.submit();
        assert_eq!(ring.in_flight.len(), 1, "more than fits into the socket is in flight");
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; (4 << 20) - 1];
            b.read_exact(&mut all).unwrap();
            all.iter().all(|&byte| byte == 7)
        });
        let sent = loop {
            ring.poll(Span::from_secs(5));
            ring.next_batch();
            if let Some(c) = ring.next() {
                assert_eq!((c.id(), c.result), (9, (4 << 20) - 1));
                break ring.take_back(c).unwrap();
            }
        };
        assert_eq!((sent.0.len(), sent.1), (4 << 20, 1));
        assert!(reader.join().unwrap());
        assert!(ring.in_flight.is_empty());
    });
}

#[test]
#[should_panic(expected = "two sends with the same ID")]
fn refuses_a_second_send_with_the_same_id() {
    let Ok(mut ring) = Ring::new() else { panic!("no io_uring: two sends with the same ID") };
    let (a, _b) = UnixStream::pair().unwrap();
    ring.send_slowly(a.as_raw_fd(), vec![1; 4 << 20], 0, 9);
    ring.send_slowly(a.as_raw_fd(), vec![2; 10], 0, 9);
}

#[test]
fn full_queue_is_submitted_without_losses() {
    with_ring(|mut ring| {
        // More than the largest queue holds; each completes, because there is nothing to cancel.
        const ALL: u64 = 5_000;
        for name in 1..=ALL {
            ring.push(Request::cancel(1 << 40), name);
        }
        let mut names = Vec::new();
        ring.poll(Span::ZERO);
        ring.next_batch();
        while let Some(c) = ring.next() {
            assert_eq!(c.result, -libc::ENOENT);
            names.push(c.id());
        }
        assert_eq!(names, (1..=ALL).collect::<Vec<_>>());
    });
}

#[test]
fn offer_returns_false_when_the_kernel_refuses_a_full_queue() {
    with_ring(|mut ring| {
        let (_a, _b) = pair_with_receive(&mut ring);
        forbid(libc::SYS_io_uring_enter, libc::EPERM);
        let room = ring.ring.params().sq_entries();
        let taken = (0..2 * room).filter(|_| ring.offer(Request::cancel(1), 2)).count();
        assert_eq!(taken as u32, room, "the rest is refused without a panic");
        assert!(!ring.stop_all());
        drop(ring);
        assert_eq!(FREED.get(), 0, "the kernel may still write for the active receive");
    });
}

/// While requests wait for submission, no batch starts and no arena is reused.
#[test]
fn panics_when_the_kernel_accepts_no_more_requests() {
    let run = || {
        let mut ring = Ring::new().unwrap();
        let (a, mut b) = UnixStream::pair().unwrap();
        let mut piece = ring.arena().start();
        ring.arena().append(&mut piece, b"hello");
        ring.send_at_once(Socket::Descriptor(a.as_raw_fd()), piece, 2);
        forbid(libc::SYS_io_uring_enter, libc::EPERM);
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            ring.next_batch();
        }));
        let message = *refused.unwrap_err().downcast::<String>().unwrap();
        assert!(message.starts_with("io_uring accepts no more requests: "), "{message}");
        assert_eq!(ring.bytes(0, piece), b"hello", "the arena is unchanged");
        drop(ring);
        assert_eq!(FREED.get(), 0);
        drop(a);
        let mut received = Vec::new();
        b.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"", "nothing was sent");
    };
    if Ring::new().is_ok() {
        std::thread::spawn(run).join().unwrap();
    }
}

/// A registered file is used by its place, closes when it is unregistered, and leaves its place to
/// the next.
#[test]
fn registered_files_are_used_and_closed() {
    with_ring(|mut ring| {
        if ring.places == 0 {
            return eprintln!("this kernel closes registered files late");
        }
        for round in 0..2 {
            let (a, mut b) = UnixStream::pair().unwrap();
            b.set_nonblocking(true).unwrap();
            assert!(ring.register_file(3, a.as_fd()));
            let mut piece = ring.arena().start();
            ring.arena().append(&mut piece, &[round; 5]);
            ring.send_at_once(Socket::Registered(3), piece, 1);
            // In the order of the queue: the bytes first.
            ring.unregister_file(3);
            drop(a);
            ring.next_batch();
            assert_eq!(ring.next().map(|c| c.result), None);
            let mut received = Vec::new();
            b.read_to_end(&mut received).unwrap();
            assert_eq!(received, [round; 5]);
        }
        let (a, mut b) = UnixStream::pair().unwrap();
        let places = ring.places;
        assert!(!ring.register_file(places, a.as_fd()), "there is no such place");
        assert!(ring.register_file(places - 1, a.as_fd()));
        ring.unregister_all();
        assert!(!ring.register_file(0, a.as_fd()));
        drop(a);
        assert_eq!(b.read(&mut [0]).unwrap(), 0);
    });
}
