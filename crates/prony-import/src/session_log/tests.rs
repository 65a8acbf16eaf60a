use std::fmt::Write as _;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

/// The sessions as text, one line per request: `*` or `+` (first of a burst or not), position,
/// method, URI, and the parts that are not empty. Or the errors.
fn shown(text: impl AsRef<[u8]>, dialect: Dialect) -> String {
    let mut out = String::new();
    match parse(text.as_ref(), dialect) {
        Err(errors) => errors.iter().for_each(|e| writeln!(out, "{e}").unwrap()),
        Ok(sessions) => {
            for (i, session) in sessions.iter().enumerate() {
                writeln!(out, "session {}", i + 1).unwrap();
                for burst in session {
                    for (k, request) in burst.requests.iter().enumerate() {
                        write_request(&mut out, request, k == 0);
                    }
                    if let Some(think) = burst.think {
                        writeln!(out, "    think {think}").unwrap();
                    }
                }
            }
        }
    }
    out
}

fn write_request(out: &mut String, request: &LoggedRequest<'_>, first: bool) {
    let LoggedRequest { line, column, uri, method, headers, body, name } = request;
    let mark = if first { '*' } else { '+' };
    write!(out, "  {mark} {line}:{column} {method} {uri}").unwrap();
    if !body.is_empty() {
        write!(out, " body {:?}", body.escape_ascii().to_string()).unwrap();
    }
    for (name, value) in headers {
        write!(out, " [{name}: {value}]").unwrap();
    }
    writeln!(out, "{}", name.as_ref().map(|n| format!(" named {n:?}")).unwrap_or_default())
        .unwrap();
}

fn check(text: &str, both: Expect) {
    let [httperf, prony] = [Dialect::Httperf, Dialect::Prony].map(|d| shown(text, d));
    assert_eq!(httperf, prony, "the dialects agree");
    both.assert_eq(&httperf);
}

fn check_apart(text: &str, httperf: Expect, prony: Expect) {
    httperf.assert_eq(&shown(text, Dialect::Httperf));
    prony.assert_eq(&shown(text, Dialect::Prony));
}

#[test]
fn two_sessions_and_a_third() {
    check(
        "\
# A form is sent, then a page is read.
# Nothing is wanted together.
#

/foo.html method=POST contents='Post data'
/bar.html method=GET
#

# session 2
/a.html think=2.0
\t/b.gif
 /c.gif think=0.5

/x
",
        expect![[r#"
            session 1
              * 5:1 POST /foo.html body "Post data"
              * 6:1 GET /bar.html
            session 2
              * 10:1 GET /a.html
              + 11:2 GET /b.gif
              + 12:2 GET /c.gif
                think 500ms
            session 3
              * 14:1 GET /x
        "#]],
    );
}

#[test]
fn lines() {
    // The expected requests were captured from httperf by a server.
    check(
        "/x method=POST contents=ab#c\n\t\n\n# hi\n  #joined\n/y think=-3\n/q\x0bmethod=PUT\x0cthink=0\n",
        expect![[r##"
            session 1
              * 1:1 POST /x body "ab#c"
            session 2
              * 5:3 GET #joined
              * 6:1 GET /y
                think none
              * 7:1 PUT /q
                think none
        "##]],
    );
    check(
        "\n \n\n /first-joins-nothing\n\n\n",
        expect![[r#"
            session 1
              * 4:2 GET /first-joins-nothing
        "#]],
    );
    check(
        "/no-line-feed contents=a method=HEAD method=POST contents=b",
        expect![[r#"
            session 1
              * 1:1 POST /no-line-feed body "b"
        "#]],
    );
    check(
        "\u{feff}/ä think=1\n/a think=1\n /b think=2\n /c\n",
        expect![[r#"
            session 1
              * 1:1 GET /ä
                think 1s
              * 2:1 GET /a
              + 3:2 GET /b
              + 4:2 GET /c
                think 2s
        "#]],
    );
}

#[test]
fn values() {
    check(
        r#"/a contents="it's" contents='say "hi"' contents=a"b c"'d"e'f\ g
/b contents=""
/c contents="\n\r\t\\\"\x" name='front page'
/d contents=one\
two" three\
four"
/e contents="open
/f contents='open \' too
/g contents=\"#,
        expect![[r#"
            session 1
              * 1:1 GET /a body "ab cd\\\"ef g"
              * 2:1 GET /b
              * 3:1 GET /c body "\\n\\r\\t\\\\\\\"x" named "front page"
              * 4:1 GET /d body "one\\ntwo three\\nfour"
              * 7:1 GET /e body "open\\n"
              * 8:1 GET /f body "open \\' too\\n"
              * 9:1 GET /g
        "#]],
    );
    let bytes = b"/a contents=\"\xff\x00\"\n";
    let sessions = parse(bytes, Dialect::Prony).unwrap();
    assert_eq!(*sessions[0][0].requests[0].body, [0xff, 0]);
}

#[test]
fn carriage_returns() {
    check_apart(
        "/a contents=abc\r\n/b contents=\"abc\"\r\n /c contents=\"abc\r\n/d think=1\r\n\r\n/e contents=a\\\r\n/h contents=a\rb\n",
        expect![[r#"
            session 1
              * 1:1 GET /a body "abc\\r"
              * 2:1 GET /b body "abc\\r"
              + 3:2 GET /c body "abc\\r\\n"
              * 4:1 GET /d
                think 1s
            session 2
              * 6:1 GET /e body "a\\r"
              * 7:1 GET /h body "a\\rb"
        "#]],
        expect![[r#"
            session 1
              * 1:1 GET /a body "abc"
              * 2:1 GET /b body "abc"
              + 3:2 GET /c body "abc\\r\\n"
              * 4:1 GET /d
                think 1s
            session 2
              * 6:1 GET /e body "a\\r"
              * 7:1 GET /h body "a\\rb"
        "#]],
    );
}

#[test]
fn differences_between_the_dialects() {
    check_apart(
        "/a method=POSTED think=1x5z\n/b method=PATCH think=1e-1\n/c think=nan\n",
        expect![[r#"
            session 1
              * 1:1 POST /a
                think 1s
              * 2:1 PATCH /b
                think 100ms
              * 3:1 GET /c
                think none
        "#]],
        expect![[r#"
            line 1, column 18: '1x5z' is not a think time: '1x5z' is not a time: unknown unit 'x'; write 50ms, exp:50ms, uniform:10ms:90ms or lognormal:50ms:0.5
            line 3, column 4: 'nan' is not a think time: unknown distribution 'nan'; write 50ms, exp:50ms, uniform:10ms:90ms or lognormal:50ms:0.5
        "#]],
    );
    check_apart(
        "/a method=M-SEARCH think=500ms\n/b method=get think=exp:2s\n",
        expect![[r#"
            line 1, column 4: 'M-SEARCH' is not a method; write GET, POST or the like
            line 2, column 4: 'get' is not a method; write GET, POST or the like
        "#]],
        expect![[r#"
            session 1
              * 1:1 M-SEARCH /a
                think 500ms
              * 2:1 get /b
                think exp:2s
        "#]],
    );
}

#[test]
fn headers_over_lines() {
    check(
        "/a headers='A: 1\\nB:2\\n' contents=x\n/b headers=\"A: it's\nB: \\\"2\\\"\n\n\" name=b\n /c\n",
        expect![[r#"
            session 1
              * 1:1 GET /a body "x" [A: 1] [B: 2]
              * 2:1 GET /b [A: it's] [B: "2"] named "b"
              + 6:2 GET /c
        "#]],
    );
}

#[test]
fn errors_have_a_place() {
    check(
        "/a foo\n/b ok=1 think=2\n/c method=\n/d contents= x\n /e method=P@ST\n\n/f headers=Nonsense\n/g headers='A: b\n",
        expect![[r#"
            line 1, column 4: this word is not understood; a URI can be followed by method=NAME, think=TIME, contents=TEXT, headers=LINES and name=TEXT
            line 2, column 4: 'ok=' is not understood; a URI can be followed by method=NAME, think=TIME, contents=TEXT, headers=LINES and name=TEXT
            line 3, column 4: 'method=' is not understood; a URI can be followed by method=NAME, think=TIME, contents=TEXT, headers=LINES and name=TEXT
            line 4, column 4: 'contents=' is not understood; a URI can be followed by method=NAME, think=TIME, contents=TEXT, headers=LINES and name=TEXT
            line 5, column 5: 'P@ST' is not a method; write GET, POST or the like
            line 7, column 4: this is not a header: it has no colon; write 'Name: value'
            line 8, column 4: the file ends inside this value
        "#]],
    );
    for (text, sentence) in [
        (
            "",
            expect![
                "line 1, column 1: the file has no requests; write one per line, for example /index.html think=2\n"
            ],
        ),
        (
            "# only\n \n",
            expect![
                "line 1, column 1: the file has no requests; write one per line, for example /index.html think=2\n"
            ],
        ),
        (
            "/\u{e4}\u{e4} x",
            expect![
                "line 1, column 5: this word is not understood; a URI can be followed by method=NAME, think=TIME, contents=TEXT, headers=LINES and name=TEXT\n"
            ],
        ),
        ("/x contents=abc\\\n", expect!["line 1, column 4: the file ends inside this value\n"]),
        (
            "/x think=+",
            expect![
                "line 1, column 4: 'think=' is not understood; a URI can be followed by method=NAME, think=TIME, contents=TEXT, headers=LINES and name=TEXT\n"
            ],
        ),
    ] {
        sentence.assert_eq(&shown(text, Dialect::Httperf));
    }
    expect!["line 1, column 1: '/�' is not UTF-8 text; write it as %XX\n"]
        .assert_eq(&shown(b"/\xff\n", Dialect::Prony));
}

#[test]
fn equal_requests_are_one_call() {
    let text = "/a\n /b think=1\n\n/a\n/b contents=x\n /b contents=y\n /a\n";
    let mut calls = Calls::default();
    let make = |r: &LoggedRequest<'_>| CallSpec {
        path: r.uri.into(),
        body: r.body.to_vec(),
        ..CallSpec::default()
    };
    let think = Think::Fixed(Span::from_secs(9));
    let kinds = add_to(&mut calls, (text.as_bytes(), Dialect::Prony), think, make).unwrap();
    let paths: Vec<_> = calls.clone().into_vec().into_iter().map(|c| c.path).collect();
    assert_eq!(paths, ["/a", "/b", "/b", "/b"]);
    let bursts: Vec<_> =
        kinds.iter().flat_map(|k| &k.bursts).map(|b| (&b.calls[..], b.lead)).collect();
    assert_eq!(bursts, [(&[0, 1][..], true), (&[0], false), (&[2, 3, 0], true)]);
    assert_eq!(kinds[0].bursts[0].think, Think::Fixed(Span::from_secs(1)));
    assert_eq!(kinds[1].bursts[1].think, think);
}

/// A file with 1,000 sessions and 100,000 requests, like a recording.
fn large() -> String {
    let mut text = String::new();
    for session in 0..1_000 {
        for request in 0..100 {
            let indent = if request % 10 == 0 { "" } else { " " };
            writeln!(text, "{indent}/shop/{session}/item{request}.html?user={session} think=1.5")
                .unwrap();
        }
        text.push('\n');
    }
    text
}

#[test]
fn parses_a_large_file() {
    let text = large();
    let sessions = parse(text.as_bytes(), Dialect::Httperf).unwrap();
    assert_eq!(sessions.len(), 1_000);
    assert!(sessions.iter().all(|s| s.len() == 10 && s.iter().all(|b| b.requests.len() == 10)));
}

/// Write these sessions as a session file.
fn written(sessions: &[LoggedSession<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for session in sessions {
        for burst in session {
            for (k, request) in burst.requests.iter().enumerate() {
                if k > 0 {
                    out.push(b' ');
                }
                out.extend_from_slice(request.uri.as_bytes());
                out.extend_from_slice(format!(" method={} contents=\"", request.method).as_bytes());
                for &byte in &*request.body {
                    if matches!(byte, b'"' | b'\\' | b'\n') {
                        out.push(b'\\');
                    }
                    out.push(if byte == b'\n' { b'n' } else { byte });
                }
                out.push(b'"');
                if let (0, Some(think)) = (k, burst.think) {
                    out.extend_from_slice(format!(" think={think}").as_bytes());
                }
                out.push(b'\n');
            }
        }
        out.push(b'\n');
    }
    out
}

proptest! {
    #[test]
    fn written_sessions_read_back(
        spec in prop::collection::vec(
            prop::collection::vec(
                (prop::collection::vec(("/[!-~&&[^ ]]{0,9}", prop::collection::vec(any::<u8>(), 0..20)), 1..4),
                 1u64..u64::MAX / 2),
                1..4,
            ),
            1..4,
        ),
    ) {
        let sessions: Vec<LoggedSession<'_>> = spec.iter().map(|session| {
            session.iter().map(|(requests, think)| LoggedBurst {
                requests: requests.iter().map(|(uri, body)| LoggedRequest {
                    line: 0, column: 0, uri, method: "PUT", headers: vec![],
                    body: Cow::Borrowed(body), name: None,
                }).collect(),
                think: Some(Think::Fixed(Span(*think))),
            }).collect()
        }).collect();
        let text = written(&sessions);
        let mut back = parse(&text, Dialect::Prony).unwrap();
        for request in back.iter_mut().flatten().flat_map(|b| &mut b.requests) {
            (request.line, request.column) = (0, 0);
        }
        prop_assert_eq!(back, sessions);
    }

    #[test]
    fn nothing_panics(text in r#"([/a \t\r\n'"\\#=é]|contents=|method=|think=|headers=|name=){0,40}"#) {
        for dialect in [Dialect::Httperf, Dialect::Prony] {
            if let Err(errors) = parse(text.as_bytes(), dialect) {
                prop_assert!(!errors.is_empty());
                prop_assert!(errors.iter().all(|e| !e.to_string().contains('\n')), "{:?}", errors);
            }
        }
    }
}
