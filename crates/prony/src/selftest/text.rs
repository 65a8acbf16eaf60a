//! The text report of a self-test.

use std::fmt::Write as _;

use prony_base::units::Span;
use prony_report::units;

use super::record::{Amount, Check, Comparison, Floor, Record};

/// The whole report.
pub(crate) fn text(record: &Record) -> String {
    let mut out = String::new();
    head(&mut out, record);
    checks(&mut out, &record.checks);
    if let Some(floor) = &record.floor {
        shortest(&mut out, floor);
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
        true => writeln!(out, "client and server share one core, which slows both down"),
        false => writeln!(
            out,
            "client on {}, server on {}",
            cores(&record.client_cores),
            cores(&record.server_cores)
        ),
    };
}

fn cores(list: &[usize]) -> String {
    let names: Vec<String> = list.iter().map(ToString::to_string).collect();
    format!("{} {}", if list.len() == 1 { "core" } else { "cores" }, names.join(","))
}

fn checks(out: &mut String, checks: &[Check]) {
    out.push_str("\nchecks\n");
    for check in checks {
        let tries = match check.tries {
            1 => String::new(),
            n => format!(" ({n} attempts)"),
        };
        let word = if check.passed { "passed" } else { "FAILED" };
        let _ = writeln!(out, "  {word}  {}: {}{tries}", check.name, check.what);
        for comparison in &check.comparisons {
            line(out, comparison);
        }
    }
}

fn line(out: &mut String, comparison: &Comparison) {
    let measured = comparison.measured.as_ref().map_or_else(|| "nothing".to_owned(), amount);
    let expected = match comparison.accepted {
        None => amount(&comparison.expected),
        Some((low, high)) => {
            let shown = |n: f64| match comparison.expected {
                Amount::Ns(_) => units::nanos(n),
                _ => units::three(n),
            };
            format!("{} to {}", shown(low), shown(high))
        }
    };
    let mark = if comparison.passed { "" } else { "  <-- MISMATCH" };
    let what = &comparison.what;
    let _ = writeln!(out, "            {what:<38} {measured:>14}, expected {expected}{mark}");
}

fn amount(amount: &Amount) -> String {
    match amount {
        Amount::Ns(n) => units::nanos(*n),
        Amount::Count(n) => units::count(*n),
        Amount::Number(n) => units::three(*n),
        Amount::Word(word) => word.clone(),
    }
}

fn shortest(out: &mut String, floor: &Floor) {
    let ns = |n: u64| units::span(Span(n));
    out.push_str("\nshortest times on this host\n");
    let _ = writeln!(
        out,
        "  clock         {} per reading, smallest step {} (according to the kernel: {})",
        units::nanos(floor.clock_read_ns),
        ns(floor.clock_step_ns),
        ns(floor.clock_resolution_ns)
    );
    let _ = writeln!(
        out,
        "  sleep         ends late: p50 {}, p99 {}",
        ns(floor.sleep_late_p50_ns),
        ns(floor.sleep_late_p99_ns)
    );
    let gap = ns(floor.longest_gap_ns);
    let _ = writeln!(out, "  interruptions up to {gap} for a thread that never sleeps");
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
        let shown = |name: &str, t: Option<u64>| {
            t.map(|t| format!("{name} {}, ", units::span(Span(t)))).unwrap_or_default()
        };
        let _ = writeln!(
            out,
            "  {:>8}  {}{}{}{}",
            units::rate(lag.rate),
            shown("p50", lag.p50_ns),
            shown("p99", lag.p99_ns),
            shown("max", lag.max_ns),
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
        "\nhighest rate with the verdict VALID, with {threads} and a server latency of 1 ms"
    );
    for rate in &record.rates {
        let found = match (rate.per_second, rate.given, rate.busy) {
            (Some(n), Some(given), Some(busy)) => {
                let given = match rate.load.as_str() {
                    "open" => format!("target rate {}", units::rate(given as f64)),
                    _ => units::counted(given, "connection", "connections"),
                };
                format!("{:>8} ({given}, CPU use {})", units::rate(n), units::percent(busy))
            }
            _ => "    none".to_owned(),
        };
        let _ = writeln!(out, "  {:<10} {:<9} {found}", rate.load, rate.driver);
        let _ = writeln!(out, "             limited by: {}", rate.limit_reason);
    }
}

fn advice(out: &mut String, record: &Record) {
    if record.advice.is_empty() {
        return;
    }
    out.push_str("\nadvice\n");
    for one in &record.advice {
        let _ = writeln!(out, "  {}", one.finding);
        if let Some(command) = &one.command {
            let _ = writeln!(out, "      {command}");
        }
    }
}

fn ending(out: &mut String, record: &Record) {
    let seconds = units::three(record.seconds);
    let (passed, all) = (record.checks_passed(), record.checks.len());
    let _ = match (record.interrupted, record.passed) {
        (true, _) => {
            writeln!(out, "\nINTERRUPTED after {seconds} s: {passed} of {all} checks passed so far")
        }
        (false, true) => writeln!(out, "\nPASSED in {seconds} s: all {all} checks passed"),
        (false, false) => writeln!(
            out,
            "\nFAILED in {seconds} s: {passed} of {all} checks passed; measurements on this host \
             are not reliable now"
        ),
    };
}
