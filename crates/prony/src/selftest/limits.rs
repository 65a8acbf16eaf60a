//! The limits of this host: the send lag, and the highest rates with the verdict `VALID`.

use std::thread;
use std::time::{Duration, Instant};

use prony_base::units::Span;
use prony_report::{units, words};
use prony_stats::summary::{Reason, Summary};

use super::bench::{Bench, Failure};
use super::record::{Lag, Rate};

/// The latency of the server, so that the client limits the rate, not the server.
pub(super) const SERVICE: Span = Span::from_millis(1);
/// The maximum target rate, per second.
const RATE_MAX: u64 = 5_000_000;
/// The search stops when the ratio of the lowest invalid and the highest valid load is below this.
const CLOSE_ENOUGH: f64 = 1.1;
/// With a smaller gain in replies, something other than the client limits the rate.
const GAIN_MIN: f64 = 1.03;
/// The delay before the retry of a run that could not start.
const RETRY_AFTER: Duration = Duration::from_millis(300);
/// The CPU use that the search aims at: just under the limit of the verdict.
const BUSY_TARGET: f64 = 0.87;

/// Measures the send lag at this rate.
pub(super) fn lag(bench: &Bench, url: &str, rate: u64, quick: bool) -> Result<Lag, Failure> {
    let length = if quick { "300ms" } else { "600ms" };
    let connections = bench.connections_max().min(500);
    let load = format!("-r {rate} -d {length} --warmup 100ms -c {connections}");
    let summary = bench.load(&load, url, |_| {})?;
    let lag = &summary.main.times.lag;
    let ns = |t: Option<Span>| t.map(|t| t.0);
    Ok(Lag {
        rate: rate as f64,
        p50_ns: ns(lag.quantile(0.5)),
        p99_ns: ns(lag.quantile(0.99)),
        max_ns: ns(lag.max()),
        verdict: summary.verdict().verdict.word().into(),
    })
}

/// A kind of load with one parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// Its name in the record.
    pub(super) name: &'static str,
    /// The options before the parameter.
    words: &'static str,
    /// Whether the parameter is a rate; otherwise it is a number of connections.
    is_rate: bool,
    /// Whether it uses TLS.
    pub(super) is_secured: bool,
    /// The first value of the parameter.
    first: u64,
}

/// The kinds of load of the search.
pub(super) const KINDS: [Kind; 4] = [
    Kind { name: "closed", words: "-c", is_rate: false, is_secured: false, first: 32 },
    Kind { name: "pipelined", words: "-p 16 -c", is_rate: false, is_secured: false, first: 8 },
    Kind { name: "tls", words: "-k -c", is_rate: false, is_secured: true, first: 32 },
    Kind { name: "open", words: "-r", is_rate: true, is_secured: false, first: 20_000 },
];

/// Searches the highest valid rate of a kind of load with a driver (a value of `--driver`), with a
/// maximum number of runs.
pub(super) fn highest(
    bench: &Bench,
    url: &str,
    (kind, driver): (Kind, &str),
    (runs, length): (u32, Span),
    until: Instant,
) -> Result<Rate, Failure> {
    let fit = bench.connections_max();
    let max = if kind.is_rate { RATE_MAX } else { fit };
    let mut used = String::new();
    let mut trial = |x: u64| {
        let limit = if kind.is_rate { format!(" -c {}", fit.min(2_000)) } else { String::new() };
        let (us, words) = (length.0 / 1_000, kind.words);
        let load = format!("{words} {x}{limit} -d {us}us --warmup 100ms --driver {driver}");
        let summary = bench.load(&load, url, |_| {})?;
        summary.run.driver.clone_into(&mut used);
        Ok(Trial::of(&summary))
    };
    let mut found = search(kind.first, max, runs, until, &mut trial);
    if matches!(found, Err(Failure::Error(_))) {
        // A kernel without memory for the run may have it a moment later.
        thread::sleep(RETRY_AFTER);
        found = search(kind.first, max, runs, until, &mut trial);
    }
    let found = match found {
        Err(Failure::Error(e)) => Found { best: None, limit_reason: e.to_string() },
        other => other?,
    };
    let driver = match (used.as_str(), driver) {
        ("", "uring") => "io_uring",
        ("", other) => other,
        (used, _) => used,
    };
    let best = found.best;
    Ok(Rate {
        load: kind.name.into(),
        driver: driver.into(),
        per_second: best.as_ref().map(|b| b.1.rate),
        given: best.as_ref().map(|b| b.0),
        busy: best.as_ref().map(|b| b.1.busy),
        limit_reason: found.limit_reason,
    })
}

/// The result of one run.
#[derive(Clone, Debug)]
struct Trial {
    valid: bool,
    busy: f64,
    rate: f64,
    /// Whether a hypervisor stole CPU time. The next run may be undisturbed.
    disturbed: bool,
    /// Why it is invalid.
    reason: String,
}

/// The best valid run with its parameter, and what limits it.
#[derive(Debug)]
struct Found {
    best: Option<(u64, Trial)>,
    limit_reason: String,
}

impl Trial {
    fn of(summary: &Summary) -> Self {
        let verdict = summary.verdict();
        let reason = verdict.reasons.first().map(|reason| {
            format!("{}: {}", verdict.verdict.word(), words::reason(reason, summary))
        });
        Self {
            valid: verdict.is_valid(),
            disturbed: verdict.reasons.iter().any(|r| matches!(r, Reason::CpuStolen { .. })),
            busy: summary.busiest().map_or(0.0, |b| b.1),
            rate: summary.main.rate(),
            reason: reason.unwrap_or_default(),
        }
    }
}

/// Increases the parameter until a run is invalid, then searches between the last valid and the
/// first invalid value. The CPU use of the client determines the next value. Repeats a disturbed
/// run once. After an interruption, returns the best run so far.
fn search(
    first: u64,
    max: u64,
    runs: u32,
    until: Instant,
    trial: &mut dyn FnMut(u64) -> Result<Trial, Failure>,
) -> Result<Found, Failure> {
    let mut x = first.min(max);
    let mut best: Option<(u64, Trial)> = None;
    let mut over: Option<(u64, String)> = None;
    let mut limit_reason = "the time of the search".to_owned();
    let mut trial = |x: u64| match trial(x) {
        Ok(t) if t.disturbed && Instant::now() < until => trial(x),
        other => other,
    };
    for _ in 0..runs {
        let t = match trial(x) {
            Err(Failure::Interrupted) if best.is_some() => {
                let limit_reason = "the interruption of the search".into();
                return Ok(Found { best, limit_reason });
            }
            other => other?,
        };
        if t.valid {
            let gained = best.as_ref().is_none_or(|(_, b)| t.rate > b.rate * GAIN_MIN);
            if best.as_ref().is_none_or(|(_, b)| t.rate > b.rate) {
                best = Some((x, t.clone()));
            }
            if !gained && over.is_none() {
                limit_reason =
                    "the server; a higher load did not increase the completed rate".to_owned();
                break;
            }
            if x == max {
                limit_reason = format!("the highest possible load, {}", units::count(max));
                break;
            }
        } else {
            over = Some((x, t.reason.clone()));
        }
        let next = match (&best, &over) {
            (Some((low, t)), None) => {
                let factor = (BUSY_TARGET / t.busy.max(0.01)).clamp(1.3, 6.0);
                ((*low as f64 * factor) as u64).min(max)
            }
            (Some((low, _)), Some((high, _))) if *high as f64 > *low as f64 * CLOSE_ENOUGH => {
                (*low as f64 * *high as f64).sqrt().round() as u64
            }
            (None, Some((high, _))) if *high > 1 => high / 3,
            _ => break,
        };
        if Instant::now() >= until || best.as_ref().is_some_and(|(low, _)| *low == next) {
            break;
        }
        x = next.max(1);
    }
    if let Some((_, reason)) = over {
        limit_reason = reason;
    }
    Ok(Found { best, limit_reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial_of(x: u64, busy: f64, reason: &str) -> Trial {
        let reason = reason.to_owned();
        Trial { valid: true, busy, rate: x as f64, disturbed: false, reason }
    }

    /// Searches with a client whose CPU use is proportional to the parameter, up to its capacity.
    fn searched(capacity: u64, max: u64, runs: u32) -> (Found, Vec<u64>) {
        let mut tried = Vec::new();
        let mut trial = |x: u64| {
            tried.push(x);
            let busy = x as f64 / capacity as f64;
            let valid = busy <= 0.9;
            Ok(Trial { valid, ..trial_of(x, busy.min(1.0), "busy") })
        };
        let until = Instant::now() + Duration::from_secs(600);
        let found = search(32, max, runs, until, &mut trial).expect("found");
        (found, tried)
    }

    #[test]
    fn finds_the_capacity_within_a_third() {
        for capacity in [1, 7, 33, 100, 1_000, 40_000] {
            let (found, tried) = searched(capacity, 1 << 20, 12);
            let limit = capacity as f64 * 0.9;
            match found.best {
                Some((x, t)) => {
                    assert!(t.valid && x as f64 <= limit, "{capacity}: {tried:?}");
                    assert!(x as f64 > limit / 1.35 - 1.0, "{capacity}: {x} of {tried:?}");
                }
                None => assert_eq!(capacity, 1, "{tried:?}"),
            }
            assert_eq!(found.limit_reason, "busy", "{capacity}: {tried:?}");
        }
    }

    #[test]
    fn stops_at_the_highest_load_and_without_a_gain() {
        let (found, tried) = searched(1_000, 100, 12);
        assert_eq!((found.best.map(|b| b.0), tried.last()), (Some(100), Some(&100)));
        assert_eq!(found.limit_reason, "the highest possible load, 100");
        let (_, tried) = searched(1_000_000, 1 << 30, 3);
        assert_eq!(tried.len(), 3);
        // The server sends 50 replies per second at any load.
        let mut trial = |_| Ok(trial_of(50, 0.1, ""));
        let until = Instant::now() + Duration::from_secs(600);
        let found = search(32, 1 << 20, 12, until, &mut trial).expect("found");
        assert_eq!(
            found.limit_reason,
            "the server; a higher load did not increase the completed rate"
        );
    }

    #[test]
    fn interrupted_searches_return_the_best_run() {
        let until = Instant::now() + Duration::from_secs(600);
        let interrupted_after = |runs: u32| {
            let mut made = 0;
            let mut trial = |x: u64| {
                made += 1;
                if made > runs { Err(Failure::Interrupted) } else { Ok(trial_of(x, 0.1, "")) }
            };
            search(32, 1 << 20, 12, until, &mut trial)
        };
        assert!(matches!(interrupted_after(0), Err(Failure::Interrupted)));
        let found = interrupted_after(2).expect("two runs");
        assert_eq!(found.best.map(|(x, t)| (x, t.rate)), Some((192, 192.0)));
        assert_eq!(found.limit_reason, "the interruption of the search");
    }

    #[test]
    fn repeats_disturbed_runs_once() {
        let mut tried = Vec::new();
        // Every other run is disturbed.
        let mut trial = |x: u64| {
            tried.push(x);
            let disturbed = tried.len() % 2 == 1;
            Ok(Trial { valid: !disturbed, disturbed, ..trial_of(x, 0.1, "stolen") })
        };
        let until = Instant::now() + Duration::from_secs(600);
        let found = search(32, 192, 12, until, &mut trial).expect("found");
        assert_eq!(found.best.map(|b| b.0), Some(192));
        assert_eq!(tried, [32, 32, 192, 192]);
        // Not after the time is up.
        tried.clear();
        let mut always = |x: u64| {
            tried.push(x);
            Ok(Trial { valid: false, disturbed: true, ..trial_of(x, 0.1, "stolen") })
        };
        let found = search(32, 192, 12, Instant::now(), &mut always).expect("found");
        assert_eq!((tried.as_slice(), found.limit_reason.as_str()), (&[32][..], "stolen"));
    }
}
