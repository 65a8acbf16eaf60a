//! Raw results: a line for each request.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use crate::rig::{Running, Serve, command, prony, served, side_by_side, wait_until, waiting};

/// On the kernel: the lines are the requests of the report, and of the server.
#[test]
fn every_request_has_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raw.jsonl").display().to_string();
    let server = Serve::start(&["--status", "200:80,503:20"]);
    let load = ["-n", "2000", "-c", "5", "-t", "2", "--json", "--raw", &path, &server.url("/a")];
    let ended = prony(&load);
    let report = ended.report().0;
    let tally = &report["measurement"]["tally"];
    let text = fs::read_to_string(&path).expect("the file");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let failed = lines.iter().filter(|line| line["error"] == "unexpected-status").count();
    assert_eq!(lines.len(), 2_000);
    assert_eq!(tally["failed"], failed);
    assert!(failed > 200, "{failed}");
    assert_eq!(tally["statuses"]["503"], failed);
    for line in &lines {
        let ns = |name: &str| line[name].as_u64().expect("a time");
        let times = ["intended_ns", "sent_ns", "first_byte_ns", "done_ns"].map(ns);
        assert!(times.is_sorted(), "{line}");
        assert_eq!(line["request"], "GET /a");
        assert!(ns("connection") < 5 && ns("worker") < 2, "{line}");
    }
}

#[test]
fn raw_results_are_refused_where_they_would_not_be_whole() {
    for (args, why) in [
        (&["--raw", "x.txt", "http://h/"][..], "unknown file name extension; use .csv"),
        (&["--raw", "x.csv", "-o", "x.csv", "http://h/"], "given twice"),
        (&["--raw", "x.csv", "--hosts", "2", "http://h/"], "--raw and --hosts exclude each other"),
        (
            &["--raw", "x.csv", "--simulate", "1", "--until", "p50+-5%", "http://h/"],
            "is simulated several times",
        ),
    ] {
        let ended = prony(args);
        assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(why), "{args:?}: {ended:?}");
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{ended:?}");
    }
}

/// Without the feature, Parquet is refused before the load; with it, the file has all requests.
#[test]
fn parquet_is_written_or_refused_before_the_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raw.parquet");
    let server = Serve::start(&["--status", "200:80,503:20"]);
    let url = server.url("/a");
    let raw = path.to_str().expect("UTF-8");
    let ended = prony(&["-n", "2000", "-c", "5", "-t", "2", "--json", "--raw", raw, &url]);
    if !cfg!(feature = "parquet") {
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(
            ended.stderr.contains("this build has no Parquet; use .csv or .jsonl"),
            "{ended:?}"
        );
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{ended:?}");
        assert_eq!(served(&server.stop(), "requests"), 0);
        assert!(!path.exists());
        return;
    }
    let tally = &ended.report().0["measurement"]["tally"];
    let rows = parquet_rows(&path);
    assert_eq!(rows.len(), 2_000);
    let failed = rows.iter().filter(|row| row["error"] == "unexpected-status").count();
    assert_eq!(tally["failed"], failed);
    for row in &rows {
        let ns = |name: &str| row[name].as_u64().expect("a time");
        let times = ["intended_ns", "sent_ns", "first_byte_ns", "done_ns"].map(ns);
        assert!(times.is_sorted(), "{row}");
        assert_eq!((&row["request"], &row["warmup"]), (&"GET /a".into(), &false.into()));
        assert!(row["status"] == 200 || row["status"] == 503, "{row}");
        assert!(ns("connection") < 5 && ns("worker") < 2, "{row}");
    }
}

/// The rows of a file, as JSON.
#[cfg(feature = "parquet")]
fn parquet_rows(path: &std::path::Path) -> Vec<serde_json::Value> {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    let file = fs::File::open(path).expect("a file");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows");
    let value = |field: &Field| match field {
        Field::Long(n) => serde_json::Value::from(*n),
        Field::Str(text) => text.as_str().into(),
        Field::Bool(is) => (*is).into(),
        _ => serde_json::Value::Null,
    };
    rows.map(|row| {
        let row = row.expect("a row");
        let cells = row.get_column_iter().map(|(name, field)| (name.clone(), value(field)));
        cells.collect::<serde_json::Map<_, _>>().into()
    })
    .collect()
}

#[cfg(not(feature = "parquet"))]
fn parquet_rows(_: &std::path::Path) -> Vec<serde_json::Value> {
    Vec::new()
}

/// What leaves little room in a pipe.
static FILLED: [u8; 60_000] = [b' '; 60_000];

/// A FIFO with this name, which exists as long as the folder.
fn fifo(folder: &tempfile::TempDir, name: &str) -> String {
    let path = folder.path().join(name).display().to_string();
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo runs").success());
    path
}

/// The report comes first, and what a stuck reader does not take is given up, counted and said.
#[test]
fn a_stuck_reader_does_not_lose_the_report() {
    let _waiting = waiting();
    let folder = tempfile::tempdir().expect("a folder");
    let server = Serve::start(&[]);
    let url = server.url("/");
    side_by_side(["raw.jsonl", "raw.csv"], |name| {
        let path = fifo(&folder, name);
        let run = Running::start(&["-n", "20000", "-c", "5", "--json", "--raw", &path, &url]);
        let _reader = fs::File::open(&path).expect("prony writes to it");
        let ended = run.wait();
        assert_eq!(ended.code, 3, "{ended:?}");
        assert_eq!(ended.report().count("replies"), 20_000);
        let why = ended.stderr.lines().last().expect("a line");
        let begin = format!("prony: the run finished, but --raw {path} could not be written: ");
        assert!(why.starts_with(&begin), "{ended:?}");
        let numbers: Vec<u64> = why.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [_, missing, 20_000] = numbers[..] else { panic!("{why}") };
        assert!(missing > 10_000, "a pipe holds less: {why}");
    });
}

/// The same of a file of results, and of standard output, at which a signal ends the process.
#[test]
fn no_output_that_nobody_reads_holds_up_the_end() {
    let _waiting = waiting();
    let folder = tempfile::tempdir().expect("a folder");
    let (server, path) = (Serve::start(&[]), fifo(&folder, "report.html"));
    let url = server.url("/");
    let kept = folder.path().join("kept.json").display().to_string();
    let load = ["-n", "2000", "-c", "5", "--json", "-o", &path, "-o", &kept, &url];
    // Almost full, so that the report does not fit.
    let mut reader = fs::File::options().read(true).write(true).open(&path).expect("a pipe");
    reader.write_all(&FILLED).expect("room");
    let ended = prony(&load);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert_eq!(ended.report().count("replies"), 2_000);
    assert!(
        ended.stderr.contains("could not be written: nobody has read from it for"),
        "{ended:?}"
    );
    assert!(fs::read_to_string(&kept).expect("the other file").starts_with('{'));

    let file = folder.path().join("kept.html").display().to_string();
    let load = ["-n", "2000", "-c", "5", "--format", "html", "-o", &file, &url];
    let mut stuck = command(&load);
    let (_reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(&FILLED).expect("room");
    let child = stuck.stdout(writer).stderr(Stdio::null()).spawn();
    let mut child = child.expect("the binary starts");
    wait_until("the file", || fs::metadata(&file).is_ok());
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().expect("a child").is_none(), "nobody reads its report");
    crate::rig::kill(&child, rustix::process::Signal::INT);
    let mut status = None;
    wait_until("the end", || {
        status = child.try_wait().expect("a child");
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(130));
}
