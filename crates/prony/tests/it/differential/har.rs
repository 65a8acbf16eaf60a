//! `prony import har` beside a browser: what a Chromium sends, and what the plan of its archive
//! sends. Another program (chrome-har) makes the archive of the browser's messages. Each
//! difference is equal, is named by the import, or is not in the archive; there must be no other.

use std::collections::HashMap;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use prony_import::{Format, Options};
use serde_json::Value;

use super::logger::{Logger, ok};
use super::request::{Request, Rules, compare, decoded, in_utf8};
use crate::installed::have;
use crate::rig::{prony, slow};

const RULES: Rules = Rules {
    ignored: &["host", "connection", "content-length"],
    defaults: &[("accept", "*/*"), ("user-agent", "prony/")],
};

/// The seeds of the browser's requests, without `SLOW=1` and with it; each has this many.
const SEEDS: [u64; 2] = [2, 20];
const REQUESTS: usize = 150;

/// What the import says of bodies that the archive does not have.
const NAMED: [&str; 4] = [
    "its body has another length than was sent, by Content-Length or `bodySize`",
    "sent without its body, which the archive does not have",
    "sent without its body, of which the archive has only the fields",
    "a file of a form without content, which the archive does not have",
];

fn site(request: &Request) -> Vec<u8> {
    if request.target != b"/page" {
        return ok("ok");
    }
    let body = "<title>page</title>";
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// The requests by the first segment of their path.
fn by_name(requests: Vec<Request>) -> HashMap<String, Request> {
    let name = |request: &Request| {
        let path = String::from_utf8_lossy(&request.target).into_owned();
        path.split(['/', '?']).nth(1).unwrap_or_default().to_owned()
    };
    requests.into_iter().map(|request| (name(&request), request)).collect()
}

/// The request without the headers that the archive does not have, and their number.
fn in_archive(request: &Request, entries: &HashMap<String, Value>, name: &str) -> (Request, usize) {
    let mut request = request.clone();
    let known: Vec<String> = entries[name]["request"]["headers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|pair| Some(pair["name"].as_str()?.to_ascii_lowercase()))
        .collect();
    let before = request.headers.len();
    let is_known = |name: &str| known.contains(&name.to_ascii_lowercase());
    let rules = |name: &str| RULES.ignored.contains(&&*name.to_ascii_lowercase());
    request.headers.retain(|(name, _)| is_known(name) || rules(name));
    let lost = before - request.headers.len();
    (request, lost)
}

/// The archive of what a browser sends.
fn recorded(browser: &OsStr, chrome_har: &OsStr, url: &str, seed: u64, folder: &Path) -> Vec<u8> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/differential");
    let at = |name: &str| folder.join(name);
    let ended = Command::new("python3")
        .arg(here.join("har.py"))
        .arg(browser)
        .arg(at("profile"))
        .args([url, &seed.to_string(), &REQUESTS.to_string()])
        .arg(at("messages.json"))
        .output()
        .expect("python3");
    assert!(ended.status.success(), "{ended:?}");
    let ended = Command::new("node")
        .arg(here.join("har.js"))
        .arg(chrome_har)
        .args([at("messages.json"), at("a.har")])
        .output()
        .expect("node");
    assert!(ended.status.success(), "{ended:?}");
    fs::read(at("a.har")).expect("an archive")
}

#[test]
fn archives_send_what_a_browser_has_sent() {
    let both = (env::var_os("PRONY_TEST_CHROMIUM"), env::var_os("PRONY_TEST_CHROME_HAR"));
    let (Some(browser), Some(chrome_har)) = both else { return };
    if !have("node") || !have("python3") {
        return;
    }
    let server = Logger::start(site);
    let url = format!("http://{}", server.address());
    let (mut equal, mut named, mut absent, mut silent) = (0, 0, 0, Vec::new());
    for seed in 1..=SEEDS[usize::from(slow())] {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let text = recorded(&browser, &chrome_har, &url, seed, folder.path());
        let theirs = by_name(server.take());
        let archive: Value = serde_json::from_slice(&text).expect("JSON");
        let entries =
            archive["log"]["entries"].as_array().expect("entries").iter().filter_map(|e| {
                let path = e["request"]["url"].as_str()?.strip_prefix(&url)?;
                Some((path.split(['/', '?']).nth(1)?.to_owned(), e.clone()))
            });
        let entries: HashMap<String, Value> = entries.collect();
        let options = Options { with_secrets: true, correlate: false, ..Options::default() };
        let import = prony_import::import(Format::Har, "a.har", &text, &options).expect("a plan");
        let notes = import.notes();
        let counts = notes.iter().filter(|note| NAMED.contains(&note.what)).map(|note| note.count);
        let mut may_differ: usize = counts.sum();
        fs::write(at("plan.toml"), import.write("x")).expect("a plan");
        let plan = at("plan.toml");
        let ended = prony(&["run", plan.to_str().expect("UTF-8"), "--accept-invalid"]);
        assert_eq!(ended.code, 0, "{ended:?}");
        let ours = by_name(server.take());
        for (name, wanted) in &theirs {
            let (Some(got), true) = (ours.get(name), entries.contains_key(name)) else {
                assert!(!name.starts_with('c'), "{name} is not in the archive");
                continue;
            };
            let (wanted, lost) = in_archive(wanted, &entries, name);
            let one = std::slice::from_ref;
            let is_equal = compare(one(&wanted), one(got), &RULES).is_empty();
            // A URL of the archive may have other characters encoded, and its headers are UTF-8.
            let [wanted, got] = [&in_utf8(&wanted), got]
                .map(|request| Request { target: decoded(&request.target), ..request.clone() });
            let differences = compare(one(&wanted), one(&got), &RULES);
            let is_of_body = |line: &String| line.contains(" the body is ");
            match differences.is_empty() {
                true if lost > 0 || !is_equal => absent += 1,
                true => equal += 1,
                false if differences.iter().all(is_of_body) && may_differ > 0 => {
                    may_differ -= 1;
                    named += 1;
                }
                false => silent.push(format!("{seed} {name}: {}", differences.join("; "))),
            }
        }
    }
    println!(
        "a browser: {equal} equal, {named} named, {absent} not in the archive as they were, {} silent",
        silent.len()
    );
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    // Which headers reach the archive depends on the order of the browser's messages.
    assert!(equal >= 100 && equal + absent >= 200, "{equal} {named} {absent}");
}
