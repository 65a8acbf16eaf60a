//! How far the meter goes on this host: how late it sends, and the highest rates at which its
//! verdict is `VALID`.

use std::thread;
use std::time::{Duration, Instant};

use prony_core::summary::{Limit, Summary};
use prony_core::units::Span;
use prony_report::{units, words};

use super::bench::{Bench, Why};
use super::record::{Lag, Rate};

/// How long the server takes for each request here. So the rate is the client's affair, not that of
/// how fast the server answers.
pub(super) const SERVICE: Span = Span::from_millis(1);
/// The most requests per second that are asked for.
const RATE_MAX: u64 = 5_000_000;
/// A load with at most so much more that is not valid ends the search.
const CLOSE_ENOUGH: f64 = 1.1;
/// Less than that much more replies means that something else than the client holds the rate.
const GAIN_MIN: f64 = 1.03;
/// What was refused is asked for once more after that time.
const PATIENCE: Duration = Duration::from_millis(300);
/// How busy the search wants the client: just under what the verdict allows.
const BUSY_WANTED: f64 = 0.87;

/// How late requests went out at that rate.
pub(super) fn lag(bench: &Bench, url: &str, rate: u64, quick: bool) -> Result<Lag, Why> {
    let length = if quick { "300ms" } else { "600ms" };
    let cap = bench.connections_max().min(500);
    let load = format!("-r {rate} -d {length} --warmup 100ms -c {cap}");
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

/// A kind of load, of which there can be more or less.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// Its name in the record.
    pub(super) name: &'static str,
    /// How it is asked for, before the number.
    words: &'static str,
    /// Whether the number is a rate; else connections.
    is_rate: bool,
    /// Whether it goes over TLS.
    pub(super) is_secured: bool,
    /// Where the search begins.
    first: u64,
}

/// The kinds whose highest rate is searched.
pub(super) const KINDS: [Kind; 4] = [
    Kind { name: "closed", words: "-c", is_rate: false, is_secured: false, first: 32 },
    Kind { name: "pipelined", words: "-p 16 -c", is_rate: false, is_secured: false, first: 8 },
    Kind { name: "tls", words: "-k -c", is_rate: false, is_secured: true, first: 32 },
    Kind { name: "open", words: "-r", is_rate: true, is_secured: false, first: 20_000 },
];

/// Search the highest rate of that kind over that driver (as `--driver` names it), in at most so
/// many runs.
pub(super) fn highest(
    bench: &Bench,
    url: &str,
    (kind, driver): (Kind, &str),
    (runs, length): (u32, Span),
    until: Instant,
) -> Result<Rate, Why> {
    let fit = bench.connections_max();
    let most = if kind.is_rate { RATE_MAX } else { fit };
    let mut taken = String::new();
    let mut trial = |x: u64| {
        let cap = if kind.is_rate { format!(" -c {}", fit.min(2_000)) } else { String::new() };
        let (us, words) = (length.0 / 1_000, kind.words);
        let load = format!("{words} {x}{cap} -d {us}us --warmup 100ms --driver {driver}");
        let summary = bench.load(&load, url, |_| {})?;
        summary.run.driver.clone_into(&mut taken);
        Ok(Trial::of(&summary))
    };
    let mut found = search(kind.first, most, runs, until, &mut trial);
    if matches!(found, Err(Why::Refused(_))) {
        // What the kernel had no memory for, it may have a moment later.
        thread::sleep(PATIENCE);
        found = search(kind.first, most, runs, until, &mut trial);
    }
    let found = match found {
        Err(Why::Refused(e)) => Found { best: None, bound: e.to_string() },
        other => other?,
    };
    let driver = match (taken.as_str(), driver) {
        ("", "uring") => "io_uring",
        ("", other) => other,
        (taken, _) => taken,
    };
    let best = found.best;
    Ok(Rate {
        load: kind.name.into(),
        driver: driver.into(),
        per_second: best.as_ref().map(|b| b.1.rate),
        given: best.as_ref().map(|b| b.0),
        busy: best.as_ref().map(|b| b.1.busy),
        bound: found.bound,
    })
}

/// What a run came to.
#[derive(Clone, Debug)]
struct Trial {
    valid: bool,
    busy: f64,
    rate: f64,
    /// The host took processor time away while it ran, which the next run may be spared.
    disturbed: bool,
    /// Why it is not valid.
    reason: String,
}

/// The best valid run with what it was given, and what stood against more.
#[derive(Debug)]
struct Found {
    best: Option<(u64, Trial)>,
    bound: String,
}

impl Trial {
    fn of(summary: &Summary) -> Self {
        let judgement = summary.verdict();
        let reason = judgement
            .reasons
            .first()
            .map(|limit| format!("{}: {}", judgement.verdict.word(), words::limit(limit, summary)));
        Self {
            valid: judgement.is_valid(),
            disturbed: judgement.reasons.iter().any(|r| matches!(r, Limit::Stolen { .. })),
            busy: summary.busiest().map_or(0.0, |b| b.1),
            rate: summary.main.rate(),
            reason: reason.unwrap_or_default(),
        }
    }
}

/// Give more until it is too much, then go between the two. How busy the client was says where to
/// look next. A run that the host disturbed is made once more. Where the user ends it, what was
/// found until then stands.
fn search(
    first: u64,
    most: u64,
    runs: u32,
    until: Instant,
    trial: &mut dyn FnMut(u64) -> Result<Trial, Why>,
) -> Result<Found, Why> {
    let mut x = first.min(most);
    let mut best: Option<(u64, Trial)> = None;
    let mut over: Option<(u64, String)> = None;
    let mut bound = "the search ended before anything stood against more".to_owned();
    let mut trial = |x: u64| match trial(x) {
        Ok(t) if t.disturbed && Instant::now() < until => trial(x),
        other => other,
    };
    for _ in 0..runs {
        let t = match trial(x) {
            Err(Why::Ended) if best.is_some() => {
                let bound = "the search was interrupted".into();
                return Ok(Found { best, bound });
            }
            other => other?,
        };
        if t.valid {
            let gained = best.as_ref().is_none_or(|(_, b)| t.rate > b.rate * GAIN_MIN);
            if best.as_ref().is_none_or(|(_, b)| t.rate > b.rate) {
                best = Some((x, t.clone()));
            }
            if !gained && over.is_none() {
                bound = "the server: more did not bring more replies".to_owned();
                break;
            }
            if x == most {
                bound = format!("no more than {} fit", units::count(most));
                break;
            }
        } else {
            over = Some((x, t.reason.clone()));
        }
        let next = match (&best, &over) {
            (Some((low, t)), None) => {
                let factor = (BUSY_WANTED / t.busy.max(0.01)).clamp(1.3, 6.0);
                ((*low as f64 * factor) as u64).min(most)
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
        bound = reason;
    }
    Ok(Found { best, bound })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial_of(x: u64, busy: f64, reason: &str) -> Trial {
        let reason = reason.to_owned();
        Trial { valid: true, busy, rate: x as f64, disturbed: false, reason }
    }

    /// A client that is busy in proportion to what it is given, and serves that many.
    fn searched(capacity: u64, most: u64, runs: u32) -> (Found, Vec<u64>) {
        let mut asked = Vec::new();
        let mut trial = |x: u64| {
            asked.push(x);
            let busy = x as f64 / capacity as f64;
            let valid = busy <= 0.9;
            Ok(Trial { valid, ..trial_of(x, busy.min(1.0), "busy") })
        };
        let until = Instant::now() + Duration::from_secs(600);
        let found = search(32, most, runs, until, &mut trial).expect("found");
        (found, asked)
    }

    #[test]
    fn the_search_closes_in_from_both_sides() {
        for capacity in [1, 7, 33, 100, 1_000, 40_000] {
            let (found, asked) = searched(capacity, 1 << 20, 12);
            let limit = capacity as f64 * 0.9;
            match found.best {
                Some((x, t)) => {
                    assert!(t.valid && x as f64 <= limit, "{capacity}: {asked:?}");
                    assert!(x as f64 > limit / 1.35 - 1.0, "{capacity}: {x} of {asked:?}");
                }
                None => assert_eq!(capacity, 1, "{asked:?}"),
            }
            assert_eq!(found.bound, "busy", "{capacity}: {asked:?}");
        }
    }

    #[test]
    fn the_search_ends_where_no_more_is_to_be_had() {
        let (found, asked) = searched(1_000, 100, 12);
        assert_eq!((found.best.map(|b| b.0), asked.last()), (Some(100), Some(&100)));
        assert_eq!(found.bound, "no more than 100 fit");
        let (_, asked) = searched(1_000_000, 1 << 30, 3);
        assert_eq!(asked.len(), 3);
        // The server gives 50 a second, whatever is asked.
        let mut trial = |_| Ok(trial_of(50, 0.1, ""));
        let until = Instant::now() + Duration::from_secs(600);
        let found = search(32, 1 << 20, 12, until, &mut trial).expect("found");
        assert_eq!(found.bound, "the server: more did not bring more replies");
    }

    #[test]
    fn what_was_found_until_the_user_ended_the_search_stands() {
        let until = Instant::now() + Duration::from_secs(600);
        let ended_after = |runs: u32| {
            let mut made = 0;
            let mut trial = |x: u64| {
                made += 1;
                if made > runs { Err(Why::Ended) } else { Ok(trial_of(x, 0.1, "")) }
            };
            search(32, 1 << 20, 12, until, &mut trial)
        };
        assert!(matches!(ended_after(0), Err(Why::Ended)));
        let found = ended_after(2).expect("two runs");
        assert_eq!(found.best.map(|(x, t)| (x, t.rate)), Some((192, 192.0)));
        assert_eq!(found.bound, "the search was interrupted");
    }

    /// Of each two runs at one number the host takes time from the first.
    #[test]
    fn a_run_that_the_host_disturbed_is_made_once_more() {
        let mut asked = Vec::new();
        let mut trial = |x: u64| {
            asked.push(x);
            let disturbed = asked.len() % 2 == 1;
            Ok(Trial { valid: !disturbed, disturbed, ..trial_of(x, 0.1, "stolen") })
        };
        let until = Instant::now() + Duration::from_secs(600);
        let found = search(32, 192, 12, until, &mut trial).expect("found");
        assert_eq!(found.best.map(|b| b.0), Some(192));
        assert_eq!(asked, [32, 32, 192, 192]);
        // Only as long as there is time.
        asked.clear();
        let mut always = |x: u64| {
            asked.push(x);
            Ok(Trial { valid: false, disturbed: true, ..trial_of(x, 0.1, "stolen") })
        };
        let found = search(32, 192, 12, Instant::now(), &mut always).expect("found");
        assert_eq!((asked.as_slice(), found.bound.as_str()), (&[32][..], "stolen"));
    }
}
