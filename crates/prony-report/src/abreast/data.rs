//! Several results for programs, and as a table for a pull request.

use std::fmt::Write as _;

use prony_base::plain;
use serde::Serialize;

use super::super::{Saved, layout, markdown as md, text};
use super::{DIFFERENCES, Figure, Line, What, is_outside, lines, verdict};

/// The schema version of the JSON report.
const SCHEMA: u32 = 1;
/// The header line of the CSV report. `docs/json.md` documents it.
const HEADER: &str = "run,figure,unit,value,lo,hi";

/// The JSON report.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    kind: &'static str,
    runs: Vec<Run<'a>>,
    figures: Vec<Row>,
}

#[derive(Serialize)]
struct Run<'a> {
    name: &'a str,
    label: Option<&'a str>,
    target: String,
    verdict: &'static str,
    started_unix: Option<f64>,
}

impl<'a> Run<'a> {
    fn of(result: &Saved<'a>) -> Self {
        let summary = result.summary;
        Self {
            name: result.name,
            label: summary.run.label.as_deref(),
            target: text::target(summary),
            verdict: verdict(summary),
            started_unix: summary.run.started_unix,
        }
    }
}

#[derive(Serialize)]
struct Row {
    figure: String,
    unit: &'static str,
    /// One for each run.
    values: Vec<Option<Cell>>,
    /// Of two runs: whether each figure lies outside the interval of the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    outside_both: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Cell {
    Word(&'static str),
    Number { value: f64, lo: Option<f64>, hi: Option<f64> },
}

impl From<Figure> for Cell {
    fn from(Figure { value, interval }: Figure) -> Self {
        Self::Number { value, lo: interval.map(|i| i.lo), hi: interval.map(|i| i.hi) }
    }
}

impl From<Line> for Row {
    fn from(Line { label, what, .. }: Line) -> Self {
        let (unit, values, outside_both) = match what {
            What::Words(words) => {
                ("word", words.into_iter().map(|word| word.map(Cell::Word)).collect(), None)
            }
            What::Figures(unit, figures) => {
                let outside = match figures.as_slice() {
                    [a, b] => is_outside(*a, *b),
                    _ => None,
                };
                let values = figures.into_iter().map(|figure| figure.map(Cell::from)).collect();
                (unit.word(), values, outside)
            }
        };
        Self { figure: label, unit, values, outside_both }
    }
}

pub(in super::super) fn json(results: &[Saved<'_>]) -> String {
    let document = Document {
        schema: SCHEMA,
        kind: "runs",
        runs: results.iter().map(Run::of).collect(),
        figures: lines(results).into_iter().map(Row::from).collect(),
    };
    layout::json(&document)
}

/// One line for each figure of each run.
pub(in super::super) fn csv(results: &[Saved<'_>]) -> String {
    let rows: Vec<Row> = lines(results).into_iter().map(Row::from).collect();
    let mut out = format!("{HEADER}\n");
    for (i, result) in results.iter().enumerate() {
        for row in &rows {
            let (value, lo, hi) = match &row.values[i] {
                None => continue,
                Some(Cell::Word(word)) => ((*word).to_owned(), None, None),
                Some(Cell::Number { value, lo, hi }) => (value.to_string(), *lo, *hi),
            };
            let end = |end: Option<f64>| end.map(|end| end.to_string()).unwrap_or_default();
            let (name, figure) = (field(result.name), field(&row.figure));
            let _ = writeln!(out, "{name},{figure},{},{value},{},{}", row.unit, end(lo), end(hi));
        }
    }
    out
}

/// A field of CSV (RFC 4180).
fn field(text: &str) -> String {
    let text = plain::line(text);
    if text.contains([',', '"']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into_owned()
    }
}

pub(in super::super) fn markdown(results: &[Saved<'_>]) -> String {
    let names = results.iter().map(|r| md::escaped(r.name));
    let two = results.len() == 2;
    let differences = DIFFERENCES.iter().filter(|_| two).map(|name| (*name).to_owned());
    let heads: Vec<String> = names.chain(differences).collect();
    let mut out =
        format!("### {} runs\n\n| figure | {} |\n|---|", results.len(), heads.join(" | "));
    out.push_str(&"---:|".repeat(heads.len()));
    out.push('\n');
    for line in lines(results).iter().filter(|line| !line.is_detail) {
        let differences = line.differences().into_iter().flatten();
        let cells: Vec<String> = line.cells().into_iter().chain(differences).collect();
        let _ = writeln!(out, "| {} | {} |", md::escaped(&line.label), cells.join(" | "));
    }
    out
}
