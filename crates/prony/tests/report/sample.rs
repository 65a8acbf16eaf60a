//! Summaries of generated requests, made with integer arithmetic only, so that they are equal on
//! every machine.

use prony_base::fault::Fault;
use prony_base::meter::{
    CpuPressure, SchedDelay, Sctp, Stalls, StampClock, Transport, WorkerStats,
};
use prony_base::units::{Nanos, Poll, PreviousPoll, Span};
use prony_plan::plan::{
    Burst, CallSpec, Check, Checks, Exchange, Expect, Framing, Group, GroupPart, HttpVersion, Load,
    Message, Pick, Plan, Resume, SessionKind, Sessions, SocketStep, Stop, Think, TlsSpec,
    TlsVersion, Wait,
};
use prony_plan::schedule::{Arrivals, RatePiece, RatePlan};
use prony_plan::script::{Awaited, Content};
use prony_plan::target::{Carrier, Endpoint};
use prony_proto::proto::{Anomaly, Reply};
use prony_run::merge;
use prony_stats::summary::{Accepted, LocalTarget, Part, RunInfo, SelfTested, Summary};
use prony_tally::record::{
    CheckTally, FirstFailure, GroupTally, KernelTimes, MissingTime, Recorder, SessionEnd, Stamps,
    Tally, TlsTally,
};

const MS: u64 = 1_000_000;

/// A valid open loop with 1,000 requests per second for 10 s after 2 s of warm-up, on two threads,
/// with a few failures.
pub(crate) fn open() -> Summary {
    let parts = (0..2).map(|shard| {
        let (warmup, main) = open_share(shard);
        (warmup, main, meter(1_200 + 100 * shard))
    });
    let mut summary = Summary::from_parts(open_plan(), run_info(), parts.collect());
    let busy = failed_first(503, "<h1>Busy</h1>\nCome back later");
    summary.main.first_failures.insert(Fault::UnexpectedStatus, busy);
    audited(summary)
}

/// The reports of the shares of [`open`], each of which a host of its own has run: the second one
/// was busier and later, and its hypervisor took time from it.
pub(crate) fn shares() -> Vec<(String, Summary)> {
    let host = |shard: u64| {
        let (warmup, main) = open_share(shard);
        let mut run = run_info();
        run.part = Some(Part {
            host: format!("web{}", shard + 1),
            start_late: Some(Span(40_000 + shard * 270_000)),
            ..merge::part_of(&open_plan(), Some(1_700_000_000.5))
        });
        let ms = |n| Some(Span(n * (shard + 1) * MS));
        run.cpu_pressure = CpuPressure { throttled: ms(20), stolen: ms(10), wanted: ms(4_000) };
        let workers = vec![(warmup, main, meter(1_200 + 6_000 * shard))];
        let part = Summary::from_parts(open_plan().shard(shard as u32, 2), run, workers);
        (format!("part{}.json", shard + 1), part)
    };
    (0..2).map(host).collect()
}

/// Little's law holds, as in a run that has events.
pub(crate) fn audited(mut summary: Summary) -> Summary {
    let t = &mut summary.main;
    t.time_in_flight = Some(Span::from_secs_f64(t.concurrency() * t.window().as_secs_f64()));
    summary
}

/// Messages over UDP: one lost, others duplicated, late or reordered; and kernel timestamps, some
/// of them missing.
pub(crate) fn exchange() -> Summary {
    let mut r = Recorder::new(Nanos::ZERO);
    r.round_trips();
    r.expect_stamps();
    for i in 0..40 {
        let at = Nanos(i * MS);
        r.started(at);
        let done = at + Span(20_000 + 100 * (i % 7));
        let stamps = Stamps { intended: at, sent: at, first: done, done, ..Stamps::default() };
        r.sent(&stamps);
        if i == 7 {
            let stamps = Stamps { done: at + Span(1_000 * MS), ..stamps };
            r.failed(&stamps, Fault::RequestTimeout, true, Span(1_000 * MS));
        } else {
            r.bytes_received(done, 1_184);
            r.replied(&stamps, &reply(200), None);
            let [scheduled, sent] = [3_000, 4_500].map(|ns| at + Span(ns));
            let received = if i == 10 { at } else { at + Span(16_000 + 50 * (i % 7)) };
            r.kernel_times(
                &stamps,
                match i {
                    8 => Err(MissingTime::Sent),
                    9 => Err(MissingTime::Received),
                    _ => Ok(KernelTimes { scheduled, sent, received }),
                },
            );
            r.acknowledged(at, Span(12_000));
            r.network_card_time(at, Span(9_000 + 40 * (i % 7)));
        }
    }
    r.anomaly(Nanos(MS), Anomaly::Duplicate);
    r.anomaly(Nanos(MS), Anomaly::Reordered);
    let mut plan = open_plan();
    plan.endpoints = vec![
        Endpoint::Inet { over: Carrier::Udp, host: "localhost".into(), port: 45_453 },
        Endpoint::UnixSeqpacket { path: "/tmp/echo".into() },
    ];
    let messages = vec![Message { request: 128, reply: 2 }];
    plan.exchange =
        Some(Box::new(Exchange { framing: Framing::Long, warmup_exchanges: 100, messages }));
    plan.load = Load::Closed { connections: 1, think: Think::None };
    plan.calls = vec![CallSpec::default()].into();
    let (warmup, main) = r.finish(false);
    let meter = with_stamps(over_sctp(meter(100)));
    audited(Summary::from_parts(plan, run_info(), vec![(warmup, main, meter)]))
}

/// A closed loop of three requests, none of which waited.
pub(crate) fn closed() -> Summary {
    closed_every(2 * MS)
}

/// The same with requests that start after this time.
pub(crate) fn closed_every(gap: u64) -> Summary {
    let mut r = Recorder::new(Nanos::ZERO);
    for i in 0..3_u64 {
        let intended = Nanos(i * gap);
        let done = intended + Span(MS + 500 + i * 1_000);
        let stamps = Stamps { intended, sent: intended, first: done, done, ..Stamps::default() };
        r.started(intended);
        r.sent(&stamps);
        r.bytes_received(done, 1_184);
        r.replied(&stamps, &reply(200), None);
    }
    r.bytes_sent(Nanos::ZERO, 3 * 60);
    r.wants_connection(Nanos::ZERO);
    r.connecting(Nanos::ZERO);
    r.connected(Nanos::ZERO, Span(45_000));
    let (warmup, main) = r.finish(false);
    let plan = Plan {
        load: Load::Closed { connections: 1, think: Think::None },
        stop: Stop { requests: Some(3), sessions: None, duration: None },
        warmup: Span::ZERO,
        ..open_plan()
    };
    let run = RunInfo { driver: "simulation".into(), ..RunInfo::default() };
    audited(Summary::from_parts(plan, run, vec![(warmup, main, WorkerStats::default())]))
}

/// Forty sessions of two bursts, one of which fails, and requests with names.
pub(crate) fn sessions() -> Summary {
    let mut r = Recorder::new(Nanos::ZERO).of(true, 2).of_session_kinds(2);
    for k in 0..40_u64 {
        let begun = Nanos(k * 30 * MS);
        let kind = u32::from(k % 4 == 3);
        r.session_started(kind, begun);
        r.wants_connection(begun);
        r.connecting(begun);
        r.connected(begun, Span(45_000));
        let fault = (k == 7).then_some(Fault::UnexpectedStatus);
        for n in 0..2 {
            let intended = begun + Span(n * 12 * MS);
            let done = intended + Span(MS + k * 10_000);
            let stamps =
                Stamps { intended, sent: intended, first: done, done, ..Stamps::default() };
            r.started(intended);
            r.name_started(n as u32, intended);
            r.sent(&stamps);
            r.bytes_received(done, 1_184);
            let fault = fault.filter(|_| n == 1);
            let status = if fault.is_some() { 500 } else { 200 };
            r.replied(&stamps, &reply(status), fault);
            r.name_ended(n as u32, stamps, status, fault);
        }
        let end = begun + Span(13 * MS + k * 10_000);
        let how = if fault.is_some() { SessionEnd::Failed } else { SessionEnd::Completed };
        r.session_ended(how, kind, begun, end, 2, 1);
        r.connection_closed(begun, end);
    }
    let (warmup, main) = r.finish(false);
    let burst = |call, think| Burst::of(vec![call], think);
    let kind = |name: &str, weight| SessionKind {
        name: name.into(),
        weight,
        bursts: vec![burst(0, Think::Fixed(Span(11 * MS))), burst(1, Think::None)],
    };
    let plan = open_plan();
    let call = |name, path: &str| CallSpec {
        path: path.into(),
        name: Some(name),
        expect: Some(Box::default()),
        bare: name == 1,
        ..plan.calls[0].clone()
    };
    let plan = Plan {
        calls: vec![call(0, "/login"), call(1, "/basket")].into(),
        names: vec!["log in".into(), "look into the basket".into()],
        sessions: Some(Sessions::plain(vec![kind("buyer", 3), kind("", 1)])),
        load: Load::Closed { connections: 1, think: Think::None },
        stop: Stop { requests: None, sessions: Some(40), duration: None },
        timeout_from_send: true,
        replace_lost: false,
        exchange: None,
        warmup: Span::ZERO,
        ..plan
    };
    let run = RunInfo { driver: "simulation".into(), ..RunInfo::default() };
    let mut summary = Summary::from_parts(plan, run, vec![(warmup, main, WorkerStats::default())]);
    add_checks(&mut summary);
    audited(summary)
}

/// Sessions with each kind of step on a WebSocket.
pub(crate) fn sockets() -> Summary {
    let mut summary = sessions();
    let message = |content| Awaited { content, equals: Some("{{id}}".into()) };
    let wait = |content| Wait { message: message(content), within: Some(Span(5 * MS)) };
    let steps = [
        SocketStep::Open { subprotocols: vec!["chat".into()] },
        SocketStep::Send { binary: true, wait: Some(wait(Content::Json("/id".into()))) },
        SocketStep::Wait(wait(Content::Regex("id=(.*)".into()))),
        SocketStep::Wait(wait(Content::Text("bye".into()))),
        SocketStep::Close { code: 1000 },
    ];
    let step = |step| CallSpec {
        socket: Some(Box::new(step)),
        socket_name: Some("chat".into()),
        ..summary.plan.calls[0].clone()
    };
    let calls: Vec<_> = summary.plan.calls.iter().cloned().chain(steps.map(step)).collect();
    summary.plan.calls = calls.into();
    summary
}

/// Two checks, one of them of one request, and a group.
fn add_checks(summary: &mut Summary) {
    let check = |text: &str| text.parse::<Check>().expect(text);
    let plan = &mut summary.plan;
    plan.checks = Checks::of_all(vec![check("status = 200")]);
    let own = plan.checks.intern(check("has items: json /items/0/id > 0"));
    plan.calls[1].checks = vec![own].into();
    plan.groups = vec![Group {
        name: "look and buy".into(),
        parts: vec![GroupPart { kind: 0, first: 0, bursts: 2 }],
    }];
    let tally = |passed, failed, unreadable| CheckTally {
        passed,
        failed,
        unreadable,
        passed_by_second: [(0, passed)].into(),
        failed_by_second: [(0, failed)].into(),
    };
    summary.main.checks = vec![tally(70, 10, 0), tally(39, 1, 1)];
    let mut group = GroupTally { started: 40, completed: 35, failed: 4, ..GroupTally::default() };
    group.unfinished = 1;
    group.duration.record_n(Span(15 * MS), 35);
    group.without_pauses.record_n(Span(4 * MS), 35);
    summary.main.groups = vec![group];
}

/// Everything that a report can contain: each fault, many statuses, every reason for a limited
/// client.
pub(crate) fn everything() -> Summary {
    let mut summary = open();
    summary.run.self_test = Some(self_tested());
    let t = &mut summary.main;
    for (i, fault) in Fault::ALL.into_iter().enumerate() {
        t.faults[fault as usize] += 100_000 * (i as u64 + 1);
        t.stray[fault as usize] += 3 * (i as u64 % 4);
        t.failed += 100_000 * (i as u64 + 1);
        t.started += 100_000 * (i as u64 + 1);
    }
    t.statuses.extend((400..420).map(|status| (status, u64::from(status))));
    (t.interim, t.unfinished, t.retries, t.connects) = (77, 12_345, 321, t.connected + 5);
    (t.sent_late, t.overdue) = (t.started / 20, t.started / 50);
    t.times.lag.record_n(Span(3 * MS), 900);
    t.times.transfer.record_n(Span(12_345), 500);
    t.times.failed.record_n(Span(250_000), 40_000);
    t.times.handshake.record_n(Span(900_000), 70);
    t.tls = Some(Box::new(tls_tally()));
    let hidden = [(Fault::UnexpectedStatus, "(hidden)"), (Fault::ExtractMissing, "")];
    t.first_failures.extend(hidden.map(|(fault, body)| (fault, failed_first(503, body))));
    let p = &mut summary.plan;
    p.load = Load::Open {
        rate: RatePlan {
            pieces: (0..9)
                .map(|i| piece(f64::from(i) * 1_234.5 + 0.5, f64::from(i) * 20_000.5 + 10.0))
                .collect(),
        },
        arrivals: Arrivals::Poisson,
        connections: 19_900,
    };
    p.stop.requests = Some(2_500_000);
    (p.pipeline, p.requests_per_connection, p.http) = (16, Some(100), HttpVersion::Http10);
    p.pick = Pick::Random;
    p.expect = Expect {
        statuses: vec![(200, 299), (304, 304)],
        body: Some(b"\"status\":\"ok\" and then some more of it, for as long as a line".to_vec()),
        length: Some(1_024),
    };
    p.calls.push(CallSpec {
        endpoint: 1,
        method: "POST".into(),
        path: "/upload".into(),
        authority: "localhost".into(),
        headers: vec![
            ("Content-Type".into(), "application/json".into()),
            ("Authorization".into(), "Basic bWU6c2VjcmV0".into()),
        ]
        .into(),
        body: vec![b'x'; 2_048],
        ..CallSpec::default()
    });
    p.endpoints.push(Endpoint::Unix { path: "/run/app.sock".into() }.secured("app.internal"));
    p.tls = Some(Box::new(tls_spec()));
    p.calls[0].path = format!("/search?q={}", "long".repeat(60));
    summary.run.interrupted = true;
    summary.run.addresses.push(vec!["/run/app.sock".into()]);
    summary.run.local_target = Some(LocalTarget { address: "127.0.0.1".into(), cores: 2 });
    summary.run.notes = vec![
        "io_uring was refused by the kernel (EPERM), so epoll was taken.".into(),
        "The cap of 50,000 connections was lowered to 19,900, which is what the descriptor limit \
         of 20,000 allows; raise it with `ulimit -n`."
            .into(),
        "Local ports 32768 to 60999 are shared with other programs.".into(),
        "A fourth note.".into(),
    ];
    for (i, m) in summary.workers.iter_mut().enumerate() {
        (m.cpu_user, m.cpu_system) = (Span(9_000 * MS), Span((2_900 + i as u64) * MS));
    }
    audited(summary)
}

fn tls_spec() -> TlsSpec {
    TlsSpec {
        ca: Some("-----BEGIN CERTIFICATE-----".into()),
        cert: Some("-----BEGIN CERTIFICATE-----".into()),
        key: Some("-----BEGIN PRIVATE KEY----- secret".into()),
        version: Some(TlsVersion::Tls13),
        suites: vec!["TLS_AES_128_GCM_SHA256".into()],
        alpn: Vec::new(),
        groups: vec!["X25519".into()],
        resume: Resume::Session,
        ..TlsSpec::default()
    }
}

fn tls_tally() -> TlsTally {
    TlsTally {
        full: 30,
        resumed: 40,
        kinds: [("TLS 1.3 TLS_AES_128_GCM_SHA256".to_owned(), 70)].into(),
        reasons: [("the server's certificate has expired".to_owned(), 3)].into(),
        first: None,
    }
}

fn open_share(shard: u64) -> (Option<Tally>, Tally) {
    let mut r = Recorder::new(Nanos(2_000 * MS));
    r.load_ended(Nanos(12_000 * MS));
    let mut state = 0x9e37_79b9_97f4_a7c5 + shard;
    let mut draw = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for k in (shard..12_000).step_by(2) {
        let intended = Nanos(k * MS);
        let lag = Span(draw(9_000));
        let queue = if k % 50 == 7 { Span(200_000 + draw(100_000)) } else { Span::ZERO };
        let sent = intended + queue + lag;
        // Most replies within 1 to 2 ms, one in sixteen three times as slow, one in 512 forty
        // times.
        let slow = [1, 3, 40][usize::from(draw(16) == 0) + usize::from(draw(512) == 0)];
        let first = sent + Span(slow * (MS + draw(MS)));
        let done = first + if k % 3 == 0 { Span(20_000 + draw(5_000)) } else { Span::ZERO };
        let stamps = Stamps { intended, sent, first, done, queue, ..Stamps::default() };
        r.started(intended);
        if k % 1_000 == 500 {
            r.failed(&refused(intended), Fault::ConnectRefused, false, Span::ZERO);
            continue;
        }
        r.sent(&stamps);
        // Most replies are read within 0.3 ms, one in 512 after 2 ms.
        let unread = if k % 512 == 0 { 2 * MS } else { k % 64 * 5_000 };
        r.polled(Poll { at: Nanos(done.0.saturating_sub(unread)), previous: PreviousPoll::Empty });
        r.bytes_sent(intended, 82);
        if k % 2_000 != 1_303 && !(k % 2_000 == 1_704 && k > 11_000) {
            r.bytes_received(done, 1_184);
        }
        match k % 2_000 {
            1_001 => r.replied(&stamps, &reply(503), Some(Fault::UnexpectedStatus)),
            1_303 => {
                let up = intended + Span(2_000 * MS);
                r.polled(Poll { at: Nanos(up.0 - 30_000), previous: PreviousPoll::Empty });
                timed_out(&mut r, stamps);
            }
            1_704 if k > 11_000 => r.unfinished(intended),
            _ => r.replied(&stamps, &reply(200), None),
        }
    }
    for i in 0..25 {
        r.wants_connection(Nanos(i * 10 * MS));
        r.connecting(Nanos(i * 10 * MS));
        r.connected(Nanos(i * 10 * MS + 80_000), Span(60_000 + draw(40_000)));
    }
    r.wants_connection(Nanos(2_000 * MS));
    r.connecting(Nanos(2_000 * MS));
    r.connected(Nanos(2_001 * MS), Span(75_000));
    r.retried(Nanos(3_000 * MS));
    r.in_flight_max(23 + shard);
    r.finish(true)
}

fn refused(intended: Nanos) -> Stamps {
    let done = intended + Span(110_000);
    Stamps { intended, sent: done, first: done, done, ..Stamps::default() }
}

fn timed_out(r: &mut Recorder, stamps: Stamps) {
    let done = stamps.intended + Span(2_000 * MS);
    r.failed(&Stamps { done, ..stamps }, Fault::RequestTimeout, true, Span(2_000 * MS));
}

fn reply(status: u16) -> Reply {
    Reply {
        status,
        head_bytes: 160,
        framing_bytes: 0,
        footer_bytes: 0,
        body_bytes: 1_024,
        interim: 0,
        keeps_open: true,
        fault: None,
    }
}

fn piece(from: f64, to: f64) -> RatePiece {
    RatePiece { from, to, length: Some(Span(10_000 * MS)) }
}

fn open_plan() -> Plan {
    Plan {
        warmup: Span(2_000 * MS),
        timeout: Span(2_000 * MS),
        connect_timeout: Span(1_000 * MS),
        seed: 42,
        ..Plan::new(
            vec![Endpoint::Tcp { host: "localhost".into(), port: 8080 }],
            vec![CallSpec {
                endpoint: 0,
                method: "GET".into(),
                path: "/bytes/1024".into(),
                authority: "localhost:8080".into(),
                ..CallSpec::default()
            }],
            Load::Open {
                rate: RatePlan { pieces: vec![piece(1_000.0, 1_000.0)] },
                arrivals: Arrivals::Fixed,
                connections: 50,
            },
            Stop { requests: None, sessions: None, duration: Some(Span(10_000 * MS)) },
        )
    }
}

fn self_tested() -> SelfTested {
    SelfTested {
        started_unix: 1_699_900_000.0,
        host: "lab".into(),
        kernel: "6.1".into(),
        checks: 6,
        checks_passed: 6,
        passed: true,
        changed: String::new(),
        others: Some(0.01),
    }
}

fn run_info() -> RunInfo {
    let words = ["prony", "-r", "1k@10s", "-u", "me:secret", "http://localhost:8080/bytes/1024"];
    RunInfo {
        version: "0.1.0".into(),
        command: prony::cli::shown::recorded(words.map(str::to_owned).to_vec()),
        label: Some("a1b2c3".into()),
        started_unix: Some(1_700_000_000.25),
        driver: "epoll".into(),
        addresses: vec![vec!["127.0.0.1:8080".into()]],
        host: "Linux 6.1, 2 CPUs".into(),
        descriptor_limit: 20_000,
        interrupted: false,
        ended_by: None,
        level: None,
        percentile: None,
        precision: None,
        cpu_pressure: CpuPressure {
            throttled: Some(Span(20 * MS)),
            stolen: Some(Span(10 * MS)),
            wanted: Some(Span(9_000 * MS)),
        },
        until: None,
        self_test: None,
        local_target: None,
        connections_as_sessions: false,
        plan_size: None,
        secrets_shown: false,
        accepted: Accepted::default(),
        part: None,
        director: None,
        replay: None,
        hosts: None,
        notes: vec![],
    }
}

/// Also with kernel timestamps.
fn with_stamps(meter: WorkerStats) -> WorkerStats {
    WorkerStats { timestamps: Some(StampClock { error: Span(45), steps: 1 }), ..meter }
}

/// Also with associations.
fn over_sctp(mut meter: WorkerStats) -> WorkerStats {
    meter.transport.sctp = Some(Sctp {
        associations: 3,
        retransmits: 2,
        paths: 2,
        paths_failed: 1,
        paths_potentially_failed: 1,
        rto_initial_ms: 3_000,
        rto_min_ms: 1_000,
        rto_max_ms: 60_000,
        sack_delay_ms: 200,
        sack_packets: 2,
        nodelay: true,
        ..Sctp::default()
    });
    meter
}

fn meter(cpu_ms: u64) -> WorkerStats {
    WorkerStats {
        cpu_user: Span(cpu_ms * MS / 3),
        cpu_system: Span(cpu_ms * MS * 2 / 3),
        wall: Span(12_010 * MS),
        spin: Span(400 * MS),
        loop_iterations: 11_500,
        stalls: Stalls { checks: 240, late: 2, sum: Span(5 * MS), longest: Span(4 * MS) },
        sched_delay: Some(SchedDelay { total: Span(130 * MS), count: 9_000 }),
        transport: Transport {
            sampled: 26,
            retransmits: 1,
            rtt_sum: Span(26 * 41_000),
            rtt_max: Span(93_000),
            sctp: None,
        },
        timestamps: None,
    }
}

/// The first failure of a kind.
fn failed_first(status: u16, body: &str) -> FirstFailure {
    let (after, body) = (Span(3 * MS), body.to_owned());
    FirstFailure { after, request: Some(0), status: Some(status), body }
}

/// A meter that shares the cores of its machine with the target.
pub(crate) fn limited() -> Summary {
    let mut summary = open();
    let address = "127.0.0.1:8080".into();
    summary.run.local_target = Some(LocalTarget { address, cores: 2 });
    for meter in &mut summary.workers {
        meter.cpu_user = Span(11_500 * MS);
        meter.sched_delay = Some(SchedDelay { total: Span(3_000 * MS), count: 9_000 });
    }
    summary
}

/// With thresholds with every outcome.
pub(crate) fn promised() -> Summary {
    let mut summary = open();
    let texts = ["p50 < 10s", "p99 < 1us", "p99.99 < 100s", "errors < 100%", "requests >= 1"];
    summary.plan.thresholds = texts.map(|text| text.parse().expect(text)).to_vec();
    summary
}
