//! Shares of runs in the virtual world, merged.

use std::num::NonZeroU32;

use prony_base::meter::WorkerStats;
use prony_base::units::Span;
use prony_plan::plan::{Plan, Shard};
use prony_report::{Format, Style, json, render};
use prony_server::serve::{Latency, ServerBehavior, Share};
use prony_sim::Extras;
use prony_stats::summary::{Reason, RunInfo, Summary, Verdict};

use super::*;
use crate::plan_file::tests::plan;

/// A run on several threads of one process, and the report of each thread as if it had been a host.
fn run(whole: &Plan, shares: u32, seed: u64) -> (Summary, Vec<(String, Summary)>) {
    let latency = Latency::Exponential(Span::from_micros(700));
    run_against(&ServerBehavior { latency, ..ServerBehavior::default() }, whole, shares, seed)
}

fn run_against(
    server: &ServerBehavior,
    whole: &Plan,
    shares: u32,
    seed: u64,
) -> (Summary, Vec<(String, Summary)>) {
    let extras = Extras { keep_service: seed.is_multiple_of(2), ..Extras::default() };
    let tallies = prony_sim::simulate(whole, shares, seed, server, &extras);
    let info = RunInfo { version: "1".into(), driver: "simulation".into(), ..RunInfo::default() };
    let one = Summary::from_parts(whole.clone(), info.clone(), tallies.clone());
    let of = tallies.len() as u32;
    let part = |(index, tallies)| {
        let info = RunInfo { part: Some(part_of(whole, None)), ..info.clone() };
        let share = whole.shard(index, of);
        let summary = Summary::from_parts(share, info, vec![tallies]);
        (format!("part{}.json", index + 1), again(&summary))
    };
    (run::noted(one), (0..).zip(tallies).map(part).collect())
}

/// The report as JSON, read again.
fn again(summary: &Summary) -> Summary {
    let text = render(Format::Json, summary, &Style::default());
    json::read(&String::from_utf8(text).expect("text")).expect("a report")
}

const PLANS: [&str; 5] = [
    "url = 'http://h/'\nrate = 3000\narrivals = 'poisson'\nduration = '2s'\nwarmup = '0.5s'\nconnections = 9",
    "url = 'http://h/'\nrate = 1000\nduration = '3s'\nconnections = 40",
    "url = 'http://h/'\nconnections = 7\nduration = '2s'",
    "url = 'http://h/'\nconnections = 6\nrequests = 2000\nthink = 'exp:1ms'",
    "url = 'http://h/'\nrate = 400\nduration = '2s'\nconnections = 30\n\
     request = [{path = '/a?k=v', headers = {authorization = 'Bearer x'}}, {path = '/b'}]",
];

#[test]
fn merged_shards_equal_the_report_of_one_process() {
    for (seed, text) in (1_u64..).zip(PLANS.iter().cycle().take(10)) {
        let mut whole = run::with_names(plan(text));
        whole.seed = seed;
        assert_merges(run(&whole, 2 + (seed % 3) as u32, seed), text);
    }
}

/// The merged shares have the report of the whole run, in every format. Returns the run.
fn assert_merges((one, mut parts): (Summary, Vec<(String, Summary)>), text: &str) -> Summary {
    assert!(parts.len() > 1 && one.main.replies > 100, "{text}");
    parts.reverse();
    let mut merged = merge(parts, false).expect("they are of one run");
    let hosts = merged.run.hosts.take().expect("the hosts are listed");
    assert_eq!(hosts.hosts.iter().map(|host| host.replies).sum::<u64>(), one.main.replies);
    for format in [
        Format::Text,
        Format::Json,
        Format::Csv,
        Format::Hgrm,
        Format::Hlog,
        Format::Html,
        Format::Markdown,
        Format::Junit,
    ] {
        let texts = [&one, &merged].map(|s| render(format, s, &Style::default()));
        let texts = texts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let seed = one.plan.seed;
        assert_eq!(texts[0], texts[1], "seed {seed}, {format:?}: {text}");
    }
    one
}

/// A server whose replies vary, as far as its clients ask for it.
fn varied(text: &str) -> ServerBehavior {
    let events = "ttft=exp:2ms,gap=exp:700us,count=1..40,empty=1,tokens=2";
    ServerBehavior {
        latency: Latency::Exponential(Span::from_micros(700)),
        statuses: "200:9,503:1".parse().expect("statuses"),
        reset: Share(0.01),
        truncate: Share(0.01),
        refuse: Share(0.02),
        rst: Share(0.02),
        goaway_after: NonZeroU32::new(60),
        sse: text.contains("[stream]").then(|| events.parse().expect("events")),
        ..ServerBehavior::default()
    }
}

/// Whether the tally has something of this.
type Has = fn(&Tally) -> bool;

/// Each with what its runs must have, so that no plan is plainer than it seems.
const FULL_PLANS: [(&str, Has); 9] = [
    (
        "url = 'http://h/'\nrate = 400\narrivals = 'poisson'\nduration = '2s'\n\
         on-failure = 'continue'\nsession-think = 'exp:1ms'\n\
         thresholds = ['p99 < 1us', 'errors < 90%', 'group.buy.p50 < 1s', 'check.fast > 1%']\n\
         checks = ['status = 200', 'fast: time < 1ms']\n\
         [[session]]\nname = 'look'\nweight = 3\n\
         request = ['/a', ['/b', '/c'], {path = '/d', name = 'last', repeat = 2}]\n\
         [[session]]\nname = 'buy'\n\
         request = [{group = 'buy', request = [{path = '/cart', think = '1ms'}, 'POST /pay']}]",
        |t| {
            t.sessions.as_ref().is_some_and(|all| all.completed > 0 && all.failed > 0)
                && t.checks.iter().all(|check| check.passed > 0 && check.failed > 0)
                && t.groups.iter().all(|group| group.completed > 0)
        },
    ),
    (
        "url = 'http://h/'\nusers = 8\nsessions = 300\nsession-connections = 2\n\
         retry = {times = 3, wait = '1ms', jitter = 0.5}\n[[session]]\nrequest = [{path = '/a', \
         extract = {n = {header = 'Content-Length', default = '0'}}}, {path = '/b?{{n}}', when = \
         '{{n}} == 0'}, {path = '/c', repeat = 3}]",
        |t| {
            let steps = t.sessions.as_ref().and_then(|all| all.steps.as_ref());
            steps.is_some_and(|steps| steps.retried > 0 && !steps.recovered.is_empty())
        },
    ),
    (
        "url = 'http://h/'\nhttp = '2-only'\nrate = 2000\narrivals = 'poisson'\nduration = '1s'\n\
         connections = 6\nthresholds = ['streams < 1000', 'p50 < 1s']\n[http2]\nstreams = 5\n\
         retry-refused = true",
        |t| {
            t.http2.as_ref().is_some_and(|all| {
                !all.goaways.is_empty() && all.refused > 0 && !all.resets.is_empty()
            })
        },
    ),
    (
        "url = 'http://h/'\nhttp = '2-only'\nconnections = 4\nrequests = 900\n[http2]\n\
         streams = 3\nplacement = 'fill'",
        |t| t.http2.as_ref().is_some_and(|all| all.open_max > 1),
    ),
    ("url = 'http://h/sse'\nrate = 100\nduration = '2s'\n[stream]\nformat = 'sse'", |t| {
        t.stream_messages.as_ref().is_some_and(|all| all.bodies.is_some())
    }),
    (
        "url = 'http://h/v1/chat/completions'\nconnections = 6\nduration = '2s'\n\
         thresholds = ['ttft.p99 < 1s', 'goodput > 1']\n[stream]\nformat = 'sse'\n\
         tokens = 'openai'\nslo = 'ttft < 3ms, itl < 700us'\n\
         [[request]]\nbody = '{\"model\": \"m\", \"stream\": true, \"stream_options\": \
         {\"include_usage\": true}, \"messages\": [{\"role\": \"user\", \"content\": \"a b\"}]}'",
        |t| t.tokens.as_ref().is_some_and(|all| all.good > 0 && all.good < all.replies),
    ),
    ("url = 'ws://h/'\nconnections = 6\nduration = '1s'\nrequest = [{body = 'hello'}]", |t| {
        t.stream_messages.is_some()
    }),
    (
        "url = 'ws://h/'\nusers = 5\nsessions = 200\n[[session]]\nrequest = [{open = '/chat'}, \
         {send = 'one', wait-for = 'one', repeat = 3}, {close = 1000}]",
        |t| t.sessions.as_ref().is_some_and(|all| all.completed > 100),
    ),
    (
        "url = 'http://h/'\nconnections = 6\nrequests = 700\nreplace-lost = true\n\
         expect = [200]\nrequests-per-connection = 7\ntimeout = '1ms'",
        |t| t.failed > 0 && t.faults.iter().filter(|&&n| n > 0).count() > 2,
    ),
];

#[test]
fn merged_shards_of_every_kind_of_plan_equal_the_report_of_one_process() {
    for (seed, (text, has)) in (1_u64..).zip(FULL_PLANS.iter().cycle().take(27)) {
        let mut whole = run::with_names(plan(text));
        whole.seed = seed;
        let runs = run_against(&varied(text), &whole, 2 + (seed % 3) as u32, seed);
        let one = assert_merges(runs, text);
        assert!(has(&one.main), "seed {seed}, {text}: {:?}", one.main);
    }
}

/// Four shares of an open loop.
fn four() -> Vec<(String, Summary)> {
    run(&plan(PLANS[0]), 4, 5).1
}

fn refused(change: impl FnOnce(&mut Vec<(String, Summary)>)) -> String {
    let mut parts = four();
    change(&mut parts);
    let why = merge(parts, false).expect_err("it cannot be merged").to_string();
    assert!(!why.contains('\n'), "{why}");
    why
}

#[test]
fn rejects_reports_that_are_not_the_shards_of_one_run() {
    let why = refused(|parts| parts[2].1.plan.seed = 9);
    assert_eq!(
        why,
        "part1.json and part3.json are not of one run: the seed is 1 in the first, 9 in the second"
    );
    let why = refused(|parts| parts[1].1.run.version = "2".into());
    assert!(why.ends_with("not of one run: prony was 1 in the first, 2 in the second"), "{why}");
    let why = refused(|parts| {
        let other = run(&plan(PLANS[1]), 4, 5).1.swap_remove(3);
        parts[3] = other;
    });
    assert!(why.contains("part4.json are not of one run: the plan has the digest "), "{why}");
    let why = refused(|parts| parts[0].1.plan.shard.of = 5);
    assert!(why.contains("the number of shards is 5 in the first, 4 in the second"), "{why}");
    let why = refused(|parts| parts[3].1.run.part.as_mut().unwrap().start_at_unix = Some(7.5));
    assert!(
        why.ends_with("the start instant is none in the first, 7.500000 in the second"),
        "{why}"
    );
    let why = refused(|parts| {
        parts[1] = ("copy.json".into(), parts[3].1.clone());
    });
    assert!(
        why.contains("copy.json")
            && why.ends_with("both shard 4/4: give the report of each shard once"),
        "{why}"
    );
    let why = refused(|parts| parts[1].1.run.part = None);
    assert!(
        why.starts_with("part2.json cannot be merged: it is the report of a whole run"),
        "{why}"
    );
    let why = refused(|parts| parts[1].1.run.part.as_mut().unwrap().format = 1);
    assert!(why.ends_with("its part has format 1, but this prony reads format 2"), "{why}");
    let why = refused(|parts| {
        let merged = merge(parts.clone(), false).unwrap();
        parts[0] = ("whole.json".into(), merged);
    });
    assert_eq!(why, "whole.json cannot be merged: it is merged already");
    let why = refused(|parts| drop(parts.drain(1..3)));
    assert_eq!(
        why,
        "2 of 4 shards are missing: 2/4, 3/4; add the reports, or merge without them by --partial"
    );
    assert!(merge(Vec::new(), true).is_err());
}

#[test]
fn missing_shards_make_the_run_partial() {
    let mut parts = four();
    let lost = parts.remove(2).1;
    let whole = merge(parts, true).expect("shards may be missing");
    let judged = whole.verdict();
    assert_eq!((judged.verdict, judged.is_valid()), (Verdict::Partial, false));
    assert_eq!(
        judged.reasons,
        // Nine users: the first shard has three, the others two each.
        [Reason::Partial { offered: 7.0 / 9.0, missing: vec![2], shards: 4, lost: vec![] }]
    );
    let text = render(Format::Text, &whole, &Style::default());
    let text = String::from_utf8(text).expect("text");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["3 of 4 hosts, 77.8 % of the planned load offered", "no report of shard 3/4", "PARTIAL"]
    {
        assert!(words.contains(part), "{part}\n{text}");
    }
    // What it did offer is what the three have sent.
    let all = run(&plan(PLANS[0]), 4, 5).0;
    assert_eq!(whole.main.started + lost.main.started, all.main.started);
}

#[test]
fn names_the_saturated_host_that_limits_the_run() {
    let mut parts = four();
    for (i, (_, part)) in parts.iter_mut().enumerate() {
        part.run.part.as_mut().unwrap().host = format!("web{i}");
        let busy = if i == 2 { 99 } else { 20 };
        let wall = Span::from_secs(2);
        part.workers =
            vec![WorkerStats { wall, cpu_user: wall * busy / 100, ..WorkerStats::default() }];
    }
    let whole = merge(parts, false).expect("they are of one run");
    let judged = whole.verdict();
    assert_eq!(judged.verdict, Verdict::ClientLimited);
    let sentence = prony_report::words::reason(&judged.reasons[0], &whole);
    assert!(
        sentence.starts_with("host web2: thread 0 was busy for 99.0 % of its time"),
        "{sentence}"
    );
    assert_eq!(judged.reasons.len(), 1, "{:?}", judged.reasons);
    let hosts = whole.run.hosts.as_ref().unwrap();
    assert_eq!(hosts.hosts.iter().map(|h| h.limits.len()).collect::<Vec<_>>(), [0, 0, 1, 0]);
    assert_eq!(again(&whole).verdict(), judged);
}

#[test]
fn hosts_with_the_same_name_get_their_shard_and_notes_their_hosts() {
    let mut parts = four();
    for (i, (_, part)) in parts.iter_mut().enumerate() {
        part.run.part.as_mut().unwrap().host = if i == 3 { "b".into() } else { "a".into() };
        part.run.notes = vec!["Of all.".into()];
        part.run.cpu_pressure.stolen = Some(Span(i as u64));
    }
    parts[1].1.run.notes.push("Of one.".into());
    let whole = merge(parts, false).expect("they are of one run");
    let hosts = whole.run.hosts.as_ref().unwrap();
    let names: Vec<_> = hosts.hosts.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(names, ["a#1", "a#2", "a#3", "b"]);
    assert_eq!(whole.run.notes[..2], ["Of all.", "a#2: Of one."]);
    assert_eq!(whole.run.cpu_pressure.stolen, Some(Span(6)));
}

#[test]
fn each_share_needs_a_connection() {
    let whole = plan("url = 'http://h/'\nconnections = 3\nrequests = 9");
    let shard = |index, of| share(&whole, Shard { index, of });
    assert_eq!(shard(2, 3).unwrap().shard, Shard { index: 2, of: 3 });
    for (index, of) in [(0, 0), (3, 3), (7, 2)] {
        let why = shard(index, of).unwrap_err().to_string();
        assert_eq!(why, format!("there is no shard {index} (from 0) of {of}"));
    }
    let why = shard(2, 4).unwrap_err().to_string();
    assert!(why.starts_with("--shard `3/4`: this plan can be split into at most 3: "), "{why}");
}

#[test]
fn digests_exclude_secrets() {
    let digest = |text: &str| part_of(&plan(text), None).plan_digest;
    let of = |path: &str, body: &str, token: &str| {
        digest(&format!(
            "url = 'http://h/'\nrequest = [{{path = '{path}', body = '{body}', \
             headers = {{authorization = 'Bearer {token}'}}}}]"
        ))
    };
    let one = of("/?key=a", "abc", "a");
    assert_eq!(one.len(), 64);
    assert_eq!(of("/?key=b", "xyz", "b"), one);
    assert_ne!(of("/?key=b", "abcd", "b"), one);
    assert_ne!(digest("url = 'http://h/'"), digest("url = 'http://h/x'"));
}
