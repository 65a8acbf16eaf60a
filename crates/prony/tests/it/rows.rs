//! Rows of tables that only one session has, on the kernel: over threads and shards.

use std::collections::BTreeSet;
use std::fs;

use tempfile::TempDir;

use crate::rig::{Other, drivers, have, measure, prony, wait_until};

const NGINX: &str = "
    log_format line '$uri';
    access_log @DIR@/access.log line;
    server {
        listen 127.0.0.1:@PORT@;
        location / { return 200 'ok'; }
    }
";

/// A plan with 60 unique rows, for a minute.
fn written(server: &Other, exhausted: &str) -> (TempDir, String) {
    let folder = TempDir::new().expect("a folder");
    let rows: String = (0..60).map(|row| format!("u{row}\n")).collect();
    fs::write(folder.path().join("users.csv"), format!("id\n{rows}")).expect("a file");
    let plan = format!(
        "url = '{}'\nusers = 4\nduration = '1m'\n\
         [data.users]\nfile = 'users.csv'\npick = 'unique'\nexhausted = '{exhausted}'\n\
         [[session]]\nrequest = ['/{{{{users.id}}}}/{{{{counter 1000 10}}}}']\n",
        server.url("")
    );
    let file = folder.path().join("plan.toml");
    fs::write(&file, plan).expect("a file");
    (folder, file.to_str().expect("UTF-8").to_owned())
}

#[test]
fn no_two_sessions_have_the_same_row() {
    if !have("nginx") {
        return;
    }
    let server = Other::nginx(NGINX);
    let (_folder, file) = written(&server, "stop");
    let log = || fs::read_to_string(server.file("access.log")).unwrap_or_default();
    let expected: BTreeSet<_> = (0..60).map(|row| format!("/u{row}/{}", 1000 + 10 * row)).collect();
    let mut runs = 0;
    let mut check = |what: &str| {
        runs += 1;
        wait_until("all requests in the log", || log().lines().count() == 60 * runs);
        let log = log();
        let seen: BTreeSet<_> = log.lines().skip(60 * (runs - 1)).map(str::to_owned).collect();
        assert_eq!(seen, expected, "{what}");
    };
    for driver in drivers() {
        let report = measure(&["run", &file, "--driver", driver, "--threads", "2"]);
        assert_eq!((report.count("replies"), report.count("failed")), (60, 0), "{driver}");
        let notes = report.0["run"]["notes"].to_string();
        assert!(notes.contains("all rows of the table `users` were used (60 rows"), "{notes}");
        check(driver);
    }
    let shards = ["1/3", "2/3", "3/3"].map(|shard| {
        let ended = prony(&["run", &file, "--shard", shard, "--json", "--quiet", "--seed", "7"]);
        ended.report().count("replies")
    });
    // Each of the four users has its part of the rows; the first share has two of them.
    assert_eq!(shards, [30, 15, 15]);
    check("shards");
}

#[test]
fn explains_and_refuses_policies() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("plan.toml");
    let explained = |table: &str| {
        let plan = format!(
            "url = 'http://127.0.0.1:1'\nusers = 1\nsessions = 1\n\
             [data.t]\n{table}\ncolumns = ['a']\nrows = [['1'], ['2']]\n\
             [[session]]\nrequest = ['/{{{{t.a}}}}']\n"
        );
        fs::write(&file, plan).expect("a file");
        prony(&["run", file.to_str().expect("UTF-8"), "--explain", "--seed", "1"])
    };
    let unique = explained("pick = 'unique'\nexhausted = 'fail'");
    assert!(unique.stdout.contains("pick = \"unique\"\nexhausted = \"fail\"\n"), "{unique:?}");
    let stop = explained("pick = 'unique'");
    assert!(stop.stdout.contains("pick = \"unique\"\n"), "{stop:?}");
    assert!(!stop.stdout.contains("exhausted"), "{stop:?}");
    for (table, why) in [
        ("exhausted = 'fail'", "`exhausted` is for rows that are used once"),
        ("pick = 'unique'\nexhausted = 'end'", "'end' is unknown; write \"stop\" or \"reuse\""),
        ("pick = 'once'", "'once' is unknown; write \"in-turn\" or \"random\" or \"unique\""),
    ] {
        let refused = explained(table);
        assert_eq!(refused.code, 2, "{table}: {refused:?}");
        assert!(refused.stderr.contains(why), "{table}: {refused:?}");
    }
}
