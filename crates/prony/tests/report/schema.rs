//! Compares the JSON report with its committed schema, and both with their documentation.

mod hosts;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use prony_base::fault::Fault;
use prony_base::meter::{CpuPressure, SchedDelay, Stalls};
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{
    self, Alternative, AtLimit, Clients, Control, Follow, Gate, Group, GrpcCall, Http2Spec,
    HttpVersion, Load, MessagePart, MessagePlan, MessageReply, Pace, Placement, ProxySpec,
    RedirectServer, Redirects, Retry, RetryOn, StreamFormat, StreamPlan, Switch, Think,
    TokenDialect, TokenPlan,
};
use prony_plan::schedule::{Arrivals, RatePlan};
use prony_plan::script::{Exhausted, Extract, PickRow, Place, Table};
use prony_proto::proto::StreamCounts;
use prony_report::{Format, Style, render};
use prony_stats::summary::confidence::Until;
use prony_stats::summary::{
    Accepted, BadLine, Burstiness, DirectorCost, LogBodies, LogRead, Replayed, RunInfo, Summary,
};
use prony_tally::record::hist::Hist;
use prony_tally::record::series::Series;
use prony_tally::record::{
    GroupTally, NameTally, ProxyTally, Reconnects, RedirectTally, StepTally, StreamBodies,
    StreamMessages,
};
use serde_json::Value;

use super::kinds::every_kind;
use super::sample;
use super::streams::{record_over_time, tokens, websocket};

fn read(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).expect("the file is in the tree")
}

fn schema() -> Value {
    serde_json::from_str(&read("docs/schema/report-1.json")).expect("the schema is JSON")
}

fn report(summary: &Summary) -> Value {
    serde_json::from_slice(&render(Format::Json, summary, &Style::default())).expect("it is JSON")
}

/// A closed loop with a step change of the target after six of twelve seconds, too few samples for
/// its percentile and goal, and ended by the user; and a run with mostly failures.
fn doubtful() -> [Summary; 2] {
    let mut changed = sample::closed();
    let t = &mut changed.main;
    for k in 0..1_200 {
        let at = Nanos(k * 10_000_000);
        t.series.started(at);
        t.series.replied(at, Span::from_millis(if k < 600 { 2 } else { 5 }), 10);
    }
    t.series.close();
    t.service_series = Some(Box::new(t.series.clone()));
    t.end = Nanos(12_000_000_000);
    (changed.run.percentile, changed.run.interrupted) = (Some(99.9), true);
    let goals = vec!["p99.9 +- 1%".parse().expect("a goal")];
    changed.run.until = Some(Until { goals, ended: false, reached: false });
    let mut failed = sample::closed();
    let t = &mut failed.main;
    (t.started, t.failed, t.faults[Fault::Reset as usize]) = (10, 7, 7);
    failed.run.connections_as_sessions = true;
    failed.run.secrets_shown = true;
    let [changed, failed] = [changed, failed].map(sample::audited);
    for (summary, limits) in [
        (&changed, &["interrupted", "level-shift", "too-few-samples", "interval-too-wide"][..]),
        (&failed, &["failures"]),
    ] {
        let reported = &report(summary)["verdict"]["reasons"];
        let reported: Vec<_> =
            reported.as_array().into_iter().flatten().map(|r| &r["kind"]).collect();
        assert_eq!(reported, limits);
    }
    let reasons = &report(&replayed())["verdict"]["reasons"];
    assert_eq!((&reasons[0]["kind"], &reasons[0]["unread"]), (&"unread-lines".into(), &2.into()));
    [changed, failed]
}

/// A run with autocorrelated response times.
fn autocorrelated() -> Summary {
    let mut summary = sample::closed();
    let t = &mut summary.main;
    for k in 0..24_000_u64 {
        let phase = (k / 1_000) as f64 / 24.0 * std::f64::consts::TAU;
        t.series.replied(Nanos(k * 1_000_000), Span((1e7 * (1.0 + 0.5 * phase.cos())) as u64), 10);
        t.times.response.record(Span((1e7 * (1.0 + 0.5 * phase.cos())) as u64));
    }
    t.series.close();
    t.end = Nanos(24_000_000_000);
    let summary = sample::audited(summary);
    let reported = &report(&summary)["verdict"]["reasons"];
    assert_eq!(reported[0]["kind"], "autocorrelated", "{reported}");
    summary
}

/// A run with every kind of CPU pressure, and inconsistent counters.
fn under_cpu_pressure() -> Summary {
    let mut summary = sample::closed();
    let ms = Span::from_millis;
    let meter = &mut summary.workers[0];
    meter.wall = ms(12_000);
    meter.sched_delay = Some(SchedDelay { total: ms(6_000), count: 9 });
    meter.stalls = Stalls { checks: 240, late: 120, sum: ms(90_000), longest: ms(900) };
    summary.run.cpu_pressure = CpuPressure {
        throttled: Some(ms(3_000)),
        stolen: Some(ms(3_000)),
        wanted: Some(ms(9_000)),
    };
    summary.main.started = 20;
    summary.main.time_in_flight = Some(Span::from_secs(99));
    let reported = &report(&summary)["verdict"]["reasons"];
    let reported: Vec<_> = reported.as_array().into_iter().flatten().map(|r| &r["kind"]).collect();
    assert_eq!(
        reported,
        [
            "littles-law-mismatch",
            "cpu-throttled",
            "cpu-stolen",
            "run-queue-delay",
            "event-loop-stall"
        ]
    );
    summary
}

/// A run with arrivals that waited to be sent together, as requested, and one with a saturated
/// target.
fn with_causes() -> [Summary; 2] {
    let ms = Span::from_millis;
    let mut late = sample::open();
    late.main.times.lag.record_n(ms(2), 1_000);
    late.main.times.response.record_n(ms(3), 1_000);
    let advice = |summary: &Summary| {
        let reported = &report(summary)["verdict"]["reasons"];
        let lag = reported.as_array().into_iter().flatten().find(|r| r["kind"] == "send-lag");
        lag.expect("it was late")["sentence"].as_str().expect("a sentence").to_owned()
    };
    assert!(advice(&late).contains("more threads"), "{}", advice(&late));
    late.run.precision = Some(ms(2));
    assert!(advice(&late).contains("--precision 2ms"), "{}", advice(&late));
    late.run.precision = None;
    late.main.times.first_message.record_n(ms(1), 1_000);
    let sentence = "the meter sent late: the p99 of the send lag is 2.00 ms, the median first \
                    message time 1.00 ms: ";
    assert!(advice(&late).starts_with(sentence), "{}", advice(&late));
    late.run.precision = Some(ms(2));
    let mut messages = sample::closed();
    messages.main.times.message_lag.record_n(ms(2), 50);
    messages.main.times.message.record_n(ms(3), 50);
    let sentence = "the meter sent messages late: the p80 of the message lag is 2.00 ms, the median \
                    message time 3.00 ms: ";
    assert!(advice(&messages).starts_with(sentence), "{}", advice(&messages));
    let mut full = sample::closed();
    let t = &mut full.main;
    for k in 0..6_000_u64 {
        let service = ms(if k < 5 { 1 } else { 12 });
        t.times.service.record(service);
        t.series.replied(Nanos(k * 1_000_000), service, 10);
    }
    t.series.close();
    (t.replies, t.end) = (6_003, Nanos(6_000_000_000));
    assert_eq!(report(&full)["verdict"]["bottleneck"]["kind"], "server");
    [late, full].map(sample::audited)
}

/// Runs over HTTP/2 that each of its limits has limited.
fn over_http2() -> [Summary; 3] {
    let mut run = sample::closed_every(1_000_000);
    let plan = &mut run.plan;
    (plan.http, plan.placement) = (HttpVersion::Http2, Placement::Fill);
    let parts = vec![MessagePart::Bytes(vec![1])];
    plan.calls[0].grpc = Some(Box::new(GrpcCall {
        streams: true,
        takes: true,
        token: Some((1, 2)),
        timeout: Some(Span(1)),
        gzip: true,
        messages: vec![parts],
    }));
    plan.http2 = Some(Box::new(Http2Spec {
        window: 1,
        wait_settings: true,
        is_static: true,
        retry_refused: true,
        keepalive: Some(Span(1)),
        ..Http2Spec::default()
    }));
    run.main.http2 = Some(Box::new(counts()));
    let (mut limited, mut blocked) = (run.clone(), run.clone());
    limited.main.times.stream_wait.record_n(Span(1_000), 3);
    blocked.main.times.flow_wait.record_n(Span(2_000_000), 3);
    run.plan.messages = Some(Box::new(MessagePlan {
        rate: "10@1s,10..20@5s".parse().expect("a rate"),
        over: 3,
        arrivals: Arrivals::Gamma(0.5),
        count: Some(3),
        time: Some(Span::from_secs(1)),
        reply: MessageReply::Field,
    }));
    websocket(&mut run);
    let slo = TokenPlan::parse_slo("ttft < 300ms, itl < 50ms").expect("limits");
    run.plan.stream = Some(Box::new(StreamPlan {
        format: StreamFormat::Sse,
        content: Some("/a".into()),
        count: Some(1),
        time: Some(Span(1)),
        until: Some("end".into()),
        end: Some("end".into()),
        tokens: Some(TokenPlan {
            dialect: TokenDialect::OpenAi,
            slo,
            tokenizer: Some("t.json".into()),
        }),
        reconnect: true,
    }));
    let reconnects = Some(Reconnects::default());
    run.main.stream_messages = Some(Box::new(StreamMessages {
        bodies: Some(Box::new(StreamBodies { reconnects, ..StreamBodies::default() })),
        sizes: Some(Box::default()),
        unsent: 1,
        ..StreamMessages::default()
    }));
    run.main.tokens = Some(Box::new(tokens()));
    record_over_time(&mut run);
    let kind = |run: &Summary| report(run)["verdict"]["bottleneck"]["kind"].clone();
    assert_eq!([&run, &limited, &blocked].map(kind), ["streams", "stream-limit", "window"]);
    [run, limited, blocked]
}

/// Counters of HTTP/2.
fn counts() -> StreamCounts {
    StreamCounts {
        connections: 1,
        limit_least: Some(1),
        limit_last: Some(2),
        open_time: Span(1_000),
        open_max: 2,
        blocked: 1,
        blocked_time: Span(1_000),
        goaways: [("NO_ERROR".to_owned(), 1)].into(),
        goaway_texts: [("NO_ERROR".to_owned(), "max_age".to_owned())].into(),
        resets: [("CANCEL".to_owned(), 1)].into(),
        without_status: [("503".to_owned(), 1)].into(),
        grpc_messages: [("NOT_FOUND".to_owned(), "why".to_owned())].into(),
        ..StreamCounts::default()
    }
}

/// Sessions whose steps a program decided.
fn directed() -> Summary {
    let mut run = sample::sessions();
    run.plan.sessions.as_mut().expect("it has sessions").directed = true;
    let (time, longest) = (Span::from_millis(3), Span::from_millis(1));
    run.run.director = Some(DirectorCost { steps: 80, time, longest });
    run.run.ended_by = Some("p99 < 1ms, abort".parse().expect("a threshold"));
    run
}

/// Sessions that decided which steps they made.
fn deciding() -> Summary {
    let mut run = sample::sessions();
    run.plan.ramp_up = Some(Span(1));
    let condition = || Some("{{status}} == 200".to_owned());
    let gate = Gate { when: condition(), unless: condition() };
    let alternatives = vec![Alternative { weight: 3, bursts: 1 }];
    let control = Control {
        switches: vec![Switch { gate: gate.clone(), alternatives }],
        gate,
        until: Some(plan::Until {
            condition: "{{status}}".to_owned(),
            at_limit: AtLimit::Continue,
        }),
        retry: Some(Retry {
            times: 3,
            wait: Span(1),
            factor: 2_000,
            max: Some(Span(9)),
            jitter: 200,
            on: vec![RetryOn::Status, RetryOn::Connect],
        }),
    };
    let sessions = run.plan.sessions.as_mut().expect("it has sessions");
    sessions.kinds[0].bursts[0].control = Some(Box::new(control));
    let mut steps = StepTally { skipped: 3, retried: 2, ..StepTally::default() };
    steps.recovered.record(Span::from_millis(3));
    run.main.sessions.as_mut().expect("it has sessions").steps = Some(Box::new(steps));
    run
}

/// A replay of a log with bad lines.
fn replayed() -> Summary {
    let mut run = sample::closed();
    let (rate, arrivals) = (RatePlan::default(), Arrivals::Log);
    run.plan.load = Load::Open { rate, arrivals, connections: 7 };
    let text = "GET /?token".to_owned();
    let bad = BadLine { line: 3, why: "it has no time".to_owned(), text };
    let log = LogRead {
        file: "access.log".to_owned(),
        format: "Combined".to_owned(),
        times: "requests started at %t".to_owned(),
        requests: 98,
        bad: 2,
        first_bad: vec![bad],
        ..LogRead::default()
    };
    let mut took = Hist::default();
    took.record(Span::from_millis(1));
    run.plan.names = vec!["GET /a".to_owned()];
    let response = took.clone();
    run.main.names = vec![NameTally { response, ..NameTally::default() }];
    let mut times = Series::new(Nanos::ZERO);
    times.replied(Nanos::ZERO, Span::from_millis(1), 0);
    times.close();
    run.run.replay = Some(Box::new(Replayed {
        logs: vec![log],
        speed: 2.0,
        copies: 3,
        sample: Some("10%".to_owned()),
        burstiness: vec![Burstiness { logged: Some(1.5), ..Burstiness::default() }],
        by: Some("client".to_owned()),
        bodies: Some(LogBodies { missing_keys: vec!["/a?b".into()], ..LogBodies::default() }),
        only_until_sent: true,
        held: took.clone(),
        took: vec![took],
        took_blocks: Some(times.blocks().clone()),
        took_step: Span::from_millis(1),
        failed: Some("it ended".to_owned()),
        ..Replayed::default()
    }));
    run
}

/// A run through a proxy, which opened one tunnel and refused another.
fn through_a_proxy() -> Summary {
    let mut summary = sample::closed();
    let mut proxy = ProxySpec::parse("name:pass@p:3128").expect("an address");
    proxy.tunnel = true;
    summary.plan.proxy = Some(Box::new(proxy));
    let key = r#"{"region":"r","service":"s3","access_key":"ID","secret_key":"s","token":"t"}"#;
    summary.plan.aws_sigv4 = serde_json::from_str(key).expect("a key");
    summary.plan.calls[0].unsigned = true;
    summary.main.times.tunnel.record(Span::from_millis(2));
    let reasons = [("status 407".to_owned(), 1)].into();
    summary.main.proxy = Some(Box::new(ProxyTally { opened: 1, reasons }));
    summary
}

/// Summaries that together have every field and every variant.
pub(super) fn summaries() -> Vec<Summary> {
    let mut all = vec![sample::open(), sample::closed(), sample::everything(), sample::sessions()];
    all.push(sample::sockets());
    all.push(every_kind());
    all.push(sample::exchange());
    all.push(sample::promised());
    all.push(accepted());
    all.extend(doubtful());
    all.push(under_cpu_pressure());
    all.push(through_a_proxy());
    all.extend(hosts::on_hosts());
    all.extend(over_http2());
    all.push(autocorrelated());
    all.extend(with_causes());
    let (low, high) = (Span::from_millis(1), Span::from_millis(9));
    for think in [
        Think::Fixed(low),
        Think::Exponential(low),
        Think::Uniform(low, high),
        Think::LogNormal(low, 500),
    ] {
        let mut summary = sample::closed();
        summary.plan.load = Load::Closed { connections: 7, think };
        all.push(summary);
    }
    for arrivals in
        [Arrivals::Uniform(low, high), Arrivals::Gamma(0.25), Arrivals::Trace([low, high].into())]
    {
        let mut summary = sample::closed();
        summary.plan.load = Load::Open { rate: RatePlan::default(), arrivals, connections: 7 };
        all.push(summary);
    }
    for pace in [Pace::Free, Pace::Rate(5.0), Pace::Times([low, high].into())] {
        let mut summary = sample::closed();
        let (starts, lifetime) = (Some((2, high)), Some(high));
        summary.plan.clients =
            Some(Box::new(Clients { starts, pace, lifetime, ends_on_timeout: true }));
        all.push(summary);
    }
    let mut filled = sample::closed();
    let mut table = Table::new("users", PickRow::Random, vec!["id".to_owned()]).expect("a column");
    table.push(["7"]).expect("one cell");
    filled.plan.data.tables.push(Arc::new(table));
    let unique = Table::new("once", PickRow::Unique, vec!["id".to_owned()]).expect("a column");
    let mut unique = unique.when_exhausted(Exhausted::Fail);
    unique.push(["8"]).expect("one cell");
    filled.plan.data.tables.push(Arc::new(unique));
    filled.plan.data.variables.push(("me".to_owned(), "{{users.id}}".to_owned()));
    (filled.plan.calls[0].template, filled.plan.calls[0].gzip) = (true, true);
    for place in [
        Place::Header { name: "X".to_owned(), regex: Some("a".to_owned()) },
        Place::Json("/a".to_owned()),
        Place::Between("<".to_owned(), ">".to_owned()),
    ] {
        let (variable, default) = ("v".to_owned(), Some("b".to_owned()));
        filled.plan.calls[0].extract.push(Extract { variable, place, default });
    }
    all.push(filled);
    all.push(directed());
    all.push(deciding());
    all.push(replayed());
    all.push(following());
    let mut plan = sample::closed().plan;
    plan.calls.clear();
    plan.replace_lost = true;
    all.push(Summary::from_parts(plan, RunInfo::default(), vec![]));
    all
}

/// A run that followed redirects, and met some that it did not follow.
fn following() -> Summary {
    let mut summary = sample::closed();
    let group = summary.plan.groups.len() as u32;
    summary.plan.groups.push(Group { name: Follow::GROUP.to_owned(), parts: Vec::new() });
    let servers = vec![RedirectServer { endpoint: 0, authority: "h:81".to_owned() }];
    let redirects = Redirects::Most(Follow::MOST);
    summary.plan.follow = Some(Box::new(Follow { redirects, servers, group }));
    summary.plan.calls[0].redirects = Some(Redirects::Off);
    summary.main.groups.push(GroupTally::default());
    let elsewhere = [("http://h".to_owned(), 3)].into();
    let tally = RedirectTally { followed: 4, over_limit: 1, unusable: 2, elsewhere };
    summary.main.redirects = Some(Box::new(tally));
    summary
}

#[test]
fn reports_match_the_schema() {
    let schema = jsonschema::validator_for(&schema()).expect("the schema is valid");
    for summary in summaries() {
        let report = report(&summary);
        let errors: Vec<String> =
            schema.iter_errors(&report).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }
}

/// A run of which the user accepts whatever it shows.
fn accepted() -> Summary {
    let mut summary = sample::closed();
    summary.run.accepted = Accepted { invalid: true, undecided: true };
    summary
}

#[test]
fn schema_rejects_invalid_reports() {
    let schema = jsonschema::validator_for(&schema()).expect("the schema is valid");
    let good = report(&sample::everything());
    let refused = |change: fn(&mut Value)| {
        let mut bad = good.clone();
        change(&mut bad);
        assert!(bad != good && !schema.is_valid(&bad));
    };
    refused(|r| r["schema"] = 2.into());
    refused(|r| r["new"] = 2.into());
    refused(|r| r["measurement"]["tally"]["new"] = 2.into());
    refused(|r| r["measurement"]["tally"]["started"] = "1".into());
    refused(|r| r["measurement"]["errors"][0]["error"] = "new".into());
    refused(|r| r["verdict"]["reasons"][0]["kind"] = "new".into());
    refused(|r| r["plan"]["load"] = Value::Null);
    refused(|r| drop(r.as_object_mut().and_then(|r| r.remove("warmup"))));
}

#[test]
fn schema_contains_every_fault() {
    let known: Vec<Fault> =
        serde_json::from_value(schema()["$defs"]["fault"]["enum"].clone()).expect("faults");
    assert_eq!(known, Fault::ALL);
}

/// The names of all fields that a schema describes.
pub(super) fn described(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let ("properties", Value::Object(properties)) = (name.as_str(), value) {
                    names.extend(properties.keys().cloned());
                }
                described(value, names);
            }
        }
        Value::Array(values) => values.iter().for_each(|v| described(v, names)),
        _ => {}
    }
}

/// The names of all fields of a value, except keys of counters (statuses, faults).
pub(super) fn used(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                names.insert(name.clone());
                if !["statuses", "faults", "stray", "goaways", "resets"].contains(&name.as_str()) {
                    used(value, names);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|v| used(v, names)),
        _ => {}
    }
}

#[test]
fn all_fields_are_used_and_documented() {
    let (mut in_schema, mut in_reports) = (BTreeSet::new(), BTreeSet::new());
    described(&schema(), &mut in_schema);
    summaries().iter().for_each(|s| used(&report(s), &mut in_reports));
    let dead: Vec<_> = in_schema.difference(&in_reports).collect();
    assert!(dead.is_empty(), "in the schema, but in no report: {dead:?}");

    let document = read("docs/json.md");
    let undocumented: Vec<_> =
        in_schema.iter().filter(|name| !document.contains(&format!("`{name}`"))).collect();
    assert!(undocumented.is_empty(), "not in docs/json.md: {undocumented:?}");
    // The first column of its tables contains only names of fields.
    let cells = document.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    for cell in cells {
        for name in cell.split("`, `").map(|name| name.trim_end_matches('`')) {
            assert!(in_schema.contains(name), "docs/json.md documents `{name}`, which is no field");
        }
    }
}
