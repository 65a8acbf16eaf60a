//! Checks and groups in plan files: what they mean, and errors with their positions.

use expect_test::{Expect, expect};
use prony_plan::plan::GroupPart;

use super::super::parse;
use super::{around, explain, plan};

fn refused(rest: &str, sentences: Expect) {
    let text = format!("url = 'http://h'\n{rest}");
    let reported = match parse("p", &text, None, &around()) {
        Ok(_) => "taken".to_owned(),
        Err(sentences) => sentences.join("\n") + "\n",
    };
    sentences.assert_eq(&reported);
}

#[test]
fn checks_are_of_all_requests_or_of_one() {
    let plan = plan(
        "url = 'http://h'\nduration = 1\nchecks = ['status = 200', 'fast: time < 1s']\n\
         request = ['/a', { path = '/b', checks = ['length < 1k', 'status = 200'] }, \
         { path = '/c', checks = ['body contains x', 'length < 1k'] }]",
    );
    let texts: Vec<String> = plan.checks.list.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["status = 200", "fast: time < 1s", "length < 1k", "body contains x"]);
    assert_eq!(plan.checks.of_all, 2);
    let own: Vec<&[u32]> = plan.calls.iter().map(|call| &call.checks[..]).collect();
    // A check of all requests is not made twice.
    assert_eq!(own, [&[][..], &[2], &[3, 2]]);
}

#[test]
fn groups_are_consecutive_steps() {
    let plan = plan(
        "url = 'http://h'\nsessions = 1\n[[session]]\nrequest = ['/a', \
         { group = 'buy', request = ['/b', ['/c', '/d'], { path = '/e', think = 1 }] }, '/f', \
         { group = 'pay', request = ['/g'] }]\n\
         [[session]]\nrequest = [{ group = 'buy', request = ['/b'] }]",
    );
    let part = |kind, first, bursts| GroupPart { kind, first, bursts };
    assert_eq!(plan.groups[0].name, "buy");
    assert_eq!(plan.groups[0].parts, [part(0, 1, 3), part(1, 0, 1)]);
    assert_eq!(
        (plan.groups[1].name.as_str(), &plan.groups[1].parts[..]),
        ("pay", &[part(0, 5, 1)][..])
    );
    assert_eq!(plan.groups.len(), 2);
    let kinds = &plan.sessions.as_ref().expect("sessions").kinds;
    assert_eq!((kinds[0].bursts.len(), kinds[1].bursts.len()), (6, 1));
}

/// Groups with switches, and in alternatives of switches, are read and written.
#[test]
fn groups_and_switches_are_in_each_other() {
    let plan = plan(
        "url = 'http://h'\nsessions = 1\n[[session]]\nrequest = ['/a', \
         { group = 'buy', request = ['/b', { switch = [\
         { weight = 3, request = ['/c', { switch = [{ request = ['/d'] }, { request = [] }] }] }, \
         { request = [] }] }, '/e'] }, \
         { switch = [{ request = [] }, { request = ['/f', { group = 'pay', request = ['/g', '/h'] }] }, \
         { weight = 2, request = [{ group = 'buy', request = ['/i'] }] }] }]",
    );
    let part = |kind, first, bursts| GroupPart { kind, first, bursts };
    assert_eq!(plan.groups[0].name, "buy");
    assert_eq!(plan.groups[0].parts, [part(0, 1, 4), part(0, 8, 1)]);
    assert_eq!(
        (plan.groups[1].name.as_str(), &plan.groups[1].parts[..]),
        ("pay", &[part(0, 6, 2)][..])
    );
    let text = explain(&plan, &[]);
    let shown = text.split("[[session]]\n").nth(1).expect("a session");
    expect![[r#"
        request = [
          "/a",
          { group = "buy", request = [
            "/b",
            { switch = [{ weight = 3, request = ["/c", { switch = [{ request = ["/d"] }, { request = [] }] }] }, { request = [] }] },
            "/e",
          ] },
          { switch = [{ request = [] }, { request = ["/f", { group = "pay", request = ["/g", "/h"] }] }, { weight = 2, request = [{ group = "buy", request = ["/i"] }] }] },
        ]
    "#]]
    .assert_eq(shown);
    assert_eq!(super::plan(&text), plan);
}

#[test]
fn invalid_checks_and_groups_are_reported_with_their_positions() {
    refused(
        "checks = 'status = 200'",
        expect![[r#"
        p:2:10: `checks` is a string, expected a list of checks, as ["status = 200", "fast: time < 200ms"]
    "#]],
    );
    refused(
        "checks = ['statuz = 200', 7,\n  'time < 3']",
        expect![[r#"
        p:2:11: `checks`: 'statuz = 200' is not a check: write what is checked and what it must be, as in 'status = 200', 'header Content-Type = application/json', 'json /items/0/id > 0', 'length < 10k', 'body contains ok' or 'time < 200ms'
        p:2:27: `checks` is a number, expected a check, as "status = 200"
        p:3:3: `checks`: the time '3' lacks its unit: write 3ms
    "#]],
    );
    refused(
        "checks = ['a: status = 200', 'a: time < 1s']",
        expect![[r#"
        p:1:1: two checks have the name 'a': 'status = 200' and 'time < 1s'; give one of them another name
    "#]],
    );
    refused(
        "checks = ['a: status = 200']\nrequest = [\n  { path = '/', checks = ['a: time < 1s'] }]",
        expect![[r#"
            p:4:27: two checks have the name 'a': 'status = 200' and 'time < 1s'; give one of them another name
        "#]],
    );
    let session = "sessions = 1\n[[session]]\nrequest = [\n  ";
    refused(
        &format!("{session}{{ group = 'a' }}]"),
        expect![[r#"
        p:5:3: a group has steps: { group = "NAME", request = [...] }
    "#]],
    );
    refused(
        &format!("{session}{{ group = 'a', request = [] }}]"),
        expect![[r#"
        p:5:28: the group has no request
    "#]],
    );
    refused(
        &format!("{session}{{ group = 'a=b', request = ['/'] }}]"),
        expect![[r#"
        p:5:13: `group`: 'a=b' is not a name of a group; it must not be empty, and have none of < > = : , and no blanks around it
    "#]],
    );
    refused(
        &format!("{session}{{ group = 'a', path = '/', request = ['/'] }}]"),
        expect![[r#"
        p:5:18: a group has no key `path`; it may have group, request
    "#]],
    );
    refused(
        &format!("{session}{{ group = 'a', request = [{{ group = 'b', request = ['/'] }}] }}]"),
        expect![[r#"
            p:5:29: a group cannot contain a group; end the group before it
        "#]],
    );
    // All of them are reported, at any depth.
    refused(
        &format!(
            "{session}{{ group = 'a', request = [{{ switch = [\n{{ request = [{{ group = 'b', \
             request = ['/'] }}] }}, {{ request = [{{ nothing = 1 }}] }}] }}] }}]"
        ),
        expect![[r#"
            p:6:14: a group cannot contain a group; end the group before it
            p:6:66: a request has no key `nothing`; it may have at-limit, aws-sigv4, bare, body, burst, checks, compress, endpoint, expect, expect-body, expect-grpc, expect-length, extract, form, grpc, headers, host, location, max-redirs, method, name, path, raw, repeat, retry, templates, think, unless, until, url, when
        "#]],
    );
}
