//! Raw results: a line for each request.

use std::fs;

use crate::rig::{Serve, prony, served};

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
