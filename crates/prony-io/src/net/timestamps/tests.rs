use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::*;

/// All that is told within half a second, until the device was passed by the write of that number.
fn sent(stamps: &mut Stamps, fd: RawFd, number: u32) -> Vec<KernelStamp> {
    let (mut all, begin) = (Vec::new(), Instant::now());
    let is_last = |s: &KernelStamp| match *s {
        KernelStamp::Sent { passed, number: n, .. } => passed == Passed::Device && n == number,
        _ => false,
    };
    while !all.iter().any(is_last) && begin.elapsed() < PATIENCE {
        stamps.drain(fd, &mut |stamp| all.push(stamp));
    }
    all
}

/// When the kernel received what the last read has brought.
fn received(stamps: &mut Stamps) -> Option<Nanos> {
    let mut told = Vec::new();
    stamps.tell_received(&mut |stamp| told.push(stamp));
    match told[..] {
        [KernelStamp::Received(at)] => at,
        _ => panic!("no card here notes times, and one read is told of once: {told:?}"),
    }
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
        let arrived = received(&mut stamps).expect("what arrives is stamped");
        assert!(gone < arrived && arrived <= read + slack, "{gone} {arrived} {read}");
        assert_eq!(received(&mut stamps), None, "it is told once");
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
    assert_eq!(received(&mut stamps), None);
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
    stamps.received.kernel = Some(clock::realtime());
    assert_eq!(received(&mut stamps), None);
    assert_eq!(stamps.told().steps, 1);
    stamps.received.kernel = Some(clock::realtime());
    assert!(received(&mut stamps).is_some());
}

/// A message's control data as the kernel writes them.
fn control(parts: &[(libc::c_int, libc::c_int, &[u8])]) -> [u64; CONTROL] {
    let mut bytes = Vec::new();
    for &(level, kind, data) in parts {
        let length = size_of::<libc::cmsghdr>() + data.len();
        bytes.extend(length.to_ne_bytes());
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
    }
    let mut control = [0; CONTROL];
    for (word, chunk) in control.iter_mut().zip(bytes.chunks(8)) {
        let mut eight = [0; 8];
        eight[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(eight);
    }
    control
}

/// Three moments in seconds and nanoseconds: the kernel's, one of old, the card's.
fn three(kernel: (i64, i64), card: (i64, i64)) -> Vec<u8> {
    [kernel.0, kernel.1, 7, 7, card.0, card.1].map(i64::to_ne_bytes).concat()
}

fn numbered(kind: u32, number: u32) -> Vec<u8> {
    let mut e =
        [0_u32, u32::from(libc::SO_EE_ORIGIN_TIMESTAMPING), kind, number].map(u32::to_ne_bytes);
    e[0] = (libc::ENOMSG as u32).to_ne_bytes();
    e.concat()
}

/// What a message with these control data tells.
fn told_by(parts: &[(libc::c_int, libc::c_int, &[u8])]) -> Told {
    let mut control = control(parts);
    let message = message(&mut control);
    // SAFETY: the control data are laid out as the kernel does it, and zero behind.
    unsafe { told(&message) }
}

#[test]
fn the_kernels_stamp_and_the_cards_are_told_apart() {
    const STAMPS: (libc::c_int, libc::c_int) = (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING);
    let (kernel, card) = (Some(3_000_000_004), Some(5_000_000_006));
    for (of_kernel, of_card, times) in [
        ((3, 4), (0, 0), Times { kernel, card: None }),
        ((0, 0), (5, 6), Times { kernel: None, card }),
        ((3, 4), (5, 6), Times { kernel, card }),
        ((0, 0), (0, 0), Times::default()),
    ] {
        let stamps = three(of_kernel, of_card);
        let read = told_by(&[(STAMPS.0, STAMPS.1, &stamps)]);
        assert_eq!(read, Told { at: times, of: None }, "of what was read");
        let number = numbered(SCM_TSTAMP_SND, 41);
        for (level, kind) in
            [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)]
        {
            let sent = told_by(&[(STAMPS.0, STAMPS.1, &stamps), (level, kind, &number)]);
            assert_eq!(sent, Told { at: times, of: Some((SCM_TSTAMP_SND, 41)) });
        }
    }
    // Not the three of them: of another kernel, and not ours to read.
    let cut = &three((3, 4), (5, 6))[..16];
    assert_eq!(told_by(&[(STAMPS.0, STAMPS.1, cut)]), Told::default());
    assert_eq!(told_by(&[]), Told::default());
}

/// Nothing is known of a card's clock, so its times are told as they are.
#[test]
fn a_cards_times_are_told_as_they_are() {
    let mut stamps = Stamps::new(Clock::starting_now());
    stamps.received = Times { kernel: None, card: Some(77) };
    let mut told = Vec::new();
    stamps.tell_received(&mut |stamp| told.push(stamp));
    assert_eq!(told, [KernelStamp::Received(None), KernelStamp::CardReceived(77)]);
}
