//! The test cases, each parameterized by the driver.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use prony_base::fault::Fault;
use prony_base::machine::{CloseHow, Machine, StopRequest};
use prony_base::units::{Nanos, Span};
use prony_io::clock::Clock;
use prony_io::drivers::Driver;
use prony_io::drivers::config::{Config, Watched};
use prony_io::socket::Remote;
use prony_io::{
    Control, DriverChoice, DriverStats, Listen, Options, Precision, Served, SocketOptions, bind,
    limits, serve,
};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::child::alone;
use crate::machines::{Client, Echo, Exchange, Ticker};

const ONCE: Exchange =
    Exchange { connections: 1, messages: 1, size: 10, fresh: false, close: CloseHow::Orderly };

fn config(to: &[SocketAddr]) -> Config {
    remote(vec![to.iter().map(|&a| Remote::inet(a)).collect()])
}

fn remote(endpoints: Vec<Vec<Remote>>) -> Config {
    Config {
        endpoints,
        listeners: Vec::new(),
        dedicated: None,
        sources: Vec::new(),
        sockets: SocketOptions::default(),
        worker: (0, 1),
        precision: Precision::Auto,
        tcp_info: true,
        timestamps: false,
    }
}

fn drive<M: Machine>(on: DriverChoice, config: Config, machine: &mut M) -> DriverStats {
    let mut driver = Driver::new(on, config).expect("the driver can be set up");
    let mut pulse = |_: &mut M, _, _| {};
    let mut watched = Watched { owner: machine, machine: |m| m, pulse: &mut pulse };
    driver.run(&mut watched, Clock::starting_now(), Control::new().stop_flag())
}

/// Run `body` against this server on the same driver. Returns the server's result.
pub(crate) fn with_server<M: Machine + Send>(
    on: DriverChoice,
    at: &Listen,
    machine: M,
    body: impl FnOnce(&Listen),
) -> Served<M> {
    let listener = bind(at).expect("a loopback address can be bound");
    let local = listener.local().clone();
    let control = Control::new();
    let options = Options { driver: on, ..Options::default() };
    thread::scope(|s| {
        let server = s.spawn(|| serve(vec![machine], &[listener], &options, &control, &|_, _| {}));
        // Stop the server even if `body` panics; otherwise the scope would wait for it forever.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&local)));
        control.stop_now();
        let served = server.join().expect("no panic").expect("it can serve").pop();
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
        served.expect("one worker")
    })
}

pub(crate) fn loopback() -> Listen {
    Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())
}

pub(crate) fn inet(at: &Listen) -> SocketAddr {
    match at {
        Listen::Tcp(a) => *a,
        _ => panic!("a TCP listener"),
    }
}

/// Exchanges with an echo server on the same driver, checked on both sides.
fn exchange(on: DriverChoice, plan: Exchange) -> DriverStats {
    let mut stats = DriverStats::default();
    let served = with_server(on, &loopback(), Echo::default(), |at| {
        let mut client = Client::new(plan);
        stats = drive(on, config(&[inet(at)]), &mut client);
        assert_eq!(client.faults, []);
        assert_eq!(client.echoed, u64::from(plan.connections * plan.messages));
    });
    let connections = if plan.fresh { plan.connections * plan.messages } else { plan.connections };
    assert_eq!(served.machine.accepted, u64::from(connections));
    assert_eq!(
        served.machine.bytes,
        u64::from(plan.connections) * u64::from(plan.messages) * plan.size as u64
    );
    assert_eq!(served.driver, if on == DriverChoice::Epoll { "epoll" } else { "io_uring" });
    stats
}

/// This many connections, or fewer if the descriptor limit is low: both ends of each are in this
/// process, and other tests run in parallel.
fn at_most(connections: u32) -> u32 {
    let (limit, _) = limits::raise_descriptors();
    connections.min(limit as u32 / 10)
}

pub(crate) fn echo_over_a_thousand_connections(on: DriverChoice) {
    let connections = at_most(1_000);
    let stats = exchange(on, Exchange { connections, messages: 5, size: 100, ..ONCE });
    let sampled = stats.transport.sampled;
    assert_eq!(sampled, u64::from(connections), "all kept-alive connections are sampled");
    assert!(stats.transport.rtt_max > Span::ZERO);
}

pub(crate) fn megabytes_in_both_directions(on: DriverChoice) {
    exchange(on, Exchange { connections: 3, messages: 2, size: 6 << 20, ..ONCE });
}

pub(crate) fn fresh_connection_per_message(on: DriverChoice) {
    let plan = Exchange { connections: 40, messages: 25, size: 64, fresh: true, ..ONCE };
    let stats = exchange(on, plan);
    assert_eq!(stats.transport.sampled, 1000_u64.div_ceil(16), "one in 16 of short-lived ones");
    exchange(on, Exchange { close: CloseHow::Reset, ..plan });
}

/// Accept one connection on a free loopback port and pass it to `peer` in a new thread.
fn scripted(peer: impl FnOnce(TcpStream) + Send + 'static) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let peer = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        peer(stream);
    });
    (at, peer)
}

fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}

pub(crate) fn half_close_keeps_our_direction_open(on: DriverChoice) {
    // The echo server sees the end of the stream early, and must still send everything.
    let served = with_server(on, &loopback(), Echo::default(), |at| {
        let mut s = TcpStream::connect(inet(at)).unwrap();
        let sent: Vec<u8> = (0..3 << 20).map(|i: u32| i as u8).collect();
        let (mut half, copy) = (s.try_clone().unwrap(), sent.clone());
        let writer = thread::spawn(move || {
            half.write_all(&copy).unwrap();
            half.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        s.read_to_end(&mut back).unwrap();
        writer.join().unwrap();
        assert!(back == sent, "{} of {} bytes", back.len(), sent.len());
    });
    assert_eq!(served.machine.faults, []);
}

pub(crate) fn refused_connect_tries_the_next_address(on: DriverChoice) {
    // Bound, so that no other test gets the port, but without a listener.
    let silent = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    silent.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let closed = silent.local_addr().unwrap().as_socket().unwrap();
    let mut client = Client::new(Exchange { connections: 3, ..ONCE });
    drive(on, config(&[closed]), &mut client);
    assert_eq!(client.faults, [Some(Fault::ConnectRefused); 3]);

    let served = with_server(on, &loopback(), Echo::default(), |at| {
        let mut client = Client::new(Exchange { connections: 3, ..ONCE });
        drive(on, config(&[closed, inet(at)]), &mut client);
        assert_eq!(client.faults, []);
        assert_eq!(client.echoed, 3);
    });
    assert_eq!(served.machine.accepted, 3);
}

pub(crate) fn reset_after_data(on: DriverChoice) {
    let (at, peer) = scripted(|mut s| {
        let mut all = [0; 10];
        s.read_exact(&mut all).unwrap();
        s.write_all(&all).unwrap();
        // Make sure that the echo is sent before the reset.
        thread::sleep(Duration::from_millis(50));
        reset(s);
    });
    let mut client = Client::new(Exchange { messages: 2, ..ONCE });
    drive(on, config(&[at]), &mut client);
    peer.join().unwrap();
    assert_eq!(client.echoed, 1);
    assert_eq!(client.faults, [Some(Fault::Reset)]);
}

pub(crate) fn peer_sees_a_reset_close(on: DriverChoice) {
    for (how, expected) in [(CloseHow::Reset, Err(())), (CloseHow::Orderly, Ok(0))] {
        let (at, peer) = scripted(move |mut s| {
            let mut all = [0; 10];
            s.read_exact(&mut all).unwrap();
            s.write_all(&all).unwrap();
            let end = s.read(&mut all);
            assert_eq!(end.map_err(|e| assert_eq!(e.raw_os_error(), Some(104))), expected);
        });
        let mut client = Client::new(Exchange { close: how, ..ONCE });
        drive(on, config(&[at]), &mut client);
        peer.join().unwrap();
        assert_eq!(client.echoed, 1);
    }
}

pub(crate) fn orderly_close_delivers_everything(on: DriverChoice) {
    // The server closes while our data is unread and still arriving: a plain close would reset the
    // connection and discard its last bytes.
    let echo = Echo::closing_after(1000, 2 << 20);
    let served = with_server(on, &loopback(), echo, |at| {
        let mut s = TcpStream::connect(inet(at)).unwrap();
        s.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut half = s.try_clone().unwrap();
        let writer = thread::spawn(move || {
            for _ in 0..50 {
                half.write_all(&[b'a'; 1000]).unwrap();
                thread::sleep(Duration::from_millis(2));
            }
            half.shutdown(Shutdown::Write).unwrap();
        });
        thread::sleep(Duration::from_millis(50));
        let mut back = Vec::new();
        s.read_to_end(&mut back).expect("no reset");
        writer.join().unwrap();
        assert_eq!(back.len(), 2 << 20);
    });
    assert_eq!(served.machine.faults, []);
}

/// The machine itself requires that no tick is early. How late they are depends on the other load
/// of the machine; without any, `cargo xtask truth` measures it.
pub(crate) fn ticks_are_never_early_and_spin_as_chosen(on: DriverChoice) {
    for precision in [Precision::Sleep, Precision::Auto, Precision::Spin] {
        let mut t = Ticker::new(Some(Span::from_micros(700)), Span::from_millis(350));
        let stats = drive(on, Config { precision, ..config(&[]) }, &mut t);
        assert!(!t.late.is_empty(), "{precision:?}");
        match precision {
            Precision::Sleep | Precision::Grain(_) => assert_eq!(stats.spin, Span::ZERO),
            Precision::Auto => assert!(stats.spin < stats.end.since(Nanos::ZERO)),
            // There is nothing else to wait with.
            Precision::Spin => assert!(stats.spin > Span::ZERO),
        }
    }
}

/// A yielding machine does not wait, neither for the next pulse nor for its deadline.
pub(crate) fn yielding_machine_gets_all_its_turns(on: DriverChoice) {
    let mut t = Ticker::new(None, Span::from_secs(30));
    t.yielded = 5_000;
    let stats = drive(on, config(&[]), &mut t);
    assert_eq!(t.turns, 5_000);
    // With 20 pulses a second, 5,000 waits for the next one would take 250 s.
    assert!(stats.end < Nanos::ZERO + Span::from_secs(30), "{}", stats.end);
}

pub(crate) fn grain_groups_ticks(on: DriverChoice) {
    let grain = Span::from_millis(10);
    let mut t = Ticker::new(Some(Span::from_micros(700)), Span::from_millis(350));
    let stats = drive(on, Config { precision: Precision::Grain(grain), ..config(&[]) }, &mut t);
    // The next deadline is 0.7 ms after the last tick, so it is handled at the next multiple.
    assert!((1..=36).contains(&t.late.len()), "{} ticks", t.late.len());
    assert_eq!(stats.spin, Span::ZERO);
}

/// It sees each request after it was made, and long before its own deadline.
pub(crate) fn stop_requests_reach_an_idle_machine(on: DriverChoice) {
    const DEADLINE: Span = Span::from_secs(60);
    let control = Control::new();
    let mut t = Ticker::new(None, DEADLINE);
    let clock = Clock::starting_now();
    let (mut first, mut second) = (Nanos::ZERO, Nanos::ZERO);
    thread::scope(|s| {
        s.spawn(|| {
            let mut d = Driver::new(on, config(&[])).unwrap();
            let mut watched = Watched { owner: &mut t, machine: |t| t, pulse: &mut |_, _, _| {} };
            d.run(&mut watched, clock, control.stop_flag());
        });
        thread::sleep(Duration::from_millis(120));
        first = clock.now();
        control.stop();
        thread::sleep(Duration::from_millis(300));
        second = clock.now();
        control.stop();
    });
    // A thread that has had no turn in between has seen both at once.
    let (last, earlier) = t.stops.split_last().expect("it has seen the second");
    assert!(earlier.iter().all(|&(how, at)| how == StopRequest::Drain && at >= first));
    let &(how, at) = last;
    assert!(how == StopRequest::Now && at >= second, "{how:?} {at}, and not {second}");
    assert!(at < Nanos::ZERO + DEADLINE, "{at}: at its deadline");
}

/// Pulses come without deadlines and beside them, and are not close together.
pub(crate) fn pulses_come_at_intervals(on: DriverChoice) {
    for every in [None, Some(Span::from_micros(300))] {
        let mut t = Ticker::new(every, Span::from_secs(60));
        let mut d = Driver::new(on, config(&[])).unwrap();
        let (control, mut at) = (Control::new(), Vec::new());
        let mut pulse = |_: &mut Ticker, now, _| {
            at.push(now);
            if at.len() == 12 {
                control.stop_now();
            }
        };
        let mut watched = Watched { owner: &mut t, machine: |t| t, pulse: &mut pulse };
        d.run(&mut watched, Clock::starting_now(), control.stop_flag());
        assert!(at.len() >= 12, "{} pulses in a minute", at.len());
        // Each comes half of the mean time after the last one, or more.
        let apart = at[..12].windows(2).all(|w| w[1].since(w[0]) >= Span::from_millis(25));
        assert!(apart, "{at:?}");
    }
}

pub(crate) fn unix_sockets(on: DriverChoice) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("echo");
    let to = |plan| {
        let mut client = Client::new(plan);
        drive(on, remote(vec![vec![Remote::unix(&path).unwrap()]]), &mut client);
        client
    };
    assert_eq!(to(ONCE).faults, [Some(Fault::ConnectRefused)]);
    let at = Listen::Unix(path.clone());
    let served = with_server(on, &at, Echo::default(), |_| {
        for plan in [
            Exchange { connections: 100, messages: 5, ..ONCE },
            Exchange { connections: 2, messages: 2, size: 3 << 20, ..ONCE },
            Exchange { connections: 20, messages: 20, fresh: true, ..ONCE },
        ] {
            let client = to(plan);
            assert_eq!(client.faults, []);
            assert_eq!(client.echoed, u64::from(plan.connections * plan.messages));
        }
    });
    assert_eq!(served.machine.accepted, 100 + 2 + 400);
    assert!(!path.exists(), "the listener removes its path");
}

pub(crate) fn retries_connects_to_a_full_unix_listener(on: DriverChoice) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slow");
    let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
    listener.listen(1).unwrap();
    let peer = thread::spawn(move || {
        for _ in 0..8 {
            // Seven of eight find the queue full at first.
            thread::sleep(Duration::from_millis(30));
            let (mut s, _) = listener.accept().unwrap();
            let mut all = [0; 10];
            s.read_exact(&mut all).unwrap();
            s.write_all(&all).unwrap();
        }
    });
    let mut client = Client::new(Exchange { connections: 8, ..ONCE });
    drive(on, remote(vec![vec![Remote::unix(&path).unwrap()]]), &mut client);
    assert_eq!(client.faults, []);
    assert_eq!(client.echoed, 8);
    peer.join().unwrap();
}

pub(crate) fn source_addresses_are_used_in_turn(on: DriverChoice) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let peer = thread::spawn(move || {
        (0..4)
            .map(|_| {
                let (mut s, from) = listener.accept().unwrap();
                let mut all = [0; 10];
                s.read_exact(&mut all).unwrap();
                s.write_all(&all).unwrap();
                from.ip().to_string()
            })
            .collect::<Vec<_>>()
    });
    let sources = vec!["127.0.0.5".parse().unwrap(), "127.0.0.6".parse().unwrap()];
    let mut client = Client::new(Exchange { messages: 4, fresh: true, ..ONCE });
    drive(on, Config { sources, ..config(&[at]) }, &mut client);
    assert_eq!(client.faults, []);
    assert_eq!(peer.join().unwrap(), ["127.0.0.5", "127.0.0.6", "127.0.0.5", "127.0.0.6"]);
}

pub(crate) fn accept_storm(on: DriverChoice) {
    let connections = at_most(400);
    let served = with_server(on, &loopback(), Echo::default(), |at| {
        let all: Vec<_> = (0..connections).map(|_| TcpStream::connect(inet(at)).unwrap()).collect();
        for (i, mut s) in all.iter().enumerate() {
            s.write_all(&[i as u8; 3]).unwrap();
        }
        for (i, mut s) in all.iter().enumerate() {
            let mut back = [0; 3];
            s.read_exact(&mut back).unwrap();
            assert_eq!(back, [i as u8; 3]);
        }
    });
    assert_eq!(served.machine.accepted, u64::from(connections));
}

fn test_name(on: DriverChoice, case: &str) -> String {
    format!("{}::{case}", if on == DriverChoice::Epoll { "epoll" } else { "uring" })
}

pub(crate) fn no_descriptor_leaks(on: DriverChoice) {
    alone(&test_name(on, "no_descriptor_leaks"), || {
        let before = limits::open_descriptors();
        exchange(on, Exchange { connections: 50, messages: 4, fresh: true, ..ONCE });
        refused_connect_tries_the_next_address(on);
        reset_after_data(on);
        orderly_close_delivers_everything(on);
        unix_sockets(on);
        // A machine that panics during a run.
        let mut client = Client::new(Exchange { connections: 5, ..ONCE });
        let (at, peer) = scripted(|mut s| s.write_all(b"more than expected").unwrap());
        let run = std::panic::AssertUnwindSafe(|| drive(on, config(&[at]), &mut client));
        assert!(std::panic::catch_unwind(run).is_err());
        peer.join().unwrap();
        // The kernel may close the files of a ring slightly after the ring.
        let start = Instant::now();
        while limits::open_descriptors() > before && start.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(limits::open_descriptors(), before);
    });
}

/// Limit the process to this many more descriptors than it has open.
fn leave_descriptors(n: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
    // The limit applies to descriptor numbers, and the process may have inherited high ones.
    // SAFETY: this asks for flags, whatever the number stands for.
    let closed = |fd: &i32| unsafe { libc::fcntl(*fd, libc::F_GETFD) } < 0;
    let last = (0..).filter(closed).nth(n as usize - 1).expect("there are free ones");
    limit.rlim_cur = last as u64 + 1;
    // SAFETY: `limit` is readable.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

pub(crate) fn no_descriptors_left(on: DriverChoice) {
    alone(&test_name(on, "no_descriptors_left"), || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        leave_descriptors(20);
        let mut client = Client::new(Exchange { connections: 60, ..ONCE });
        let control = Control::new();
        let mut d = Driver::new(on, config(&[at])).unwrap();
        // Nothing replies: stop the run once all connects have succeeded or failed.
        let start = Clock::starting_now();
        let mut stop_when_done = |client: &mut Client, now, _| {
            let done = client.connected + client.faults.len() as u64;
            if done == 60 || now > Nanos(20_000_000_000) {
                control.stop_now();
            }
        };
        let mut watched =
            Watched { owner: &mut client, machine: |client| client, pulse: &mut stop_when_done };
        d.run(&mut watched, start, control.stop_flag());
        assert!((10..=20).contains(&client.connected), "{}", client.connected);
        assert_eq!(client.faults.len() as u64, 60 - client.connected);
        assert!(client.faults.iter().all(|&f| f == Some(Fault::NoDescriptors)));
    });
}

pub(crate) fn no_descriptor_for_an_accept(on: DriverChoice) {
    alone(&test_name(on, "no_descriptor_for_an_accept"), || {
        let served = with_server(on, &loopback(), Echo::default(), |at| {
            // Once the server replies, it has all descriptors for itself.
            let mut first = TcpStream::connect(inet(at)).unwrap();
            first.write_all(b"hello").unwrap();
            first.read_exact(&mut [0; 5]).unwrap();
            // The clients have their descriptors; the server finds six for twelve connections.
            let sockets: Vec<_> =
                (0..12).map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()).collect();
            leave_descriptors(6);
            let mut all = Vec::new();
            for s in sockets {
                s.connect(&inet(at).into()).unwrap();
                all.push(TcpStream::from(s));
            }
            thread::sleep(Duration::from_millis(400));
            for s in &mut all {
                s.write_all(b"hello").unwrap();
            }
            // As the first connections close, the others are accepted.
            for mut s in all {
                let mut back = [0; 5];
                s.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                s.read_exact(&mut back).unwrap();
                assert_eq!(&back, b"hello");
            }
        });
        assert_eq!(served.machine.accepted, 13);
        let used = served.meter.cpu_user + served.meter.cpu_system;
        assert!(used < Span::from_millis(150), "it must not spin: {used:?}");
    });
}
