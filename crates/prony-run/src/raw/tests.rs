use std::fs;
#[cfg(feature = "parquet")]
use std::io::Write as _;
use std::thread;
use std::time::Duration;

use prony_base::merge::Merge;
use prony_base::units::Span;
use prony_server::serve::{Latency, ServerBehavior};
use prony_sim::Extras;

use super::*;
use crate::plan_file::tests::plan;

mod streams;

/// The file of a simulated run with this plan on `threads` threads, and the counters of the report.
fn simulated(name: &str, text: &str, threads: u32) -> (String, prony_tally::record::Tally) {
    let (file, all) = simulated_bytes(name, text, threads);
    (String::from_utf8(file).unwrap(), all)
}

fn simulated_bytes(name: &str, text: &str, threads: u32) -> (Vec<u8>, prony_tally::record::Tally) {
    let latency = Latency::Exponential(Span::from_millis(2));
    let server = ServerBehavior { latency, ..ServerBehavior::default() };
    against(&server, name, text, threads)
}

fn against(
    server: &ServerBehavior,
    name: &str,
    text: &str,
    threads: u32,
) -> (Vec<u8>, prony_tally::record::Tally) {
    let dir = tempfile::tempdir().unwrap();
    let (path, plan) = (dir.path().join(name), plan(text));
    let (file, taps) = RawFile::begin(&path, &plan, true).unwrap();
    let extras = Extras { taps: Some(taps), tokenizers: Some(streams::words), ..Extras::default() };
    let parts = prony_sim::simulate(&plan, threads, 7, server, &extras);
    assert_eq!(file.note(), None);
    file.end().unwrap();
    let mut all = prony_tally::record::Tally::default();
    for (warm, main, _) in parts {
        all.merge(&main);
        if let Some(warm) = warm {
            all.merge(&warm);
        }
    }
    (fs::read(path).unwrap(), all)
}

/// Each line has the times of its request: those of the histograms, counted again, are the same.
#[test]
fn lines_are_the_requests_of_the_report() {
    let text = "url = 'http://h/a?token=x'\nrate = 2000\nduration = 2\nwarmup = 0.5\narrivals = 'poisson'\n\
                connections = 3\ntimeout = '8ms'\nseed = 3";
    for threads in [1, 3] {
        let (file, all) = simulated("all.csv", text, threads);
        let mut reader = csv::Reader::from_reader(file.as_bytes());
        let (mut response, mut first, mut ok, mut late, mut warm) = (0, 0, 0, 0, 0);
        for row in reader.records() {
            let row = row.unwrap();
            let ns = |column: usize| row[column].parse::<u64>().unwrap();
            assert_eq!(&row[4], "GET /a");
            warm += u64::from(&row[11] == "true");
            if row[6].is_empty() {
                assert_eq!(&row[5], "200");
                ok += 1;
                response += ns(3) - ns(0);
                first += ns(2) - ns(1);
                assert!(ns(8) > 0 && row[10].parse::<u32>().unwrap() < 1_000);
            } else {
                assert_eq!((&row[5], &row[6]), ("", "request-timeout"));
                late += 1;
                response += (ns(3) - ns(0)).max(8_000_000);
            }
        }
        assert!(ok > 1_000 && late > 100 && warm > 500, "{ok} {late} {warm}");
        assert_eq!((ok, late), (all.replies, all.failed));
        // The histograms know the sum of their times exactly.
        assert_eq!(u128::from(response), all.times.response.sum_ns());
        assert_eq!(u128::from(first), all.times.first_byte.sum_ns());
    }
}

#[test]
fn json_lines_have_the_same_values() {
    let text = "url = 'http://h/'\nrequests = 40\nconnections = 2\nrequest = ['/a,b', \"/it's\"]";
    let (rows, _) = simulated("x.csv", text, 1);
    let (lines, all) = simulated("x.jsonl", text, 1);
    assert_eq!(all.replies, 40);
    let mut reader = csv::Reader::from_reader(rows.as_bytes());
    let columns = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!((rows.len(), lines.lines().count()), (40, 40));
    for (row, line) in rows.iter().zip(lines.lines()) {
        let line: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        assert_eq!(line.len(), columns.len());
        for (column, cell) in columns.iter().zip(row) {
            let value = &line[column];
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(if value.is_null() { "" } else { &text }, cell, "{column}");
        }
    }
    assert!(rows.iter().any(|row| &row[4] == "GET /a,b"));
}

/// The report says how many requests are not in the file.
#[test]
fn missing_requests_are_named_in_the_report() {
    assert_eq!(note(Counts { written: 2, left_out: 0 }), None);
    assert_eq!(
        note(Counts { written: 2, left_out: 89 }).unwrap(),
        "The raw results have 2 requests; 89 are missing, because they could not be written in \
         time."
    );
}

#[test]
fn refuses_unknown_formats_and_places_and_leaves_nothing_behind() {
    let plan = plan("url = 'http://h/'");
    let refused =
        |path: &str| RawFile::begin(Path::new(path), &plan, false).unwrap_err().to_string();
    assert_eq!(
        refused("x.tsv"),
        format!("--raw `x.tsv`: unknown file name extension; use {ENDINGS}")
    );
    if !cfg!(feature = "parquet") {
        assert_eq!(
            refused("x.parquet"),
            "--raw `x.parquet`: this build has no Parquet; use .csv or .jsonl, or build prony with \
             --features parquet"
        );
    }
    assert!(refused("/no/such/x.csv").contains("choose an existing, writable directory"));
    let dir = tempfile::tempdir().unwrap();
    let (file, taps) = RawFile::begin(&dir.path().join("x.csv"), &plan, false).unwrap();
    drop((file, taps));
    // The writer looks every 2 ms whether it is wanted.
    thread::sleep(Duration::from_millis(40));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// The columns of Parquet have the values of CSV, in groups of a limited number of rows.
#[cfg(feature = "parquet")]
#[test]
fn parquet_has_the_same_values() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    let text = "url = 'http://h/'\nrate = 2000\nduration = 2\nwarmup = 0.5\n\
                arrivals = 'poisson'\nconnections = 3\ntimeout = '8ms'\nseed = 3\n\
                request = ['/a,b', \"/it's\"]";
    let (rows, all) = simulated("x.csv", text, 1);
    let (file, _) = simulated_bytes("x.parquet", text, 1);
    let mut bytes = tempfile::tempfile().unwrap();
    bytes.write_all(&file).unwrap();
    let reader = SerializedFileReader::new(bytes).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows() as u64, all.replies + all.failed);
    let mut csv = csv::Reader::from_reader(rows.as_bytes());
    let columns = csv.headers().unwrap().clone();
    let (mut failed, mut compared) = (0, 0);
    for (row, expected) in reader.get_row_iter(None).unwrap().zip(csv.records()) {
        let (row, expected) = (row.unwrap(), expected.unwrap());
        assert_eq!(row.len(), columns.len());
        for (((name, value), column), cell) in row.get_column_iter().zip(&columns).zip(&expected) {
            let text = match value {
                Field::Null => String::new(),
                Field::Str(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!((name.as_str(), text.as_str()), (column, cell));
        }
        failed += u64::from(!expected[6].is_empty());
        compared += 1;
    }
    assert_eq!((compared, failed), (all.replies + all.failed, all.failed));
    assert!(failed > 50, "{failed}");
}
