//! `prony import openapi` beside swagger-client: what arrives at a server for the operations of
//! the same description, with the same values. Each difference is equal under the rules, or one of
//! those that docs/import.md names; there must be no other.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::logger::Logger;
use super::request::{Request, Rules, compare, decoded, replace};
use crate::imports::import;
use crate::installed::have;
use crate::rig::{prony, slow};

/// The client in Node.js has headers of its own.
const RULES: Rules = Rules {
    ignored: &[
        "host",
        "user-agent",
        "accept",
        "accept-encoding",
        "accept-language",
        "sec-fetch-mode",
        "connection",
        "content-length",
    ],
    defaults: &[],
};

/// The seeds of the descriptions, without `SLOW=1` and with it; each has this many operations.
const SEEDS: [u64; 2] = [9, 150];
const OPERATIONS: usize = 50;

/// Characters that a URL may have either way.
const EITHER: [(&[u8], &[u8]); 15] = [
    (b"|", b"%7C"),
    (b"[", b"%5B"),
    (b"]", b"%5D"),
    (b"!", b"%21"),
    (b"'", b"%27"),
    (b"(", b"%28"),
    (b")", b"%29"),
    (b"*", b"%2A"),
    (b"\"", b"%22"),
    (b"/", b"%2F"),
    (b";", b"%3B"),
    (b"=", b"%3D"),
    (b"@", b"%40"),
    (b":", b"%3A"),
    (b",", b"%2C"),
];

/// The requests by the last segment of their path that names one.
fn by_name(requests: Vec<Request>) -> HashMap<String, Request> {
    let name = |request: &Request| {
        let path = String::from_utf8_lossy(&request.target).into_owned();
        path.split(['/', '?']).nth(2).unwrap_or_default().to_owned()
    };
    requests.into_iter().map(|request| (name(&request), request)).collect()
}

/// The request with the characters that may be written either way in one way.
fn normal(request: &Request) -> Request {
    let mut request = request.clone();
    let one = |text: &[u8]| {
        EITHER.iter().fold(text.to_vec(), |text, (plain, code)| replace(&text, plain, code))
    };
    request.target = one(&request.target);
    let is_form = request
        .headers
        .iter()
        .any(|(_, value)| value.starts_with(b"application/x-www-form-urlencoded"));
    if is_form {
        request.body = replace(&one(&request.body), b"%20", b"+");
    }
    for (name, value) in &mut request.headers {
        if name.eq_ignore_ascii_case("cookie") {
            // The client encodes only what no cookie can have.
            *value = decoded(value);
        }
    }
    request
}

#[test]
fn descriptions_send_what_swagger_client_sends() {
    let Some(client) = env::var_os("PRONY_TEST_SWAGGER_CLIENT") else { return };
    if !have("node") {
        return;
    }
    let server = Logger::plain();
    let url = format!("http://{}", server.address());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/differential/openapi.js");
    let (mut equal, mut named, mut silent) = (0, 0, Vec::new());
    for seed in 1..=SEEDS[usize::from(slow())] {
        let folder = tempfile::tempdir().expect("a folder");
        let ended = Command::new("node")
            .arg(&script)
            .arg(&client)
            .args([&seed.to_string(), &OPERATIONS.to_string(), &url])
            .arg(folder.path())
            .output()
            .expect("node");
        assert!(ended.status.success() && ended.stdout.starts_with(b"[]"), "{ended:?}");
        let theirs = by_name(server.take());
        assert_eq!(theirs.len(), OPERATIONS);
        let text = fs::read_to_string(folder.path().join("openapi.json")).expect("it");
        let (imported, plan) = import(folder.path(), "openapi", &text, &[]);
        let ended = prony(&["run", &plan, "--accept-invalid"]);
        assert_eq!(ended.code, 0, "{imported:?} {ended:?}");
        let ours = by_name(server.take());
        assert_eq!(ours.len(), OPERATIONS, "{imported:?}");
        for (name, wanted) in &theirs {
            let Some(got) = ours.get(name) else {
                silent.push(format!("{seed} {name}: prony sends nothing, not {wanted}"));
                continue;
            };
            let one = std::slice::from_ref;
            let is_equal = compare(one(wanted), one(got), &RULES).is_empty();
            let differences = compare(&[normal(wanted)], &[normal(got)], &RULES);
            match (is_equal, differences.is_empty()) {
                (true, _) => equal += 1,
                (false, true) => named += 1,
                (false, false) => {
                    silent.push(format!("{seed} {name}: {}", differences.join("; ")));
                }
            }
        }
    }
    println!("swagger-client: {equal} equal, {named} named differences, {} silent", silent.len());
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    assert!(equal >= 3 * named && equal >= 200, "{equal} {named}");
}
