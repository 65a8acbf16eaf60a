//! `prony report`: saved results shown again, and the HTML page in a real browser.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::rig::prony;

/// Runs a simulation with this format on standard output and these output files.
fn simulated(folder: &Path, rate: &str, format: &str, files: &[&str]) -> String {
    let files: Vec<String> = files.iter().map(|f| path(folder, f)).collect();
    let load = ["-r", rate, "-d", "4s", "--arrivals", "poisson", "--simulate-latency", "exp:2ms"];
    let more =
        ["--simulate", "5", "--format", format, "-H", "Cookie: secret", "http://virtual/?a&b"];
    let outputs = files.iter().flat_map(|f| ["-o", f.as_str()]);
    let ended = prony(&load.into_iter().chain(more).chain(outputs).collect::<Vec<_>>());
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.stdout
}

fn path(folder: &Path, file: &str) -> String {
    folder.join(file).to_str().expect("UTF-8").to_owned()
}

#[test]
fn saved_runs_give_identical_reports() {
    let dir = TempDir::new().expect("a folder");
    let dir = dir.path();
    let saved = path(dir, "run.json");
    let text = simulated(dir, "200", "text", &["run.json", "run.svg", "run.png"]);
    assert_eq!(prony(&["report", &saved]).stdout, text);
    // JSON and HTML contain the command line with the output files.
    for format in ["csv", "hgrm", "hlog", "svg"] {
        let again = prony(&["report", &saved, "--format", format]);
        assert_eq!((again.code, again.stderr.as_str()), (0, ""));
        assert_eq!(again.stdout, simulated(dir, "200", format, &[]), "{format}");
    }
    let json = prony(&["report", "--json", &saved]);
    assert_eq!(json.stdout, fs::read_to_string(&saved).expect("it was written"));
    let (png, svg) = (path(dir, "again.png"), path(dir, "again.svg"));
    assert_eq!(prony(&["report", &saved, "-o", &png, "-o", &svg]).code, 0);
    for (again, first) in [(png, "run.png"), (svg, "run.svg")] {
        let [again, first] =
            [again, path(dir, first)].map(|f| fs::read(f).expect("it was written"));
        assert!(again == first && !again.is_empty(), "{} {}", again.len(), first.len());
    }
}

#[test]
fn compares_several_runs() {
    let dir = TempDir::new().expect("a folder");
    let dir = dir.path();
    let files = ["before.json", "after.json"];
    for (rate, file) in ["200", "300"].into_iter().zip(files) {
        simulated(dir, rate, "csv", &[file]);
    }
    let [before, after] = files.map(|f| path(dir, f));
    let html = path(dir, "both.html");
    let both = prony(&["report", &before, &after, "-o", &html]);
    assert_eq!((both.code, both.stderr.as_str()), (0, ""));
    let target = both.stdout.lines().find(|l| l.trim_start().starts_with("target rate"));
    let target: Vec<&str> = target.expect("two open loops").split_whitespace().collect();
    assert_eq!(target, ["target", "rate", "200/s", "300/s", "+100/s", "(+50.0", "%)", "-"]);
    // The intervals of 200 and 300 requests per second are far apart.
    let rate = both.stdout.lines().find(|l| l.trim_start().starts_with("completed rate"));
    let rate: Vec<&str> = rate.expect("a rate").split_whitespace().collect();
    assert!(rate.len() == 8 && rate[4].starts_with('+') && rate[7] == "yes", "{rate:?}");
    let page = fs::read_to_string(html).expect("it was written");
    assert!(page.contains(" %)</td><td>yes</td>"), "{page}");
    assert!(
        page.contains(">before</th>") && page.contains(">after</th>") && !page.contains("secret")
    );
    for (to, option) in [(["--format", "hgrm"], "--format"), (["-o", "x.xml"], "--output x.xml")] {
        let refused = prony(&[&["report", &before, &after][..], &to].concat());
        assert_eq!(refused.code, 2, "{refused:?}");
        assert_eq!(
            refused.stderr,
            format!(
                "prony: {option}: this format can show one run, not 2; give one FILE, or use text, \
                 html, json, csv, md, svg or png\n"
            )
        );
    }
}

/// An invalid run sets the exit code; a comparison marks it.
#[test]
fn invalid_runs_are_marked_in_a_comparison() {
    let dir = TempDir::new().expect("a folder");
    let dir = dir.path();
    simulated(dir, "200", "csv", &["good.json"]);
    let [good, short] = ["good.json", "short.json"].map(|f| path(dir, f));
    let load = ["-r", "100", "-d", "2s", "--simulate", "5", "--percentile", "99.9", "--format"];
    assert_eq!(prony(&[&load[..], &["csv", "-o", &short, "http://virtual/"]].concat()).code, 98);
    let reported = prony(&["report", &short]);
    assert_eq!((reported.code, reported.stderr.as_str()), (98, ""));
    assert!(reported.stdout.contains("TOO-SHORT"), "{}", reported.stdout);
    let page = path(dir, "both.html");
    let compared = prony(&["report", &good, &short, "-o", &page]);
    assert_eq!((compared.code, compared.stderr.as_str()), (0, ""));
    let heads = compared.stdout.lines().find(|l| l.contains("difference")).expect("the columns");
    let heads: Vec<&str> = heads.split("  ").map(str::trim).filter(|h| !h.is_empty()).collect();
    assert_eq!(heads, ["1", "not valid: 2", "difference", "outside both"]);
    assert!(compared.stdout.contains("\n  short: TOO-SHORT: "), "{}", compared.stdout);
    let page = fs::read_to_string(&page).expect("it was written");
    assert!(page.contains("<th scope=\"col\">short <em>(not valid)</em></th>"), "{page}");
    assert!(page.contains("<th scope=\"col\">good</th>"), "{page}");
    for files in [&[&short[..]][..], &[&good, &short]] {
        let accepted = prony(&[&["report", "--accept-invalid"], files].concat());
        assert_eq!((accepted.code, accepted.stderr.as_str()), (0, ""));
    }
}

#[test]
fn rejects_files_that_are_not_saved_results() {
    let dir = TempDir::new().expect("a folder");
    let dir = dir.path();
    let saved = "run.json";
    simulated(dir, "100", "csv", &[saved]);
    let good = fs::read_to_string(dir.join(saved)).expect("it was written");
    let wrong = good.replacen("\"replies_in_drain\": ", "\"replies_in_drain\": 999", 1);
    assert_ne!(good, wrong);
    let cases: [(&[u8], &str); 6] = [
        (b"", "this is not a JSON report of prony: line 1, column 0"),
        (b"start_s,length_s\n", "this is not a JSON report of prony: line 1, column 1"),
        (b"{\"results\": []}", "`schema` is missing"),
        (b"{\"schema\": 2}", "has schema 2, but this prony reads schema 1: use a newer one"),
        (
            b"\x89PNG\xff",
            "not a text file; expected a result saved with `--json` or `-o FILE.json`",
        ),
        (wrong.as_bytes(), "its counts contradict each other"),
    ];
    let file = path(dir, "file");
    for (bytes, sentence) in cases {
        fs::write(&file, bytes).expect("it can be written");
        let refused = prony(&["report", &file]);
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{sentence}");
        assert!(refused.stderr.starts_with(&format!("prony: {file}: ")), "{}", refused.stderr);
        assert!(refused.stderr.contains(sentence), "{}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1);
    }
    let missing = prony(&["report", &path(dir, "missing")]);
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("cannot be read: no such file"), "{}", missing.stderr);
}

/// A browser for headless use, if one is installed (`cargo xtask ci` requires one).
pub(crate) fn browser() -> Option<String> {
    let named = std::env::var("PRONY_TEST_CHROMIUM").ok();
    let name = named.clone().unwrap_or_else(|| "chromium".to_owned());
    let there = Command::new(&name).arg("--version").output().is_ok_and(|o| o.status.success());
    assert!(there || named.is_none(), "{name} was named as a Chromium, but cannot be run");
    if !there {
        eprintln!("skipped: no Chromium");
    }
    there.then_some(name)
}

/// Each kind of page in a browser: the rules of axe-core, links within the page, and what is cut
/// off or wraps at the widths of a large and a small laptop, a tablet and a phone.
#[test]
fn pages_are_accessible_and_fit_every_screen() {
    let both = (browser(), std::env::var_os("PRONY_TEST_AXE"));
    let (Some(browser), Some(axe)) = both else { return };
    let dir = TempDir::new().expect("a folder");
    let at = |name: &str| path(dir.path(), name);
    let simulated = |words: &[&str], files: &[&str]| {
        let world = ["--simulate", "1", "--simulate-latency", "exp:20ms", "--accept-invalid"];
        let files: Vec<String> = files.iter().map(|file| at(file)).collect();
        let files = files.iter().flat_map(|file| ["-o", file.as_str()]);
        let words: Vec<&str> = words.iter().copied().chain(world).chain(files).collect();
        let ran = prony(&words);
        assert!([0, 99].contains(&ran.code), "{words:?}: {ran:?}");
    };
    let url = "http://example.test/";
    let limits = ["--threshold", "p99 < 200ms", "--threshold", "p50 < 1ms"];
    let load = [&[url, "-r", "50", "-d", "60s", "--check", "status == 200"], &limits[..]].concat();
    simulated(&load, &["load.html", "a.json"]);
    simulated(&[url, "-r", "60", "-d", "60s"], &["b.json"]);
    let model = ["llm", url, "--model", "m", "-c", "8", "-d", "60s", "--slo", "ttft < 50ms"];
    simulated(&model, &["model.html"]);
    let capacity = ["capacity", url, "--threshold", "p99 < 200ms", "--simulate-workers", "2"];
    simulated(&capacity, &["capacity.html"]);
    let runs = [at("a.json"), at("b.json")];
    let [a, b] = runs.each_ref().map(String::as_str);
    assert_eq!(prony(&["report", a, b, "-o", &at("both.html")]).code, 0);
    let many: Vec<&str> = ["report", "--trend"].into_iter().chain([a, b].repeat(6)).collect();
    assert_eq!(prony(&[&many[..], &["-o", &at("trend.html")]].concat()).code, 0);
    let names = ["load", "model", "capacity", "both", "trend"];
    let pages = names.map(|name| at(&format!("{name}.html")));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pages.py");
    let looked = Command::new("python3")
        .args([script, &browser, &at("profile")])
        .arg(axe)
        .arg("1440,1280,820,390")
        .args(pages)
        .output()
        .expect("python3");
    assert!(looked.status.success(), "{looked:?}");
    let findings = String::from_utf8_lossy(&looked.stdout);
    assert_eq!(findings, "", "{findings}");
}

/// A frame around the page. It reports by how much the page is wider than its window, the number of
/// visible plots, and the size of their letters.
const AROUND: &str = "<iframe style='border:0;width:WIDTHpx;height:900px' src='PAGE' onload='\
     const d = this.contentDocument;\
     const seen = [...d.querySelectorAll(\"svg.plot\")].filter(s => s.checkVisibility());\
     const letters = seen.map(s => s.getScreenCTM().a * 12);\
     document.body.dataset.reported = [d.documentElement.scrollWidth - d.documentElement.clientWidth, seen.length, \
       Math.round(Math.min(...letters))].join(\" \")'></iframe>";

#[test]
fn a_browser_shows_the_page_at_every_width() {
    let Some(browser) = browser() else { return };
    let dir = TempDir::new().expect("a folder");
    let dir = dir.path();
    let files = ["a.json", "b.json"];
    simulated(dir, "2k", "csv", &["one.html", files[0]]);
    simulated(dir, "3k", "csv", &[files[1]]);
    let [a, b] = files.map(|f| path(dir, f));
    assert_eq!(prony(&["report", &a, &b, "-o", &path(dir, "two.html")]).code, 0);
    for (page, plots) in [("one.html", 5), ("two.html", 4)] {
        for width in [360, 1_200] {
            let around = AROUND.replace("WIDTH", &width.to_string()).replace("PAGE", page);
            fs::write(dir.join("around.html"), around).expect("it can be written");
            let out = Command::new(&browser)
                .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
                .args(["--disable-background-networking", "--disable-component-update"])
                // The browser can access only files in the directory.
                .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--allow-file-access-from-files"])
                .args(["--enable-logging=stderr", "--window-size=1300,1000", "--dump-dom"])
                .arg(format!("--user-data-dir={}", path(dir, "profile")))
                .arg(format!("file://{}", path(dir, "around.html")))
                .output()
                .expect("it was there a moment ago");
            let (dom, log) =
                (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
            // The console reports policy violations and failed loads.
            let console: Vec<&str> = log.lines().filter(|l| l.contains("CONSOLE")).collect();
            assert!(console.is_empty(), "{page} at {width}: {console:?}");
            let reported = dom.split("data-reported=\"").nth(1).and_then(|d| d.split('"').next());
            let reported =
                reported.unwrap_or_else(|| panic!("{page} was not shown:\n{dom}\n{log}"));
            let reported: Vec<u32> =
                reported.split(' ').map(|n| n.parse().expect("a number")).collect();
            assert_eq!(reported[..2], [0, plots], "{page} at {width}: too wide by, plots");
            assert!(
                (10..=16).contains(&reported[2]),
                "{page} at {width}: letters of {} px",
                reported[2]
            );
        }
    }
}
