//! The measured response times agree with queueing theory.

use prony_base::units::Span;
use prony_plan::plan::{Plan, Think};
use prony_plan::schedule::Arrivals;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::server::{Server, ServiceTime, Station};
use prony_sim::world::Setup;
use prony_tally::record::Tally;

use crate::plans::{assert_invariants, closed, open};

/// The standard error of the mean is 0.4 % at a utilization of 0.7, that of the p99 is 1.3 % at
/// 0.8: response times are autocorrelated, and more so at a busier station.
const REQUESTS: u64 = 2_000_000;

/// The measured mean and p99 of the response time, in mean service times, at a station with this
/// number of servers and this utilization.
fn measured(servers: usize, load_share: f64, seed: u64) -> (f64, f64) {
    measured_with(Arrivals::Poisson, servers, load_share, seed)
}

fn measured_with(arrivals: Arrivals, servers: usize, load_share: f64, seed: u64) -> (f64, f64) {
    let service = Span::from_micros(100);
    let rate = load_share * servers as f64 / service.as_secs_f64();
    let mut plan = open(rate, arrivals, REQUESTS);
    plan.seed = seed;
    let station = Station::new(ServiceTime::Exponential(service), seed).servers(servers);
    let setup = Setup { watch: false, ..Setup::new(Link::default(), seed) };
    let outcome = load(&plan, 1, &setup, &mut [&mut Server::new(station)]);
    assert_invariants(&outcome, "M/M/c");
    let tally = outcome.main();
    assert_eq!((tally.replies, tally.times.lag.sum_ns()), (REQUESTS, 0));
    let response = &tally.times.response;
    let unit = service.0 as f64;
    (response.mean_ns().unwrap() / unit, response.quantile(0.99).unwrap().0 as f64 / unit)
}

/// The probability that an arrival must wait (Erlang C), for an offered load of `a` erlangs.
pub(crate) fn erlang_c(c: usize, a: f64) -> f64 {
    let blocked = (1..=c).fold(1.0, |b, k| a * b / (k as f64 + a * b));
    let rho = a / c as f64;
    blocked / (1.0 - rho * (1.0 - blocked))
}

/// P(response > t) of M/M/c, in mean service times: an exponential service time, after a wait that
/// is zero, or exponential with rate c - a.
fn tail(c: usize, a: f64, t: f64) -> f64 {
    let (wait, r) = (erlang_c(c, a), c as f64 - a);
    // For c = 1 the result is exp(-(1 - a) t).
    let service_tail = (-t).exp();
    if (r - 1.0).abs() < 1e-9 {
        return service_tail * (1.0 + wait * t);
    }
    service_tail + wait * (service_tail - (-r * t).exp()) / (r - 1.0)
}

fn p99(c: usize, a: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1_000.0);
    for _ in 0..100 {
        let t = (low + high) / 2.0;
        *(if tail(c, a, t) > 0.01 { &mut low } else { &mut high }) = t;
    }
    low
}

fn assert_theory(servers: usize, load_share: f64, seed: u64) {
    let a = load_share * servers as f64;
    let mean = 1.0 + erlang_c(servers, a) / (servers as f64 - a);
    let (measured_mean, measured_p99) = measured(servers, load_share, seed);
    let what = format!("{servers} servers busy {load_share}");
    let exact = p99(servers, a);
    assert!(
        (measured_mean / mean - 1.0).abs() < 0.02,
        "{what}: mean {measured_mean}, theory {mean}"
    );
    assert!(
        (measured_p99 / exact - 1.0).abs() < 0.02,
        "{what}: p99 {measured_p99}, theory {exact}"
    );
}

#[test]
fn the_formulas_agree_in_known_cases() {
    for a in [0.3, 0.5, 0.8] {
        assert!((erlang_c(1, a) - a).abs() < 1e-12);
        assert!((p99(1, a) - 100_f64.ln() / (1.0 - a)).abs() < 1e-6);
    }
    // Erlang C of 2 servers: 2 rho^2 / (1 + rho).
    assert!((erlang_c(2, 1.2) - 2.0 * 0.36 / 1.6).abs() < 1e-12);
}

#[test]
fn m_m_1_at_utilization_0_5() {
    assert_theory(1, 0.5, 1);
}

#[test]
fn m_m_1_at_utilization_0_7() {
    assert_theory(1, 0.7, 2);
}

#[test]
fn m_m_1_at_utilization_0_3() {
    assert_theory(1, 0.3, 3);
}

#[test]
fn m_m_3_at_utilization_0_7() {
    assert_theory(3, 0.7, 4);
}

#[test]
fn m_m_8_at_utilization_0_8() {
    assert_theory(8, 0.8, 5);
}

/// GI/M/1: response times are exponential with the rate 1 - s (in service rates), where s is the
/// root below 1 of s = A(1 - s), and A(x) = (1 + x / (shape rate))^-shape is the Laplace transform
/// of the inter-arrival times.
fn root_of_gamma_m_1(shape: f64, load_share: f64) -> f64 {
    let mut s = 0.5;
    for _ in 0..10_000 {
        s = (1.0 + (1.0 - s) / (shape * load_share)).powf(-shape);
    }
    s
}

fn assert_gamma_m_1(shape: f64, load_share: f64, seed: u64) {
    let rate = 1.0 - root_of_gamma_m_1(shape, load_share);
    let (mean, exact) = (1.0 / rate, 100_f64.ln() / rate);
    let (measured_mean, measured_p99) = measured_with(Arrivals::Gamma(shape), 1, load_share, seed);
    let what = format!("gamma arrivals of shape {shape}, busy {load_share}");
    assert!((measured_mean / mean - 1.0).abs() < 0.02, "{what}: {measured_mean}, theory {mean}");
    assert!((measured_p99 / exact - 1.0).abs() < 0.02, "{what}: {measured_p99}, theory {exact}");
}

#[test]
fn the_root_of_gamma_m_1_agrees_in_known_cases() {
    // Shape 1 is M/M/1.
    for rho in [0.3, 0.7] {
        assert!((root_of_gamma_m_1(1.0, rho) - rho).abs() < 1e-9);
    }
    // E2/M/1 at 0.5: s (2 - s)^2 = 1, which is (s - 1)(s^2 - 3 s + 1) = 0.
    let exact = (3.0 - 5_f64.sqrt()) / 2.0;
    assert!((root_of_gamma_m_1(2.0, 0.5) - exact).abs() < 1e-12);
    // Shape 1/2 at 0.5: s^2 (5 - 4 s) = 1, which is (s - 1)(4 s^2 - s - 1) = 0.
    let exact = (1.0 + 17_f64.sqrt()) / 8.0;
    assert!((root_of_gamma_m_1(0.5, 0.5) - exact).abs() < 1e-12);
}

/// Requests of a burst wait for each other: the mean is 2.78 service times instead of 2.
#[test]
fn gamma_m_1_with_bursts_at_utilization_0_5() {
    assert_gamma_m_1(0.5, 0.5, 6);
}

#[test]
fn gamma_m_1_with_regular_arrivals_at_utilization_0_7() {
    assert_gamma_m_1(4.0, 0.7, 7);
}

/// The interactive response time law: N = X (R + Z), with N users, throughput X, response time R
/// and think time Z.
#[test]
fn closed_loops_follow_the_interactive_response_time_law() {
    let thinks = [
        (Think::None, 0.0),
        (Think::Fixed(Span::from_millis(3)), 0.003),
        (Think::Exponential(Span::from_millis(5)), 0.005),
        (Think::Uniform(Span::from_millis(1), Span::from_millis(9)), 0.005),
    ];
    for (k, (think, z)) in thinks.into_iter().enumerate() {
        for users in [1, 7, 40] {
            // About 300,000 requests, so that the mean of the think times is near its expectation.
            let length = 300_000.0 * (z + 0.0004) / f64::from(users).min((z + 0.0004) / 0.0002);
            let plan = closed(users, think, Span::from_secs_f64(length));
            let service_time = ServiceTime::Exponential(Span::from_micros(400));
            let mut server = Server::new(Station::new(service_time, k as u64).servers(2));
            let link = Link::with_latency(Span::from_micros(20));
            let setup = Setup { watch: false, ..Setup::new(link, 1) };
            let outcome = load(&plan, 1, &setup, &mut [&mut server]);
            assert_invariants(&outcome, "closed loop");
            let tally = outcome.main();
            let x = tally.replies as f64 / length;
            let r = tally.times.response.mean_ns().unwrap() / 1e9;
            let n = x * (r + z);
            let off = (n / f64::from(users) - 1.0).abs();
            assert!(off < 0.01, "{users} users, think {z} s: X (R + Z) = {n}");
        }
    }
}

/// P1: at the same station and rate, an open loop has a longer tail than a closed loop, in which
/// few users wait for each other.
#[test]
fn p01_open_and_closed_loops_of_one_rate_have_different_tails() {
    let response = |plan: &Plan| {
        let station = Station::new(ServiceTime::Exponential(Span::from_millis(1)), 7).servers(1);
        let setup = Setup { watch: false, ..Setup::new(Link::default(), 7) };
        let outcome = load(plan, 1, &setup, &mut [&mut Server::new(station)]);
        assert_invariants(&outcome, "loop");
        outcome.main()
    };
    let length = Span::from_secs(400);
    let users = closed(10, Think::Exponential(Span::from_millis(8)), length);
    let few = response(&users);
    let rate = few.replies as f64 / length.as_secs_f64();
    let many = response(&open(rate, Arrivals::Poisson, few.replies));
    assert!((700.0..950.0).contains(&rate), "near saturation: {rate}/s of 1,000");
    assert_eq!(many.replies, few.replies);
    let p99 = |t: &Tally| t.times.response.quantile(0.99).unwrap().as_secs_f64();
    // The p99 of the open loop in theory, in seconds.
    let theory = 100.0_f64.ln() / (1_000.0 - rate);
    assert!((p99(&many) / theory - 1.0).abs() < 0.1, "{} and {theory}", p99(&many));
    assert!(p99(&many) > 2.5 * p99(&few), "open {} s, closed {} s", p99(&many), p99(&few));
}
