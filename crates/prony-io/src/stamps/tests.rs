use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::*;

/// All that is told within half a second, until the device was passed by the write of that number.
fn sent(stamps: &mut Stamps, fd: RawFd, number: u32) -> Vec<KernelStamp> {
    let (mut all, begin) = (Vec::new(), Instant::now());
    let is_last = |s: &KernelStamp| match *s {
        KernelStamp::Sent { passed, number: n, .. } => passed == Passed::Device && n == number,
        KernelStamp::Received(_) => false,
    };
    while !all.iter().any(is_last) && begin.elapsed() < PATIENCE {
        stamps.drain(fd, &mut |stamp| all.push(stamp));
    }
    all
}

fn at(all: &[KernelStamp], wanted: Passed, wanted_number: u32) -> Nanos {
    let found = all.iter().find_map(|s| match *s {
        KernelStamp::Sent { passed, number, at } if (passed, number) == (wanted, wanted_number) => {
            Some(at)
        }
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no {wanted:?} of {wanted_number} in {all:?}"))
}

#[test]
fn a_stream_is_numbered_by_its_last_bytes_and_times_are_in_order() {
    let _keeper = Keeper::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    let fd = client.as_raw_fd();
    enable(fd).unwrap();
    let clock = Clock::starting_now();
    let mut stamps = Stamps::new(clock);
    let mut last = 0;
    for length in [1_usize, 100, 3_000] {
        last += length as u32;
        let before = clock.now();
        client.write_all(&vec![7; length]).unwrap();
        let all = sent(&mut stamps, fd, last - 1);
        let after = clock.now();
        let slack = stamps.told().error;
        let scheduled = at(&all, Passed::Scheduler, last - 1);
        let gone = at(&all, Passed::Device, last - 1);
        assert!(before <= scheduled + slack, "{before} {scheduled}");
        assert!(scheduled <= gone, "{scheduled} {gone}");
        assert!(gone <= after + slack, "{gone} {after}");

        let mut buffer = vec![0; 4_096];
        server.read_exact(&mut buffer[..length]).unwrap();
        server.write_all(b"reply").unwrap();
        assert_eq!(stamps.read(fd, &mut buffer, 0), Read::Data(5));
        let read = clock.now();
        let received = stamps.received().expect("what arrives is stamped");
        assert!(gone < received && received <= read + slack, "{gone} {received} {read}");
        assert_eq!(stamps.received(), None, "it is told once");
    }
    assert!(stamps.told().error < Span::from_millis(1));
    assert_eq!(stamps.told().steps, 0);
}

#[test]
fn messages_are_numbered_one_by_one() {
    let _keeper = Keeper::new().unwrap();
    let peer = UdpSocket::bind("[::1]:0").unwrap();
    let socket = UdpSocket::bind("[::1]:0").unwrap();
    socket.connect(peer.local_addr().unwrap()).unwrap();
    let fd = socket.as_raw_fd();
    enable(fd).unwrap();
    let mut stamps = Stamps::new(Clock::starting_now());
    for number in 0..3 {
        socket.send(&[0; 50]).unwrap();
        let all = sent(&mut stamps, fd, number);
        assert!(at(&all, Passed::Scheduler, number) <= at(&all, Passed::Device, number));
    }
}

#[test]
fn what_has_no_stamps_is_refused_or_tells_nothing() {
    assert_eq!(enable(-1).map_err(|e| e.raw_os_error()), Err(Some(libc::EBADF)));
    let (mut a, b) = std::os::unix::net::UnixStream::pair().unwrap();
    a.write_all(b"x").unwrap();
    let mut stamps = Stamps::new(Clock::starting_now());
    assert_eq!(stamps.read(b.as_raw_fd(), &mut [0; 8], 0), Read::Data(1));
    assert_eq!(stamps.received(), None);
    let mut told = Vec::new();
    assert!(!stamps.drain(b.as_raw_fd(), &mut |stamp| told.push(stamp)));
    assert_eq!(told, []);
}

#[test]
fn an_offset_lies_within_its_error() {
    // The clocks differ by 1,000; the readings took 30 and 50.
    let offset = Offset::between(100, 1_130, 180);
    assert_eq!(offset, Offset { ahead: 990, error: 40 });
    assert!(offset.agrees(Offset { ahead: 1_000, error: 0 }));
    assert!(!offset.agrees(Offset { ahead: 1_100, error: 50 }));
    let now = Offset::now();
    assert!(now.agrees(Offset::now()), "nobody has set the clock");
}

/// The clock is set between two uses: what was stamped between them is not told.
#[test]
fn stamps_around_a_step_of_the_clock_are_thrown_away() {
    let mut stamps = Stamps::new(Clock::starting_now());
    assert!(stamps.measure());
    if let Some(offset) = &mut stamps.offset {
        offset.ahead += 3_600_000_000_000;
    }
    stamps.received = Some(clock::realtime());
    assert_eq!(stamps.received(), None);
    assert_eq!(stamps.told().steps, 1);
    stamps.received = Some(clock::realtime());
    assert!(stamps.received().is_some());
}
