//! Merges the reports of the shares of one run into the report of the whole run.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use prony_base::merge::Merge;
use prony_base::meter::{CpuPressure, WorkerStats};
use prony_plan::plan::{CallSpec, Load, Plan, Shard};
use prony_report::json;
use prony_stats::summary::{Host, Hosts, PART_FORMAT, Part, RunInfo, Summary};
use prony_tally::record::Tally;
use ring::digest;

use crate::error::Error;
use crate::run;

/// The maximum number of shards that a sentence lists; of the others, it gives the number.
const NAMED_MAX: usize = 8;

/// The facts about the whole run in the report of a share. `whole` is the plan before the split.
pub fn part_of(whole: &Plan, start_at_unix: Option<f64>) -> Part {
    Part {
        format: PART_FORMAT,
        plan_digest: plan_digest(whole),
        host: host_name(),
        start_at_unix,
        start_late: None,
    }
}

/// The name of this host.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}

/// Share `shard` of a plan.
///
/// # Errors
/// The plan cannot be split into this number of shares.
pub fn share(whole: &Plan, shard: Shard) -> Result<Plan, Error> {
    if shard.index >= shard.of {
        let (index, of) = (shard.index, shard.of);
        return Err(Error::Argument(format!("there is no shard {index} (from 0) of {of}")));
    }
    let most = whole.shards_max();
    if shard.of > most {
        return Err(Error::Value {
            what: "--shard",
            value: shard.shown(),
            why: format!(
                "this plan can be split into at most {most}: each shard needs a connection, and a \
                 session where their number is given (sessions that share their cookies cannot be \
                 split)"
            ),
        });
    }
    Ok(whole.shard(shard.index, shard.of))
}

/// The SHA-256 of the plan, in hexadecimal digits. It does not cover what reports hide, so that a
/// report does not help to guess it, but it covers the lengths of bodies.
fn plan_digest(whole: &Plan) -> String {
    let lengths: Vec<u64> = whole.calls.iter().map(CallSpec::body_length).collect();
    let text = serde_json::to_vec(&(whole.hidden(), lengths)).expect("a plan can be written");
    let digest = digest::digest(&digest::SHA256, &text);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Merge the reports of the shares of one run, each with its name (usually that of its file).
/// `partial`: shards may be missing.
///
/// # Errors
/// They are not the reports of different shares of one run.
pub fn merge(mut parts: Vec<(String, Summary)>, partial: bool) -> Result<Summary, Error> {
    let refused = |why: String| Err(Error::Argument(why));
    for (name, summary) in &parts {
        check_part(name, summary)?;
    }
    parts.sort_by_key(|(_, summary)| summary.plan.shard.index);
    let Some(((first_name, first), others)) = parts.split_first() else {
        return refused("give the reports of the shards: prony merge FILE...".into());
    };
    for (name, other) in others {
        check_same(first_name, first, name, other)?;
    }
    for pair in parts.windows(2) {
        let [(a, first), (b, second)] = pair else { continue };
        if first.plan.shard == second.plan.shard {
            let shard = first.plan.shard.shown();
            return refused(format!(
                "{a} and {b} are both shard {shard}: give the report of each shard once"
            ));
        }
    }
    let of = first.plan.shard.of;
    let present: BTreeSet<u32> = parts.iter().map(|(_, s)| s.plan.shard.index).collect();
    let missing: Vec<u32> = (0..of).filter(|index| !present.contains(index)).collect();
    if !missing.is_empty() && !partial {
        return refused(format!(
            "{} of {of} shards {} missing: {}; add the reports, or merge without them by --partial",
            missing.len(),
            if missing.len() == 1 { "is" } else { "are" },
            named(&missing, of)
        ));
    }
    joined(parts, missing)
}

/// The first shards, and the number of the others.
fn named(missing: &[u32], of: u32) -> String {
    let shown = missing.iter().take(NAMED_MAX).map(|&index| Shard { index, of }.shown());
    let shown: Vec<String> = shown.collect();
    match missing.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Check that this is the report of a share.
fn check_part(name: &str, summary: &Summary) -> Result<(), Error> {
    let Shard { index, of } = summary.plan.shard;
    let why = match &summary.run.part {
        _ if summary.run.hosts.is_some() => "it is merged already".to_owned(),
        None => "it is the report of a whole run: shares are run with --shard I/N".to_owned(),
        Some(part) if part.format != PART_FORMAT => format!(
            "its part has format {}, but this prony reads format {PART_FORMAT}",
            part.format
        ),
        Some(_) if index >= of => format!("its shard {index} of {of} does not exist"),
        Some(_) => return Ok(()),
    };
    Err(Error::Argument(format!("{name} cannot be merged: {why}")))
}

/// Check that both are shares of one run.
fn check_same(a: &str, first: &Summary, b: &str, other: &Summary) -> Result<(), Error> {
    let differs = |what: &str, one: &str, two: &str| {
        Err(Error::Argument(format!(
            "{a} and {b} are not of one run: {what} {one} in the first, {two} in the second"
        )))
    };
    let (x, y) = (&first.run, &other.run);
    if x.version != y.version {
        return differs("prony was", &x.version, &y.version);
    }
    let (p, q) = (&first.plan, &other.plan);
    if p.shard.of != q.shard.of {
        return differs(
            "the number of shards is",
            &p.shard.of.to_string(),
            &q.shard.of.to_string(),
        );
    }
    if p.seed != q.seed {
        return differs("the seed is", &p.seed.to_string(), &q.seed.to_string());
    }
    let part = |run: &RunInfo| run.part.clone().unwrap_or_default();
    let (x, y) = (part(x), part(y));
    if x.plan_digest != y.plan_digest {
        let short = |digest: &str| digest.chars().take(12).collect::<String>();
        return differs("the plan has the digest", &short(&x.plan_digest), &short(&y.plan_digest));
    }
    if x.start_at_unix != y.start_at_unix {
        let shown = |at: Option<f64>| at.map_or_else(|| "none".into(), |at| format!("{at:.6}"));
        let (one, two) = (shown(x.start_at_unix), shown(y.start_at_unix));
        return differs("the start instant is", &one, &two);
    }
    Ok(())
}

/// Merge shares that belong together.
fn joined(parts: Vec<(String, Summary)>, missing: Vec<u32>) -> Result<Summary, Error> {
    let names = host_names(&parts);
    let hosts = names.iter().zip(&parts).map(|(name, (_, part))| Host::of(name.clone(), part));
    let hosts: Vec<Host> = hosts.collect();
    let plan = whole_plan(&parts);
    let run = whole_run(
        &names,
        &parts,
        Hosts {
            shards: parts[0].1.plan.shard.of,
            hosts,
            missing,
            start_at_unix: parts[0].1.run.part.as_ref().and_then(|part| part.start_at_unix),
        },
    );
    let (mut warmup, mut main, mut workers) = (None::<Tally>, None::<Tally>, Vec::new());
    for (_, part) in parts {
        add(&mut main, part.main);
        if let Some(part) = part.warmup {
            add(&mut warmup, part);
        }
        workers.extend::<Vec<WorkerStats>>(part.workers);
    }
    let main = main.unwrap_or_default();
    let whole = Summary { plan, run, warmup, main, workers };
    if !whole.warmup.iter().chain([&whole.main]).all(json::agrees) {
        return Err(Error::Argument("the counts of these reports are too large to add up".into()));
    }
    Ok(run::noted(whole))
}

fn add(all: &mut Option<Tally>, part: Tally) {
    match all {
        Some(all) => all.merge(&part),
        None => *all = Some(part),
    }
}

/// The plan of all shares. If machines have lowered the connection limit, the lowest one is used.
fn whole_plan(parts: &[(String, Summary)]) -> Plan {
    let mut plan = parts[0].1.plan.clone();
    plan.shard = Shard::WHOLE;
    for (_, part) in parts {
        if let (Load::Open { connections: all, .. }, Load::Open { connections: of_part, .. }) =
            (&mut plan.load, &part.plan.load)
        {
            *all = (*all).min(*of_part);
        }
    }
    plan
}

/// The unique names of the hosts. Names that occur twice get their shard appended.
fn host_names(parts: &[(String, Summary)]) -> Vec<String> {
    let name = |part: &Summary| part.run.part.as_ref().map_or("", |p| &p.host).to_owned();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (_, part) in parts {
        *seen.entry(name(part)).or_default() += 1;
    }
    let unique = |(_, part): &(String, Summary)| match name(part) {
        name if seen[&name] == 1 => name,
        name => format!("{name}#{}", part.plan.shard.index + 1),
    };
    parts.iter().map(unique).collect()
}

/// The facts about the runs of all shares, as those of one run.
fn whole_run(names: &[String], parts: &[(String, Summary)], hosts: Hosts) -> RunInfo {
    let runs = || parts.iter().map(|(_, part)| &part.run);
    let first = &parts[0].1.run;
    let each = |of: fn(&RunInfo) -> &str| {
        let all: BTreeSet<&str> = runs().map(of).filter(|text| !text.is_empty()).collect();
        all.into_iter().collect::<Vec<_>>().join("; ")
    };
    let earliest = runs().filter_map(|run| run.started_unix).min_by(f64::total_cmp);
    let limits = runs().map(|run| run.descriptor_limit).filter(|&limit| limit > 0);
    RunInfo {
        started_unix: earliest,
        driver: each(|run| &run.driver),
        host: each(|run| &run.host),
        addresses: addresses(parts),
        descriptor_limit: limits.min().unwrap_or_default(),
        interrupted: runs().any(|run| run.interrupted),
        cpu_pressure: runs()
            .fold(CpuPressure::default(), |all, run| pressure(all, run.cpu_pressure)),
        local_target: runs().find_map(|run| run.local_target.clone()),
        self_test: first.self_test.clone().filter(|_| parts.len() == 1),
        until: None,
        part: None,
        hosts: Some(Box::new(hosts)),
        notes: notes(names, parts),
        ..first.clone()
    }
}

/// The addresses that any host used, for each endpoint.
fn addresses(parts: &[(String, Summary)]) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for (_, part) in parts {
        for (i, of_endpoint) in part.run.addresses.iter().enumerate() {
            if all.len() <= i {
                all.push(Vec::new());
            }
            for address in of_endpoint {
                if !all[i].contains(address) {
                    all[i].push(address.clone());
                }
            }
        }
    }
    all
}

fn pressure(a: CpuPressure, b: CpuPressure) -> CpuPressure {
    let sum = |a: Option<_>, b: Option<_>| match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    CpuPressure {
        throttled: sum(a.throttled, b.throttled),
        stolen: sum(a.stolen, b.stolen),
        wanted: sum(a.wanted, b.wanted),
    }
}

/// The notes of all shares: those that every share has once, the others with the names of their
/// hosts.
fn notes(names: &[String], parts: &[(String, Summary)]) -> Vec<String> {
    let mut all: Vec<(&String, Vec<&str>)> = Vec::new();
    for (name, (_, part)) in names.iter().zip(parts) {
        for note in &part.run.notes {
            match all.iter_mut().find(|(known, _)| *known == note) {
                Some((_, hosts)) => hosts.push(name),
                None => all.push((note, vec![name])),
            }
        }
    }
    let reported = |(note, hosts): (&String, Vec<&str>)| match hosts.len() {
        n if n >= parts.len() => note.clone(),
        _ => format!("{}: {note}", hosts.join(", ")),
    };
    all.into_iter().map(reported).collect()
}
