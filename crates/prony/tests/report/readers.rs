//! The HdrHistogram formats, read by independent implementations.

use std::path::PathBuf;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use prony_report::{Format, Style, render};
use prony_stats::summary::Accepted;

use super::sample;

#[test]
fn log_contains_the_histograms_by_tag() {
    let summary = sample::open();
    let log = render(Format::Hlog, &summary, &Style::default());
    let warmup = summary.warmup.as_ref().expect("the sample has a warm-up");
    let mut expected = vec![
        ("warmup-response", 0, 2, &warmup.times.response),
        ("warmup-service", 0, 2, &warmup.times.service),
        ("response", 2, 10, &summary.main.times.response),
        ("service", 2, 10, &summary.main.times.service),
    ]
    .into_iter();
    let mut starts = 0;
    for entry in IntervalLogIterator::new(&log) {
        match entry.expect("every line can be read") {
            LogEntry::StartTime(t) | LogEntry::BaseTime(t) => {
                assert_eq!(t.as_secs_f64(), 1_700_000_000.25);
                starts += 1;
            }
            LogEntry::Interval(interval) => {
                let (tag, begin, length, hist) = expected.next().expect("no more than these");
                assert_eq!(interval.tag().map(|t| t.as_str().to_owned()).as_deref(), Some(tag));
                assert_eq!(interval.start_timestamp().as_secs(), begin);
                assert_eq!(interval.duration().as_secs(), length);
                let bytes = STANDARD.decode(interval.encoded_histogram()).expect("base64");
                let read: Histogram<u64> =
                    Deserializer::new().deserialize(&mut bytes.as_slice()).expect("V2");
                assert_eq!(read, hist.to_hdr());
                assert!((interval.max() * 1e6 - read.max() as f64).abs() <= 500.0);
            }
        }
    }
    assert_eq!((starts, expected.next().is_none()), (2, true));
}

/// One line of a percentile file: value in ms, quantile, running count, 1 / (1 - quantile).
fn percentiles(text: &str) -> Vec<[f64; 4]> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().expect("a header").split_whitespace().collect();
    assert_eq!(header, ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]);
    let rows = lines.filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
    rows.map(|line| {
        let cells = line.split_whitespace().map(|c| c.parse::<f64>().expect("a number"));
        let mut cells = cells.chain([f64::INFINITY]);
        std::array::from_fn(|_| cells.next().expect("three columns or four"))
    })
    .collect()
}

#[test]
fn percentile_file_contains_the_distribution() {
    let summary = sample::open();
    let hist = &summary.main.times.response;
    let reported = render(Format::Hgrm, &summary, &Style::default());
    let reported = String::from_utf8(reported).expect("text is UTF-8");
    let rows = percentiles(&reported);
    assert!(rows.len() > 30 && rows.is_sorted_by(|a, b| a[0] <= b[0] && a[2] <= b[2]));
    for &[ms, quantile, count, inverse] in &rows {
        let exact = hist.estimate(quantile).expect("not empty").0 as f64 / 1e6;
        assert!((ms - exact).abs() <= exact * 0.001 + 0.0005, "{quantile}: {ms}, not {exact}");
        assert!(count >= quantile * hist.count() as f64 * (1.0 - 1e-9));
        assert!(inverse.is_infinite() || (inverse * (1.0 - quantile) - 1.0).abs() < 0.01);
    }
    let last = rows.last().expect("not empty");
    assert_eq!((last[1], last[2]), (1.0, hist.count() as f64));
    let mean = reported.lines().find_map(|l| l.strip_prefix("#[Mean    =")).expect("a mean");
    let mean: f64 = mean.split(',').next().expect("one").trim().parse().expect("a number");
    assert!((mean - hist.mean_ns().expect("not empty") / 1e6).abs() <= 0.0005);
    assert!(reported.contains(&format!("Total count    = {:12}]", hist.count())));
}

/// Reads the formats with the Python implementation, if installed (`cargo xtask ci` requires it).
#[test]
fn python_reads_the_same() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var("PRONY_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import hdrh.log"]).output();
    if !has.is_ok_and(|o| o.status.success()) {
        assert!(
            std::env::var_os("PRONY_TEST_PYTHON").is_none(),
            "{python} was named as a Python with `hdrhistogram`, but has it not"
        );
        eprintln!("skipped: no Python with the package `hdrhistogram`");
        return;
    }
    let summary = sample::open();
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("open.hlog");
    std::fs::write(&log, render(Format::Hlog, &summary, &Style::default())).expect("written");
    let out = Command::new(&python)
        .arg(root.join("tests/readers/read_hlog.py"))
        .arg(&log)
        .output()
        .expect("it was there a moment ago");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let reported: Vec<String> =
        String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect();
    let warmup = summary.warmup.as_ref().expect("the sample has a warm-up");
    let expected = [
        ("response", &summary.main.times.response),
        ("service", &summary.main.times.service),
        ("warmup-response", &warmup.times.response),
        ("warmup-service", &warmup.times.service),
    ]
    .map(|(tag, hist)| {
        let weight: u64 = hist.recorded().map(|(last, n)| last.0 * n).sum();
        let bins = hist.recorded().count();
        format!("{tag} {} {bins} {weight} {}", hist.count(), hist.to_hdr().max())
    });
    assert_eq!(reported, expected);
}

/// The JUnit report keeps to the schema of Jenkins, which GitLab's reader and GitHub's share, and a
/// reader finds each case with its outcome. Skipped if either is not installed (`cargo xtask ci`
/// installs both).
#[test]
fn junit_keeps_to_the_schema_of_its_readers() {
    let names = ["PRONY_TEST_XMLSCHEMA", "PRONY_TEST_JUNIT_SCHEMA"];
    let [Some(python), Some(schema)] = names.map(std::env::var_os) else {
        eprintln!("skipped: no Python with the package `xmlschema`, or no schema");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.xml");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/readers/read_junit.py");
    let read = |report: &[u8]| {
        std::fs::write(&file, report).expect("written");
        let mut reader = Command::new(&python);
        reader.arg(&script).arg(&schema).arg(&file).output().expect("it starts")
    };
    let promised = render(Format::Junit, &sample::promised(), &Style::default());
    let out = read(&promised);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let cases = String::from_utf8(out.stdout).expect("text");
    let expected = [
        "verdict",
        "p50 < 10s",
        "p99 < 1us\tfailure",
        "p99.99 < 100s\terror",
        "errors < 100%",
        "requests >= 1",
    ];
    assert_eq!(cases.lines().collect::<Vec<_>>(), expected);
    let mut accepted = sample::promised();
    accepted.run.accepted = Accepted { invalid: true, undecided: true };
    for summary in [sample::open(), sample::sessions(), sample::everything(), accepted] {
        let out = read(&render(Format::Junit, &summary, &Style::default()));
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    // It is the schema that decides.
    let broken = String::from_utf8(promised).expect("text").replacen("tests=", "cases=", 2);
    assert!(!read(broken.as_bytes()).status.success());
}
