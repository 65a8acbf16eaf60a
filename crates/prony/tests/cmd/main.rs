//! Commands and their exact output. `TRYCMD=overwrite cargo test -p prony --test cmd` writes the
//! expectations anew.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

/// A standard error with a closed reader.
fn gone() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    OwnedFd::from(writer).into()
}

#[test]
fn ignores_a_closed_standard_error() {
    let run = |words: &[&str], stderr: Stdio| {
        let mut prony = Command::new(env!("CARGO_BIN_EXE_prony"));
        prony.args(words).stderr(stderr).output().expect("prony runs")
    };
    assert_eq!(run(&["--nope"], gone()).status.code(), Some(2));
    // Port 1 of this machine refuses; the run is long enough for a line of progress.
    let words = ["http://127.0.0.1:1/", "-d", "5500ms", "-c", "1", "-t", "1"];
    let reported = run(&words, gone());
    assert_eq!(reported.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&reported.stdout).contains("connect-refused"));
    // The same with a full device.
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    assert_eq!(run(&["--nope"], full.into()).status.code(), Some(2));
}

#[test]
fn reports_the_connection_limit_that_the_machine_allows() {
    let limited = "ulimit -n 64; exec \"$0\" \"$@\"";
    let reported = Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_prony"), "http://127.0.0.1:1/"])
        .args(["-r", "100", "-n", "5", "-c", "100", "-t", "1"])
        .output()
        .expect("prony runs");
    let reported = String::from_utf8_lossy(&reported.stdout);
    let reported = reported.split_whitespace().collect::<Vec<_>>().join(" ");
    let left = reported.split("connection limit from 100 to ").nth(1).expect("a note");
    let left: u32 = left.split('.').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(left < 64 && reported.contains(&format!("at most {left} connections")), "{reported}");
}

/// All plan files in the documentation can be run.
#[test]
fn runs_the_plan_files_in_the_documentation() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plan-files.md");
    let page = fs::read_to_string(page).expect("the page");
    let blocks = |kind: &str| {
        let begin = format!("```{kind}\n");
        let parts = page.split(&begin).skip(1);
        let blocks = parts.map(|part| part.split("```").next().expect("its end").to_owned());
        blocks.collect::<Vec<_>>()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("login.json", "{}");
    write("users.csv", "name,password\nann,a1\nbob,b2\n");
    write("shop.wsesslog", &blocks("wsesslog")[0]);
    let plans = blocks("toml");
    assert!(plans.len() >= 5, "{} plans", plans.len());
    for plan in plans {
        write("plan.toml", &plan);
        let prony = |words: &[&str]| {
            let mut prony = Command::new(env!("CARGO_BIN_EXE_prony"));
            prony.current_dir(folder.path()).env("ORDERS_KEY", "secret").args(words);
            prony.env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").env("AWS_SECRET_ACCESS_KEY", "secret");
            let out = prony.output().expect("prony runs");
            let reported = [out.stdout, out.stderr].concat();
            (out.status.code(), String::from_utf8(reported).expect("text"))
        };
        let (code, reported) = prony(&["check", "plan.toml"]);
        assert!(code == Some(0) && reported.starts_with("plan.toml: OK: "), "{plan}\n{reported}");
        // An explained plan explains as itself.
        let (_, once) = prony(&["run", "plan.toml", "--explain", "--seed", "1"]);
        write("again.toml", &once);
        let (_, twice) = prony(&["run", "again.toml", "--explain"]);
        let comments = once.lines().filter(|line| line.starts_with('#')).count();
        assert_eq!(
            once.lines().skip(comments).collect::<Vec<_>>(),
            twice.lines().skip(1).collect::<Vec<_>>()
        );
    }
}

#[test]
fn commands_print_the_expected_output() {
    // Help is wrapped to the width of the terminal, which tests lack.
    trycmd::TestCases::new()
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .case("tests/cmd/*.trycmd")
        .run();
}
