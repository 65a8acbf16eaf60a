//! The cases that a conformance suite for WebSocket must have (framing, pings, reserved bits,
//! opcodes, fragments, UTF-8, closes), each for both sides of a connection and in any split.

use expect_test::expect;
use proptest::prelude::*;

use super::*;

/// What was found, with the pieces of each message joined.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(u16, String),
}

/// What is found in a stream, and the violation that ends it.
type Outcome = (Vec<Found>, Option<Violation>);

/// Frames of a stream, as they are sent by the peer of an endpoint.
struct Stream {
    role: Role,
    bytes: Vec<u8>,
    masks: u32,
}

impl Stream {
    fn to(role: Role) -> Self {
        Self { role, bytes: Vec::new(), masks: 0x1234_5678 }
    }

    fn frame(mut self, opcode: Opcode, is_final: bool, payload: &[u8]) -> Self {
        self.masks = self.masks.wrapping_mul(0x9E37_79B9).wrapping_add(1);
        let mask = (self.role == Role::Server).then_some(self.masks);
        Frame { opcode, is_final, mask }.write(payload, &mut self.bytes);
        self
    }

    fn whole(self, opcode: Opcode, payload: &[u8]) -> Self {
        self.frame(opcode, true, payload)
    }

    /// The first byte of a frame as given, and an empty payload.
    fn raw_start(mut self, first: u8) -> Self {
        let at = self.bytes.len();
        self = self.whole(Opcode::Text, b"");
        self.bytes[at] = first;
        self
    }
}

/// Read a stream in pieces that end at `cuts`, keeping what the reader leaves.
fn read(role: Role, most: u64, bytes: &[u8], cuts: &[usize]) -> Outcome {
    let (mut reader, mut kept, mut found) = (Reader::new(role, most), Vec::new(), Vec::new());
    let (mut open, mut from) = (None, 0);
    for &to in cuts.iter().chain([&bytes.len()]) {
        kept.extend_from_slice(&bytes[from..to]);
        from = to;
        let used = reader.read(&kept, |event| match event {
            Event::Start(kind) => assert!(open.replace((kind, Vec::new())).is_none()),
            Event::Piece(piece) => {
                assert!(!piece.is_empty());
                open.as_mut().expect("inside a message").1.extend_from_slice(piece);
            }
            Event::End(length) => {
                let (kind, bytes) = open.take().expect("a message ends once");
                assert_eq!(bytes.len() as u64, length);
                found.push(match kind {
                    Kind::Text => Found::Text(String::from_utf8(bytes).expect("checked")),
                    Kind::Binary => Found::Binary(bytes),
                });
            }
            Event::Ping(bytes) => found.push(Found::Ping(bytes.to_vec())),
            Event::Pong(bytes) => found.push(Found::Pong(bytes.to_vec())),
            Event::Close(close) => found.push(Found::Close(close.code.0, close.reason.into())),
        });
        match used {
            Ok(used) => drop(kept.drain(..used)),
            Err(violation) => return (found, Some(violation)),
        }
        assert!(kept.len() <= 131, "{}", kept.len());
    }
    (found, None)
}

/// Check a stream for both sides, at once and byte by byte.
fn check(case: &str, make: impl Fn(Stream) -> Stream, expected: &Outcome) {
    for role in [Role::Client, Role::Server] {
        let bytes = make(Stream::to(role)).bytes;
        assert_eq!(read(role, MESSAGE_MAX, &bytes, &[]), *expected, "{case} {role:?}");
        let step = bytes.len() / 300 + 1;
        let cuts: Vec<usize> = (1..bytes.len()).step_by(step).collect();
        assert_eq!(read(role, MESSAGE_MAX, &bytes, &cuts), *expected, "{case} {role:?} in pieces");
    }
}

fn text(text: &str) -> Found {
    Found::Text(text.into())
}

#[test]
fn frames_of_every_length() {
    for length in [0, 1, 125, 126, 127, 128, 65_535, 65_536, 100_000] {
        let payload = "*".repeat(length);
        check(
            &format!("text of {length}"),
            |stream| stream.whole(Opcode::Text, payload.as_bytes()),
            &(vec![text(&payload)], None),
        );
        let bytes: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
        check(
            &format!("binary of {length}"),
            |stream| stream.whole(Opcode::Binary, &bytes),
            &(vec![Found::Binary(bytes.clone())], None),
        );
    }
}

#[test]
fn pings_and_pongs_of_every_length() {
    for length in [0, 5, 124, 125] {
        let payload = vec![0xFE; length];
        let both =
            |stream: Stream| stream.whole(Opcode::Ping, &payload).whole(Opcode::Pong, &payload);
        let found = vec![Found::Ping(payload.clone()), Found::Pong(payload.clone())];
        check(&format!("ping of {length}"), both, &(found, None));
    }
    // Frame could write a longer one, but no peer may.
    check(
        "a ping of 126",
        |stream| stream.whole(Opcode::Ping, &[0; 126]),
        &(vec![], Some(Violation::LongControl)),
    );
}

#[test]
fn reserved_bits_and_opcodes_are_refused() {
    for bits in 1..=7 {
        for opcode in [0x1, 0x2, 0x8, 0x9, 0xA] {
            check(
                &format!("reserved bits {bits}, opcode {opcode}"),
                |stream| stream.whole(Opcode::Text, b"before").raw_start(0x80 | bits << 4 | opcode),
                &(vec![text("before")], Some(Violation::ReservedBit)),
            );
        }
    }
    for opcode in (0x3..=0x7).chain(0xB..=0xF) {
        check(
            &format!("opcode {opcode}"),
            |stream| stream.whole(Opcode::Text, b"before").raw_start(0x80 | opcode),
            &(vec![text("before")], Some(Violation::Opcode)),
        );
    }
}

#[test]
fn fragments_are_joined_with_control_frames_between_them() {
    use Opcode::{Binary, Continuation, Ping, Pong, Text};
    check(
        "two fragments",
        |stream| stream.frame(Text, false, b"one").frame(Continuation, true, b"two"),
        &(vec![text("onetwo")], None),
    );
    check(
        "empty fragments",
        |stream| {
            let stream = stream.frame(Text, false, b"").frame(Continuation, false, b"");
            stream.frame(Continuation, true, b"")
        },
        &(vec![text("")], None),
    );
    check(
        "a ping between fragments",
        |stream| {
            let stream = stream.frame(Binary, false, b"one").whole(Ping, b"p");
            let stream = stream.frame(Continuation, false, b"two").whole(Pong, b"q");
            stream.frame(Continuation, true, b"three").whole(Text, b"next")
        },
        &(
            vec![
                Found::Ping(b"p".to_vec()),
                Found::Pong(b"q".to_vec()),
                Found::Binary(b"onetwothree".to_vec()),
                text("next"),
            ],
            None,
        ),
    );
}

#[test]
fn fragments_out_of_place_are_refused() {
    use Opcode::{Close, Continuation, Ping, Pong, Text};
    for opcode in [Ping, Pong, Close] {
        check(
            "a control frame in parts",
            |stream| stream.frame(opcode, false, b"").frame(Continuation, true, b""),
            &(vec![], Some(Violation::FragmentedControl)),
        );
    }
    for is_final in [true, false] {
        check(
            "nothing to continue",
            |stream| stream.whole(Text, b"a").frame(Continuation, is_final, b"b"),
            &(vec![text("a")], Some(Violation::NothingToContinue)),
        );
        check(
            "a message inside of a message",
            |stream| stream.frame(Text, false, b"a").frame(Text, is_final, b"b"),
            &(vec![], Some(Violation::InsideMessage)),
        );
    }
}

#[test]
fn texts_are_utf8_across_fragments() {
    use Opcode::{Continuation, Text};
    let valid = [
        "Hello-µ@ßöäüàá-UTF-8!!",
        "κόσμε",
        "\u{0}\u{7f}\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}",
        "\u{d7ff}\u{e000}\u{fffd}\u{fffe}\u{1fffe}\u{feff}",
    ];
    for message in valid {
        let bytes = message.as_bytes();
        for at in 0..=bytes.len() {
            check(
                message,
                |stream| {
                    let stream = stream.frame(Text, false, &bytes[..at]);
                    stream.frame(Continuation, true, &bytes[at..])
                },
                &(vec![text(message)], None),
            );
        }
    }
}

/// Sequences that are not UTF-8: bytes that cannot start a character, characters in more bytes than
/// they need, surrogates, numbers over U+10FFFF, characters without their end.
const NOT_UTF8: [&[u8]; 24] = [
    b"\x80",
    b"\xBF",
    b"\x80\xBF\x80",
    b"\xC0 ",
    b"\xE0 ",
    b"\xF8\x88\x80\x80\x80",
    b"\xFC\x84\x80\x80\x80\x80",
    b"\xFE",
    b"\xFF",
    b"\xC0\xAF",
    b"\xE0\x80\xAF",
    b"\xF0\x80\x80\xAF",
    b"\xC1\xBF",
    b"\xE0\x9F\xBF",
    b"\xF0\x8F\xBF\xBF",
    b"\xED\xA0\x80",
    b"\xED\xBF\xBF",
    b"\xED\xA0\x80\xED\xB0\x80",
    b"\xF4\x90\x80\x80",
    b"\xF7\xBF\xBF\xBF",
    b"\xCE",
    b"\xE1\x80",
    b"\xF1\x80\x80",
    b"\xCE\xBA\xE1\xBD\xB9\xED\xA0\x80\x65",
];

#[test]
fn texts_that_are_not_utf8_are_refused() {
    use Opcode::{Binary, Continuation, Text};
    for bytes in NOT_UTF8 {
        check(
            &format!("{bytes:x?}"),
            |stream| stream.whole(Text, b"before").whole(Text, bytes),
            &(vec![text("before")], Some(Violation::Utf8)),
        );
        check(
            &format!("{bytes:x?} in fragments"),
            |stream| {
                let stream = stream.frame(Text, false, &bytes[..1]);
                stream.frame(Continuation, true, &bytes[1..])
            },
            &(vec![], Some(Violation::Utf8)),
        );
        check(
            &format!("{bytes:x?} as binary"),
            |stream| stream.whole(Binary, bytes),
            &(vec![Found::Binary(bytes.to_vec())], None),
        );
    }
}

#[test]
fn text_that_is_not_utf8_is_refused_before_its_frame_ends() {
    let bytes = Stream::to(Role::Client).whole(Opcode::Text, b"\xCE\xBA\xF4\x90\x80\x80rest").bytes;
    let outcome = read(Role::Client, MESSAGE_MAX, &bytes[..6], &[]);
    assert_eq!(outcome, (vec![], Some(Violation::Utf8)), "the fourth byte cannot follow");
}

/// Messages of 64 KiB to 16 MiB: whole and in fragments, of which few or many bytes arrive at once.
#[test]
fn long_messages_arrive_in_any_fragments_and_pieces() {
    use Opcode::{Binary, Continuation, Text};
    for length in [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20] {
        let content: String = (0..length).map(|k| char::from(b'a' + (k % 23) as u8)).collect();
        for (opcode, fragment, piece) in [
            (Text, length, 64),
            (Binary, length, 1_024),
            (Text, 64, 65_536),
            (Binary, 1_024, 999),
            (Text, 256 << 10, 7_777),
            (Binary, 1 << 20, 1 << 20),
        ] {
            let message = match opcode {
                Text => Found::Text(content.clone()),
                _ => Found::Binary(content.clone().into_bytes()),
            };
            for role in [Role::Client, Role::Server] {
                let parts = content.as_bytes().chunks(fragment).enumerate();
                let bytes = parts.fold(Stream::to(role), |stream, (k, part)| {
                    let kind = if k == 0 { opcode } else { Continuation };
                    stream.frame(kind, (k + 1) * fragment >= length, part)
                });
                let bytes = bytes.bytes;
                let cuts: Vec<usize> = (piece..bytes.len()).step_by(piece).collect();
                let (found, violation) = read(role, MESSAGE_MAX, &bytes, &cuts);
                assert_eq!(violation, None, "{length} {fragment} {piece} {role:?}");
                let is_right = found == [message.clone()];
                assert!(is_right, "{length} bytes, {fragment}, {piece}, {role:?}");
            }
        }
    }
}

#[test]
fn nothing_follows_a_close() {
    use Opcode::{Close, Ping, Text};
    let closed = Found::Close(1000, String::new());
    for opcode in [Text, Ping, Close] {
        check(
            "a frame after the close",
            |stream| stream.whole(Close, b"\x03\xE8").whole(opcode, b"late").raw_start(0xFF),
            &(vec![closed.clone()], None),
        );
    }
    check(
        "a close inside of a message",
        |stream| stream.frame(Text, false, b"one").whole(Close, b"\x03\xE8"),
        &(vec![closed], None),
    );
}

#[test]
fn closes_have_a_code_and_a_reason() {
    let close = |payload: &[u8]| {
        let payload = payload.to_vec();
        move |stream: Stream| stream.whole(Opcode::Close, &payload)
    };
    let closed = |code, reason: &str| (vec![Found::Close(code, reason.into())], None);
    check("empty", close(b""), &closed(1005, ""));
    check("one byte", close(b"\x03"), &(vec![], Some(Violation::CloseFrame)));
    check("a reason", close(b"\x03\xE8Hello w\xC3\xB6rld"), &closed(1000, "Hello wörld"));
    let longest = [&b"\x03\xE8"[..], &[b'*'; 123]].concat();
    check("the longest reason", close(&longest), &closed(1000, &"*".repeat(123)));
    check("too long", close(&[b'*'; 126]), &(vec![], Some(Violation::LongControl)));
    check("not UTF-8", close(b"\x03\xE8\xCE\xBA\xED\xA0\x80"), &(vec![], Some(Violation::Utf8)));
    let good = [
        1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000,
        4999,
    ];
    for code in 0..=u16::MAX {
        let is_good = good.contains(&code) || (3000..=4999).contains(&code);
        assert_eq!(CloseCode(code).may_be_sent(), is_good, "{code}");
    }
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535_u16] {
        let refused = (vec![], Some(Violation::CloseFrame));
        check(&format!("code {code}"), close(&code.to_be_bytes()), &refused);
    }
    for code in good {
        check(&format!("code {code}"), close(&code.to_be_bytes()), &closed(code, ""));
    }
}

#[test]
fn answers_to_closes_have_the_same_code() {
    for (payload, answer) in [(&b""[..], &b"\x88\0"[..]), (b"\x0F\xA0because", b"\x88\x02\x0F\xA0")]
    {
        let mut out = Vec::new();
        Close::parse(payload).expect("valid").write_answer(None, &mut out);
        assert_eq!(out, answer);
    }
    let mut out = Vec::new();
    CloseCode::TOO_BIG.write(Some(0), &mut out);
    assert_eq!(out, b"\x88\x82\0\0\0\0\x03\xF1");
}

#[test]
fn messages_over_the_limit_are_refused_before_their_bytes_arrive() {
    use Opcode::{Binary, Continuation};
    let at = |stream: Stream, most| read(Role::Client, most, &stream.bytes, &[]);
    let stream = || Stream::to(Role::Client).frame(Binary, false, b"12345");
    assert_eq!(
        at(stream().frame(Continuation, true, b"67890"), 10),
        (vec![Found::Binary(b"1234567890".to_vec())], None)
    );
    for most in [4, 9] {
        let outcome = at(stream().frame(Continuation, true, b"67890"), most);
        assert_eq!(outcome, (vec![], Some(Violation::TooLong)));
    }
    // 2^63 - 1 bytes are announced.
    let huge = b"\x82\x7F\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF";
    assert_eq!(read(Role::Client, u64::MAX, huge, &[]), (vec![], None));
    assert_eq!(read(Role::Client, 1 << 40, huge, &[]), (vec![], Some(Violation::TooLong)));
}

#[test]
fn lengths_use_as_few_bytes_as_possible_and_63_bits() {
    for bytes in
        [&b"\x82\x7E\x00\x7D"[..], b"\x82\x7F\0\0\0\0\0\0\xFF\xFF", b"\x82\x7F\x80\0\0\0\0\0\0\0"]
    {
        let refused = (vec![], Some(Violation::Length));
        assert_eq!(read(Role::Client, u64::MAX, bytes, &[]), refused, "{bytes:x?}");
    }
}

#[test]
fn only_frames_of_clients_are_masked() {
    for (from, to) in [(Role::Client, Role::Server), (Role::Server, Role::Client)] {
        let bytes = Stream::to(from).whole(Opcode::Text, b"a").bytes;
        assert_eq!(read(to, MESSAGE_MAX, &bytes, &[]), (vec![], Some(Violation::Mask)));
    }
}

#[test]
fn violations_have_close_codes() {
    let codes = [Violation::Mask, Violation::Utf8, Violation::TooLong].map(|v| v.close_code().0);
    assert_eq!(codes, [1002, 1007, 1009]);
}

/// The examples of RFC 6455: section 5.7 for frames, 1.3 for the handshake.
#[test]
fn bytes_are_those_of_the_standard() {
    let mut out = Vec::new();
    Frame { opcode: Opcode::Text, is_final: true, mask: None }.write(b"Hello", &mut out);
    Frame { opcode: Opcode::Text, is_final: true, mask: Some(0x37FA_213D) }
        .write(b"Hello", &mut out);
    assert_eq!(out, b"\x81\x05Hello\x81\x85\x37\xFA\x21\x3D\x7F\x9F\x4D\x51\x58");
    let accept = accept_of(b"dGhlIHNhbXBsZSBub25jZQ==");
    assert_eq!(&accept, b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    let key = key_of([0x0102_0304_0506_0708, 0x090A_0B0C_0D0E_0F10]);
    expect!["AQIDBAUGBwgJCgsMDQ4PEA=="].assert_eq(str::from_utf8(&key).expect("base64"));
}

/// A stream of frames, valid and not.
fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        "\\PC{0,40}".prop_map(String::into_bytes),
        Just(b"\x03\xE8".to_vec()),
        Just(vec![b'x'; 70_000]),
    ];
    let opcode = prop::sample::select(vec![
        Opcode::Continuation,
        Opcode::Text,
        Opcode::Binary,
        Opcode::Ping,
        Opcode::Pong,
        Opcode::Close,
    ]);
    let frame = (opcode, prop::bool::weighted(0.7), payload);
    prop::collection::vec(frame, 0..8).prop_map(|frames| {
        let stream = Stream::to(Role::Server);
        frames.iter().fold(stream, |s, (opcode, end, bytes)| s.frame(*opcode, *end, bytes)).bytes
    })
}

proptest! {
    #[test]
    fn any_split_has_the_same_messages(
        bytes in any_stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = read(Role::Server, MESSAGE_MAX, &bytes, &[]);
        prop_assert_eq!(read(Role::Server, MESSAGE_MAX, &bytes, &cuts), whole);
    }

    #[test]
    fn a_mask_is_removed_in_any_split(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        bits: u32,
        at in any::<prop::sample::Index>(),
    ) {
        let mut masked = bytes.clone();
        mask(&mut masked, bits, 0);
        let slow: Vec<u8> =
            bytes.iter().zip(bits.to_be_bytes().iter().cycle()).map(|(a, b)| a ^ b).collect();
        prop_assert_eq!(&masked, &slow);
        let at = at.index(bytes.len() + 1);
        let (left, right) = masked.split_at_mut(at);
        mask(left, bits, 0);
        mask(right, bits, at as u64);
        prop_assert_eq!(masked, bytes);
    }
}
