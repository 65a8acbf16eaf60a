//! The checks of a self-test: runs with known results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prony_base::fault::Fault;
use prony_base::units::{Nanos, Span};
use prony_run::local_server::{Done, LocalServer};
use prony_server::serve::{Latency, ServerBehavior};
use prony_stats::summary::{Summary, Verdict};
use prony_tally::record::Observer;

use super::bench::{Bench, Failure};
use super::record::{Amount, Check, Comparison};

/// The maximum number of attempts. A busy host can make a run fail, but cannot make wrong times
/// right.
const TRIES: u32 = 3;

/// A server, a load on it, and the expected results.
pub(super) struct Experiment {
    name: &'static str,
    what: String,
    server: ServerBehavior,
    arrivals: bool,
    compare: Box<Compare>,
}

/// Runs the load on the server, and compares the results.
type Compare = dyn Fn(&Bench, LocalServer) -> Result<Vec<Comparison>, Failure>;

/// All experiments; `quick` ones take a third of the time.
pub(super) fn experiments(quick: bool, connections: u64) -> Vec<Experiment> {
    vec![fixed(quick), freeze(quick, connections), counts(), bodies(), overload(), arrivals(quick)]
}

impl Experiment {
    /// Its name.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the experiment, and again until it passes or its attempts or its time are used up.
    pub(super) fn run(&self, bench: &Bench, until: Instant) -> Result<Check, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let target = bench.target(self.server.clone(), self.arrivals)?;
            let comparisons = (self.compare)(bench, target)?;
            let passed = !comparisons.is_empty() && comparisons.iter().all(|c| c.passed);
            if passed || tries == TRIES || Instant::now() >= until {
                let (name, what) = (self.name.to_owned(), self.what.clone());
                return Ok(Check { name, what, comparisons, tries, passed });
            }
        }
    }
}

/// The latency of the server in the experiment "fixed latency".
const FIXED: Span = Span::from_millis(10);
/// The most that client, server and loopback may add to the mean: 5 %.
const ADDED: Span = Span::from_micros(500);

fn fixed(quick: bool) -> Experiment {
    let length = if quick { "300ms" } else { "700ms" };
    Experiment {
        name: "fixed latency",
        what: "server latency 10 ms, 10 connections".into(),
        server: ServerBehavior { latency: Latency::Fixed(FIXED), ..ServerBehavior::default() },
        arrivals: false,
        compare: Box::new(move |bench, target| {
            let summary = bench.load(&format!("-c 10 -d {length}"), &target.url, |_| {})?;
            let times = &summary.main.times.response;
            let (low, high) = (FIXED.0 as f64, (FIXED + ADDED).0 as f64);
            let ns = |t: Option<f64>| t.map(Amount::Ns);
            let expected = || Amount::Ns(low);
            let shortest = ns(times.min().map(|t| t.0 as f64));
            Ok(vec![
                Comparison::within("shortest response time", expected(), (low, high), shortest),
                Comparison::within(
                    "mean response time",
                    expected(),
                    (low, high),
                    ns(times.mean_ns()),
                ),
                count("failed requests", 0, summary.main.failed),
            ])
        }),
    }
}

/// An open loop on a server with a latency of 2 ms that freezes once.
struct Freeze {
    /// Requests per second.
    rate: u64,
    length: Span,
    start: Span,
    freeze: Span,
}

/// The latency of this server.
const SERVICE: Span = Span::from_millis(2);

fn freeze(quick: bool, connections: u64) -> Experiment {
    let ms = Span::from_millis;
    let mut case = match quick {
        true => Freeze { rate: 1_250, length: ms(960), start: ms(320), freeze: ms(320) },
        false => Freeze { rate: 1_000, length: ms(3_000), start: ms(1_000), freeze: ms(1_000) },
    };
    // Start between two arrivals, so that the first delayed request is known.
    case.start += Span(500_000_000 / case.rate);
    let connections = connections.min(500);
    let (f, at) = (case.freeze.0 / 1_000_000, case.start.0 / 1_000_000);
    Experiment {
        name: "freeze",
        what: format!(
            "server latency 2 ms, frozen for {f} ms after {at} ms; {} requests/s for {} ms",
            case.rate,
            case.length.0 / 1_000_000
        ),
        server: ServerBehavior {
            latency: Latency::Fixed(SERVICE),
            stalls: case.stalls(),
            ..ServerBehavior::default()
        },
        arrivals: false,
        compare: Box::new(move |bench, target| {
            let load = format!("-r {} -d {}us -c {connections}", case.rate, case.length.0 / 1_000);
            let summary = bench.load(&load, &target.url, |_| {})?;
            let theory = case.theory();
            let times = &summary.main.times.response;
            let mean = theory.iter().sum::<u64>() as f64 / theory.len() as f64;
            let near = |what, q: f64| {
                let expected = theory[(q * theory.len() as f64).ceil() as usize - 1] as f64;
                Comparison::near(what, expected, times.quantile(q).map(|t| t.0 as f64))
            };
            Ok(vec![
                count("successful requests", theory.len() as u64, summary.main.replies),
                Comparison::near("mean response time", mean, times.mean_ns()),
                near("p90 response time", 0.9),
                near("p99 response time", 0.99),
            ])
        }),
    }
}

impl Freeze {
    fn stalls(&self) -> prony_server::serve::Stalls {
        let text = format!("{}us@+{}us", self.freeze.0 / 1_000, self.start.0 / 1_000);
        text.parse().unwrap_or_default()
    }

    /// The expected response times of all requests, in nanoseconds, in ascending order.
    fn theory(&self) -> Vec<u64> {
        let (start, end) = (self.start.0, (self.start + self.freeze).0);
        let n = self.rate * self.length.0 / 1_000_000_000;
        let response = |k: u64| {
            let due = k * 1_000_000_000 / self.rate;
            if due >= end || due + SERVICE.0 <= start {
                SERVICE.0
            } else if due < start {
                // In service at the start of the freeze: delayed by all of it.
                SERVICE.0 + self.freeze.0
            } else {
                end - due + SERVICE.0
            }
        };
        let mut times: Vec<u64> = (0..n).map(response).collect();
        times.sort_unstable();
        times
    }
}

fn counts() -> Experiment {
    Experiment {
        name: "counters",
        what: "client and server counters agree; 4,000 requests, 10 % with status 503".into(),
        server: ServerBehavior {
            statuses: "200:9,503:1".parse().unwrap_or_default(),
            ..ServerBehavior::default()
        },
        arrivals: false,
        compare: Box::new(|bench, target| {
            let summary = bench.load("-c 8 -n 4000", &target.url, |_| {})?;
            let done = target.stop().unwrap_or_default();
            Ok(compared(&summary, &done))
        }),
    }
}

/// Compares the client's counters with the server's.
fn compared(summary: &Summary, done: &Done) -> Vec<Comparison> {
    let (ours, theirs) = (&summary.main, &done.served);
    let status = |code| ours.statuses.get(&code).copied().unwrap_or(0);
    let sent = |code| theirs.statuses.get(&code).copied().unwrap_or(0);
    vec![
        count("requests received by the server", 4_000, theirs.requests),
        count("requests sent", theirs.requests, ours.sent),
        count("replies with status 200", sent(200), status(200)),
        count("replies with status 503", sent(503), status(503)),
        count("failures because of the status", sent(503), ours.fault(Fault::UnexpectedStatus)),
        count("connections", theirs.connections, ours.connected),
        count("bytes to the server", theirs.bytes_in, ours.bytes_sent),
        count("bytes from the server", theirs.bytes_out, ours.bytes_received()),
    ]
}

fn bodies() -> Experiment {
    Experiment {
        name: "bodies",
        what: "500 replies with the expected body, and 500 with a different one".into(),
        server: ServerBehavior::default(),
        arrivals: false,
        compare: Box::new(|bench, target| {
            let url = format!("{}/echo", target.url);
            let run = |expected: &str| {
                let load = format!("-c 4 -n 500 -b a-body-to-send-back --expect-body {expected}");
                bench.load(&load, &url, |_| {})
            };
            let right = run("a-body-to-send-back")?.main;
            let wrong = run("a-body-that-is-not-sent")?.main;
            Ok(vec![
                count("expected bodies accepted", 500, right.replies),
                count("different bodies detected", 500, wrong.fault(Fault::BodyMismatch)),
                count("different bodies accepted", 0, wrong.replies),
            ])
        }),
    }
}

/// The extra work of the client for each reply.
const BURDEN: Duration = Duration::from_micros(300);

fn overload() -> Experiment {
    Experiment {
        name: "overload",
        what: "client delayed by 300 us per reply, target rate 5,000 requests/s".into(),
        server: ServerBehavior::default(),
        arrivals: false,
        compare: Box::new(|bench, target| {
            let burdened = |options: &mut prony_io::Options| {
                options.observer = Some(Observer(Arc::new(|_| {
                    let start = Instant::now();
                    while start.elapsed() < BURDEN {
                        std::hint::spin_loop();
                    }
                })));
            };
            // Pipelining leaves room on all connections, so that no request waits for a connection.
            let load = "-r 5k -d 400ms -c 10 -p 200 -t 1 --warmup 50ms";
            let summary = bench.load(load, &target.url, burdened)?;
            let word = |v: Verdict| Amount::Word(v.word().into());
            let verdict = Some(word(summary.verdict().verdict));
            Ok(vec![
                Comparison::exact("verdict", word(Verdict::ClientLimited), verdict),
                count("requests sent", 2_000, summary.main.sent),
            ])
        }),
    }
}

fn arrivals(quick: bool) -> Experiment {
    const RATE: f64 = 500.0;
    let length = if quick { "500ms" } else { "1200ms" };
    Experiment {
        name: "arrivals",
        what: "Poisson arrivals at the server, 500/s (Kolmogorov-Smirnov test)".into(),
        server: ServerBehavior::default(),
        arrivals: true,
        compare: Box::new(move |bench, target| {
            let load = format!("-r 500 --arrivals poisson -d {length} -c 20 -t 1 --seed 1");
            let load = format!("{load} --warmup 100ms");
            let summary = bench.load(&load, &target.url, |_| {})?;
            let seen = target.stop().unwrap_or_default().arrivals;
            let started = |t: &prony_tally::record::Tally| t.started;
            let all = summary.main.started + summary.warmup.as_ref().map_or(0, started);
            // The warm-up opened the connections; its requests arrived first.
            let from = seen.len().saturating_sub(summary.main.started as usize);
            let times = inter_arrival_times(&seen[from..]);
            // The critical value at the 1 % level.
            let limit = 1.63 / (times.len().max(1) as f64).sqrt();
            let distance = distance(times, |t| 1.0 - (-t * RATE).exp());
            let what = "distance from the distribution";
            let distance = Some(Amount::Number(distance));
            Ok(vec![
                count("arrivals at the server", all, seen.len() as u64),
                Comparison::within(what, Amount::Number(0.0), (0.0, limit), distance),
            ])
        }),
    }
}

fn inter_arrival_times(times: &[Nanos]) -> Vec<f64> {
    times.windows(2).map(|w| w[1].since(w[0]).as_secs_f64()).collect()
}

/// The Kolmogorov-Smirnov distance of the sample from a distribution function; 1 without a sample.
fn distance(mut sample: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    if sample.is_empty() {
        return 1.0;
    }
    sample.sort_unstable_by(f64::total_cmp);
    let n = sample.len() as f64;
    let far = |(i, x): (usize, &f64)| {
        let p = cdf(*x);
        (p - i as f64 / n).abs().max(((i + 1) as f64 / n - p).abs())
    };
    sample.iter().enumerate().map(far).fold(0.0, f64::max)
}

fn count(what: &str, expected: u64, measured: u64) -> Comparison {
    Comparison::exact(what, Amount::Count(expected), Some(Amount::Count(measured)))
}

#[cfg(test)]
mod tests {
    use prony_io::Control;

    use super::*;

    fn run(name: &str, change: impl FnOnce(&mut ServerBehavior)) -> Check {
        let bench = Bench::new(Arc::new(Control::new()));
        let all = experiments(true, bench.connections_max());
        let mut it = all.into_iter().find(|e| e.name() == name).expect("an experiment");
        change(&mut it.server);
        it.run(&bench, Instant::now()).expect("a check")
    }

    /// These do not depend on how busy the host is.
    #[test]
    fn counters_bodies_and_overload_pass_on_any_host() {
        for name in ["counters", "bodies", "overload"] {
            let check = run(name, |_| {});
            assert!(check.passed, "{check:?}");
        }
    }

    #[test]
    fn detects_servers_with_unexpected_behavior() {
        let check = run("fixed latency", |server| {
            server.latency = Latency::Fixed(Span::from_millis(2));
        });
        // A busy host cannot make the server faster than expected, nor does it make the fastest
        // of all replies 8 ms slower.
        assert!(!check.passed && !check.comparisons[0].passed, "{check:?}");
        let check = run("freeze", |server| server.stalls = Default::default());
        assert!(!check.passed, "{check:?}");
        let check = run("bodies", |server| server.truncate = "5%".parse().expect("a share"));
        assert!(!check.passed, "{check:?}");
    }

    #[test]
    fn calculates_response_times_during_a_freeze() {
        let ms = Span::from_millis;
        let half = Span::from_micros(500);
        let case = Freeze { rate: 1_000, length: ms(10), start: ms(3) + half, freeze: ms(4) };
        // Due at 2 and 3: in service at the start of the freeze. Due at 4 to 7: wait for its end.
        let times: Vec<u64> = case.theory().iter().map(|t| t / 100_000).collect();
        assert_eq!(times, [20, 20, 20, 20, 25, 35, 45, 55, 60, 60]);
        assert_ne!(case.stalls(), Default::default());
    }

    #[test]
    fn calculates_kolmogorov_smirnov_distances() {
        let uniform = |x: f64| x;
        assert!(distance((0..100).map(|i| (i as f64 + 0.5) / 100.0).collect(), uniform) < 0.006);
        assert!((distance(vec![0.9; 10], uniform) - 0.9).abs() < 1e-9);
        assert_eq!(distance(Vec::new(), uniform), 1.0);
    }
}
