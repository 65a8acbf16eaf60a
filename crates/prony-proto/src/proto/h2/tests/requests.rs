//! The header blocks of requests.

use super::*;
use prony_base::http2::hpack::Decoder;
use prony_plan::plan::{Cookies, Sessions};
use prony_plan::script::{Jar, Origin};

type Fields = Vec<(String, String)>;

/// Decodes the header blocks of these frames, as one peer.
#[derive(Default)]
struct Peer {
    decoder: Decoder,
    pending: Vec<u8>,
}

impl Peer {
    fn read(&mut self, frames: &[Frame]) -> Vec<Fields> {
        let mut all = Vec::new();
        for frame in frames {
            if !matches!(frame.head.kind, kind::HEADERS | kind::CONTINUATION) {
                continue;
            }
            self.pending.extend_from_slice(&frame.payload);
            if frame.head.has(frame::flag::END_HEADERS) {
                let mut fields = Fields::new();
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let block = std::mem::take(&mut self.pending);
                self.decoder
                    .decode(&block, 1 << 20, |name, value| fields.push((text(name), text(value))))
                    .expect("a valid block");
                all.push(fields);
            }
        }
        all
    }
}

fn with(headers: &[(&str, &str)]) -> CallSpec {
    let headers: Vec<_> = headers.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
    CallSpec { headers: headers.into(), ..get() }
}

fn shown(fields: &Fields) -> String {
    let all = fields.iter().map(|(name, value)| format!("{name}: {value}"));
    all.collect::<Vec<_>>().join("\n")
}

/// The blocks of one request of each call, in two rounds.
fn blocks(plan: &Plan) -> Vec<Fields> {
    let mut client = Client::new(plan);
    let mut peer = Peer::default();
    let mut all = Vec::new();
    for _ in 0..2 {
        for call in 0..plan.calls.len() as u32 {
            all.extend(peer.read(&frames(&client.send(call, 1))));
        }
    }
    all
}

#[test]
fn sends_pseudo_headers_first_and_the_rest_in_order() {
    let calls = vec![with(&[("X-One", "1"), ("ACCEPT", "text/html"), ("X-Two", "2")])];
    let agent = concat!("user-agent: prony/", env!("CARGO_PKG_VERSION"));
    for fields in blocks(&plan(calls)) {
        let (pseudo, rest) = fields.split_at(4);
        let mut pseudo: Vec<_> = pseudo.iter().map(|(n, v)| format!("{n} {v}")).collect();
        pseudo.sort();
        assert_eq!(pseudo, [":authority h:80", ":method GET", ":path /a", ":scheme http"]);
        let rest = shown(&rest.to_vec());
        assert_eq!(rest, format!("{agent}\nx-one: 1\naccept: text/html\nx-two: 2"));
    }
}

#[test]
fn leaves_out_headers_of_the_connection() {
    let calls = vec![with(&[
        ("Connection", "close"),
        ("Keep-Alive", "x"),
        ("Upgrade", "h2c"),
        ("Transfer-Encoding", "chunked"),
        ("TE", "gzip"),
        ("Host", "other"),
    ])];
    let fields = blocks(&plan(calls)).remove(0);
    let names: Vec<&str> = fields.iter().map(|(n, _)| &**n).collect();
    assert!(names.iter().all(|n| n.starts_with(':') || ["user-agent", "accept"].contains(n)));
    assert!(fields.contains(&(":authority".into(), "other".into())));
    let kept = blocks(&plan(vec![with(&[("te", "trailers")])])).remove(0);
    assert!(kept.contains(&("te".into(), "trailers".into())));
}

#[test]
fn states_the_length_of_bodies() {
    for (call, length) in [(post(0), "0"), (post(1234), "1234")] {
        let fields = blocks(&plan(vec![call])).remove(1);
        assert!(fields.contains(&("content-length".into(), length.into())), "{fields:?}");
    }
    assert!(!shown(&blocks(&plan(vec![get()])).remove(0)).contains("content-length"));
}

/// Calls that differ in some fields: each block still means its own call, on every connection,
/// whichever call goes first.
#[test]
fn every_block_means_its_call() {
    let agent = "a user agent of some length, which all calls share";
    let calls = vec![
        with(&[("user-agent", agent), ("x-a", "1"), ("x-b", "2")]),
        with(&[("x-b", "2"), ("user-agent", agent), ("x-c", "3"), ("x-a", "other")]),
        with(&[("user-agent", agent), ("x-b", "2"), ("x-b", "3")]),
    ];
    let sets = |all: Vec<Fields>| -> Vec<Fields> {
        let sorted = all.into_iter().map(|mut fields| {
            fields.sort();
            fields
        });
        sorted.collect()
    };
    let warm = sets(blocks(&plan(calls.clone())));
    assert_eq!(warm[..3], warm[3..]);
    let mut fixed = plan(calls.clone());
    fixed.http2 = Some(Box::new(Http2Spec { is_static: true, ..Http2Spec::default() }));
    assert_eq!(sets(blocks(&fixed)), warm);
    let mut turned = plan(calls);
    turned.calls = turned.calls.iter().rev().cloned().collect::<Vec<_>>().into();
    let mut expected = warm;
    expected.reverse();
    assert_eq!(sets(blocks(&turned)), expected);
}

#[test]
fn later_requests_are_short() {
    let agent = "x".repeat(500);
    let plan = plan(vec![with(&[("user-agent", &agent)])]);
    let mut client = Client::new(&plan);
    let size = |client: &mut Client| {
        let sent = frames(&client.send(0, 1));
        sent.iter().find(|f| f.head.kind == kind::HEADERS).unwrap().payload.len()
    };
    let (first, second, third) = (size(&mut client), size(&mut client), size(&mut client));
    assert!(first > 300 && second < 12 && third == second, "{first} {second} {third}");
}

/// A smaller table of the peer: the fields that were entered may be gone.
#[test]
fn follows_the_size_of_the_peers_table() {
    for size in [0, 30, 200, 4096, 10_000] {
        let plan = plan(vec![with(&[("x-a", "some value"), ("x-b", "another value")])]);
        let mut client = Client::new(&plan);
        let mut peer = Peer::default();
        let before = peer.read(&frames(&client.send(0, 2)));
        let settings = Server::default().settings(&[(Settings::TABLE_SIZE, size)]);
        client.receive(&settings.0, usize::MAX).unwrap();
        let after = frames(&client.send(0, 2));
        let first = &after.iter().find(|f| f.head.kind == kind::HEADERS).unwrap().payload;
        assert_eq!(first[0] & 0xe0 == 0x20, size < 4096, "an update of the size, {size}");
        let after = peer.read(&after);
        assert_eq!(after, before, "{size}");
    }
}

#[test]
fn splits_long_heads() {
    let value = "\u{1}".repeat(30_000);
    let plan = plan(vec![with(&[("x-long", &value)])]);
    let mut client = Client::new(&plan);
    let sent = frames(&client.send(0, 1));
    let kinds: Vec<u8> = sent.iter().map(|f| f.head.kind).collect();
    assert!(kinds.ends_with(&[kind::HEADERS, kind::CONTINUATION]), "{kinds:?}");
    assert!(sent.iter().all(|f| f.head.length <= prony_base::http2::FRAME_SIZE));
    assert!(Peer::default().read(&sent)[0].contains(&("x-long".into(), value)));
}

/// A session's own headers and cookies replace common fields, also in the first request
/// of a connection, which would enter them.
#[test]
fn fields_that_replace_common_ones_do_not_enter_the_table() {
    let agent = "a user agent of some length";
    let mut plan = plan(vec![with(&[("user-agent", agent), ("cookie", "a=1"), ("x-last", "z")])]);
    plan.sessions = Some(Sessions { directed: true, ..Sessions::plain(Vec::new()) });
    let mut own = Filled::default();
    own.set(b"/own", b"User-Agent: mine\r\n", b"");
    let mut jar = Jar::new(Cookies::Always);
    let origin = Origin { authority: "h:80", path: b"/", secure: false };
    jar.set(b"b=2", origin, None, Nanos::ZERO);
    let mut cookies = Filled::default();
    cookies.set(b"/cookies", b"", b"");
    cookies.take_cookies(&mut jar, origin, Nanos::ZERO);
    for first in [&own, &cookies] {
        let (mut client, mut peer) = (Client::new(&plan), Peer::default());
        for filled in [first, &own, &cookies, &cookies, &own] {
            for (filled, of) in [(Some(filled), filled), (None, &Filled::default())] {
                let fields = peer.read(&frames(&client.send_filled(0, filled))).remove(0);
                let value = |name: &str| {
                    let mut all = fields.iter().filter(|(n, _)| n == name).map(|(_, v)| &**v);
                    (all.next(), all.count())
                };
                let has_own = of.has("user-agent");
                let agent = if has_own { "mine" } else { agent };
                assert_eq!(value("user-agent"), (Some(agent), 0), "{fields:?}");
                let jar = if of.cookies().is_empty() { "a=1" } else { "a=1; b=2" };
                assert_eq!(value("cookie"), (Some(jar), 0), "{fields:?}");
                assert_eq!(value("x-last"), (Some("z"), 0), "{fields:?}");
            }
        }
    }
}
