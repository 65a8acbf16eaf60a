use prony_base::units::Nanos;
use prony_plan::plan::{CallSpec, Load, Plan, Stop, Think};
use prony_plan::target::Endpoint;
use prony_stats::summary::RunInfo;
use prony_tally::record::Tally;

use super::*;
use crate::{Style, json};

fn run(ms: u64, threshold: &str) -> Outcome {
    let endpoint = Endpoint::Tcp { host: "h".into(), port: 80 };
    let load = Load::Closed { connections: 1, think: Think::None };
    let mut plan = Plan::new(vec![endpoint], vec![CallSpec::default()], load, Stop::default());
    plan.thresholds = vec![threshold.parse().expect("a threshold")];
    let mut main = Tally { end: Nanos::ZERO + Span::from_secs(4), ..Tally::default() };
    main.times.response.record_n(Span::from_millis(ms), 1_000);
    main.times.service.record_n(Span::from_millis(ms), 1_000);
    (main.started, main.sent, main.replies) = (1_000, 1_000, 1_000);
    let run = RunInfo::default();
    Outcome::Ran(Box::new(Summary { plan, run, warmup: None, main, workers: Vec::new() }))
}

fn phased() -> Phased {
    let phase = |name: &str, start, outcome| Phase {
        name: name.into(),
        start,
        delay: Span::from_secs(1),
        outcome,
    };
    Phased {
        version: "1".into(),
        command: vec!["prony".into(), "run".into(), "p.toml".into()],
        seed: 7,
        interrupted: true,
        phases: vec![
            phase("ramp|up", Start::After, run(2, "requests = 1000")),
            phase("spike", Start::With, run(3, "requests > 1000")),
            phase("<rest>", Start::After, Outcome::NotStarted("the user stopped".into())),
        ],
    }
}

fn rendered(format: Format) -> String {
    let bytes = phased().render(format, &Style::default()).expect("a format of phases");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn the_text_has_a_section_for_each_phase_and_an_overview() {
    let text = rendered(Format::Text);
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what} in {text}"));
    assert!(at("phase 1 of 3: ramp|up\n") < at("phase 2 of 3: spike, side by side with"));
    assert!(at("phase 2 of 3") < at("prony  3 phases"), "{text}");
    assert!(!text.contains("phase 3 of 3"), "{text}");
    let row = |name: &str| {
        let line = text.lines().rev().find(|line| line.trim_start().starts_with(name));
        line.expect("a row").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("<rest>"), "<rest> not started - - - - -");
    assert!(row("ramp|up").ends_with("250/s 2.00 ms 2.00 ms 0 1 met"), "{}", row("ramp|up"));
    assert!(row("spike").ends_with("250/s 3.00 ms 3.00 ms 0 1 missed"), "{}", row("spike"));
    assert!(text.ends_with("  Phase '<rest>' was not started: the user stopped.\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn a_saved_report_is_read_back_as_it_was() {
    let json = rendered(Format::Json);
    let again = json::phased::read(&json).expect("a saved report");
    for format in [Format::Text, Format::Html, Format::Markdown, Format::Junit] {
        let bytes = again.render(format, &Style::default()).expect("a format of phases");
        assert_eq!(String::from_utf8(bytes).expect("text"), rendered(format), "{format:?}");
    }
    assert_eq!(again.phases[1].start, Start::With);
    assert_eq!(again.phases[1].delay, Span::from_secs(1));
    // It is not the report of one run.
    let why = json::read(&json).expect_err("phases").to_string();
    assert!(why.starts_with("this is the report of a plan with phases"), "{why}");
    let newer = json.replacen("{\"schema\":1,", "{\"schema\":2,", 1);
    assert!(matches!(json::phased::read(&newer), Err(json::ReadError::Schema(2))));
}

#[test]
fn build_servers_get_a_suite_for_each_phase() {
    let xml = rendered(Format::Junit);
    assert!(xml.contains("<testsuites name=\"prony\" tests=\"5\" failures="), "{xml}");
    assert!(xml.contains("<testsuite name=\"spike: http://\" tests=\"2\""), "{xml}");
    assert!(xml.contains("<skipped message=\"the user stopped\"/>"), "{xml}");
    assert!(xml.contains("name=\"&lt;rest&gt;\""), "{xml}");
    assert!(xml.contains("<failure type=\"missed\""), "{xml}");
    let annotations = phased().annotations();
    let line = annotations.lines().find(|line| line.contains("prony spike%3A http%3A//"));
    assert!(line.is_some_and(|line| line.starts_with("::error ")), "{annotations}");
}

#[test]
fn pages_escape_names_and_have_distinct_ids() {
    let page = rendered(Format::Html);
    assert!(page.contains("&lt;rest&gt;") && !page.contains("<rest>"), "{page}");
    assert!(page.contains("Phase '&lt;rest&gt;' was not started: the user stopped."), "{page}");
    let mut ids: Vec<&str> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id is used twice");
    let markdown = rendered(Format::Markdown);
    assert!(markdown.contains("| `ramp\\|up` |"), "{markdown}");
    assert!(markdown.contains("\n## Phase `spike`\n\n### "), "{markdown}");
}

#[test]
fn formats_of_one_run_are_refused() {
    for format in [Format::Csv, Format::Hgrm, Format::Hlog] {
        assert!(!Phased::FORMATS.contains(&format));
        assert!(phased().render(format, &Style::default()).is_none());
    }
    for format in Phased::FORMATS {
        assert!(phased().render(format, &Style::default()).is_some(), "{format:?}");
    }
}
