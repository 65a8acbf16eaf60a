//! Counts user instructions per request with callgrind, and compares them with the recorded
//! figures.
//!
//! Each case runs twice, with a small and a large number of requests. The difference of the
//! instruction counts, divided by the difference of the requests, excludes startup and shutdown.
//! The binary of the profile `release` is measured over real sockets. The kernel's instructions are
//! not counted, nor are those of the report, which depend on the duration of the run and so on
//! other load.
//!
//! The cost per request depends on how many replies each wake-up of the client finds. Client and
//! server therefore share one processor as batch tasks, which do not preempt each other: the server
//! replies to all requests, then the client reads all replies. So other load has no influence, and
//! runs agree within half a percent.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::server::Server;
use crate::shell::{self, which};

const RECORD: &str = "bench/instructions.toml";

/// The function to count, with everything that it calls: the worker's loop. The compiler makes a
/// copy for each type of machine; the copies' names start with this.
const COUNTED: &str = "prony_io::drivers::Driver::run*";

/// How much a figure may grow, in percent.
const TOLERANCE: f64 = 5.0;

struct Case {
    name: &'static str,
    options: &'static str,
    /// The numbers of requests of the two runs.
    requests: [u64; 2],
}

const CASES: [Case; 4] = [
    Case { name: "keep-alive", options: "-c 50", requests: [5_000, 45_000] },
    Case { name: "pipelined", options: "-c 10 -p 64", requests: [20_000, 180_000] },
    Case { name: "http2", options: "--h2c -c 50 --streams 1", requests: [5_000, 45_000] },
    Case { name: "streams", options: "--h2c -c 10 --streams 64", requests: [20_000, 180_000] },
];

/// `cargo xtask instructions`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let (profile, update) = match args {
        [] => ("release", false),
        [flag] if flag == "--update" => ("release", true),
        [flag, name] if flag == "--profile" => (name.as_str(), false),
        _ => bail!("usage: cargo xtask instructions [--update | --profile NAME]"),
    };
    if which("valgrind").is_none() {
        bail!("valgrind is missing: `apt-get install valgrind`");
    }
    let prony = shell::prony(profile)?;
    let server = Server::start(share_processor()?.arg(&prony))?;
    let mut measured = BTreeMap::new();
    for case in &CASES {
        measured.insert(case.name.to_owned(), per_request(&prony, server.url(), case)?);
    }
    server.stop()?;
    let text = fs::read_to_string(RECORD).with_context(|| format!("cannot read {RECORD}"))?;
    let (report, grown) = compare(&recorded(&text)?, &measured);
    print!("{report}");
    if update {
        return fs::write(RECORD, updated(&text, &measured))
            .with_context(|| format!("cannot write {RECORD}"));
    }
    if grown {
        bail!(
            "instructions per request have grown by more than {TOLERANCE} %: find out why, or \
             record the new figures with `cargo xtask instructions --update` and say why"
        );
    }
    Ok(())
}

/// The start of a command that runs as a batch task on the first processor available to us.
fn share_processor() -> Result<Command> {
    let status = fs::read_to_string("/proc/self/status").context("cannot read our own status")?;
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    let first = list.and_then(|l| l.trim().split(['-', ',']).next());
    let first = first.context("no Cpus_allowed_list in /proc/self/status")?;
    Ok(shell::program("taskset", &["-c", first, "chrt", "--batch", "0"]))
}

/// The instructions per request of a case.
fn per_request(prony: &Path, url: &str, case: &Case) -> Result<f64> {
    let mut counts = [0; 2];
    for (count, n) in counts.iter_mut().zip(case.requests) {
        let options = format!(
            "load -t 1 -n {n} --quiet --json --accept-invalid --driver epoll {}",
            case.options
        );
        *count = instructions(prony, &options, url)
            .with_context(|| format!("{}, {n} requests", case.name))?;
    }
    let [small, large] = counts;
    if large <= small {
        bail!("{}: {small} instructions for the small run, {large} for the large one", case.name);
    }
    Ok((large - small) as f64 / (case.requests[1] - case.requests[0]) as f64)
}

/// The user instructions of one run.
fn instructions(prony: &Path, options: &str, url: &str) -> Result<u64> {
    let out = share_processor()?
        .args(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(prony)
        .args(options.split_whitespace())
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .context("cannot run valgrind")?;
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        bail!("prony under valgrind: {}\n{said}", out.status);
    }
    collected(&said).with_context(|| format!("no instruction count in:\n{said}"))
}

/// callgrind's total: `==123== Collected : 4567`.
fn collected(said: &str) -> Option<u64> {
    let line = said.lines().find(|l| l.contains("Collected"))?;
    line.split_once(':')?.1.trim().parse().ok()
}

/// The figures of the record: lines `name = number`.
fn recorded(text: &str) -> Result<BTreeMap<String, f64>> {
    let mut figures = BTreeMap::new();
    for line in text.lines().filter(|l| !l.starts_with('#') && l.contains('=')) {
        let (name, number) = line.split_once('=').context("no `=`")?;
        let number =
            number.trim().parse().with_context(|| format!("{RECORD}: no number: {line}"))?;
        figures.insert(name.trim().to_owned(), number);
    }
    Ok(figures)
}

/// The record with its figures replaced, its comments kept, and new cases at the end.
fn updated(text: &str, measured: &BTreeMap<String, f64>) -> String {
    let mut left = measured.clone();
    let mut out = String::new();
    for line in text.lines() {
        let name = line.split_once('=').map_or("", |(name, _)| name.trim());
        match left.remove(name) {
            Some(figure) => {
                let _ = writeln!(out, "{name} = {figure:.0}");
            }
            None => {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    for (name, figure) in left {
        let _ = writeln!(out, "{name} = {figure:.0}");
    }
    out
}

/// A table, and whether a figure has grown too much or has no record.
fn compare(recorded: &BTreeMap<String, f64>, measured: &BTreeMap<String, f64>) -> (String, bool) {
    let mut report = String::new();
    let mut grown = false;
    for (name, now) in measured {
        let Some(then) = recorded.get(name) else {
            let _ = writeln!(report, "{name:12} {now:8.0} instructions a request, none recorded");
            grown = true;
            continue;
        };
        let change = 100.0 * (now / then - 1.0);
        grown |= change > TOLERANCE;
        let hint = if change < -TOLERANCE { ": record it with --update" } else { "" };
        let _ = writeln!(
            report,
            "{name:12} {now:8.0} instructions a request, recorded {then:.0} ({change:+.1} %){hint}"
        );
    }
    (report, grown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(list: &[(&str, f64)]) -> BTreeMap<String, f64> {
        list.iter().map(|&(n, f)| (n.to_owned(), f)).collect()
    }

    #[test]
    fn rejects_growth_beyond_the_tolerance() {
        let then = recorded("# words = no number\nkeep-alive = 1000\n").unwrap();
        for (now, want) in [(900.0, false), (1049.0, false), (1051.0, true)] {
            assert_eq!(compare(&then, &figures(&[("keep-alive", now)])).1, want, "{now}");
        }
        assert!(compare(&then, &figures(&[("new", 1.0)])).1, "a case without a record");
    }

    #[test]
    fn update_keeps_the_comments() {
        let text = updated("# why\na = 1\n\nb = 2\n", &figures(&[("a", 5.4), ("c", 7.0)]));
        assert_eq!(text, "# why\na = 5\n\nb = 2\nc = 7\n");
        assert!(recorded("a = many\n").is_err());
    }

    #[test]
    fn reads_callgrinds_total() {
        let said = "==7== Events    : Ir\n==7== Collected : 123456\n==7==\n";
        assert_eq!(collected(said), Some(123_456));
        assert_eq!(collected("==7== refs"), None);
    }
}
