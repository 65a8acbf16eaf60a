//! Round-trip times by message size and transport: the figures, and their table, CSV, JSON and
//! plot.

use std::fmt::Write as _;

use prony_base::fault::Fault;
use prony_base::merge::Merge;
use prony_base::units::Span;
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;
use serde::Serialize;

use super::lines::Lines;
use super::units;

/// The schema version of the JSON report.
const SCHEMA: u32 = 1;

/// The results of a sweep.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Spectrum {
    /// The schema version.
    schema: u32,
    /// prony's version.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// Operating system, kernel, cores.
    pub host: String,
    /// The seed of the random order of the measurements.
    pub seed: u64,
    /// Whether the user stopped it early.
    pub interrupted: bool,
    /// Facts that the reader must know, as complete sentences.
    pub notes: Vec<String>,
    /// The measurements that are not valid, each with its reason.
    pub doubts: Vec<String>,
    /// The results, by transport, then by message size.
    pub cells: Vec<Cell>,
}

/// The result for one message size over one transport.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The transport's name.
    pub transport: String,
    /// Size of a message in bytes.
    pub size: u32,
    /// Size of a reply in bytes.
    pub reply: u32,
    /// Number of repetitions.
    pub repetitions: u32,
    /// Number of round trips.
    pub exchanges: u64,
    /// Number of messages without a reply within the timeout.
    pub lost: u64,
    /// Number of exchanges that failed otherwise.
    pub failed: u64,
    /// The minimum round-trip time in nanoseconds; this and the following figures are for all
    /// repetitions together.
    pub min_ns: Option<u64>,
    /// The mean round-trip time.
    pub mean_ns: Option<f64>,
    /// The median with its confidence band.
    pub p50: Figure,
    /// The 99th percentile with its confidence band.
    pub p99: Figure,
    /// The maximum.
    pub max_ns: Option<u64>,
    #[serde(skip)]
    times: Hist,
    #[serde(skip)]
    each: [Vec<f64>; 2],
}

/// A quantile with its confidence band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// The quantile of all repetitions together, in nanoseconds; `None` if there are too few round
    /// trips.
    pub ns: Option<u64>,
    /// The lower end of the 95 % confidence interval of the mean of the repetitions' own quantiles
    /// (Student's t), extended to `ns` if that lies outside; `None` for fewer than two repetitions.
    pub low_ns: Option<f64>,
    /// The upper end.
    pub high_ns: Option<f64>,
}

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The quantiles with a band.
const QUANTILES: [f64; 2] = [0.5, 0.99];

impl Spectrum {
    /// An empty result.
    pub fn new() -> Self {
        Self { schema: SCHEMA, ..Self::default() }
    }

    /// Add a note with the number of invalid measurements among `all`, and the reason of the first.
    pub fn report_doubts(&mut self, all: usize) {
        let Some(first) = self.doubts.first() else { return };
        let n = self.doubts.len();
        self.notes.push(format!("{n} of {all} measurements are not valid. The first: {first}."));
    }

    /// Add one repetition of a cell.
    pub fn add(&mut self, transport: &str, size: u32, reply: u32, tally: &Tally) {
        let is = |c: &&mut Cell| c.transport == transport && c.size == size;
        if let Some(cell) = self.cells.iter_mut().find(is) {
            cell.add(tally);
            return;
        }
        let mut cell = Cell {
            transport: transport.to_owned(),
            size,
            reply,
            repetitions: 0,
            exchanges: 0,
            lost: 0,
            failed: 0,
            min_ns: None,
            mean_ns: None,
            p50: Figure::default(),
            p99: Figure::default(),
            max_ns: None,
            times: Hist::new(),
            each: [Vec::new(), Vec::new()],
        };
        cell.add(tally);
        self.cells.push(cell);
    }

    /// Sort the cells: by transport in the given order, then by message size.
    pub fn sort(&mut self, transports: &[String]) {
        let place = |c: &Cell| transports.iter().position(|t| *t == c.transport);
        self.cells.sort_by_key(|c| (place(c), c.size));
    }

    /// Whether there was any round trip.
    pub fn is_empty(&self) -> bool {
        self.cells.iter().all(|c| c.times.count() == 0)
    }

    pub(super) fn text(&self) -> String {
        let mut out = Lines::default();
        out.line(format!("prony {}  spectrum of round trips", self.version));
        out.line(format!("  {}; seed {}", self.host, self.seed));
        for note in &self.notes {
            out.line(format!("  {note}"));
        }
        let mut transport = "";
        for c in &self.cells {
            if c.transport != transport {
                transport = &c.transport;
                out.blank();
                out.line(format!(
                    "{:<14}{:>9} {:>9} {:>9} {:>15} {:>9} {:>15} {:>9} {:>6}",
                    transport,
                    "bytes",
                    "min",
                    "p50",
                    "95 % band",
                    "p99",
                    "95 % band",
                    "max",
                    "failed"
                ));
            }
            let ns = |t: Option<u64>| t.map_or_else(|| "-".into(), |t| units::span(Span(t)));
            out.line(format!(
                "{:<14}{:>9} {:>9} {:>9} {:>15} {:>9} {:>15} {:>9} {:>6}",
                "",
                units::count(u64::from(c.size)),
                ns(c.min_ns),
                ns(c.p50.ns),
                c.p50.band(),
                ns(c.p99.ns),
                c.p99.band(),
                ns(c.max_ns),
                if c.lost + c.failed > 0 { units::count(c.lost + c.failed) } else { "-".into() },
            ));
        }
        if self.interrupted {
            out.blank();
            out.line("interrupted by the user: the figures are those until then");
        }
        out.finish()
    }

    pub(super) fn csv(&self) -> String {
        let mut out = String::from(
            "transport,size,reply,repetitions,exchanges,lost,failed,min_us,mean_us,p50_us,p50_low_us,\
             p50_high_us,p99_us,p99_low_us,p99_high_us,max_us\n",
        );
        for c in &self.cells {
            let us = |ns: Option<f64>| ns.map(|ns| format!("{:.3}", ns / 1e3)).unwrap_or_default();
            let whole = |ns: Option<u64>| us(ns.map(|ns| ns as f64));
            let fields = [
                whole(c.min_ns),
                us(c.mean_ns),
                whole(c.p50.ns),
                us(c.p50.low_ns),
                us(c.p50.high_ns),
                whole(c.p99.ns),
                us(c.p99.low_ns),
                us(c.p99.high_ns),
                whole(c.max_ns),
            ];
            let _ = writeln!(
                out,
                "{},{},{},{},{},{},{},{}",
                c.transport,
                c.size,
                c.reply,
                c.repetitions,
                c.exchanges,
                c.lost,
                c.failed,
                fields.join(",")
            );
        }
        out
    }
}

impl Cell {
    fn add(&mut self, tally: &Tally) {
        let times = &tally.times.service;
        self.repetitions += 1;
        self.exchanges += tally.replies;
        let timeouts = tally.fault(Fault::RequestTimeout);
        self.lost += timeouts;
        self.failed += tally.failed - timeouts;
        self.times.merge(times);
        for (each, q) in self.each.iter_mut().zip(QUANTILES) {
            each.extend(times.quantile(q).map(|t| t.0 as f64));
        }
        let all = &self.times;
        self.min_ns = all.min().map(|t| t.0);
        self.max_ns = all.max().map(|t| t.0);
        self.mean_ns = all.mean_ns();
        self.p50 = Figure::of(all, QUANTILES[0], &self.each[0]);
        self.p99 = Figure::of(all, QUANTILES[1], &self.each[1]);
    }
}

impl Figure {
    fn of(all: &Hist, q: f64, each: &[f64]) -> Self {
        let ns = all.quantile(q).map(|t| t.0);
        // No quantile is below the minimum.
        let shortest = all.min().map_or(0.0, |t| t.0 as f64);
        // If a few repetitions are outliers, the quantile of all can lie outside.
        let reach =
            |end: f64, further: fn(f64, f64) -> f64| ns.map_or(end, |n| further(end, n as f64));
        let band = band(each);
        Self {
            ns,
            low_ns: band.map(|(low, _)| reach(low.max(shortest), f64::min)),
            high_ns: band.map(|(_, high)| reach(high, f64::max)),
        }
    }

    fn band(self) -> String {
        match (self.low_ns, self.high_ns) {
            (Some(low), Some(high)) => {
                format!("{}..{}", units::nanos(low), units::nanos(high)).replace(' ', "")
            }
            _ => "-".into(),
        }
    }
}

/// The 95 % confidence interval of the mean of a few values (Student's t), clamped at zero.
fn band(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len();
    let t = *STUDENT.get(n.checked_sub(2)?).unwrap_or(&1.96);
    let mean = values.iter().sum::<f64>() / n as f64;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let half = t * (variance / n as f64).sqrt();
    Some(((mean - half).max(0.0), mean + half))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    /// 10, 12, 14, 16, 18: mean 14, standard deviation sqrt(10), t for 4 degrees 2.776.
    #[test]
    fn bands_match_students_t() {
        let (low, high) = band(&[10.0, 12.0, 14.0, 16.0, 18.0]).unwrap();
        assert!((low - (14.0 - 2.776 * 2_f64.sqrt())).abs() < 1e-9);
        assert!((high - (14.0 + 2.776 * 2_f64.sqrt())).abs() < 1e-9);
        assert_eq!(band(&[5.0]), None);
        assert_eq!(band(&[5.0, 5.0]), Some((5.0, 5.0)));
    }

    #[test]
    fn band_contains_its_figure() {
        let mut s = Spectrum::new();
        for k in 0..30 {
            s.add("tcp", 64, 2, &tally(&[if k % 3 == 0 { 20 } else { 10 }; 100]));
        }
        // The mean of the medians is 13.3 us, and most are 10 us.
        let p50 = s.cells[0].p50;
        assert!(p50.ns.is_some_and(|ns| ns < 10_010), "{p50:?}");
        assert_eq!(p50.low_ns, p50.ns.map(|ns| ns as f64));
        assert!(p50.high_ns.is_some_and(|high| (15e3..16e3).contains(&high)), "{p50:?}");
    }

    #[test]
    fn band_is_not_below_the_minimum() {
        let mut s = Spectrum::new();
        for us in [5, 900, 5, 6] {
            s.add("unix", 1_024, 2, &tally(&[us; 100]));
        }
        let p50 = s.cells[0].p50;
        assert_eq!(p50.low_ns, s.cells[0].min_ns.map(|ns| ns as f64), "{p50:?}");
        assert!(s.render(Format::Svg).is_some());
    }

    fn tally(times: &[u64]) -> Tally {
        let mut t = Tally::default();
        for &us in times {
            t.times.service.record(Span::from_micros(us));
            t.replies += 1;
        }
        t
    }

    fn sample() -> Spectrum {
        let mut s = Spectrum::new();
        for shift in 0..3 {
            let times: Vec<u64> = (1..=1_000).map(|i| 10 + i / 100 + shift).collect();
            s.add("udp", 64, 2, &tally(&times));
            s.add("tcp", 128, 2, &tally(&times));
            s.add("tcp", 64, 2, &tally(&[100 + shift]));
        }
        s.sort(&["tcp".into(), "udp".into()]);
        s
    }

    #[test]
    fn merges_repetitions_and_sorts_cells() {
        let s = sample();
        let order: Vec<_> = s.cells.iter().map(|c| (c.transport.as_str(), c.size)).collect();
        assert_eq!(order, [("tcp", 64), ("tcp", 128), ("udp", 64)]);
        let c = &s.cells[1];
        assert_eq!(
            (c.repetitions, c.exchanges, c.min_ns, c.max_ns),
            (3, 3_000, Some(10_000), Some(22_000))
        );
        assert!(c.p50.low_ns < c.p50.ns.map(|n| n as f64) && c.p50.high_ns > c.p50.low_ns);
        // One round trip per repetition is too few for a quantile.
        assert_eq!(s.cells[0].p99, Figure::default());
    }

    #[test]
    fn every_format_contains_every_cell() {
        let s = sample();
        let text = |f| String::from_utf8(s.render(f).unwrap()).unwrap();
        assert_eq!(text(Format::Csv).lines().count(), 4);
        let fields = |line: &str| line.split(',').count();
        assert!(text(Format::Csv).lines().all(|l| fields(l) == 16));
        let json: serde_json::Value = serde_json::from_str(&text(Format::Json)).unwrap();
        assert_eq!(json["cells"][1]["p50"]["ns"], s.cells[1].p50.ns.unwrap());
        assert!(text(Format::Text).contains("128"));
        let svg = text(Format::Svg);
        assert!(svg.contains("tcp p50") && svg.contains("udp max"), "{svg}");
        assert!(s.render(Format::Png).unwrap().starts_with(b"\x89PNG"));
        assert!(s.render(Format::Hgrm).is_none());
    }

    #[test]
    fn documentation_lists_every_field_and_column() {
        let s = sample();
        let document = include_str!("../../../docs/json.md");
        let header = s.csv().lines().next().map(str::to_owned);
        assert!(document.contains(&header.expect("a header")));
        let (_, section) = document.split_once("## A spectrum").expect("its section");
        let json = serde_json::to_value(&s).unwrap();
        for of in [&json, &json["cells"][0], &json["cells"][0]["p50"]] {
            for name in of.as_object().unwrap().keys() {
                assert!(section.contains(&format!("`{name}`")), "{name}");
            }
        }
    }
}
