//! Invalid input is refused before any load starts: exit code 2, one sentence, and no connection.

use std::fs;
use std::process::{Command, Stdio};

use expect_test::{ExpectFile, expect, expect_file};
use tempfile::TempDir;

use crate::rig::{Serve, command, inherited_descriptors, prony, reserved_port, served};

/// Compares the errors of these command lines with a golden file. Text that changes between runs is
/// replaced.
fn refused(lines: &[&[&str]], replaced: &[(&str, &str)], golden: ExpectFile) {
    let mut all = String::new();
    for args in lines {
        let ended = prony(args);
        assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{args:?}");
        let sentence = ended.stderr.trim_end();
        assert_eq!(sentence.lines().count(), 1, "one sentence: {sentence}");
        let typed: Vec<String> = args.iter().map(|a| shown(a)).collect();
        all += &format!("$ prony {}\n{sentence}\n\n", typed.join(" "));
    }
    for (what, by) in replaced {
        all = all.replace(what, by);
    }
    golden.assert_eq(&all);
}

/// The argument in shell syntax.
fn shown(arg: &str) -> String {
    match arg.contains(|c: char| c.is_whitespace()) {
        true => format!("{arg:?}"),
        false => arg.to_owned(),
    }
}

#[test]
fn rejects_invalid_options() {
    let url = "http://127.0.0.1:1/";
    let lines: &[&[&str]] = &[
        &["--no-such-option"],
        &[],
        &["--rate"],
        &["-c", "0", url],
        &["-c", "many", url],
        &["-n", "1.5", url],
        &["-d", "soon", url],
        &["-r", "1k@10s,oops", url],
        &["-r", "1k@10s,5k", url, "--arrivals", "gauss"],
        &["-r", "1k", "--think", "5ms", url],
        &["-r", "1k", "--arrivals", "gamma:0.001", url],
        &["-r", "1k", "--arrivals", "uniform:1ms:2ms", url],
        &["--arrivals", "poisson", url],
        &["-p", "4", "--no-reuse", url],
        &["-p", "4", "--http", "1.0", url],
        &["-p", "4", "--h2c", url],
        &["-p", "4", "--http", "2", "https://127.0.0.1:1/"],
        &["--h2c", "--fill", "--spread", url],
        &["--spread", url],
        &["-H", "no colon", url],
        &["-H", "A: b\nC: d", url],
        &["-m", "G T", url],
        &["--expect", "700", url],
        &["--think", "often", url],
        &["--http", "3", url],
        &["--driver", "dpdk", url],
        &["--format", "xml", url],
        &["--source", "here", url],
        &["-x", "socks5://127.0.0.1:1", url],
        &["-x", "name:secret@127.0.0.1:0", url],
        &["-x", "127.0.0.1:1", "--connect-to", "127.0.0.1:2", url],
        &["-U", "name:pass", url],
        &["--proxytunnel", url],
        &["-x", "127.0.0.1:1", "--simulate", "1", url],
        &["-x", "127.0.0.1:1", "--threshold", "tunnel.p99 < 1s", url],
    ];
    refused(lines, &[], expect_file!["refusals/options.txt"]);
}

#[test]
fn rejects_invalid_urls() {
    let urls = [
        "https://",
        "ftp://127.0.0.1/",
        "http://",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1/a b",
        "http://no-such-host.invalid/",
    ];
    let lines = urls.map(|url| ["-n", "1", url]);
    // Without a network, the resolver has other error messages.
    let words = ["Name or service not known", "Temporary failure in name resolution"];
    let words = words.map(|w| (w, "WHY"));
    refused(&lines.each_ref().map(|l| &l[..]), &words, expect_file!["refusals/urls.txt"]);
}

#[test]
fn rejects_invalid_files() {
    let folder = TempDir::new().expect("a folder");
    let dir = folder.path().to_str().expect("UTF-8");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let missing = format!("{dir}/missing");
    let urls = file("urls", "http://127.0.0.1:1/\nhttp://[broken/\n");
    let empty = file("empty", "# nothing\n");
    let trace = file("trace", "0.1\n0.3\n0.2\n");
    let url = "http://127.0.0.1:1/";
    let lines: &[&[&str]] = &[
        &["--urls", &missing],
        &["--urls", &urls],
        &["--urls", &empty],
        &["--arrivals", &format!("trace:{missing}"), url],
        &["--arrivals", &format!("trace:{trace}"), url],
        &["-b", &format!("@{missing}"), url],
        &["-o", &format!("{missing}/out.json"), url],
        &["-o", &format!("{dir}/out.pdf"), url],
        &["-o", dir, url],
    ];
    refused(lines, &[(dir, "DIR")], expect_file!["refusals/files.txt"]);
}

#[test]
fn rejects_invalid_addresses_to_serve_on() {
    let server = Serve::start(&[]);
    let taken = server.url("").replace("http://", "");
    let port = taken.rsplit_once(':').expect("a port").1.to_owned();
    let lines: &[&[&str]] = &[
        &["serve", &taken],
        &["serve", "192.0.2.1:80"],
        &["serve", "nowhere"],
        &["serve", "unix:/no/such/folder/socket"],
        &["serve", "--latency", "slow"],
        &["serve", "--stall", "1s"],
        &["serve", "--status", "99"],
        &["serve", "--close-after", "0"],
        &["serve", "--reset", "200%"],
        &["serve", "--workers", "0"],
        &["serve", "--max-streams", "x"],
        &["serve", "--goaway-after", "0"],
        &["serve", "--size", "big"],
    ];
    refused(lines, &[(&port, "PORT")], expect_file!["refusals/serve.txt"]);
}

#[test]
fn refused_runs_do_not_connect() {
    let server = Serve::start(&[]);
    let url = server.url("/");
    for args in [
        &["-n", "5", "-o", "/no/such/folder/out.json", &url][..],
        &["-n", "5", &url, "http://no-such-host.invalid/"],
        &["-n", "5", "--rate", "1k@", &url],
    ] {
        assert_eq!(prony(args).code, 2, "{args:?}");
    }
    assert_eq!(served(&server.stop(), "connections"), 0);
}

/// A limit of open files that is too low, counted from the files that are already open: cargo may
/// pass on the pipe of its job server.
#[test]
fn rejects_plans_with_too_few_file_descriptors() {
    let nobody = reserved_port();
    let url = format!("http://127.0.0.1:{nobody}/");
    let inherited = inherited_descriptors();
    let limit = inherited + 40;
    let ended = Command::new("sh")
        .args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")])
        .arg(command(&[]).get_program())
        .args(["-c", "500", "-n", "1000", "-t", "1", "--quiet", &url])
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(2), "{inherited} inherited: {text}");
    // 8 of the 40 are for the worker, and 16 for the rest of the process.
    expect![[r#"
        prony: 500 connections exceed the limit of LIMIT open files, which allows 16;
        raise the limit (ulimit -n) or use fewer connections"#]]
    .assert_eq(&text.trim_end().replace("; ", ";\n").replace(&limit.to_string(), "LIMIT"));
}

/// Error messages with suggestions.
#[test]
fn suggests_corrections() {
    let dir = TempDir::new().expect("a folder");
    let binary = dir.path().join("binary");
    fs::write(&binary, [&b"a = 1\n"[..], &[0, 1, 2, 0xff, b'\n'].repeat(100)].concat())
        .expect("a file");
    let binary = binary.to_str().expect("UTF-8");
    let url = "http://127.0.0.1:1/";
    let cases: [(&[&str], &str); 7] = [
        (&["lod", url], "unknown command 'lod'; did you mean 'load'?"),
        (&["spectrm", "-d", "1s", url], "did you mean 'spectrum'?"),
        (&["unix:/run/x"], "`--unix-socket /run/x http://localhost/`"),
        (&["-d", "@body.json", url], "for the request body use -b (--body)"),
        (&["-o", "-", url], "set its format with --format"),
        (&["-o", "/nowhere/a\nb.json", url], "--output /nowhere/a\\nb.json: cannot be written"),
        (&["check", binary], "this is not text; expected a plan file (TOML) or a session file"),
    ];
    for (args, part) in cases {
        let ended = prony(args);
        assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(part), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn simulations_fill_in_values_that_replies_lack() {
    let dir = TempDir::new().expect("a folder");
    let plan = |extract: &str| {
        let file = dir.path().join("plan.toml");
        let text = format!(
            "url = \"http://127.0.0.1:1/\"\nusers = 2\nsessions = 10\n[[session]]\n\
             request = [{{ path = \"/\", extract = {{ token = {{ {extract} }} }} }}, \
             \"/{{{{token}}}}\"]\n"
        );
        fs::write(&file, text).expect("a file");
        file.to_str().expect("UTF-8").to_owned()
    };
    let run = |extract| prony(&["run", &plan(extract), "--simulate", "1", "--accept-invalid"]);
    let ended = run("json = \"/token\"");
    assert_eq!(ended.code, 0, "{ended:?}");
    let note = "Replies of the simulated target have no value for `token`";
    assert!(ended.stdout.contains(note), "{ended:?}");
    assert!(ended.stdout.contains("20 replies") && ended.stdout.contains("VALID"), "{ended:?}");
    assert!(!run("json = \"/token\", default = \"x\"").stdout.contains("no value for"));
    assert_eq!(run("json = \"/token\", default = \"x\"").code, 0);
}

#[test]
fn a_single_request_has_no_rate() {
    let ended = prony(&["-r", "0.001", "-n", "1", "--simulate", "1", "http://127.0.0.1:1/"]);
    assert!(ended.stdout.contains("1 completed, too few for a rate"), "{ended:?}");
    assert!(ended.stdout.contains("target 0.00100/s"), "{ended:?}");
}
