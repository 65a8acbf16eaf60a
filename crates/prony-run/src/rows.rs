//! What a report notes about tables whose rows are used once.

use prony_base::units::Span;
use prony_plan::script::{Exhausted, PickRow, Table};
use prony_report::units;
use prony_stats::summary::Summary;

/// The notes about tables that had no rows left, in full sentences.
pub(crate) fn notes(summary: &Summary) -> Vec<String> {
    let tallies = summary.warmup.iter().chain([&summary.main]);
    let plan = &summary.plan;
    let has_sessions = plan.sessions.is_some();
    let started: u64 = match has_sessions {
        true => tallies.filter_map(|tally| Some(tally.sessions.as_ref()?.started)).sum(),
        false => tallies.map(|tally| tally.started).sum(),
    };
    let (one, many) = if has_sessions { ("session", "sessions") } else { ("request", "requests") };
    // The number of sessions that the user asked for; the warm-up comes before them.
    let asked = plan.stop.sessions.filter(|_| plan.warmup == Span::ZERO);
    let tables = plan.data.tables.iter().map(|table| &**table).enumerate();
    let unique = tables.filter(|(_, table)| table.pick() == PickRow::Unique);
    let note = |(index, table): (usize, &Table)| {
        // The plan of a saved report has only the first rows.
        let size = summary.run.plan_size.as_ref().and_then(|size| size.table_rows.get(index));
        let rows = size.copied().unwrap_or_else(|| table.rows() as u64);
        let (name, sessions) = (table.name(), units::counted(started, one, many));
        let all = units::counted(rows, "row", "rows");
        match table.exhausted() {
            Exhausted::Stop if started >= rows && asked.is_none_or(|asked| asked > rows) => {
                Some(format!(
                    "The load ended because all rows of the table `{name}` were used ({all}, each \
                     by one {one}; `exhausted` in the plan file)."
                ))
            }
            Exhausted::Reuse if started > rows => Some(format!(
                "The table `{name}` has {all} for {sessions}, so rows were used again."
            )),
            Exhausted::Fail if started > rows => Some(format!(
                "The table `{name}` has {all} for {sessions}; the others had no row, and requests \
                 that need one were not sent (no-value)."
            )),
            _ => None,
        }
    };
    unique.filter_map(note).collect()
}
