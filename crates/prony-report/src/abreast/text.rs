//! The text report of several results.

use super::super::lines::Lines;
use super::super::{Detail, Saved, text, words};
use super::{DIFFERENCES, Line, OUTSIDE_MEANS, lines, verdict};

/// Widths: labels, results, and the two columns of the differences.
const LABEL: usize = 16;
const LABEL_MAX: usize = 28;
const CELL: usize = 16;
const DIFFERENCE: usize = 24;
const OUTSIDE: usize = 14;
/// Number of results side by side in one block of 100 columns.
const ABREAST: usize = 4;

pub(in super::super) fn render(results: &[Saved<'_>], detail: Detail) -> String {
    let mut out = Lines::default();
    out.line(format!("prony  {} runs", results.len()));
    for (i, result) in results.iter().enumerate() {
        let target = text::target(result.summary);
        let head = format!("  {:<LABEL$}{}  {target}", i + 1, result.name);
        out.line(text::shortened(&head, 100));
    }
    let mut lines = lines(results);
    let all = lines.len();
    if detail == Detail::Answer {
        lines.retain(|line| !line.is_detail);
    }
    let label = |line: &Line| text::shortened(&line.label, LABEL_MAX);
    let width = lines.iter().map(|line| label(line).chars().count() + 1).max();
    let width = width.unwrap_or(0).max(LABEL);
    for first in (0..results.len()).step_by(ABREAST) {
        let columns = first..results.len().min(first + ABREAST);
        let head = |i: usize| {
            let mark = if results[i].summary.verdict().is_valid() { "" } else { "not valid: " };
            format!("{:>CELL$}", format!("{mark}{}", i + 1))
        };
        let mut heads: String = columns.clone().map(head).collect();
        if results.len() == 2 {
            heads += &format!("{:>DIFFERENCE$}{:>OUTSIDE$}", DIFFERENCES[0], DIFFERENCES[1]);
        }
        out.blank();
        out.line(format!("  {:width$}{heads}", ""));
        for line in &lines {
            let all = line.cells();
            let mut cells: String =
                all[columns.clone()].iter().map(|cell| format!("{cell:>CELL$}")).collect();
            if let Some([difference, outside]) = line.differences() {
                cells += &format!("{difference:>DIFFERENCE$}{outside:>OUTSIDE$}");
            }
            out.line(format!("  {:width$}{cells}", label(line)));
        }
    }
    if results.len() == 2 {
        out.blank();
        OUTSIDE_MEANS.iter().for_each(|sentence| out.line(format!("  {sentence}")));
    }
    if lines.len() < all {
        out.line(format!("  -v shows {} more figures", all - lines.len()));
    }
    for result in results.iter().filter(|r| !r.summary.verdict().is_valid()) {
        out.blank();
        out.line(format!(
            "  {}: {}: {}",
            text::shortened(result.name, 40),
            verdict(result.summary),
            words::verdict(result.summary.verdict().verdict)
        ));
    }
    out.finish()
}
