//! A plan with phases: the report of each, then an overview.

use std::fmt::Write as _;

use super::page::{Ink, Page, shortened};
use crate::Style;
use crate::phased::{COLUMNS, Outcome, Phased, Start};

/// The width of a name in the overview.
const NAME: usize = 20;
/// The widths of its columns.
const WIDTHS: [usize; 6] = [16, 16, 10, 10, 9, 13];

/// The text report.
pub(crate) fn render_phases(all: &Phased, style: Style) -> String {
    let count = all.phases.len();
    let mut out = String::new();
    for (number, phase) in (1..).zip(&all.phases) {
        let Outcome::Ran(summary) = &phase.outcome else { continue };
        let beside = match phase.start {
            Start::With => ", side by side with the one before",
            Start::After => "",
        };
        let mut head = Page::new(style);
        head.title(&format!("phase {number} of {count}: {}{beside}", phase.name));
        let _ = writeln!(out, "{}\n{}", head.finish(), super::render(summary, style));
    }
    out + &overview(all, style)
}

fn overview(all: &Phased, style: Style) -> String {
    let mut page = Page::new(style);
    page.title(&format!("prony  {}", all.title()));
    let cells = |cells: &[String]| {
        let cells = cells.iter().zip(WIDTHS);
        cells.map(|(cell, width)| format!("{cell:>width$}")).collect::<String>()
    };
    page.wide_row("", NAME, &cells(&COLUMNS.map(str::to_owned)), Ink::Faint);
    for ((name, row), phase) in all.rows().zip(&all.phases) {
        let is_good = phase.outcome.summary().is_some_and(|s| s.has_what_was_asked(&s.verdict()));
        let ink = if is_good { Ink::Plain } else { Ink::Bad };
        page.wide_row(&shortened(name, NAME), NAME, &cells(&row), ink);
    }
    for (i, sentence) in all.sentences().enumerate() {
        page.inked(if i == 0 { "phases" } else { "" }, &sentence, Ink::Warning);
    }
    page.finish()
}
