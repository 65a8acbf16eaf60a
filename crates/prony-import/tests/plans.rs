//! What is made of an archive is a plan: prony accepts it, with and without its secrets, and both
//! are the same plan.

use prony_import::archive::{Archive, Content, Entry, Log, Pair, Post, Reply, Sent};
use prony_import::{Options, conceal, import_archive};
use prony_plan::plan::Data;
use prony_run::environment::Environment;
use prony_run::plan_file;
use proptest::prelude::*;

const KINDS: [&str; 5] = [
    "text/html",
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=b",
    "text/plain",
];

/// A value that servers make up, in one of several spellings.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-f0-9]{8,20}",
        2 => "[A-Za-z0-9+/]{10,16}==",
        1 => "[0-9]{4,9}",
        1 => "[a-z]{1,12}",
        1 => Just("2026-11-25".to_owned()),
        1 => "\\PC{0,12}",
    ]
}

/// A text with the values in many places, in the form of this type or in none.
fn text(kind: usize, values: &[String], noise: &str) -> String {
    let [a, b, c] = [0, 1, 2].map(|n| values[n % values.len()].as_str());
    let escaped = |v: &str| {
        let one = |b: u8| match b {
            b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
            b => format!("%{b:02X}"),
        };
        v.bytes().map(one).collect::<String>()
    };
    match kind {
        0 => format!(
            "{noise}<input type=\"hidden\" name=\"csrf\" value=\"{a}\">\
             <a href='/x/{b}?q={c}'>{noise}</a>\
             <meta content={c} name=csrf-token><script>t = {{\"key\": \"{b}\"}}</script>"
        ),
        1 => serde_json::json!({"csrf": a, "list": [b, {"id": c, "{{": noise}], "n": 12345678})
            .to_string(),
        2 => format!("csrf={}&password={}&{noise}={c}", escaped(a), escaped(b)),
        3 => format!(
            "--b\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n{a}\r\n--b--\r\n{noise}"
        ),
        _ => format!("{noise} {a} {b}\n{{{{{c}}}}} @"),
    }
}

fn pair(name: &str, value: &str) -> Pair {
    // As a proxy reads them, headers have no line breaks.
    Pair { name: name.into(), value: value.replace(char::is_control, " ") }
}

fn entry(nth: usize, values: &[String], kinds: (usize, usize), noise: &str, start: u32) -> Entry {
    let value = |n: usize| values[n % values.len()].as_str();
    let segment = |v: &str| v.replace(['?', '#', '/'], "-");
    let url =
        format!("http://h/{}/{}?csrf={}&k={}", nth, segment(value(nth)), value(nth + 1), noise);
    let body = text(kinds.0, values, noise);
    Entry {
        pageref: None,
        started_date_time: format!("2026-11-25T10:00:{:02}.{:03}Z", nth, start),
        time: 700.0,
        request: Sent {
            method: if nth.is_multiple_of(2) { "GET".into() } else { "POST".into() },
            url,
            headers: vec![
                pair("X-CSRF-Token", value(nth + 2)),
                pair("Authorization", &format!("Bearer {}", value(nth))),
                pair("Cookie", &format!("sid={}; other={}", value(0), value(1))),
                pair("Referer", &format!("http://h/{}", segment(value(nth)))),
                pair("Content-Type", KINDS[kinds.0]),
            ],
            post_data: (nth % 2 == 1).then(|| Post {
                mime_type: KINDS[kinds.0].into(),
                text: Some(body),
                ..Post::default()
            }),
            ..Sent::default()
        },
        response: Reply {
            status: [200, 303, 404][nth % 3],
            headers: vec![
                pair("Set-Cookie", &format!("sid={}; Path=/", value(0))),
                pair("Location", &format!("http://h/{}/next", segment(value(nth + 1)))),
                pair("X-Token", value(nth + 2)),
            ],
            content: Content {
                mime_type: KINDS[kinds.1].into(),
                text: Some(text(kinds.1, values, noise)),
                ..Content::default()
            },
            ..Reply::default()
        },
        cache: Default::default(),
        timings: Default::default(),
        connection: None,
        session: Some(format!("session {}", nth % 2)),
        from_cache: None,
        resource: None,
    }
}

fn plan(archive: &Archive, with_secrets: bool, correlate: bool) -> (String, usize) {
    let options = Options { with_secrets, correlate, ..Options::default() };
    let import = import_archive("a.har", archive.clone(), &options).expect("there are requests");
    (import.write("x"), import.extracted())
}

proptest! {
    #[test]
    fn plans_of_archives_are_accepted(
        values in prop::collection::vec(value(), 1..5),
        kinds in prop::collection::vec((0..5_usize, 0..5_usize, 0..1000_u32), 1..7),
        noise in prop_oneof!["\\PC{0,10}", "[a-z{}\"'<>&=%]{0,12}"],
    ) {
        let entries = kinds.iter().enumerate().map(|(nth, &(sent, got, start))| {
            entry(nth, &values, (sent, got), &noise, start)
        });
        let mut archive = Archive { log: Log { entries: entries.collect(), ..Log::default() } };
        let around = Environment::default();
        for with_secrets in [false, true] {
            for correlate in [false, true] {
                let (text, _) = plan(&archive, with_secrets, correlate);
                let filled = text.replace(Data::BLANK, "filled in");
                let planned = plan_file::parse("plan", &filled, None, &around);
                prop_assert!(planned.is_ok(), "{:?}\n{text}", planned.err());
            }
        }
        conceal(&mut archive);
    }

    #[test]
    fn archives_without_secrets_make_the_same_plan(
        values in prop::collection::vec(
            prop_oneof!["[a-f0-9]{8,20}", "[A-Za-z0-9+/]{10,16}==", "[0-9]{8,9}", "x[0-9]{8}"],
            1..5,
        ),
        kinds in prop::collection::vec((0..5_usize, 0..5_usize, 0..1000_u32), 1..7),
        noise in "[a-z ]{0,10}",
    ) {
        let entries = kinds.iter().enumerate().map(|(nth, &(sent, got, start))| {
            entry(nth, &values, (sent, got), &noise, start)
        });
        let mut archive = Archive { log: Log { entries: entries.collect(), ..Log::default() } };
        let before = plan(&archive, false, true);
        conceal(&mut archive);
        let json = serde_json::to_string(&archive).expect("an archive");
        for value in values.iter().filter(|value| value.len() >= 8) {
            prop_assert!(!json.contains(value), "{}\n{}", value, json);
        }
        let read: Archive = serde_json::from_str(&json).expect("an archive");
        prop_assert_eq!(plan(&read, false, true), before);
    }
}
