//! Compares the contents of the formats with the figures of the summary.

use prony_base::units::Span;
use prony_plan::plan::Load;
use prony_plan::target::Endpoint;
use prony_report::{Detail, Format, Style, json, render};
use prony_stats::summary::Summary;
use prony_tally::record::Tally;

use super::{sample, streams};

fn text(summary: &Summary) -> String {
    String::from_utf8(render(Format::Text, summary, &Style::default())).expect("text is UTF-8")
}

/// The report without `-v`.
fn answer(summary: &Summary) -> String {
    let style = Style { detail: Detail::Answer, ..Style::default() };
    String::from_utf8(render(Format::Text, summary, &style)).expect("text is UTF-8")
}

#[test]
fn colors_change_no_letter_and_lines_fit_a_terminal() {
    for summary in [sample::open(), sample::closed(), sample::everything(), empty()] {
        for detail in [Detail::Answer, Detail::Whole, Detail::Notes] {
            let rendered = |color| {
                let style = Style { color, detail, ..Style::default() };
                String::from_utf8(render(Format::Text, &summary, &style)).expect("text")
            };
            let report = rendered(false);
            assert_eq!(without_colors(&rendered(true)), report);
            let wide = report.lines().find(|line| line.chars().count() > 100);
            assert_eq!(wide, None, "{report}");
        }
    }
}

/// The verdict and the main figures are at the top of a dozen lines.
#[test]
fn the_report_answers_first() {
    let mut usual = sample::open();
    usual.main.failed = 0;
    usual.main.faults = Tally::default().faults;
    usual.main.statuses.remove(&503);
    let mut model = streams::model();
    let tokens = model.plan.stream.as_deref_mut().and_then(|stream| stream.tokens.as_mut());
    tokens.expect("a model").slo.clear();
    for summary in [usual, sample::closed(), model, empty()] {
        let report = answer(&summary);
        assert!(report.lines().count() <= 12, "{report}");
        let verdict = report.lines().nth(1).unwrap_or_default();
        assert!(verdict.starts_with("  verdict     "), "{report}");
    }
    let report = answer(&sample::open());
    let place = |text: &str| report.find(text).unwrap_or_else(|| panic!("{text}:\n{report}"));
    let order = ["verdict", "requests", "rate", " p99 ", "5.54 ms +- 1.41 %", "errors", "load"];
    let order = order.map(place);
    assert!(order.is_sorted(), "{report}");
}

/// Whatever was too slow in the meter, it is one line, and says what the figures are worth.
#[test]
fn a_busy_machine_is_one_line_with_the_range_of_the_figures() {
    let summary = sample::limited();
    let report = answer(&summary);
    let line = report.lines().find(|line| line.contains("CLIENT-LIMITED")).expect("a verdict");
    let [cause, range] =
        ["server and prony share 2 busy cores", "; p99 is between 5.34 and 5.54 ms"];
    assert!(line.contains(cause) && line.contains(range), "{report}");
    assert!(summary.verdict().reasons.len() > 1, "the whole report has several reasons");
    assert_eq!(report.matches("use another machine").count(), 1, "{report}");
}

#[test]
fn the_whole_report_omits_nothing() {
    let report = text(&sample::everything());
    for omission in [" more reason", " more note", " other kinds", " others: ", " more stage"] {
        assert!(!report.contains(omission), "{omission}:\n{report}");
    }
    let whole = Style { detail: Detail::Whole, ..Style::default() };
    let whole = render(Format::Text, &sample::everything(), &whole);
    let whole = String::from_utf8(whole).expect("text");
    assert!(
        whole.contains("(-vv says how many are needed)") && !whole.contains("p99.99: 100k"),
        "{whole}"
    );
    assert!(report.contains("p99.99: 100k") && !report.contains("-vv"), "{report}");
}

fn without_colors(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |all, piece| all + piece.split_once('m').map_or("", |(_, rest)| rest))
}

fn empty() -> Summary {
    let mut summary = sample::closed();
    summary.main = Tally::default();
    summary.workers.clear();
    summary.plan.calls.clear();
    summary
}

/// Times of the network card have their own row, without a share.
#[test]
fn card_times_have_a_row_where_the_card_noted_any() {
    let mut summary = sample::exchange();
    let report = text(&summary);
    let card = report.lines().find(|l| l.trim_start().starts_with("by the card"));
    let card: Vec<&str> = card.expect("a row").split_whitespace().collect();
    assert_eq!((card[3], card.last()), ("-", Some(&"us")), "{card:?}");
    let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report.contains("39 with the network card's too"), "{report}");
    let phases = summary.main.phases.as_mut().expect("stamps");
    phases.by_card = prony_tally::record::hist::Hist::new();
    assert!(!text(&summary).contains("card"), "{}", text(&summary));
}

/// A thread that only spun was never busy, but used a processor.
#[test]
fn spinning_threads_have_busy_share_and_cpu_time() {
    let mut summary = sample::open();
    assert!(text(&summary).contains("busy"), "{}", text(&summary));
    for meter in &mut summary.workers {
        meter.spin = meter.cpu();
    }
    let report = text(&summary);
    assert!(report.contains("busy") && report.contains("CPU"), "{report}");
}

#[test]
fn disabled_timeouts_are_named_rather_than_shown_as_numbers() {
    let mut summary = sample::closed();
    (summary.plan.timeout, summary.plan.connect_timeout) = (Span::MAX, Span::MAX);
    let report = text(&summary);
    assert!(report.contains("no timeout, no connect timeout"), "{report}");
}

#[test]
fn zero_amounts_have_no_line() {
    let mut summary = sample::closed();
    let line = |summary: &Summary, label: &str| {
        let report = text(summary);
        report.lines().find(|l| l.trim_start().starts_with(label)).unwrap_or_default().to_owned()
    };
    let mut meter = summary.workers[0].clone();
    (meter.cpu_user, meter.cpu_system) = (Span::from_millis(1), Span::ZERO);
    meter.wall = Span::from_millis(9);
    summary.workers = vec![meter];
    let report = text(&summary);
    assert!(report.contains(" user") && !report.contains(" system"), "{report}");
    // All replies in the drain, and no replies.
    summary.main.replies_in_drain = summary.main.replies;
    summary.main.bytes_in_drain = summary.main.bytes_received();
    assert!(line(&summary, "rate").contains("none completed before the drain"));
    assert!(line(&summary, "data").contains(" received, "), "{}", line(&summary, "data"));
    (summary.main.replies, summary.main.replies_in_drain) = (0, 0);
    assert!(line(&summary, "rate").contains("none completed"));
    let report = text(&empty());
    assert_eq!(line(&empty(), "requests").trim_start(), "requests    none", "{report}");
    assert!(!report.contains("0/s"), "{report}");
}

#[test]
fn every_format_renders_an_empty_run() {
    let texts = [Format::Text, Format::Json, Format::Csv, Format::Hgrm, Format::Hlog];
    let all = texts.into_iter().chain([Format::Html, Format::Svg]);
    for format in all {
        let report = render(format, &empty(), &Style::default());
        let report = String::from_utf8(report).expect("all formats are UTF-8");
        assert!(report.ends_with('\n'), "{format:?}");
        assert!(!report.contains("NaN") && !report.contains("inf"), "{format:?}: {report}");
    }
}

#[test]
fn service_equal_to_response_has_no_row() {
    let report = text(&sample::closed());
    assert!(report.contains("same as response"), "{report}");
    assert!(!text(&sample::open()).contains("same as response"));
}

#[test]
fn report_without_failures_names_none() {
    let report = text(&sample::closed());
    for word in ["failed", "unfinished", "errors", "retried", "warm-up", "send lag", "queue"] {
        assert!(!report.contains(word), "{word} in\n{report}");
    }
}

#[test]
fn percentiles_without_enough_samples_are_dashes_with_a_footnote() {
    let report = text(&sample::closed());
    let response = report.lines().find(|l| l.starts_with("  response")).expect("a row");
    assert_eq!(response.matches(" -").count(), 7, "{response}");
    let words = report.split_whitespace().collect::<Vec<_>>().join(" ");
    let needs = "(p50: 20, p75: 40, p90: 100, p95: 200, p99: 1k, p99.9: 10k, p99.99: 100k)";
    assert!(words.contains(needs), "{report}");
}

/// A note lists only percentiles that a row lacks, and names the rows if they differ.
#[test]
fn footnote_names_rows_and_the_lowest_percentile_that_they_lack() {
    let words = text(&sample::open()).split_whitespace().collect::<Vec<_>>().join(" ");
    let note = words.split("fewer samples than that percentile needs ").nth(1).expect("a note");
    assert!(note.starts_with("(response, service,"), "{note}");
    assert!(note.contains("from p99.9: 10k; queue from p99: 1k; connect, failed from p50: 20)"));
}

/// A ramp has no constant rate, so its mean has no interval.
#[test]
fn ramp_shows_no_interval_of_the_rate() {
    let mut summary = sample::open();
    let rate = |summary: &Summary| {
        let report = text(summary);
        report.lines().find(|l| l.starts_with("  rate")).expect("a rate").to_owned()
    };
    assert!(rate(&summary).contains("+- "), "{}", rate(&summary));
    let Load::Open { rate: plan, .. } = &mut summary.plan.load else { panic!("an open loop") };
    plan.pieces[0].from /= 2.0;
    assert!(!rate(&summary).contains("+- "), "{}", rate(&summary));
    let report = render(Format::Json, &summary, &Style::default());
    let report: serde_json::Value = serde_json::from_slice(&report).expect("it is JSON");
    let whole = &report["measurement"]["ci95"]["rate"];
    assert_eq!(whole["no_interval"], "rate-changes", "{whole}");
    let stages = report["measurement"]["stages"].as_array().expect("stages");
    assert_eq!(stages.len(), 8);
    let figures =
        |key: &str| stages.iter().filter_map(|s| s["measured"][key].as_u64()).sum::<u64>();
    assert_eq!(figures("started"), summary.main.started);
}

/// A histogram does not replace lines of the report.
#[test]
fn histogram_is_added_to_the_text_report() {
    for summary in [sample::open(), sample::everything()] {
        let style = Style { histogram: true, ..Style::default() };
        let with = String::from_utf8(render(Format::Text, &summary, &style)).expect("UTF-8");
        let without = text(&summary);
        let rest: Vec<&str> = without.lines().collect();
        let added: Vec<&str> = with.lines().filter(|line| !rest.contains(line)).collect();
        assert!(added[0].starts_with("  histogram"), "{with}");
        let counts = added[1..].iter().map(|line| {
            let count = line.split_whitespace().nth(2).expect("a count");
            count.replace(',', "").parse::<u64>().expect("a count")
        });
        assert_eq!(counts.sum::<u64>(), summary.main.times.response.count(), "{with}");
        assert!(rest.iter().all(|line| with.contains(line)), "{with}");
    }
}

/// Certificates count as verified only if a handshake completed.
#[test]
fn tls_line_says_failed_where_no_handshake_completed() {
    let mut summary = sample::closed();
    let over = Box::new(summary.plan.endpoints[0].clone());
    summary.plan.endpoints[0] = Endpoint::Tls { name: "a.example".into(), over };
    let report = text(&summary);
    assert!(report.contains("TLS         checked against a.example,"), "{report}");
    (summary.main.sent, summary.main.tls) = (0, None);
    let report = text(&summary);
    assert!(
        report.contains("TLS         failed: no handshake with a.example completed,"),
        "{report}"
    );
    assert!(!report.contains("checked"), "{report}");
}

#[test]
fn saved_report_round_trips_without_secrets() {
    for mut summary in [sample::open(), sample::closed(), sample::everything()] {
        let saved = render(Format::Json, &summary, &Style::default());
        let saved = String::from_utf8(saved).expect("JSON is UTF-8");
        assert!(!saved.contains("secret") && !saved.contains("bWU6"), "credentials are saved");
        let back = json::read(&saved).expect("what was written can be read");
        summary.run.plan_size = Some(summary.plan.size());
        summary.plan = summary.plan.hidden();
        let command = back.run.command.words();
        assert!(command.is_empty() || command[3..5] == ["-u", "(hidden)"], "{command:?}");
        summary.run.command.clone_from(&back.run.command);
        assert!(back == summary);
        assert_eq!(text(&back), text(&summary));
    }
}

#[test]
fn rejects_files_that_are_no_report_with_a_reason() {
    let refused = |text: &str| json::read(text).expect_err(text).to_string();
    assert!(refused("no json").starts_with("this is not a JSON report of prony: line 1, column 2"));
    assert!(refused("{}").contains("`schema` is missing"));
    assert!(refused("{\"schema\":1}").contains("`run` is missing"));
    let of_run = refused("{\"schema\":1,\"run\":5}");
    assert!(of_run.contains("integer `5` has the wrong type (line 1, column "), "{of_run}");
    assert!(!of_run.contains("expected"), "{of_run}");
    assert!(refused("{\"schema\":2}").contains("reads schema 1: use a newer one"));
}

#[test]
fn brief_figures_are_at_the_top_in_microseconds() {
    let summary = sample::open();
    let report = render(Format::Json, &summary, &Style::default());
    let report: serde_json::Value = serde_json::from_slice(&report).expect("it is JSON");
    let response = &summary.main.times.response;
    let us = |t: Option<Span>| t.map(|t| t.0 as f64 / 1e3).into();
    let expected: [(&str, serde_json::Value); 8] = [
        ("rps", summary.main.rate().into()),
        ("requests", (summary.main.replies + summary.main.failed).into()),
        ("errors", summary.main.failed.into()),
        ("p50", us(response.quantile(0.5))),
        ("p90", us(response.quantile(0.9))),
        ("p99", us(response.quantile(0.99))),
        ("p999", us(response.quantile(0.999))),
        ("max", us(response.max())),
    ];
    for (key, value) in expected {
        assert_eq!(report[key], value, "{key}");
        assert_eq!(report["brief"][key], value, "brief.{key}");
    }
}

#[test]
fn rows_add_up_to_the_whole() {
    let summary = sample::open();
    let report = render(Format::Csv, &summary, &Style::default());
    let report = String::from_utf8(report).expect("CSV is UTF-8");
    let mut lines = report.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|l| l.split(',').collect()).collect();
    assert!(rows.iter().all(|r| r.len() == header.len()));
    let sum = |name: &str| -> u64 {
        let column = header.iter().position(|h| *h == name).expect(name);
        rows.iter().map(|r| r[column].parse::<u64>().expect(name)).sum()
    };
    assert_eq!(sum("started"), summary.main.started);
    assert_eq!(sum("replies"), summary.main.replies);
    assert_eq!(sum("failed"), summary.main.failed);
    assert_eq!(sum("bytes"), summary.main.replies * (160 + 1_024));
    let longest = rows.iter().filter_map(|r| r[8].parse::<f64>().ok()).fold(0.0, f64::max);
    let max = summary.main.times.response.max().expect("there are replies").0 as f64 / 1e3;
    assert!((longest - max).abs() < 0.001, "{longest} {max}");
}

#[test]
fn the_text_report_fits_a_narrow_screen() {
    for summary in [sample::open(), sample::closed()] {
        for width in [60, 80, 100] {
            let style = Style { width, ..Style::default() };
            let report = render(Format::Text, &summary, &style);
            let report = String::from_utf8(report).expect("UTF-8");
            // The narrowest screens have no room for the table.
            let room = width.max(78);
            let wide: Vec<&str> = report.lines().filter(|l| l.chars().count() > room).collect();
            assert!(wide.is_empty(), "{width}: {wide:#?}");
            assert_eq!(report.contains(" p75 "), width == 100, "{report}");
            assert!(report.contains(" p99 "), "{report}");
            // It has the same lines with intervals.
            let intervals = |report: &str| report.matches("95 % +-").count();
            assert_eq!(intervals(&report), intervals(&text(&summary)), "{report}");
        }
    }
}

#[test]
fn documentation_lists_the_columns_of_the_csv() {
    let csv = render(Format::Csv, &sample::closed(), &Style::default());
    let header = String::from_utf8(csv).expect("CSV is UTF-8");
    let header = header.lines().next().expect("a header");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    assert!(std::fs::read_to_string(path).expect("the page").contains(header));
}
