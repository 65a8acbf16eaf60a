//! Bodies by line and URLs by pattern, against a server that keeps what it gets.

use std::collections::BTreeMap;
use std::fs;

use tempfile::TempDir;

use crate::replay::{Got, keeping};
use crate::rig::{drivers, prony};

/// How often each request was sent.
fn counts(got: impl Iterator<Item = Got>) -> BTreeMap<Got, u32> {
    let mut counts = BTreeMap::new();
    got.for_each(|request| *counts.entry(request).or_default() += 1);
    counts
}

fn written(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn each_line_is_sent_once_to_the_next_url() {
    let folder = TempDir::new().expect("a folder");
    let lines: Vec<String> = (0..30).map(|n| format!("{{{{{n}}}}} z\u{fc}, \"{n}\"")).collect();
    let text = lines.join("\r\n\n") + "\n";
    let file = written(&folder, "lines.txt", &text);
    for driver in drivers() {
        let (url, got) = keeping();
        let pattern = format!("{url}/{{cart,list}}/[08-10]?a=x&b=\\[1\\]");
        let load = ["--glob", "--body-lines", &file, "--body-pick", "unique", "-T", "text/plain"];
        let end = ["-c", "3", "-t", "2", "--driver", driver, "--accept-invalid", "--json"];
        let args = [&[&*pattern][..], &load, &end, &["-H", "X-A: {{no field}}"]].concat();
        let ended = prony(&args);
        assert_eq!(ended.code, 0, "{ended:?}");
        let sent = counts(got.try_iter());
        // The number of a request is that of its line; the last pattern varies first.
        let expected = lines.iter().enumerate().map(|(n, line)| {
            let (word, number) = (["cart", "list"][n / 3 % 2], ["08", "09", "10"][n % 3]);
            let line_of = format!("POST /{word}/{number}?a=x&b=[1]");
            ((line_of, Some("text/plain".to_owned()), line.clone().into_bytes()), 1)
        });
        assert_eq!(sent, expected.collect(), "{driver}");
        let report = ended.report();
        let note = "all rows of the table `bodies` were used (30 rows, each by one request";
        assert!(report.0.to_string().contains(note), "{}", report.0["run"]);
        // The explained plan sends the same.
        let explained = prony(&[&args[..], &["--explain"]].concat());
        let plan = written(&folder, "plan.toml", &explained.stdout);
        let again = prony(&["run", &plan, "-t", "2", "--accept-invalid", "--json"]);
        assert_eq!(again.code, 0, "{again:?} {}", explained.stdout);
        assert_eq!(counts(got.try_iter()), sent, "{driver}: {}", explained.stdout);
    }
}

#[test]
fn urls_in_turn_and_at_random_cover_their_patterns() {
    let (url, got) = keeping();
    let (one, two) = (format!("{url}/a/[1-4]"), format!("{url}/b/[a-c]"));
    let end = ["--glob", "-n", "48", "-c", "4", "-t", "2", "--accept-invalid", "--json"];
    let ended = prony(&[&[&*one, &*two][..], &end].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let mut expected = BTreeMap::new();
    for (path, times) in ["1", "2", "3", "4"].map(|n| (format!("GET /a/{n}"), 6)) {
        expected.insert((path, None, Vec::new()), times);
    }
    for (path, times) in ["a", "b", "c"].map(|c| (format!("GET /b/{c}"), 8)) {
        expected.insert((path, None, Vec::new()), times);
    }
    assert_eq!(counts(got.try_iter()), expected);
    let random = [&[&*one][..], &["--pick", "random", "--seed", "1", "-r", "400"], &end].concat();
    assert_eq!(prony(&random).code, 0);
    let sent = counts(got.try_iter());
    assert_eq!((sent.len(), sent.values().sum::<u32>()), (4, 48), "{sent:?}");
    assert!(sent.values().any(|n| *n != 12), "drawn, not in turn: {sent:?}");
    // Without --glob, a URL means what it says.
    assert_eq!(prony(&[&*one, "-n", "3", "--accept-invalid"]).code, 0);
    assert_eq!(counts(got.try_iter()), [(("GET /a/[1-4]".to_owned(), None, Vec::new()), 3)].into());
}

#[test]
fn plan_files_have_lines_as_rows() {
    let folder = TempDir::new().expect("a folder");
    written(&folder, "lines.txt", "one, two\nthree\n");
    let (url, got) = keeping();
    let plan = format!(
        "url = \"{url}\"\nrequests = 6\nconnections = 2\n\
         request = [\"/x?{{{{cycle.pick a 'b'}}}}\", \
         {{ path = \"/y\", body = \"{{{{orders.line}}}}\", name = \"y\" }}]\n\
         [data.orders]\nlines = \"lines.txt\"\npick = \"random\"\n"
    );
    let plan = written(&folder, "plan.toml", &plan);
    let ended = prony(&["run", &plan, "--accept-invalid", "--json", "--quiet"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let got: Vec<Got> = got.try_iter().collect();
    assert_eq!(got.len(), 6);
    for (line, _, body) in got {
        let known = ["", "one, two", "three"].map(str::as_bytes);
        assert!(known.contains(&&*body) && (line == "POST /y") != body.is_empty(), "{line}");
    }
}

#[test]
fn what_cannot_vary_is_refused_before_the_load() {
    let folder = TempDir::new().expect("a folder");
    let (empty, binary) =
        (written(&folder, "empty", "\n\n"), folder.path().join("binary").display().to_string());
    fs::write(&binary, [0xff, b'\n']).expect("written");
    let good = written(&folder, "good", "a\n");
    let url = "http://127.0.0.1:1/";
    for (args, why) in [
        (&[url, "--glob"][..], "--glob: no URL has a pattern"),
        (&["http://127.0.0.1:1/[1-", "--glob"], "'[' is not closed"),
        (&["http://127.0.0.1:1/[3-1]", "--glob"], "'[3-1]' is no range"),
        (&[url, "--body-lines", &empty], "has no lines"),
        (&[url, "--body-lines", &binary], "is not UTF-8 text"),
        (&[url, "--body-lines", "/no/such"], "/no/such"),
        (&[url, "--body-lines", &good, "-b", "x"], "cannot be used with"),
        (&["ws://127.0.0.1:1/", "--body-lines", &good], "only requests of HTTP vary"),
        (&[url, "--body-pick", "unique"], "--body-lines"),
        (
            &[url, "--body-lines", &good, "--body-pick", "unique", "--warmup", "1s"],
            "rows that are used once exclude a warm-up",
        ),
    ] {
        let refused = prony(args);
        assert_eq!(refused.code, 2, "{args:?}: {refused:?}");
        assert!(refused.stderr.contains(why), "{args:?}: {refused:?}");
    }
}
