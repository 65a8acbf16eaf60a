//! The measurement over time, one line per interval. Times in microseconds, with a decimal point. A
//! field is empty if the interval has no value or too few replies for it.

use std::fmt::Write as _;

use prony_base::units::Span;
use prony_stats::summary::Summary;

/// The header line. `docs/json.md` documents it with the series of the JSON report.
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
