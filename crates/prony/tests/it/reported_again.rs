//! `prony report FILE` of a saved run ends as the run did, and says what it said.

use crate::rig::{Ended, prony};

/// A simulated load of 400 requests per second for 4 s, with exponential times of 2 ms.
const LOAD: [&str; 8] =
    ["-r", "400", "-d", "4s", "--simulate", "3", "--simulate-latency", "exp:2ms"];

/// How a command ends, and what it writes for build servers.
fn outputs(words: &[&str], folder: &std::path::Path) -> (Ended, Vec<String>) {
    let files = ["r.json", "r.xml", "r.md"].map(|name| folder.join(name).display().to_string());
    let to = ["-o", &files[0], "-o", &files[1], "-o", &files[2], "--github"];
    let ended = prony(&[words, &to].concat());
    let texts = files[1..].iter().map(|file| std::fs::read_to_string(file).expect("a report"));
    let texts = texts.collect();
    (ended, texts)
}

#[test]
fn saved_runs_end_with_the_code_of_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let [run, again] = ["run", "again"].map(|name| folder.path().join(name));
    for folder in [&run, &again] {
        std::fs::create_dir(folder).expect("a folder");
    }
    let saved = run.join("r.json").display().to_string();
    // Exponential times of 2 ms have a p99 of 9.21 ms, and the network takes 0.1 ms.
    for (words, code, report, code_again) in [
        (&["--threshold", "p99 < 1s"][..], 0, &[][..], 0),
        (&["--threshold", "p50 < 100us"], 99, &["--accept-invalid"], 99),
        (&["--threshold", "p99 < 9310us"], 97, &[], 97),
        (&["--threshold", "p99 < 9310us"], 97, &["--undecided", "pass"], 0),
        (&["--threshold", "p99 < 9310us", "--undecided", "pass"], 0, &[], 0),
        (&["--threshold", "p99 < 9310us", "--undecided", "pass"], 0, &["--undecided", "fail"], 97),
        (&["--percentile", "99.99"], 98, &[], 98),
        (&["--percentile", "99.99"], 98, &["--accept-invalid"], 0),
        (&["--percentile", "99.99", "--accept-invalid"], 0, &[], 0),
        (&["--percentile", "99.99", "--threshold", "p50 < 1s"], 0, &[], 0),
        (&["--expect", "204"], 1, &[], 1),
    ] {
        let load = [&LOAD[..], words, &["http://virtual/"]].concat();
        let (ended, texts) = outputs(&load, &run);
        assert_eq!(ended.code, code, "{words:?}: {ended:?}");
        let (shown, texts_again) = outputs(&[&["report", &saved], report].concat(), &again);
        assert_eq!(shown.code, code_again, "{words:?}, {report:?}: {shown:?}");
        if report.is_empty() {
            assert_eq!((&texts, &ended.stdout), (&texts_again, &shown.stdout), "{words:?}");
        }
        let page = &texts_again[0];
        let fails = page.contains("<failure") || page.contains("<error");
        assert_eq!(fails, shown.code != 0, "{words:?}, {report:?}: {page}");
    }
}
