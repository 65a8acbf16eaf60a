//! What the formats tell, against the figures of the summary.

use prony_core::summary::Summary;
use prony_core::units::Span;
use prony_report::{Format, Style, json, render};

use super::sample;

fn text(summary: &Summary) -> String {
    String::from_utf8(render(Format::Text, summary, &Style::default())).expect("text is UTF-8")
}

#[test]
fn the_text_report_fits_on_a_screen() {
    for summary in [sample::open(), sample::closed(), sample::everything(), empty()] {
        for colour in [false, true] {
            let told = render(Format::Text, &summary, &Style { colour });
            let told = without_colours(&String::from_utf8(told).expect("text is UTF-8"));
            assert_eq!(told, text(&summary), "a colour changes no letter");
        }
        let told = text(&summary);
        assert!(told.lines().count() <= 40, "{} lines:\n{told}", told.lines().count());
        for line in told.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

fn without_colours(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |all, piece| all + piece.split_once('m').map_or("", |(_, rest)| rest))
}

fn empty() -> Summary {
    let mut summary = sample::closed();
    summary.main = prony_core::record::Tally::default();
    summary.meters.clear();
    summary.plan.calls.clear();
    summary
}

/// What a network card has noted is told where one has, beside the parts and in no share.
#[test]
fn a_cards_times_are_told_where_there_are_any() {
    let mut summary = sample::exchange();
    let told = text(&summary);
    let card = told.lines().find(|l| l.trim_start().starts_with("by the card"));
    let card: Vec<&str> = card.expect("a row").split_whitespace().collect();
    assert_eq!((card[3], card.last()), ("-", Some(&"us")), "{card:?}");
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("39 with the network card's too"), "{told}");
    let phases = summary.main.phases.as_mut().expect("stamps");
    phases.by_card = prony_core::record::hist::Hist::new();
    assert!(!text(&summary).contains("card"), "{}", text(&summary));
}

/// A thread that did nothing but spin was busy for none of its time, and used a processor.
#[test]
fn busy_shares_and_processor_time_are_there_for_threads_that_only_spin() {
    let mut summary = sample::open();
    assert!(text(&summary).contains("busy"), "{}", text(&summary));
    for meter in &mut summary.meters {
        meter.spin = meter.cpu();
    }
    let told = text(&summary);
    assert!(told.contains("busy") && told.contains("CPU"), "{told}");
}

#[test]
fn limits_that_are_none_are_no_numbers() {
    let mut summary = sample::closed();
    (summary.plan.timeout, summary.plan.connect_timeout) = (Span::MAX, Span::MAX);
    let told = text(&summary);
    assert!(told.contains("no timeout, any time to connect"), "{told}");
}

#[test]
fn nothing_that_is_zero_is_told() {
    let mut summary = sample::closed();
    let line = |summary: &Summary, label: &str| {
        let told = text(summary);
        told.lines().find(|l| l.trim_start().starts_with(label)).unwrap_or_default().to_owned()
    };
    let mut meter = summary.meters[0].clone();
    (meter.cpu_user, meter.cpu_system) = (Span::from_millis(1), Span::ZERO);
    meter.wall = Span::from_millis(9);
    summary.meters = vec![meter];
    let told = text(&summary);
    assert!(told.contains(" user") && !told.contains(" system"), "{told}");
    // All replies in the drain, and none at all.
    summary.main.replies_in_drain = summary.main.replies;
    summary.main.bytes_in_drain = summary.main.bytes_received();
    assert!(line(&summary, "rate").contains("none answered before the drain"));
    assert!(line(&summary, "data").contains(" received, "), "{}", line(&summary, "data"));
    (summary.main.replies, summary.main.replies_in_drain) = (0, 0);
    assert!(line(&summary, "rate").contains("none answered"));
    let told = text(&empty());
    assert_eq!(line(&empty(), "requests").trim_start(), "requests    none", "{told}");
    assert!(!told.contains("0/s"), "{told}");
}

#[test]
fn an_empty_run_is_told_in_every_format() {
    let texts = [Format::Text, Format::Json, Format::Csv, Format::Hgrm, Format::Hlog];
    let all = texts.into_iter().chain([Format::Html, Format::Svg]);
    for format in all {
        let told = render(format, &empty(), &Style::default());
        let told = String::from_utf8(told).expect("all formats are UTF-8");
        assert!(told.ends_with('\n'), "{format:?}");
        assert!(!told.contains("NaN") && !told.contains("inf"), "{format:?}: {told}");
    }
}

#[test]
fn equal_response_and_service_are_not_told_twice() {
    let told = text(&sample::closed());
    assert!(told.contains("the same as response"), "{told}");
    assert!(!text(&sample::open()).contains("the same as response"));
}

#[test]
fn zeros_are_not_told() {
    let told = text(&sample::closed());
    for word in ["failed", "unfinished", "errors", "sent again", "warm-up", "send lag", "queue"] {
        assert!(!told.contains(word), "{word} in\n{told}");
    }
}

#[test]
fn withheld_quantiles_are_dashes_with_the_count_that_they_need() {
    let told = text(&sample::closed());
    let response = told.lines().find(|l| l.starts_with("  response")).expect("it is told");
    assert_eq!(response.matches(" -").count(), 7, "{response}");
    assert!(
        told.contains("p50 needs 20, p75 40, p90 100, p95 200, p99 1k, p99.9 10k, p99.99 100k"),
        "{told}"
    );
}

#[test]
fn a_saved_report_is_the_summary_but_for_its_secrets() {
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
fn what_is_no_report_is_refused_with_a_reason() {
    let refused = |text: &str| json::read(text).expect_err(text).to_string();
    assert!(refused("no json").starts_with("this is not a JSON report of prony: line 1, column 2"));
    assert!(refused("{}").contains("missing field `schema`"));
    assert!(refused("{\"schema\":1}").contains("missing field `run`"));
    assert!(refused("{\"schema\":2}").contains("reads schema 1: use a newer one"));
}

#[test]
fn the_brief_figures_stand_at_the_top_in_microseconds() {
    let summary = sample::open();
    let told = render(Format::Json, &summary, &Style::default());
    let told: serde_json::Value = serde_json::from_slice(&told).expect("it is JSON");
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
        assert_eq!(told[key], value, "{key}");
        assert_eq!(told["brief"][key], value, "brief.{key}");
    }
}

#[test]
fn rows_add_up_to_the_whole() {
    let summary = sample::open();
    let told = render(Format::Csv, &summary, &Style::default());
    let told = String::from_utf8(told).expect("CSV is UTF-8");
    let mut lines = told.lines();
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
