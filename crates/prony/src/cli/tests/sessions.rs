//! Sessions from a file, with a load from options.

use clap::Parser as _;
use expect_test::expect;
use prony_run::environment::Environment;
use prony_run::plan_file;

use crate::cli::refusal::of_clap;
use crate::cli::{Cli, plan};

fn around() -> Environment {
    Environment {
        connections_max: 9,
        connections_why: "a reason".into(),
        seed: 1,
        simulated: false,
    }
}

/// The plan of a command line with a file of sessions, or the error message.
fn with_sessions(file: &str, text: &str, words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let line = ["prony", "--session", path, "--seed", "1"].into_iter().chain(words.iter().copied());
    let args = match Cli::try_parse_from(line) {
        Ok(cli) => cli.load,
        Err(e) => return of_clap(&e).to_string(),
    };
    match plan::plan(&args, &around()) {
        Ok(planned) => {
            let written = plan_file::explain(&planned.plan, &[]);
            let again = plan_file::parse("again", &written, None, &around()).unwrap();
            assert_eq!(again.plan, planned.plan, "{written}");
            written
        }
        Err(e) => e.to_string().replace(path, "FILE"),
    }
}

#[test]
fn reads_sessions_from_files() {
    let toml = "headers = { A = \"file\" }\nretries = 1\n[[session]]\nrequest = [\"/a\", [\"/b\", \"/c\"]]";
    expect![[r#"
        # Run it with: prony run FILE
        url = "http://h:81"
        host = "x"
        headers = ["B: b", "A: file", "Authorization: Basic dTpw"]
        rate = "100"
        connections = 9
        sessions = 5
        duration = "1m"
        seed = 1
        timeout = "30s"
        connect-timeout = "5s"
        expect = "404"
        session-connections = 3
        retries = 1

        [[session]]
        request = [
          "/a",
          ["/b", "/c"],
        ]
    "#]]
    .assert_eq(&with_sessions(
        "s.toml",
        toml,
        &"-H A:option -H B:b --host x -u u:p --rate 100 -d 1m --sessions 5 --session-connections 3 \
          --expect 404 http://h:81/"
            .split_whitespace()
            .collect::<Vec<_>>(),
    ));
    let log = "# by a recorder\n/a\n /b think=2\n";
    let of = |file| with_sessions(file, log, &["-d", "1s", "http://h/"]);
    assert_eq!(of("s.wsesslog"), of("s"));
    assert!(of("s").contains("users = 50"), "{}", of("s"));
    // The first line with content distinguishes the formats.
    assert!(with_sessions("s", toml, &["http://h/"]).contains("retries = 1"));
    assert!(with_sessions("s", "/a=b\n", &["http://h/"]).contains("\"/a=b\""));
}

#[test]
fn rejects_invalid_session_files() {
    let reported = [
        with_sessions("s", "/a x\n/b method=(\n/c\n", &["http://h/"]),
        with_sessions("s", "a\n /b\n", &["http://h/"]),
        with_sessions("s", "[[session]]\n", &["http://h/"]),
        with_sessions("s.toml", "", &["http://h/"]),
        with_sessions("s", "[[session]]\nrequest = [\"/\"]\n[rate]", &["http://h/"]),
        with_sessions("s", "rate = 1\nduration = 1\nreplace-lost = true\nrte = 1", &["http://h/"]),
        with_sessions("s", "/", &[]),
        with_sessions("s", "/", &["http://h/", "http://i/"]),
        with_sessions("s", "/", &["http://h/", "-m", "PUT"]),
    ];
    expect![[r#"
        FILE:1:4: this word is not understood; a URI can be followed by method=NAME, think=TIME, contents=TEXT, headers=LINES and name=TEXT
        prony: FILE:2:4: '(' is not a method; write GET, POST or the like
        FILE:1:1: the path 'a' does not start with '/'
        FILE:1:1: the session has no request; add [[session.request]] or request = [...]
        FILE:1:1: there is no session in the file; add [[session]]
        FILE:3:1: `rate` belongs to a plan, not to sessions; give it as an option, or carry the file out with `prony run`
        FILE:1:8: `rate` belongs to a plan, not to sessions; give it as an option, or carry the file out with `prony run`
        prony: FILE:2:12: `duration` belongs to a plan, not to sessions; give it as an option, or carry the file out with `prony run`
        prony: FILE:3:16: `replace-lost` belongs to a plan, not to sessions; give it as an option, or carry the file out with `prony run`
        prony: FILE:4:1: a file of sessions has no key `rte`; did you mean `rate`?
        --session needs exactly one URL: the paths in the file are relative to it
        --session needs exactly one URL: the paths in the file are relative to it
        the argument '--session <FILE>' cannot be used with '--method <NAME>'; `prony --help` lists all options
    "#]].assert_eq(&(reported.join("\n") + "\n"));
}
