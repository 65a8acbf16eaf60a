//! One row for each rule: what the peer sends, and the result, however the bytes are cut.

mod against_httparse;
mod requests;
mod rows;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Conn, H1, Phase};
use crate::fuzzing::{self, Outcome, plan, read};
use crate::proto::{Call, Carrier, Out, Reply, Sink};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId};
use prony_plan::script::Filled;
use rows::{ROWS, Row};

#[test]
fn p18_every_row_in_one_piece() {
    for row in ROWS {
        assert_eq!(row.read(|| usize::MAX), row.expected, "{row:?}");
    }
}

#[test]
fn p18_every_row_byte_by_byte() {
    for row in ROWS {
        assert_eq!(row.read(|| 1), row.expected, "{row:?}");
    }
}

#[test]
fn every_row_in_two_pieces() {
    for row in ROWS {
        for first in 1..row.bytes.len() {
            let mut cuts = [first, usize::MAX].into_iter();
            let cut = || cuts.next().unwrap_or(usize::MAX);
            assert_eq!(row.read(cut), row.expected, "{row:?} cut at {first}");
        }
    }
}

proptest! {
    #[test]
    fn every_row_in_random_pieces(row in 0..ROWS.len(), cuts in vec(1_usize..30, 1..40)) {
        let row = &ROWS[row];
        let mut cuts = cuts.into_iter();
        prop_assert_eq!(row.read(|| cuts.next().unwrap_or(7)), row.expected, "{:?}", row);
    }

    /// Random bytes, and bytes that are almost HTTP.
    #[test]
    fn garbage_has_one_outcome_however_it_is_cut(bytes in vec(any::<u8>(), 0..300)) {
        fuzzing::reply(&bytes);
    }

    #[test]
    fn changed_rows_have_one_outcome_however_they_are_cut(
        (first, second) in (0..ROWS.len(), 0..ROWS.len()),
        changes in vec((any::<prop::sample::Index>(), change()), 0..4),
    ) {
        let (first, second) = (&ROWS[first], &ROWS[second]);
        let mut bytes = format!("{}{}\n", first.calls, second.calls).into_bytes();
        let calls = bytes.len();
        bytes.extend_from_slice(first.bytes.as_bytes());
        bytes.extend_from_slice(second.bytes.as_bytes());
        for (at, change) in changes {
            // Rows may be empty, and changes may empty them.
            if bytes.len() == calls {
                break;
            }
            let at = calls + at.index(bytes.len() - calls);
            match change {
                Change::Put(b) => bytes[at] = b,
                Change::Insert(b) => bytes.insert(at, b),
                Change::Drop => drop(bytes.remove(at)),
            }
        }
        fuzzing::reply(&bytes);
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Put(u8),
    Insert(u8),
    Drop,
}

fn change() -> impl Strategy<Value = Change> {
    let byte = prop_oneof![prop::sample::select(&b"\r\n\t :;,0159afHC\0\x7f\xff"[..]), any::<u8>()];
    prop_oneof![
        byte.clone().prop_map(Change::Put),
        byte.prop_map(Change::Insert),
        Just(Change::Drop),
    ]
}

/// The longest head that is accepted has 64 KiB, wherever its bytes are.
#[test]
fn refuses_heads_over_the_limit() {
    const LIMIT: usize = 64 * 1024;
    let head = |n: usize, start: &str, end: &str| {
        format!("{start}{}{end}", "a".repeat(n - start.len() - end.len()))
    };
    let ok = "HTTP/1.1 204 No Content\r\n";
    let field = format!("{ok}X: ");
    let folded = format!("{ok}X: a\r\n\tb\r\n ");
    let lf = format!("{ok}X: ").replace("\r\n", "\n");
    let fields = format!("{ok}{}X: ", "Name: value\r\n".repeat(5000));
    for (start, end) in [
        ("HTTP/1.1 204 ", "\r\n\r\n"),
        (field.as_str(), "\r\n\r\n"),
        (folded.as_str(), "\r\n\r\n"),
        (lf.as_str(), "\n\n"),
        (fields.as_str(), "\r\n\r\n"),
    ] {
        same(&head(LIMIT, start, end), "204 +");
        same(&head(LIMIT + 1, start, end), "HeaderTooLarge");
        same(&head(LIMIT, start, ""), "Truncated");
        // An endless head is refused as soon as it is too long.
        same(&head(LIMIT + 1, start, ""), "HeaderTooLarge");
        same(&head(3 * LIMIT, start, ""), "HeaderTooLarge");
    }
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
    let trailers = |n: usize, end: &str| format!("{chunked}{}", head(n, "X: ", end));
    same(&trailers(LIMIT, "\r\n\r\n"), "200 +");
    same(&trailers(LIMIT + 1, "\r\n\r\n"), "HeaderTooLarge");
    same(&trailers(2 * LIMIT, ""), "HeaderTooLarge");
    // Each interim reply has its own limit.
    let interim = head(LIMIT, "HTTP/1.1 103 ", "\r\n\r\n");
    let last = head(LIMIT, &field, "\r\n\r\n");
    same(&format!("{interim}{interim}{last}"), "204(2) +");
}

#[test]
fn refuses_chunk_lines_over_the_limit() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let line = |n| format!("{chunked}1;{}\r\na\r\n0\r\n\r\n", "x".repeat(n));
    same(&line(16_000), "200 a +");
    same(&line(17_000), "BadChunk");
    same(&format!("{chunked}{}", "0".repeat(100_000)), "BadChunk");
}

/// One GET: the outcome in one piece, in pieces of many sizes and byte by byte.
#[track_caller]
fn same(bytes: &str, expected: &str) {
    for cut in [usize::MAX, 1, 1000, 4099, 65_535] {
        let outcome = read(&["GET"], bytes.as_bytes(), || cut);
        assert_eq!(show(&outcome), expected, "pieces of {cut}");
    }
}

/// The time per byte must not grow with the length of an unfinished line: bytes that were searched
/// for a line end are not searched again.
#[test]
fn scans_a_line_in_pieces_once() {
    let fold = "b\r\n ".repeat(1000);
    let head = format!("HTTP/1.1 204 {}\r\nX: {fold}\r\n\r\n", "a".repeat(5000));
    let (mut h1, mut conn) = (H1::new(&plan(&["GET"])), Conn::default());
    let mut sink = Last { outstanding: 1, reply: None };
    let mut used = 0;
    for end in 1..=head.len() {
        used += h1.decode(&mut conn, &head.as_bytes()[used..end], &mut sink).expect("valid");
        if let Phase::Start { section, .. } | Phase::Fields(section) = conn.phase {
            // The next search starts at the last byte at the earliest.
            assert!(section.scanned as usize + 1 >= end - used, "{section:?} of {}", end - used);
        }
    }
    assert_eq!((sink.reply.is_some(), used), (true, head.len()));
}

/// Bytes with no call outstanding.
#[test]
fn counts_unrequested_bytes_as_surplus() {
    let mut h1 = H1::new(&plan(&["GET"]));
    for bytes in ["H", "\r\n", "junk", "HTTP/1.1 408 Request Timeout\r\n\r\n"] {
        let mut conn = Conn::default();
        let mut sink = Last { outstanding: 0, reply: None };
        assert_eq!(h1.decode(&mut conn, bytes.as_bytes(), &mut sink), Err(Fault::Surplus));
        assert_eq!(sink.reply, None);
    }
    let mut sink = Last { outstanding: 0, reply: None };
    assert_eq!(h1.end(&mut Conn::default(), b"", &mut sink), Ok(()));
}

/// In the buffer in which the reply ends, surplus bytes are the reply's fault.
#[test]
fn surplus_bytes_in_the_same_buffer_fail_the_reply() {
    let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
    for (outstanding, bytes, fault, keeps_open) in [
        (1, format!("{whole}!"), Some(Fault::Surplus), false),
        (1, format!("{whole}{whole}"), Some(Fault::Surplus), false),
        (1, whole.to_owned(), None, true),
        (2, whole.to_owned(), None, true),
        (2, format!("{whole}H"), None, true),
        (2, closing.to_owned(), None, false),
        (2, format!("{closing}{whole}"), Some(Fault::Surplus), false),
    ] {
        let mut h1 = H1::new(&plan(&["GET"]));
        let mut sink = Last { outstanding, reply: None };
        h1.decode(&mut Conn::default(), bytes.as_bytes(), &mut sink).expect("valid");
        let reply = sink.reply.expect("a reply");
        assert_eq!((reply.fault, reply.keeps_open), (fault, keeps_open), "{outstanding} {bytes}");
    }
}

/// A connection that was asked to close carries no further calls, whatever the peer replies.
#[test]
fn the_last_call_ends_the_connection() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let mut h1 = H1::new(&plan(&["GET"]));
    let mut conn = Conn::default();
    assert_eq!(h1.capacity(&conn, 1, 4), 3);
    h1.encode(&mut conn, 0, false, &mut Vec::new());
    h1.encode(&mut conn, 0, true, &mut Vec::new());
    assert_eq!(h1.capacity(&conn, 2, 4), 0);
    let mut sink = Last { outstanding: 2, reply: None };
    h1.decode(&mut conn, bytes, &mut sink).expect("valid");
    assert!(sink.reply.expect("a reply").keeps_open, "another reply is expected");
    assert_eq!(h1.capacity(&conn, 1, 4), 0);
    h1.decode(&mut conn, bytes, &mut sink).expect("valid");
    assert!(!sink.reply.expect("a reply").keeps_open);
    assert_eq!(h1.capacity(&conn, 0, 4), 0);
}

/// A head that was seen before is compared, not parsed. It must not be applied to another method,
/// nor match another head with the same start.
#[test]
fn heads_seen_before_keep_their_meaning() {
    let one = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n";
    // Slots repeat after 8 calls: call 8 is a HEAD in the slot of call 0.
    let methods: Vec<_> = (0..16).map(|i| if i < 8 { "GET" } else { "HEAD" }).collect();
    let bytes = format!("{}{}", format!("{one}x").repeat(8), one.repeat(8));
    let outcome = read(&methods, bytes.as_bytes(), || usize::MAX);
    assert_eq!(show(&outcome), format!("{}{}", "200 x +; ".repeat(8), ["200 +"; 8].join("; ")));

    let alike = [one, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n", "Connection: close\r\n\r\n"];
    let bytes = format!("{}x{}{}y", alike[0], alike[1], alike[2]);
    let mut h1 = H1::new(&plan(&["GET"]));
    let mut sink = Last { outstanding: 3, reply: None };
    h1.decode(&mut Conn::default(), bytes.as_bytes(), &mut sink).expect("valid");
    assert!(!sink.reply.expect("a reply").keeps_open);

    // With an empty line before it, and then with two, which are one too many.
    let mut sink = Last { outstanding: 9, reply: None };
    let mut conn = Conn::default();
    let blank = format!("\r\n{one}x");
    assert_eq!(h1.decode(&mut conn, blank.as_bytes(), &mut sink), Ok(blank.len()));
    assert_eq!(h1.decode(&mut conn, blank.as_bytes(), &mut sink), Ok(blank.len()));
    assert_eq!(h1.decode(&mut conn, b"\r\n", &mut sink), Ok(2));
    assert_eq!(h1.decode(&mut conn, blank.as_bytes(), &mut sink), Err(Fault::BadStatusLine));
}

/// The expected outcome in short: `STATUS(INTERIM) BODY +` for a reply after which the connection
/// stays open, `-` for one that ends it; then what ended the reading.
fn show(outcome: &Outcome) -> String {
    let mut parts: Vec<_> = outcome.replies.iter().map(|(r, b)| show_reply(r, b)).collect();
    parts.extend(outcome.surplus.then(|| "surplus".to_owned()));
    parts.extend(outcome.fault.map(|f| format!("{f:?}")));
    parts.join("; ")
}

fn show_reply(reply: &Reply, body: &[u8]) -> String {
    let mut text = reply.status.to_string();
    if reply.interim > 0 {
        text += &format!("({})", reply.interim);
    }
    if !body.is_empty() {
        text += &format!(" {}", String::from_utf8_lossy(body));
    }
    text + if reply.keeps_open { " +" } else { " -" }
}

impl Row {
    fn read(&self, cut: impl FnMut() -> usize) -> String {
        let methods: Vec<_> = self
            .calls
            .chars()
            .map(|c| match c {
                'H' => "HEAD",
                'C' => "CONNECT",
                _ => "GET",
            })
            .collect();
        show(&read(&methods, self.bytes.as_bytes(), cut))
    }
}

/// Keeps the last reply.
struct Last {
    outstanding: u32,
    reply: Option<Reply>,
}

impl Sink for Last {
    fn oldest(&self) -> Option<(RequestId, u32)> {
        (self.outstanding > 0).then_some((ID, 0))
    }
    fn outstanding(&self) -> u32 {
        self.outstanding
    }
    fn began(&mut self, _: RequestId) {}
    fn wants_body(&self, _: RequestId) -> bool {
        false
    }
    fn body(&mut self, _: RequestId, _: &[u8]) {
        panic!("the body was not requested");
    }
    fn done(&mut self, _: RequestId, reply: &Reply) {
        self.outstanding -= 1;
        self.reply = Some(*reply);
    }
}

/// Methods for tests with a single exchange.
const ID: RequestId = RequestId { slot: 0, generation: 0 };

impl H1 {
    fn decode(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        self.receive(conn, data, Nanos::ZERO, sink)
    }

    fn encode(&mut self, conn: &mut Conn, index: u32, last: bool, to: &mut Vec<u8>) {
        let mut out = Out::default();
        self.submit(conn, ID, Call { index, filled: None }, last, &mut out);
        to.append(out.bytes());
    }

    fn encode_filled(&mut self, conn: &mut Conn, index: u32, filled: &Filled) -> Vec<u8> {
        let mut out = Out::default();
        self.submit(conn, ID, Call { index, filled: Some(filled) }, false, &mut out);
        std::mem::take(out.bytes())
    }
}
