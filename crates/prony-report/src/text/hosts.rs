//! The hosts of a run: one line for each, with what its own meter says.

use prony_stats::summary::Summary;

use super::super::hosts;
pub(super) use super::super::hosts::{facts, part};
use super::page::{Ink, LABEL, Page, shortened};

/// Columns of a cell, its gap included.
const CELL: usize = 11;
/// The rows of the offered load. The JSON report has one for each second.
const ROWS_MAX: usize = 12;

/// The hosts, in the order of their shares.
pub(super) fn write(page: &mut Page, summary: &Summary) {
    let Some(run) = &summary.run.hosts else { return };
    let header: String = hosts::COLUMNS[1..].iter().map(|name| format!("{name:>CELL$}")).collect();
    page.row("host", &header, Ink::Faint);
    for host in &run.hosts {
        let cells: String =
            hosts::cells(host, run.shards).map(|cell| format!("{cell:>CELL$}")).concat();
        page.row(&shortened(&host.name, LABEL - 3), &cells, Ink::Plain);
    }
    for (host, loss) in run.lost() {
        page.inked("", &hosts::loss(host, loss), Ink::Warning);
    }
    offered(page, summary);
}

/// The planned load against the offered load, over time.
fn offered(page: &mut Page, summary: &Summary) {
    let rows = hosts::grouped(&summary.offered(), ROWS_MAX);
    if rows.is_empty() {
        return;
    }
    let cells = |cells: &[String]| cells.iter().map(|cell| format!("{cell:>CELL$}")).collect();
    let [_, header @ ..] = hosts::OFFERED.map(str::to_owned);
    let header: String = cells(&header);
    page.row("load at", &header, Ink::Faint);
    for row in &rows {
        let [at, others @ ..] = hosts::offered_cells(row);
        let others: String = cells(&others);
        page.row(&at, &others, Ink::Plain);
    }
}
