//! `prony import postman` beside newman, which is Postman without its windows: what arrives at a
//! server for the same collection, byte for byte. Each difference is equal under the rules, or one
//! of those that docs/import.md names; there must be no other.

use std::collections::{BTreeSet, HashMap};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::logger::Logger;
use super::request::{Request, Rules, compare, in_utf8, replace};
use crate::imports::import;
use crate::installed::have;
use crate::rig::{prony, slow};

/// Postman sends headers of its own with each request, and forms in chunks.
const RULES: Rules = Rules {
    ignored: &[
        "host",
        "user-agent",
        "accept",
        "accept-encoding",
        "cache-control",
        "postman-token",
        "connection",
        "content-length",
        "transfer-encoding",
    ],
    defaults: &[],
};

/// The seeds of the collections, without `SLOW=1` and with it; each has this many requests.
const SEEDS: [u64; 2] = [2, 40];
const REQUESTS: usize = 250;

/// The requests by the first segment of their path, which no two have in common.
fn by_name(requests: Vec<Request>) -> HashMap<String, Request> {
    let name = |request: &Request| {
        let path = String::from_utf8_lossy(&request.target).into_owned();
        path.split(['/', '?', '#']).nth(1).unwrap_or_default().to_owned()
    };
    requests.into_iter().map(|request| (name(&request), normal(request))).collect()
}

/// The request with one text between the parts of forms.
fn normal(mut request: Request) -> Request {
    let start = request.body.strip_prefix(b"--").unwrap_or_default();
    let end = start.windows(2).position(|two| two == b"\r\n").unwrap_or(0);
    if start[end..].starts_with(b"\r\nContent-Disposition") {
        let between = start[..end].to_vec();
        request.body = replace(&request.body, &between, b"BETWEEN");
        for (_, value) in &mut request.headers {
            *value = replace(value, &between, b"BETWEEN");
        }
    }
    request
}

#[test]
fn collections_send_what_newman_sends() {
    let Some(newman) = env::var_os("PRONY_TEST_NEWMAN") else { return };
    if !have("node") {
        return;
    }
    let server = Logger::plain();
    let url = format!("http://{}", server.address());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/differential/postman.js");
    let (mut equal, mut named, mut silent) = (0, 0, Vec::new());
    for seed in 1..=SEEDS[usize::from(slow())] {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, bytes) in
            [("f.txt", &b"text of f\n"[..]), ("g.bin", b"\xff\x00{{v}}\xfe"), ("j.json", b"{}")]
        {
            fs::write(folder.path().join(name), bytes).expect("a file");
        }
        let ended = Command::new("node")
            .arg(&script)
            .arg(&newman)
            .args([&seed.to_string(), &REQUESTS.to_string(), &url])
            .arg(folder.path())
            .output()
            .expect("node");
        assert!(ended.status.success(), "{ended:?}");
        let refused: BTreeSet<String> = serde_json::from_slice(&ended.stdout).expect("names");
        let theirs = by_name(server.take());
        let text = fs::read_to_string(folder.path().join("collection.json")).expect("it");
        let (imported, plan) = import(folder.path(), "postman", &text, &["--with-secrets"]);
        let ended = prony(&["run", &plan, "--accept-invalid"]);
        assert_eq!(ended.code, 0, "{imported:?} {ended:?}");
        let ours = by_name(server.take());
        assert_eq!(ours.len(), REQUESTS, "{imported:?}");
        for (name, got) in &ours {
            match theirs.get(name) {
                // With `disableUrlEncoding`, newman refuses paths that no request line can have.
                None if refused.contains(name) => named += 1,
                None => silent.push(format!("{seed} {name}: newman sends nothing, prony {got}")),
                Some(wanted) => {
                    let [wanted, utf8] = [wanted.clone(), in_utf8(wanted)];
                    let one = std::slice::from_ref;
                    let is_equal = compare(one(&wanted), one(got), &RULES).is_empty();
                    let differences = compare(one(&utf8), one(got), &RULES);
                    match (is_equal, differences.is_empty()) {
                        (true, _) => equal += 1,
                        // Postman sends letters as Latin-1.
                        (false, true) => named += 1,
                        (false, false) => {
                            silent.push(format!("{seed} {name}: {}", differences.join("; ")));
                        }
                    }
                }
            }
        }
    }
    println!("newman: {equal} equal, {named} named differences, {} silent", silent.len());
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    assert!(equal >= 3 * named && equal >= REQUESTS, "{equal} {named}");
}
