use std::fs;

use prony_core::record::Stamps;
use prony_core::serve::{Latency, ServerBehavior};
use prony_core::units::{ConnId, Span};
use prony_sim::Extras;

use super::*;
use crate::plan_file::tests::plan;

/// The file of a simulated run with this plan on `threads` threads, and the counters of the report.
fn simulated(name: &str, text: &str, threads: u32) -> (String, prony_core::record::Tally) {
    let dir = tempfile::tempdir().unwrap();
    let (path, plan) = (dir.path().join(name), plan(text));
    let (file, taps) = RawFile::begin(&path, &plan, true).unwrap();
    let latency = Latency::Exponential(Span::from_millis(2));
    let server = ServerBehavior { latency, ..ServerBehavior::default() };
    let extras = Extras { taps: Some(taps), ..Extras::default() };
    let parts = prony_sim::simulate(&plan, threads, 7, &server, &extras);
    assert_eq!(file.end().unwrap(), None);
    let mut all = prony_core::record::Tally::default();
    for (warm, main, _) in parts {
        all.merge(&main);
        if let Some(warm) = warm {
            all.merge(&warm);
        }
    }
    (fs::read_to_string(path).unwrap(), all)
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

/// An ended request of the first connection.
fn ended(intended: u64) -> EndedRequest {
    EndedRequest {
        stamps: Stamps { intended: Nanos(intended), ..Stamps::default() },
        was_sent: true,
        has_begun: true,
        call: 0,
        conn: Some(ConnId { slot: 0, generation: 0 }),
        reply: None,
        fault: None,
    }
}

#[test]
fn a_full_queue_is_counted_and_holds_up_nobody() {
    let shared = Arc::new(Shared::default());
    let mut tap = RawTap::new(&shared, false);
    for n in 0..QUEUE as u64 + 89 {
        tap.request_ended(&ended(n));
    }
    assert_eq!(shared.left_out.load(Ordering::Relaxed), 89);
    // What is in the queue is written.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.csv");
    shared.is_over.store(true, Ordering::Release);
    let lines = Lines::new(Format::Csv, &plan("url = 'http://h/'"));
    let written = write(place(&path).unwrap(), lines, &shared).unwrap();
    assert_eq!(written, QUEUE as u64);
    assert_eq!(fs::read_to_string(path).unwrap().lines().count(), QUEUE + 1);
}

#[test]
fn connections_have_consecutive_numbers() {
    let shared = Arc::new(Shared::default());
    let mut tap = RawTap::new(&shared, false);
    let ids = [(5, 0), (2, 7), (5, 0), (5, 1), (2, 7), (0, 0), (5, 2)];
    let numbers = ids.map(|(slot, generation)| tap.number(slot, generation));
    assert_eq!(numbers, [0, 1, 0, 2, 1, 3, 4]);
}

#[test]
fn refuses_unknown_formats_and_places_and_leaves_nothing_behind() {
    let plan = plan("url = 'http://h/'");
    let refused =
        |path: &str| RawFile::begin(Path::new(path), &plan, false).unwrap_err().to_string();
    assert_eq!(
        refused("x.parquet"),
        "--raw `x.parquet`: unknown file name extension; use .csv or .jsonl"
    );
    assert!(refused("/no/such/x.csv").contains("choose an existing, writable directory"));
    let dir = tempfile::tempdir().unwrap();
    let (file, taps) = RawFile::begin(&dir.path().join("x.csv"), &plan, false).unwrap();
    drop((file, taps));
    thread::sleep(PAUSE * 20);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
