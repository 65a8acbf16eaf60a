//! Shares that were saved, read again and merged equal the whole run, byte for byte; and no
//! field of a tally is omitted.

use std::collections::BTreeMap;

use prony_base::merge::Merge;
use prony_base::units::Span;
use prony_plan::plan::{Framing, Load, Resume, Think, TlsVersion};
use prony_plan::schedule::Arrivals;
use prony_proto::proto::StreamCounts;
use prony_server::serve::{Latency, Serve, Share};
use prony_sim::link::Link;
use prony_sim::rng::Rng;
use prony_sim::world::{Card, Kernel, Setup};
use prony_sim::{Outcome, load};
use prony_tally::record::hist::Hist;
use prony_tally::record::{
    Broadcast, CheckTally, ClientTally, Connections, Finished, GroupTally, KindTally, Messages,
    NameTally, Phases, Pings, ProxyTally, Reconnects, RedirectTally, SessionTally, StepTally,
    StreamBodies, StreamMessages, StreamSizes, Tally, Times, TlsTally, TokenTally,
};

use crate::checks::random_checks;
use crate::exchange::{exchange_plan, responder};
use crate::faults::{random_plan, random_server, random_sessions, random_setup};
use crate::messages::{grpc, schedule, with_messages};
use crate::plans::{Seed, has_all_seeds, seeds};
use crate::tls::ten_requests;

/// In how many tallies each field was something.
type Seen = BTreeMap<&'static str, u64>;

/// Counts the fields of `$value` that are not as in an empty one. The names are a pattern of the
/// whole structure: a field that is forgotten does not compile.
macro_rules! note {
    ($seen:expr, $type:ident, $value:expr, { $($field:ident),+ $(,)? }) => {{
        let $type { $($field),+ } = $value;
        let empty = $type::default();
        $(
            let name = concat!(stringify!($type), ".", stringify!($field));
            *$seen.entry(name).or_default() += u64::from(*$field != empty.$field);
        )+
    }};
}

fn note_streams(seen: &mut Seen, t: &Tally) {
    if let Some(messages) = t.stream_messages.as_deref() {
        note!(seen, StreamMessages, messages, {
            sent, unsent, awaited, answered, received, unmatched, together, bodies, sizes,
        });
        if let Some(sizes) = messages.sizes.as_deref() {
            note!(seen, StreamSizes, sizes, { messages, bytes });
        }
        if let Some(bodies) = messages.bodies.as_deref() {
            note!(seen, StreamBodies, bodies, {
                begun, empty, ended_by_server, ended_by_count, ended_by_time, ended_by_text, failed,
                incomplete, reconnects,
            });
            if let Some(reconnects) = &bodies.reconnects {
                note!(seen, Reconnects, reconnects, {
                    made, resumed, ended, broken, repeated, missed,
                });
            }
        }
    }
}

fn note(seen: &mut Seen, t: &Tally) {
    note!(seen, Tally, t, {
        started, sent, sent_late, overdue, replies, replies_in_drain, failed, unfinished, retries,
        faults, stray, statuses, statuses_in_drain, interim, connects, connected, bytes_sent,
        bytes_received, bytes_head, bytes_framing, bytes_footer, bytes_body, bytes_in_drain,
        in_flight_max, time_in_drain, time_unfinished, time_assumed, time_in_flight, start, end,
        times, series, service_series, stream_series, connections, tls, proxy, http2, messages,
        stream_messages, broadcast, pings, tokens, without_meter, streams_without_meter, phases,
        sessions, names, checks, groups, redirects, kept, clients, first_failures,
    });
    note!(seen, Times, &t.times, {
        response, service, first_byte, transfer, lag, queue, stream_wait, flow_wait, message,
        message_service, message_lag, first_message, first_content, message_gap, reconnect, connect,
        tunnel, handshake, failed,
    });
    note!(seen, Connections, &t.connections, { lifetimes, faults, open_max, opening_max, held });
    if let Some(tls) = t.tls.as_deref() {
        note!(seen, TlsTally, tls, { full, resumed, kinds, reasons, first });
    }
    if let Some(proxy) = t.proxy.as_deref() {
        note!(seen, ProxyTally, proxy, { opened, reasons });
    }
    if let Some(http2) = t.http2.as_deref() {
        note!(seen, StreamCounts, http2, {
            connections, fallbacks, limit_least, limit_last, open_time, open_max, blocked,
            blocked_time, grpc_messages, goaways, goaway_texts, moved, refused, resets,
            cancelled, sent_fields, sent_blocks, received_fields, received_blocks, unknown_frames,
            without_status,
        });
    }
    if let Some(messages) = t.messages.as_deref() {
        note!(seen, Messages, messages, {
            reordered, duplicates, late, unexpected, jitter_sum, jitter_count,
        });
    }
    if let Some(redirects) = t.redirects.as_deref() {
        note!(seen, RedirectTally, redirects, { followed, over_limit, unusable, elsewhere });
    }
    note_streams(seen, t);
    note_websocket(seen, t);
    if let Some(tokens) = t.tokens.as_deref() {
        note!(seen, TokenTally, tokens, {
            ttft, ttft_service, itl, chunk_gap, chunks, chunks_in_drain, chunks_together, replies,
            empty, counted, tokenized, doubted, by_total, several, counted_chunks, output_tokens,
            input_tokens, good, good_in_drain, finished, chunks_by_second, good_by_second,
        });
        note!(seen, Finished, &tokens.finished, { stop, length, tool, filter, other, none });
    }
    if let Some(phases) = t.phases.as_deref() {
        note!(seen, Phases, phases, {
            whole, waiting, to_scheduler, to_device, wire_and_peer, to_user, transfer,
            acknowledged, by_card, no_sent, no_received, contradicting,
        });
    }
    if let Some(sessions) = t.sessions.as_deref() {
        note_sessions(seen, sessions);
    }
    for name in &t.names {
        note!(seen, NameTally, name, { started, replies, failed, response, service, statuses });
    }
    note_parts(seen, t);
}

/// The same for checks of replies and groups of steps.
fn note_parts(seen: &mut Seen, t: &Tally) {
    for check in &t.checks {
        note!(seen, CheckTally, check, {
            passed, failed, unreadable, passed_by_second, failed_by_second,
        });
    }
    for group in &t.groups {
        note!(seen, GroupTally, group, {
            started, completed, failed, unfinished, duration, without_pauses, without_meter,
        });
    }
}

fn note_websocket(seen: &mut Seen, t: &Tally) {
    if let Some(pings) = t.pings.as_deref() {
        note!(seen, Pings, pings, { sent, answered, time });
    }
    if let Some(broadcast) = t.broadcast.as_deref() {
        note!(seen, Broadcast, broadcast, {
            subscribers, published, expected, delivered, complete, reordered, duplicates, unstamped,
            delivery, spread, log,
        });
    }
}

fn note_sessions(seen: &mut Seen, sessions: &SessionTally) {
    note!(seen, SessionTally, sessions, {
        started, completed, completed_in_drain, failed, unfinished, lifetime, failtime,
        connections, lengths, per_second, kinds, steps,
    });
    if let Some(steps) = sessions.steps.as_deref() {
        note!(seen, StepTally, steps, { skipped, limited, retried, exhausted, recovered });
    }
    for kind in &sessions.kinds {
        note!(seen, KindTally, kind, { started, completed, failed, unfinished, lifetime });
    }
}

/// The tally written and read again, which is the same but for the stamps of single requests.
fn saved(t: &Tally) -> Tally {
    let text = serde_json::to_string(t).expect("it can be written");
    let again: Tally = serde_json::from_str(&text).expect("it can be read");
    assert_eq!(again, Tally { kept: Vec::new(), ..t.clone() });
    again
}

/// Saving, reading and merging shares, in any order, is the same as merging the shares themselves.
fn assert_merges(outcome: &Outcome) {
    let whole = Tally { kept: Vec::new(), ..outcome.main() };
    let shares: Vec<Tally> = outcome.tallies.iter().map(|(_, main)| saved(main)).collect();
    let merged = |order: &mut dyn Iterator<Item = &Tally>| {
        let mut all = order.next().expect("there is a share").clone();
        order.for_each(|share| all.merge(share));
        all
    };
    let forth = merged(&mut shares.iter());
    assert_eq!(serde_json::to_string(&forth).ok(), serde_json::to_string(&whole).ok());
    let mut back = merged(&mut shares.iter().rev());
    // The first handshake is that of one share.
    if let (Some(back), Some(forth)) = (&mut back.tls, &forth.tls) {
        back.first.clone_from(&forth.first);
    }
    assert_eq!(back, whole);
    for warm in outcome.tallies.iter().filter_map(|(warm, _)| warm.as_ref()) {
        saved(warm);
    }
}

fn note_all(outcome: &Outcome, seen: &mut Seen) {
    let sections = outcome.tallies.iter().flat_map(|(warm, main)| warm.iter().chain([main]));
    sections.for_each(|t| note(seen, t));
}

/// Runs with messages in streams.
fn messages(seen: &mut Seen) {
    for seed in 0..10 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 93);
        let base = crate::plans::open(100.0, Arrivals::Poisson, 30);
        let plan = crate::http2::http2(base, 3, 10);
        let plan = with_messages(plan, schedule(1_000.0, 10));
        let mut serve = Serve::new(grpc(Latency::Exponential(crate::plans::ms(2))), seed);
        let outcome = load(&plan, 2, &Setup::new(Link::rough(&mut rng), seed), &mut [&mut serve]);
        assert_merges(&outcome);
        note_all(&outcome, seen);
    }
}

/// Pings, and broadcasts by a server that makes mistakes. What shares know together is known once
/// they are merged; it is saved then.
fn broadcasts(seen: &mut Seen) {
    for seed in 0..4 {
        let _case = Seed(seed);
        let outcome = crate::websocket::with_pings(seed);
        note_all(&outcome, seen);
        assert_merges(&outcome);
        let (outcome, _) = crate::broadcast::with_mistakes(seed, 3);
        note_all(&outcome, seen);
        let all = outcome.main();
        note(seen, &all);
        let (mut twice, one) = (saved(&all), all.broadcast.clone().expect("a broadcast"));
        twice.merge(&saved(&all));
        twice.settle();
        let two = twice.broadcast.expect("a broadcast");
        assert_eq!((two.expected, two.published), (2 * one.expected, 2 * one.published));
        assert_eq!((two.reach(), two.spread.count()), (one.reach(), 2 * one.spread.count()));
    }
}

/// Runs with streams in the bodies of replies.
fn bodies(seen: &mut Seen) {
    for seed in 0..80 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 94);
        let (mut plan, behavior) = match seed {
            0..20 => crate::events::random_streams(&mut rng),
            _ => crate::tokens::random_tokens(&mut rng),
        };
        let mut setup = random_setup(&mut rng, seed);
        if seed >= 60 {
            plan = crate::tokens::silent(&plan);
            setup.tokenizers = Some(crate::tokens::words);
        }
        let shares = plan.shards_max().min(2);
        let outcome = load(&plan, shares, &setup, &mut [&mut Serve::new(behavior, seed)]);
        note_all(&outcome, seen);
        assert_merges(&outcome);
    }
}

/// Runs that follow redirects, and replies of servers with a script: streams that go on elsewhere,
/// replies of models that end in other ways, and schedules that are cut short.
fn scripted(seen: &mut Seen) {
    for outcome in crate::redirects::each_kind() {
        note_all(&outcome, seen);
        assert_merges(&outcome);
    }
    let streams = [[&[1, 2, 3, 4][..], &[3, 4, 5, 6]], [&[1, 2, 3, 4], &[8, 9, 10, 11]]];
    let mut tallies = crate::tokens::each_end();
    tallies.extend(streams.map(crate::reconnects::numbered));
    tallies.push(crate::cut_schedules::cut());
    for pair in tallies.windows(2) {
        note(seen, &pair[1]);
        let [mut forth, mut back] = [saved(&pair[0]), saved(&pair[1])];
        forth.merge(&pair[1]);
        back.merge(&pair[0]);
        assert_eq!(forth, back);
        assert_eq!(forth.started, pair[0].started + pair[1].started);
        let mut both = pair[0].clone();
        both.merge(&pair[1]);
        assert_eq!(both, forth);
    }
    note(seen, &tallies[0]);
}

/// Runs through a proxy.
fn tunnels(seen: &mut Seen) {
    for outcome in crate::proxy::outcomes() {
        note_all(&outcome, seen);
        assert_merges(&outcome);
    }
}

/// Runs over HTTP/2.
fn streams(seen: &mut Seen) {
    messages(seen);
    tunnels(seen);
    scripted(seen);
    broadcasts(seen);
    bodies(seen);
    for seed in 0..40 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 92);
        let mut plan = crate::http2::random_plan(&mut rng);
        plan.timeout = Span(rng.between(1_000_000, 20_000_000));
        let mut behavior = crate::http2::random_server(&mut rng);
        behavior.goaway_after = std::num::NonZeroU32::new(20);
        (behavior.refuse, behavior.rst) = (Share(0.1), Share(0.1));
        let setup = random_setup(&mut rng, seed);
        let shares = rng.between(1, u64::from(plan.shards_max().min(4))) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut Serve::new(behavior, seed)]);
        note_all(&outcome, seen);
        assert_merges(&outcome);
    }
}

/// No plan has independent clients, none of the handshakes fails, and the servers send no unknown
/// frames, no abrupt GOAWAY and no long bodies; the other counts need a network that loses and
/// duplicates datagrams.
const ELSEWHERE: [&str; 20] = [
    "Broadcast.unstamped",
    "Connections.held",
    "CheckTally.unreadable",
    "Tally.clients",
    "StreamCounts.fallbacks",
    "StreamCounts.moved",
    "StreamCounts.unknown_frames",
    "TlsTally.reasons",
    "Messages.reordered",
    "StreamMessages.unmatched",
    "Messages.duplicates",
    "StreamCounts.without_status",
    "StreamCounts.grpc_messages",
    "StreamCounts.goaway_texts",
    "Messages.late",
    "Messages.unexpected",
    "Phases.acknowledged",
    "Phases.contradicting",
    "Phases.no_received",
    "Phases.no_sent",
];

#[test]
fn p10_saved_shares_merge_to_the_run_of_all_and_no_field_is_lost() {
    let mut seen = Seen::new();
    for seed in seeds(300) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 90);
        let mut plan = random_plan(&mut rng);
        if seed % 2 == 1 {
            random_sessions(&mut rng, &mut plan);
        }
        if seed % 3 == 1 {
            random_checks(&mut Rng::new(seed, 95), &mut plan);
        }
        let mut setup = random_setup(&mut rng, seed);
        (setup.keep_requests, setup.keep_service) =
            (seed.is_multiple_of(3), seed.is_multiple_of(3));
        setup.report_polls = seed.is_multiple_of(2);
        let card = (seed.is_multiple_of(8)).then_some(Card {
            takes: Span::from_micros(2),
            ahead: 1_000,
            is_slow: seed.is_multiple_of(16),
        });
        let us = Span::from_micros;
        let kernel = Kernel { to_scheduler: us(3), to_device: us(5), to_user: us(7), card };
        setup.kernel = (seed.is_multiple_of(4)).then_some(kernel);
        let mut server = random_server(&mut rng, seed);
        let shares = rng.between(1, u64::from(plan.shards_max().min(4))) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut *server]);
        note_all(&outcome, &mut seen);
        // Writing and reading takes longer than the run.
        if seed % 10 < 2 {
            assert_merges(&outcome);
        }
    }
    for seed in seeds(6) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 91);
        let several = Load::Closed { connections: 3, think: Think::None };
        let plan = exchange_plan(Framing::Long, 2, &[(64, 64), (300, 20)], several);
        let setup = random_setup(&mut rng, seed);
        let outcome = load(&plan, 3, &setup, &mut [&mut responder()]);
        note_all(&outcome, &mut seen);
        assert_merges(&outcome);
    }
    streams(&mut seen);
    for resume in [Resume::On, Resume::Off] {
        let t = ten_requests(TlsVersion::Tls13, resume);
        saved(&t);
        note(&mut seen, &t);
    }
    let never: Vec<_> = seen.iter().filter(|&(_, &n)| n == 0).map(|(name, _)| *name).collect();
    let forgotten: Vec<_> = never.iter().filter(|name| !ELSEWHERE.contains(name)).collect();
    assert!(!has_all_seeds() || forgotten.is_empty(), "never seen: {forgotten:?}; {seen:?}");
}

/// What a tally has about messages in streams.
fn fill_messages(t: &mut Tally, hist: &Hist, n: u64) {
    for times in [
        &mut t.times.message,
        &mut t.times.message_service,
        &mut t.times.message_lag,
        &mut t.times.first_message,
        &mut t.times.first_content,
        &mut t.times.message_gap,
        &mut t.times.reconnect,
    ] {
        times.clone_from(hist);
    }
    let finished =
        Finished { tool: n, filter: n + 1, other: n + 2, none: n + 3, ..Finished::default() };
    t.tokens = Some(Box::new(TokenTally { empty: n, finished, ..TokenTally::default() }));
    t.broadcast = Some(Box::new(Broadcast { unstamped: n, ..Broadcast::default() }));
    t.stream_messages = Some(Box::new(StreamMessages {
        sent: n,
        awaited: n + 1,
        answered: n + 2,
        received: n + 3,
        unmatched: n + 4,
        together: n + 5,
        unsent: n + 6,
        bodies: Some(Box::new(StreamBodies {
            begun: n,
            empty: n + 1,
            ended_by_server: n + 2,
            ended_by_count: n + 3,
            ended_by_time: n + 4,
            ended_by_text: n + 5,
            failed: n + 6,
            incomplete: n + 7,
            reconnects: Some(Reconnects {
                made: n,
                resumed: n + 1,
                ended: n + 2,
                broken: n + 3,
                repeated: n + 4,
                missed: n + 5,
            }),
        })),
        sizes: Some(Box::new(StreamSizes { messages: hist.clone(), bytes: hist.clone() })),
    }));
}

/// The fields that those runs leave at zero.
/// What the sum of 3 and 4 has about messages in streams.
fn assert_messages(all: &Tally) {
    let waits = |h: &Hist| (h.count(), h.sum_ns(), h.max());
    let expected = (7, 25_000, Some(Span(4_000)));
    let Times {
        message,
        message_service,
        message_lag,
        first_message,
        first_content,
        message_gap,
        reconnect,
        ..
    } = &all.times;
    let messages = [message, message_service, message_lag];
    let bodies = [first_message, first_content, message_gap, reconnect];
    assert_eq!((messages.map(waits), bodies.map(waits)), ([expected; 3], [expected; 4]));
    let messages = *all.stream_messages.clone().expect("messages");
    let StreamMessages { sent, unsent, awaited, answered, bodies, sizes, .. } = messages;
    let StreamMessages { received, unmatched, together, .. } = messages;
    let numbers = [sent, awaited, answered, received, unmatched, together, unsent];
    assert_eq!(numbers, [7, 9, 11, 13, 15, 17, 19]);
    let twice = |n| StreamBodies {
        begun: n,
        empty: n + 2,
        ended_by_server: n + 4,
        ended_by_count: n + 6,
        ended_by_time: n + 8,
        ended_by_text: n + 10,
        failed: n + 12,
        incomplete: n + 14,
        reconnects: Some(Reconnects {
            made: n,
            resumed: n + 2,
            ended: n + 4,
            broken: n + 6,
            repeated: n + 8,
            missed: n + 10,
        }),
    };
    assert_eq!(bodies.as_deref(), Some(&twice(7)));
    assert_eq!(all.broadcast.as_ref().map(|all| all.unstamped), Some(7));
    let StreamSizes { messages, bytes } = *sizes.expect("sizes");
    assert_eq!([&messages, &bytes].map(waits), [expected; 2]);
    let TokenTally { empty, finished, .. } = *all.tokens.clone().expect("tokens");
    let Finished { tool, filter, other, none, .. } = finished;
    assert_eq!([empty, tool, filter, other, none], [7, 7, 9, 11, 13]);
}

#[test]
fn p10_the_rest_of_a_tally_is_saved_and_merged() {
    let part = |n: u64| {
        let mut hist = Hist::new();
        hist.record_n(Span(n * 1_000), n);
        let mut t = Tally::default();
        (t.times.stream_wait, t.times.flow_wait) = (hist.clone(), hist.clone());
        fill_messages(&mut t, &hist, n);
        let reasons = BTreeMap::from([(format!("reason {n}"), n), ("another".into(), n)]);
        t.tls = Some(Box::new(TlsTally { reasons, ..TlsTally::default() }));
        t.http2 = Some(Box::new(StreamCounts {
            fallbacks: n,
            moved: n + 1,
            unknown_frames: n + 2,
            without_status: BTreeMap::from([("503".into(), n)]),
            grpc_messages: BTreeMap::from([(format!("{n}"), "why".into())]),
            goaway_texts: BTreeMap::from([(format!("{n}"), "max_age".into())]),
            ..StreamCounts::default()
        }));
        t.checks = vec![CheckTally { unreadable: n, ..CheckTally::default() }];
        let elsewhere = BTreeMap::from([(format!("http://h{n}"), n), ("http://h".into(), n)]);
        let (followed, over_limit, unusable) = (n, n + 1, n + 2);
        let redirects = RedirectTally { followed, over_limit, unusable, elsewhere };
        t.redirects = Some(Box::new(redirects));
        t.messages = Some(Box::new(Messages {
            reordered: n,
            duplicates: n + 1,
            late: n + 2,
            unexpected: n + 3,
            ..Messages::default()
        }));
        t.phases = Some(Box::new(Phases {
            acknowledged: hist,
            contradicting: n,
            no_received: n + 1,
            no_sent: n + 2,
            ..Phases::default()
        }));
        t
    };
    let clients = |n| Tally {
        clients: vec![ClientTally { replies: n, ..ClientTally::default() }],
        ..Tally::default()
    };
    let mut merged = clients(3);
    merged.merge(&clients(4));
    assert_eq!(merged.clients.iter().map(|client| client.replies).collect::<Vec<_>>(), [3, 4]);
    let mut all = saved(&part(3));
    all.merge(&saved(&part(4)));
    let waits = |h: &Hist| (h.count(), h.sum_ns(), h.max());
    let expected = (7, 25_000, Some(Span(4_000)));
    assert_eq!([&all.times.stream_wait, &all.times.flow_wait].map(waits), [expected; 2]);
    assert_messages(&all);
    assert_eq!(all.checks.iter().map(|check| check.unreadable).collect::<Vec<_>>(), [7]);
    let redirects = *all.redirects.expect("redirects");
    let RedirectTally { followed, over_limit, unusable, elsewhere } = redirects;
    assert_eq!((followed, over_limit, unusable), (7, 9, 11));
    let elsewhere: Vec<_> = elsewhere.iter().map(|(name, &n)| (name.as_str(), n)).collect();
    assert_eq!(elsewhere, [("http://h", 7), ("http://h3", 3), ("http://h4", 4)]);
    let reasons = all.tls.expect("TLS").reasons;
    let reasons: Vec<_> = reasons.iter().map(|(reason, &n)| (reason.as_str(), n)).collect();
    assert_eq!(reasons, [("another", 7), ("reason 3", 3), ("reason 4", 4)]);
    let http2 = *all.http2.expect("HTTP/2");
    assert_eq!((http2.fallbacks, http2.moved, http2.unknown_frames), (7, 9, 11));
    assert_eq!(http2.without_status["503"], 7);
    let m = *all.messages.expect("messages");
    assert_eq!((m.reordered, m.duplicates, m.late, m.unexpected), (7, 9, 11, 13));
    let p = all.phases.expect("phases");
    assert_eq!((p.contradicting, p.no_received, p.no_sent), (7, 9, 11));
    assert_eq!(waits(&p.acknowledged), expected);
}
