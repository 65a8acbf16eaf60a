//! `cargo xtask tidy`: checks rules that neither rustfmt nor clippy has, for all files that git
//! tracks (or would add).
//!
//! Rules that the sources do not follow everywhere yet are ratchets: `xtask/tidy-ratchet.txt` has
//! the current number of each file that breaks one. A number may only fall, and an entry may only
//! be removed.

mod cycles;
mod functions;
mod graph;
mod imports;
mod layers;
mod lexer;
mod links;

mod ratchet;
mod text;
mod truth;
mod walls;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use lexer::Source;

/// The maximum width of a line of Rust, in columns.
const COLUMNS: usize = 100;
/// The maximum length of a Rust file, in lines.
const FILE_LINES: usize = 600;
/// The maximum length of a function, from its `fn` to its closing brace, in lines.
const FUNCTION_LINES: usize = 70;
/// The maximum size of a file, in bytes.
const BLOB_BYTES: usize = 100 * 1024;
/// The same in docs, whose references name every option and every figure, as tests check: they
/// grow with the program.
const REFERENCE_BYTES: usize = 160 * 1024;

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1; 0 for the whole file.
    line: usize,
    what: String,
}

/// The numbers that the ratchets limit, by rule and place.
type Measures = BTreeMap<(&'static str, String), usize>;

/// `cargo xtask tidy`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let update = match words[..] {
        [] => false,
        ["--update"] => true,
        ["--graph"] => return print_graph(),
        ["--words"] => return explain_words(),
        _ => bail!("usage: cargo xtask tidy [--update | --graph | --words]"),
    };
    let paths = listed_files()?;
    let document = fs::read_to_string(walls::DOCUMENT).context(walls::DOCUMENT)?;
    let walls = walls::Walls::parse(&document)?;
    let layers = layers::Layers::parse(&document)?;
    let mut findings = Vec::new();
    walls.check_names(&paths, &mut findings);
    let mut measures = Measures::new();
    let mut numbered = Vec::new();
    let mut files = graph::Files::default();
    for path in &paths {
        // git also lists files that are deleted.
        let Ok(bytes) = fs::read(path) else { continue };
        check(path, &bytes, &walls, &mut findings, &mut measures);
        if path.ends_with("Cargo.toml") {
            layers.check(path, &String::from_utf8_lossy(&bytes), &mut findings);
        }
        if path.ends_with(".rs") {
            let text = String::from_utf8_lossy(&bytes);
            truth::gather(path, &text, &mut numbered);
            files.gather(path, &Source::new(&text));
        }
    }
    let table = fs::read_to_string(truth::TABLE).context(truth::TABLE)?;
    truth::check(&table, &numbered, &mut findings);
    let graph = [files.graph(), files.rooms()].concat();
    cycles::measure(&graph, &mut measures);
    findings.extend(ratchet::settle(&measures, update)?);
    cycles::explain(&graph, &mut findings);
    findings.sort();
    for f in &findings {
        eprintln!("{f}");
    }
    if !findings.is_empty() {
        bail!("tidy: {} findings in {} files", findings.len(), paths.len());
    }
    println!("tidy: {} files in order", paths.len());
    Ok(())
}

/// `cargo xtask tidy --graph`: the imports between the top-level modules of each crate, and
/// between the files of each of these.
fn print_graph() -> Result<()> {
    let mut files = graph::Files::default();
    for path in listed_files()?.iter().filter(|p| p.ends_with(".rs")) {
        if let Ok(text) = fs::read_to_string(path) {
            files.gather(path, &Source::new(&text));
        }
    }
    print!("{}", cycles::drawn(&[files.graph(), files.rooms()].concat()));
    Ok(())
}

/// `cargo xtask tidy --words`: lists the retired words, and what to write instead.
fn explain_words() -> Result<()> {
    let is_prose = |path: &&String| path.ends_with(".rs") || path.ends_with(".md");
    for path in listed_files()?.iter().filter(is_prose) {
        if let Ok(text) = fs::read_to_string(path)
            && !path.starts_with("docs/design/")
            && !path.starts_with("xtask/src/tidy/")
        {
            words::explain(path, &text);
        }
    }
    Ok(())
}

pub(crate) fn listed_files() -> Result<Vec<String>> {
    let out = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("cannot run git")?;
    if !out.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    let mut paths = Vec::new();
    for name in out.stdout.split(|&b| b == 0).filter(|n| !n.is_empty()) {
        paths.push(String::from_utf8(name.to_vec()).context("a file name that is not UTF-8")?);
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

fn check(
    path: &str,
    bytes: &[u8],
    walls: &walls::Walls,
    findings: &mut Vec<Finding>,
    measures: &mut Measures,
) {
    let most = if path.starts_with("docs/") { REFERENCE_BYTES } else { BLOB_BYTES };
    if bytes.len() > most && path != "Cargo.lock" {
        let what = format!("{} bytes: no file over {most}", bytes.len());
        findings.push(Finding { path: path.to_owned(), line: 0, what });
    }
    // Corpora and golden files are data, and not checked.
    if path.starts_with("fuzz/corpus/") || path.contains("/golden/") {
        return;
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    text::check_any(path, text, findings);
    if path.ends_with(".md") {
        links::check(path, text, links::read, findings);
        words::measure(path, text, measures);
    }
    if !path.ends_with(".rs") {
        return;
    }
    let source = Source::new(text);
    text::check_rust(path, &source, findings, measures);
    words::measure_rust(path, &source, measures);
    functions::measure(path, &source, measures);
    walls.check(path, &source, findings);
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", self.path, self.what)
        } else {
            write!(f, "{}:{}: {}", self.path, self.line, self.what)
        }
    }
}

#[cfg(test)]
fn findings_in(path: &str, text: &str) -> Vec<String> {
    let (mut findings, mut measures) = (Vec::new(), Measures::new());
    check(path, text.as_bytes(), &our_walls(), &mut findings, &mut measures);
    findings.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
fn our_walls() -> walls::Walls {
    walls::Walls::parse(include_str!("../../../ARCHITECTURE.md")).unwrap()
}
