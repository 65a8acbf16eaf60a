//! What goes wrong on one stream: its request fails, the others and the connection go on.

use prony_base::http2::FRAME_SIZE;
use prony_base::http2::frame::Settings;
use prony_plan::plan::Http2Spec;
use prony_stats::summary::{Bottleneck, RunInfo, Verdict};

use super::*;
use crate::plans::summed;

/// Every second request gets this answer, the others the usual one. All that get it fail with this
/// fault, or none does. With a code, the client resets their streams.
#[track_caller]
fn row(name: &str, fault: Option<Fault>, code: Option<Code>, answer: Script) -> Tally {
    row_of(&plan(), name, fault, code, answer)
}

#[track_caller]
fn row_of(
    plan: &Plan,
    name: &str,
    fault: Option<Fault>,
    code: Option<Code>,
    answer: Script,
) -> Tally {
    let mut last = None;
    for setup in links() {
        let what = format!("{name}, seed {}", setup.seed);
        let (t, seen) = run(plan, &setup, &what, |turn| {
            match turn.event {
                Event::Request(n) if n % 2 == 1 => answer(turn),
                _ => turn.usual(),
            };
        });
        let odd = REQUESTS / 2;
        match fault {
            Some(fault) => {
                assert_eq!((t.failed, t.fault(fault)), (odd, odd), "{what}: {:?}", t.faults);
            }
            None => assert_eq!((t.failed, t.replies), (0, REQUESTS), "{what}: {:?}", t.faults),
        }
        assert_eq!((t.connects, seen.connections, seen.requests), (1, 1, REQUESTS), "{what}");
        assert_eq!(goaways(&seen), [], "{what}");
        // The run ends with the last ones.
        let resets = |code: Code| seen.resets.get(&code.0).copied().unwrap_or(0);
        match code {
            Some(code) => {
                let few = odd.saturating_sub(u64::from(STREAMS))..=odd;
                assert!(few.contains(&resets(code)), "{what}: {:?}", seen.resets);
                assert_eq!(seen.resets.len(), 1, "{what}: {:?}", seen.resets);
            }
            None => assert!(seen.resets.is_empty(), "{what}: {:?}", seen.resets),
        }
        last = Some(t);
    }
    last.expect("a run")
}

#[test]
fn malformed_heads() {
    let bad: [(&str, Script); 14] = [
        ("no status", |t| t.headers(true, &[("a", "b")])),
        ("an empty block", |t| t.frame(kind::HEADERS, 5, t.stream, &[])),
        ("a status of 4 digits", |t| t.headers(true, &[(":status", "2000")])),
        ("the status 600", |t| t.headers(true, &[(":status", "600")])),
        ("the status twice", |t| t.headers(true, &[(":status", "200"), (":status", "200")])),
        ("a status after fields", |t| t.headers(true, &[("a", "b"), (":status", "200")])),
        ("a pseudo-header of requests", |t| t.headers(true, &[(":status", "200"), (":path", "/")])),
        ("upper case", |t| t.headers(true, &[(":status", "200"), ("A", "b")])),
        ("an empty name", |t| t.headers(true, &[(":status", "200"), ("", "b")])),
        ("a line break", |t| t.headers(true, &[(":status", "200"), ("a", "b\r\nc: d")])),
        ("connection", |t| t.headers(true, &[(":status", "200"), ("connection", "close")])),
        ("te", |t| t.headers(true, &[(":status", "200"), ("te", "gzip")])),
        ("two lengths", |t| {
            t.headers(true, &[(":status", "200"), ("content-length", "0"), ("content-length", "1")])
        }),
        ("a negative length", |t| t.headers(true, &[(":status", "200"), ("content-length", "-1")])),
    ];
    for (name, answer) in bad {
        row(name, Some(Fault::BadHeader), Some(Code::PROTOCOL_ERROR), answer);
    }
}

#[test]
fn heads_out_of_place() {
    let bad: [(&str, Script); 6] = [
        ("the status 101", |t| t.headers(false, &[(":status", "101")])),
        ("an interim reply at the end", |t| t.headers(true, &[(":status", "100")])),
        ("33 interim replies", |t| (0..33).fold(t, |t, _| t.headers(false, &[(":status", "103")]))),
        ("trailers without an end", |t| {
            t.headers(false, &[(":status", "200")]).headers(false, &[("a", "b")]).data(true, b"c")
        }),
        ("two heads", |t| t.headers(false, &[(":status", "200")]).ok()),
        ("a body without a head", |t| t.data(true, b"abc")),
    ];
    for (name, answer) in bad {
        row(name, Some(Fault::BadHeader), Some(Code::PROTOCOL_ERROR), answer);
    }
}

#[test]
fn bodies_of_another_length() {
    row("a short body", Some(Fault::ShortBody), None, |t| {
        t.headers(false, &[(":status", "200"), ("content-length", "7")]).data(true, b"abcdef")
    });
    row("no body", Some(Fault::ShortBody), None, |t| {
        t.headers(true, &[(":status", "200"), ("content-length", "7")])
    });
    row("a short body and trailers", Some(Fault::ShortBody), None, |t| {
        t.headers(false, &[(":status", "200"), ("content-length", "7")])
            .data(false, b"abcdef")
            .headers(true, &[("a", "b")])
    });
    let surplus = (Some(Fault::Surplus), Some(Code::PROTOCOL_ERROR));
    row("a long body", surplus.0, surplus.1, |t| {
        t.headers(false, &[(":status", "200"), ("content-length", "7")])
            .data(false, b"abcdef")
            .data(true, b"gh")
    });
    row("a body of 204", surplus.0, surplus.1, |t| {
        t.headers(false, &[(":status", "204")]).data(true, b"a")
    });
    row("a body of 304", surplus.0, surplus.1, |t| {
        t.headers(false, &[(":status", "304"), ("content-length", "1")]).data(true, b"a")
    });
    let mut heads = plan();
    heads.calls[0].method = "HEAD".into();
    for setup in links() {
        let (t, seen) = run(&heads, &setup, "HEAD", |turn| {
            match turn.event {
                Event::Request(n) if n % 2 == 1 => turn.ok(),
                Event::Request(_) => {
                    turn.headers(true, &[(":status", "200"), ("content-length", "3")])
                }
                _ => turn.usual(),
            };
        });
        assert_eq!(t.fault(Fault::Surplus), REQUESTS / 2, "{:?}", t.faults);
        assert_eq!((t.replies, seen.connections), (REQUESTS / 2, 1));
    }
}

/// A header list over 64 KiB, as it is or from a small block: the table stays right.
#[test]
fn heads_that_are_too_large() {
    let too_large = (Some(Fault::HeaderTooLarge), Some(Code::CANCEL));
    row("a long head", too_large.0, too_large.1, |t| {
        let value = "0".repeat(40_000);
        t.headers(true, &[(":status", "200"), ("a", &value), ("b", &value)])
    });
    row("a block that grows", too_large.0, too_large.1, |t| {
        // The first enters a field of 4,000 bytes into the table, which all repeat 9,999 times.
        let mut block = vec![0x88];
        if t.event == Event::Request(1) {
            block.extend_from_slice(&[0x40, 0x7f, 0xa1, 0x1e]);
            block.resize(block.len() + 4_000, b'x');
            block.push(0);
        }
        block.resize(block.len() + 9_999, 0xbe);
        assert!(block.len() < FRAME_SIZE as usize);
        t.frame(kind::HEADERS, 5, t.stream, &block)
    });
}

#[test]
fn streams_that_the_server_ends() {
    let t = row("refused", Some(Fault::Refused), None, |t| t.reset(Code::REFUSED_STREAM));
    let counts = t.http2.as_deref().expect("HTTP/2");
    assert_eq!((counts.refused, counts.resets["REFUSED_STREAM"]), (30, 30));
    let reset = Some(Fault::StreamReset);
    let t = row("cancelled", reset, None, |t| t.reset(Code::CANCEL));
    assert_eq!(t.http2.as_deref().expect("HTTP/2").resets["CANCEL"], 30);
    row("no error, but no reply", reset, None, |t| t.reset(Code::NO_ERROR));
    row("an unknown code", reset, None, |t| t.reset(Code(0xdead_beef)));
    let t = row("another version", reset, None, |t| t.reset(Code::HTTP_1_1_REQUIRED));
    assert_eq!(t.http2.as_deref().expect("HTTP/2").resets["HTTP_1_1_REQUIRED"], 30);
    row("within a body", reset, None, |t| {
        t.headers(false, &[(":status", "200")]).data(false, b"abc").reset(Code::INTERNAL_ERROR)
    });
    row("after the reply", None, None, |t| t.ok().reset(Code::NO_ERROR));
    // Refused streams are sent again only if asked; the report then has no failure.
    let mut plan = plan();
    plan.http2 = Some(Box::new(Http2Spec { retry_refused: true, ..Http2Spec::default() }));
    for setup in links() {
        let (t, seen) = run(&plan, &setup, "refused, again", |turn| {
            match turn.event {
                // About every second one, without a pattern: none is refused 17 times.
                Event::Request(n) if n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1 => {
                    turn.reset(Code::REFUSED_STREAM)
                }
                _ => turn.usual(),
            };
        });
        assert_eq!((t.replies, t.failed, t.retries), (REQUESTS, 0, seen.requests - REQUESTS));
        assert!(t.retries >= REQUESTS / 2, "{}", t.retries);
    }
}

/// A server that resets every stream: the client goes on, on one connection, and resets none
/// itself. The verdict is the target's failure.
#[test]
fn a_server_that_resets_every_stream_fails() {
    let bodies: [(&str, Script); 2] = [
        ("at once", |t| t),
        ("within a body", |t| t.headers(false, &[(":status", "200")]).data(false, b"abc")),
    ];
    let codes = [
        (Code::CANCEL, "CANCEL", Fault::StreamReset),
        (Code::INTERNAL_ERROR, "INTERNAL_ERROR", Fault::StreamReset),
        (Code::REFUSED_STREAM, "REFUSED_STREAM", Fault::Refused),
    ];
    let mut plan = plan();
    // More than what makes a client open another connection.
    plan.stop.requests = Some(3_000);
    for (name, before) in bodies {
        for (code, word, fault) in codes {
            let what = format!("{word}, {name}");
            let setup = links().next().expect("a link");
            let mut server = Server::new(FrameServer::new(|turn: &mut Turn<'_>| {
                match turn.event {
                    Event::Request(_) => before(turn).reset(code),
                    _ => turn.usual(),
                };
            }));
            let outcome = load(&plan, 1, &setup, &mut [&mut server]);
            assert_invariants(&outcome, &what);
            let seen = server.model().seen();
            assert_eq!((seen.connections, seen.requests), (1, 3_000), "{what}");
            assert!(seen.resets.is_empty() && goaways(seen).is_empty(), "{what}: {seen:?}");
            let summary = summed(&plan, RunInfo::default(), outcome);
            let t = &summary.main;
            assert_eq!((t.failed, t.fault(fault)), (3_000, 3_000), "{what}: {:?}", t.faults);
            assert_eq!(t.http2.as_deref().expect("HTTP/2").resets[word], 3_000, "{what}");
            let judgment = summary.verdict();
            assert_eq!(judgment.verdict, Verdict::TargetFailed, "{what}: {judgment:?}");
            assert_eq!(summary.bottleneck(&judgment), Some(Bottleneck::Failures), "{what}");
        }
    }
}

/// Bodies in frames of single bytes are bodies. One without an end fails its request when its time
/// is over, whatever arrives then.
#[test]
fn bodies_of_single_bytes() {
    row("bytes", None, None, |t| {
        t.headers(false, &[(":status", "200"), ("content-length", "2000")]);
        (0..1_999).fold(t, |t, _| t.data(false, b"x")).data(true, b"x")
    });
    let mut plan = plan();
    plan.timeout = ms(40);
    let setup = links().next().expect("a link");
    let (t, seen) = run(&plan, &setup, "a body without an end", |turn| {
        match turn.event {
            Event::Request(_) => turn.headers(false, &[(":status", "200")]).after(ms(1), 0),
            // It goes on after the client has reset the stream.
            Event::Timer(n) if n < 100 => turn.data(false, b"x").after(ms(1), n + 1),
            Event::Timer(_) => turn,
            _ => turn.usual(),
        };
    });
    let timeouts = t.fault(Fault::RequestTimeout);
    assert_eq!((t.failed, timeouts, seen.connections), (REQUESTS, REQUESTS, 1), "{:?}", t.faults);
    let resets = seen.resets.get(&Code::CANCEL.0).copied().unwrap_or(0);
    assert!((REQUESTS - 4..=REQUESTS).contains(&resets), "{:?}", seen.resets);
    // At the time of the timeout, not when the body ends.
    let longest = t.times.response.max();
    assert!((Some(ms(40))..Some(ms(41))).contains(&longest), "{longest:?}");
}

/// What is allowed, but rare.
#[test]
fn unusual_replies_count() {
    let t = row("interim replies", None, None, |t| {
        (0..32).fold(t, |t, _| t.headers(false, &[(":status", "103"), ("link", "</x>")])).ok()
    });
    assert_eq!(t.interim, 32 * 30);
    row("trailers", None, None, |t| {
        t.headers(false, &[(":status", "200")]).data(false, b"abc").headers(true, &[("a", "b")])
    });
    row("padding", None, None, |t| {
        let stream = t.stream;
        t.headers(false, &[(":status", "200"), ("content-length", "3")])
            .frame(kind::DATA, 8, stream, b"\x02abPP")
            .frame(kind::DATA, 9, stream, b"\x00c")
    });
    let t = row("unknown frames", None, None, |t| {
        let stream = t.stream;
        t.frame(0xfa, 0xff, 0, b"grease").frame(0xfb, 0, stream, b"").ok()
    });
    assert_eq!(t.http2.as_deref().expect("HTTP/2").unknown_frames, 60);
    row("a priority, also of the stream itself", None, None, |t| {
        let own = t.stream.to_be_bytes();
        let own = [own[0], own[1], own[2], own[3], 16];
        t.frame(kind::PRIORITY, 0, t.stream, &own).ok()
    });
    row("a head in pieces", None, None, |t| {
        let block = block(&[(":status", "200"), ("x-a", "yes"), ("content-length", "0")]);
        t.frame(kind::HEADERS, 1, t.stream, &block[..1]);
        block[1..].chunks(1).for_each(|piece| _ = t.frame(9, 0, t.stream, piece));
        t.frame(kind::CONTINUATION, 4, t.stream, &[])
    });
    row("a table that shrinks and grows", None, None, |t| {
        t.block(true, &[0x20, 0x3f, 0xe1, 0x1f, 0x88, 0x40, 1, b'a', 1, b'b'])
    });
    row("settings again", None, None, |t| t.settings(&[(Settings::TABLE_SIZE, 0), (99, 1)]).ok());
    row("no content", None, None, |t| t.headers(true, &[(":status", "204")]));
}

/// The whole reply before the whole request: it counts, and the rest is not sent.
#[test]
fn replies_before_the_end_of_the_request() {
    let plan = posts(200_000);
    for ends in [false, true] {
        for setup in links() {
            let (t, seen) = run(&plan, &setup, "an early reply", |turn| {
                match turn.event {
                    Event::Head => turn.ok(),
                    Event::Request(_) => turn,
                    _ => turn.usual(),
                };
                if turn.event == Event::Head && ends {
                    turn.reset(Code::NO_ERROR);
                }
            });
            assert_eq!((t.replies, t.failed, t.connects), (REQUESTS, 0, 1), "{:?}", t.faults);
            // No window was given, so no body is complete.
            assert_eq!(seen.requests, 0);
            let rest = seen.resets.get(&Code::CANCEL.0).copied().unwrap_or(0);
            assert!((REQUESTS - 4..=REQUESTS).contains(&rest), "{:?}", seen.resets);
        }
    }
}
