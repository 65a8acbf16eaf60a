//! The measurement over time, one line for each interval. Times in microseconds, with a point; a
//! field is empty where the interval has nothing to tell or too few replies to tell it.

use std::fmt::Write as _;

use prony_core::summary::Summary;
use prony_core::units::Span;

/// The first line. Documented in `docs/json.md` beside the series of the JSON report.
pub(super) const HEADER: &str =
    "start_s,length_s,started,replies,failed,bytes,p50_us,p99_us,max_us";

pub(super) fn render(summary: &Summary) -> String {
    let mut out = format!("{HEADER}\n");
    for row in summary.main.rows() {
        let us =
            |t: Option<Span>| t.map(|t| format!("{:.3}", t.0 as f64 / 1e3)).unwrap_or_default();
        let (at, length) = (row.at.as_secs_f64(), row.length.as_secs_f64());
        let _ = writeln!(
            out,
            "{at},{length},{},{},{},{},{},{},{}",
            row.started,
            row.replies,
            row.failed,
            row.bytes,
            us(row.p50),
            us(row.p99),
            us(row.max)
        );
    }
    out
}
