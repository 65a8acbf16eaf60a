//! No text of a plan file is obeyed where it is shown: every string and every key of the plans of
//! the fuzzers' corpus is hostile in turn, and the plan is checked, explained and reported.

use std::fs;
use std::ops::Range;
use std::path::Path;

use prony_base::meter::WorkerStats;
use prony_base::plain::is_plain;
use prony_report::{Format, Style, github, render};
use prony_stats::summary::{RunInfo, Summary};
use prony_tally::record::Tally;

use super::super::{PlanFile, explain, explain_phases, parse_all, summary};
use super::around;
use crate::error::Error;

/// What a reader may refuse, from the most hostile to the least.
const HOSTILE: [&str; 4] = [
    "\u{1b}[31m\u{9b}2J\u{202e}\u{200b}\r\n::stop-commands::x\n##[error]y ##vso[z] ::error::u",
    "\u{202e}##[error]y ::error::u",
    "##[error]y",
    "\u{202e}",
];

/// The places of the strings on one line, with their quotes, and of bare keys.
fn places(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = match c {
            '"' | '\'' => {
                let ends = |(i, other): (usize, char)| {
                    i > 0 && other == c && !(c == '"' && rest[..i].ends_with('\\'))
                };
                let end = rest.char_indices().position(|(i, o)| ends((i, o)) || o == '\n');
                let end = end.map_or(rest.len(), |n| {
                    rest.char_indices().nth(n).map_or(rest.len(), |(i, o)| i + o.len_utf8())
                });
                found.push(at..at + end);
                end
            }
            '#' => rest.find('\n').unwrap_or(rest.len()),
            c if c.is_ascii_alphabetic() => {
                let is_word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                if rest[end..].trim_start_matches(' ').starts_with('=') {
                    found.push(at..at + end);
                }
                end
            }
            c => c.len_utf8(),
        };
        at += length.max(1);
    }
    found
}

/// The text in TOML with another at the end of the string, or the key, at this place.
fn replaced(text: &str, place: &Range<usize>, hostile: &str) -> String {
    let old = &text[place.clone()];
    let quote = old.chars().next().filter(|c| matches!(c, '"' | '\''));
    let inside = match quote {
        Some('\'') => old[1..old.len() - 1].replace('\\', "\\\\").replace('"', "\\\""),
        Some(_) => old[1..old.len() - 1].to_owned(),
        None => old.to_owned(),
    };
    let escaped: String = hostile.chars().map(|c| format!("\\U{:08X}", u32::from(c))).collect();
    format!("{}\"{inside}{escaped}\"{}", &text[..place.start], &text[place.end..])
}

fn assert_plain(what: &str, output: &str) {
    let odd = output.find(|c: char| c != '\n' && !is_plain(c));
    assert!(odd.is_none(), "{what}: {output:?}");
    let lower = output.to_ascii_lowercase();
    for command in ["##[", "##vso[", "::stop-commands", "::error"] {
        assert!(!lower.contains(command), "{what}: {command} in {output}");
    }
}

/// Reads, explains and reports a plan. Returns whether it is one.
fn shown(text: &str) -> bool {
    let file = match parse_all("plan", text, None, &around()) {
        Ok(file) => file,
        Err(sentences) => {
            assert!(sentences.iter().all(|sentence| !sentence.contains('\n')), "{sentences:?}");
            assert_plain(text, &Error::PlanFile(sentences).printed());
            return false;
        }
    };
    let plans = match file {
        PlanFile::Load(planned) => {
            assert_plain(text, &explain(&planned.plan, &planned.notes));
            assert_plain(text, &prony_base::plain::line(&summary(&planned.plan)));
            vec![(planned.plan, planned.notes)]
        }
        PlanFile::Phases(phases) => {
            assert_plain(text, &explain_phases(&phases));
            Vec::new()
        }
    };
    for (plan, notes) in plans {
        let parts = vec![(None, Tally::default(), WorkerStats::default())];
        let info = RunInfo { notes, secrets_shown: true, ..RunInfo::default() };
        let summary = Summary::from_parts(plan, info, parts);
        for format in [Format::Text, Format::Json, Format::Html, Format::Junit, Format::Markdown] {
            let output = render(format, &summary, &Style::default());
            assert_plain(text, &String::from_utf8(output).expect("text"));
        }
        let annotations = github::of_run(&summary).replace("::error title=prony", "");
        assert_plain(text, &annotations);
    }
    true
}

#[test]
fn no_text_of_a_plan_file_is_obeyed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/plan_file");
    let (mut tried, mut accepted) = (0, 0);
    for entry in fs::read_dir(&folder).expect("a corpus") {
        let path = entry.expect("an entry").path();
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for place in places(&text) {
            for hostile in HOSTILE {
                tried += 1;
                if shown(&replaced(&text, &place, hostile)) {
                    accepted += 1;
                    break;
                }
            }
        }
    }
    assert!(tried > 200 && accepted > 20, "{accepted} of {tried}");
}
