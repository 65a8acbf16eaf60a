//! Tests of the readers: the examples of the standard, and any split.

use proptest::prelude::*;

use super::*;

fn plan(format: StreamFormat, content: Option<&str>, until: Option<&str>) -> StreamPlan {
    let (content, until) = (content.map(str::to_owned), until.map(str::to_owned));
    StreamPlan { content, until, ..StreamPlan::new(format) }
}

/// All messages of a body that arrives in pieces with these ends, and how it ends.
fn all(plan: &StreamPlan, body: &[u8], cuts: &[usize]) -> (Vec<Message>, Ending) {
    let (rules, mut reader, mut messages) = (Rules::new(plan), Reader::default(), Vec::new());
    let mut from = 0;
    for &to in cuts.iter().chain([&body.len()]) {
        reader.read(&rules, &body[from..to], |message| messages.push(message)).expect("short");
        from = to;
    }
    (messages, reader.end(&rules))
}

/// How many messages there are, and how the body ends.
fn count(format: StreamFormat, body: &str) -> (usize, Ending) {
    let (messages, ending) = all(&plan(format, None, None), body.as_bytes(), &[]);
    (messages.len(), ending)
}

const MESSAGE: Message =
    Message { has_content: false, is_last: false, has_end: false, said: Said::NOTHING, id: None };

#[test]
fn events_follow_the_standard() {
    for (events, body) in [
        // The examples of the standard.
        (1, "data: YHOO\ndata: +2\ndata: 10\n\n"),
        (2, ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\n"),
        (2, "data\n\ndata\ndata\n\n"),
        (2, "data:test\n\ndata: test\n\n"),
        // Line ends, also mixed.
        (2, "data: a\r\n\r\ndata: b\r\n\r\n"),
        (2, "data: a\r\rdata: b\r\r"),
        (2, "data: a\r\n\ndata: b\n\r\n"),
        // Comments, pings and other fields are no events.
        (0, ": ping\n\n:\n\nevent: x\n\nid: 3\n\nretry: 10\n\n"),
        (0, "datas: a\n\n data: b\n\ndat: c\n\nDATA: d\n\n"),
        (0, "\n\n\r\n\r\r\n"),
        // A byte order mark, or a part of one.
        (1, "\u{feff}data: a\n\n"),
        (0, "\u{feff}\u{feff}data: a\n\n"),
        (1, "data: \0\n\n"),
    ] {
        assert_eq!(count(StreamFormat::Sse, body), (events, Ending::Clean), "{body:?}");
    }
    for body in ["data", "data: a", "data: a\n", "data\r\n", "data: a\nid: 1\n"] {
        assert_eq!(count(StreamFormat::Sse, body), (0, Ending::Incomplete), "{body:?}");
    }
    for body in ["dat", ": a", "event: a\n", "", "id"] {
        assert_eq!(count(StreamFormat::Sse, body), (0, Ending::Clean), "{body:?}");
    }
    assert_eq!(all(&plan(StreamFormat::Sse, None, None), b"\xef\xbbdata: a\n\n", &[]).0.len(), 0);
}

/// The position after a body that arrives in pieces of this length: the last ID, and when to open
/// the stream again.
fn position(body: &str, cut: usize) -> Result<(String, Option<u64>), TooLong> {
    let plan = StreamPlan { reconnect: true, ..StreamPlan::new(StreamFormat::Sse) };
    let (rules, mut reader) = (Rules::new(&plan), Reader::default());
    reader.clear(&rules);
    for piece in body.as_bytes().chunks(cut) {
        reader.read(&rules, piece, |_| ())?;
    }
    let position = reader.position().expect("streams are opened again");
    let retry = position.retry().map(|span| span.0 / 1_000_000);
    Ok((String::from_utf8_lossy(position.id()).into_owned(), retry))
}

#[test]
fn positions_follow_the_standard() {
    for (id, retry, body) in [
        ("7", None, "id: 7\ndata: a\n\n"),
        // An event that is not complete does not count; one without data does.
        ("7", None, "id: 7\ndata: a\n\nid: 8\ndata: b\n"),
        ("8", None, "data: a\nid:7\n\nid:8\r\n\r\ndata: c\n\n"),
        (" 9", None, "id:  9\rdata: a\r\r"),
        // An empty ID resets it; one with a zero byte is none.
        ("", None, "id: 7\ndata: a\n\nid\ndata: b\n\n"),
        ("7", None, "id: 7\ndata: a\n\nid: 8\09\ndata: b\n\n"),
        ("", None, "idx: 3\ni: 4\nID: 5\n id: 6\ndata: a\n\n"),
        // The time counts at once, and only digits are one.
        ("", Some(250), "retry: 250\n"),
        ("", Some(250), "retry: 250\n\nretry: 3s\n\nretry: -1\n\nretry\n\nretries: 4\n\n"),
        ("x", Some(0), "retry: 250\nid: x\nretry:0\n\n"),
    ] {
        for cut in [1, 2, 3, body.len()] {
            assert_eq!(position(body, cut), Ok((id.to_owned(), retry)), "{body:?} {cut}");
        }
    }
    let long = |n| format!("id: {}\ndata: a\n\n", "x".repeat(n));
    assert!(position(&long(ID_MAX), 7).is_ok());
    assert_eq!(position(&long(ID_MAX + 1), 7), Err(TooLong));
}

#[test]
fn messages_have_their_own_numbers() {
    let plan = StreamPlan { reconnect: true, ..StreamPlan::new(StreamFormat::Sse) };
    let (rules, mut reader, mut ids) = (Rules::new(&plan), Reader::default(), Vec::new());
    reader.clear(&rules);
    let body = b"id: 7\ndata\n\ndata\n\nid: x\ndata\n\nid: 18446744073709551615\ndata\n\n";
    reader.read(&rules, body, |message| ids.push(message.id)).expect("short");
    assert_eq!(ids, [Some(7), None, None, Some(u64::MAX)]);
    // The next connection goes on after the last ID; another stream has none.
    reader.read(&rules, b"id: 9\ndata: lost", |_| ()).expect("short");
    reader.continues();
    assert_eq!(reader.position().map(Position::id), Some(&b"18446744073709551615"[..]));
    reader.clear(&rules);
    assert_eq!(reader.position().map(Position::id), Some(&b""[..]));
}

#[test]
fn the_data_of_an_event_are_its_lines() {
    for (body, text) in [
        ("data: a\ndata: b\n\n", "a\nb"),
        ("data: [DONE]\n\n", "[DONE]"),
        ("data:  x\n\n", " x"),
        ("data\ndata\n\n", "\n"),
        ("data: a\nid: 7\n: no\ndata:b\n\n", "a\nb"),
    ] {
        let plan = plan(StreamFormat::Sse, None, Some(text));
        let expected = vec![Message { is_last: true, ..MESSAGE }];
        assert_eq!(all(&plan, body.as_bytes(), &[]).0, expected, "{body:?}");
    }
}

#[test]
fn lines_without_text_are_no_messages() {
    let last = Ending::Message(MESSAGE);
    for (body, expected) in [
        ("{}\n[]\r\n", (2, Ending::Clean)),
        ("\n \r\n\t\n1\n", (1, Ending::Clean)),
        ("1\n2", (1, last)),
        ("1\n ", (1, Ending::Clean)),
        ("", (0, Ending::Clean)),
    ] {
        assert_eq!(count(StreamFormat::Ndjson, body), expected, "{body:?}");
    }
}

#[test]
fn chunks_are_messages_whatever_their_pieces() {
    let rules = Rules::new(&plan(StreamFormat::Chunks, None, Some("bc")));
    let mut reader = Reader::default();
    assert_eq!(reader.chunk_ended(&rules), None);
    for piece in ["a", "b", "c"] {
        reader.read(&rules, piece.as_bytes(), |_| panic!("not ended")).expect("short");
    }
    assert_eq!(reader.chunk_ended(&rules), Some(Message { is_last: true, ..MESSAGE }));
    assert_eq!((reader.chunk_ended(&rules), reader.end(&rules)), (None, Ending::Clean));
    reader.read(&rules, b"b", |_| panic!("not ended")).expect("short");
    assert_eq!(reader.end(&rules), Ending::Message(MESSAGE));
}

#[test]
fn content_is_a_value_that_is_not_empty() {
    let of = |json: &str| Pointer::new("/choices/0/delta/content").finds_content(json.as_bytes());
    for json in [
        r#"{"choices":[{"delta":{"content":"Hi"}}]}"#,
        r#" { "id" : "x\"}" , "choices" : [ { "index":0, "delta" : {"role":"a","content" : " "}}]}"#,
        r#"{"n":[1,{"a":"]"}],"choices":[{"delta":{"content":0}},{}]}"#,
        r#"{"choices":[{"delta":{"\u0063ontent":[1]}}]}"#,
    ] {
        assert!(of(json), "{json}");
    }
    for json in [
        r#"{"choices":[{"delta":{"content":""}}]}"#,
        r#"{"choices":[{"delta":{"content":null}}]}"#,
        r#"{"choices":[{"delta":{"content":[ ]}}]}"#,
        r#"{"choices":[{"delta":{"content":{}}}]}"#,
        r#"{"choices":[{"delta":{"role":"assistant"}}]}"#,
        r#"{"choices":[],"usage":{"content":"x"}}"#,
        r#"{"choices":[{"delta":{"content":"H"#,
        "[DONE]",
        "",
    ] {
        assert!(!of(json), "{json}");
    }
    assert!(Pointer::new("").finds_content(b"1") && !Pointer::new("").finds_content(b"null"));
    assert!(Pointer::new("/a~1b/~0").finds_content(br#"{"a/b":{"~":"x"}}"#));
    assert!(!Pointer::new("/01").finds_content(b"[1,2]"));
    assert!(Pointer::new("/1").finds_content(b"[1,2]"));
}

#[test]
fn messages_have_a_maximum_length_and_leave_no_buffer() {
    let plan = plan(StreamFormat::Sse, None, Some("zz"));
    let (rules, mut reader) = (Rules::new(&plan), Reader::default());
    let half = vec![b'a'; MESSAGE_MAX / 2];
    let mut read = |bytes: &[u8]| reader.read(&rules, bytes, |_| {});
    assert_eq!(read(b"data: "), Ok(()));
    assert_eq!((read(&half), read(&half), read(b"\n\ndata: ")), (Ok(()), Ok(()), Ok(())));
    assert_eq!((read(&half), read(&half), read(b"a")), (Ok(()), Ok(()), Err(TooLong)));
    reader.clear(&rules);
    assert!(reader.collected.bytes.capacity() <= KEPT);
    // Comments and other fields are not kept, and so have no limit.
    let mut read = |bytes: &[u8]| reader.read(&rules, bytes, |_| panic!("no event"));
    assert_eq!(
        (read(b": "), read(&half), read(&half), read(&half)),
        (Ok(()), Ok(()), Ok(()), Ok(()))
    );
}

/// WebSocket itself limits its messages (to 16 MiB), whether they are looked into or not.
#[test]
fn messages_of_websocket_have_no_second_limit() {
    let text = format!("{{\"filler\":\"{}\",\"text\":\"x\"}}", "a".repeat(3 * MESSAGE_MAX));
    for (content, until) in [(Some("/text"), None), (None, Some("zz")), (None, None)] {
        let rules = Rules::new(&plan(StreamFormat::Messages, content, until));
        let mut reader = Reader::default();
        for piece in text.as_bytes().chunks(64 << 10) {
            let read = reader.read(&rules, piece, |_| panic!("it ends with its frame"));
            assert_eq!(read, Ok(()), "{content:?}");
        }
        let message = reader.chunk_ended(&rules).unwrap();
        assert_eq!(message.has_content, content.is_some());
        assert!(reader.collected.bytes.capacity() <= KEPT);
    }
}

proptest! {
    #[test]
    fn any_split_finds_the_same_messages(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "data", "data:", " ", "x", ":", "\n", "\n\n", "\r", "\r\n", "id: 1", "retry: 3",
                "\u{feff}", "event: e", "{\"a\":\"b\"}", "{\"a\":", "\"\"}", "end", "\0",
            ]),
            0..40,
        ),
        cuts in prop::collection::vec(0.0..1.0_f64, 0..12),
        format in prop::sample::select(vec![StreamFormat::Sse, StreamFormat::Ndjson]),
    ) {
        let body = parts.concat().into_bytes();
        let mut cuts: Vec<_> = cuts.iter().map(|at| (at * body.len() as f64) as usize).collect();
        cuts.sort_unstable();
        let plan = plan(format, Some("/a"), Some("end"));
        let bytes: Vec<_> = (0..body.len()).collect();
        let whole = all(&plan, &body, &[]);
        prop_assert_eq!(&all(&plan, &body, &cuts), &whole);
        prop_assert_eq!(&all(&plan, &body, &bytes), &whole);
    }
}
