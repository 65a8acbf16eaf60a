//! What reports say about the hosts of a run, and about a report of a single share.

use prony_base::units::Span;
use prony_stats::summary::{Host, Hosts, Loss, Offered, Summary};

use super::units;

/// The columns of the table of hosts.
pub(super) const COLUMNS: [&str; 8] =
    ["host", "shard", "replies", "failed", "busy", "lag p99", "stolen", "start"];

/// Hosts that a sentence names; of more it gives the number.
const NAMED_MAX: usize = 5;

/// The share of the run that the report covers; nothing for a whole run.
pub(super) fn part(summary: &Summary) -> Vec<String> {
    let Some(part) = &summary.run.part else { return Vec::new() };
    let mut parts = vec![format!("{} of the plan", summary.plan.shard.shown())];
    parts.push(format!("on {}", part.host));
    parts.extend(
        part.start_late
            .map(|late| format!("started {} after the agreed instant", units::span(late))),
    );
    parts
}

/// How many hosts there were, how much they offered and how far apart they started; nothing where
/// the run was made on one.
pub(super) fn facts(summary: &Summary) -> Vec<String> {
    let Some(hosts) = &summary.run.hosts else { return Vec::new() };
    let of = units::count(u64::from(hosts.shards));
    let mut parts = vec![match hosts.hosts.len() {
        n if n as u64 == u64::from(hosts.shards) => units::counted(n as u64, "host", "hosts"),
        n => format!("{} of {of} hosts", units::count(n as u64)),
    }];
    if hosts.is_partial() {
        let offered = units::percent(hosts.offered(&summary.plan));
        parts.push(format!("{offered} of the planned load offered"));
    }
    parts.extend(hosts.start_skew().map(|skew| format!("start skew {}", units::span(skew))));
    parts.extend(clocks(hosts));
    parts
}

/// How closely the hosts' clocks are known.
fn clocks(hosts: &Hosts) -> Option<String> {
    let clocks = || hosts.hosts.iter().filter_map(|host| host.clock);
    let offset = clocks().map(|clock| clock.offset_ns.unsigned_abs()).max()?;
    let bound = clocks().map(|clock| clock.bound).max()?;
    let drift = clocks().filter_map(|clock| clock.drift_ns).map(i64::unsigned_abs).max();
    let drift = drift.map_or_else(String::new, |drift| {
        format!(", drifted by up to {}", units::span(Span(drift)))
    });
    Some(format!(
        "clocks off by up to {} (known to {}{drift})",
        units::span(Span(offset)),
        units::span(bound)
    ))
}

/// The cells of a host's row after its name.
pub(super) fn cells(host: &Host, shards: u32) -> [String; 7] {
    let span = |t: Option<Span>| t.map_or_else(|| "-".to_owned(), units::span);
    [
        format!("{}/{shards}", host.shard + 1),
        units::count(host.replies),
        units::count(host.failed),
        units::percent(host.busy),
        span(host.send_lag_p99),
        span(host.cpu_pressure.stolen),
        host.start_late.map_or_else(|| "-".to_owned(), |t| format!("+{}", units::span(t))),
    ]
}

/// How a host was lost.
pub(super) fn loss(host: &Host, loss: &Loss) -> String {
    format!(
        "{} was lost after {}: {}; it had offered {} of its share, which was not moved to others",
        host.name,
        units::span(loss.after),
        loss.cause,
        units::percent(loss.offered)
    )
}

/// The columns of the table of the planned and the offered load.
pub(super) const OFFERED: [&str; 5] = ["start", "length", "planned", "offered", "share"];

/// The cells of a row of this table.
pub(super) fn offered_cells(row: &Offered) -> [String; 5] {
    let secs = row.length.as_secs_f64();
    [
        if row.at == Span::ZERO { "0 s".to_owned() } else { units::exact(row.at) },
        units::exact(row.length),
        units::rate(row.planned / secs),
        units::rate(row.offered as f64 / secs),
        match row.planned > 0.0 {
            true => units::percent(row.offered as f64 / row.planned),
            false => "-".to_owned(),
        },
    ]
}

/// At most `most` rows: consecutive intervals as one, in equal numbers.
pub(super) fn grouped(rows: &[Offered], most: usize) -> Vec<Offered> {
    let sum = |group: &[Offered]| Offered {
        at: group[0].at,
        length: group.iter().fold(Span::ZERO, |sum, row| sum + row.length),
        planned: group.iter().map(|row| row.planned).sum(),
        offered: group.iter().map(|row| row.offered).sum(),
    };
    rows.chunks(rows.len().div_ceil(most.max(1)).max(1)).map(sum).collect()
}

/// Why a run is partial.
pub(super) fn partial(offered: f64, missing: &[u32], shards: u32, lost: &[String]) -> String {
    let mut why = Vec::new();
    if !missing.is_empty() {
        let shown = missing.iter().map(|index| format!("{}/{shards}", index + 1));
        let what = if missing.len() == 1 { "shard" } else { "shards" };
        why.push(format!("no report of {what} {}", named(shown, missing.len())));
    }
    if !lost.is_empty() {
        why.push(format!("lost {}", named(lost.iter().cloned(), lost.len())));
    }
    format!(
        "{} of the planned load was never offered: {}",
        units::percent(1.0 - offered),
        why.join("; ")
    )
}

/// The first few of them, and how many more there are.
fn named(names: impl Iterator<Item = String>, count: usize) -> String {
    let names: Vec<String> = names.take(NAMED_MAX).collect();
    match count - names.len() {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_offered_load_are_grouped_without_loss() {
        let row = |i: u64| Offered {
            at: Span::from_secs(i),
            length: Span::from_secs(1),
            planned: 100.0,
            offered: if i < 4 { 100 } else { 75 },
        };
        let rows: Vec<Offered> = (0..10).map(row).collect();
        assert_eq!(grouped(&rows, 12), rows);
        let four = grouped(&rows, 4);
        let at: Vec<u64> = four.iter().map(|row| row.at.0 / 1_000_000_000).collect();
        assert_eq!(at, [0, 3, 6, 9]);
        assert_eq!(four.iter().map(|row| row.offered).sum::<u64>(), 850);
        let cells = ["3 s", "3 s", "100/s", "83.3/s", "83.3 %"];
        assert_eq!(offered_cells(&four[1]), cells);
        assert_eq!(grouped(&[], 4), []);
    }

    #[test]
    fn partial_runs_name_what_is_missing() {
        let lost = ["web3".to_owned()];
        assert_eq!(
            partial(0.875, &[], 8, &lost),
            "12.5 % of the planned load was never offered: lost web3"
        );
        assert_eq!(
            partial(0.75, &[1, 2], 8, &[]),
            "25.0 % of the planned load was never offered: no report of shards 2/8, 3/8"
        );
        let many: Vec<u32> = (0..7).collect();
        let sentence = partial(0.125, &many, 8, &lost);
        assert!(
            sentence.ends_with("no report of shards 1/8, 2/8, 3/8, 4/8, 5/8 and 2 more; lost web3"),
            "{sentence}"
        );
    }
}
