//! The coverage of the 95 % confidence intervals, at stations with known distributions.

use std::env;
use std::fmt::Write as _;

use prony_base::units::{Nanos, Span};
use prony_sim::rng::Rng;
use prony_sim::server::ServiceTime;
use prony_stats::summary::confidence::{Confidence, Interval, NoInterval};
use prony_tally::record::Tally;

/// The mean service time of every station.
pub(crate) const SERVICE: Span = Span::from_millis(1);

/// The share of slow requests of the bimodal stations.
const SLOW: f64 = 0.04;

/// A station with Poisson arrivals.
#[derive(Clone, Copy)]
pub(crate) enum Station {
    /// One server with exponential service times and this utilization.
    Queue(f64),
    /// A server for each request, with this distribution of service times; 1,000 requests a second.
    Free(&'static str, ServiceTime),
    /// The same with service times of 0.8 to 1.2 ms, and of 16 to 24 ms for 4 %, both uniform.
    Humps,
    /// 100 requests a second, log-normal, around a level that drifts: it varies by a tenth, with a
    /// correlation time of half a second.
    Drift,
}

/// The standard deviations of the logarithms of the times and of their level.
const SPREAD: f64 = 0.3;
const DRIFT: f64 = 0.1;

/// The figures: quantiles, and NaN for the mean.
const FIGURES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, f64::NAN];

/// The results of many runs of equal length: for each figure, in how many runs an interval was
/// reported, and how many intervals contain the true figure.
#[derive(Default)]
struct Count {
    runs: u32,
    reported: [u32; FIGURES.len()],
    covered: [u32; FIGURES.len()],
    /// The sum of the intervals' half widths, as a share of the true figure.
    half_width: [f64; FIGURES.len()],
    /// Runs that were reported as autocorrelated.
    autocorrelated: u32,
}

impl Station {
    /// When the replies to this number of requests arrive, and after which time each, from the
    /// steady state on.
    pub(crate) fn times(self, requests: u64, seed: u64) -> Vec<(Nanos, Span)> {
        let mut rng = Rng::new(seed, 0x99);
        let mut done: Vec<(Nanos, Span)> = Vec::with_capacity(requests as usize);
        let mut now = Nanos::ZERO;
        match self {
            Self::Queue(load) => {
                let gap = Span((SERVICE.0 as f64 / load) as u64);
                let busy = Span((SERVICE.0 as f64 / (1.0 - load)) as u64);
                let mut wait = if rng.chance(load) { rng.exponential(busy) } else { Span::ZERO };
                for _ in 0..requests {
                    let next = rng.exponential(gap);
                    now = now + next;
                    // Lindley's recursion.
                    wait = wait - next + rng.exponential(SERVICE);
                    done.push((now + wait, wait));
                }
            }
            Self::Drift => {
                let mut level = normal(&mut rng);
                for _ in 0..requests {
                    let (gap, shock) = (rng.exponential(SERVICE * 10), normal(&mut rng));
                    let noise = normal(&mut rng);
                    now = now + gap;
                    let keeps = (-gap.as_secs_f64() / 0.5).exp();
                    level = level * keeps + shock * (1.0 - keeps * keeps).sqrt();
                    let time = SERVICE.0 as f64 * 10.0 * (SPREAD * noise + DRIFT * level).exp();
                    done.push((now, Span(time as u64)));
                }
            }
            Self::Free(..) | Self::Humps => {
                for _ in 0..requests {
                    now = now + rng.exponential(SERVICE);
                    let times = match self {
                        Self::Free(_, times) => times,
                        _ if rng.chance(SLOW) => ServiceTime::Uniform(SERVICE * 16, SERVICE * 24),
                        _ => ServiceTime::Uniform(SERVICE * 4 / 5, SERVICE * 6 / 5),
                    };
                    let time = times.draw(&mut rng);
                    done.push((now + time, time));
                }
                done.sort_unstable();
            }
        }
        done
    }

    /// A run of this number of requests, which starts in the steady state.
    pub(crate) fn run(self, requests: u64, seed: u64) -> Tally {
        let mut tally = Tally::new(Nanos::ZERO);
        let mut last = Nanos::ZERO;
        for (at, time) in self.times(requests, seed) {
            tally.series.replied(at, time, 1);
            tally.times.response.record(time);
            last = at;
        }
        (tally.started, tally.replies, tally.end) = (requests, requests, last);
        tally.series.close();
        tally
    }

    /// The true figure, in nanoseconds.
    pub(crate) fn truth(self, figure: f64) -> f64 {
        let of = |times: ServiceTime| match times {
            ServiceTime::Exponential(mean) if figure.is_nan() => mean.0 as f64,
            ServiceTime::Exponential(mean) => -(1.0 - figure).ln() * mean.0 as f64,
            // Cut off at 1,000 times the minimum.
            ServiceTime::Pareto(least, a) if figure.is_nan() => {
                least.0 as f64 * (a - 1_000_f64.powf(1.0 - a)) / (a - 1.0)
            }
            ServiceTime::Pareto(least, a) => {
                least.0 as f64 * (1.0 - figure).powf(-1.0 / a).min(1_000.0)
            }
            ServiceTime::Bimodal(fast, slow, share) if figure.is_nan() => {
                fast.0 as f64 * (1.0 - share) + slow.0 as f64 * share
            }
            ServiceTime::Bimodal(fast, _, share) if figure <= 1.0 - share => fast.0 as f64,
            ServiceTime::Bimodal(_, slow, _) => slow.0 as f64,
            ServiceTime::Fixed(time) => time.0 as f64,
            ServiceTime::Uniform(..) => unreachable!("no station has it"),
        };
        match self {
            Self::Queue(load) => {
                of(ServiceTime::Exponential(Span((SERVICE.0 as f64 / (1.0 - load)) as u64)))
            }
            Self::Free(_, times) => of(times),
            Self::Drift => {
                let sigma = SPREAD.hypot(DRIFT);
                let z = if figure.is_nan() { sigma / 2.0 } else { normal_quantile(figure) };
                SERVICE.0 as f64 * 10.0 * (sigma * z).exp()
            }
            Self::Humps if figure.is_nan() => of(ServiceTime::Bimodal(SERVICE, SERVICE * 20, SLOW)),
            Self::Humps => {
                let fast = figure / (1.0 - SLOW);
                let slow = (figure - (1.0 - SLOW)) / SLOW;
                let times = if fast <= 1.0 { 0.8 + 0.4 * fast } else { 16.0 + 8.0 * slow };
                times * SERVICE.0 as f64
            }
        }
    }

    /// The results of runs with the seeds from `first` on.
    fn count_from(self, first: u64, requests: u64, runs: u32) -> Count {
        let mut count = Count { runs, ..Count::default() };
        for seed in first..first + u64::from(runs) {
            let tally = self.run(requests, seed);
            let confidence = Confidence::of(&tally);
            for (i, figure) in FIGURES.into_iter().enumerate() {
                let reported: Result<Interval, NoInterval> =
                    if figure.is_nan() { confidence.mean() } else { confidence.quantile(figure) };
                let Ok(Interval { lo, hi }) = reported else { continue };
                let truth = self.truth(figure);
                // Times are recorded in whole nanoseconds.
                count.reported[i] += 1;
                count.covered[i] += u32::from(lo - 1.0 <= truth && truth <= hi + 1.0);
                count.half_width[i] += (hi - lo) / 2.0 / truth;
            }
            count.autocorrelated += u32::from(confidence.autocorrelation().is_some());
        }
        count
    }

    /// The results of runs with other seeds than the study's.
    fn count(self, requests: u64, runs: u32) -> Count {
        self.count_from(1_000_000, requests, runs)
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Queue(load) => format!("M/M/1, load {load}"),
            Self::Free(name, _) => name.to_owned(),
            Self::Humps => "two modes".to_owned(),
            Self::Drift => "slow drift".to_owned(),
        }
    }
}

pub(crate) const HEAVY: Station =
    Station::Free("heavy tail", ServiceTime::Pareto(Span::from_millis(1), 1.5));
const BIMODAL: Station =
    Station::Free("two values", ServiceTime::Bimodal(SERVICE, Span::from_millis(20), SLOW));

impl Count {
    /// The coverage: the share of intervals that contain the true figure, in per cent.
    fn coverage(&self, figure: usize) -> f64 {
        f64::from(self.covered[figure]) * 100.0 / f64::from(self.reported[figure])
    }

    /// A row of the table: for each figure, the coverage, the mean half-width, and the share of
    /// runs with an interval.
    fn line(&self, station: Station, requests: u64) -> String {
        let mut line = format!("| {} | {requests} |", station.name());
        for i in 0..FIGURES.len() {
            let reported = f64::from(self.reported[i]) * 100.0 / f64::from(self.runs);
            let wide = self.half_width[i] * 100.0 / f64::from(self.reported[i]);
            let cell = match self.reported[i] {
                0 => " - |".to_owned(),
                n if n == self.runs => format!(" {:.1} %, +- {wide:.1} % |", self.coverage(i)),
                _ => format!(
                    " {:.1} %, +- {wide:.1} % ({reported:.1} % of runs) |",
                    self.coverage(i)
                ),
            };
            write!(line, "{cell}").expect("memory");
        }
        write!(line, " {:.1} % |", f64::from(self.autocorrelated) * 100.0 / f64::from(self.runs))
            .expect("memory");
        line
    }

    /// A binomial test at the 1 % level must not reject that 93 to 97 % of the intervals contain
    /// the true figure.
    fn check_coverage(&self, figure: usize, line: &str) {
        let (reported, covered) = (self.reported[figure], self.covered[figure]);
        let figure = FIGURES[figure];
        assert!(binomial(reported, 0.93, covered) > 0.01, "{figure}: coverage too low: {line}");
        let more = 1.0 - binomial(reported, 0.97, covered.saturating_sub(1));
        assert!(more > 0.01, "{figure}: coverage too high: {line}");
    }
}

/// A standard normal variate (Box and Muller, 1958).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * rng.unit()).cos()
}

/// The median, p90, p99 or p99.9 of the standard normal distribution.
fn normal_quantile(q: f64) -> f64 {
    let table = [(0.5, 0.0), (0.9, 1.281_551_565_5), (0.99, 2.326_347_874), (0.999, 3.090_232_306)];
    table.into_iter().find(|(of, _)| *of == q).expect("a figure").1
}

/// The cumulative binomial distribution: the probability of at most `k` successes in `n` trials
/// with probability `p`.
fn binomial(n: u32, p: f64, k: u32) -> f64 {
    let mut term = f64::from(n) * (1.0 - p).ln();
    let mut sum = term.exp();
    for i in 0..k {
        term += (f64::from(n - i) / f64::from(i + 1) * p / (1.0 - p)).ln();
        sum += term.exp();
    }
    sum
}

/// Check that intervals of these figures are reported in 98 % of the runs, with the right coverage.
/// (The study of `cargo xtask bars` has more runs.)
fn check(station: Station, requests: u64, runs: u32, figures: &[usize]) {
    let count = station.count(requests, runs);
    let line = count.line(station, requests);
    for &i in figures {
        assert!(count.reported[i] * 50 >= runs * 49, "{}: not reported: {line}", FIGURES[i]);
        count.check_coverage(i, &line);
    }
    assert!(f64::from(count.autocorrelated) <= f64::from(runs) * 0.02, "false alarms: {line}");
}

/// Check figures that are reported in only some of the runs, because the runs are about as long as
/// is needed: this selection must not prefer wrong intervals. If a quarter of the runs or more
/// report an interval, the coverage of these must be right; in any case the share of wrong
/// intervals in all runs must not be higher than if all runs reported one.
fn check_near_the_limit(station: Station, requests: u64, runs: u32, figures: &[usize]) {
    let count = station.count(requests, runs);
    let line = count.line(station, requests);
    for &i in figures {
        let reported = count.reported[i];
        assert!(
            (runs / 10..=runs * 49 / 50).contains(&reported),
            "{}: not near the limit: {line}",
            FIGURES[i]
        );
        if reported * 4 >= runs {
            count.check_coverage(i, &line);
        }
        let right = runs - (reported - count.covered[i]);
        assert!(binomial(runs, 0.97, right) > 0.01, "{}: wrong too often: {line}", FIGURES[i]);
    }
}

/// Check figures of runs that are too short for the spectral method: nearly all have an interval,
/// which may be wider than it needs to be.
fn check_few(station: Station, requests: u64, runs: u32, figures: &[usize]) {
    let count = station.count(requests, runs);
    let line = count.line(station, requests);
    for &i in figures {
        let (reported, covered) = (count.reported[i], count.covered[i]);
        assert!(reported * 10 >= runs * 9, "{}: not reported: {line}", FIGURES[i]);
        assert!(binomial(reported, 0.93, covered) > 0.01, "{}: {line}", FIGURES[i]);
    }
}

#[test]
fn p14_intervals_contain_the_true_figure_at_light_load() {
    check(Station::Queue(0.3), 1_500, 400, &[0, 1, 4]);
    check(Station::Queue(0.3), 20_000, 300, &[0, 1, 2, 4]);
    check_near_the_limit(Station::Queue(0.3), 5_000, 600, &[2]);
    check_near_the_limit(Station::Queue(0.3), 60_000, 80, &[3]);
}

#[test]
fn p14_intervals_contain_the_true_figure_at_medium_load() {
    check(Station::Queue(0.6), 10_000, 300, &[0, 1, 4]);
    check(Station::Queue(0.6), 60_000, 250, &[0, 1, 2, 4]);
    check_near_the_limit(Station::Queue(0.6), 20_000, 400, &[2]);
    check_near_the_limit(Station::Queue(0.6), 25_000, 200, &[2]);
}

#[test]
fn p14_intervals_contain_the_true_figure_at_heavy_load() {
    check(Station::Queue(0.9), 100_000, 150, &[0, 1, 4]);
    check_near_the_limit(Station::Queue(0.9), 40_000, 400, &[0, 1, 4]);
    check_near_the_limit(Station::Queue(0.9), 50_000, 200, &[0, 1, 4]);
}

#[test]
fn p14_intervals_contain_the_true_figure_of_a_heavy_tail() {
    check(HEAVY, 30_000, 250, &[0, 1, 2, 4]);
    check_few(HEAVY, 2_000, 500, &[2]);
    check_few(HEAVY, 20_000, 200, &[3]);
    for (requests, runs) in [(1_500, 300), (5_000, 50)] {
        let count = HEAVY.count(requests, runs);
        let line = count.line(HEAVY, requests);
        assert!(count.reported[4] <= runs / 50, "the mean depends on rare long times: {line}");
        assert!(count.reported[1] * 50 >= runs * 49, "{line}");
        assert!(requests < 5_000 || count.reported[2] == runs, "{line}");
    }
}

#[test]
fn p14_intervals_contain_the_true_figure_of_two_kinds_of_requests() {
    check(Station::Humps, 20_000, 250, &[0, 1, 2, 4]);
    check_few(Station::Humps, 2_000, 500, &[2]);
    check(BIMODAL, 20_000, 200, &[4]);
    // Each quantile is one of two values, and every interval contains it.
    let count = BIMODAL.count(20_000, 50);
    for i in 0..3 {
        assert!(
            count.reported[i] == 50 && count.covered[i] == 50,
            "{}",
            count.line(BIMODAL, 20_000)
        );
    }
}

/// No interval is reported for a tail with only a few independent samples, nor for a run that is
/// short compared with the autocorrelation time. Neither run is reported as not stationary.
#[test]
fn p12_an_autocorrelated_tail_has_no_interval() {
    let count = Station::Queue(0.9).count(50_000, 60);
    let line = count.line(Station::Queue(0.9), 50_000);
    assert_eq!(count.reported[2..4], [0, 0], "500 samples beyond p99, in a few bursts: {line}");
    let count = Station::Queue(0.9).count(10_000, 60);
    let line = count.line(Station::Queue(0.9), 10_000);
    assert!(
        count.reported.iter().all(|&n| n <= 3),
        "11 s, with an autocorrelation time of 0.4 s: {line}"
    );
    assert!(count.autocorrelated <= 1, "{line}");
}

/// A queue near saturation, in a run that is short compared with the autocorrelation time, is
/// reported as autocorrelated.
#[test]
fn p14_a_run_shorter_than_the_autocorrelation_has_no_interval() {
    let count = Station::Queue(0.995).count(20_000, 60);
    let line = count.line(Station::Queue(0.995), 20_000);
    assert!(count.reported.iter().all(|&n| n == 0), "{line}");
    assert!(count.autocorrelated >= 24, "{line}");
}

/// Prints the table of `docs/confidence.md` for `cargo xtask bars`, which passes the number of runs
/// and the first seed.
#[test]
fn study() {
    let options = env::var("PRONY_BARS").unwrap_or_default();
    let options: Vec<u64> = options.split(' ').filter_map(|n| n.parse().ok()).collect();
    let &[runs, first] = &options[..] else { return };
    println!("| queue | requests | p50 | p90 | p99 | p99.9 | mean | not stationary |");
    println!("|---|---|---|---|---|---|---|---|");
    let of = |station: Station, sizes: &[u64]| -> Vec<(Station, u64)> {
        sizes.iter().map(|&n| (station, n)).collect()
    };
    let all = [
        of(Station::Queue(0.9), &[10_000, 30_000, 40_000, 50_000, 70_000, 100_000]),
        of(Station::Queue(0.6), &[4_000, 10_000, 20_000, 25_000, 60_000]),
        of(Station::Queue(0.3), &[1_500, 5_000, 20_000, 70_000]),
        of(HEAVY, &[1_500, 5_000, 20_000, 30_000, 100_000]),
        of(Station::Humps, &[2_000, 5_000, 20_000, 100_000]),
        of(BIMODAL, &[5_000]),
    ];
    for (station, requests) in all.into_iter().flatten() {
        let count = station.count_from(first, requests, runs as u32);
        println!("{}", count.line(station, requests));
    }
}
