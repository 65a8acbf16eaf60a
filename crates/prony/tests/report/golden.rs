//! Compares each format with its golden file. `UPDATE_GOLDEN=1 cargo test` updates the files; read
//! the difference before you commit it.

use std::path::PathBuf;

use prony_report::{Detail, Format, Style, render};
use prony_run::merge;
use prony_stats::summary::Summary;

use super::{sample, streams};

fn check(name: &str, format: Format, summary: &Summary) {
    check_in(name, format, summary, Style::default());
}

fn check_in(name: &str, format: Format, summary: &Summary, style: Style) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let reported = render(format, summary, &style);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &reported).expect("the golden file can be written");
    }
    let golden = std::fs::read(&path).unwrap_or_default();
    let (reported, golden) = (String::from_utf8_lossy(&reported), String::from_utf8_lossy(&golden));
    for (i, (a, b)) in reported.lines().zip(golden.lines()).enumerate() {
        assert_eq!(a, b, "{name}, line {}", i + 1);
    }
    assert!(reported == golden, "{name} has {} bytes, not {}", golden.len(), reported.len());
}

#[test]
fn text() {
    check("open.txt", Format::Text, &sample::open());
    check("closed.txt", Format::Text, &sample::closed());
    check("everything.txt", Format::Text, &sample::everything());
    check("sessions.txt", Format::Text, &sample::sessions());
    check("model.txt", Format::Text, &streams::model());
}

/// What is printed without options, and with `-v`.
#[test]
fn the_answer_and_the_whole() {
    let all = [
        ("open", sample::open()),
        ("closed", sample::closed()),
        ("everything", sample::everything()),
        ("sessions", sample::sessions()),
        ("model", streams::model()),
        ("exchange", sample::exchange()),
        ("limited", sample::limited()),
    ];
    for (name, summary) in all {
        let style = |detail| Style { detail, ..Style::default() };
        let answer = format!("{name}-answer.txt");
        check_in(&answer, Format::Text, &summary, style(Detail::Answer));
    }
    let whole = Style { detail: Detail::Whole, ..Style::default() };
    check_in("open-whole.txt", Format::Text, &sample::open(), whole);
}

/// Each host's own meter is in the table of hosts, in all formats that have one.
#[test]
fn merged() {
    let whole = merge::merge(sample::shares(), false).expect("they are of one run");
    let whole = sample::audited(whole);
    check("merged.txt", Format::Text, &whole);
    let html = String::from_utf8(render(Format::Html, &whole, &Style::default())).expect("text");
    let json = render(Format::Json, &whole, &Style::default());
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let text = String::from_utf8(render(Format::Text, &whole, &Style::default())).expect("text");
    let hosts = json["run"]["hosts"]["hosts"].as_array().expect("hosts");
    assert_eq!(hosts.len(), 2);
    for (host, [stolen, start]) in
        hosts.iter().zip([["10.0 ms", "+40.0 us"], ["20.0 ms", "+310 us"]])
    {
        let name = host["name"].as_str().expect("a name");
        let row = text.lines().find(|line| line.trim().starts_with(name)).expect(name);
        for cell in [stolen, start] {
            assert!(row.contains(cell), "{cell}: {row}");
            assert!(html.contains(&format!("<td>{cell}</td>")), "{cell}: {html}");
        }
        let lag = host["send_lag_p99"].as_u64().expect("it was measured");
        assert!(lag > 0 && row.contains(" us"), "{lag}: {row}");
    }
}

#[test]
fn json() {
    check("open.json", Format::Json, &sample::open());
}

#[test]
fn csv() {
    check("open.csv", Format::Csv, &sample::open());
}

#[test]
fn html() {
    check("open.html", Format::Html, &sample::open());
    check("model.html", Format::Html, &streams::model());
}

#[test]
fn svg() {
    check("open.svg", Format::Svg, &sample::open());
}

#[test]
fn hgrm() {
    check("open.hgrm", Format::Hgrm, &sample::open());
}

#[test]
fn hlog() {
    check("open.hlog", Format::Hlog, &sample::open());
}

#[test]
fn thresholds() {
    check("thresholds.txt", Format::Text, &sample::promised());
    let answer = Style { detail: Detail::Answer, ..Style::default() };
    check_in("thresholds-answer.txt", Format::Text, &sample::promised(), answer);
    check("thresholds.md", Format::Markdown, &sample::promised());
    check("thresholds.xml", Format::Junit, &sample::promised());
    let json = render(Format::Json, &sample::promised(), &Style::default());
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let outcomes = json["thresholds"].as_array().expect("a list");
    let outcomes: Vec<&str> = outcomes.iter().filter_map(|t| t["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["met", "missed", "undecided", "met", "met"]);
    let html = String::from_utf8(render(Format::Html, &sample::promised(), &Style::default()));
    let html = html.expect("text");
    assert!(html.contains("<h2>Thresholds</h2>") && html.contains("<th>p99 &lt; 1us</th>"));
}
