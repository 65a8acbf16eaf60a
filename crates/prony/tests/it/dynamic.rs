//! Sessions that log in: forms with tokens, cookies, redirects, JSON.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::rig::{Other, drivers, fetch, have, measure, prony};

const PLAN: &str = r#"
url = "@URL@"
users = 4
sessions = 30
cookies = "session"
expect = "200,201,303"

[data.users]
file = "users.csv"

[variables]
agent = "shopper {{session}} {{random.uuid}}"

[[session]]
name = "shopping"

[[session.request]]
path = "/login"
extract = { csrf = { regex = 'name="csrf" value="([^"]+)"' } }

[[session.request]]
path = "/login"
body = "user={{users.name | url}}&password={{users.password | url}}&csrf={{csrf | url}}"
headers = { Content-Type = "application/x-www-form-urlencoded", X-Agent = "{{agent}}" }
extract = { next = { header = "Location" } }

[[session.request]]
path = "{{next | path}}"

[session.request.extract]
cart = { json = "/cart/ids/1" }
who = { between = ['"user": "', '"'] }
token = { header = "X-Token", regex = "v1:(.*)" }

[[session.request]]
path = "/cart/{{cart}}"
headers = { X-Token = "{{token}}" }
body = '{"user": "{{who | json}}", "count": {{random.int 1 9}}}'
repeat = 2
"#;

const USERS: &str = "name,password\nann,p&w=%+ü\nbob,\"qu\"\"ote, comma\"\neve,plain\n";

/// Writes the plan for the server, with a change, to a new directory.
fn written(shop: &Other, change: impl Fn(String) -> String) -> (TempDir, String) {
    let folder = TempDir::new().expect("a folder");
    let plan = change(PLAN.replace("@URL@", &shop.url("")));
    fs::write(folder.path().join("users.csv"), USERS).expect("a file");
    fs::write(folder.path().join("shop.toml"), plan).expect("a file");
    let file = folder.path().join("shop.toml").to_str().expect("UTF-8").to_owned();
    (folder, file)
}

fn counts(shop: &Other) -> Value {
    let answer = fetch(shop.port, "/stats");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    serde_json::from_str(body).expect("JSON")
}

#[test]
fn completes_sessions_with_tokens_and_cookies() {
    if !have("python3") {
        return;
    }
    for driver in drivers() {
        let shop = Other::start("python3", &[], include_str!("dynamic/shop.py"));
        let (_folder, file) = written(&shop, |plan| plan);
        let report = measure(&["run", &file, "--driver", driver, "--threads", "2"]);
        assert_eq!(report.count("replies"), 30 * 5, "{driver}");
        assert_eq!(report.count("failed"), 0, "{driver}");
        let counts = counts(&shop);
        for (what, count) in [("forms", 30), ("logins", 30), ("homes", 30), ("orders", 60)] {
            assert_eq!(counts[what], count, "{driver}: {counts}");
        }
        assert_eq!(counts["refused"], Value::Null, "{driver}: {counts}");
    }
}

/// A missing value is a failure of its own, and prony sends no request with an unfilled field.
#[test]
fn reports_missing_values_in_replies() {
    if !have("python3") {
        return;
    }
    let shop = Other::start("python3", &[], include_str!("dynamic/shop.py"));
    let errors = |change: &dyn Fn(String) -> String| {
        let (_folder, file) = written(&shop, change);
        let ended = prony(&["run", &file, "--json", "--quiet", "--accept-invalid"]);
        let report = ended.report();
        let list = report.0["measurement"]["errors"].as_array().expect("a list").clone();
        let reported = |error: &Value| {
            let name = error["error"].as_str().expect("a name").to_owned();
            format!("{name} {} {}", error["class"].as_str().expect("a class"), error["requests"])
        };
        list.iter().map(reported).collect::<Vec<_>>()
    };
    let no_cookies = errors(&|plan| plan.replace("cookies = \"session\"", ""));
    assert_eq!(no_cookies, ["unexpected-status unexpected 30"]);
    let no_token = errors(&|plan| plan.replace("name=\"csrf\" value", "name=\"none\" value"));
    assert_eq!(no_token, ["extract-missing unexpected 30"]);
    let not_ended = |plan: String| {
        let plan = plan.replace("name=\"csrf\" value", "name=\"none\" value");
        format!("on-failure = \"continue\"\n{plan}")
    };
    // The form, then four requests without the values of earlier replies. The order needs a token
    // and a cart, which are missing, so it is not sent.
    assert_eq!(errors(&not_ended), ["extract-missing unexpected 30", "no-value script 120"]);
    let break_out = |plan: String| {
        plan.replace("X-Agent = \"{{agent}}\"", "X-Agent = \"{{csrf}}\"")
            .replace("name=\"csrf\" value=\"([^\"]+)\"", "<form>(\\n)")
    };
    assert_eq!(errors(&break_out), ["unfit-value script 30"]);
}

#[test]
fn checks_and_explains_a_plan_with_all_dynamic_parts() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("users.csv"), USERS).expect("a file");
    let file = folder.path().join("shop.toml");
    fs::write(&file, PLAN.replace("@URL@", "http://127.0.0.1:1")).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let checked = prony(&["check", file]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let explained = prony(&["run", file, "--explain", "--seed", "1"]);
    assert_eq!(explained.code, 0, "{explained:?}");
    let again = folder.path().join("again.toml");
    fs::write(&again, &explained.stdout).expect("a file");
    let again = again.to_str().expect("UTF-8");
    assert_eq!(prony(&["run", again, "--explain", "--seed", "1"]).stdout, explained.stdout);
    // Both send the same bytes in a simulation.
    let simulated = |file: &str| {
        let args = ["run", file, "--seed", "1", "--simulate", "1", "--json", "--accept-invalid"];
        let report = prony(&args).report();
        report.0["measurement"].to_string()
    };
    assert_eq!(simulated(again), simulated(file));
}
