//! Userspace SCTP between prony's client and responder, with a relay that loses packets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use prony_base::fault::Fault;
use prony_base::meter::{Sctp, SctpStack};
use prony_base::units::Span;
use prony_io::error::Refusal;
use prony_io::socket::sctp::Rto;
use prony_io::userspace::{self, Settings, Via};
use prony_io::{Control, Options, Outcome, SetupError, SocketOptions, run, serve_associations};
use prony_plan::plan::{Framing, Load, Message, Plan, Stop, Think};
use prony_plan::target::{Carrier, Endpoint};
use prony_server::echo::{Echo, EchoBehavior};
use prony_tally::record::Tally;

use crate::exchange::exchange;

const BOTH: [Carrier; 2] = [Carrier::Sctp, Carrier::SctpSeqpacket];
const QUICK: Rto = Rto { initial: 20, min: 20, max: 20 };
const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn settings(udp_port: u16) -> Settings {
    Settings { via: Via::Udp, udp_port, rto: QUICK }
}

fn options(settings: Settings) -> Options {
    let sockets = SocketOptions { userspace: Some(settings), ..SocketOptions::default() };
    Options { sockets, threads: Some(1), ..Options::default() }
}

fn endpoint(over: Carrier, port: u16) -> Endpoint {
    Endpoint::Inet { over, host: "127.0.0.1".into(), port }
}

/// Run `body` with a responder's SCTP and UDP ports. Returns its result and the responder's counts.
fn against<T>(
    settings: Settings,
    behavior: EchoBehavior,
    body: impl FnOnce(u16, u16) -> T,
) -> (T, prony_server::echo::Echoed) {
    against_at(ANYWHERE, settings, behavior, body)
}

fn against_at<T>(
    at: SocketAddr,
    settings: Settings,
    behavior: EchoBehavior,
    body: impl FnOnce(u16, u16) -> T,
) -> (T, prony_server::echo::Echoed) {
    let listener = userspace::bind(at, settings).expect("a free port");
    let (port, udp_port) = (listener.local().port(), listener.udp_port().unwrap_or(0));
    let control = Control::new();
    thread::scope(|s| {
        let machine = Echo::new(behavior, vec![true]);
        let server = s.spawn(|| serve_associations(machine, listener, &control, &|_, _| {}));
        let result = body(port, udp_port);
        control.stop_now();
        (result, *server.join().expect("no panic").expect("it runs").echoed())
    })
}

fn outcome(plan: &Plan, settings: Settings) -> Outcome {
    run(plan, &options(settings), &Control::new(), &mut |_| {}).expect("a valid plan")
}

fn facts(outcome: &Outcome) -> Sctp {
    outcome.workers[0].transport.sctp.expect("there were associations")
}

fn tally(outcome: &Outcome) -> Tally {
    outcome.merged().1
}

/// All sizes of the ACE tests and 65,537 bytes, over both transports, with several connections and
/// several messages in flight: all are answered, and both sides have the same counts.
#[test]
fn all_sizes_are_answered_over_both_transports() {
    let sizes: Vec<u32> = (0..=16).map(|s| 1 << s).chain([65_537]).collect();
    let (replies, echoed) = against(settings(0), EchoBehavior::default(), |port, udp| {
        let mut replies = 0;
        for over in BOTH {
            for &size in &sizes {
                let mut plan = exchange(endpoint(over, port), Framing::Long, (size, 2));
                plan.stop.requests = Some(30);
                let out = outcome(&plan, settings(udp));
                let t = tally(&out);
                assert_eq!((t.replies, t.failed, t.connects), (30, 0, 1), "{over:?} {size}");
                assert_eq!(out.driver, "userspace, udp");
                replies += 50;
            }
            let mut plan = exchange(endpoint(over, port), Framing::Long, (700, 3_000));
            plan.load = Load::Closed { connections: 3, think: Think::None };
            plan.pipeline = 4;
            let out = outcome(&plan, settings(udp));
            let t = tally(&out);
            assert_eq!((t.replies, t.failed, t.connects), (300, 0, 3), "{over:?}");
            let Sctp { stack, associations, paths, rto_initial_ms, nodelay, .. } = facts(&out);
            assert_eq!((stack, associations, paths), (SctpStack::Udp, 3, 1));
            assert_eq!((rto_initial_ms, nodelay), (20, true));
            replies += 300 + 3 * 20;
        }
        replies
    });
    assert_eq!((echoed.messages, echoed.connections), (replies, 2 * (sizes.len() as u64 + 3)));
    assert_eq!((echoed.broken, echoed.refused, echoed.silent), (0, 0, 0));
}

#[test]
fn over_ipv6() {
    let at = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0));
    let raw = Settings { via: Via::Raw, ..settings(0) };
    for via in [Some(settings(0)), userspace::ready(&raw).is_ok().then_some(raw)] {
        let Some(via) = via else {
            eprintln!("skipped: raw IP");
            continue;
        };
        let (t, echoed) = against_at(at, via, EchoBehavior::default(), |port, udp| {
            let host = "::1".into();
            let to = Endpoint::Inet { over: Carrier::Sctp, host, port };
            let plan = exchange(to, Framing::Long, (5_000, 2));
            tally(&outcome(&plan, Settings { udp_port: udp, ..via }))
        });
        assert_eq!((t.replies, t.failed, echoed.messages), (300, 0, 320), "{via:?}");
    }
}

/// In the framing of the ACE tests, the responder ends the association first, after the announced
/// number of exchanges.
#[test]
fn responder_that_closes_first_loses_nothing() {
    let (out, echoed) = against(settings(0), EchoBehavior::default(), |port, udp| {
        outcome(&exchange(endpoint(Carrier::Sctp, port), Framing::Short, (64, 2)), settings(udp))
    });
    assert_eq!((tally(&out).replies, tally(&out).failed), (300, 0));
    assert_eq!((facts(&out).associations, echoed.messages, echoed.broken), (1, 320, 0));
}

/// A network between client and responder.
struct Relay {
    port: u16,
    lost: AtomicU64,
    socket: UdpSocket,
}

impl Relay {
    fn new() -> Self {
        let socket = UdpSocket::bind(ANYWHERE).expect("a port");
        socket.set_read_timeout(Some(Duration::from_millis(5))).expect("a limit");
        let port = socket.local_addr().expect("an address").port();
        Self { port, lost: AtomicU64::new(0), socket }
    }

    /// Relay packets between the first sender and the responder until `control` stops it.
    /// `loses(number, packet)` decides whether a packet is lost.
    fn relay_packets(
        &self,
        to: u16,
        control: &Control,
        loses: &(dyn Fn(u64, &[u8]) -> bool + Sync),
    ) {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, to));
        let (mut client, mut buf) = (None, vec![0; 65_536]);
        let mut number = 0;
        while control.stop_request().is_none() {
            let Ok((n, from)) = self.socket.recv_from(&mut buf) else { continue };
            let to = if from == server { client } else { Some(server) };
            if from != server {
                client = Some(from);
            }
            number += 1;
            if loses(number, &buf[..n]) {
                self.lost.fetch_add(1, Ordering::Relaxed);
            } else if let Some(to) = to {
                // The receiver may be gone.
                let _ = self.socket.send_to(&buf[..n], to);
            }
        }
    }
}

fn through_relay(
    plan: impl FnOnce(u16) -> Plan,
    loses: &(dyn Fn(u64, &[u8]) -> bool + Sync),
) -> (Outcome, prony_server::echo::Echoed, u64) {
    let relay = Relay::new();
    let control = Control::new();
    let (out, echoed) = against(settings(0), EchoBehavior::default(), |port, udp| {
        thread::scope(|s| {
            s.spawn(|| relay.relay_packets(udp, &control, loses));
            let out = outcome(&plan(port), settings(relay.port));
            control.stop_now();
            out
        })
    });
    (out, echoed, relay.lost.load(Ordering::Relaxed))
}

/// The first packet and every tenth large one are lost: every request is answered once, and
/// retransmissions are reported.
#[test]
fn lost_packets_are_retransmitted() {
    let large_packets = AtomicU64::new(0);
    let (out, echoed, lost) = through_relay(
        |port| {
            let mut plan = exchange(endpoint(Carrier::Sctp, port), Framing::Long, (5_000, 100));
            plan.stop.requests = Some(100);
            plan
        },
        &|number, packet| {
            let large = packet.len() > 500;
            number == 1 || large && large_packets.fetch_add(1, Ordering::Relaxed) % 10 == 9
        },
    );
    let t = tally(&out);
    assert_eq!((t.replies, t.failed, echoed.messages), (100, 0, 120));
    assert_eq!((echoed.connections, echoed.broken), (1, 0));
    assert!(lost > 30, "{lost} packets lost");
    // Retransmissions of the handshake and the warm-up are not included.
    let retransmits = facts(&out).retransmits;
    assert!(
        retransmits >= lost / 2,
        "{retransmits} sent retransmits of {lost} lost: {:?}",
        facts(&out)
    );
}

/// From some packet on, all packets are lost: the message in flight times out, and the run ends.
#[test]
fn run_ends_when_the_peer_vanishes() {
    let start = Instant::now();
    let (out, _, lost) = through_relay(
        |port| {
            let mut plan = exchange(endpoint(Carrier::Sctp, port), Framing::Long, (64, 2));
            plan.timeout = Span::from_millis(200);
            plan.connect_timeout = Span::from_millis(300);
            plan.stop =
                Stop { duration: Some(Span::from_millis(700)), requests: None, sessions: None };
            plan
        },
        &|number, _| number > 100,
    );
    let t = tally(&out);
    assert!(t.replies > 0 && lost > 0);
    assert!(t.fault(Fault::RequestTimeout) >= 1, "{:?}", t.failed);
    assert_eq!(t.started, t.replies + t.failed);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// A responder that aborts the association: an error, not an end of stream.
#[test]
fn aborted_association_is_an_error() {
    for over in BOTH {
        let behavior = EchoBehavior { length_max: 99, ..EchoBehavior::default() };
        let (out, echoed) = against(settings(0), behavior, |port, udp| {
            let mut plan = exchange(endpoint(over, port), Framing::Long, (10, 2));
            // The messages alternate; the second is too long.
            let exchange = plan.exchange.as_mut().expect("messages");
            exchange.messages.push(Message { request: 100, reply: 2 });
            let call = plan.calls[0].clone();
            plan.calls = vec![call.clone(), call].into();
            plan.stop.requests = Some(2);
            outcome(&plan, settings(udp))
        });
        let t = tally(&out);
        assert_eq!((t.replies, t.failed, t.fault(Fault::Reset)), (1, 1, 1), "{over:?}");
        assert_eq!(echoed.refused, 1 + t.retries, "it is retried once on a new association");
    }
}

#[test]
fn connect_without_a_listener_is_refused() {
    let refused = |udp_port, port| {
        let mut plan = exchange(endpoint(Carrier::Sctp, port), Framing::Long, (10, 2));
        plan.stop.requests = Some(1);
        let start = Instant::now();
        let t = tally(&outcome(&plan, settings(udp_port)));
        assert_eq!((t.replies, t.fault(Fault::ConnectRefused)), (0, 1), "{udp_port} {port}");
        assert!(start.elapsed() < Duration::from_secs(4), "not at once: {:?}", start.elapsed());
    };
    // First nothing listens on the UDP port; then a responder does, but on another SCTP port.
    let unused = UdpSocket::bind(ANYWHERE).and_then(|s| s.local_addr()).expect("a port");
    refused(unused.port(), 9);
    against(settings(0), EchoBehavior::default(), |port, udp| refused(udp, port - 1));
}

#[test]
fn rejects_unsupported_plans_before_the_run() {
    let refusal =
        |plan: &Plan, options: &Options| match run(plan, options, &Control::new(), &mut |_| {}) {
            Err(SetupError::Userspace(why)) => why,
            other => panic!("{other:?}"),
        };
    let usual = options(settings(9));
    let plan = exchange(endpoint(Carrier::Sctp, 9), Framing::Long, (300_000, 2));
    assert!(matches!(refusal(&plan, &usual), Refusal::TooLong { size: 300_000, max: 262_144 }));
    let mut plan = exchange(endpoint(Carrier::Sctp, 9), Framing::Long, (3, 2));
    let host = "127.0.0.1,127.0.0.2".into();
    plan.endpoints = vec![Endpoint::Inet { over: Carrier::Sctp, host, port: 9 }];
    assert!(matches!(refusal(&plan, &usual), Refusal::OnePath { what: "the target" }));
}

/// Over IP, if this process has the permission and the kernel has no SCTP.
#[test]
fn over_raw_ip() {
    let raw = Settings { via: Via::Raw, ..settings(0) };
    match userspace::ready(&raw) {
        Ok(()) => {}
        Err(why) => {
            eprintln!("skipped: {why}");
            return;
        }
    }
    let (_, echoed) = against(raw, EchoBehavior::default(), |port, _| {
        for over in BOTH {
            let mut plan = exchange(endpoint(over, port), Framing::Long, (5_000, 2));
            plan.load = Load::Closed { connections: 2, think: Think::None };
            let out = outcome(&plan, raw);
            assert_eq!((tally(&out).replies, tally(&out).failed), (300, 0), "{over:?}");
            assert_eq!((facts(&out).stack, out.driver), (SctpStack::Raw, "userspace, raw"));
        }
        // A second listener on the port would reply to the same packets.
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let twice = userspace::bind(at, raw).expect_err("the port is taken");
        assert!(twice.to_string().contains("another process uses it"), "{twice}");
    });
    assert_eq!((echoed.messages, echoed.broken), (2 * (300 + 2 * 20), 0));
}
