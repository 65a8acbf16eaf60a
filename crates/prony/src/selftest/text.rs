//! A self-test told to people.

use std::fmt::Write as _;

use prony_core::units::Span;
use prony_report::units;

use super::record::{Amount, Check, Floor, Proof, Record};

/// All of it.
pub(crate) fn text(record: &Record) -> String {
    let mut out = String::new();
    head(&mut out, record);
    proofs(&mut out, &record.proofs);
    if let Some(floor) = &record.floor {
        smallest(&mut out, floor);
    }
    lags(&mut out, record);
    rates(&mut out, record);
    advice(&mut out, record);
    ending(&mut out, record);
    out
}

fn head(out: &mut String, record: &Record) {
    let host = &record.host;
    let _ = writeln!(
        out,
        "prony {} self-test on {} (Linux {}, {})",
        record.version,
        host.name,
        host.kernel,
        units::counted(host.cores_allowed.len() as u64, "core", "cores")
    );
    let _ = match record.client_cores == record.server_cores {
        true => writeln!(out, "client and server share the core, which costs both"),
        false => writeln!(
            out,
            "client on {}, server on {}, so that neither takes the other's time",
            cores(&record.client_cores),
            cores(&record.server_cores)
        ),
    };
}

fn cores(list: &[usize]) -> String {
    let names: Vec<String> = list.iter().map(ToString::to_string).collect();
    format!("{} {}", if list.len() == 1 { "core" } else { "cores" }, names.join(","))
}

fn proofs(out: &mut String, proofs: &[Proof]) {
    out.push_str("\nproofs\n");
    for proof in proofs {
        let tries = match proof.tries {
            1 => String::new(),
            n => format!(" ({n} tries)"),
        };
        let word = if proof.held { "held  " } else { "FAILED" };
        let _ = writeln!(out, "  {word}  {}: {}{tries}", proof.name, proof.what);
        for check in &proof.checks {
            line(out, check);
        }
    }
}

fn line(out: &mut String, check: &Check) {
    let measured = check.measured.as_ref().map_or_else(|| "nothing".to_owned(), amount);
    let expected = match check.passes {
        None => amount(&check.expected),
        Some((low, high)) => {
            let same = |n: f64| match check.expected {
                Amount::Ns(_) => units::nanos(n),
                _ => units::three(n),
            };
            format!("{} to {}", same(low), same(high))
        }
    };
    let mark = if check.held { "" } else { "  <-- not so" };
    let _ =
        writeln!(out, "            {:<38} {measured:>14}, expected {expected}{mark}", check.what);
}

fn amount(amount: &Amount) -> String {
    match amount {
        Amount::Ns(n) => units::nanos(*n),
        Amount::Count(n) => units::count(*n),
        Amount::Number(n) => units::three(*n),
        Amount::Word(word) => word.clone(),
    }
}

fn smallest(out: &mut String, floor: &Floor) {
    let ns = |n: u64| units::span(Span(n));
    out.push_str("\nthe smallest times here\n");
    let _ = writeln!(
        out,
        "  clock         {} a reading, steps of {} (the kernel says {})",
        units::nanos(floor.clock_read_ns),
        ns(floor.clock_step_ns),
        ns(floor.clock_resolution_ns)
    );
    let _ = writeln!(
        out,
        "  sleep         ends {} late in the median, p99 {}",
        ns(floor.sleep_late_p50_ns),
        ns(floor.sleep_late_p99_ns)
    );
    let gap = ns(floor.longest_gap_ns);
    let _ = writeln!(out, "  interruptions a thread that never sleeps lost up to {gap} at once");
    for one in &floor.loopback {
        let p99 = one.p99_ns.map(|t| format!(", p99 {}", ns(t))).unwrap_or_default();
        let (min, p50, driver) = (ns(one.min_ns), ns(one.p50_ns), &one.driver);
        let _ = writeln!(out, "  loopback      HTTP over {driver}: min {min}, p50 {p50}{p99}");
    }
}

fn lags(out: &mut String, record: &Record) {
    if record.lags.is_empty() {
        return;
    }
    out.push_str("\nsend lag by rate\n");
    for lag in &record.lags {
        let told = |name: &str, t: Option<u64>| {
            t.map(|t| format!("{name} {}, ", units::span(Span(t)))).unwrap_or_default()
        };
        let _ = writeln!(
            out,
            "  {:>8}  {}{}{}{}",
            units::rate(lag.rate),
            told("p50", lag.p50_ns),
            told("p99", lag.p99_ns),
            told("max", lag.max_ns),
            lag.verdict
        );
    }
}

fn rates(out: &mut String, record: &Record) {
    if record.rates.is_empty() {
        return;
    }
    let threads = units::counted(record.client_cores.len() as u64, "thread", "threads");
    let _ = writeln!(
        out,
        "\nthe highest rate that was VALID, with {threads} and a server that takes 1 ms"
    );
    for rate in &record.rates {
        let found = match (rate.per_second, rate.given, rate.busy) {
            (Some(n), Some(given), Some(busy)) => {
                let given = match rate.load.as_str() {
                    "open" => format!("{} asked", units::rate(given as f64)),
                    _ => units::counted(given, "connection", "connections"),
                };
                format!("{:>8} ({given}, busy {})", units::rate(n), units::percent(busy))
            }
            _ => "    none".to_owned(),
        };
        let _ = writeln!(out, "  {:<10} {:<9} {found}", rate.load, rate.driver);
        let _ = writeln!(out, "             not more, because: {}", rate.bound);
    }
}

fn advice(out: &mut String, record: &Record) {
    if record.advice.is_empty() {
        return;
    }
    out.push_str("\nwhat would help\n");
    for one in &record.advice {
        let _ = writeln!(out, "  {}", one.finding);
        if let Some(command) = &one.command {
            let _ = writeln!(out, "      {command}");
        }
    }
}

fn ending(out: &mut String, record: &Record) {
    let seconds = units::three(record.seconds);
    let (held, all) = (record.held(), record.proofs.len());
    let _ = match (record.interrupted, record.passed) {
        (true, _) => {
            writeln!(out, "\nINTERRUPTED after {seconds} s: {held} of {all} proofs held until then")
        }
        (false, true) => writeln!(out, "\nPASSED in {seconds} s: all {all} proofs held"),
        (false, false) => writeln!(
            out,
            "\nFAILED in {seconds} s: {held} of {all} proofs held; times that this host cannot \
             hold, nobody can measure on it"
        ),
    };
}
