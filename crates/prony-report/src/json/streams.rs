//! Messages in streams: their sizes, their times over time, and the intervals of these.

use std::collections::BTreeMap;

use prony_base::units::Span;
use prony_stats::summary::Figures;
use prony_stats::summary::confidence::Confidence;
use prony_tally::record::hist::Hist;
use prony_tally::record::series::Series;
use prony_tally::record::{StreamTime, Tally};
use serde::Serialize;

use super::{Figured, ns};

/// What a section has about messages in streams beside their times.
#[derive(Serialize)]
pub(super) struct Streams {
    /// By what is counted: messages and bytes of a stream.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    sizes: BTreeMap<&'static str, Sizes>,
    /// By the kind of time.
    rows: BTreeMap<String, Vec<Line>>,
}

/// The figures of numbers.
#[derive(Serialize)]
struct Sizes {
    count: u64,
    mean: Option<f64>,
    stdev: Option<f64>,
    min: Option<u64>,
    p50: Option<u64>,
    p75: Option<u64>,
    p90: Option<u64>,
    p95: Option<u64>,
    p99: Option<u64>,
    p999: Option<u64>,
    p9999: Option<u64>,
    max: Option<u64>,
}

/// The times of one kind in an interval.
#[derive(Serialize)]
struct Line {
    start_ns: u64,
    length_ns: u64,
    count: u64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
}

/// The intervals of the times of messages, by the kind of time.
pub(super) fn intervals(tally: &Tally) -> BTreeMap<String, Figured> {
    let kinds = StreamTime::ALL.into_iter();
    let of = |kind| Confidence::of_stream(tally, kind).map(|all| Figured::of(&all));
    kinds.filter_map(|kind| of(kind).map(|figured| (kind.timed().json_key(), figured))).collect()
}

impl Streams {
    /// `None`: there were no messages in streams.
    pub(super) fn of(tally: &Tally) -> Option<Self> {
        let series = tally.stream_series.as_deref()?;
        let sizes = tally.stream_messages.as_deref().and_then(|counts| counts.sizes.as_deref());
        let sizes = sizes.into_iter().flat_map(|sizes| {
            [("messages", Sizes::of(&sizes.messages)), ("bytes", Sizes::of(&sizes.bytes))]
        });
        let rows = StreamTime::ALL.into_iter().filter_map(|kind| {
            series.of(kind).map(|series| (kind.timed().json_key(), lines(series)))
        });
        Some(Self { sizes: sizes.collect(), rows: rows.collect() })
    }
}

impl Sizes {
    fn of(hist: &Hist) -> Self {
        let f = Figures::of(hist);
        let number = |span: Option<Span>| span.map(|Span(n)| n);
        let [p50, p75, p90, p95, p99, p999, p9999] = f.quantiles.map(number);
        let (min, max) = (number(f.min), number(f.max));
        let (mean, stdev) = (f.mean_ns, f.stdev_ns);
        Self { count: f.count, mean, stdev, min, p50, p75, p90, p95, p99, p999, p9999, max }
    }
}

fn lines(series: &Series) -> Vec<Line> {
    let length = series.interval();
    let line = |(i, cell): (usize, &prony_tally::record::series::Cell)| Line {
        start_ns: (length * i as u64).0,
        length_ns: length.0,
        count: cell.replies,
        p50_ns: ns(cell.quantile(0.5)),
        p99_ns: ns(cell.quantile(0.99)),
        max_ns: ns(cell.quantile(1.0)),
    };
    series.cells().iter().enumerate().map(line).collect()
}
