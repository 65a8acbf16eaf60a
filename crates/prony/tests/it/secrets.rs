//! A marker in every place for secrets: no report, saved file or message contains it without
//! `--show-secrets`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread::{self, JoinHandle};

use tempfile::TempDir;

use crate::rig::{Ended, command, prony};

const SECRET: &str = "S3CR3Tpw";
/// The start of `me:S3CR3Tpw` in base64, as in basic authentication.
const ENCODED: &str = "bWU6UzNDUjNUcH";
const FILES: [&str; 8] = ["json", "html", "svg", "csv", "hgrm", "hlog", "xml", "md"];

const PLAN: &str = r#"
url = "http://me:S3CR3Tpw@virtual:80"
requests = 3
users = 1
headers = ["X-Auth-Token: S3CR3Tpw", "Accept: text/plain"]

[data.users]
file = "users.csv"

[data.more]
columns = ["key"]
rows = [["S3CR3Tpw"]]

[variables]
word = "S3CR3Tpw"

[[session]]
name = "login"

[[session.request]]
method = "POST"
path = "/login?password=S3CR3Tpw"
headers = { Private-Token = "S3CR3Tpw" }
body = "password=S3CR3Tpw&{{users.password}}{{more.key}}{{word}}"
extract = { token = { header = "X-Token", default = "S3CR3Tpw" } }

[[session.request]]
path = "/next?token={{token}}"
"#;

fn folder() -> TempDir {
    let dir = TempDir::new().expect("a folder");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect(name);
    write("headers", "X-Auth-Token: S3CR3Tpw\r\n\nAccept: text/plain\n");
    write("body", "password=S3CR3Tpw");
    write("users.csv", "name,password\nann,S3CR3Tpw\n");
    write("plan.toml", PLAN);
    let body = dir.path().join("body");
    let urls = "POST http://me:S3CR3Tpw@virtual/?key=S3CR3Tpw\nX-Api-Token: S3CR3Tpw\n@";
    write("urls", &format!("{urls}{}\n", body.display()));
    write(
        "log.wsesslog",
        "/a?key=S3CR3Tpw method=POST contents='p=S3CR3Tpw' headers='X: S3CR3Tpw'\n",
    );
    dir
}

/// Whether the text contains the secret in any form.
fn leaks(text: &str) -> bool {
    text.contains(SECRET) || text.contains(ENCODED)
}

/// Runs prony, and returns the result and the output files.
fn run(dir: &Path, words: &[&str]) -> (Ended, Vec<(String, String)>) {
    let paths = FILES.map(|ending| dir.join(format!("out.{ending}")).display().to_string());
    let outputs = paths.iter().flat_map(|path| ["-o", path]);
    let ended = prony(&words.iter().copied().chain(outputs).collect::<Vec<_>>());
    let read = |path: &String| (path.clone(), fs::read_to_string(path).expect("it is written"));
    (ended, paths.iter().map(read).collect())
}

#[test]
fn no_output_shows_a_secret() {
    let dir = folder();
    let in_folder = |name: &str| dir.path().join(name).display().to_string();
    let (headers, body) = (format!("@{}", in_folder("headers")), format!("@{}", in_folder("body")));
    let (urls, log, plan) = (in_folder("urls"), in_folder("log.wsesslog"), in_folder("plan.toml"));
    let url = "http://virtual/";
    // The words, and whether the command line or the plan contains the secret as text.
    let cases: [(&[&str], bool); 24] = [
        (&["-u", "me:S3CR3Tpw", url], true),
        (&["-ume:S3CR3Tpw", url], true),
        (&["--user=me:S3CR3Tpw", url], true),
        (&["-4u", "me:S3CR3Tpw", url], true),
        (&["-4ume:S3CR3Tpw", url], true),
        (&["load", "-u=me:S3CR3Tpw", url], true),
        (&["-H", "X-Auth-Token: S3CR3Tpw", url], true),
        (&["-HX-Session-Id:S3CR3Tpw", url], true),
        (&["-4H", "X: S3CR3Tpw", url], true),
        (&["-4HX: S3CR3Tpw", url], true),
        (&["--header=Cookie: a=S3CR3Tpw", url], true),
        (&["-H", &headers, url], true),
        (&["-b", "password=S3CR3Tpw", url], true),
        (&["-4bS3CR3Tpw", url], true),
        (&["--body=S3CR3Tpw", url], true),
        (&["-b", &body, url], false),
        (&["http://me:S3CR3Tpw@virtual/"], true),
        (&["me:S3CR3Tpw@virtual"], true),
        (&["http://virtual/?token=S3CR3Tpw&b=1"], true),
        (&["virtual?S3CR3Tpw"], true),
        (&["http://virtual/a;jsessionid=S3CR3Tpw/b"], true),
        (&["--urls", &urls], true),
        (&["--session", &log, "-c", "1", url], true),
        (&["run", &plan], true),
    ];
    for (words, is_text) in cases {
        let more: &[&str] = if words[0] == "run" { &[] } else { &["-n", "3"] };
        let words = [words, more, &["--simulate", "5", "--accept-invalid"]].concat();
        for format in ["text", "json"] {
            let words = [&words[..], &["--format", format]].concat();
            let (ended, files) = run(dir.path(), &words);
            assert!(!ended.stdout.is_empty(), "{words:?}: {ended:?}");
            assert!(!leaks(&ended.stdout) && !leaks(&ended.stderr), "{words:?}: {ended:?}");
            for (path, text) in &files {
                assert!(!leaks(text), "{words:?}: {path}: {text}");
                assert!(!text.contains("\"body\": ["), "{words:?}: {path}: bytes of the body");
            }
            let shown = [&words[..], &["--show-secrets"]].concat();
            let (ended, files) = run(dir.path(), &shown);
            let json = &files[0].1;
            assert_eq!(leaks(json), is_text, "{shown:?}: {ended:?}");
            // Saved reports hide it again.
            let again = prony(&["report", &files[0].0, "--format", "json", "--accept-invalid"]);
            assert!(again.stdout.contains("(hidden)") || !is_text, "{again:?}");
            assert!(!leaks(&again.stdout), "{again:?}");
        }
    }
}

#[test]
fn no_report_of_a_tls_connection_shows_a_secret() {
    let dir = folder();
    for words in [
        &["-ku", "me:S3CR3Tpw"][..],
        &["-kume:S3CR3Tpw"],
        &["-4ku", "me:S3CR3Tpw"],
        &["-kH", "X: S3CR3Tpw"],
        &["-kHX-Api-Key: S3CR3Tpw"],
    ] {
        // Nothing listens on this port.
        let words = [words, &["-c", "1", "-n", "1", "https://127.0.0.1:1/"]].concat();
        let (ended, files) = run(dir.path(), &words);
        assert!(!leaks(&ended.stdout) && !leaks(&ended.stderr), "{words:?}: {ended:?}");
        for (path, text) in files {
            assert!(!leaks(&text), "{words:?}: {path}: {text}");
        }
    }
}

#[test]
fn no_message_repeats_a_secret() {
    let dir = folder();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect(name);
        path.display().to_string()
    };
    let url = "http://virtual/";
    let mut cases: Vec<(Vec<String>, &str)> = Vec::new();
    let mut case = |words: &[&str], says: &'static str| {
        cases.push((words.iter().map(|w| (*w).to_owned()).collect(), says));
    };
    case(&["http://me:S3CR3Tpw@127.0.0.1:99999/"], "http://(hidden)@127.0.0.1:99999/");
    case(&["http://me:S3CR3Tpw/x@127.0.0.1/"], "not a number from 1 to 65535");
    case(&["http://me:S3CR3Tpw#x@127.0.0.1/"], "fragment");
    case(&["http://127.0.0.1:0/?key=S3CR3Tpw"], "'0' is not a port");
    case(&["http://127.0.0.1/ S3CR3Tpw"], "contains ' '");
    case(
        &["-H", "X-Auth-Token: S3CR3Tpw\r\n", url],
        "--header: the value of the header 'X-Auth-Token' contains '\\r'",
    );
    case(&["-HX: S3CR3Tpw\r\n", url], "contains '\\r'");
    case(&["-H", "Authorization Bearer S3CR3Tpw", url], "no colon");
    case(&["-H", "Authorization Basic me:S3CR3Tpw", url], "contains ' ' after 'Authorization'");
    case(&["-u", "S3CR3Tpw", url], "--user: has no password");
    case(&["-4uS3CR3Tpw", url], "--user: has no password");
    case(&["--usr=me:S3CR3Tpw", url], "--usr");
    case(&["-u", "me:S3CR3Tpw", "-H", "Authorization: S3CR3Tpw", url], "exclude each other");
    let headers = file("bad-headers", "Accept: a\nBearer S3CR3Tpw\n");
    case(&["-H", &format!("@{headers}"), url], "line 2: this is not a header");
    for (i, (line, says)) in [
        ("http://me:S3CR3Tpw@h:99999/", "(hidden)@h:99999"),
        ("http://h/\nX-Auth-Token:S3CR3Tpw", "not a number from 1 to 65535"),
        ("http://h/\nX-Auth-Token: S3CR3Tpw\u{1}", "contains '\\u{1}'"),
        ("http://h/\nAUTHORIZATION Bearer S3CR3Tpw", "contains ' '"),
        ("http://h/ S3CR3Tpw", "contains ' '"),
    ]
    .into_iter()
    .enumerate()
    {
        case(&["--urls", &file(&format!("urls{i}"), line)], says);
    }
    for (i, (plan, says)) in [
        ("url = \"http://me:S3CR3Tpw@h:99999/\"", "`url`"),
        ("url = \"http://h/\"\nheaders = [\"Bearer S3CR3Tpw\"]", "`headers`"),
        ("url = \"http://h/\"\nheaders = [\"X: S3CR3Tpw\\r\"]", "`headers`"),
        ("url = \"http://h/\"\nheaders = { X = \"S3CR3Tpw\\r\" }", "header 'X'"),
        ("url = \"http://h/\"\n[[request]]\nbody = { base64 = \"S3CR3Tpw!\" }", "base64"),
        ("url = \"http://h/\"\n[[session]]\nrequest = [\"me:S3CR3Tpw@h/\"]", "neither a path"),
    ]
    .into_iter()
    .enumerate()
    {
        case(&["run", &file(&format!("plan{i}.toml"), plan)], says);
    }
    case(
        &["--session", &file("bad.wsesslog", "/a method=POST content=S3CR3Tpw\n"), url],
        "not understood",
    );
    for (words, says) in cases {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ended = prony(&words);
        assert_eq!(ended.code, 2, "{words:?}: {ended:?}");
        assert!(!leaks(&ended.stderr) && !leaks(&ended.stdout), "{words:?}: {ended:?}");
        assert!(ended.stderr.contains(says), "{words:?}: {ended:?}");
    }
}

#[test]
fn names_options_with_control_characters() {
    for option in ["--host", "-T"] {
        let ended = prony(&[option, "x\ry", "http://virtual/"]);
        let name = if option == "-T" { "--content-type" } else { option };
        let sentence =
            format!("prony: {name} x\\ry: contains '\\r', which would break the request\n");
        assert_eq!((ended.code, ended.stderr), (2, sentence));
    }
}

#[test]
fn httperf_saves_no_secrets() {
    let dir = folder();
    let out = dir.path().join("out.json").display().to_string();
    let run = |more: &[&str]| {
        let words = ["httperf", "--port", "1", "--num-conns", "1", "--uri", "/?key=S3CR3Tpw"];
        let add = ["--add-h", "X-Auth-Token: S3CR3Tpw\\n", "--output", &out];
        let ended = prony(&[&words[..], &add, more].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        fs::read_to_string(&out).expect("it is written")
    };
    let hidden = run(&[]);
    assert!(!leaks(&hidden) && hidden.contains("--add-header=(hidden)"), "{hidden}");
    assert!(leaks(&run(&["--show-secrets"])));
}

#[test]
fn sends_headers_from_a_file() {
    let dir = folder();
    let explained = |words: &[&str]| {
        let ended =
            prony(&[words, &["--explain", "--seed", "1", "-n", "1", "http://virtual/"]].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.stdout
    };
    let file = format!("@{}", dir.path().join("headers").display());
    let typed = ["-H", "X-Auth-Token: S3CR3Tpw", "-H", "Accept: text/plain"];
    assert_eq!(explained(&["-H", &file]), explained(&typed));
}

#[test]
fn reports_of_plans_with_many_requests_are_small() {
    let dir = TempDir::new().expect("a folder");
    let (urls, out) = (dir.path().join("urls"), dir.path().join("out.json"));
    let lines: String = (0..1_000_000).map(|i| format!("http://virtual/{i}\n")).collect();
    fs::write(&urls, lines).expect("a file");
    let (urls, out) = (urls.display().to_string(), out.display().to_string());
    let words = ["--urls", &urls, "-n", "100", "--simulate", "1", "--accept-invalid", "-o", &out];
    let ended = prony(&words);
    assert_eq!(ended.code, 0, "{ended:?}");
    let json = fs::read_to_string(&out).expect("it is written");
    assert!(json.len() < 1_000_000, "{} bytes", json.len());
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(report["run"]["plan_size"]["requests"], 1_000_000);
    assert_eq!(report["plan"]["requests"].as_array().map(Vec::len), Some(100));
    let again = prony(&["report", &out, "--accept-invalid"]);
    assert_eq!(again.stdout, ended.stdout);
    assert!(again.stdout.contains("and 999,999 more in turn"), "{again:?}");
}

#[test]
fn documentation_lists_the_headers_that_reports_show() {
    let text = include_str!("../../../../SECURITY.md");
    let (_, list) = text.split_once("Harmless headers: ").expect("the list");
    let (list, _) = list.split_once("\n\n").expect("its end");
    let names = list.split('`').skip(1).step_by(2).map(str::to_lowercase);
    assert_eq!(names.collect::<Vec<_>>(), prony_base::secret::HARMLESS_HEADERS);
}

/// Starts a server for one request. Returns its address, and a thread that returns the request.
fn one_request() -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let (mut request, mut buffer) = (String::new(), [0; 4096]);
        while !request.contains("\r\n\r\n") {
            let n = stream.read(&mut buffer).expect("a request");
            assert!(n > 0, "a whole request: {request}");
            request += std::str::from_utf8(&buffer[..n]).expect("text");
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("a reply");
        request
    });
    (url, served)
}

#[test]
fn reads_user_and_password_from_a_file() {
    let dir = folder();
    let file = dir.path().join("user");
    let option = format!("@{}", file.display());
    fs::write(&file, "me:S3CR3Tpw\r\n").expect("a file");
    let (url, served) = one_request();
    let (ended, files) = run(dir.path(), &["-u", &option, "-n", "1", "-c", "1", &url]);
    // The newline is not part of the password.
    let request = served.join().expect("a request");
    assert!(request.contains("Authorization: Basic bWU6UzNDUjNUcHc=\r\n"), "{request}: {ended:?}");
    assert!(!leaks(&ended.stdout) && !leaks(&ended.stderr), "{ended:?}");
    for (path, text) in files {
        assert!(!leaks(&text), "{path}: {text}");
    }
    for (text, says) in [("S3CR3Tpw\n", "has no password"), ("a:b\nS3CR3Tpw\n", "one line")] {
        fs::write(&file, text).expect("a file");
        let ended = prony(&["-u", &option, &url]);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains(says) && !leaks(&ended.stderr), "{ended:?}");
    }
}

const OF_ENVIRONMENT: &str = r#"
requests = 1
users = 1

[variables]
word = "{{env PRONY_TEST_WORD}}"

[[session]]
[[session.request]]
path = "/?a={{env PRONY_TEST_KEY}}&b={{word}}"
headers = { X-Auth-Token = "{{env PRONY_TEST_KEY | base64}}" }
"#;

#[test]
fn sends_environment_variables_and_never_shows_them() {
    let dir = TempDir::new().expect("a folder");
    let plan = dir.path().join("plan.toml");
    let (url, served) = one_request();
    fs::write(&plan, format!("url = \"{url}\"{OF_ENVIRONMENT}")).expect("a plan");
    let path = plan.display().to_string();
    let run = |set: bool, words: &[&str]| {
        let mut prony = command(words);
        prony.env_remove("PRONY_TEST_KEY").env("PRONY_TEST_WORD", "S3CR3Tpw");
        if set {
            prony.env("PRONY_TEST_KEY", SECRET);
        }
        prony.output().expect("it runs")
    };
    let refused = run(false, &["run", &path]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("the environment variable 'PRONY_TEST_KEY' is not set"), "{stderr}");
    assert!(!leaks(&stderr), "{stderr}");

    let explained = run(true, &["run", &path, "--explain"]);
    let text = String::from_utf8_lossy(&explained.stdout);
    assert!(text.contains("{{env PRONY_TEST_KEY | base64}}") && !leaks(&text), "{text}");

    let json = dir.path().join("out.json").display().to_string();
    let html = dir.path().join("out.html").display().to_string();
    let ended = run(true, &["run", &path, "--show-secrets", "-o", &json, "-o", &html]);
    let request = served.join().expect("a request");
    assert!(request.starts_with("GET /?a=S3CR3Tpw&b=S3CR3Tpw "), "{request}");
    assert!(request.contains("X-Auth-Token: UzNDUjNUcHc=\r\n"), "{request}");
    let read = |path: &String| fs::read_to_string(path).expect("it is written");
    assert!(read(&json).contains("{{env PRONY_TEST_KEY}}"), "{}", read(&json));
    for bytes in [&ended.stdout, &ended.stderr, read(&json).as_bytes(), read(&html).as_bytes()] {
        let text = String::from_utf8_lossy(bytes);
        assert!(!leaks(&text) && !text.contains("UzNDUjNUcH"), "{text}");
    }
}
