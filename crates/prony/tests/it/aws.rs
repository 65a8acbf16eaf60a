//! Requests that are signed for AWS, against a server that checks the signatures.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rig::{Ended, Other, Running, command, drivers, fetch, have};

const SECRET: &str = "wJalr/XUtn+FEMI";
const TOKEN: &str = "a/token==";

const PLAN: &str = r#"
url = "@URL@"
users = 3
sessions = 10

[aws-sigv4]
region = "eu-central-1"
service = "execute-api"

[data.users]
columns = ["name"]
rows = [["ann"], ["bob & co"], ["z\u00FCrich/+ 100%"]]

[[session]]

[[session.request]]
path = "/orders//{{random.uuid}}/{{users.name | url}}?n={{counter}}&v={{users.name | url}}&A&a=%7e"
method = "PUT"
body = '{"user": "{{users.name | json}}"}'
headers = { Content-Type = "application/json", X-Amz-Meta-User = "  {{users.name | url}}   x " }
repeat = 2

[[session.request]]
path = "/open"
aws-sigv4 = false
"#;

/// Runs the binary with these credentials in its environment.
fn keyed(key: &[(&str, &str)], args: &[&str]) -> Ended {
    let mut command = command(args);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"] {
        command.env_remove(name);
    }
    command.envs(key.iter().copied());
    Running::of(command, args).wait()
}

const USUAL: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", SECRET)];
const TEMPORARY: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "AKIDOTHER"),
    ("AWS_SECRET_ACCESS_KEY", "other"),
    ("AWS_SESSION_TOKEN", TOKEN),
];

fn written(url: &str, plan: &str) -> (TempDir, String) {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("orders.toml");
    fs::write(&file, plan.replace("@URL@", url)).expect("a file");
    (folder, file.to_str().expect("UTF-8").to_owned())
}

fn stats(server: &Other) -> Value {
    let answer = fetch(server.port, "/stats");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    serde_json::from_str(body).expect("JSON")
}

fn verifier() -> Option<Other> {
    have("python3").then(|| Other::start("python3", &[], include_str!("aws/verifier.py")))
}

#[test]
fn servers_accept_requests_of_templates() {
    for driver in drivers() {
        let Some(server) = verifier() else { return };
        let (_folder, file) = written(&server.url(""), PLAN);
        let args = ["run", &file, "--driver", driver, "--threads", "2", "--json", "--quiet"];
        let args = [&args[..], &["--accept-invalid", "--show-secrets"]].concat();
        for key in [&USUAL[..], &TEMPORARY] {
            let ended = keyed(key, &args);
            let log = fs::read_to_string(server.file("log")).unwrap_or_default();
            assert_eq!(ended.code, 0, "{driver}: {ended:?} {log}");
            let report = ended.report();
            assert_eq!((report.count("replies"), report.count("failed")), (30, 0), "{log}");
            for secret in [SECRET, TOKEN] {
                assert!(!format!("{ended:?}").contains(secret), "{ended:?}");
            }
        }
        let counts = json!({"eu-central-1 execute-api": 40, "unsigned": 20});
        assert_eq!(stats(&server), counts, "{driver}");
        let wrong = [("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "wrong")];
        assert_eq!(keyed(&wrong, &args).report().errors("unexpected-status"), 10);
        assert_eq!(stats(&server)["refused"], 10);
    }
}

#[test]
fn command_lines_sign_as_curl_does() {
    let Some(server) = verifier() else { return };
    let url = server.url("/bucket/a%20key?list-type=2&prefix=x%2Fy");
    let sign = ["--aws-sigv4", "aws:amz:us-east-1:s3", "-n", "20", "--quiet", "--json"];
    let key = format!("AKIDEXAMPLE:{SECRET}");
    let user = ["--user", &key, "-c", "2", "--accept-invalid"];
    for more in [&[][..], &["-m", "PUT", "-b", "much\ntext"], &["--rate", "200", "-p", "2"]] {
        let args = [&[&*url][..], &sign, &user, more].concat();
        let ended = keyed(&[], &args);
        let log = fs::read_to_string(server.file("log")).unwrap_or_default();
        assert_eq!((ended.code, ended.report().count("failed")), (0, 0), "{ended:?} {log}");
        assert!(!format!("{ended:?}").contains(SECRET), "{ended:?}");
    }
    assert_eq!(stats(&server), json!({"us-east-1 s3": 60}));
    // A redirect leads to another path, which has a signature of its own.
    let old = server.url("/old");
    let sign = ["--aws-sigv4", "aws:amz:us-east-1:execute-api", "--quiet", "--json", "-n", "5"];
    let ended = keyed(&USUAL, &[&[&*old, "-L", "--accept-invalid"][..], &sign].concat());
    let log = fs::read_to_string(server.file("log")).unwrap_or_default();
    assert_eq!(ended.report().count("failed"), 0, "{ended:?} {log}");
    assert_eq!(stats(&server)["us-east-1 execute-api"], 10, "{log}");
}

/// Over HTTP/2, `host` is the field `:authority`.
#[test]
fn requests_of_http2_are_signed() {
    if !have("node") {
        return;
    }
    let server = Other::start("node", &[], include_str!("aws/http2.js"));
    let url = server.url("/a?b=1&c=2");
    let args = [&*url, "--h2c", "--aws-sigv4", "aws:amz:r-1:s", "-n", "40", "-c", "2", "--json"];
    let args = [&args[..], &["-T", "text/plain", "-H", "X-Own: 1 2", "--accept-invalid"]].concat();
    for more in [&[][..], &["-b", "some text", "--streams", "4"]] {
        let ended = keyed(&[], &[&args[..], more, &["-u", "ID:secret"]].concat());
        let log = fs::read_to_string(server.file("log")).unwrap_or_default();
        assert_eq!(ended.report().status(200), 40, "{ended:?} {log}");
    }
    let wrong = keyed(&[], &[&args[..], &["-u", "ID:wrong"]].concat());
    assert_eq!(wrong.report().status(403), 40, "{wrong:?}");
}

/// Workers get the key from their driver: it is not in the plan that is sent to them, nor in their
/// reports.
#[test]
fn workers_sign_with_the_key_of_their_driver() {
    let Some(server) = verifier() else { return };
    let (_folder, file) = written(&server.url(""), PLAN);
    let args = ["run", &file, "--hosts", "2", "--json", "--quiet", "--accept-invalid"];
    let ended = keyed(&TEMPORARY, &args);
    let log = fs::read_to_string(server.file("log")).unwrap_or_default();
    assert_eq!((ended.code, ended.report().count("failed")), (0, 0), "{ended:?} {log}");
    assert_eq!(stats(&server), json!({"eu-central-1 execute-api": 20, "unsigned": 10}));
    assert!(!format!("{ended:?}").contains(TOKEN), "{ended:?}");
}

/// An explained plan is the same plan. It has the key of the command line, but not that of the
/// environment.
#[test]
fn explained_plans_sign_in_the_same_way() {
    let args = ["http://127.0.0.1:1/", "--aws-sigv4", "aws:amz:r-1:s", "-n", "5", "--seed", "1"];
    let explained = keyed(&USUAL, &[&args[..], &["--explain"]].concat());
    assert_eq!(explained.code, 0, "{explained:?}");
    let table = "[aws-sigv4]\nregion = \"r-1\"\nservice = \"s\"\n\
                 access-key = \"{{env AWS_ACCESS_KEY_ID}}\"\n\
                 secret-key = \"{{env AWS_SECRET_ACCESS_KEY}}\"\n";
    assert!(explained.stdout.contains(table), "{explained:?}");
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("again.toml");
    fs::write(&file, &explained.stdout).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let again = keyed(&USUAL, &["run", file, "--explain"]);
    assert_eq!(again.stdout, explained.stdout);
    let own = keyed(&[], &[&args[..], &["--user", "ID:se{{cr}}et", "--explain"]].concat());
    assert!(own.stdout.contains("access-key = \"ID\""), "{own:?}");
    fs::write(folder.path().join("again.toml"), &own.stdout).expect("a file");
    let again = keyed(&[], &["run", file, "--explain"]);
    assert_eq!(again.stdout, own.stdout);
}

#[test]
fn what_cannot_be_signed_is_refused_before_the_load() {
    let sign = ["--aws-sigv4", "aws:amz:us-east-1:s3"];
    let url = "http://127.0.0.1:1/";
    for (key, args, why) in [
        (&[][..], &[url][..], "the environment variable 'AWS_ACCESS_KEY_ID' is not set"),
        (&USUAL, &[url, "-H", "Authorization: x"], "its own header Authorization excludes"),
        (&USUAL, &["ws://127.0.0.1:1/"], "only requests of HTTP are signed for AWS"),
        (&USUAL, &[url, "--aws-sigv4", "aws:amz"], "write aws:amz:REGION:SERVICE"),
        (&[], &[url, "--user", "ID:two words"], "the secret of the key for AWS: it is empty"),
    ] {
        let twice = args.contains(&"--aws-sigv4");
        let args = [args, if twice { &[] } else { &sign[..] }].concat();
        let refused = keyed(key, &args);
        assert_eq!(refused.code, 2, "{args:?}: {refused:?}");
        assert!(refused.stderr.contains(why), "{args:?}: {refused:?}");
    }
    for (from, to, why) in [
        ("region = \"eu-central-1\"\n", "", "[aws-sigv4] needs a region and a service"),
        ("aws-sigv4 = false", "bare = true", "a `bare` request gets no headers"),
        ("\"execute-api\"", "\"a/b\"", "'a/b' is not the name of a service"),
        ("\"execute-api\"", "\"x\"\nsecret-key = \"{{counter}}\"", "can only be environment"),
    ] {
        assert!(PLAN.contains(from), "{from}");
        let (_folder, file) = written("http://127.0.0.1:1", &PLAN.replace(from, to));
        let refused = keyed(&USUAL, &["check", &file]);
        assert_eq!(refused.code, 2, "{to}: {refused:?}");
        assert!(format!("{refused:?}").contains(why), "{to}: {refused:?}");
    }
}
