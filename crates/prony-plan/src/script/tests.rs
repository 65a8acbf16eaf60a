use std::sync::Arc;

use super::*;
use crate::plan::tests::plan as any_plan;
use crate::plan::{Burst, CallSpec, Cookies, Plan, SessionKind, Sessions, Think};
use prony_base::fault::Fault;
use prony_base::units::Nanos;

/// A plan with one kind of session, which makes each of these calls in its own burst.
fn plan(calls: Vec<CallSpec>) -> Plan {
    let burst = |i| Burst::of(vec![i], Think::None);
    let bursts = (0..calls.len() as u32).map(burst).collect();
    let kind = SessionKind { name: String::new(), weight: 1, bursts };
    let sessions = Sessions::plain(vec![kind]);
    Plan { calls: calls.into(), sessions: Some(sessions), ..any_plan() }
}

fn template(path: &str, headers: &[(&str, &str)], body: &str) -> CallSpec {
    let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    CallSpec {
        path: path.to_owned(),
        headers,
        body: body.as_bytes().to_vec(),
        template: true,
        ..any_plan().calls[0].clone()
    }
}

fn extracting(extract: &[Extract]) -> CallSpec {
    CallSpec { extract: extract.to_vec(), ..any_plan().calls[0].clone() }
}

fn extract(variable: &str, place: Place, default: Option<&str>) -> Extract {
    Extract { variable: variable.to_owned(), place, default: default.map(str::to_owned) }
}

fn header(name: &str) -> Place {
    Place::Header { name: name.to_owned(), regex: None }
}

fn users() -> Arc<Table> {
    let columns = vec!["id".to_owned(), "mail".to_owned()];
    let mut table = Table::new("users", PickRow::InTurn, columns).expect("columns");
    for row in [["7", "a@x"], ["8", "b@x"], ["9", "c\r\nX: y"]] {
        table.push(row).expect("two cells");
    }
    Arc::new(table)
}

fn text(part: Option<&[u8]>) -> &str {
    std::str::from_utf8(part.unwrap_or(b"(none)")).expect("text")
}

#[test]
fn fills_in_requests_from_the_values_of_the_session() {
    let mut plan = plan(vec![
        template("/{{users.id}}?n={{counter}}", &[("X-A", "{{me}}"), ("X-B", "b")], "{{me}}!"),
        any_plan().calls[0].clone(),
        template("/{{users.mail}}", &[], ""),
    ]);
    plan.data.tables.push(users());
    plan.data.variables.push(("me".into(), "u{{users.id}}-{{random.int 0 9}}".into()));
    let script = Script::new(&plan).expect("a script").expect("something dynamic");
    assert!(script.fills(0) && !script.fills(1) && !script.has_cookies());
    let (mut locals, mut filled) = (Locals::default(), Filled::default());
    for (session, id, counter) in [(0, 7, 1), (1, 8, 4), (3, 7, 10)] {
        script.begin(session, &mut locals);
        let me = text(locals.get(0)).to_owned();
        assert!(me.starts_with(&format!("u{id}-")), "{me}");
        assert_eq!(script.fill(0, 0, &locals, None, Nanos(0), &mut filled), Ok(()));
        assert_eq!(text(filled.path()), format!("/{id}?n={counter}"));
        assert_eq!((text(filled.header(0)), text(filled.header(1))), (me.as_str(), "b"));
        assert_eq!((filled.header(2), text(filled.body())), (None, format!("{me}!").as_str()));
    }
    // A static call is sent as in the plan.
    assert_eq!(script.fill(1, 1, &locals, None, Nanos(0), &mut filled), Ok(()));
    assert_eq!((filled.path(), filled.header(0), filled.body()), (None, None, None));
    // Line breaks are never sent.
    script.begin(2, &mut locals);
    assert_eq!(script.fill(2, 2, &locals, None, Nanos(0), &mut filled), Err(Unsent::Unfit));
}

#[test]
fn values_that_would_break_the_request_are_never_sent() {
    let value = extract("v", header("X-V"), None);
    let calls = vec![
        extracting(&[value]),
        template("/{{v}}", &[], ""),
        template("/", &[("X-A", "{{v}}")], ""),
        template("/", &[], "{{v}}"),
        template("{{v}}", &[], ""),
    ];
    let script = Script::new(&plan(calls)).expect("a script").expect("something dynamic");
    let fill = |call: u32, value: &[u8]| {
        let (mut locals, mut filled) = (Locals::default(), Filled::default());
        script.begin(0, &mut locals);
        locals.set(0, value);
        script.fill(call, 0, &locals, None, Nanos(0), &mut filled)
    };
    for (value, path, in_header) in [
        (&b"a"[..], true, true),
        (b"a b", false, true),
        (b"a\tb", false, true),
        (b"\xc3\xbc", true, true),
        (b"a\rb", false, false),
        (b"a\n", false, false),
        (b"\0", false, false),
        (b"\x7f", false, false),
        (b"", true, true),
    ] {
        let unless = |good: bool| if good { Ok(()) } else { Err(Unsent::Unfit) };
        assert_eq!(fill(1, value), unless(path), "{value:?} in a path");
        assert_eq!(fill(2, value), unless(in_header), "{value:?} in a header");
        assert_eq!(fill(3, value), Ok(()), "{value:?} in a body");
        assert_eq!(fill(4, value), Err(Unsent::Unfit), "a path begins with a slash");
    }
    assert_eq!(fill(4, b"/x"), Ok(()));
}

#[test]
fn extracts_variables_from_replies() {
    let calls = vec![
        extracting(&[
            extract("id", header("X-Id"), None),
            extract("name", Place::Json("/user/name".into()), Some("nobody")),
            extract("page", Place::Between("<b>".into(), "</b>".into()), Some("")),
        ]),
        template("/{{id}}/{{name}}/{{page}}", &[], ""),
    ];
    let script = Script::new(&plan(calls)).expect("a script").expect("something dynamic");
    assert!(script.wants_headers(0) && script.wants_body(0));
    assert!(!script.wants_headers(1) && !script.wants_body(1));
    let mut locals = Locals::default();
    script.begin(0, &mut locals);
    let (mut capture, mut filled) = (Capture::default(), Filled::default());
    assert_eq!(script.fill(1, 0, &locals, None, Nanos(0), &mut filled), Err(Unsent::NoValue));
    let mut reply = |headers: &[(&str, &str)], body: &[&str], locals: &mut Locals| {
        for (name, value) in headers {
            capture.header(&script, 0, name.as_bytes(), value.as_bytes());
        }
        body.iter().for_each(|piece| capture.body(piece.as_bytes()));
        let result = capture.extract(&script, 0, locals);
        capture.clear();
        result
    };
    let headers = [("Other", "1"), ("x-id", " 42 "), ("X-Id", "43")];
    let body = ["{\"user\":{\"na", "me\":\"ann\"}, \"t\": \"<b>x</b>\"}"];
    assert_eq!(reply(&headers, &body, &mut locals), Ok(()));
    assert_eq!(script.fill(1, 0, &locals, None, Nanos(0), &mut filled), Ok(()));
    assert_eq!(text(filled.path()), "/42/ann/x");
    assert_eq!(reply(&[("X-Id", "a\r\n b")], &["no JSON"], &mut locals), Ok(()));
    assert_eq!(["a   b", "nobody", ""].map(Some), [0, 1, 2].map(|v| Some(text(locals.get(v)))));
    // A missing value removes the old one.
    assert_eq!(reply(&[], &["{}"], &mut locals), Err(Fault::ExtractMissing));
    assert_eq!(locals.get(0), None);
    let long = "x".repeat(BODY_LIMIT);
    assert_eq!(reply(&headers, &[&long], &mut locals), Ok(()));
    assert_eq!(reply(&headers, &[&long, "y"], &mut locals), Err(Fault::ExtractTooLong));
    assert_eq!(reply(&headers, &body, &mut locals), Ok(()), "and then a shorter one");
}

#[test]
fn sends_the_cookies_of_earlier_replies() {
    let mut plan = plan(vec![
        template("/{{session}}/in", &[], ""),
        any_plan().calls[0].clone(),
        template("/{{session}}/x", &[], ""),
    ]);
    plan.sessions.as_mut().expect("sessions").cookies = Cookies::Session;
    let script = Script::new(&plan).expect("a script").expect("something dynamic");
    assert!(script.has_cookies() && script.fills(1) && script.wants_headers(1));
    let (mut locals, mut filled) = (Locals::default(), Filled::default());
    script.begin(4, &mut locals);
    let (mut jar, mut capture) = (Jar::new(Cookies::Session), Capture::default());
    capture.header(&script, 0, b"Set-Cookie", b"a=1");
    capture.header(&script, 0, b"Set-Cookie", b"b=2; Path=/");
    assert!(capture.has_cookies());
    let origin = script.origin(0, 0, &locals, false, &mut filled);
    assert_eq!(text(Some(origin.path)), "/5/in");
    capture.take_cookies(&mut jar, origin, Nanos(0));
    for (call, cookies) in [(0, "a=1; b=2"), (1, "b=2"), (2, "a=1; b=2")] {
        let jar = Some((&mut jar, false));
        assert_eq!(script.fill(call, 1, &locals, jar, Nanos(0), &mut filled), Ok(()));
        assert_eq!(text(Some(filled.cookies())), cookies);
    }
    assert_eq!(script.fill(2, 1, &locals, None, Nanos(0), &mut filled), Ok(()));
    assert_eq!(filled.cookies(), b"");
}

#[test]
fn a_plan_without_anything_dynamic_needs_no_script() {
    assert!(Script::new(&any_plan()).expect("no error").is_none());
    assert!(Script::new(&plan(any_plan().calls.to_vec())).expect("no error").is_none());
}

#[test]
fn rejects_inconsistent_plans() {
    type Change = fn(&mut Plan);
    let cases: [(Change, &str); 15] = [
        (|p| p.sessions = None, "request 2: extracts need sessions"),
        (
            |p| p.calls[0].path = "/{{who}}".into(),
            "request 1: the path: at byte 4: 'who' is unknown",
        ),
        (
            |p| p.calls[0].headers.push(("X".into(), "{{".into())),
            "request 1: header 1: at byte 1: '{{' is not followed by '}}'",
        ),
        (|p| p.calls[0].body = b"\xff{{x".into(), "request 1: the body: at byte 2: '{{' is not"),
        (
            |p| p.calls[0].path = "/a b{{session}}".into(),
            "request 1: the path: at byte 3: ' ' cannot be sent here",
        ),
        (
            |p| p.calls[0].headers.push(("X".into(), "{{session}}\n".into())),
            "request 1: the value of the header 'X' contains '\\n', which would break",
        ),
        (|p| p.calls[0].bare = true, "request 1: a `bare` request cannot be a template"),
        (
            |p| p.calls[1].extract[0].variable = "1a".into(),
            "request 2: extract 1: '1a' is not a valid name; use letters, digits, '_' and '-'",
        ),
        (
            |p| p.calls[1].extract[0].variable = "session".into(),
            "request 2: extract 1: the name 'session' is reserved",
        ),
        (
            |p| p.calls[1].extract[0].variable = "users".into(),
            "request 2: extract 1: 'users' is the name of a table",
        ),
        (
            |p| p.calls[1].extract[0].place = Place::Json("a".into()),
            "request 2: extract 1: 'a' is not a JSON pointer: write '/' before each key or index",
        ),
        (
            |p| p.calls[0].path = "/{{v}}".into(),
            "request 1: the path: 'v' has no value yet: no earlier request",
        ),
        (
            |p| p.data.variables.push(("a".into(), "{{v}}".into())),
            "variable 1: at byte 3: 'v' is unknown",
        ),
        (|p| p.data.variables.push(("users".into(), "".into())), "variable 1: 'users' is the"),
        (|p| p.data.tables.push(users()), "table 2: there are two tables called 'users'"),
    ];
    let place = || extract("v", header("X-V"), None);
    let sound = || {
        let mut plan = plan(vec![template("/", &[], ""), extracting(&[place()])]);
        plan.data.tables.push(users());
        plan
    };
    assert!(Script::new(&sound()).is_ok());
    for (change, sentence) in cases {
        let mut plan = sound();
        change(&mut plan);
        let error = plan.check().expect_err(sentence);
        assert!(error.starts_with(sentence), "{error}");
    }
}

#[test]
fn a_value_is_known_only_after_its_reply() {
    let value = extract("v", header("X-V"), None);
    let calls = vec![extracting(&[value]), template("/{{v}}", &[], "")];
    let mut plan = plan(calls);
    let sessions = plan.sessions.as_mut().expect("sessions");
    sessions.kinds[0].bursts[0].calls = vec![0, 1];
    sessions.kinds[0].bursts.truncate(1);
    assert!(plan.check().expect_err("at once").contains("'v' has no value yet"));
    plan.sessions.as_mut().expect("sessions").kinds[0].bursts[0].lead = true;
    assert_eq!(plan.check(), Ok(()), "behind the leading request");
    let calls = &mut plan.sessions.as_mut().expect("sessions").kinds[0].bursts[0].calls;
    *calls = vec![1, 0];
    assert!(plan.check().is_err(), "in the wrong order");
}

/// A plan with these variables, whose request has the last one in its path.
fn with_variables(variables: Vec<(String, String)>) -> Plan {
    let path = format!("/{{{{{}}}}}", variables.last().expect("a variable").0);
    let mut plan = plan(vec![template(&path, &[], "")]);
    plan.data.variables = variables;
    plan
}

fn variable(nth: usize, value: String) -> (String, String) {
    (format!("v{nth}"), value)
}

#[test]
fn variables_in_each_other_have_a_bound() {
    let doubled = |first: &str, count: usize| {
        let of = |nth: usize| match nth {
            0 => first.to_owned(),
            _ => format!("{{{{v{}}}}}", nth - 1).repeat(2),
        };
        with_variables((0..count).map(|nth| variable(nth, of(nth))).collect())
    };
    let problems = Script::problems(&doubled("0123456789", 30));
    assert_eq!(problems.len(), 1, "{problems:?}");
    let what = "with the variables before it, a session has more than 16 MiB of them";
    assert_eq!((problems[0].part, problems[0].what.as_str()), (Part::Variable(20), what));
    // A value that is not known before is bounded when the session begins.
    let mut plan = doubled("{{users.mail}}", 30);
    plan.data.tables.push(users());
    let script = Script::new(&plan).expect("a script").expect("variables");
    let mut locals = Locals::default();
    script.begin(0, &mut locals);
    let length = |locals: &Locals| (0..30).filter_map(|v| locals.get(v)).map(<[u8]>::len).sum();
    let all: usize = length(&locals);
    assert!((1 << 20..=16 << 20).contains(&all), "{all}");
    let mut filled = Filled::default();
    let sent = script.fill(0, 0, &locals, None, Nanos(0), &mut filled);
    assert_eq!(sent, Err(Unsent::NoValue));
}

/// A chain, and names that are looked up often, take time in proportion.
#[test]
fn many_variables_are_compiled() {
    let count = 50_000;
    let of = |nth: usize| match nth {
        0 => "a".to_owned(),
        _ => format!("{{{{v{}}}}}", nth - 1),
    };
    let plan = with_variables((0..count).map(|nth| variable(nth, of(nth))).collect());
    let script = Script::new(&plan).expect("a script").expect("variables");
    let mut locals = Locals::default();
    script.begin(0, &mut locals);
    assert_eq!(locals.get(count - 1), Some(&b"a"[..]));
    let later = with_variables(vec![variable(0, "{{v1}}".into()), variable(1, "{{v1}}".into())]);
    let problems = Script::problems(&later);
    assert_eq!(problems.len(), 2, "each may use earlier ones only: {problems:?}");
    let many = with_variables((0..100_001).map(|nth| variable(nth, "a".into())).collect());
    assert_eq!(Script::problems(&many)[0].what, "a plan has at most 100000 variables and extracts");
}

#[test]
fn filters_make_no_text_of_any_length() {
    let filters = |count: usize| " | url | json | base64 | url".repeat(count / 4);
    let text = |count| format!("/{{{{session{}}}}}", filters(count));
    let problems = Script::problems(&plan(vec![template(&text(60), &[], "")]));
    assert_eq!(problems[0].what, "a field has at most 32 filters");
    assert_eq!(Script::problems(&plan(vec![template(&text(32), &[], "")])), []);
    // With that many, a value can still become too long: each of these doubles it. It is not sent.
    let path = format!("/{{{{long{}}}}}", " | json".repeat(32));
    let mut plan = plan(vec![template(&path, &[], "")]);
    plan.data.variables.push(("long".into(), "\\".into()));
    let script = Script::new(&plan).expect("a script").expect("a template");
    let (mut locals, mut filled) = (Locals::default(), Filled::default());
    script.begin(0, &mut locals);
    let sent = script.fill(0, 0, &locals, None, Nanos(0), &mut filled);
    assert_eq!(sent, Err(Unsent::Unfit));
    // What is too long in any case is refused.
    plan.data.variables[0].1 = "x".repeat(1 << 20);
    plan.calls = vec![template("/", &[], &"{{long}}".repeat(65))].into();
    let problems = Script::problems(&plan);
    let what = "with its fields filled in, it is longer than 64 MiB";
    assert_eq!((problems[0].part, problems[0].what.as_str()), (Part::Body, what));
}
