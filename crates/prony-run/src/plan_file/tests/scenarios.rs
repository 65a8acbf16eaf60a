//! Steps with conditions, switches, limits and retries in plan files.

use expect_test::expect;

use super::check;
use super::refused::check as refuse;

const HEAD: &str = "url = \"http://h\"\nusers = 1\nduration = \"1s\"\n";

#[test]
fn reads_and_writes_steps_with_decisions() {
    check(
        &format!(
            r#"{HEAD}
            [[session]]
            request = [
              {{ path = "/a", extract = {{ stock = {{ json = "/stock" }} }} }},
              {{ path = "/b", when = "{{{{stock}}}} > 0", unless = "{{{{status}}}} == '404'", think = 1 }},
              {{ path = "/c", repeat = 20, until = "{{{{status}}}} == 200", at-limit = "continue" }},
              {{ burst = ["/d", "/e"], when = "{{{{stock}}}} contains \"x\"" }},
              {{ path = "/f", retry = {{ times = 3 }} }},
              {{ burst = ["/g"], retry = {{ times = 1, wait = 2, factor = 1.5, max = "5s", jitter = 0.2, on = ["reply"] }} }},
              {{ when = "{{{{stock}}}}", switch = [
                {{ weight = 3, request = ["/h", {{ switch = [{{ request = ["/i"] }}, {{ request = [] }}] }}] }},
                {{ weight = 0, request = [["/j", "/k"], "POST /l"] }},
              ] }},
              "/m",
            ]
            "#
        ),
        expect![[r##"
            # Run it with: prony run FILE
            url = "http://h"
            users = 1
            duration = "1s"
            seed = 1
            timeout = "30s"
            connect-timeout = "5s"
            expect = "200-399"

            [[session]]
            request = [
              { path = "/a", extract = { stock = { json = "/stock" } } },
              { path = "/b", think = "1s", when = "{{stock}} > 0", unless = "{{status}} == '404'" },
              { path = "/c", repeat = 20, until = "{{status}} == 200", at-limit = "continue" },
              { burst = ["/d", "/e"], when = '{{stock}} contains "x"' },
              { path = "/f", retry = { times = 3, wait = "100ms", factor = 2, on = ["status", "timeout", "lost", "connect"] } },
              { path = "/g", retry = { times = 1, wait = "2s", factor = 1.5, max = "5s", jitter = 0.2, on = ["reply"] } },
              { when = "{{stock}}", switch = [{ weight = 3, request = ["/h", { switch = [{ request = ["/i"] }, { request = [] }] }] }, { weight = 0, request = [["/j", "/k"], "POST /l"] }] },
              "/m",
            ]
        "##]],
    );
}

#[test]
fn retries_of_the_file_apply_to_steps_of_one_request() {
    check(
        &format!(
            r#"{HEAD}
            retry = {{ times = 2, on = ["timeout"] }}
            [[session]]
            request = ["/a", ["/b", "/c"], {{ path = "/d", retry = {{ times = 9 }} }}, {{ path = "/e", think = 1 }}]
            "#
        ),
        expect![[r##"
            # Run it with: prony run FILE
            url = "http://h"
            users = 1
            duration = "1s"
            seed = 1
            timeout = "30s"
            connect-timeout = "5s"
            expect = "200-399"

            [[session]]
            request = [
              { path = "/a", retry = { times = 2, wait = "100ms", factor = 2, on = ["timeout"] } },
              ["/b", "/c"],
              { path = "/d", retry = { times = 9, wait = "100ms", factor = 2, on = ["status", "timeout", "lost", "connect"] } },
              { path = "/e", think = "1s", retry = { times = 2, wait = "100ms", factor = 2, on = ["timeout"] } },
            ]
        "##]],
    );
}

#[test]
fn refuses_decisions_that_cannot_be_made() {
    let steps = [
        "{ path = \"/\", when = 1 }",
        "{ path = \"/\", when = \"{{x}} > 0\" }",
        "{ path = \"/\", unless = \"{{session}} = 1\" }",
        "{ path = \"/\", when = \"1 == 1\" }",
        "{ path = \"/\", until = \"{{status}}\" }",
        "{ path = \"/\", at-limit = \"fail\" }",
        "{ path = \"/\", repeat = 3, until = \"{{status}}\", at-limit = \"stop\" }",
        "{ path = \"/\", repeat = 3, until = \"\" }",
        "{ burst = [{ path = \"/\", when = \"{{status}}\" }] }",
        "{ switch = 1 }",
        "{ switch = [] }",
        "{ switch = [{ request = [] }, { weight = 2 }] }",
        "{ switch = [7, { weight = -1, request = [\"/\"], think = 1 }] }",
        "{ switch = [{ weight = 0, request = [\"/\"] }] }",
        "{ switch = [{ request = [\"/\"] }], think = 1 }",
        "{ path = \"/\", retry = 3 }",
        "{ path = \"/\", retry = {} }",
        "{ path = \"/\", retry = { times = 0, factor = 0.5, jitter = 1.5, on = [], every = 1 } }",
        "{ path = \"/\", retry = { times = 1, factor = 1.2345, on = [\"error\"] } }",
        "{ burst = [\"/\", \"/\"], retry = { times = 1 } }",
    ];
    let texts = steps.map(|step| format!("{HEAD}[[session]]\nrequest = [\n  {step},\n]\n"));
    refuse(
        &texts.each_ref().map(String::as_str),
        expect![[r#"
            p:6:24: `when` is a number, expected a condition, as "{{stock}} > 0"
            p:6:27: `when`: 'x' is unknown; known names: status, session, request, counter [FROM [STEP]], cycle.int LOW HIGH, cycle.pick A B ..., random.int LOW HIGH, random.hex DIGITS, random.text LENGTH, random.uuid, random.pick A B ..., now, env NAME
            p:6:39: `unless`: '=' is not an operator; write '==' to compare
            p:6:25: `when`: it has no field, so it is always the same; write as in '{{name}} == value', and enclose a text that contains 'and' or 'or' in quotes
            p:6:25: `until` needs `repeat`, the most times to make the step: 2 or more
            p:6:28: `at-limit` needs `until`; add it, or omit `at-limit`
            p:6:62: `at-limit`: 'stop' is unknown; write "fail" or "continue"
            p:6:37: `until` is empty, expected a condition, as "{{stock}} > 0"
            p:6:28: a request has no key `when`; it may have aws-sigv4, bare, body, checks, compress, endpoint, expect, expect-body, expect-grpc, expect-length, extract, form, grpc, headers, host, location, max-redirs, method, name, path, raw, templates, url
            p:6:14: `switch` is a number, expected a list of alternatives: [{ weight = 3, request = [...] }, ...]
            p:6:14: no alternative of the switch has a request
            p:6:33: the alternative has no `request`; write request = [] to make nothing
            p:6:15: `switch` is a number, expected an alternative: { weight = 3, request = [...] }
            p:6:29: `weight`: '-1' is not a count: it must start with a digit; write 500, 10k, 2m or 1g
            p:6:50: an alternative has no key `think`; it may have request, weight
            p:6:14: all alternatives of the switch have a weight of 0
            p:6:37: a switch has no key `think`; it may have switch, unless, when
            p:6:25: `retry` is a number, expected { times = 3, wait = "100ms", factor = 2, max = "5s", jitter = 0.2, on = ["status", ...] }
            p:6:25: `retry` needs `times`: how often to make the request again
            p:6:35: `times` '0': must be at least 1
            p:6:47: `factor` '0.5': write a number from 1 to 1000
            p:6:61: `jitter` '1.5': write a number from 0 to 1
            p:6:71: `on` names no failure; omit it, or write ["status"]
            p:6:75: a retry has no key `every`; it may have factor, jitter, max, on, times, wait
            p:6:47: `factor` '1.2345': write at most three decimals
            p:6:61: `on`: 'error' is unknown; write "status" or "reply" or "timeout" or "lost" or "connect"
            p:6:33: `retry` belongs to a step of one request; this burst has several
        "#]],
    );
}

#[test]
fn refuses_deep_switches_and_retries_without_sessions() {
    let mut deep = "\"/\"".to_owned();
    for _ in 0..9 {
        deep = format!("{{ switch = [{{ request = [{deep}] }}] }}");
    }
    let deep = format!("{HEAD}[[session]]\nrequest = [{deep}]\n");
    let alone = format!("{HEAD}retry = {{ times = 1 }}\n");
    refuse(
        &[&deep, &alone],
        expect![[r#"
        p:5:212: switches are nested more than 8 deep
        p:2:9: `users` needs sessions; write `connections` instead
        p:4:9: `retry` needs sessions; add [[session]], or omit it
    "#]],
    );
}
