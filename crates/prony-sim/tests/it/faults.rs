//! Whatever breaks: the sums hold, the run ends, nothing is left open.

use prony_core::machine::{Machine, StopRequest};
use prony_core::plan::{
    Burst, Cookies, Expect, HttpVersion, Load, Lost, OnFailure, Pick, Plan, SessionKind, Sessions,
    Stop, Think,
};
use prony_core::schedule::Arrivals;
use prony_core::target::Endpoint;
use prony_core::units::{Nanos, Span};
use prony_sim::dice::Dice;
use prony_sim::link::{ConnectOdds, Link};
use prony_sim::load;
use prony_sim::plant::{Hostile, Law, Server, Station};
use prony_sim::world::Setup;

use crate::plans::{Seed, assert_conserved, closed, get, ms, open};

pub(crate) fn any_plan(dice: &mut Dice) -> Plan {
    let requests = dice.between(1, 60);
    let mut plan = if dice.chance(0.5) {
        let think = match dice.below(4) {
            0 => Think::Fixed(Span(dice.below(5_000_000))),
            1 => Think::Exponential(Span(dice.below(5_000_000))),
            2 => Think::Uniform(Span(dice.below(1_000_000)), Span(dice.between(1 << 20, 1 << 23))),
            _ => Think::None,
        };
        // Some more than begin at once.
        let most = if dice.chance(0.2) { 60 } else { 9 };
        closed(dice.between(1, most) as u32, think, ms(dice.between(1, 200)))
    } else {
        let arrivals = if dice.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
        open(100.0 + dice.unit() * 5_000.0, arrivals, requests)
    };
    if let Load::Open { connections, .. } = &mut plan.load
        && dice.chance(0.7)
    {
        *connections = dice.between(1, 60) as u32;
    }
    plan.stop = match dice.below(3) {
        0 => Stop { requests: Some(requests), sessions: None, duration: None },
        1 => Stop { requests: None, sessions: None, duration: Some(ms(dice.between(1, 200))) },
        _ => Stop {
            requests: Some(requests),
            sessions: None,
            duration: Some(ms(dice.between(1, 200))),
        },
    };
    plan.seed = dice.bits();
    plan.pipeline = if dice.chance(0.5) { 1 } else { dice.between(2, 16) as u32 };
    plan.requests_per_connection =
        if dice.chance(0.4) { Some(dice.between(1, 6) as u32) } else { None };
    plan.timeout = if dice.chance(0.5) { ms(dice.between(1, 100)) } else { ms(2_000) };
    plan.connect_timeout = if dice.chance(0.5) { ms(dice.between(1, 50)) } else { ms(1_000) };
    plan.warmup = if dice.chance(0.3) { ms(dice.between(1, 50)) } else { Span::ZERO };
    plan.http = if dice.chance(0.2) { HttpVersion::Http10 } else { HttpVersion::Http11 };
    plan.pick = if dice.chance(0.5) { Pick::InTurn } else { Pick::Random };
    plan.expect = match dice.below(4) {
        0 => Expect { body: Some(b"xxx".to_vec()), ..Expect::default() },
        1 => Expect { length: Some(16), ..Expect::default() },
        _ => Expect::default(),
    };
    some_calls(dice, &mut plan);
    let counted = plan.stop.requests.is_some() && plan.stop.duration.is_some();
    plan.replace_lost = counted && matches!(plan.load, Load::Closed { .. }) && dice.chance(0.5);
    plan
}

/// Sessions of every kind out of the plan's calls.
pub(crate) fn some_sessions(dice: &mut Dice, plan: &mut Plan) {
    let calls = plan.calls.len() as u64;
    let burst = |dice: &mut Dice| Burst {
        calls: (0..dice.between(1, 8)).map(|_| dice.below(calls) as u32).collect(),
        lead: dice.chance(0.3),
        think: match dice.below(4) {
            0 => Think::Fixed(Span(dice.below(5_000_000))),
            1 => Think::LogNormal(Span(dice.below(2_000_000)), dice.below(2_000) as u32),
            _ => Think::None,
        },
        repeat: dice.between(1, 3) as u32,
    };
    let kinds = (0..dice.between(1, 3))
        .map(|_| SessionKind {
            name: String::new(),
            weight: dice.between(1, 5) as u32,
            bursts: (0..dice.between(1, 3)).map(|_| burst(dice)).collect(),
        })
        .collect();
    plan.sessions = Some(Sessions {
        kinds,
        pick: if dice.chance(0.5) { Pick::InTurn } else { Pick::Random },
        connections: dice.between(1, 4) as u32,
        cookies: Cookies::Off,
        lost: [Lost::Idempotent, Lost::Resend, Lost::Fail][dice.below(3) as usize],
        on_failure: if dice.chance(0.6) { OnFailure::End } else { OnFailure::Continue },
        retries: if dice.chance(0.3) { dice.between(1, 3) as u32 } else { 0 },
    });
    if dice.chance(0.5) {
        plan.stop.sessions = Some(dice.between(1, 20));
        if dice.chance(0.7) {
            plan.stop.requests = None;
        }
    }
    if plan.http == HttpVersion::Http10 {
        plan.pipeline = 1;
    }
    plan.timeout_from_send = dice.chance(0.3);
    plan.replace_lost = false;
    plan.names = vec!["even".into(), "odd".into()];
    for (k, call) in plan.calls.iter_mut().enumerate() {
        call.name = Some(k as u32 % 2);
        if dice.chance(0.2) {
            call.expect = Some(Box::new(Expect { length: Some(3), ..Expect::default() }));
        }
    }
    plan.check().expect("such a plan is valid");
}

fn some_calls(dice: &mut Dice, plan: &mut Plan) {
    for port in 81..81 + dice.below(3) as u16 {
        plan.endpoints.push(Endpoint::Tcp { host: "plant".into(), port });
    }
    for k in 0..dice.below(5) {
        let mut call = get(&format!("/{k}"));
        call.endpoint = dice.below(plan.endpoints.len() as u64) as u32;
        match dice.below(4) {
            0 => call.method = "HEAD".into(),
            1 => {
                call.method = "POST".into();
                call.body = vec![b'z'; dice.below(300) as usize];
            }
            _ => {}
        }
        plan.calls.push(call);
    }
}

fn any_setup(dice: &mut Dice, seed: u64) -> Setup {
    let link = match dice.below(4) {
        0 => Link::with_latency(Span(dice.below(3_000_000))),
        1 => Link::rough(dice),
        _ => Link::broken(dice),
    };
    let mut setup = Setup::new(link, seed);
    setup.link.latency += Span(1_000);
    // A long head that arrives byte by byte through a tiny window takes a while.
    setup.steps = 30_000_000;
    setup.watch = false;
    if dice.chance(0.3) {
        // A few milliseconds, or longer than requests may take.
        let most = if dice.chance(0.3) { 500_000_000 } else { 3_000_000 };
        setup.late = Span(dice.below(most));
    }
    if dice.chance(0.4) {
        let at = Nanos(dice.below(150_000_000));
        let how = if dice.chance(0.6) { StopRequest::Drain } else { StopRequest::Now };
        setup.stops.push((at, how));
        if how == StopRequest::Drain && dice.chance(0.5) {
            setup.stops.push((at + ms(dice.below(50)), StopRequest::Now));
        }
    }
    setup
}

fn any_server(dice: &mut Dice, seed: u64) -> Box<dyn Machine> {
    if dice.chance(0.3) {
        let law = Law::Exponential(Span(dice.below(5_000_000)));
        let station = Station::new(law, seed).body(0, 400).close_after(dice.between(1, 20));
        Box::new(Server::new(station.statuses(vec![200, 200, 404, 204])))
    } else {
        Box::new(Server::new(Hostile::new(seed, dice.unit())))
    }
}

/// Every load model, every pipelining depth, against every kind of trouble.
#[test]
fn p04_sums_hold_whatever_breaks() {
    let (mut seen, mut replies, mut unfinished, mut retries) = (vec![0; 32], 0, 0, 0);
    for seed in 0..2_000 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 20);
        let mut plan = any_plan(&mut dice);
        if seed % 2 == 1 {
            some_sessions(&mut dice, &mut plan);
        }
        let setup = any_setup(&mut dice, seed);
        let mut server = any_server(&mut dice, seed);
        let shares = dice.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut *server]);
        assert_conserved(&outcome, &format!("seed {seed}"));
        for (client, (warm, main)) in outcome.tallies.iter().enumerate() {
            let both = || warm.iter().chain([main]);
            let wires = outcome.ran.oracle.clients().get(client).cloned().unwrap_or_default();
            assert_eq!(both().map(|t| t.connects).sum::<u64>(), wires.connects, "seed {seed}");
            assert_eq!(both().map(|t| t.bytes_sent).sum::<u64>(), wires.bytes_sent, "seed {seed}");
            let heard = both().map(|t| t.bytes_head + t.bytes_body).sum::<u64>();
            assert!(heard <= wires.bytes_received, "seed {seed}: more heard than was said");
            let received = both().map(|t| t.bytes_received).sum::<u64>();
            assert_eq!(received, wires.bytes_received, "seed {seed}");
            for t in both() {
                t.faults.iter().zip(&mut seen).for_each(|(n, sum)| *sum += n);
                replies += t.replies;
                unfinished += t.unfinished;
                retries += t.retries;
            }
        }
        let last =
            plan.warmup + plan.stop.duration.unwrap_or(Span::from_secs(3_600)) + plan.timeout;
        let latest = Nanos::ZERO + last + setup.late + setup.late + ms(1);
        for &end in &outcome.ran.finished {
            assert!(end <= latest, "seed {seed}: finished at {end}, at the latest {latest}");
        }
    }
    // The trouble was real: nearly every fault was met, and many good replies too.
    let met = seen.iter().filter(|&&n| n > 0).count();
    assert!(met >= 20, "only {met} kinds of fault were met: {seen:?}");
    assert!(replies > 10_000 && unfinished > 100 && retries > 100);
}

/// A target that refuses, or never answers, every connect.
#[test]
fn a_dead_target_ends_in_time() {
    for seed in 0..200 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 21);
        let mut plan = any_plan(&mut dice);
        if seed % 2 == 1 {
            some_sessions(&mut dice, &mut plan);
        }
        plan.stop.duration = Some(ms(50));
        let p = dice.unit();
        let connect = ConnectOdds { refused: p, unanswered: 1.0 - p, ..ConnectOdds::default() };
        let link = Link { connect, ..Link::with_latency(Span::from_micros(50)) };
        let mut server = Server::new(Hostile::new(seed, 1.0));
        let outcome = load(&plan, 1, &Setup::new(link, seed), &mut [&mut server]);
        assert_conserved(&outcome, &format!("seed {seed}"));
        let t = outcome.main();
        assert_eq!((t.replies, t.connected, t.sent), (0, 0, 0), "seed {seed}");
        let end = Nanos::ZERO + plan.warmup + ms(50) + plan.timeout;
        assert!(outcome.ran.finished[0] <= end, "seed {seed}: {}", outcome.ran.finished[0]);
    }
}

/// Where lost requests are made up for, exactly as many as asked are answered, whatever is lost.
#[test]
fn lost_requests_are_replaced() {
    let mut lost = 0;
    for seed in 0..100 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 22);
        let mut plan = any_plan(&mut dice);
        let think =
            if dice.chance(0.3) { Think::Fixed(Span(dice.below(5_000_000))) } else { Think::None };
        let (connections, requests) = (dice.between(1, 9) as u32, dice.between(1, 60));
        plan.load = Load::Closed { connections, think };
        plan.stop = Stop { requests: Some(requests), sessions: None, duration: None };
        (plan.replace_lost, plan.http) = (true, HttpVersion::Http11);
        // Time enough for each to be answered at all.
        (plan.timeout, plan.connect_timeout) = (ms(2_000), ms(1_000));
        plan.check().expect("such a plan is valid");
        let connect = ConnectOdds { refused: dice.unit() * 0.4, ..ConnectOdds::default() };
        let reset = dice.unit() * 0.3;
        let link = Link { reset, connect, ..Link::with_latency(Span::from_micros(50)) };
        let station = Station::new(Law::Fixed(ms(1)), seed).statuses(vec![200, 404]);
        let mut server = Server::new(station);
        let shares = dice.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let outcome = load(&plan, shares, &Setup::new(link, seed), &mut [&mut server]);
        assert_conserved(&outcome, &format!("seed {seed}"));
        let t = outcome.main();
        assert_eq!(t.replies + t.failed - t.lost(), requests, "seed {seed}");
        assert_eq!(t.unfinished, 0, "seed {seed}");
        lost += t.lost();
    }
    assert!(lost > 400, "only {lost} requests were lost");
}
