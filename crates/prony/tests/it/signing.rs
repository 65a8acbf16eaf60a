//! Signed requests and JSON Web Tokens, against a server that checks them.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::rig::{Ended, Other, Running, command, drivers, fetch, have};

const KEY: &str = "a key, not in any plan";

const PLAN: &str = r#"
url = "@URL@"
users = 3
sessions = 20

[data.users]
columns = ["name"]
rows = [["ann"], ["bob"], ["eve \"quoted\""]]

[variables]
lf = "\n"
claims = '{"sub": "{{users.name | json}}", "iat": {{now unix}}, "exp": {{now +10m unix}}}'
token = "{{claims | jwt env ORDERS_KEY}}"

[[session]]

[[session.request]]
path = "/orders/{{random.uuid}}?n={{counter}}"
method = "PUT"
body = '{"user": "{{users.name | json}}", "number": {{random.int 1 1000}}}'
expect = 201
repeat = 2

[session.request.headers]
Authorization = "Bearer {{token}}"
X-Time = "{{now unix}}"
X-Digest = "{{request.body | sha256}}"
X-Signature = "{{request.method | append lf | append request.path | append lf | append now unix | append lf | append request.body | hmac-sha256 env ORDERS_KEY base64}}"
"#;

/// Runs the binary with this key in its environment.
fn keyed(key: &str, args: &[&str]) -> Ended {
    let mut command = command(args);
    command.env("ORDERS_KEY", key);
    Running::of(command, args).wait()
}

fn written(url: &str, plan: &str) -> (TempDir, String) {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("orders.toml");
    fs::write(&file, plan.replace("@URL@", url)).expect("a file");
    (folder, file.to_str().expect("UTF-8").to_owned())
}

#[test]
fn servers_accept_signed_requests() {
    if !have("python3") {
        return;
    }
    for driver in drivers() {
        let server = Other::start("python3", &[], include_str!("signing/orders.py"));
        let (_folder, file) = written(&server.url(""), PLAN);
        let args = ["run", &file, "--driver", driver, "--threads", "2", "--json", "--quiet"];
        let ended = keyed(KEY, &[&args[..], &["--accept-invalid"]].concat());
        let log = fs::read_to_string(server.file("log")).unwrap_or_default();
        assert_eq!(ended.code, 0, "{driver}: {ended:?} {log}");
        let report = ended.report();
        assert_eq!((report.count("replies"), report.count("failed")), (40, 0), "{driver}: {log}");
        // Another key makes other signatures.
        let refused = keyed("wrong", &[&args[..], &["--accept-invalid"]].concat());
        assert_eq!(refused.report().errors("unexpected-status"), 20, "{refused:?}");
        let answer = fetch(server.port, "/stats");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        let counts: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!((&counts["accepted"], &counts["refused"]), (&40.into(), &20.into()));
        for (what, text) in [("the report", &ended.stdout), ("its errors", &ended.stderr)] {
            assert!(!text.contains(KEY), "{what}: {text}");
        }
    }
}

/// The key is neither in a report with all secrets of the plan nor in the explained plan, which is
/// the same plan.
#[test]
fn keys_are_never_shown() {
    let (folder, file) = written("http://127.0.0.1:1", PLAN);
    let explained = keyed(KEY, &["run", &file, "--explain", "--seed", "1"]);
    assert_eq!(explained.code, 0, "{explained:?}");
    assert!(explained.stdout.contains("| hmac-sha256 env ORDERS_KEY base64}}"), "{explained:?}");
    let again = folder.path().join("again.toml");
    fs::write(&again, &explained.stdout).expect("a file");
    let again = again.to_str().expect("UTF-8");
    let simulated = |file: &str| {
        let args = ["run", file, "--simulate", "1", "--seed", "1", "--json", "--show-secrets"];
        keyed(KEY, &[&args[..], &["--accept-invalid", "--quiet"]].concat())
    };
    let (first, second) = (simulated(&file), simulated(again));
    let figures = |ended: &Ended| ended.report().0["measurement"].to_string();
    assert_eq!(figures(&first), figures(&second));
    for ended in [explained, first, second] {
        assert!(!ended.stdout.contains(KEY) && !ended.stderr.contains(KEY), "{ended:?}");
    }
}

#[test]
fn invalid_filters_are_refused_before_the_load() {
    for (wrong, why) in [
        ("hmac-sha256 'secret' base64", "the key of 'hmac-sha256' must not be in the plan"),
        ("hmac-sha256", "'hmac-sha256' needs a key"),
        ("hmac-sha256 env NOT_SET", "the environment variable 'NOT_SET' is not set"),
        ("sha512", "'sha512' is not a known filter"),
    ] {
        let plan = PLAN.replace("hmac-sha256 env ORDERS_KEY base64", wrong);
        let (_folder, file) = written("http://127.0.0.1:1", &plan);
        let refused = keyed(KEY, &["check", &file]);
        assert_eq!(refused.code, 2, "{wrong}: {refused:?}");
        assert!(refused.stderr.contains(why) || refused.stdout.contains(why), "{refused:?}");
    }
}
