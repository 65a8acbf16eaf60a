//! h2load's report in both of its forms, and prony's remarks on it.

use std::fmt::Write as _;

use prony_plan::plan::Plan;
use prony_stats::summary::Summary;
use prony_tally::record::FirstHandshake;

use super::figures::Figures;
use super::options::{Edition, Options};
use super::stats::{Row, TENTHS, bytes, time};
use crate::plan::temporary_key;

const SHORT_HEAD: &str =
    "                     min         max         mean         sd        +/- sd";
const LONG_HEAD: &str = "                 min         max         median      p95         p99         \
                         mean        sd         +/- sd";

/// The report.
pub(super) fn text(figures: &Figures, options: &Options) -> String {
    let f = figures;
    let mut out = String::from("\n");
    let _ = writeln!(
        out,
        "finished in {}, {:.2} req/s, {}/s",
        time(f.seconds),
        f.rate,
        bytes(f.bytes_per_second)
    );
    let _ = writeln!(
        out,
        "requests: {} total, {} started, {} done, {} succeeded, {} failed, {} errored, {} timeout",
        f.total, f.started, f.done, f.succeeded, f.failed, f.errored, f.timeout
    );
    let [ok, moved, client, server] = f.statuses;
    let _ = writeln!(out, "status codes: {ok} 2xx, {moved} 3xx, {client} 4xx, {server} 5xx");
    let _ = writeln!(
        out,
        "traffic: {} ({}) total, {} ({}) headers (space savings {:.2}%), {} ({}) data",
        bytes(f.bytes),
        f.bytes,
        bytes(f.header_bytes),
        f.header_bytes,
        f.savings(),
        bytes(f.data_bytes),
        f.data_bytes
    );
    match options.edition {
        Edition::V1_52 => out += &short_table(f),
        Edition::V1_70 => out += &long_table(f, options.histogram),
    }
    out
}

/// The table of 1.52.
fn short_table(f: &Figures) -> String {
    let mut out = format!("{SHORT_HEAD}\n");
    let mut row = |name: &str, row: &Row, unit: &dyn Fn(f64) -> String| {
        let _ = writeln!(
            out,
            "{name:<16}:{:>11}{:>12}{:>12}{:>12}{:>9.2}%",
            unit(row.min),
            unit(row.max),
            unit(row.mean),
            unit(row.sd),
            row.within
        );
    };
    row("time for request", &f.request, &time);
    row("time for connect", &Row::of(f.connect.clone()), &time);
    row("time to 1st byte", &Row::of(f.first_byte.clone()), &time);
    row("req/s", &Row::of(f.rates.clone()), &rate);
    out
}

/// The table of 1.70.
fn long_table(f: &Figures, histogram: bool) -> String {
    let mut out = format!("{LONG_HEAD}\n");
    let mut row = |name: &str, row: &Row, unit: &dyn Fn(f64) -> String| {
        let _ = writeln!(
            out,
            "{name:<12}:{:>11}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>9.2}%",
            unit(row.min),
            unit(row.max),
            unit(row.median),
            unit(row.p95),
            unit(row.p99),
            unit(row.mean),
            unit(row.sd),
            row.within
        );
        if histogram && row.count > 0 {
            out += &bars(row, unit);
        }
    };
    row("request", &f.request, &time);
    row("connect", &Row::of(f.connect.clone()), &time);
    row("TTFB", &Row::of(f.first_byte.clone()), &time);
    row("req/s", &Row::of(f.rates.clone()), &rate);
    out
}

fn rate(x: f64) -> String {
    format!("{x:.2}")
}

/// The longest bar.
const BAR: u64 = 40;

/// A bar for each tenth of the range, its share, and the share up to its end.
fn bars(row: &Row, unit: &dyn Fn(f64) -> String) -> String {
    let mut out = String::new();
    let most = row.tenths.iter().copied().max().unwrap_or(0).max(1);
    let edge = |i: usize| unit(row.min + (row.max - row.min) * i as f64 / TENTHS as f64);
    let share = |n: u64| n as f64 * 100.0 / row.count.max(1) as f64;
    let mut sum = 0;
    for (i, &n) in row.tenths.iter().enumerate() {
        sum += n;
        let bar = "/".repeat((n * BAR / most) as usize);
        let _ = writeln!(
            out,
            "{:>10}-{:>10} [{bar:<40}]({:>6.2}/{:>6.2}%)",
            edge(i),
            edge(i + 1),
            share(n),
            share(sum)
        );
    }
    out
}

/// What h2load prints about the first connection.
pub(super) fn protocol(summary: &Summary, edition: Edition) -> String {
    let t = &summary.main;
    let mut out = String::new();
    let all = [Some(t), summary.warmup.as_ref()];
    if let Some(first) = all.into_iter().flatten().find_map(|t| t.tls.as_ref()?.first.as_ref()) {
        out += &handshake(first, edition);
    }
    let connected = all.into_iter().flatten().any(|t| t.connected > 0);
    if let Some(name) = name(summary).filter(|_| connected) {
        let _ = writeln!(out, "Application protocol: {name}");
    }
    out
}

fn name(summary: &Summary) -> Option<&'static str> {
    let counts = summary.main.http2.as_deref();
    if counts.is_some_and(|counts| counts.connections > 0) {
        return Some(if super::plan::is_tls(&summary.plan) { "h2" } else { "h2c" });
    }
    let is_h1 = counts.is_some_and(|counts| counts.fallbacks > 0) || !summary.plan.http.is_http2();
    is_h1.then_some("http/1.1")
}

fn handshake(first: &FirstHandshake, edition: Edition) -> String {
    let mut out = format!(
        "TLS Protocol: TLSv{}\nCipher: {}\n",
        first.version,
        prony_plan::plan::openssl_name(&first.suite)
    );
    let group = first.group.as_deref();
    if let Some(group) = group {
        let _ = writeln!(out, "Server Temp Key: {}", temporary_key(group));
    }
    if edition == Edition::V1_70 {
        if let Some(bits) = first.key_bits {
            // No curve has a key of 1,024 bits, and no RSA key in use is shorter.
            let kind = if bits >= 1_024 { "RSA" } else { "EC" };
            let _ = writeln!(out, "Certificate: {kind} {bits} bits");
        }
        if let Some(group) = group {
            let _ = writeln!(out, "Negotiated Group: {group}");
        }
        out += "Resumption: no\n";
    }
    out
}

/// Remarks on what h2load's lines omit or distort.
pub(super) fn remarks(figures: &Figures, summary: &Summary) -> Vec<String> {
    let t = &summary.main;
    let mut remarks = Vec::new();
    let errors = figures.statuses[2] + figures.statuses[3];
    if errors > 0 {
        remarks.push(format!(
            "{errors} replies with a status of 400 or above are included in all times and rates."
        ));
    }
    let clients = connections(&summary.plan);
    if t.connected > clients && t.replies > 0 {
        remarks.push(format!(
            "The server closed connections: {} were opened for {clients} clients. h2load opens no \
             other connection over HTTP/2, and counts the rest of such a client's requests as \
             errored.",
            t.connected
        ));
    }
    if t.times.stream_wait.count() > 0 {
        remarks.push(format!(
            "{} requests waited for a stream of the server; that wait is in the response time, and \
             in no line of h2load.",
            t.times.stream_wait.count()
        ));
    }
    if t.unfinished > 0 {
        remarks.push(format!(
            "{} requests were in flight when the run ended; how long they would have taken is \
             unknown.",
            t.unfinished
        ));
    }
    remarks
}

fn connections(plan: &Plan) -> u64 {
    plan.connections_max()
}

#[cfg(test)]
mod tests;
