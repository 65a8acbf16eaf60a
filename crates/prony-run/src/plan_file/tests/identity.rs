//! Property test: writing a plan and reading it again gives the same plan.

mod tls;

use std::ops::Range;
use std::sync::Arc;

use prony_base::units::Span;
use prony_plan::plan::{
    Alternative, AtLimit, AwsSigning, Burst, CallSpec, Checks, Control, Cookies, Data, Expect,
    Follow, Gate, Group, GroupPart, Http2Spec, HttpVersion, Load, Lost, OnFailure, Pick, Placement,
    Plan, ProxySpec, RedirectServer, Redirects, Retry, RetryOn, SessionKind, Sessions, Shard, Step,
    Stop, StreamFormat, StreamPlan, Switch, Think, TlsSpec, TokenDialect, TokenPlan, Until, steps,
};
use prony_plan::schedule::{Arrivals, RatePiece, RatePlan};
use prony_plan::script::{Exhausted, Extract, PickRow, Place, Table};
use prony_plan::target::Endpoint;
use prony_plan::threshold::Threshold;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::{explain, plan};

/// Text that is valid in a header value and difficult to write in TOML.
fn text() -> impl Strategy<Value = String> {
    "([ -~]|[\"'\\\\@#=\t{}\\[\\]äé\u{200b}\u{1f600}]){0,12}"
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![text(), ".{0,12}", "(\n|\r|\0|\u{7f}|\u{85}|a|\"\"\"|'''){0,12}"]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any_text().prop_map(String::into_bytes),
        any_text().prop_map(|text| format!("@{text}").into_bytes()),
        prop::collection::vec(any::<u8>(), 0..30),
    ]
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![1..2_000_000_000u64, 1..=u64::MAX / 4].prop_map(Span)
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let tcp = (select(vec!["h", "a.b", "::1", "1.2.3.4", "we ird", "fe80::1%lo"]), 1..=u16::MAX)
        .prop_map(|(host, port)| Endpoint::Tcp { host: host.into(), port });
    let unix = text().prop_map(|path| Endpoint::Unix { path: format!("/{path}") });
    (prop_oneof![3 => tcp, 1 => unix], option::weighted(0.2, text())).prop_map(
        |(to, tls)| match tls {
            Some(name) => to.secured(&format!("n{name}")),
            None => to,
        },
    )
}

fn expectation() -> impl Strategy<Value = Expect> {
    let range = (100u16..600, 100u16..600).prop_map(|(a, b)| (a.min(b), a.max(b)));
    (prop::collection::vec(range, 1..3), option::of(bytes()), option::of(any::<u64>()))
        .prop_map(|(statuses, body, length)| Expect { statuses, body, length })
}

fn header() -> impl Strategy<Value = (String, String)> {
    (select(vec!["A", "a", "Host", "X-!#$%&'*+-.^_`|~0"]).prop_map(str::to_owned), text())
}

fn call(endpoints: u32, names: u32) -> impl Strategy<Value = CallSpec> {
    let path = prop_oneof![
        Just("/".to_owned()),
        Just("*".to_owned()),
        text().prop_map(|t| format!("/{}", t.replace([' ', '\t'], "")))
    ];
    (
        (0..endpoints, select(vec!["GET", "POST", "HEAD", "M-SEARCH", "get"]), path),
        select(vec!["h", "a.b:1", "", "x'y"]),
        prop::collection::vec(header(), 0..4),
        prop_oneof![2 => Just(Vec::new()), 1 => bytes()],
        option::weighted(0.3, (bytes(), option::of(any_text()))),
        option::of(0..names.max(1)).prop_map(move |name| name.filter(|&n| n < names)),
        option::weighted(0.2, expectation().prop_map(Box::new)),
        (field(), any::<bool>(), prop::collection::vec(extract(), 0..2)),
    )
        .prop_map(|(line, authority, headers, body, bare, name, expect, dynamic)| {
            let ((endpoint, method, path), (field, template, extract)) = (line, dynamic);
            // Raw requests can contain any bytes.
            let (raw, any_path) = bare.clone().unwrap_or_default();
            let path = any_path.unwrap_or(path);
            let body = [&body, field.as_bytes()].concat();
            let gzip = template && bare.is_none() && !body.is_empty();
            let coding = gzip.then(|| ("Content-Encoding".to_owned(), "gzip".to_owned()));
            CallSpec {
                checks: prony_plan::plan::Shared::default(),
                endpoint,
                method: method.into(),
                path: if path == "*" { path } else { path + field },
                authority: authority.into(),
                headers: headers.into_iter().chain(coding).collect::<Vec<_>>().into(),
                body,
                file: None,
                bare: bare.is_some(),
                raw,
                name,
                expect,
                template,
                gzip,
                unsigned: false,
                extract,
                redirects: None,
                grpc: None,
                socket: None,
                socket_name: None,
            }
        })
}

/// Template fields, and text that resembles them.
fn field() -> impl Strategy<Value = &'static str> {
    select(vec!["", "", "{{session}}", "{{v | url}}", "{{t.c d}}", "{{random.pick 'a b'}}", "{{"])
}

fn extract() -> impl Strategy<Value = Extract> {
    let place = prop_oneof![
        option::of(Just("a(\"')".to_owned()))
            .prop_map(|regex| Place::Header { name: "X".into(), regex }),
        select(vec!["a+", "'\"\\\\"]).prop_map(|text| Place::Regex(text.into())),
        any_text().prop_map(|text| Place::Json(format!("/{text}"))),
        (text(), text()).prop_map(|(a, b)| Place::Between(a + "<", b + ">")),
    ];
    (select(vec!["v", "w-2"]), place, option::of(any_text())).prop_map(
        |(variable, place, default)| Extract { variable: variable.into(), place, default },
    )
}

fn data() -> impl Strategy<Value = Data> {
    let row = (any_text(), any_text());
    let picks = vec![
        (PickRow::InTurn, Exhausted::Stop),
        (PickRow::Random, Exhausted::Stop),
        (PickRow::Unique, Exhausted::Stop),
        (PickRow::Unique, Exhausted::Reuse),
        (PickRow::Unique, Exhausted::Fail),
    ];
    let rows = (prop::collection::vec(row, 1..4), select(picks));
    let table = rows.prop_map(|(rows, (pick, exhausted))| {
        let columns = vec!["a".to_owned(), "c d".to_owned()];
        let table = Table::new("t", pick, columns).expect("columns");
        let mut table = table.when_exhausted(exhausted);
        for (a, b) in &rows {
            table.push([a.as_str(), b]).expect("two cells");
        }
        Arc::new(table)
    });
    let variables = select(vec!["x", "{{random.uuid}}", "'\""])
        .prop_map(|value| vec![("v".to_owned(), value.to_owned())]);
    (prop::collection::vec(table, 1..=1), option::of(variables)).prop_map(|(tables, variables)| {
        Data { tables, variables: variables.unwrap_or_default(), ..Data::default() }
    })
}

fn think() -> impl Strategy<Value = Think> {
    prop_oneof![
        Just(Think::None),
        span().prop_map(Think::Fixed),
        span().prop_map(Think::Exponential),
        (span(), span()).prop_map(|(a, b)| Think::Uniform(a.min(b), a.max(b))),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    let known = ["{{session}} > 3", "{{status}}", "{{status}} == '404'", "1 != {{random.int 1 9}}"];
    let more = ["{{counter}} matches \"^1\"", "{{request}} contains '\"'"];
    select([&known[..], &more].concat()).prop_map(str::to_owned)
}

fn gate() -> impl Strategy<Value = Gate> {
    (option::weighted(0.2, condition()), option::weighted(0.2, condition()))
        .prop_map(|(when, unless)| Gate { when, unless })
}

fn retry() -> impl Strategy<Value = Retry> {
    let on = [RetryOn::Status, RetryOn::Reply, RetryOn::Timeout, RetryOn::Lost, RetryOn::Connect];
    let on = subsequence(on.to_vec(), 1..=5);
    (1..9u32, span(), 1_000..=1_000_000u32, option::of(span()), 0..=1_000u32, on).prop_map(
        |(times, wait, factor, max, jitter, on)| Retry { times, wait, factor, max, jitter, on },
    )
}

/// Bursts with decisions, as a tree: a burst, or a switch of bursts.
fn step(calls: u32) -> impl Strategy<Value = Vec<Burst>> {
    let until = option::weighted(
        0.2,
        (condition(), select(vec![AtLimit::Fail, AtLimit::Continue]))
            .prop_map(|(condition, at_limit)| Until { condition, at_limit }),
    );
    let control = (gate(), until, option::weighted(0.2, retry()));
    let parts = (prop::collection::vec(0..calls, 1..4), any::<bool>(), think(), 1..9u32, control);
    let burst = parts.prop_map(|(calls, lead, think, repeat, (gate, until, retry))| {
        let until = until.filter(|_| repeat > 1);
        let retry = retry.filter(|_| calls.len() == 1);
        let control = Control { switches: Vec::new(), gate, until, retry };
        let control = (!control.is_empty()).then(|| Box::new(control));
        vec![Burst { calls, lead, think, repeat, control }]
    });
    burst.prop_recursive(3, 12, 3, |inner| {
        let steps = prop::collection::vec(inner, 0..3).prop_map(|steps| steps.concat());
        let alternatives = prop::collection::vec((0..4u32, steps), 1..4);
        (alternatives, gate())
            .prop_map(|(mut arms, gate)| {
                arms[0].0 += 1;
                let of = |(weight, bursts): &(u32, Vec<Burst>)| Alternative {
                    weight: *weight,
                    bursts: bursts.len() as u32,
                };
                let alternatives = arms.iter().map(of).collect();
                let mut all: Vec<_> = arms.into_iter().flat_map(|(_, bursts)| bursts).collect();
                if let Some(first) = all.first_mut() {
                    let switch = Switch { gate, alternatives };
                    first.control.get_or_insert_default().switches.insert(0, switch);
                }
                all
            })
            .prop_filter("a switch needs a request", |bursts| !bursts.is_empty())
    })
}

fn sessions(calls: u32) -> impl Strategy<Value = Sessions> {
    let kind = (any_text(), 1..4u32, prop::collection::vec(step(calls), 1..4))
        .prop_map(|(name, weight, steps)| SessionKind { name, weight, bursts: steps.concat() });
    (
        prop::collection::vec(kind, 1..4),
        select(vec![Pick::InTurn, Pick::Random]),
        1..5u32,
        select(vec![Cookies::Off, Cookies::Session, Cookies::Shared, Cookies::Always]),
        select(vec![Lost::Idempotent, Lost::Resend, Lost::Fail]),
        select(vec![OnFailure::End, OnFailure::Continue]),
        0..3u32,
    )
        .prop_map(|(kinds, pick, connections, cookies, lost, on_failure, retries)| Sessions {
            kinds: kinds.into(),
            pick,
            connections,
            cookies,
            lost,
            on_failure,
            retries,
            directed: false,
        })
}

fn rate() -> impl Strategy<Value = RatePlan> {
    let number = || {
        let whole = (0..1000u32).prop_map(f64::from);
        prop_oneof![0.0..1e9f64, whole, select(vec![1e9, 1.1e3, 0.1, 1e-9])]
    };
    let piece = (number(), number(), 1..u64::MAX / 9);
    (prop::collection::vec(piece, 0..3), number()).prop_map(|(pieces, last)| {
        let ramps = pieces.into_iter().map(|(from, to, length)| RatePiece {
            from,
            to,
            length: Some(Span(length)),
        });
        let last = RatePiece { from: last, to: last, length: None };
        RatePlan { pieces: ramps.chain([last]).collect() }
    })
}

fn load() -> impl Strategy<Value = Load> {
    let open = |rate, arrivals, connections| Load::Open { rate, arrivals, connections };
    prop_oneof![
        (1..1000u32, think()).prop_map(|(connections, think)| Load::Closed { connections, think }),
        (
            rate(),
            select(vec![Arrivals::Fixed, Arrivals::Poisson, Arrivals::Gamma(0.3)]),
            1..1000u32
        )
            .prop_map(move |(rate, arrivals, n)| open(rate, arrivals, n)),
        (span(), span(), 1..1000u32).prop_map(move |(a, b, n)| {
            open(RatePlan::default(), Arrivals::Uniform(a.min(b), a.max(b)), n)
        }),
        (prop::collection::vec(span(), 1..25), 1..1000u32).prop_map(move |(mut times, n)| {
            times.sort();
            open(RatePlan::default(), Arrivals::Trace(times.into()), n)
        }),
    ]
}

/// Only calls of sessions may be templates.
fn without_templates(call: &mut CallSpec) {
    (call.template, call.gzip, call.extract) = (false, false, Vec::new());
}

/// What is between prony and the server.
fn between() -> impl Strategy<Value = (Option<Box<TlsSpec>>, Option<Box<ProxySpec>>)> {
    (option::of(tls::tls().prop_map(Box::new)), proxy())
}

fn fits(proxy: &ProxySpec, to: &Endpoint, http: HttpVersion) -> bool {
    matches!(to.transport(), Endpoint::Tcp { .. }) && (proxy.tunnel || !http.is_http2())
}

fn proxy() -> impl Strategy<Value = Option<Box<ProxySpec>>> {
    let host = select(vec!["p", "1.2.3.4", "::1"]);
    let spec = (host, 1..=u16::MAX, option::of("[!-~]{1,9}"), any::<bool>());
    let spec = spec.prop_map(|(host, port, authorization, tunnel)| {
        let authorization = authorization.map(Into::into);
        Box::new(ProxySpec { host: host.into(), port, authorization, tunnel })
    });
    option::weighted(0.2, spec)
}

fn stop() -> impl Strategy<Value = Stop> {
    (option::of(1..=u64::MAX), option::of(span()), any::<bool>()).prop_map(|(n, time, which)| {
        Stop {
            requests: if which { n.or(Some(1)) } else { n },
            sessions: None,
            duration: if which { time } else { time.or(Some(Span(1))) },
        }
    })
}

/// Makes parts of the calls equal, as in real plans.
fn alike(mut calls: Vec<CallSpec>, same: [bool; 5]) -> Vec<CallSpec> {
    let first = calls[0].clone();
    for call in &mut calls {
        if same[0] {
            call.authority.clone_from(&first.authority);
        }
        if same[1] {
            call.bare = first.bare;
            call.raw.clear();
            call.path = "/same".into();
        }
        if same[2] {
            call.headers.clone_from(&first.headers);
        }
        if same[3] {
            (call.name, call.expect) = (None, None);
        }
        if same[4] {
            (call.method, call.body) = ("GET".into(), Vec::new());
        }
        let has_coding = call.headers.iter().any(|(name, _)| name == "Content-Encoding");
        call.gzip &= has_coding && !call.bare && !call.body.is_empty();
    }
    calls
}

/// Options that differ from the defaults, and a placement.
fn http2() -> impl Strategy<Value = (Option<Box<Http2Spec>>, Placement)> {
    let sizes = (1..1_u32 << 31, 0..1_u32 << 20, 1_u32 << 14..1 << 24);
    let spec = (sizes, any::<[bool; 2]>()).prop_map(|((window, table_size, frame_size), is)| {
        let [wait_settings, is_static] = is;
        let keepalive = is_static.then_some(Span(u64::from(window) + 1));
        let retry_refused = is_static;
        Box::new(Http2Spec {
            window,
            table_size,
            frame_size,
            wait_settings,
            is_static,
            retry_refused,
            keepalive,
        })
    });
    (option::of(spec), select(vec![Placement::Spread, Placement::Fill]))
}

/// A version that the plan can have.
fn version(seed: u64, secured: bool, old: bool) -> HttpVersion {
    match (seed >> 8) % 5 {
        0 | 1 if secured => HttpVersion::Http2,
        0..=2 => HttpVersion::Http2Only,
        _ if old => HttpVersion::Http10,
        _ => HttpVersion::Http11,
    }
}

/// Some of them are invalid.
fn stream() -> impl Strategy<Value = Option<Box<StreamPlan>>> {
    let formats =
        [StreamFormat::Sse, StreamFormat::Ndjson, StreamFormat::Chunks, StreamFormat::Whole];
    let content = option::of(any_text().prop_map(|text| format!("/{text}")));
    let texts = (option::of(any_text()), option::of(any_text()));
    let bounds = (option::of(1..=u64::MAX), option::of(span()), texts, any::<bool>());
    let plain =
        (select(formats.to_vec()), content, bounds).prop_map(|(format, content, bounds)| {
            let (count, time, (until, end), reconnect) = bounds;
            Box::new(StreamPlan {
                content,
                count,
                time,
                until,
                end,
                reconnect,
                ..StreamPlan::new(format)
            })
        });
    option::of(prop_oneof![plain, tokens()])
}

/// Streams of a language model.
fn tokens() -> impl Strategy<Value = Box<StreamPlan>> {
    let times = prop::collection::vec((select(vec!["ttft", "itl", "response"]), 1..u64::MAX), 0..3);
    let dialect = select(vec![TokenDialect::OpenAi, TokenDialect::Anthropic]);
    (dialect, times).prop_map(|(dialect, times)| {
        let limit = |(name, limit): (&str, u64)| format!("{name} < {}", Span(limit)).parse();
        let slo: Vec<_> = times.into_iter().map(limit).collect::<Result<_, _>>().expect("limits");
        let tokenizer = slo.is_empty().then(|| "a b.json".into());
        let tokens = Some(TokenPlan { dialect, slo, tokenizer });
        Box::new(StreamPlan { tokens, ..StreamPlan::new(StreamFormat::Sse) })
    })
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let names = prop::collection::btree_set(any_text(), 0..3);
    let base = (prop::collection::hash_set(endpoint(), 1..3), names);
    let parts = base.prop_flat_map(|(endpoints, names)| {
        let calls = prop::collection::vec(call(endpoints.len() as u32, names.len() as u32), 1..5);
        let calls = (calls, any::<[bool; 5]>()).prop_map(|(calls, same)| alike(calls, same));
        let sessions = calls
            .prop_flat_map(|calls| (option::of(sessions(calls.len() as u32)), Just(calls)))
            .prop_map(|(sessions, calls)| (calls, sessions));
        (Just(endpoints), Just(names), sessions)
    });
    let limits = (1..4u32, option::of(1..9u32), span(), any::<bool>(), span(), any::<bool>());
    let rest = (
        load(),
        stop(),
        span(),
        limits,
        expectation(),
        any::<u64>(),
        (0..3u32, 3..5u32),
        select(vec![Pick::InTurn, Pick::Random]),
        (option::of(1..=u64::MAX), data(), between(), http2(), stream()),
    );
    (parts, rest).prop_map(|((endpoints, names, (mut calls, sessions)), rest)| {
        let (load, stop, warmup, limits, expect, seed, (index, of), pick, more) = rest;
        let (session_count, data, (tls, proxy), (http2, placement), stream) = more;
        let tls = tls.filter(|_| endpoints.iter().any(|e| e.tls_name().is_some()));
        let has_sessions = sessions.is_some();
        calls.iter_mut().filter(|_| !has_sessions).for_each(without_templates);
        let (pipeline, requests_per_connection, timeout, from_send, connect_timeout, old) = limits;
        let all_secured = endpoints.iter().all(|e| e.tls_name().is_some());
        let http = version(seed, all_secured, old && pipeline == 1);
        let proxy = proxy.filter(|proxy| endpoints.iter().all(|to| fits(proxy, to, http)));
        let counted = matches!(load, Load::Closed { .. }) && stop.requests.is_some();
        let mut groups = groups(seed >> 24, sessions.as_ref());
        let follow = follow(seed >> 40, &mut calls, &mut groups);
        Plan {
            checks: checks(seed >> 16, &mut calls),
            groups,
            follow,
            endpoints: endpoints.into_iter().collect(),
            aws_sigv4: aws_sigv4(seed >> 48, &mut calls),
            calls: calls.into(),
            pick: if has_sessions { Pick::InTurn } else { pick },
            stop: Stop { sessions: session_count.filter(|_| has_sessions), ..stop },
            sessions,
            data,
            names: names.into_iter().rev().collect(),
            load,
            warmup,
            pipeline,
            placement: if http.is_http2() { placement } else { Placement::Spread },
            requests_per_connection,
            timeout,
            timeout_from_send: from_send,
            replace_lost: from_send && counted && !has_sessions,
            connect_timeout,
            expect,
            thresholds: thresholds((seed % 4) as usize),
            http,
            http2: http2.filter(|_| http.is_http2()),
            stream: stream.filter(|s| s.check().is_ok() && s.time.is_none_or(|t| t < timeout)),
            tls,
            proxy,
            seed,
            shard: Shard { index, of },
            ..plan("url = 'http://h/'")
        }
    })
}

/// Checks of all calls and of single ones.
fn checks(random: u64, calls: &mut [CallSpec]) -> Checks {
    let all = ["status = 2xx", "ok: json /a = 'b \"c'", "time < 200ms", "body matches '^\\d+'"];
    let all = all.iter().map(|text| text.parse().expect("a check"));
    let mut checks = Checks::of_all(all.take((random % 3) as usize).collect());
    for (i, call) in calls.iter_mut().enumerate().filter(|(i, _)| random >> (i + 8) & 1 == 1) {
        let texts = [format!("n{i}: status < 40{i}"), "header A".to_owned()];
        let own = texts.iter().map(|text| checks.intern(text.parse().expect("a check")));
        call.checks = own.collect();
    }
    checks
}

/// The bursts of some steps that follow one another, in an alternative of a switch or outside.
fn grouped(random: u64, all: &[Step<'_>]) -> Range<usize> {
    let inner = all.iter().find_map(|step| match step {
        Step::Switch(_, alternatives) => alternatives.iter().find(|steps| !steps.is_empty()),
        Step::Burst(_) => None,
    });
    if let Some(inner) = inner.filter(|_| random & 1 == 1) {
        return grouped(random >> 1, inner);
    }
    let (half, end) = (all.len() / 2, all.len() - 1);
    let (first, last) = if random & 2 == 0 { (half, end) } else { (0, half) };
    all[first].bursts().start..all[last].bursts().end
}

/// Groups of some steps of the sessions.
fn groups(random: u64, sessions: Option<&Sessions>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (kind, spec) in (0..).zip(sessions.iter().flat_map(|sessions| &sessions.kinds)) {
        if random >> kind & 1 == 0 {
            continue;
        }
        let name = format!("group '{}'", kind % 2);
        let steps = steps(&spec.bursts).expect("switches fit");
        let bursts = grouped(random >> 8, &steps);
        let (first, bursts) = (bursts.start as u32, bursts.len() as u32);
        let part = GroupPart { kind, first, bursts };
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.parts.push(part),
            None => groups.push(Group { name, parts: vec![part] }),
        }
    }
    groups
}

/// Signatures of some requests, with a key of the plan.
fn aws_sigv4(random: u64, calls: &mut [CallSpec]) -> Option<Box<AwsSigning>> {
    if random & 3 != 0 || calls[0].bare {
        return None;
    }
    for (i, call) in calls.iter_mut().enumerate().skip(1) {
        call.unsigned = call.bare || random >> (i + 3) & 1 == 1;
    }
    let token = (random & 4 == 0).then(|| "t\"'".into());
    let (region, service) = ("eu-central-1".to_owned(), "s3".to_owned());
    let (access_key, secret_key) = ("ID".into(), "{{\"{{\"}}'/+".into());
    Some(Box::new(AwsSigning { region, service, access_key, secret_key, token }))
}

/// Redirects of all requests, or of single ones.
fn follow(random: u64, calls: &mut [CallSpec], groups: &mut Vec<Group>) -> Option<Box<Follow>> {
    let redirects = [Redirects::Off, Redirects::Most(10), Redirects::Most(0)][random as usize % 3];
    for (i, call) in calls.iter_mut().enumerate() {
        let own = [None, None, Some(Redirects::Most(3)), Some(Redirects::Off)];
        call.redirects = if call.bare { None } else { own[(random >> (i + 2)) as usize % 4] };
    }
    let is_most = |redirects| matches!(redirects, Some(Redirects::Most(_)));
    let follows = is_most(Some(redirects)) || calls.iter().any(|call| is_most(call.redirects));
    if random & 3 == 0 || !follows {
        calls.iter_mut().for_each(|call| call.redirects = None);
        return None;
    }
    let group = groups.len() as u32;
    groups.push(Group { name: Follow::GROUP.into(), parts: Vec::new() });
    let server = RedirectServer { endpoint: 0, authority: "else:81".into() };
    let servers = if random & 4 == 0 { vec![server] } else { Vec::new() };
    Some(Box::new(Follow { redirects, servers, group }))
}

/// This many of three.
fn thresholds(n: usize) -> Vec<Threshold> {
    let all = ["p99 < 200ms", "look: errors <= 0.1%", "rate >= 9.9k/s"];
    all[..n].iter().map(|text| text.parse().expect("a threshold")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn written_plans_read_back_equal(any in any_plan()) {
        prop_assume!(any.check().is_ok());
        let written = explain(&any, &[]);
        prop_assert_eq!(plan(&written), any, "{}", written);
    }
}
