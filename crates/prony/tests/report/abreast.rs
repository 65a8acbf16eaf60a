//! Several runs side by side have every figure that a single one has.

use prony_base::fault::Fault;
use prony_report::{Detail, Format, Saved, Style, render_all, units};
use prony_stats::summary::Summary;
use serde_json::Value;

use super::pictures::{all_between, without_links};
use super::{sample, streams};

fn both(format: Format, summary: &Summary, style: &Style) -> String {
    let results = [Saved { name: "a", summary }, Saved { name: "b,\"c\"", summary }];
    String::from_utf8(render_all(format, &results, style).expect("it compares")).expect("text")
}

fn samples() -> [Summary; 5] {
    let (open, closed) = (sample::open(), sample::closed());
    [open, closed, sample::everything(), sample::sessions(), streams::model()]
}

#[test]
fn each_time_of_a_single_page_is_beside_the_other() {
    let style = Style::default();
    for summary in samples() {
        let one = render_all(Format::Html, &[Saved { name: "", summary: &summary }], &style);
        let one = without_links(&String::from_utf8(one.expect("a page")).expect("text"));
        let table = all_between(&one, "aria-label=\"all kinds of times\"", "</table>")[0];
        let heads = all_between(table, "<th scope=\"col\">", "</th>");
        let csv = both(Format::Csv, &summary, &style);
        let mut compared = 0;
        for row in all_between(table, "<th scope=\"row\">", "</tr>") {
            let kind = row.split('<').next().expect("a name");
            let cells = all_between(row, "<td>", "</td>");
            for (head, cell) in heads.iter().skip(1).zip(cells) {
                let value = all_between(cell, "value=\"", "\"");
                if ["count", "stdev", "min"].contains(head) || value.is_empty() {
                    continue;
                }
                for run in ["a", "\"b,\"\"c\"\"\""] {
                    let begin = format!("{run},{kind} {head},ns,");
                    let line = csv.lines().find(|line| line.starts_with(&begin));
                    let line = line.unwrap_or_else(|| panic!("{begin} in {csv}"));
                    let shown = line[begin.len()..].split(',').next().expect("a value");
                    let [shown, value] = [shown, value[0]].map(|n| n.parse::<f64>().expect(n));
                    assert!((shown - value).abs() <= value * 1e-9, "{line} {value}");
                    compared += 1;
                }
            }
        }
        assert!(compared >= 20, "{compared}");
    }
}

#[test]
fn models_checks_and_errors_are_beside_the_others() {
    let model = streams::model();
    let json: Value =
        serde_json::from_str(&both(Format::Json, &model, &Style::default())).expect("JSON");
    assert_eq!((&json["kind"], &json["schema"]), (&"runs".into(), &1.into()));
    assert_eq!(json["runs"][1]["name"], "b,\"c\"");
    let figures = json["figures"].as_array().expect("figures");
    let of = |name: &str| figures.iter().find(|row| row["figure"] == name).expect(name);
    let rate = model.main.token_rate().expect("a rate");
    assert_eq!(of("token rate")["values"][1]["value"], rate);
    assert_eq!(of("goodput")["values"][0]["value"], model.main.goodput().expect("a goodput"));
    assert_eq!(of("verdict")["values"][0], "TOO-SHORT");
    assert!(of("TTFT p50")["values"][0]["value"].is_f64());
    let text = both(Format::Text, &model, &Style { detail: Detail::Answer, ..Style::default() });
    assert!(text.contains("TTFT p50") && text.contains("goodput"), "{text}");
    assert!(!text.contains("TTFT p75") && text.contains("-v shows"), "{text}");
    assert!(text.lines().count() <= 50, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(both(Format::Text, &model, &Style::default()).contains("TTFT p75"));
    let everything = sample::everything();
    let table = both(Format::Markdown, &everything, &Style::default());
    assert!(table.contains("| request-timeout | "), "{table}");
    assert!(table.lines().skip(4).all(|line| line.matches(" | ").count() >= 3), "{table}");
    for fault in Fault::ALL {
        let n = everything.main.faults[fault as usize] + everything.main.stray[fault as usize];
        let (name, n) = (prony_report::words::name(fault), units::count(n));
        assert!(table.contains(&format!("| {name} | {n} | {n} | 0 | - |")), "{name} in {table}");
    }
}
