//! What is known beforehand, held against what the meter says of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prony_core::fault::Fault;
use prony_core::record::Observer;
use prony_core::serve::{Latency, ServeLaw};
use prony_core::summary::{Summary, Verdict};
use prony_core::units::{Nanos, Span};
use prony_run::local_server::{Done, LocalServer};

use super::bench::{Bench, Why};
use super::record::{Amount, Check, Proof};

/// A proof gets so many tries: a busy host can spoil a run, but it cannot make right times of wrong
/// ones.
const TRIES: u32 = 3;

/// A law, a load, and what must come of it.
pub(super) struct Experiment {
    name: &'static str,
    what: String,
    law: ServeLaw,
    arrivals: bool,
    check: Box<Make>,
}

/// Makes the load on the server, and compares.
type Make = dyn Fn(&Bench, LocalServer) -> Result<Vec<Check>, Why>;

/// All of them; the short ones take a third of the time.
pub(super) fn experiments(quick: bool, connections: u64) -> Vec<Experiment> {
    vec![fixed(quick), freeze(quick, connections), counts(), bodies(), overload(), arrivals(quick)]
}

impl Experiment {
    /// What it is called.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Make it, again where it does not hold and there is still time.
    pub(super) fn prove(&self, bench: &Bench, until: Instant) -> Result<Proof, Why> {
        let mut tries = 0;
        loop {
            tries += 1;
            let target = bench.target(self.law.clone(), self.arrivals)?;
            let checks = (self.check)(bench, target)?;
            let held = !checks.is_empty() && checks.iter().all(|c| c.held);
            if held || tries == TRIES || Instant::now() >= until {
                let (name, what) = (self.name.to_owned(), self.what.clone());
                return Ok(Proof { name, what, checks, tries, held });
            }
        }
    }
}

/// How long the server of the first proof takes.
const FIXED: Span = Span::from_millis(10);
/// What client, server and loopback may add to it on average: 5 %.
const ADDED: Span = Span::from_micros(500);

fn fixed(quick: bool) -> Experiment {
    let length = if quick { "300ms" } else { "700ms" };
    Experiment {
        name: "fixed latency",
        what: "a server that takes 10 ms, over 10 connections".into(),
        law: ServeLaw { latency: Latency::Fixed(FIXED), ..ServeLaw::default() },
        arrivals: false,
        check: Box::new(move |bench, target| {
            let summary = bench.load(&format!("-c 10 -d {length}"), &target.url, |_| {})?;
            let times = &summary.main.times.response;
            let (low, high) = (FIXED.0 as f64, (FIXED + ADDED).0 as f64);
            let ns = |t: Option<f64>| t.map(Amount::Ns);
            let law = || Amount::Ns(low);
            let shortest = ns(times.min().map(|t| t.0 as f64));
            Ok(vec![
                Check::within("shortest response time", law(), (low, high), shortest),
                Check::within("mean response time", law(), (low, high), ns(times.mean_ns())),
                count("failed", 0, summary.main.failed),
            ])
        }),
    }
}

/// An open loop over a server that takes 2 ms and stands still once.
struct Freeze {
    /// Requests per second.
    rate: u64,
    length: Span,
    begin: Span,
    freeze: Span,
}

/// How long that server takes.
const SERVICE: Span = Span::from_millis(2);

fn freeze(quick: bool, connections: u64) -> Experiment {
    let ms = Span::from_millis;
    let mut case = match quick {
        true => Freeze { rate: 1_250, length: ms(960), begin: ms(320), freeze: ms(320) },
        false => Freeze { rate: 1_000, length: ms(3_000), begin: ms(1_000), freeze: ms(1_000) },
    };
    // Between two arrivals, so that it is sure which is the first to be held up.
    case.begin += Span(500_000_000 / case.rate);
    let cap = connections.min(500);
    let (f, at) = (case.freeze.0 / 1_000_000, case.begin.0 / 1_000_000);
    Experiment {
        name: "freeze",
        what: format!(
            "a server of 2 ms stands still for {f} ms after {at} ms; {} requests a second for {} ms",
            case.rate,
            case.length.0 / 1_000_000
        ),
        law: ServeLaw {
            latency: Latency::Fixed(SERVICE),
            stalls: case.stalls(),
            ..ServeLaw::default()
        },
        arrivals: false,
        check: Box::new(move |bench, target| {
            let load = format!("-r {} -d {}us -c {cap}", case.rate, case.length.0 / 1_000);
            let summary = bench.load(&load, &target.url, |_| {})?;
            let theory = case.theory();
            let times = &summary.main.times.response;
            let mean = theory.iter().sum::<u64>() as f64 / theory.len() as f64;
            let near = |what, q: f64| {
                let expected = theory[(q * theory.len() as f64).ceil() as usize - 1] as f64;
                Check::near(what, expected, times.quantile(q).map(|t| t.0 as f64))
            };
            Ok(vec![
                count("requests that succeeded", theory.len() as u64, summary.main.replies),
                Check::near("mean response time", mean, times.mean_ns()),
                near("p90 of the response time", 0.9),
                near("p99 of the response time", 0.99),
            ])
        }),
    }
}

impl Freeze {
    fn stalls(&self) -> prony_core::serve::Stalls {
        let text = format!("{}us@+{}us", self.freeze.0 / 1_000, self.begin.0 / 1_000);
        text.parse().unwrap_or_default()
    }

    /// The response times of all requests, ascending, in nanoseconds.
    fn theory(&self) -> Vec<u64> {
        let (begin, end) = (self.begin.0, (self.begin + self.freeze).0);
        let n = self.rate * self.length.0 / 1_000_000_000;
        let response = |k: u64| {
            let due = k * 1_000_000_000 / self.rate;
            if due >= end || due + SERVICE.0 <= begin {
                SERVICE.0
            } else if due < begin {
                // In service when it begins: held up for all of it.
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
        what: "4,000 requests, a tenth answered by 503, as both sides counted them".into(),
        law: ServeLaw {
            statuses: "200:9,503:1".parse().unwrap_or_default(),
            ..ServeLaw::default()
        },
        arrivals: false,
        check: Box::new(|bench, target| {
            let summary = bench.load("-c 8 -n 4000", &target.url, |_| {})?;
            let done = target.stop().unwrap_or_default();
            Ok(compared(&summary, &done))
        }),
    }
}

/// The client's counters beside the server's.
fn compared(summary: &Summary, done: &Done) -> Vec<Check> {
    let (ours, theirs) = (&summary.main, &done.served);
    let status = |code| ours.statuses.get(&code).copied().unwrap_or(0);
    let said = |code| theirs.statuses.get(&code).copied().unwrap_or(0);
    vec![
        count("asked for, and requests at the server", 4_000, theirs.requests),
        count("requests sent", theirs.requests, ours.sent),
        count("replies with status 200", said(200), status(200)),
        count("replies with status 503", said(503), status(503)),
        count("failed of their status", said(503), ours.fault(Fault::UnexpectedStatus)),
        count("connections", theirs.connections, ours.connected),
        count("bytes to the server", theirs.bytes_in, ours.bytes_sent),
        count("bytes from the server", theirs.bytes_out, ours.bytes_received()),
    ]
}

fn bodies() -> Experiment {
    Experiment {
        name: "bodies",
        what: "500 that come back as sent, and 500 of which others are expected".into(),
        law: ServeLaw::default(),
        arrivals: false,
        check: Box::new(|bench, target| {
            let url = format!("{}/echo", target.url);
            let ask = |expected: &str| {
                let load = format!("-c 4 -n 500 -b a-body-to-send-back --expect-body {expected}");
                bench.load(&load, &url, |_| {})
            };
            let right = ask("a-body-to-send-back")?.main;
            let wrong = ask("a-body-that-is-not-sent")?.main;
            Ok(vec![
                count("as sent", 500, right.replies),
                count("others than expected", 500, wrong.fault(Fault::BodyMismatch)),
                count("wrongly taken for right", 0, wrong.replies),
            ])
        }),
    }
}

/// What the client is made to do besides, for each reply.
const BURDEN: Duration = Duration::from_micros(300);

fn overload() -> Experiment {
    Experiment {
        name: "overload",
        what: "a client that loses 300 us with each reply, asked for 5,000 a second".into(),
        law: ServeLaw::default(),
        arrivals: false,
        check: Box::new(|bench, target| {
            let burdened = |options: &mut prony_io::Options| {
                options.observer = Some(Observer(Arc::new(|_| {
                    let begun = Instant::now();
                    while begun.elapsed() < BURDEN {
                        std::hint::spin_loop();
                    }
                })));
            };
            // Open connections with room: no request can be said to have waited for one.
            let load = "-r 5k -d 400ms -c 10 -p 200 -t 1 --warmup 50ms";
            let summary = bench.load(load, &target.url, burdened)?;
            let word = |v: Verdict| Amount::Word(v.word().into());
            let verdict = Some(word(summary.verdict().verdict));
            Ok(vec![
                Check::exact("verdict", word(Verdict::ClientLimited), verdict),
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
        what: "Poisson, 500 a second, as the server sees them (Kolmogorov-Smirnov)".into(),
        law: ServeLaw::default(),
        arrivals: true,
        check: Box::new(move |bench, target| {
            let load = format!("-r 500 --arrivals poisson -d {length} -c 20 -t 1 --seed 1");
            let load = format!("{load} --warmup 100ms");
            let summary = bench.load(&load, &target.url, |_| {})?;
            let seen = target.stop().unwrap_or_default().arrivals;
            let started = |t: &prony_core::record::Tally| t.started;
            let all = summary.main.started + summary.warmup.as_ref().map_or(0, started);
            // The warm-up has opened the connections; its requests came first.
            let from = seen.len().saturating_sub(summary.main.started as usize);
            let gaps = gaps(&seen[from..]);
            let limit = 1.63 / (gaps.len().max(1) as f64).sqrt();
            let far = distance(gaps, |gap| 1.0 - (-gap * RATE).exp());
            let what = "distance from the law";
            let far = Some(Amount::Number(far));
            Ok(vec![
                count("arrivals at the server", all, seen.len() as u64),
                Check::within(what, Amount::Number(0.0), (0.0, limit), far),
            ])
        }),
    }
}

fn gaps(times: &[Nanos]) -> Vec<f64> {
    times.windows(2).map(|w| w[1].since(w[0]).as_secs_f64()).collect()
}

/// The largest distance of the sample's distribution from the law's; 1 for no sample.
fn distance(mut sample: Vec<f64>, law: impl Fn(f64) -> f64) -> f64 {
    if sample.is_empty() {
        return 1.0;
    }
    sample.sort_unstable_by(f64::total_cmp);
    let n = sample.len() as f64;
    let far = |(i, x): (usize, &f64)| {
        let p = law(*x);
        (p - i as f64 / n).abs().max(((i + 1) as f64 / n - p).abs())
    };
    sample.iter().enumerate().map(far).fold(0.0, f64::max)
}

fn count(what: &str, expected: u64, measured: u64) -> Check {
    Check::exact(what, Amount::Count(expected), Some(Amount::Count(measured)))
}

#[cfg(test)]
mod tests {
    use prony_io::Control;

    use super::*;

    fn proved(name: &str, change: impl FnOnce(&mut ServeLaw)) -> Proof {
        let bench = Bench::new(Arc::new(Control::new()));
        let all = experiments(true, bench.connections_max());
        let mut it = all.into_iter().find(|e| e.name() == name).expect("there is one");
        change(&mut it.law);
        it.prove(&bench, Instant::now()).expect("a proof")
    }

    /// What does not depend on how busy the host is.
    #[test]
    fn counters_and_bodies_hold_anywhere() {
        for name in ["counters", "bodies", "overload"] {
            let proof = proved(name, |_| {});
            assert!(proof.held, "{proof:?}");
        }
    }

    #[test]
    fn a_server_that_keeps_another_law_is_found_out() {
        let proof = proved("fixed latency", |law| {
            law.latency = Latency::Fixed(Span::from_millis(9));
        });
        // It is faster than it claims to be, which no busy host can make it.
        assert!(!proof.held && !proof.checks[0].held, "{proof:?}");
        let proof = proved("freeze", |law| law.stalls = Default::default());
        assert!(!proof.held, "{proof:?}");
        let proof = proved("bodies", |law| law.truncate = "5%".parse().expect("a share"));
        assert!(!proof.held, "{proof:?}");
    }

    #[test]
    fn the_theory_of_a_freeze() {
        let ms = Span::from_millis;
        let half = Span::from_micros(500);
        let case = Freeze { rate: 1_000, length: ms(10), begin: ms(3) + half, freeze: ms(4) };
        // Due at 2 and 3: in service as it begins. Due at 4, 5, 6, 7: until it ends at 7.5.
        let times: Vec<u64> = case.theory().iter().map(|t| t / 100_000).collect();
        assert_eq!(times, [20, 20, 20, 20, 25, 35, 45, 55, 60, 60]);
        assert_ne!(case.stalls(), Default::default());
    }

    #[test]
    fn distances_of_distributions() {
        let even = |x: f64| x;
        assert!(distance((0..100).map(|i| (i as f64 + 0.5) / 100.0).collect(), even) < 0.006);
        assert!((distance(vec![0.9; 10], even) - 0.9).abs() < 1e-9);
        assert_eq!(distance(Vec::new(), even), 1.0);
    }
}
