//! Bodies of replies that arrive interleaved on one connection: what is looked for in each of them,
//! and what is taken from it, is that reply's own.

use std::collections::BTreeMap;

use prony_base::units::Span;
use prony_plan::plan::{
    Burst, CallSpec, Check, Checks, Expect, Http2Spec, Plan, SessionKind, Sessions, Think,
};
use prony_plan::schedule::Arrivals;
use prony_plan::script::{Extract, Place};
use prony_server::serve::{Serve, ServerBehavior};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::world::Setup;

use crate::http2::http2;
use crate::plans::{Seed, assert_invariants, get, open};
use crate::recorded::Recorded;

/// The replies of a burst, all at once on one connection.
const STREAMS: usize = 8;
const SESSIONS: usize = 40;

/// A request whose reply is its body.
fn echo(body: String) -> CallSpec {
    let method = "POST".to_owned().into();
    CallSpec { method, body: body.into_bytes(), template: true, ..get("/echo") }
}

/// Sessions whose first burst gets eight values, and whose second burst sends each of them back.
fn plan(window: u32) -> Plan {
    // Each value is at another place of a body of several windows.
    let padding = |n: usize| ".".repeat(100 + 350 * n);
    let asked = (0..STREAMS).map(|i| {
        let (before, after) = (padding(i), padding(STREAMS - i));
        let call =
            echo(format!("{before}<{i}:{{{{session}}}}.{i}.{{{{random.text 9}}}}:{i}>{after}"));
        let place = Place::Between(format!("<{i}:"), format!(":{i}>"));
        let extract = Extract { variable: format!("v{i}"), place, default: None };
        let expect = Expect { body: Some(format!(".{i}.").into_bytes()), ..Expect::default() };
        CallSpec { extract: vec![extract], expect: Some(Box::new(expect)), ..call }
    });
    let sent_back = (0..STREAMS).map(|i| echo(format!("[{{{{session}}}}|{i}|{{{{v{i}}}}}]")));
    let mut calls: Vec<CallSpec> = asked.chain(sent_back).collect();
    let mut plan = http2(open(50.0, Arrivals::Fixed, 0), 100, STREAMS as u32);
    let mut checks = Checks::default();
    for (i, call) in calls.iter_mut().enumerate().take(STREAMS) {
        let check = format!("body contains ':{i}>'").parse::<Check>().expect("a check");
        call.checks = vec![checks.intern(check)].into();
    }
    let burst = |calls: std::ops::Range<usize>| {
        Burst::of(calls.map(|call| call as u32).collect(), Think::None)
    };
    let bursts = vec![burst(0..STREAMS), burst(STREAMS..2 * STREAMS)];
    let kinds = vec![SessionKind { name: String::new(), weight: 1, bursts }];
    (plan.calls, plan.checks) = (calls.into(), checks);
    plan.sessions = Some(Sessions::plain(kinds));
    (plan.stop.requests, plan.stop.sessions) = (None, Some(SESSIONS as u64));
    plan.http2 = Some(Box::new(Http2Spec { window, ..Http2Spec::default() }));
    plan.timeout = Span::from_secs(1_000);
    plan
}

#[test]
fn interleaved_bodies_are_kept_apart() {
    for seed in 0..20 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 121);
        // A body is longer than a window, so that no reply is complete before others begin.
        let plan = Plan { seed, ..plan(rng.between(300, 1_500) as u32) };
        let segment = rng.chance(0.7).then(|| rng.between(1, 700) as usize);
        let link = Link { segment, ..Link::with_latency(Span::from_micros(300)) };
        let serve = Serve::new(ServerBehavior::default(), seed);
        let mut server = Recorded::new(serve);
        let setup = Setup { watch: false, ..Setup::new(link, seed) };
        let outcome = load(&plan, 1, &setup, &mut [&mut server]);
        assert_invariants(&outcome, "interleaved bodies");
        let all = outcome.main();
        let requests = (2 * STREAMS * SESSIONS) as u64;
        assert_eq!((all.replies, all.failed), (requests, 0), "{:?}", all.faults);
        assert_eq!(all.http2.as_ref().map(|http2| http2.open_max), Some(STREAMS as u32));
        for check in &all.checks {
            assert_eq!((check.passed, check.failed), (SESSIONS as u64, 0));
        }
        // Each value came from the reply of its own session and request.
        let mut seen = BTreeMap::new();
        for bytes in server.streams.values() {
            let text = String::from_utf8_lossy(bytes);
            for sent_back in text.split('[').skip(1).filter_map(|rest| rest.split_once(']')) {
                let parts: Vec<&str> = sent_back.0.split('|').collect();
                if let [session, i, value] = parts[..] {
                    let of = format!("{session}.{i}.");
                    assert_eq!(value.strip_prefix(&of).map(str::len), Some(9), "{sent_back:?}");
                    *seen.entry(of).or_insert(0) += 1;
                }
            }
        }
        assert_eq!((seen.len(), seen.values().sum()), (STREAMS * SESSIONS, STREAMS * SESSIONS));
    }
}
