//! wrk's report, line by line, and prony's remarks on it.

use std::fmt::Write as _;

use prony_base::fault::{Fault, FaultClass};
use prony_base::units::{Nanos, Span};
use prony_stats::summary::Summary;
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;

use super::options::Options;
use super::units::{self, column};

/// The interval at which wrk samples the rate.
const SAMPLE: Span = Span::from_millis(100);
/// The quantiles of `--latency`.
const QUANTILES: [u32; 4] = [50, 75, 90, 99];

/// The rates of all threads over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// For each thread, the end of its last sample, and its completed requests by then.
    last: Vec<(Nanos, u64)>,
    samples: Vec<f64>,
}

impl Rates {
    /// Take samples. `workers` has for each thread the time and its completed requests by then.
    /// Times after `end` are ignored.
    pub(super) fn sample(&mut self, workers: &[(Nanos, u64)], end: Nanos) {
        self.last.resize(workers.len(), (Nanos::ZERO, 0));
        for (&(now, done), (at, before)) in workers.iter().zip(&mut self.last) {
            let passed = now.since(*at);
            if passed >= SAMPLE && now <= end {
                self.samples.push(done.saturating_sub(*before) as f64 / passed.as_secs_f64());
                (*at, *before) = (now, done);
            }
        }
    }
}

/// The lines that are printed when the run starts.
pub(super) fn head(options: &Options) -> String {
    format!(
        "Running {} test @ {}\n  {} threads and {} connections\n",
        units::seconds(options.duration),
        options.url,
        options.threads,
        options.connections
    )
}

/// Why no connection could be opened, in the words of the operating system.
pub(super) fn refused(t: &Tally) -> &'static str {
    let found = |f: Fault| t.fault(f) > 0;
    if found(Fault::ConnectRefused) {
        "Connection refused"
    } else if found(Fault::ConnectTimeout) || found(Fault::RequestTimeout) {
        "Connection timed out"
    } else if found(Fault::ConnectReset) || found(Fault::Reset) {
        "Connection reset by peer"
    } else if found(Fault::NoDescriptors) {
        "Too many open files"
    } else {
        "No route to host"
    }
}

/// A finished run.
pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) summary: &'a Summary,
    pub(super) rates: &'a Rates,
}

/// One line of wrk's statistics.
struct Stats {
    mean: f64,
    /// The sample standard deviation.
    stdev: f64,
    max: f64,
    /// The share of values within one standard deviation of the mean, in percent.
    within: f64,
}

impl Run<'_> {
    /// The report.
    pub(super) fn text(&self) -> String {
        let latencies = &self.summary.main.times.service;
        let mut out =
            format!("  Thread Stats{:>6}{:>11}{:>8}{:>12}\n", "Avg", "Stdev", "Max", "+/- Stdev");
        out += &row("Latency", &latency(latencies), units::time);
        out += &row("Req/Sec", &rates(&self.rates.samples), units::metric);
        if self.options.latency {
            out += "  Latency Distribution\n";
            for percent in QUANTILES {
                let us = quantile(latencies, percent);
                let _ = writeln!(out, "{percent:>7}%{}", column(&units::time(us), 10));
            }
        }
        self.totals(&mut out);
        out
    }

    fn totals(&self, out: &mut String) {
        let t = &self.summary.main;
        let window = t.window();
        let done = t.replies - t.replies_in_drain;
        let bytes = (t.bytes_received() - t.bytes_in_drain) as f64;
        let _ = writeln!(
            out,
            "  {done} requests in {}, {}B read",
            units::time(window.0 as f64 / 1e3),
            units::binary(bytes)
        );
        let [connect, read, timeout] = self.errors();
        if connect + read + timeout > 0 {
            let _ = writeln!(
                out,
                "  Socket errors: connect {connect}, read {read}, write 0, timeout {timeout}"
            );
        }
        let errors = t.statuses_inside(400..);
        if errors > 0 {
            let _ = writeln!(out, "  Non-2xx or 3xx responses: {errors}");
        }
        let _ = writeln!(out, "Requests/sec: {:>9.2}", t.rate());
        let rate = units::binary(t.bytes_per_second());
        let _ = writeln!(out, "Transfer/sec: {rate:>10}B");
    }

    /// Errors of connecting, errors of reading, and replies that took longer than the timeout.
    fn errors(&self) -> [u64; 3] {
        let t = &self.summary.main;
        let (mut connect, mut read) = (0, 0);
        for fault in Fault::ALL {
            match fault.class() {
                FaultClass::Connect | FaultClass::Meter => connect += t.fault(fault),
                FaultClass::Timeout if fault == Fault::ConnectTimeout => connect += t.fault(fault),
                FaultClass::Connection | FaultClass::Protocol => read += t.fault(fault),
                _ => {}
            }
        }
        [connect, read, self.slow()]
    }

    fn slow(&self) -> u64 {
        let limit = Span::from_secs(self.options.timeout).0;
        let hist = &self.summary.main.times.service;
        hist.count() - hist.count_between(Span::ZERO, Span(limit - 1))
    }

    /// Remarks on what wrk's lines omit or distort.
    pub(super) fn remarks(&self) -> Vec<String> {
        let t = &self.summary.main;
        let mut remarks = Vec::new();
        let slow = self.slow();
        if slow > 0 {
            remarks.push(format!(
                "{slow} replies took longer than --timeout; they are included in all figures here, \
                 whereas wrk omits them from its latencies."
            ));
        }
        if t.unfinished > 0 {
            remarks.push(format!(
                "{} requests were in flight when the run ended; how long they would have taken is \
                 unknown.",
                t.unfinished
            ));
        }
        let errors = t.statuses_inside(400..);
        if errors > 0 {
            remarks.push(format!(
                "{errors} replies with a status of 400 or above are included in the latencies and \
                 the requests per second."
            ));
        }
        remarks
    }
}

fn row(name: &str, s: &Stats, unit: fn(f64) -> String) -> String {
    format!(
        "    {name:<10}{}{}{}{:>8.2}%\n",
        column(&unit(s.mean), 8),
        column(&unit(s.stdev), 10),
        column(&unit(s.max), 9),
        s.within
    )
}

/// The statistics of the latencies, in microseconds.
fn latency(h: &Hist) -> Stats {
    let n = h.count();
    let us = |ns: Option<f64>| ns.unwrap_or(0.0) / 1e3;
    let (mean, stdev) = (us(h.mean_ns()), us(h.stdev_ns()));
    // The histogram has the deviation of a population; wrk prints that of a sample.
    let stdev = if n > 1 { stdev * (n as f64 / (n - 1) as f64).sqrt() } else { 0.0 };
    let (low, high) = ((mean - stdev).max(0.0) * 1e3, (mean + stdev) * 1e3);
    let inside = if n == 0 { 0 } else { h.count_between(Span(low as u64), Span(high as u64)) };
    let max = us(h.max().map(|max| max.0 as f64));
    Stats { mean, stdev, max, within: share(inside, n) }
}

fn rates(samples: &[f64]) -> Stats {
    let n = samples.len() as f64;
    if samples.is_empty() {
        return Stats { mean: 0.0, stdev: 0.0, max: 0.0, within: 0.0 };
    }
    let mean = samples.iter().sum::<f64>() / n;
    let squares: f64 = samples.iter().map(|s| (s - mean).powi(2)).sum();
    let stdev = if samples.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
    let inside = samples.iter().filter(|&&s| (s - mean).abs() <= stdev).count();
    let max = samples.iter().copied().fold(0.0, f64::max);
    Stats { mean, stdev, max, within: share(inside as u64, samples.len() as u64) }
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 * 100.0 / all as f64 }
}

/// A quantile in microseconds. wrk prints it for samples of any size; prony's own lines below it
/// omit those for which the sample is too small.
fn quantile(h: &Hist, percent: u32) -> f64 {
    h.estimate(f64::from(percent) / 100.0).map_or(0.0, |t| t.0 as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use prony_base::meter::WorkerStats;
    use prony_stats::summary::RunInfo;

    use super::super::options::{Asked, read};
    use super::super::plan::of;
    use super::*;

    #[test]
    fn statistics_of_latencies() {
        let mut h = Hist::new();
        for us in [100, 200, 300, 400, 5_000] {
            h.record(Span::from_micros(us));
        }
        let s = latency(&h);
        assert_eq!((s.mean, s.max, s.within), (1_200.0, 5_000.0, 80.0));
        assert!((s.stdev - 2_127.2).abs() < 0.1, "{}", s.stdev);
        assert_eq!(
            row("Latency", &s, units::time),
            "    Latency     1.20ms    2.13ms   5.00ms   80.00%\n"
        );
        // Without samples, zeros are printed instead of "nan".
        assert_eq!(
            row("Latency", &latency(&Hist::new()), units::time),
            "    Latency     0.00us    0.00us   0.00us    0.00%\n"
        );
    }

    /// 100 replies with status 500, five of which arrived after the end.
    #[test]
    fn errors_are_never_more_than_the_requests() {
        let url = "http://127.0.0.1:9/";
        let Asked::Run(options) = read("wrk", &["-d1".into(), url.into()]) else {
            panic!("a run was asked for")
        };
        let mut t = Tally::new(Nanos::ZERO);
        t.end = Nanos::ZERO + Span::from_secs(1);
        (t.started, t.sent, t.replies, t.replies_in_drain) = (100, 100, 100, 5);
        t.statuses.insert(500, 100);
        t.statuses_in_drain.insert(500, 5);
        let (plan, _) = of(&options).expect("a plan");
        let parts = vec![(None, t, WorkerStats::default())];
        let summary = Summary::from_parts(plan, RunInfo::default(), parts);
        let run = Run { options: &options, summary: &summary, rates: &Rates::default() };
        let text = run.text();
        assert!(text.contains("  95 requests in 1.00s"), "{text}");
        assert!(text.contains("  Non-2xx or 3xx responses: 95\n"), "{text}");
    }

    #[test]
    fn each_thread_has_its_own_rates() {
        let mut rates = Rates::default();
        let at = |ms| Nanos::ZERO + Span::from_millis(ms);
        let end = at(400);
        // The threads are sampled at irregular times; each rate is over its own interval.
        for (first, second) in [
            ((50, 50), (40, 90)),
            ((100, 100), (80, 180)),
            ((150, 150), (160, 320)),
            ((200, 200), (170, 350)),
            ((300, 200), (260, 320)),
            ((410, 900), (410, 900)),
        ] {
            let workers = [first, second].map(|(ms, done)| (at(ms), done));
            rates.sample(&workers, end);
        }
        assert_eq!(rates.samples, [1_000.0, 2_000.0, 1_000.0, 0.0, 0.0]);
        let s = super::rates(&rates.samples);
        assert_eq!((s.mean, s.max, s.within), (800.0, 2_000.0, 80.0));
        assert!((s.stdev - 836.66).abs() < 0.01, "{}", s.stdev);
        assert_eq!(
            row("Req/Sec", &s, units::metric),
            "    Req/Sec   800.00    836.66     2.00k    80.00%\n"
        );
    }
}
