//! `prony compare`: what it finds, its exit codes, and the servers that it starts.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::json_schema;
use crate::rig::{Ended, Running, Serve, alone, prony, served, wait_until, waiting};

/// Blocks of 1,000 requests in virtual time, with the medians of A and B in microseconds.
fn simulated(b: &str, more: &[&str]) -> Ended {
    let load =
        ["compare", "http://a/", "http://b/", "-r", "1k", "--arrivals", "poisson", "-d", "1s"];
    let world = ["--simulate", "5", "--simulate-latency", "exp:1ms", "--simulate-latency-b", b];
    prony(&[&load[..], &world[..], &["--warmup", "100ms", "--quiet"], more].concat())
}

fn json(ended: &Ended) -> Value {
    let report = serde_json::from_str(&ended.stdout);
    let report = report.unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    json_schema::check("comparison-1.json", &report);
    report
}

/// The change of a figure.
fn change<'a>(report: &'a Value, figure: &str) -> &'a Value {
    let all = report["changes"].as_array().expect("a list");
    all.iter().find(|c| c["figure"] == figure).unwrap_or_else(|| panic!("{figure}: {report}"))
}

#[test]
fn a_slower_target_is_found() {
    let ended = simulated("exp:1300us", &["--json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = json(&ended);
    let p50 = change(&report, "p50");
    assert_eq!(p50["outcome"], "higher", "{p50}");
    let end = |name: &str| p50[name].as_f64().expect("a number");
    // The network takes 100 us of both.
    let ratio = (1_300.0 * 2_f64.ln() + 100.0) / (1_000.0 * 2_f64.ln() + 100.0);
    assert!(end("ratio_lo") < ratio && ratio < end("ratio_hi"), "{p50}");
    assert_eq!(change(&report, "p99.9")["outcome"], "undecided");
    assert_eq!(report["targets"][1]["label"], "B");
    let again = simulated("exp:1300us", &["--json"]);
    assert_eq!(ended.stdout, again.stdout, "the same to the byte");
    let text = simulated("exp:1300us", &[]).stdout;
    assert!(text.contains("p50 is ") && text.contains("% longer in B ("), "{text}");
}

/// A line for each block says what is known so far.
#[test]
fn progress_shows_the_answer_so_far() {
    let load = ["compare", "http://a/", "http://b/", "-r", "1k", "--blocks", "4"];
    let world = ["--simulate", "5", "--simulate-latency", "exp:1ms"];
    let b = ["--simulate-latency-b", "exp:2ms"];
    let ended = prony(&[&load[..], &world[..], &b].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 8, "{lines:?}");
    assert!(lines[0].starts_with("prony: block 1 of at most 8: "), "{lines:?}");
    assert!(lines[..3].iter().all(|line| !line.contains("so far")), "{lines:?}");
    assert!(lines[5].contains("; so far p50 +") && lines[5].ends_with(" %)"), "{lines:?}");
}

#[test]
fn exit_codes_say_whether_a_change_is_accepted() {
    let of = |b: &str, limit: &str| simulated(b, &["--fail-if", limit]).code;
    assert_eq!(of("exp:1300us", "p50 > +5%"), 99);
    assert_eq!(of("exp:1ms", "p50 > +20%"), 0);
    assert_eq!(of("exp:1ms", "p99.9 > +5%"), 125, "1,000 requests carry no p99.9");
    assert_eq!(of("exp:1300us", "rate < -3%"), 0);
}

#[test]
fn a_comparison_is_written_in_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let names = ["a.json", "b.html", "c.svg", "d.png", "e.md"].map(file);
    let files: Vec<&str> = names.iter().flat_map(|name| ["-o", name]).collect();
    let ended = simulated("exp:1ms", &[&files[..], &["--blocks", "3"]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let page = fs::read_to_string(&names[1]).expect("a page");
    assert!(page.contains("Shift function") && page.contains("Over time"), "{page}");
    assert!(names.iter().all(|name| fs::metadata(name).is_ok_and(|m| m.len() > 500)));
    let refused = simulated("exp:1ms", &["-o", &file("f.csv")]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("can be written as .html, .svg, .png, .json or .md"));
}

#[test]
fn saved_results_are_compared_by_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |name: &str, seed: &str, latency: &str, rate: &str| {
        let path = folder.path().join(name).to_str().expect("a path").to_owned();
        let load = ["-r", rate, "--arrivals", "poisson", "-d", "20s", "http://v/", "--quiet"];
        let world = ["--simulate", seed, "--simulate-latency", latency, "-o", &path];
        assert_eq!(prony(&[&load[..], &world[..]].concat()).code, 0);
        path
    };
    let old: Vec<String> =
        ["1", "2", "3"].map(|s| run(&format!("old{s}.json"), s, "exp:1ms", "1k")).into();
    let new: Vec<String> =
        ["4", "5", "6"].map(|s| run(&format!("new{s}.json"), s, "exp:2ms", "1k")).into();
    let of = |a: &[String], b: &[String], more: &[&str]| {
        let a = a.iter().map(String::as_str);
        let all: Vec<&str> = ["compare", "--json"]
            .into_iter()
            .chain(more.iter().copied())
            .chain(a)
            .chain(["--"])
            .chain(b.iter().map(String::as_str))
            .collect();
        prony(&all)
    };
    let groups = of(&old, &new, &[]);
    assert_eq!(groups.code, 0, "{groups:?}");
    assert_eq!(change(&json(&groups), "p50")["outcome"], "higher");
    assert!(groups.stdout.contains("variance between the runs of each side is part"));
    let alone = of(&old[..1], &new[..1], &["--fail-if", "p50 > +5%"]);
    assert_eq!(alone.code, 99, "{alone:?}");
    assert!(alone.stdout.contains("only the variance within the runs is known"), "{alone:?}");
    // Several files without `--` are a run each.
    let three = prony(&["compare", "--json", &old[0], &old[1], &new[0]]);
    assert_eq!(json(&three)["targets"][2]["label"], "C");
    let other = vec![run("other.json", "7", "exp:1ms", "900")];
    let refused = of(&old[..1], &other, &[]);
    assert_eq!(refused.code, 2);
    let loads = "have different plans: open loop: Poisson arrivals, 1k/s";
    assert!(refused.stderr.contains(loads) && refused.stderr.contains("900/s"), "{refused:?}");
    assert!(refused.stderr.contains("; --accept-invalid compares them anyway"), "{refused:?}");
    assert_eq!(of(&old[..1], &other, &["--accept-invalid"]).code, 0);
    assert_eq!(of(&old[..1], &other, &["--accept"]).code, 0);
}

#[test]
fn bad_input_is_refused_before_any_load() {
    for (args, why) in [
        (&["http://a/"][..], "a comparison needs two targets or more"),
        (&["http://a/", "http://b/", "--margin", "0%"], "must be between 0.01% and 100%"),
        (&["http://a/", "http://b/", "--blocks", "2"], "must be at least 3"),
        (&["http://a/", "http://b/", "--figures", "p99,p9x"], "there is no figure 'p9x'"),
        (&["http://a/", "http://b/", "--figures", "cpu"], "needs --start-a and --start-b"),
        (&["http://a/", "http://b/", "--fail-if", "p99 > 5%"], "needs the sign +"),
        (&["http://a/", "http://b/", "--explain"], "--explain and prony compare exclude"),
        (&["http://a/", "http://b/", "--raw", "x.csv"], "--raw and prony compare exclude"),
        (&["a.json", "--", "b.json", "--fail-if", "p99 > +5%"], "'--fail-if' comes after `--`"),
        (&["http://a:{port}/", "http://b/"], "target A: the target has {port}, but the --start"),
        (&["http://a/", "http://b/", "--start-b", "x {port}"], "target B: the --start has {port}"),
        (&["http://a/", "http://b/", "--until", "decided", "--blocks", "9"], "--blocks"),
        (&["http://a/", "b.json"], "'b.json' is a saved result, 'http://a/' is not"),
        (&["http://a/", "--", "b.json"], "'b.json' is a saved result, 'http://a/' is not"),
        (&["a.json", "b.json"], "report a.json: cannot be read"),
    ] {
        let ended = prony(&[&["compare"], args].concat());
        assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(why), "{args:?}: {ended:?}");
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{ended:?}");
    }
}

const BLOCKS: [&str; 8] = ["-r", "200", "-d", "500ms", "--warmup", "100ms", "-t", "1"];

/// On the kernel: each figure is that of its own server, which no other load makes faster. (What is
/// decided from figures is tested in virtual time, also with meters that are disturbed.)
#[test]
fn figures_on_the_kernel_are_those_of_their_servers() {
    let _alone = alone();
    let (a, b) =
        (Serve::start(&["--latency", "fixed:2ms"]), Serve::start(&["--latency", "fixed:300ms"]));
    let (url_a, url_b) = (a.url("/"), b.url("/"));
    for (first, second, slow) in [(&url_a, &url_b, "B"), (&url_b, &url_a, "A")] {
        let more =
            ["--blocks", "3", "--json", "--quiet", "--accept-invalid", "--figures", "mean,p50"];
        let ended = prony(&[&["compare", first, second], &BLOCKS[..], &more[..]].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        let found = json(&ended);
        for row in found["blocks"].as_array().expect("blocks").iter().chain(targets(&found)) {
            let is_slow = row["target"] == slow || row["label"] == slow;
            let least = if is_slow { 300e6 } else { 2e6 };
            for figure in ["mean_ns", "p50_ns"] {
                let value = row[figure].as_f64().expect("a time");
                assert!(value >= least * 0.999, "{figure} of at least {least}: {row}");
            }
        }
    }
    let served = [a, b].map(|server| served(&server.stop(), "requests"));
    // Each has had three blocks in each comparison, of 120 requests with the warm-up.
    assert!(served.iter().all(|n| *n == 720), "{served:?}");
}

fn targets(report: &Value) -> &[Value] {
    report["targets"].as_array().expect("targets")
}

/// The blocks run on two workers, and the merged figures are compared.
#[test]
fn blocks_run_on_several_workers() {
    let _waiting = waiting();
    let a = Serve::start(&["--latency", "fixed:20ms"]);
    let b = Serve::start(&["--latency", "fixed:26ms"]);
    let more = ["--hosts", "2", "--blocks", "4", "--json", "--quiet", "--accept-invalid"];
    let figures = ["--figures", "p50"];
    let urls = ["compare", &a.url("/"), &b.url("/")];
    let ended = prony(&[&urls[..], &BLOCKS[..], &more[..], &figures[..]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let found = json(&ended);
    let blocks = found["blocks"].as_array().expect("blocks");
    assert_eq!(blocks.len(), 8);
    for block in blocks {
        // 200 per second for 0.5 s, from both workers together.
        assert_eq!(block["requests"], 100, "{found}");
        let least = if block["target"] == "B" { 26e6 } else { 20e6 };
        assert!(block["p50_ns"].as_f64().expect("a time") >= least * 0.999, "{block}");
    }
}

/// The command that starts `prony serve` on a free port.
fn serve(latency: &str) -> String {
    format!("{} serve 127.0.0.1:{{port}} --latency {latency}", env!("CARGO_BIN_EXE_prony"))
}

#[test]
fn servers_are_started_for_each_block() {
    let _alone = alone();
    let url = "http://127.0.0.1:{port}/";
    let of = |a: &str, b: &str, more: &[&str]| {
        let starts = ["compare", url, url, "--start-a", a, "--start-b", b];
        let load = ["-r", "500", "-d", "300ms", "--warmup", "0s", "-t", "1", "--blocks", "3"];
        prony(&[&starts[..], &load[..], &["--json", "--accept-invalid"], more].concat())
    };
    let (fast, slow) = (serve("fixed:1ms"), serve("fixed:20ms"));
    let ended = of(&fast, &slow, &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = json(&ended);
    let p50 = |target: usize| targets(&report)[target]["p50_ns"].as_f64().expect("a time");
    assert!(p50(0) >= 1e6 * 0.999 && p50(1) >= 20e6 * 0.999, "{report}");
    // CPU time is known of servers that prony starts, if it is long enough to be counted.
    assert!(report["changes"].as_array().expect("a list").iter().any(|c| c["figure"] == "cpu"));
    assert!(ended.stdout.contains("variance from start to start is part of the answer"));
    let broken = of(&fast, "echo cannot open the database; exit 4", &[]);
    assert_eq!(broken.code, 2, "no {{port}}: {broken:?}");
    let broken = of(&fast, "echo cannot open the database {port}; exit 4", &[]);
    assert_eq!(broken.code, 1, "{broken:?}");
    assert!(broken.stderr.contains("it printed: cannot open the database"), "{broken:?}");
    let broken = of(&fast, "exit {port}", &["--fail-if", "p50 > +5%"]);
    assert_eq!(broken.code, 125, "a commit that does not start is skipped: {broken:?}");
}

/// Ctrl-C reports what is known, and no server is left.
#[test]
fn an_interrupted_comparison_reports_what_it_knows() {
    let _alone = alone();
    let url = "http://127.0.0.1:{port}/";
    let marker = format!("9{:09}", std::process::id());
    // The marker makes the processes of this test recognizable. The server leaves its group.
    let command = format!("setsid {} --duration {marker}s & wait", serve("fixed:1ms"));
    let running = Running::start(&[
        "compare",
        url,
        url,
        "--start-a",
        &command,
        "--start-b",
        &command,
        "-r",
        "200",
        "-d",
        "300ms",
        "--warmup",
        "0s",
        "-t",
        "1",
        "--json",
        "--accept-invalid",
        "--blocks",
        "400",
    ]);
    wait_until("a server", || processes(&marker) > 1);
    std::thread::sleep(Duration::from_millis(2_500));
    running.signal(Signal::INT);
    let ended = running.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    let report = json(&ended);
    assert_eq!(report["interrupted"], true);
    assert!(report["rounds"].as_u64().is_some_and(|n| n < 400), "{report}");
    assert_eq!(processes(&marker), 0, "a server is left");
    // One that is killed leaves none either.
    let running = Running::start(&[
        "compare",
        url,
        url,
        "--start-a",
        &command,
        "--start-b",
        &command,
        "-r",
        "200",
        "-d",
        "9s",
        "-t",
        "1",
    ]);
    wait_until("a server", || processes(&marker) > 1);
    running.signal(Signal::KILL);
    drop(running);
    wait_until("the end of the servers", || processes(&marker) == 0);
}

/// Ctrl-C ends the wait for a server, too.
#[test]
fn ctrl_c_ends_the_wait_for_a_server() {
    let _waiting = waiting();
    let url = "http://127.0.0.1:{port}/";
    let marker = format!("8{:09}", std::process::id());
    let command = format!("trap '' TERM; echo {{port}}; setsid sleep {marker} & sleep {marker}");
    let starts = ["--start-a", &command, "--start-b", &command, "--start-timeout", "1h"];
    let running = Running::start(&[&["compare", url, url][..], &starts].concat());
    wait_until("the server", || processes(&marker) >= 3);
    running.signal(Signal::INT);
    let ended = running.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    assert_eq!(processes(&marker), 0, "a process is left");
}

/// The server of somebody else is not taken for the one that is started.
#[test]
fn an_address_in_use_is_refused() {
    let server = Serve::start(&[]);
    let url = server.url("/");
    let started = ["--start-a", "sleep 100", "--blocks", "3", "-d", "100ms"];
    let ended = prony(&[&["compare", &url, &url][..], &started].concat());
    assert_eq!(ended.code, 1, "{ended:?}");
    let place = url.trim_start_matches("http://").trim_end_matches('/');
    let wanted = format!("listens at {place} before the server is started: end it, or write");
    assert!(ended.stderr.contains(&wanted), "{ended:?}");
    let bisected =
        prony(&[&["compare", &url, &url, "--fail-if", "p50 > +5%"][..], &started].concat());
    assert_eq!(bisected.code, 125, "it says nothing about a commit: {bisected:?}");
}

/// The processes with that word in their command lines, besides prony itself.
fn processes(word: &str) -> usize {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    let is_prony = |line: &str| line.split('\0').nth(1) == Some("compare");
    lines.filter(|line| line.contains(word) && !is_prony(line)).count()
}
