//! Complete loads: the engine against the target server.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_core::engine::Tap;
use prony_io::{
    Control, DriverChoice, Listen, Options, Outcome, SetupError, Taps, auto_prefers_uring, bind,
    limits, run, serve,
};
use prony_plan::plan::{CallSpec, Load, MessagePlan, MessageReply, Plan, Stop, Think};
use prony_plan::schedule::{Arrivals, RatePiece, RatePlan};
use prony_plan::target::Endpoint;
use prony_server::serve::{Serve, ServerBehavior};

use crate::child::alone;

pub(crate) fn plan(port: u16, load: Load, stop: Stop) -> Plan {
    Plan {
        timeout: Span::from_secs(20),
        ..Plan::new(
            vec![Endpoint::Tcp { host: "127.0.0.1".into(), port }],
            vec![CallSpec {
                endpoint: 0,
                method: "GET".into(),
                path: "/".into(),
                authority: "127.0.0.1".into(),
                ..CallSpec::default()
            }],
            load,
            stop,
        )
    }
}

fn closed(connections: u32) -> Load {
    Load::Closed { connections, think: Think::None }
}

fn open(rate: f64, length: Span, connections: u32) -> Load {
    let pieces = vec![RatePiece { from: rate, to: rate, length: Some(length) }];
    Load::Open { rate: RatePlan { pieces }, arrivals: Arrivals::Fixed, connections }
}

fn requests(n: u64) -> Stop {
    Stop { requests: Some(n), sessions: None, duration: None }
}

/// Run the plan against a target server. Returns the results of both.
fn against(
    options: &Options,
    make: impl FnOnce(u16) -> Plan,
    control: &Control,
) -> (Outcome, Serve) {
    against_behavior(ServerBehavior::default(), options, make, control)
}

fn against_behavior(
    behavior: ServerBehavior,
    options: &Options,
    make: impl FnOnce(u16) -> Plan,
    control: &Control,
) -> (Outcome, Serve) {
    let at = bind(&Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let Listen::Tcp(local) = *at.local() else { panic!("a TCP listener") };
    let server_control = Control::new();
    thread::scope(|s| {
        let server = s.spawn(|| {
            let machines = vec![Serve::new(behavior, 1)];
            serve(machines, &[at], options, &server_control, &|_, _| {})
        });
        let outcome = run(&make(local.port()), options, control, &mut |_| {});
        server_control.stop_now();
        let served = server.join().unwrap().unwrap().pop().unwrap();
        (outcome.unwrap(), served.machine)
    })
}

fn options(on: DriverChoice, threads: usize) -> Options {
    Options { driver: on, threads: Some(threads), ..Options::default() }
}

pub(crate) fn client_and_server_counts_agree(on: DriverChoice) {
    let (out, server) =
        against(&options(on, 2), |p| plan(p, closed(20), requests(4001)), &Control::new());
    let (warm, main) = out.merged();
    assert!(warm.is_none());
    assert_eq!((main.started, main.replies, main.failed, main.unfinished), (4001, 4001, 0, 0));
    assert_eq!((main.connects, main.connected), (20, 20));
    assert_eq!(main.bytes_sent, server.served().bytes_in);
    assert_eq!(server.served().requests, 4001);
    assert_eq!(server.served().connections, 20);
    assert_eq!((out.tallies.len(), out.workers.len(), out.interrupted), (2, 2, false));
    assert!(
        out.workers.iter().all(|m| m.cpu_user + m.cpu_system > Span::ZERO && m.loop_iterations > 0)
    );
    assert_eq!(out.notes, [""; 0]);

    // Pipelined, and with a new connection per request.
    for (pipeline, per_connection) in [(16, None), (1, Some(1)), (4, Some(3))] {
        let (out, server) = against(
            &options(on, 2),
            |p| Plan {
                pipeline,
                requests_per_connection: per_connection,
                ..plan(p, closed(10), requests(2000))
            },
            &Control::new(),
        );
        let main = out.merged().1;
        assert_eq!((main.replies, main.failed), (2000, 0), "{pipeline} {per_connection:?}");
        assert_eq!(server.served().requests, 2000);
        assert_eq!(server.served().connections, main.connected);
    }
}

pub(crate) fn open_load_keeps_its_schedule(on: DriverChoice) {
    let seen = Cell::new(0);
    let at = bind(&Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let Listen::Tcp(local) = *at.local() else { panic!("a TCP listener") };
    let (control, options) = (Control::new(), Options { pin: true, ..options(on, 2) });
    let load = open(500.0, Span::from_millis(2500), 50);
    let p = plan(local.port(), load, Stop { requests: None, sessions: None, duration: None });
    let out = thread::scope(|s| {
        s.spawn(|| {
            serve(
                vec![Serve::new(ServerBehavior::default(), 1)],
                &[at],
                &options,
                &control,
                &|_, _| {},
            )
        });
        let out = run(&p, &options, &Control::new(), &mut |live| {
            assert!(live.started >= live.replies);
            if let Some(last) = &live.last {
                seen.set(last.cell.replies);
            }
        });
        control.stop_now();
        out.unwrap()
    });
    let main = out.merged().1;
    assert_eq!((main.started, main.replies), (1250, 1250));
    // The last complete second in the progress has that rate, over both workers.
    assert!((400..=600).contains(&seen.get()), "{}", seen.get());
    // A low quantile and a loose bound, because the machine may be busy.
    let lag = main.times.lag.quantile(0.1).unwrap_or_default();
    assert!(lag < Span::from_millis(1), "{lag:?}");
}

pub(crate) fn counts_are_consistent_with_a_hostile_server(on: DriverChoice) {
    let behavior = ServerBehavior {
        latency: "exp:1ms".parse().unwrap(),
        stalls: "200ms@600ms".parse().unwrap(),
        close_after: Some("7".parse().unwrap()),
        idle_close: Some(Span::from_millis(3)),
        reset: "5%".parse().unwrap(),
        truncate: "5%".parse().unwrap(),
        size: 40_000,
        chunked: true,
        ..ServerBehavior::default()
    };
    let stop = Stop { requests: None, sessions: None, duration: Some(Span::from_millis(1500)) };
    for pipeline in [1, 4] {
        let (out, server) = against_behavior(
            behavior.clone(),
            &options(on, 2),
            |p| Plan { pipeline, timeout: Span::from_millis(400), ..plan(p, closed(100), stop) },
            &Control::new(),
        );
        let (t, s) = (out.merged().1, server.served());
        assert_eq!(t.started, t.replies + t.failed + t.unfinished);
        assert_eq!(t.faults.iter().sum::<u64>(), t.failed);
        assert!(t.replies > 500, "{t:?}");
        assert!(t.fault(Fault::Reset) + t.fault(Fault::Truncated) > 20, "{:?}", t.faults);
        let own = Fault::ALL.into_iter().filter(|f| f.is_meters_own());
        assert_eq!(own.map(|f| t.fault(f)).sum::<u64>(), 0);
        assert!(s.replies >= t.replies && s.requests <= t.sent + t.retries, "{s:?}");
        assert!(s.connections <= t.connects);
    }
}

pub(crate) fn stop_ends_the_load_and_is_reported(on: DriverChoice) {
    let control = Control::new();
    let stop = Stop { requests: None, sessions: None, duration: Some(Span::from_secs(60)) };
    thread::scope(|s| {
        s.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            control.stop();
        });
        let (out, server) = against(&options(on, 1), |p| plan(p, closed(3), stop), &control);
        let main = out.merged().1;
        assert!(out.interrupted);
        assert!(main.replies > 0);
        assert_eq!(main.started, main.replies + main.failed + main.unfinished);
        assert_eq!(server.served().requests, main.sent);
    });
}

#[test]
fn rejects_too_many_connections_before_the_load() {
    alone("load::rejects_too_many_connections_before_the_load", || {
        let limit = libc::rlimit { rlim_cur: 200, rlim_max: 200 };
        // SAFETY: `limit` is readable.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        let go = |p: &Plan| run(p, &options(DriverChoice::Epoll, 1), &Control::new(), &mut |_| {});
        let e = go(&plan(1, closed(300), requests(1))).unwrap_err();
        let fit = limits::connections_that_fit(200, 1);
        assert!(
            matches!(e, SetupError::Descriptors { asked: 300, fit: f, limit: 200 } if f == fit),
            "{e}"
        );
        // The connection limit of an open loop is lowered, with a note.
        let load = open(10.0, Span::from_millis(300), 300);
        let out =
            go(&plan(1, load, Stop { requests: None, sessions: None, duration: None })).unwrap();
        assert_eq!(out.notes.len(), 1, "{:?}", out.notes);
        assert!(out.notes[0].contains(&format!("from 300 to {fit}")), "{:?}", out.notes);
        assert_eq!(out.merged().1.failed, 3, "there is no listener");
    });
}

/// A tap that does nothing.
struct Nothing;

impl Tap for Nothing {}

#[test]
fn other_workers_survive_a_panic() {
    let server_control = Control::new();
    let at = bind(&Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let Listen::Tcp(local) = *at.local() else { panic!("a TCP listener") };
    let p = plan(local.port(), closed(4), requests(1000));
    let out = thread::scope(|s| {
        s.spawn(|| {
            let machines = vec![Serve::new(ServerBehavior::default(), 1)];
            serve(machines, &[at], &Options::default(), &server_control, &|_, _| {})
        });
        let half = options(DriverChoice::Epoll, 2);
        // The first `n` taps are created, the others panic.
        let panics_after = |n: u32| {
            let left = AtomicU32::new(n);
            let taps = Taps::new(move || {
                let is_created = left.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok();
                assert!(is_created, "a panic for the test");
                Nothing
            });
            let options = Options { taps: Some(taps), ..half.clone() };
            run(&p, &options, &Control::new(), &mut |_| {})
        };
        let (out, all_panic) = (panics_after(1), panics_after(0));
        server_control.stop_now();
        assert!(matches!(all_panic, Err(SetupError::Died)));
        out.unwrap()
    });
    assert_eq!(out.tallies.len(), 1);
    assert_eq!(out.merged().1.replies, 500, "the other worker's share");
    assert!(out.notes[0].starts_with("1 of 2 workers panicked"), "{:?}", out.notes);
}

#[test]
fn bind_reports_a_port_in_use() {
    let first = bind(&Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let e = bind(first.local()).unwrap_err().to_string();
    assert!(e.starts_with(&format!("cannot listen on {}: ", first.local())), "{e}");
    assert!(e.contains("another process uses it"), "{e}");
}

#[test]
fn auto_prefers_io_uring_for_measured_cases() {
    let live = || plan(1, closed(50), requests(5_000));
    let arriving = || plan(1, open(10.0, Span::from_secs(1), 50), requests(5_000));
    let fresh = |p| Plan { requests_per_connection: Some(1), ..p };
    let pipelined = |p| Plan { pipeline: 2, ..p };
    let talking = |count| {
        let messages = MessagePlan {
            rate: RatePlan::constant(9.0),
            over: 1,
            arrivals: Arrivals::default(),
            count: Some(count),
            time: None,
            reply: MessageReply::default(),
        };
        Plan { messages: Some(messages.into()), ..plan(1, closed(50), requests(50)) }
    };
    for (plan, uring) in [
        (live(), true),
        (fresh(live()), true),
        (fresh(arriving()), true),
        (arriving(), false),
        (pipelined(live()), false),
        (pipelined(arriving()), false),
        (plan(1, closed(50), requests(4_999)), false),
        (talking(100), true),
        (talking(99), false),
    ] {
        assert_eq!(auto_prefers_uring(&plan), uring, "{plan:?}");
    }
}
