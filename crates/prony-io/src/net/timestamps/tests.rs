use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::*;

/// All timestamps within half a second, up to the device timestamp of the write with this number.
fn sent(stamps: &mut TimestampReader, fd: RawFd, number: u32) -> Vec<KernelStamp> {
    let (mut all, start) = (Vec::new(), Instant::now());
    let is_last = |s: &KernelStamp| match *s {
        KernelStamp::Sent { passed, number: n, .. } => passed == Passed::Device && n == number,
        _ => false,
    };
    while !all.iter().any(is_last) && start.elapsed() < WARM_UP_LIMIT {
        stamps.drain(fd, &mut |stamp| all.push(stamp));
    }
    all
}

/// When the kernel received the data of the last read.
fn received(stamps: &mut TimestampReader) -> Option<Nanos> {
    let mut reported = Vec::new();
    stamps.report_received(&mut |stamp| reported.push(stamp));
    match reported[..] {
        [KernelStamp::Received(at)] => at,
        _ => panic!("expected one kernel timestamp and none of a card: {reported:?}"),
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
fn stream_timestamps_are_numbered_by_last_byte_and_in_order() {
    let _keeper = Keeper::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    let fd = client.as_raw_fd();
    enable(fd).unwrap();
    let clock = Clock::starting_now();
    let mut stamps = TimestampReader::new(clock);
    let mut last = 0;
    for length in [1_usize, 100, 3_000] {
        last += length as u32;
        let before = clock.now();
        client.write_all(&vec![7; length]).unwrap();
        let all = sent(&mut stamps, fd, last - 1);
        let after = clock.now();
        let slack = stamps.clock_quality().error;
        let scheduled = at(&all, Passed::Scheduler, last - 1);
        let sent_at = at(&all, Passed::Device, last - 1);
        assert!(before <= scheduled + slack, "{before} {scheduled}");
        assert!(scheduled <= sent_at, "{scheduled} {sent_at}");
        assert!(sent_at <= after + slack, "{sent_at} {after}");

        let mut buffer = vec![0; 4_096];
        server.read_exact(&mut buffer[..length]).unwrap();
        server.write_all(b"reply").unwrap();
        assert_eq!(stamps.read(fd, &mut buffer, 0), Read::Data(5));
        let read = clock.now();
        let arrived = received(&mut stamps).expect("received data has a timestamp");
        assert!(sent_at < arrived && arrived <= read + slack, "{sent_at} {arrived} {read}");
        assert_eq!(received(&mut stamps), None, "it is reported once");
    }
    assert!(stamps.clock_quality().error < Span::from_millis(1));
    assert_eq!(stamps.clock_quality().steps, 0);
}

#[test]
fn datagram_timestamps_are_numbered_one_by_one() {
    let _keeper = Keeper::new().unwrap();
    let peer = UdpSocket::bind("[::1]:0").unwrap();
    let socket = UdpSocket::bind("[::1]:0").unwrap();
    socket.connect(peer.local_addr().unwrap()).unwrap();
    let fd = socket.as_raw_fd();
    enable(fd).unwrap();
    let mut stamps = TimestampReader::new(Clock::starting_now());
    for number in 0..3 {
        socket.send(&[0; 50]).unwrap();
        let all = sent(&mut stamps, fd, number);
        assert!(at(&all, Passed::Scheduler, number) <= at(&all, Passed::Device, number));
    }
}

#[test]
fn sockets_without_timestamps_are_refused_or_report_none() {
    assert_eq!(enable(-1).map_err(|e| e.raw_os_error()), Err(Some(libc::EBADF)));
    let (mut a, b) = std::os::unix::net::UnixStream::pair().unwrap();
    a.write_all(b"x").unwrap();
    let mut stamps = TimestampReader::new(Clock::starting_now());
    assert_eq!(stamps.read(b.as_raw_fd(), &mut [0; 8], 0), Read::Data(1));
    assert_eq!(received(&mut stamps), None);
    let mut reported = Vec::new();
    assert!(!stamps.drain(b.as_raw_fd(), &mut |stamp| reported.push(stamp)));
    assert_eq!(reported, []);
}

#[test]
fn offset_is_correct_within_its_error() {
    // The clocks differ by 1,000; the readings took 30 and 50.
    let offset = Offset::between(100, 1_130, 180);
    assert_eq!(offset, Offset { ahead: 990, error: 40 });
    assert!(offset.agrees_with(Offset { ahead: 1_000, error: 0 }));
    assert!(!offset.agrees_with(Offset { ahead: 1_100, error: 50 }));
    let now = Offset::now();
    assert!(now.agrees_with(Offset::now()), "the clock was not set");
}

/// The clock is set between two uses: the timestamps in between are discarded.
#[test]
fn discards_timestamps_around_a_clock_step() {
    let mut stamps = TimestampReader::new(Clock::starting_now());
    assert!(stamps.measure());
    if let Some(offset) = &mut stamps.offset {
        offset.ahead += 3_600_000_000_000;
    }
    stamps.received.kernel = Some(clock::realtime());
    assert_eq!(received(&mut stamps), None);
    assert_eq!(stamps.clock_quality().steps, 1);
    stamps.received.kernel = Some(clock::realtime());
    assert!(received(&mut stamps).is_some());
}

/// A message's control data in the kernel's layout.
fn control(parts: &[(libc::c_int, libc::c_int, &[u8])]) -> [u64; CONTROL_WORDS] {
    let mut bytes = Vec::new();
    for &(level, kind, data) in parts {
        let length = size_of::<libc::cmsghdr>() + data.len();
        bytes.extend(length.to_ne_bytes());
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
    }
    let mut control = [0; CONTROL_WORDS];
    for (word, chunk) in control.iter_mut().zip(bytes.chunks(8)) {
        let mut eight = [0; 8];
        eight[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(eight);
    }
    control
}

/// Three times in seconds and nanoseconds: the kernel's, an obsolete one, the card's.
fn three(kernel: (i64, i64), card: (i64, i64)) -> Vec<u8> {
    [kernel.0, kernel.1, 7, 7, card.0, card.1].map(i64::to_ne_bytes).concat()
}

fn numbered(kind: u32, number: u32) -> Vec<u8> {
    let mut e =
        [0_u32, u32::from(libc::SO_EE_ORIGIN_TIMESTAMPING), kind, number].map(u32::to_ne_bytes);
    e[0] = (libc::ENOMSG as u32).to_ne_bytes();
    e.concat()
}

/// Parses these control data.
fn parse(parts: &[(libc::c_int, libc::c_int, &[u8])]) -> Control {
    let mut control = control(parts);
    let message = message(&mut control);
    // SAFETY: the control data has the kernel's layout, followed by zeros.
    unsafe { parse_control(&message) }
}

#[test]
fn distinguishes_kernel_and_card_timestamps() {
    const STAMPS: (libc::c_int, libc::c_int) = (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING);
    let (kernel, card) = (Some(3_000_000_004), Some(5_000_000_006));
    for (of_kernel, of_card, times) in [
        ((3, 4), (0, 0), Times { kernel, card: None }),
        ((0, 0), (5, 6), Times { kernel: None, card }),
        ((3, 4), (5, 6), Times { kernel, card }),
        ((0, 0), (0, 0), Times::default()),
    ] {
        let stamps = three(of_kernel, of_card);
        let read = parse(&[(STAMPS.0, STAMPS.1, &stamps)]);
        assert_eq!(read, Control { at: times, of: None }, "control data of a read");
        let number = numbered(SCM_TSTAMP_SND, 41);
        for (level, kind) in
            [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)]
        {
            let sent = parse(&[(STAMPS.0, STAMPS.1, &stamps), (level, kind, &number)]);
            assert_eq!(sent, Control { at: times, of: Some((SCM_TSTAMP_SND, 41)) });
        }
    }
    // Data too short for three times: ignored.
    let cut = &three((3, 4), (5, 6))[..16];
    assert_eq!(parse(&[(STAMPS.0, STAMPS.1, cut)]), Control::default());
    assert_eq!(parse(&[]), Control::default());
}

/// The clock of the card is unknown, so its times are reported unchanged.
#[test]
fn card_times_are_reported_unchanged() {
    let mut stamps = TimestampReader::new(Clock::starting_now());
    stamps.received = Times { kernel: None, card: Some(77) };
    let mut reported = Vec::new();
    stamps.report_received(&mut |stamp| reported.push(stamp));
    assert_eq!(reported, [KernelStamp::Received(None), KernelStamp::CardReceived(77)]);
}
