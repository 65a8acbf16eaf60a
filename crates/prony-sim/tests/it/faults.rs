//! With failures of every kind: the counters agree, the run ends, and no connection stays open.

use prony_base::fault::Fault;
use prony_base::machine::{Machine, StopRequest};
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Alternative, AtLimit, Control, Gate, Retry, RetryOn, Switch, Until};
use prony_plan::plan::{
    Burst, Cookies, Expect, HttpVersion, Load, Lost, OnFailure, Pick, Plan, SessionKind, Sessions,
    Stop, Think,
};
use prony_plan::schedule::Arrivals;
use prony_plan::target::Endpoint;
use prony_sim::link::{ConnectFaults, Link};
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::server::{Hostile, Server, ServiceTime, Station};
use prony_sim::world::Setup;

use crate::plans::{Seed, assert_invariants, closed, get, has_all_seeds, ms, open, seeds};

pub(crate) fn random_plan(rng: &mut Rng) -> Plan {
    let requests = rng.between(1, 60);
    let mut plan = if rng.chance(0.5) {
        let think = match rng.below(4) {
            0 => Think::Fixed(Span(rng.below(5_000_000))),
            1 => Think::Exponential(Span(rng.below(5_000_000))),
            2 => Think::Uniform(Span(rng.below(1_000_000)), Span(rng.between(1 << 20, 1 << 23))),
            _ => Think::None,
        };
        // More than the engine opens at the same time.
        let most = if rng.chance(0.2) { 60 } else { 9 };
        closed(rng.between(1, most) as u32, think, ms(rng.between(1, 200)))
    } else {
        let arrivals = if rng.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
        open(100.0 + rng.unit() * 5_000.0, arrivals, requests)
    };
    if let Load::Open { connections, .. } = &mut plan.load
        && rng.chance(0.7)
    {
        *connections = rng.between(1, 60) as u32;
    }
    plan.stop = match rng.below(3) {
        0 => Stop { requests: Some(requests), sessions: None, duration: None },
        1 => Stop { requests: None, sessions: None, duration: Some(ms(rng.between(1, 200))) },
        _ => Stop {
            requests: Some(requests),
            sessions: None,
            duration: Some(ms(rng.between(1, 200))),
        },
    };
    plan.seed = rng.bits();
    plan.pipeline = if rng.chance(0.5) { 1 } else { rng.between(2, 16) as u32 };
    plan.requests_per_connection =
        if rng.chance(0.4) { Some(rng.between(1, 6) as u32) } else { None };
    plan.timeout = if rng.chance(0.5) { ms(rng.between(1, 100)) } else { ms(2_000) };
    plan.connect_timeout = if rng.chance(0.5) { ms(rng.between(1, 50)) } else { ms(1_000) };
    plan.warmup = if rng.chance(0.3) { ms(rng.between(1, 50)) } else { Span::ZERO };
    plan.http = if rng.chance(0.2) { HttpVersion::Http10 } else { HttpVersion::Http11 };
    plan.pick = if rng.chance(0.5) { Pick::InTurn } else { Pick::Random };
    plan.expect = match rng.below(4) {
        0 => Expect { body: Some(b"xxx".to_vec()), ..Expect::default() },
        1 => Expect { length: Some(16), ..Expect::default() },
        _ => Expect::default(),
    };
    random_calls(rng, &mut plan);
    let counted = plan.stop.requests.is_some() && plan.stop.duration.is_some();
    plan.replace_lost = counted && matches!(plan.load, Load::Closed { .. }) && rng.chance(0.5);
    plan
}

/// Add random sessions of the plan's calls.
pub(crate) fn random_sessions(rng: &mut Rng, plan: &mut Plan) {
    let calls = plan.calls.len() as u64;
    let burst = |rng: &mut Rng| Burst {
        calls: (0..rng.between(1, 8)).map(|_| rng.below(calls) as u32).collect(),
        lead: rng.chance(0.3),
        think: match rng.below(4) {
            0 => Think::Fixed(Span(rng.below(5_000_000))),
            1 => Think::LogNormal(Span(rng.below(2_000_000)), rng.below(2_000) as u32),
            _ => Think::None,
        },
        repeat: rng.between(1, 3) as u32,
        control: None,
    };
    let kinds = (0..rng.between(1, 3))
        .map(|_| SessionKind {
            name: String::new(),
            weight: rng.between(1, 5) as u32,
            bursts: (0..rng.between(1, 3)).map(|_| burst(rng)).collect(),
        })
        .collect();
    plan.sessions = Some(Sessions {
        kinds,
        pick: if rng.chance(0.5) { Pick::InTurn } else { Pick::Random },
        connections: rng.between(1, 4) as u32,
        cookies: Cookies::Off,
        lost: [Lost::Idempotent, Lost::Resend, Lost::Fail][rng.below(3) as usize],
        on_failure: if rng.chance(0.6) { OnFailure::End } else { OnFailure::Continue },
        retries: if rng.chance(0.3) { rng.between(1, 3) as u32 } else { 0 },
        directed: false,
    });
    if rng.chance(0.5) {
        plan.stop.sessions = Some(rng.between(1, 20));
        if rng.chance(0.7) {
            plan.stop.requests = None;
        }
    }
    if plan.http == HttpVersion::Http10 {
        plan.pipeline = 1;
    }
    plan.timeout_from_send = rng.chance(0.3);
    plan.replace_lost = false;
    plan.names = vec!["even".into(), "odd".into()];
    for (k, call) in plan.calls.iter_mut().enumerate() {
        call.name = Some(k as u32 % 2);
        if rng.chance(0.2) {
            call.expect = Some(Box::new(Expect { length: Some(3), ..Expect::default() }));
        }
    }
    random_control(&mut Rng::new(plan.seed, 97), plan);
    plan.check().expect("such a plan is valid");
}

/// Let some of the sessions decide which steps they make.
fn random_control(rng: &mut Rng, plan: &mut Plan) {
    let sessions = plan.sessions.as_mut().expect("sessions");
    if rng.chance(0.6) {
        return;
    }
    for (k, kind) in sessions.kinds.iter_mut().enumerate() {
        // The bursts from here on, and those of them that belong to a switch.
        let (mut left, mut inside) = (kind.bursts.len() as u32, 0);
        for (b, burst) in kind.bursts.iter_mut().enumerate() {
            // A number of requests must be reached.
            let is_fixed = (k, b) == (0, 0);
            let mut control = Control::default();
            if !is_fixed && rng.chance(0.3) {
                control.gate.when = Some("{{random.int 1 3}} <= 2".into());
            }
            if !is_fixed && rng.chance(0.3) {
                control.gate.unless = Some("{{status}} == 404".into());
            }
            if rng.chance(0.3) {
                let condition = "{{random.int 1 3}} == 1".into();
                let at_limit = [AtLimit::Fail, AtLimit::Continue][rng.below(2) as usize];
                control.until = Some(Until { condition, at_limit });
            }
            if burst.calls.len() == 1 && rng.chance(0.7) {
                let on = [RetryOn::Status, RetryOn::Reply, RetryOn::Timeout, RetryOn::Lost];
                control.retry = Some(Retry {
                    times: rng.between(1, 3) as u32,
                    wait: Span(rng.below(2_000_000)),
                    factor: rng.between(1_000, 3_000) as u32,
                    max: rng.chance(0.5).then_some(Span(3_000_000)),
                    jitter: rng.below(1_001) as u32,
                    on: on.to_vec(),
                });
            }
            if !is_fixed && rng.chance(0.3) {
                let more = u32::from(inside == 0 && left >= 2 && rng.chance(0.7));
                let first = Alternative { weight: rng.between(0, 2) as u32, bursts: 1 };
                let second = Alternative { weight: 1, bursts: more };
                let alternatives = vec![first, second];
                control.switches.push(Switch { gate: Gate::default(), alternatives });
                inside = inside.max(1 + more);
            }
            burst.control = (!control.is_empty()).then(|| Box::new(control));
            (left, inside) = (left - 1, inside.saturating_sub(1));
        }
    }
}

fn random_calls(rng: &mut Rng, plan: &mut Plan) {
    for port in 81..81 + rng.below(3) as u16 {
        plan.endpoints.push(Endpoint::Tcp { host: "server".into(), port });
    }
    for k in 0..rng.below(5) {
        let mut call = get(&format!("/{k}"));
        call.endpoint = rng.below(plan.endpoints.len() as u64) as u32;
        match rng.below(4) {
            0 => call.method = "HEAD".into(),
            1 => {
                call.method = "POST".into();
                call.body = vec![b'z'; rng.below(300) as usize];
            }
            _ => {}
        }
        plan.calls.push(call);
    }
}

pub(crate) fn random_setup(rng: &mut Rng, seed: u64) -> Setup {
    let link = match rng.below(4) {
        0 => Link::with_latency(Span(rng.below(3_000_000))),
        1 => Link::rough(rng),
        _ => Link::broken(rng),
    };
    let mut setup = Setup::new(link, seed);
    setup.link.latency += Span(1_000);
    // A long head takes many events if it arrives byte by byte.
    setup.max_events = 30_000_000;
    setup.watch = false;
    if rng.chance(0.3) {
        // A few milliseconds, or longer than the timeouts.
        let most = if rng.chance(0.3) { 500_000_000 } else { 3_000_000 };
        setup.timer_lateness = Span(rng.below(most));
    }
    if rng.chance(0.4) {
        let at = Nanos(rng.below(150_000_000));
        let how = if rng.chance(0.6) { StopRequest::Drain } else { StopRequest::Now };
        setup.stops.push((at, how));
        if how == StopRequest::Drain && rng.chance(0.5) {
            setup.stops.push((at + ms(rng.below(50)), StopRequest::Now));
        }
    }
    setup
}

pub(crate) fn random_server(rng: &mut Rng, seed: u64) -> Box<dyn Machine> {
    if rng.chance(0.3) {
        let service_time = ServiceTime::Exponential(Span(rng.below(5_000_000)));
        let station = Station::new(service_time, seed).body(0, 400).close_after(rng.between(1, 20));
        Box::new(Server::new(station.statuses(vec![200, 200, 404, 204])))
    } else {
        Box::new(Server::new(Hostile::new(seed, rng.unit())))
    }
}

/// Every load model and pipeline depth, with failures of every kind.
#[test]
fn p04_counters_agree_whatever_fails() {
    let (mut faults, mut replies, mut unfinished, mut retries) = (vec![0; Fault::COUNT], 0, 0, 0);
    for seed in seeds(2_000) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 20);
        let mut plan = random_plan(&mut rng);
        if seed % 2 == 1 {
            random_sessions(&mut rng, &mut plan);
        }
        let setup = random_setup(&mut rng, seed);
        let mut server = random_server(&mut rng, seed);
        let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut *server]);
        assert_invariants(&outcome, &format!("seed {seed}"));
        for (client, (warm, main)) in outcome.tallies.iter().enumerate() {
            let both = || warm.iter().chain([main]);
            let traffic = outcome.world.oracle.clients().get(client).cloned().unwrap_or_default();
            assert_eq!(both().map(|t| t.connects).sum::<u64>(), traffic.connects, "seed {seed}");
            assert_eq!(
                both().map(|t| t.bytes_sent).sum::<u64>(),
                traffic.bytes_sent,
                "seed {seed}"
            );
            let read = both().map(|t| t.bytes_head + t.bytes_body).sum::<u64>();
            assert!(read <= traffic.bytes_received, "seed {seed}: more read than was sent");
            let received = both().map(|t| t.bytes_received).sum::<u64>();
            assert_eq!(received, traffic.bytes_received, "seed {seed}");
            for t in both() {
                t.faults.iter().zip(&mut faults).for_each(|(n, sum)| *sum += n);
                replies += t.replies;
                unfinished += t.unfinished;
                retries += t.retries;
            }
        }
        let last =
            plan.warmup + plan.stop.duration.unwrap_or(Span::from_secs(3_600)) + plan.timeout;
        let latest = Nanos::ZERO + last + setup.timer_lateness + setup.timer_lateness + ms(1);
        for &end in &outcome.world.finished {
            assert!(end <= latest, "seed {seed}: finished at {end}, expected by {latest}");
        }
    }
    // Nearly every fault occurred, and many correct replies too.
    let kinds = faults.iter().filter(|&&n| n > 0).count();
    assert!(!has_all_seeds() || kinds >= 20, "only {kinds} kinds of faults occurred: {faults:?}");
    assert!(!has_all_seeds() || replies > 10_000 && unfinished > 100 && retries > 100);
}

/// A target that refuses every connect, or never replies to it.
#[test]
fn runs_against_a_dead_target_end_in_time() {
    for seed in 0..200 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 21);
        let mut plan = random_plan(&mut rng);
        if seed % 2 == 1 {
            random_sessions(&mut rng, &mut plan);
        }
        plan.stop.duration = Some(ms(50));
        let p = rng.unit();
        let connect = ConnectFaults { refused: p, unanswered: 1.0 - p, ..ConnectFaults::default() };
        let link = Link { connect, ..Link::with_latency(Span::from_micros(50)) };
        let mut server = Server::new(Hostile::new(seed, 1.0));
        let outcome = load(&plan, 1, &Setup::new(link, seed), &mut [&mut server]);
        assert_invariants(&outcome, &format!("seed {seed}"));
        let t = outcome.main();
        assert_eq!((t.replies, t.connected, t.sent), (0, 0, 0), "seed {seed}");
        let end = Nanos::ZERO + plan.warmup + ms(50) + plan.timeout;
        assert!(outcome.world.finished[0] <= end, "seed {seed}: {}", outcome.world.finished[0]);
    }
}

/// With replacement of lost requests, exactly the planned number gets a reply, however many are
/// lost.
#[test]
fn lost_requests_are_replaced() {
    let mut lost = 0;
    for seed in 0..100 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 22);
        let mut plan = random_plan(&mut rng);
        let think =
            if rng.chance(0.3) { Think::Fixed(Span(rng.below(5_000_000))) } else { Think::None };
        let (connections, requests) = (rng.between(1, 9) as u32, rng.between(1, 60));
        plan.load = Load::Closed { connections, think };
        plan.stop = Stop { requests: Some(requests), sessions: None, duration: None };
        (plan.replace_lost, plan.http) = (true, HttpVersion::Http11);
        // Long enough for every reply.
        (plan.timeout, plan.connect_timeout) = (ms(2_000), ms(1_000));
        plan.check().expect("such a plan is valid");
        let connect = ConnectFaults { refused: rng.unit() * 0.4, ..ConnectFaults::default() };
        let reset = rng.unit() * 0.3;
        let link = Link { reset, connect, ..Link::with_latency(Span::from_micros(50)) };
        let station = Station::new(ServiceTime::Fixed(ms(1)), seed).statuses(vec![200, 404]);
        let mut server = Server::new(station);
        let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let outcome = load(&plan, shares, &Setup::new(link, seed), &mut [&mut server]);
        assert_invariants(&outcome, &format!("seed {seed}"));
        let t = outcome.main();
        assert_eq!(t.replies + t.failed - t.lost(), requests, "seed {seed}");
        assert_eq!(t.unfinished, 0, "seed {seed}");
        lost += t.lost();
    }
    assert!(lost > 400, "only {lost} requests were lost");
}
