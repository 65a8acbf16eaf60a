//! Plans with phases.

use std::path::Path;

use expect_test::{Expect, expect};
use prony_base::units::Span;
use prony_plan::plan::{Load, Plan, Stop, Think};
use prony_report::phased::Start;

use super::super::{PlanFile, check_text, explain_phases, parse, parse_all};
use super::around;
use crate::phases::Phases;

pub(crate) fn phases(text: &str) -> Phases {
    match parse_all("p.toml", text, Some(Path::new("/nowhere")), &around()) {
        Ok(PlanFile::Phases(phases)) => phases,
        Ok(PlanFile::Load(_)) => panic!("no phases: {text}"),
        Err(sentences) => panic!("{}", sentences.join("\n")),
    }
}

/// What phases are, without the reasons for their defaults.
fn loads(phases: &Phases) -> Vec<(&str, Start, Span, &Plan)> {
    let mut all = Vec::new();
    for phase in phases.list() {
        all.push((phase.name.as_str(), phase.start, phase.delay, &phase.planned.plan));
    }
    all
}

fn check(texts: &[&str], sentences: Expect) {
    let reported = texts.iter().map(|text| {
        match parse_all("p", text, Some(Path::new("/nowhere")), &around()) {
            Ok(_) => format!("taken: {text}\n"),
            Err(sentences) => sentences.join("\n") + "\n",
        }
    });
    sentences.assert_eq(&reported.collect::<String>());
}

const SHOP: &str = r#"
    url = "http://h/"
    users = 5
    think = "1s"
    duration = "5s"
    seed = 3
    thresholds = ["errors = 0"]

    [[phases]]
    name = "as the plan"

    [[phases]]
    name = "more users"
    users = 50
    sessions = 100

    [[phases]]
    name = "spike"
    start = "with"
    delay = "2s"
    rate = "100..200@3s"
    warmup = "1s"
    thresholds = []

    [[session]]
    request = ["/a", "/b"]
"#;

#[test]
fn phases_have_the_load_of_the_plan_but_for_their_own_keys() {
    let all = phases(SHOP);
    let [first, more, spike] = all.list() else { panic!("{all:?}") };
    let think = Think::Fixed(Span::from_secs(1));
    let closed = |connections| Load::Closed { connections, think };
    let five = Stop { duration: Some(Span::from_secs(5)), ..Stop::default() };
    assert_eq!((&first.planned.plan.load, first.planned.plan.stop), (&closed(5), five));
    let hundred = Stop { sessions: Some(100), ..Stop::default() };
    assert_eq!((&more.planned.plan.load, more.planned.plan.stop), (&closed(50), hundred));
    let plan = &spike.planned.plan;
    assert!(matches!(plan.load, Load::Open { connections: 4, .. }), "half of 9: {:?}", plan.load);
    assert_eq!(plan.stop, Stop::default(), "the rate has an end");
    assert_eq!((plan.warmup, spike.delay), (Span::from_secs(1), Span::from_secs(2)));
    let thresholds = all.list().iter().map(|phase| phase.planned.plan.thresholds.len());
    assert_eq!(thresholds.collect::<Vec<_>>(), [1, 1, 0]);
    let groups: Vec<usize> = all.groups().map(<[_]>::len).collect();
    assert_eq!(groups, [1, 2]);
}

#[test]
fn an_open_loop_is_inherited_by_open_loops_only() {
    let all = phases(
        "url = 'http://h/'\nrate = 50\narrivals = 'poisson'\nconnections = 7\nduration = '1s'\n\
         [[phases]]\nname = 'a'\nrate = 70\n[[phases]]\nname = 'b'\nconnections = 3\n\
         [[phases]]\nname = 'c'\nthink = '1s'\n",
    );
    let loads = all.list().iter().map(|phase| format!("{:?}", phase.planned.plan.load));
    let loads: Vec<String> = loads.collect();
    assert!(loads[0].contains("Poisson") && loads[0].contains("connections: 7"), "{loads:?}");
    assert!(loads[1].starts_with("Closed { connections: 3"), "{loads:?}");
    assert!(loads[2].starts_with("Closed { connections: 50"), "{loads:?}");
}

#[test]
fn the_seed_of_a_phase_depends_on_the_plan_and_its_position_only() {
    let seeds =
        |all: &Phases| all.list().iter().map(|phase| phase.planned.plan.seed).collect::<Vec<_>>();
    let all = seeds(&phases(SHOP));
    assert_ne!(all[0], all[1]);
    assert_ne!(all[1], all[2]);
    let fewer = SHOP.replace("[[session]]", "[[phases]]\nname = 'last'\n[[session]]");
    assert_eq!(seeds(&phases(&fewer))[..3], all[..]);
    let mut other = phases(&SHOP.replace("seed = 3", "seed = 4"));
    assert_ne!(seeds(&other), all);
    other.set_seed(3);
    assert_eq!(seeds(&other), all);
}

#[test]
fn an_explained_plan_reads_back_as_the_same_plan() {
    let all = phases(SHOP);
    let written = explain_phases(&all);
    assert_eq!(loads(&phases(&written)), loads(&all), "{written}");
    expect![[r##"
        # Run it with: prony run FILE
        url = "http://h"
        seed = 3
        timeout = "30s"
        connect-timeout = "5s"
        expect = "200-399"

        [[session]]
        request = [
          "/a",
          "/b",
        ]

        [[phases]]
        name = "as the plan"
        users = 5
        think = "1s"
        duration = "5s"
        thresholds = ["errors = 0"]

        [[phases]]
        name = "more users"
        users = 50
        think = "1s"
        sessions = 100
        thresholds = ["errors = 0"]

        [[phases]]
        name = "spike"
        start = "with"
        delay = "2s"
        rate = "100..200@3s"
        connections = 4
        warmup = "1s"
    "##]]
    .assert_eq(&written);
}

#[test]
fn streams_are_explained_if_all_phases_have_the_same() {
    let text = "url = 'http://h/'\nhttp = '2-only'\nduration = '1s'\n[[phases]]\nname = 'a'\n\
                [[phases]]\nname = 'b'\nrate = 5\n";
    let all = phases(text);
    let streams = all.list().iter().map(|phase| phase.planned.plan.pipeline);
    assert_eq!(streams.collect::<Vec<_>>(), [1, 100]);
    let written = explain_phases(&all);
    assert!(!written.contains("streams"), "{written}");
    assert_eq!(loads(&phases(&written)), loads(&all), "{written}");
    let same = phases(&text.replace("[[phases]]\nname = 'b'\nrate = 5\n", ""));
    assert!(explain_phases(&same).contains("streams = 1\n"));
}

#[test]
fn a_checked_plan_names_its_phases() {
    let checked = check_text("p", SHOP, None, &around());
    expect!["3 phases; as the plan: 1 session with 2 requests in total, 1 server, closed loop of 5 users, think time 1s; more users: 1 session with 2 requests in total, 1 server, closed loop of 50 users, think time 1s; spike (with the one before): 1 session with 2 requests in total, 1 server, open loop, 100..200@3s/s, fixed"].assert_eq(&checked.expect("a plan"));
}

#[test]
fn plans_for_one_load_have_no_phases() {
    let refused = parse("p", SHOP, None, &around()).expect_err("phases");
    expect!["p:9:5: `phases`: this command runs one load; `prony run` runs a plan with phases"]
        .assert_eq(&refused.join("\n"));
}

#[test]
fn refuses_invalid_phases() {
    check(
        &[
            "url = 'http://h/'\nphases = 1",
            "url = 'http://h/'\nphases = []",
            "url = 'http://h/'\nphases = [1]",
            "url = 'http://h/'\n[[phases]]\nrate = 5",
            "url = 'http://h/'\n[[phases]]\nname = 5",
            "url = 'http://h/'\n[[phases]]\nname = ''",
            "url = 'http://h/'\n[[phases]]\nname = \"a\\n\"",
            "url = 'http://h/'\n[[phases]]\nname = 'a'\n[[phases]]\nname = 'a'",
            "url = 'http://h/'\n[[phases]]\nname = 'a'\nstart = 'with'",
            "url = 'http://h/'\n[[phases]]\nname = 'a'\n[[phases]]\nname = 'b'\nstart = 'x'",
            "url = 'http://h/'\n[[phases]]\nname = 'a'\nurl = 'http://x/'\nratee = 5",
            "url = 'http://h/'\n[[phases]]\nname = 'a'\ndelay = 'x'",
            "url = 'http://h/'\nshard = { index = 0, of = 2 }\n[[phases]]\nname = 'a'",
        ],
        expect![[r#"
            p:2:10: `phases` is a number, expected a list of phases: [[phases]]
            p:2:10: a plan has 1 to 100 phases
            p:2:11: `phases` is a number, expected a table: [[phases]]
            p:2:1: a phase needs a `name`
            p:3:8: `name` is a number, expected a name
            p:3:8: `name`: write a name of 1 to 60 characters
            p:3:8: `name`: a name has no control characters
            p:5:8: `name`: two phases have the name 'a'
            p:4:9: `start`: there is no phase before the first one; omit it
            p:6:9: `start`: 'x' is unknown; write "after" or "with"
            p:4:1: a phase has no key `url`; it may have arrivals, connections, delay, duration, name, ramp-up, rate, requests, sessions, start, think, thresholds, users, warmup
            p:5:1: a phase has no key `ratee`; did you mean `rate`?
            p:4:9: `delay`: 'x' is not a time: a number is missing; write 500ms, 1m30s or 2h
            p:2:9: `shard`: a plan with phases cannot be split; omit it
        "#]],
    );
}

#[test]
fn errors_of_the_plan_are_reported_once_and_those_of_a_phase_with_its_name() {
    check(
        &[
            "[[phases]]\nname = 'a'\n[[phases]]\nname = 'b'",
            "url = 'http://h/'\nx = 1\n[[phases]]\nname = 'a'\n[[phases]]\nname = 'b'",
            "url = 'http://h/'\n[[phases]]\nname = 'a'\nrate = 5\nthink = '1s'",
            "url = 'http://h/'\nrate = 'x'\n[[phases]]\nname = 'a'\n[[phases]]\nname = 'b'\nrate = 5",
            "url = 'http://h/'\n[[phases]]\nname = 'a'\nduration = 'x'\n[[phases]]\nname = 'b'\nusers = 5",
            "url = 'http://h/'\nreplace-lost = true\nrequests = 5\n[[phases]]\nname = 'a'\n[[phases]]\nname = 'b'\nrate = 5",
        ],
        expect![[r#"
            p:1:1: the plan has no requests; write `url = "http://host:port/path"`
            p:2:1: a plan has no key `x`; it may have arrivals, aws-sigv4, bare, checks, connect-timeout, connect-to, connections, cookies, data, duration, endpoints, expect, expect-body, expect-grpc, expect-length, grpc, headers, host, http, http2, location, lost, max-redirs, names, on-failure, phases, pick, pipeline, proxy, ramp-up, rate, redirect-to, replace-lost, request, requests, requests-per-connection, retries, retry, seed, session, session-connections, session-think, sessions, shard, stream, think, thresholds, timeout, timeout-from, tls, unix-socket, url, users, variables, warmup, websocket
            p:5:9: `think` belongs to a closed loop, and `rate` makes the loop an open one; omit one of them
            p:2:8: `rate`: 'x' is not a rate: 'x' is not a number; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            p:4:12: `duration`: 'x' is not a time: a number is missing; write 500ms, 1m30s or 2h
            p:7:9: `users` needs sessions; write `connections` instead
            p:6:1: phase 'b': this plan cannot be run: only a closed loop with a number of requests, without sessions, can replace lost requests
        "#]],
    );
}
