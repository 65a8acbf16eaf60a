//! Round trips over the kernel's transports: client and responder have the same counts.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::{env, thread};

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_io::datagrams::Datagrams;
use prony_io::{Control, DriverChoice, Listen, Options, bind, run, serve};
use prony_plan::plan::{Exchange, Framing, Load, Message, Plan, Stop, Think};
use prony_plan::target::{Carrier, Endpoint};
use prony_server::echo::{self, Echo, EchoBehavior};
use prony_tally::record::{Observer, Stamps, Tally};

pub(crate) fn exchange(endpoint: Endpoint, framing: Framing, (request, reply): (u32, u32)) -> Plan {
    let stop = Stop { requests: Some(300), sessions: None, duration: None };
    let load = Load::Closed { connections: 1, think: Think::None };
    let mut plan = crate::load::plan(1, load, stop);
    plan.endpoints = vec![endpoint];
    let messages = vec![Message { request, reply }];
    plan.exchange = Some(Box::new(Exchange { framing, warmup_exchanges: 20, messages }));
    plan.check().unwrap();
    plan
}

fn free() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn path(name: &str) -> PathBuf {
    env::temp_dir().join(format!("prony-{}-{name}", std::process::id()))
}

/// Run a plan against a responder; `make` creates the plan for its address.
fn against(
    listen: &Listen,
    options: &Options,
    make: impl FnOnce(&Listen) -> Plan,
) -> (Tally, Echo) {
    let at = bind(listen).unwrap();
    let local = at.local().clone();
    let bounded = matches!(local, Listen::UnixSeqpacket(_));
    let server_control = Control::new();
    thread::scope(|s| {
        let server = s.spawn(|| {
            let machines = vec![Echo::new(EchoBehavior::default(), vec![bounded])];
            serve(machines, &[at], &Options::default(), &server_control, &|_, _| {})
        });
        let outcome = run(&make(&local), options, &Control::new(), &mut |_| {});
        server_control.stop_now();
        let served = server.join().unwrap().unwrap().pop().unwrap();
        (outcome.unwrap().merged().1, served.machine)
    })
}

fn tcp(local: &Listen) -> Endpoint {
    let Listen::Tcp(a) = local else { panic!("a TCP listener") };
    Endpoint::Tcp { host: a.ip().to_string(), port: a.port() }
}

fn assert_all_answered(t: &Tally, echo: &Echo, n: u64) {
    assert_eq!((t.started, t.replies, t.failed, t.connects), (300, 300, 0, 1));
    assert_eq!(t.times.service.count(), 300);
    assert_eq!((echo.echoed().messages, echo.echoed().connections), (320, 1));
    assert_eq!(echo.echoed().bytes_in, n);
    assert_eq!(echo.echoed().bytes_in, t.bytes_sent);
    assert_eq!((echo.echoed().broken, echo.echoed().refused), (0, 0));
}

pub(crate) fn short_framing_over_tcp(on: DriverChoice) {
    let times = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&times);
    let record = move |stamps: &Stamps| {
        recorded.lock().unwrap().push(stamps.service());
    };
    let options =
        Options { driver: on, observer: Some(Observer(Arc::new(record))), ..Options::default() };
    let (t, echo) =
        against(&Listen::Tcp(free()), &options, |at| exchange(tcp(at), Framing::Short, (64, 2)));
    assert_all_answered(&t, &echo, 8 + 320 * 68);
    let times = times.lock().unwrap();
    assert_eq!(times.len(), 300, "every exchange is observed, and no warm-up exchange");
    assert_eq!(times.iter().min().copied(), t.times.service.min());
    assert_eq!(times.iter().max().copied(), t.times.service.max());
}

pub(crate) fn long_messages_over_tcp(on: DriverChoice) {
    let options = Options { driver: on, ..Options::default() };
    let (t, echo) = against(&Listen::Tcp(free()), &options, |at| {
        exchange(tcp(at), Framing::Long, (100_000, 70_000))
    });
    assert_all_answered(&t, &echo, 320 * 100_020);
}

#[test]
fn several_connections_and_pipelines_over_a_unix_socket() {
    let (t, echo) = against(&Listen::Unix(path("u")), &Options::default(), |at| {
        let path = at.to_string();
        let mut plan = exchange(Endpoint::Unix { path }, Framing::Long, (9, 33));
        plan.load = Load::Closed { connections: 3, think: Think::None };
        plan.pipeline = 4;
        plan
    });
    assert_eq!((t.started, t.replies, t.connects), (300, 300, 3));
    assert_eq!(echo.echoed().messages, 300 + 3 * 20);
}

/// The histograms agree with the exact times that the test records.
#[test]
fn histograms_agree_with_exact_times() {
    // A realistic number of exchanges, if there is time.
    let n = if env::var_os("SLOW").is_some() { 1_000_000 } else { 20_000 };
    let ping_pong = |mut plan: Plan| {
        plan.stop.requests = Some(n);
        plan
    };
    compare_with_exact_times(n, &Listen::Tcp(free()), |at| {
        ping_pong(exchange(tcp(at), Framing::Short, (64, 2)))
    });
    compare_with_exact_times(n, &Listen::Unix(path("n")), |at| {
        let path = at.to_string();
        let mut plan = ping_pong(exchange(Endpoint::Unix { path }, Framing::Long, (128, 128)));
        plan.load = Load::Closed { connections: 3, think: Think::None };
        plan.pipeline = 4;
        plan
    });
}

fn compare_with_exact_times(n: u64, listen: &Listen, make: impl FnOnce(&Listen) -> Plan) {
    let times = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let recorded = Arc::clone(&times);
    let record = move |stamps: &Stamps| {
        let mut recorded = recorded.lock().unwrap();
        recorded.0.push(stamps.service());
        recorded.1.push(stamps.response());
    };
    let options = Options { observer: Some(Observer(Arc::new(record))), ..Options::default() };
    let (t, echo) = against(listen, &options, make);
    assert_eq!((t.started, t.replies, t.failed), (n, n, 0));
    assert_eq!(echo.echoed().messages, n + 20 * t.connects);
    let cells = t.series.cells();
    assert_eq!(cells.iter().map(|c| c.replies).sum::<u64>(), n);
    let mut times = times.lock().unwrap();
    assert_eq!(cells.iter().map(|c| c.max).max(), times.1.iter().max().copied());
    let (service, response) = &mut *times;
    for (hist, all) in [(&t.times.service, service), (&t.times.response, response)] {
        all.sort_unstable();
        assert_eq!((hist.count(), all.len() as u64), (n, n));
        assert_eq!((hist.min(), hist.max()), (all.first().copied(), all.last().copied()));
        for q in [0.5, 0.9, 0.99, 0.999] {
            let exact = all[(q * n as f64).ceil() as usize - 1].0 as f64;
            let recorded = hist.quantile(q).unwrap().0 as f64;
            assert!((recorded / exact - 1.0).abs() <= 0.001, "{q}: {recorded} for {exact} ns");
        }
    }
}

/// Message boundaries are preserved, also with several messages in flight.
#[test]
fn packets_over_a_unix_socket() {
    for (framing, sizes) in [(Framing::Short, (40, 2)), (Framing::Long, (3_000, 50))] {
        let (t, echo) = against(&Listen::UnixSeqpacket(path("p")), &Options::default(), |at| {
            let path = at.to_string();
            let mut plan = exchange(Endpoint::UnixSeqpacket { path }, framing, sizes);
            plan.pipeline = 3;
            plan
        });
        assert_eq!((t.started, t.replies, t.failed), (300, 300, 0), "{framing:?}");
        assert_eq!((echo.echoed().messages, echo.echoed().refused), (320, 0), "{framing:?}");
    }
}

#[test]
fn multipath_tcp() {
    let Ok(probe) = bind(&Listen::Mptcp(free())) else {
        eprintln!("skipped: this kernel has no Multipath TCP");
        return;
    };
    drop(probe);
    let (t, echo) = against(&Listen::Mptcp(free()), &Options::default(), |at| {
        let Listen::Mptcp(a) = at else { panic!("an MPTCP listener") };
        let host = a.ip().to_string();
        let endpoint = Endpoint::Inet { over: Carrier::Mptcp, host, port: a.port() };
        exchange(endpoint, Framing::Short, (64, 2))
    });
    assert_all_answered(&t, &echo, 8 + 320 * 68);
}

fn udp(port: u16) -> Plan {
    let endpoint = Endpoint::Inet { over: Carrier::Udp, host: "127.0.0.1".into(), port };
    exchange(endpoint, Framing::Long, (100, 40))
}

#[test]
fn datagrams() {
    let at = Datagrams::bind(free()).unwrap();
    let (t, done) = thread::scope(|s| {
        let server = s.spawn(|| at.respond(&mut |data, out| echo::answer(data, false, out)));
        let outcome =
            run(&udp(at.local().port()), &Options::default(), &Control::new(), &mut |_| {});
        at.end();
        (outcome.unwrap().merged().1, server.join().unwrap())
    });
    assert_eq!((t.started, t.replies, t.failed, t.connects), (300, 300, 0, 1));
    // On a busy machine a warm-up exchange may be retransmitted.
    assert!(done.answered >= 320 && done.refused == 0, "{done:?}");
    assert_eq!(done.bytes_in, done.answered * 120);
    assert_eq!(done.bytes_out, done.answered * 60);
}

/// Datagrams that a peer loses, duplicates and reorders in a known pattern are counted correctly.
#[test]
fn counts_lost_duplicate_and_reordered_datagrams() {
    let socket = UdpSocket::bind(free()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let peer = thread::spawn(move || {
        let mut buffer = [0; 2_000];
        let (mut seen, mut delayed) = (0_u64, None::<Vec<u8>>);
        while let Ok((n, from)) = socket.recv_from(&mut buffer) {
            let mut out = Vec::new();
            if n == 0 {
                break;
            }
            assert!(echo::answer(&buffer[..n], false, &mut out));
            seen += 1;
            match seen % 10 {
                3 => {}
                5 => drop((socket.send_to(&out, from), socket.send_to(&out, from))),
                7 => delayed = Some(out),
                _ => {
                    socket.send_to(&out, from).unwrap();
                    if let Some(late) = delayed.take() {
                        socket.send_to(&late, from).unwrap();
                    }
                }
            }
        }
        seen
    });
    let mut plan = udp(port);
    plan.timeout = Span::from_millis(100);
    plan.pipeline = 2;
    if let Some(exchange) = &mut plan.exchange {
        exchange.warmup_exchanges = 0;
    }
    let out = run(&plan, &Options::default(), &Control::new(), &mut |_| {}).unwrap();
    UdpSocket::bind(free()).unwrap().send_to(&[], ("127.0.0.1", port)).unwrap();
    assert_eq!(peer.join().unwrap(), 300);
    let t = out.merged().1;
    let anomalies = t.messages.as_deref().copied().unwrap_or_default();
    assert_eq!(
        (t.started, t.connects, anomalies.duplicates, anomalies.unexpected),
        (300, 1, 30, 0)
    );
    assert_eq!(t.fault(Fault::RequestTimeout), t.failed);
    assert_eq!(t.replies + t.failed, 300);
    // Lost datagrams and late ones.
    assert_eq!(t.failed - anomalies.late, 30);
}

/// Without a responder, the kernel reports an error, also over UDP.
#[test]
fn unused_udp_port_is_an_error() {
    let port = UdpSocket::bind(free()).unwrap().local_addr().unwrap().port();
    let mut plan = udp(port);
    plan.stop.requests = Some(3);
    plan.connect_timeout = Span::from_secs(5);
    let t = run(&plan, &Options::default(), &Control::new(), &mut |_| {}).unwrap().merged().1;
    assert_eq!((t.started, t.replies, t.failed), (3, 0, 3));
    assert_eq!(t.fault(Fault::ConnectTimeout), 0);
}
