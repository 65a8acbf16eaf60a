//! Damaged files: bits turned over, bytes lost, added and repeated, numbers that are too large.
//! Each is read or refused: without a panic, in seconds, in little memory. `PRONY_DAMAGES` is how
//! many of each kind are tried.

#[path = "../../../../fuzz/shared/cookies.rs"]
mod cookies;
#[path = "../../../../fuzz/shared/parts.rs"]
mod parts;
#[path = "../../../../fuzz/shared/plan_file.rs"]
mod plan_file;
#[path = "../../../../fuzz/shared/wsesslog.rs"]
mod wsesslog;

use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use prony_llm::{Turns, read_prompts, read_trace};
use prony_plan::target::parse_url_file;
use prony_replay::{Bodies, BodyKey, Log, Options};
use tempfile::TempDir;

use crate::rig::prony;
use cookies::cookies;
use parts::parts;
use plan_file::plan_file;
use wsesslog::wsesslog;

/// Pseudo-random numbers (a linear congruential generator).
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

/// What a number may become.
const NUMBERS: [&[u8]; 6] =
    [b"18446744073709551615", b"1e308", b"-1", b"0", b"1e999", b"4294967296"];

/// One to three changes.
fn damage(draws: &mut Draws, sample: &[u8]) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    for _ in 0..=draws.below(3) {
        let at = draws.below(bytes.len());
        let end = (at + 1 + draws.below(20)).min(bytes.len());
        match draws.below(8) {
            _ if bytes.is_empty() => {}
            0..=2 => bytes[at] ^= 1 << draws.below(8),
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..end)),
            5 => {
                let piece = bytes[at..end].to_vec();
                let to = draws.below(bytes.len());
                drop(bytes.splice(to..to, piece));
            }
            6 => {
                let noise: Vec<u8> = (0..=draws.below(8)).map(|_| draws.below(256) as u8).collect();
                drop(bytes.splice(at..at, noise));
            }
            _ => {
                let digits = bytes[at..].iter().position(u8::is_ascii_digit).map(|n| at + n);
                let Some(first) = digits else { continue };
                let length = bytes[first..].iter().take_while(|b| b.is_ascii_digit()).count();
                let number = NUMBERS[draws.below(NUMBERS.len())];
                drop(bytes.splice(first..first + length, number.iter().copied()));
            }
        }
    }
    bytes
}

/// The most memory that this process has used, in MiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
}

/// Reads damaged copies of the samples.
fn survives(kind: &str, samples: &[Vec<u8>], read: impl Fn(&[u8])) {
    let wanted = std::env::var("PRONY_DAMAGES").ok().and_then(|n| n.parse().ok());
    let count: usize = wanted.unwrap_or(300);
    assert!(!samples.is_empty(), "{kind} has samples");
    let before = peak();
    for n in 0..count {
        let sample = &samples[n % samples.len()];
        let bytes = damage(&mut Draws(n as u64), sample);
        let began = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(|| read(&bytes)));
        let shown = || String::from_utf8_lossy(&bytes).into_owned();
        assert!(ended.is_ok(), "{kind}: damage {n} panics: {}", shown());
        assert!(began.elapsed() < Duration::from_secs(30), "{kind}: damage {n}: {}", shown());
    }
    let more = peak() - before;
    assert!(more < 1_500, "{kind}: {more} MiB");
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("a corpus").map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a file")).collect()
}

#[test]
fn corpora_of_the_fuzzers() {
    replay("parts", 8, parts);
    replay("plan_file", 20, plan_file);
    replay("cookies", 20, cookies);
    replay("wsesslog", 20, wsesslog);
}

/// Runs a fuzz target over its corpus.
fn replay(name: &str, least: usize, target: fn(&[u8])) {
    let files = corpus(name);
    assert!(files.len() >= least, "{} files of {name}", files.len());
    for file in files {
        println!("{name}: {}", String::from_utf8_lossy(&file));
        target(&file);
    }
}

/// A saved report with sessions, names and several seconds.
fn report() -> Vec<u8> {
    let load = ["-c", "3", "-d", "3s", "--warmup", "1s", "--simulate", "1", "--json"];
    let more = ["--simulate-latency", "exp:20ms", "--check", "status == 200", "http://virtual/a"];
    prony(&[&load[..], &more[..]].concat()).stdout.into_bytes()
}

#[test]
fn saved_reports() {
    let mut samples = corpus("parts");
    let report = report();
    assert!(report.len() > 5_000);
    samples.extend([report.clone(), [&report[..], b"\n---\n", &report].concat()]);
    survives("a report", &samples, parts);
}

#[test]
fn saved_reports_of_phases() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("phases.toml");
    let phase = "\n[[phases]]\nname = 'a'\nconnections = 2\nduration = '1s'\n";
    fs::write(&path, format!("url = 'http://virtual/'\n{phase}{}", phase.replace("'a'", "'b'")))
        .expect("a file");
    let ended = prony(&["run", path.to_str().expect("text"), "--simulate", "1", "--json"]);
    assert!(ended.stdout.contains("\"phases\""), "{ended:?}");
    survives("a report of phases", &[ended.stdout.into_bytes()], |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Ok(read) = prony_report::json::phased::read(text) {
            let style = prony_report::Style::default();
            assert!(read.render(prony_report::Format::Text, &style).is_some());
        }
    });
}

#[test]
fn plan_files() {
    survives("a plan", &corpus("plan_file"), plan_file);
}

#[test]
fn access_logs_that_are_compressed() {
    let folder = TempDir::new().expect("a folder");
    let logs = corpus("access_log");
    let packed = |log: &Vec<u8>| {
        let mut gz = GzEncoder::new(Vec::new(), Compression::default());
        gz.write_all(log).and_then(|()| gz.finish()).expect("gzip")
    };
    let gz: Vec<Vec<u8>> = logs.iter().map(packed).collect();
    // A frame of zstd with its log in one raw block.
    let zst = |log: &Vec<u8>| {
        let length = log.len().min(60_000);
        let head = [0x28, 0xb5, 0x2f, 0xfd, 0x60];
        let content = (length as u16).wrapping_sub(256).to_le_bytes();
        let block = ((length as u32) << 3 | 1).to_le_bytes();
        [&head[..], &content, &block[..3], &log[..length]].concat()
    };
    let zst: Vec<Vec<u8>> = logs.iter().map(|log| zst(&log.repeat(256))).collect();
    for (ending, samples) in [("gz", &gz), ("zst", &zst)] {
        let path = folder.path().join(format!("log.{ending}"));
        survives(ending, samples, |bytes| {
            fs::write(&path, bytes).expect("a file");
            let Ok(from) = prony_replay::open(&path) else { return };
            let Ok(mut log) = Log::open(from, Options { bad_lines: 1.0, ..Options::default() })
            else {
                return;
            };
            while let Ok(Some(_)) = log.next_record() {}
        });
    }
}

#[test]
fn bodies_for_a_replay() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("bodies.jsonl");
    let sample =
        b"{\"key\": \"/a\", \"body\": {\"x\": [1, 2.5, null]}, \"type\": \"text/plain\"}\n\
                   {\"key\": \"/b\", \"base64\": \"YWJj\"}\n{\"key\": 7, \"body\": \"t\"}\n";
    survives("bodies", &[sample.to_vec()], |bytes| {
        fs::write(&path, bytes).expect("a file");
        let _ = Bodies::read(&path, BodyKey::Target, None);
    });
}

#[test]
fn prompts_and_traces() {
    let prompts: [&[u8]; 3] = [
        b"one prompt\nanother\n",
        b"{\"prompt\": \"a\", \"max_tokens\": 5}\n\
          {\"messages\": [{\"role\": \"user\", \"content\": \"b\"}]}\n",
        b"[{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, \
          {\"from\": \"gpt\", \"value\": \"b\"}]}]",
    ];
    let prompts: Vec<Vec<u8>> = prompts.iter().map(|text| text.to_vec()).collect();
    survives("prompts", &prompts, |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            let _ = read_prompts(text, Turns::First);
            let _ = read_prompts(text, Turns::All);
        }
    });
    let traces: [&[u8]; 2] = [
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n\
          2023-11-16 18:15:46.68,374,44\n2023-11-16 18:15:50.9,396,109\n",
        b"{\"timestamp\": 0, \"input_length\": 6755, \"output_length\": 500}\n\
          {\"timestamp\": 3000, \"input_length\": 1, \"output_length\": 9}\n",
    ];
    let traces: Vec<Vec<u8>> = traces.iter().map(|text| text.to_vec()).collect();
    survives("traces", &traces, |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            let _ = read_trace(text);
        }
    });
}

#[test]
fn lists_of_urls_and_cookies() {
    survives("a list of URLs", &corpus("url_file"), |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            let _ = parse_url_file(text);
        }
    });
    survives("cookies", &corpus("cookies"), cookies);
}

/// Files that only the program reads, each in a run of its own: so only a few of each.
#[test]
fn tables_and_headers() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (table, headers) = (file("t.csv"), file("h.txt"));
    let plan = file("plan.toml");
    let text = "url = 'http://virtual/'\nrequests = 3\nconnections = 1\n[data.t]\nfile = 't.csv'\n\
                [[session]]\nrequest = [{ path = '/{{t.a}}' }]\n";
    fs::write(&plan, text.replace("requests = 3", "sessions = 3").replace("connections", "users"))
        .expect("a file");
    let virtual_run = ["--simulate", "1", "-n", "2", "-c", "1", "--accept-invalid"];
    let url = "http://virtual/v1/completions";
    let headed = format!("@{headers}");
    let cases: [(&str, &[u8], Vec<&str>); 2] = [
        (&table, b"a,b\n1,\"x,y\"\n2,\"\"\"\"\n", vec!["run", &plan, "--simulate", "1"]),
        (&headers, b"A: b\nCookie: c=d; e=f\n", [&["-H", &headed, url][..], &virtual_run].concat()),
    ];
    for (path, sample, args) in cases {
        fs::write(path, sample).expect("a file");
        assert_eq!(prony(&args).code, 0, "{path} can be read");
        for n in 0..40 {
            fs::write(path, damage(&mut Draws(n), sample)).expect("a file");
            let ended = prony(&args);
            let is_known = [0, 1, 2, 3, 99].contains(&ended.code);
            assert!(is_known && !ended.stderr.contains("panicked"), "{path} {n}: {ended:?}");
        }
    }
}
