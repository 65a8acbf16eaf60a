//! Response times over time as a heat map: the number in each cell of interval and time.

use prony_base::units::Span;
use prony_stats::summary::Summary;
use prony_tally::record::series::bin_value;

use super::axis::{Axis, place_of};
use super::chart::{Cell, Chart, Heat};
use super::curves::seconds;

/// The maximum number of columns; more intervals are merged.
const COLUMNS_MAX: usize = 60;
/// The maximum number of rows ...
const ROWS_MAX: usize = 24;
/// ... each at least this high, in powers of ten: several bins of the series.
const ROW_LEAST: f64 = 0.04;

/// The heat map of a run, and the duration of a column; `None` if the run is too short for two
/// columns.
pub(crate) fn heat(summary: &Summary) -> Option<(Chart, Span)> {
    let series = &summary.main.series;
    let intervals = series.cells();
    let joined = intervals.len().div_ceil(COLUMNS_MAX).max(1);
    let length = series.interval() * joined as u64;
    let bins = || intervals.iter().flat_map(|c| &c.bins);
    let y = Axis::times("response time", bins().map(|&(bin, _)| bin_value(bin)));
    let rows = (((y.to - y.from) / ROW_LEAST + 1e-9) as usize).clamp(1, ROWS_MAX);
    let end = (series.interval() * intervals.len() as u64).as_secs_f64();
    let row_ends = |i: usize| [i, i + 1].map(|i| y.from + (y.to - y.from) * i as f64 / rows as f64);
    let mut cells = Vec::new();
    let mut columns = 0;
    for (i, column) in intervals.chunks(joined).enumerate() {
        let mut counts = vec![0_u64; rows];
        for &(bin, n) in column.iter().flat_map(|c| &c.bins) {
            let row = (y.share(place_of(bin_value(bin))) * rows as f64) as usize;
            counts[row.min(rows - 1)] += u64::from(n);
        }
        columns += usize::from(counts.iter().any(|&n| n > 0));
        let x = [i, i + 1].map(|i| (length * i as u64).as_secs_f64().min(end));
        let counts = counts.into_iter().enumerate().filter(|&(_, count)| count > 0);
        cells.extend(counts.map(|(row, count)| Cell { x, y: row_ends(row), count }));
    }
    if columns < 2 {
        return None;
    }
    let max = cells.iter().map(|c| c.count).max().unwrap_or(0);
    let window = summary.main.window().as_secs_f64();
    let chart = Chart {
        title: "Heat map of response times".to_owned(),
        about:
            "How many response times fall into each cell of time since the measurement began and \
                response time, the latter on a logarithmic axis. Stronger colors mean more."
                .to_owned(),
        headline: None,
        warning: None,
        x: Axis::linear("time since the measurement began", end, seconds).ending(end),
        y,
        curves: Vec::new(),
        marks: if end > window { vec![(window, "load ends")] } else { Vec::new() },
        heat: Some(Heat { cells, max }),
    };
    Some((chart, length))
}
