//! No text of a saved report reaches a reader as anything but text: every string that the schema of
//! reports has is replaced by a hostile one, and every format is rendered.

use std::collections::BTreeSet;

use prony_base::plain::is_plain;
use prony_base::units::Span;
use prony_report::phased::{Outcome, Phase, Phased, Start};
use prony_report::trend::Trend;
use prony_report::{Detail, Format, Saved, Style, github, json, render, render_all};
use prony_stats::summary::Summary;
use serde_json::Value;

use super::schema::summaries;

/// What a terminal or a build server would obey, and characters that hide or reorder others.
const HOSTILE: &str = "\u{1b}[31m\u{7}\u{9b}2J\u{202e}\u{2066}\u{200b}\u{2028}\u{61c}\r\n\
                       ::stop-commands::x\n##[error]y ##vso[z] ##teamcity[t] ::error::u <script>";

/// A step towards a value: the key of an object, or the index in a list.
#[derive(Clone, Debug)]
enum Step {
    Key(String),
    Index(usize),
}

/// The paths to all texts of a document; `keys`: also to the keys of maps.
fn texts(value: &Value, path: &mut Vec<Step>, found: &mut Vec<(Vec<Step>, bool)>) {
    match value {
        Value::String(_) => found.push((path.clone(), false)),
        Value::Array(all) => {
            for (i, value) in all.iter().enumerate() {
                path.push(Step::Index(i));
                texts(value, path, found);
                path.pop();
            }
        }
        Value::Object(all) => {
            for (key, value) in all {
                path.push(Step::Key(key.clone()));
                found.push((path.clone(), true));
                texts(value, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The path without indices, and without the keys of maps.
fn kind(path: &[Step], is_key: bool) -> String {
    let step = |step: &Step| match step {
        Step::Key(key) => format!("/{key}"),
        Step::Index(_) => "/*".to_owned(),
    };
    let path = if is_key { &path[..path.len() - 1] } else { path };
    path.iter().map(step).collect::<String>() + if is_key { " key" } else { "" }
}

/// Replaces the text, or the key, at this path.
fn replaced(document: &Value, path: &[Step], is_key: bool, text: &str) -> Value {
    let mut document = document.clone();
    let (last, before) = path.split_last().expect("a path");
    let mut place = &mut document;
    for step in before {
        place = match step {
            Step::Key(key) => &mut place[key],
            Step::Index(i) => &mut place[i],
        };
    }
    match (last, is_key) {
        (Step::Key(key), true) => {
            let map = place.as_object_mut().expect("a map");
            let value = map.remove(key).expect("its value");
            map.insert(text.to_owned(), value);
        }
        (Step::Key(key), false) => place[key] = text.into(),
        (Step::Index(i), _) => place[i] = text.into(),
    }
    document
}

/// The text there now.
fn text_at<'a>(document: &'a Value, path: &'a [Step], is_key: bool) -> &'a str {
    if let (Some(Step::Key(key)), true) = (path.last(), is_key) {
        return key;
    }
    let place = path.iter().fold(document, |place, step| match step {
        Step::Key(key) => &place[key],
        Step::Index(i) => &place[i],
    });
    place.as_str().expect("a text")
}

/// Fails if a terminal or a build server would obey something in this output.
fn assert_plain(what: &str, output: &str) {
    let is_odd = |c: char| c != '\n' && !is_plain(c);
    let odd = output.find(is_odd);
    assert!(odd.is_none(), "{what}: {:?}", &output[odd.unwrap_or(0).saturating_sub(80)..]);
    let lower = output.to_ascii_lowercase();
    for command in ["##[", "##vso[", "##teamcity[", "::stop-commands", "::error"] {
        let at = lower.find(command);
        assert!(at.is_none(), "{what}: {command} in {:?}", output.get(at.unwrap_or(0)..));
    }
}

/// The output of a color terminal without the codes of prony.
fn without_codes(output: &str) -> String {
    let codes = ["0", "1", "1;31", "1;32", "33", "36"];
    codes.iter().fold(output.to_owned(), |out, code| out.replace(&format!("\x1b[{code}m"), ""))
}

/// Renders a run where each text is escaped by itself.
fn assert_shown_plainly(what: &str, summary: &Summary) {
    let plain = Style::default();
    for format in [Format::Text, Format::Junit, Format::Markdown] {
        let output = String::from_utf8(render(format, summary, &plain)).expect("text");
        assert_plain(&format!("{what} as {format:?}"), &output);
        assert!(format != Format::Junit || !output.contains("<script"), "{what}");
    }
    for line in github::of_run(summary).lines() {
        let own = ["error", "warning", "notice"].map(|level| format!("::{level} title=prony "));
        let rest = own.iter().find_map(|own| line.strip_prefix(own.as_str()));
        assert_plain(&format!("{what} as an annotation"), rest.expect("an annotation"));
    }
}

/// Renders a run everywhere, also where the whole document is escaped.
fn assert_shown_plainly_everywhere(what: &str, summary: &Summary) {
    assert_shown_plainly(what, summary);
    let plain = Style::default();
    for format in [Format::Json, Format::Csv, Format::Hgrm, Format::Hlog, Format::Html, Format::Svg]
    {
        let output = String::from_utf8(render(format, summary, &plain)).expect("text");
        assert_plain(&format!("{what} as {format:?}"), &output);
        let is_markup = matches!(format, Format::Html | Format::Svg);
        assert!(!is_markup || !output.contains("<script"), "{what} as {format:?}");
    }
    let style = Style { color: true, histogram: true, width: 60, detail: Detail::Notes };
    for style in [style, Style { detail: Detail::Answer, ..style }] {
        let colored = String::from_utf8(render(Format::Text, summary, &style)).expect("text");
        assert_plain(&format!("{what} in color"), &without_codes(&colored));
    }
    let name = format!("name {HOSTILE}");
    let both = [Saved { name: &name, summary }, Saved { name: "b", summary }];
    let together =
        [Format::Text, Format::Html, Format::Svg, Format::Json, Format::Csv, Format::Markdown];
    for format in together {
        let output = render_all(format, &both, &plain).expect("it shows several");
        let output = String::from_utf8(output).expect("text");
        assert_plain(&format!("{what} beside another as {format:?}"), &output);
    }
    for format in [Format::Text, Format::Html, Format::Json] {
        let trend = Trend::of(&both, vec![HOSTILE.to_owned()]).render(format).expect("a trend");
        let output = String::from_utf8(trend).expect("text");
        assert_plain(&format!("{what} in a trend as {format:?}"), &output);
    }
}

/// The texts that a reader may refuse, from the most hostile to the least.
fn hostile(text: &str) -> Vec<String> {
    let parts = ["\u{202e}", "\u{9b}", "##[error]y", "::error::x", "\n::error::x"];
    let whole = [HOSTILE.to_owned(), format!("{text}{HOSTILE}")];
    whole.into_iter().chain(parts.iter().map(|part| format!("{text}{part}"))).collect()
}

fn read(document: &Value) -> Option<Summary> {
    json::read(&document.to_string()).ok()
}

#[test]
fn no_text_of_a_saved_report_is_obeyed() {
    let mut known = BTreeSet::new();
    let mut shown = BTreeSet::new();
    for summary in summaries() {
        let text = String::from_utf8(render(Format::Json, &summary, &Style::default()));
        let document: Value = serde_json::from_str(&text.expect("text")).expect("JSON");
        let mut found = Vec::new();
        texts(&document, &mut Vec::new(), &mut found);
        // All that can be hostile at the same time.
        let mut worst = document.clone();
        for (path, is_key) in found {
            let kind = kind(&path, is_key);
            if !known.insert(kind.clone()) {
                continue;
            }
            // A key of a map may be any text; that of a field, none but its own.
            let tries = if is_key { 1 } else { usize::MAX };
            for text in hostile(text_at(&document, &path, is_key)).into_iter().take(tries) {
                let one = replaced(&document, &path, is_key, &text);
                let Some(mut summary) = read(&one) else { continue };
                summary.run.secrets_shown = true;
                assert_shown_plainly(&kind, &summary);
                shown.insert(kind.clone());
                if !is_key {
                    let both = replaced(&worst, &path, false, &text);
                    worst = if read(&both).is_some() { both } else { worst };
                }
                break;
            }
        }
        let worst = read(&worst).expect("it can be read");
        assert_shown_plainly_everywhere("all at once", &worst);
    }
    // Those that anybody can write anything into.
    for kind in [
        "/run/driver",
        "/run/host",
        "/run/version",
        "/run/label",
        "/run/notes/*",
        "/run/command/*",
        "/run/addresses/*/*",
        "/run/part/host",
        "/run/self_test/kernel",
        "/run/self_test/changed",
        "/run/replay/logs/*/file",
        "/run/replay/logs/*/first_bad/*/text",
        "/plan/endpoints/*/tcp/host",
        "/plan/requests/*/method",
        "/plan/requests/*/path",
        "/plan/requests/*/authority",
        "/plan/requests/*/headers/*/*",
        "/plan/names/*",
        "/plan/groups/*/name",
        "/plan/stream/content",
        "/measurement/tally/http2/goaway_texts/NO_ERROR",
        "/measurement/tally/http2/goaways key",
        "/measurement/tally/http2/grpc_messages/NOT_FOUND",
        "/measurement/tally/tls/first/suite",
        "/measurement/tally/proxy/reasons key",
        "/measurement/tally/redirects/elsewhere key",
    ] {
        assert!(shown.contains(kind), "{kind} was not hostile: {shown:#?}");
    }
    assert!(shown.len() > 60, "{shown:#?}");
}

#[test]
fn no_text_of_a_plan_with_phases_is_obeyed() {
    let text = || HOSTILE.to_owned();
    let phase =
        |outcome| Phase { name: text(), start: Start::With, delay: Span::from_secs(1), outcome };
    let phases = vec![
        phase(Outcome::Ran(Box::new(summaries().remove(0)))),
        phase(Outcome::NotStarted(text())),
    ];
    let report =
        Phased { version: text(), command: vec![text()], seed: 1, interrupted: true, phases };
    for format in [Format::Text, Format::Json, Format::Junit, Format::Markdown, Format::Html] {
        let output = report.render(format, &Style::default()).expect("it shows phases");
        assert_plain(&format!("{format:?}"), &String::from_utf8(output).expect("text"));
    }
}
