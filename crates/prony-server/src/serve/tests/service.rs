//! Service times, the station's queue and freezes, against theory.

use std::num::NonZeroU32;

use prony_base::rng::{self, Stream};
use prony_base::units::{Nanos, Span};

use super::{Rig, at, get, ms};
use crate::serve::{Change, Latency, ServerBehavior, Share, Stalls};

/// Response times of requests that arrive at these times, each on its own connection.
fn responses(behavior: ServerBehavior, arrivals: impl Iterator<Item = Nanos>) -> Vec<Span> {
    let mut rig = Rig::new(behavior);
    let mut free = Vec::new();
    let mut busy: Vec<(usize, Nanos)> = Vec::new();
    let mut all = Vec::new();
    let mut settle = |rig: &mut Rig, busy: &mut Vec<(usize, Nanos)>, free: &mut Vec<usize>| {
        busy.retain(|&(link, since)| {
            let Some((done, _)) = rig.links[link].got.pop() else {
                return true;
            };
            all.push(done.since(since));
            free.push(link);
            false
        });
    };
    for t in arrivals {
        rig.run_until(t);
        settle(&mut rig, &mut busy, &mut free);
        let link = free.pop().unwrap_or_else(|| rig.connect());
        rig.send(link, get("/"));
        busy.push((link, t));
    }
    rig.run_until(rig.now + Span::from_secs(3600));
    settle(&mut rig, &mut busy, &mut free);
    assert!(busy.is_empty());
    all
}

fn poisson(n: u64, mean: Span) -> impl Iterator<Item = Nanos> {
    let mut t = Nanos::ZERO;
    (0..n).map(move |k| {
        t = t + rng::exponential(rng::keyed(99, Stream::Arrivals, k, 0), mean);
        t
    })
}

fn mean(all: &[Span]) -> f64 {
    all.iter().map(|t| t.as_secs_f64()).sum::<f64>() / all.len() as f64
}

/// The Kolmogorov-Smirnov statistic: the largest distance between the empirical distribution
/// function and `cdf`, times the square root of the sample size. If `cdf` is correct, it exceeds
/// 1.95 with a probability of 0.001.
fn ks(mut sample: Vec<Span>, cdf: impl Fn(f64) -> f64) -> f64 {
    sample.sort_unstable();
    let n = sample.len() as f64;
    let far = |(i, t): (usize, &Span)| {
        let p = cdf(t.as_secs_f64());
        (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
    };
    sample.iter().enumerate().map(far).fold(0.0, f64::max) * n.sqrt()
}

fn drawn(latency: Latency) -> Vec<Span> {
    let arrivals = (0..10_000).map(|k| Nanos::ZERO + Span::from_secs(k));
    responses(ServerBehavior { latency, ..ServerBehavior::default() }, arrivals)
}

/// By the trapezoidal rule, which is accurate enough for a test.
fn normal_cdf(x: f64) -> f64 {
    let steps = 300;
    let (from, h) = (-8.0, (x.max(-8.0) + 8.0) / f64::from(steps));
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    (0..steps)
        .map(|i| from + h * f64::from(i))
        .map(|a| h * (density(a) + density(a + h)) / 2.0)
        .sum()
}

#[test]
fn latencies_follow_their_distributions() {
    let all = drawn(Latency::Exponential(ms(10)));
    assert!(ks(all, |t| 1.0 - (-t / 0.01).exp()) < 1.95);
    let all = drawn(Latency::Uniform(ms(10), ms(30)));
    assert!(ks(all, |t| ((t - 0.01) / 0.02).clamp(0.0, 1.0)) < 1.95);
    let all = drawn(Latency::LogNormal { median: ms(10), sigma: 0.5 });
    assert!(ks(all, |t| normal_cdf((t / 0.01).ln() / 0.5)) < 1.95);
    let all = drawn(Latency::Fixed(ms(10)));
    assert!(all.iter().all(|&t| t == ms(10)));
    let all = drawn(Latency::Bimodal { fast: ms(1), slow: ms(100), share: Share(0.01) });
    let slow = all.iter().filter(|&&t| t == ms(100)).count();
    assert!(all.iter().all(|&t| t == ms(1) || t == ms(100)));
    // 100 expected, standard deviation 10.
    assert!((60..=140).contains(&slow), "{slow}");
}

#[test]
fn requests_do_not_wait_without_a_worker_limit() {
    let behavior = ServerBehavior { latency: Latency::Fixed(ms(10)), ..ServerBehavior::default() };
    let all = responses(behavior, (0..1_000).map(|k| Nanos::ZERO + ms(1) * k));
    assert!(all.iter().all(|&t| t == ms(10)));
}

#[test]
fn service_times_step_and_drift() {
    let change = |factor, at| Some(Change { factor, at: ms(at) });
    let fixed = ServerBehavior { latency: Latency::Fixed(ms(10)), ..ServerBehavior::default() };
    let taken = |behavior: ServerBehavior| responses(behavior, (0..6).map(|k| at(100 + k * 100)));
    let step = ServerBehavior { step: change(3.0, 200), ..fixed.clone() };
    assert_eq!(taken(step), [10, 10, 30, 30, 30, 30].map(ms));
    let drift = ServerBehavior { drift: change(5.0, 400), ..fixed.clone() };
    assert_eq!(taken(drift.clone()), [10, 20, 30, 40, 50, 50].map(ms));
    let both = ServerBehavior { step: change(0.5, 500), ..drift };
    assert_eq!(taken(both), [10, 20, 30, 40, 50, 25].map(ms));
    assert_eq!(taken(ServerBehavior { drift: change(2.0, 0), ..fixed }), [20; 6].map(ms));
}

fn station(workers: u32, latency: Latency) -> ServerBehavior {
    ServerBehavior { workers: NonZeroU32::new(workers), latency, ..ServerBehavior::default() }
}

#[test]
fn serves_in_order_of_arrival() {
    let mut rig = Rig::new(station(2, Latency::Fixed(ms(10))));
    let links: Vec<usize> = (0..5).map(|_| rig.connect()).collect();
    for &link in &links {
        rig.send(link, get("/"));
    }
    rig.run_until(at(1_000));
    let done: Vec<Nanos> = links.iter().map(|&l| rig.links[l].got[0].0).collect();
    assert_eq!(done, [at(10), at(10), at(20), at(20), at(30)]);
    assert_eq!(rig.served().in_server_max, 5);
}

#[test]
fn late_tick_does_not_delay_later_services() {
    let mut rig = Rig::new(station(1, Latency::Fixed(ms(10))));
    let links: Vec<usize> = (0..5).map(|_| rig.connect()).collect();
    for &link in &links {
        rig.send(link, get("/"));
    }
    // All requests done by 37 ms are answered then; the one in service started at 30 ms, not at 37.
    rig.now = at(37);
    rig.run_until(at(37));
    rig.run_until(at(1_000));
    let done: Vec<Nanos> = links.iter().map(|&l| rig.links[l].got[0].0).collect();
    assert_eq!(done, [at(37), at(37), at(37), at(40), at(50)]);
}

#[test]
fn closed_connections_do_not_delay_the_queue() {
    let mut rig = Rig::new(station(1, Latency::Fixed(ms(10))));
    let links: Vec<usize> = (0..3).map(|_| rig.connect()).collect();
    for &link in &links {
        rig.send(link, get("/"));
    }
    let id = rig.links[links[1]].id;
    prony_base::machine::Machine::on_closed(
        &mut rig.serve,
        id,
        Some(prony_base::fault::Fault::Reset),
        rig.now,
    );
    rig.poll();
    rig.run_until(at(1_000));
    assert_eq!(rig.links[links[0]].got[0].0, at(10));
    assert_eq!(rig.links[links[2]].got[0].0, at(20));
}

#[test]
fn one_worker_matches_the_m_m_1_queue() {
    // M/M/1: response times are exponential with mean 1 / (mu - lambda).
    let all = responses(station(1, Latency::Exponential(ms(10))), poisson(100_000, ms(20)));
    let mean = mean(&all);
    assert!((mean / 0.020 - 1.0).abs() < 0.02, "{mean}");
}

#[test]
fn many_workers_match_the_m_m_c_queue() {
    // M/M/c with c = 4, service 10 ms, an arrival every 3.125 ms: offered load a = 3.2.
    let (a, c) = (3.2_f64, 4);
    let term = |k: i32| a.powi(k) / (1..=k).map(f64::from).product::<f64>();
    let last = term(c) * f64::from(c) / (f64::from(c) - a);
    let waits = last / ((0..c).map(term).sum::<f64>() + last);
    let theory = 0.010 + waits * 0.010 / (f64::from(c) - a);
    let all = responses(
        station(4, Latency::Exponential(ms(10))),
        poisson(150_000, Span::from_micros(3_125)),
    );
    let mean = mean(&all);
    assert!((mean / theory - 1.0).abs() < 0.03, "{mean} is not {theory}");
}

fn stalls(text: &str) -> Stalls {
    text.parse().expect("stalls")
}

#[test]
fn service_is_suspended_during_a_freeze() {
    for (text, from, work, done) in [
        ("none", 5, 10, 15),
        ("2s@+4s", 0, 10, 10),
        ("2s@+4s", 3_990, 10, 4_000),
        ("2s@+4s", 3_995, 10, 6_005),
        ("2s@+4s", 4_000, 0, 6_000),
        ("2s@+4s", 5_000, 10, 6_010),
        ("2s@+4s", 6_000, 10, 6_010),
        ("2s@+0s", 0, 10, 2_010),
        ("1s@10s", 0, 0, 0),
        ("1s@10s", 500, 100, 600),
        ("1s@10s", 9_995, 10, 11_005),
        ("1s@10s", 10_999, 0, 11_000),
        ("1s@10s", 0, 25_000, 27_000),
        ("1s@10s", 20_500, 9_000, 31_000 - 1_000),
        ("1s@10s", 20_500, 9_001, 31_001),
        // Adjacent and overlapping freezes are merged.
        ("1s@10s,500ms@+9500ms,1s@+10900ms", 9_499, 2, 11_901),
        ("1s@+1s,3s@+500ms", 600, 1, 3_501),
    ] {
        let ns = |ms: u64| ms * 1_000_000;
        assert_eq!(stalls(text).done(ns(from), ms(work)), ns(done), "{text} {from} {work}");
    }
}

#[test]
fn freeze_delays_requests_by_the_expected_amount() {
    // 1,000 requests in 10 s, served in 2 ms; frozen from second 4 to 6 after the first.
    let behavior = ServerBehavior {
        latency: Latency::Fixed(ms(2)),
        stalls: stalls("2s@+4s"),
        ..ServerBehavior::default()
    };
    let mut all = responses(behavior, (0..1_000).map(|k| Nanos::ZERO + ms(10) * k));
    all.sort_unstable();
    assert_eq!(all[..800], vec![ms(2); 800]);
    let touched: Vec<Span> = (1..=200).map(|k| ms(10 * k + 2)).collect();
    assert_eq!(all[800..], touched);
}

#[test]
fn sends_no_reply_during_a_freeze_even_if_late() {
    let behavior = ServerBehavior {
        latency: Latency::Fixed(ms(2)),
        stalls: stalls("1s@+10ms"),
        ..ServerBehavior::default()
    };
    let mut rig = Rig::new(behavior);
    let link = rig.connect();
    rig.send(link, get("/"));
    rig.run_until(at(7));
    rig.send(link, get("/"));
    // Due at 9 ms, but the driver ticks only at 11 ms, during the freeze.
    rig.now = at(11);
    rig.run_until(at(500));
    assert_eq!(rig.links[link].got.len(), 1);
    rig.send(link, "junk\r\n\r\n");
    rig.run_until(at(2_000));
    let came: Vec<Nanos> = rig.links[link].got.iter().map(|(t, _)| *t).collect();
    assert_eq!(came, [at(2), at(1_010)], "both at the end of the freeze, in one piece");
    assert_eq!(rig.served().frozen, 1, "the junk; the second request was due before");
    assert_eq!(rig.statuses(link), [200, 200, 400]);
}

#[test]
fn counts_requests_extended_by_a_freeze() {
    // With one worker, the service time of requests that wait for it is not extended.
    let stalls = stalls("1s@+1s");
    for (workers, frozen) in [(None, 2), (NonZeroU32::new(1), 1)] {
        let behavior = ServerBehavior {
            latency: Latency::Fixed(ms(2)),
            stalls: stalls.clone(),
            workers,
            ..ServerBehavior::default()
        };
        let mut rig = Rig::new(behavior);
        for t in [0, 999, 1_500, 2_001] {
            rig.run_until(at(t));
            let link = rig.connect();
            rig.send(link, get("/"));
        }
        rig.run_until(at(3_000));
        assert_eq!((rig.served().replies, rig.served().frozen), (4, frozen), "{workers:?}");
    }
}

#[test]
fn pipelined_replies_keep_their_order() {
    let mut rig = Rig::new(ServerBehavior::default());
    let link = rig.connect();
    let paths = ["/delay/30ms", "/status/201", "/delay/10ms", "/status/503"];
    rig.send(link, paths.map(get).concat());
    rig.run_until(at(29));
    assert_eq!(rig.text(link), "");
    rig.run_until(at(30));
    assert_eq!(rig.statuses(link), [200, 201, 200, 503]);
}
