//! A corpus of replies as servers of language models send them, over HTTP/1.1 and HTTP/2, whole
//! events and pieces of them: which have ended well, what they say, and how the others fail.

mod broken;
mod good;

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_plan::schedule::Arrivals;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::server::{Event, FrameServer, Scripted, Server, Step, Turn};
use prony_sim::world::Setup;
use prony_tally::record::{StreamBodies, Tally, TokenTally};

use crate::http2::http2;
use crate::plans::{Seed, assert_invariants, open};
use crate::tokens::asks;

/// The paths of the dialects, as [`asks`] counts them.
const CHAT: usize = 0;
const TEXTS: usize = 1;
const MESSAGES: usize = 2;

/// The time between the parts of a reply.
const GAP: Span = Span::from_millis(10);

/// A reply.
struct Case {
    name: &'static str,
    path: usize,
    /// Its parts, mostly events.
    parts: Vec<String>,
    right: Right,
}

/// What is right for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Good(Good),
    Truncated,
    Error,
}

/// What a reply that has ended well says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Good {
    /// Parts with output, from the first of them to the last.
    chunks: u64,
    /// Tokens; `None`: it does not say, or what it says cannot be.
    output: Option<u64>,
    input: u64,
    /// From the first part with output to the last, in parts.
    span: u64,
    doubted: bool,
    by_total: bool,
    several: bool,
    incomplete: bool,
}

impl Case {
    fn new(name: &'static str, path: usize, parts: &[&str], right: Right) -> Self {
        let parts = parts.iter().map(|part| (*part).to_owned()).collect();
        Self { name, path, parts, right }
    }

    /// One whose parts are the data of events.
    fn events(name: &'static str, path: usize, data: &[&str], right: Right) -> Self {
        let parts = data.iter().map(|data| event(data)).collect();
        Self { name, path, parts, right }
    }

    /// The same bytes in pieces that end anywhere.
    fn pieces(&self) -> Vec<String> {
        let all: Vec<char> = self.parts.concat().chars().collect();
        all.chunks(5).map(|piece| piece.iter().collect()).collect()
    }
}

/// An event with this data, whose line breaks are left out.
fn event(data: &str) -> String {
    format!("data: {}\n\n", data.replace('\n', ""))
}

fn good(chunks: u64, output: impl Into<Option<u64>>) -> Right {
    let (output, span) = (output.into(), chunks.saturating_sub(1));
    Right::Good(Good { chunks, output, input: 0, span, ..Good::default() })
}

/// The same, with the tokens of the request.
fn counted(chunks: u64, output: u64, input: u64) -> Right {
    let Right::Good(good) = good(chunks, output) else { unreachable!() };
    Right::Good(Good { input, ..good })
}

/// Over HTTP/1.1: each part is a chunk, `gap` after the one before.
fn over_http1(path: usize, parts: &[String], gap: Span) -> Tally {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let mut script = vec![Step::Await(1), Step::Send(head.into())];
    for part in parts.iter().filter(|part| !part.is_empty()) {
        script.push(Step::Wait(gap));
        script.push(Step::Send(format!("{:x}\r\n{part}\r\n", part.len()).into_bytes()));
    }
    script.push(Step::Send(b"0\r\n\r\n".to_vec()));
    let plan = asks(open(1.0, Arrivals::Fixed, 1), path, 9, true, "");
    let mut server = Server::new(Scripted::one(script));
    let outcome =
        load(&plan, 1, &Setup::new(Link::with_latency(Span::ZERO), 1), &mut [&mut server]);
    assert_invariants(&outcome, "a reply over HTTP/1.1");
    outcome.main()
}

/// Over HTTP/2: each part is a DATA frame.
fn over_http2(path: usize, parts: &[String], gap: Span) -> Tally {
    let parts: Vec<String> = parts.iter().filter(|part| !part.is_empty()).cloned().collect();
    let script = move |turn: &mut Turn<'_>| match turn.event {
        Event::Request(_) => {
            let fields = [(":status", "200"), ("content-type", "text/event-stream")];
            turn.headers(parts.is_empty(), &fields);
            if !parts.is_empty() {
                turn.after(gap, 0);
            }
        }
        Event::Timer(k) => {
            let (k, is_last) = (k as usize, k as usize + 1 == parts.len());
            turn.data(is_last, parts[k].as_bytes());
            if !is_last {
                turn.after(gap, k as u32 + 1);
            }
        }
        _ => {
            turn.usual();
        }
    };
    let plan = http2(asks(open(1.0, Arrivals::Fixed, 1), path, 9, true, ""), 1, 1_000);
    let mut server = Server::new(FrameServer::new(script));
    let outcome =
        load(&plan, 1, &Setup::new(Link::with_latency(Span::ZERO), 1), &mut [&mut server]);
    assert_invariants(&outcome, "a reply over HTTP/2");
    outcome.main()
}

/// Every case over both versions, in whole events and in pieces, and what is left of a good one
/// that is cut anywhere.
#[track_caller]
fn check(cases: &[Case]) {
    for case in cases {
        check_cuts(case);
        check_damaged(case);
        for (what, parts, gap) in
            [("parts", case.parts.clone(), GAP), ("pieces", case.pieces(), Span::ZERO)]
        {
            for (version, run) in [
                ("HTTP/1.1", over_http1 as fn(usize, &[String], Span) -> Tally),
                ("HTTP/2", over_http2),
            ] {
                let t = run(case.path, &parts, gap);
                let seen = seen(&t, gap);
                let right = match case.right {
                    Right::Good(good) if gap == Span::ZERO => Right::Good(Good { span: 0, ..good }),
                    right => right,
                };
                assert_eq!(seen, right, "{}, {what} over {version}: {:?}", case.name, t.faults);
            }
        }
    }
}

/// The texts with which a reason to end of a reply begins.
const REASONS: [&str; 2] = [r#""finish_reason":""#, r#""stop_reason":""#];

/// Whether one of these parts marks the end of a reply of one choice: by a search for texts, and
/// not by a parser.
fn has_mark(parts: &[String]) -> bool {
    let lines = parts.iter().map(|part| part.replace("\r\n", "\n").replace('\r', "\n"));
    lines.filter(|part| part.ends_with("\n\n")).any(|part| {
        let part = part.replace('\n', "");
        let says = |rest: &str| !rest.starts_with('"') && !rest.starts_with("null\"");
        let mut reasons = REASONS.iter().flat_map(|reason| part.split(reason).skip(1));
        let has_reason = reasons.any(says);
        let has_usage = part.contains(r#""choices":[],"usage":{"#);
        let is_last = has_usage && !part.contains(r#""completion_tokens":0"#);
        has_reason || is_last || part.contains("[DONE]") || part.contains("message_stop")
    })
}

/// A reply that has ended well, cut after each of its parts and within each, with `SLOW=1` at every
/// character: it is truncated unless a whole part before the cut marks the end, over both versions.
#[track_caller]
fn check_cuts(case: &Case) {
    let Right::Good(Good { several, .. }) = case.right else { return };
    let mut had_ended = false;
    for kept in 0..case.parts.len() {
        let whole = &case.parts[..kept];
        let next = &case.parts[kept];
        let length = next.chars().count();
        let step = if is_slow() { 1 } else { (length / 2).max(1) };
        for cut in (0..length).step_by(step) {
            let part: String = next.chars().take(cut).collect();
            let parts = [whole, &[part]].concat();
            for run in [over_http1 as fn(usize, &[String], Span) -> Tally, over_http2] {
                let t = run(case.path, &parts, Span::ZERO);
                let has_ended = t.replies == 1;
                assert_eq!(t.fault(Fault::TruncatedStream), u64::from(!has_ended), "{parts:?}");
                assert!(has_ended || !had_ended, "{}: {parts:?}", case.name);
                assert!(several || has_ended == has_mark(&parts), "{}: {parts:?}", case.name);
                had_ended |= has_ended;
            }
        }
    }
}

/// How many damaged replies there are of each case; with `SLOW=1` as well, where cuts are at every
/// character.
fn damaged() -> u64 {
    if is_slow() { 400 } else { 4 }
}

fn is_slow() -> bool {
    std::env::var_os("SLOW").is_some()
}

/// A reply in which some characters are others, not those between events: both versions find the
/// same, and without the parts that mark its end it has not ended well.
#[track_caller]
fn check_damaged(case: &Case) {
    const OTHERS: [char; 8] = ['x', '"', '{', '}', '[', ']', ':', '0'];
    for seed in 0..damaged() {
        let _seed = Seed(seed);
        let rng = &mut Rng::new(seed, 0xDA);
        let mut parts = case.parts.clone();
        for _ in 0..rng.between(1, 4) {
            let Some(part) = parts.len().checked_sub(1).map(|last| rng.below(last as u64 + 1))
            else {
                return;
            };
            let part = &mut parts[part as usize];
            let mut all: Vec<char> = part.chars().collect();
            let at = rng.below(all.len().max(1) as u64) as usize;
            if all.get(at).is_some_and(|c| !c.is_whitespace()) {
                all[at] = OTHERS[rng.below(OTHERS.len() as u64) as usize];
            }
            *part = all.into_iter().collect();
        }
        let both = [over_http1 as fn(usize, &[String], Span) -> Tally, over_http2].map(|run| {
            let t = run(case.path, &parts, Span::ZERO);
            assert_eq!((t.started, t.replies + t.failed), (1, 1), "{parts:?}");
            (t.replies, t.faults, t.tokens.as_deref().map(|tokens| tokens.chunks))
        });
        assert_eq!(both[0], both[1], "{}: {parts:?}", case.name);
        // Without the parts that could mark its end, no damage makes it one that has ended well.
        let marks = ["usage", "_reason", "[DONE]", "message_stop"];
        let rest: Vec<String> = parts
            .into_iter()
            .filter(|part| !marks.iter().any(|mark| part.contains(mark)))
            .collect();
        let t = over_http1(case.path, &rest, Span::ZERO);
        assert_eq!((t.replies, t.failed), (0, 1), "{}: {rest:?}", case.name);
    }
}

fn seen(t: &Tally, gap: Span) -> Right {
    assert_eq!(t.started, 1);
    let bodies = t.stream_messages.as_deref().and_then(|m| m.bodies.as_deref()).copied();
    let bodies = bodies.unwrap_or_default();
    if t.failed > 0 {
        assert_eq!((bodies.failed, bodies.ended_by_server), (bodies.begun, 0), "{bodies:?}");
        let replies = t.tokens.as_deref().map_or(0, |tokens| tokens.replies + tokens.good);
        assert_eq!((t.replies, replies), (0, 0));
        let of = |fault| t.fault(fault);
        return match (of(Fault::TruncatedStream), of(Fault::ErrorMessage)) {
            (1, 0) => Right::Truncated,
            (0, 1) => Right::Error,
            _ => panic!("{:?}", t.faults),
        };
    }
    Right::Good(seen_good(t.tokens.as_deref().expect("tokens"), bodies, gap))
}

fn seen_good(tokens: &TokenTally, bodies: StreamBodies, gap: Span) -> Good {
    assert_eq!((tokens.replies, bodies.begun, bodies.ended_by_server), (1, 1, 1));
    assert_eq!(tokens.ttft.count(), tokens.chunks.min(1));
    assert_eq!(tokens.empty, u64::from(tokens.chunks == 0));
    assert_eq!(tokens.chunk_gap.count(), tokens.chunks.saturating_sub(1));
    let output = (tokens.counted > 0).then_some(tokens.output_tokens);
    // The chunk gaps are the time from the first part with output to the last.
    let all = tokens.chunk_gap.mean_ns().unwrap_or(0.0) * tokens.chunk_gap.count() as f64;
    let span = if gap == Span::ZERO { 0.0 } else { all / gap.0 as f64 };
    let has_itl = output.is_some_and(|n| n > 1) && tokens.chunks > 0 && tokens.several == 0;
    assert_eq!(tokens.itl.count(), u64::from(has_itl));
    if let (true, Some(itl), Some(n)) = (has_itl, tokens.itl.max(), output) {
        assert_eq!(itl, Span(all.round() as u64) / (n - 1));
    }
    Good {
        chunks: tokens.chunks,
        output,
        input: tokens.input_tokens,
        span: span.round() as u64,
        doubted: tokens.doubted > 0,
        by_total: tokens.by_total > 0,
        several: tokens.several > 0,
        incomplete: bodies.incomplete > 0,
    }
}

/// A reply in one piece, of a server whose body has a length.
fn whole(path: usize, body: &str) -> Tally {
    let plan = asks(open(1.0, Arrivals::Fixed, 1), path, 9, false, "");
    let text = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut server =
        Server::new(Scripted::one(vec![Step::Await(1), Step::Send(text.into_bytes())]));
    let outcome =
        load(&plan, 1, &Setup::new(Link::with_latency(Span::ZERO), 1), &mut [&mut server]);
    assert_invariants(&outcome, "a reply in one piece");
    outcome.main()
}

#[test]
fn replies_in_one_piece_are_complete_or_fail() {
    let chat = r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]"#;
    let usage = r#""usage":{"prompt_tokens":3,"completion_tokens":2}"#;
    for (path, body, fault) in [
        (CHAT, format!("{chat},{usage}}}"), None),
        (CHAT, format!("{chat}}}"), None),
        (CHAT, format!(r#"{{"choices":[{{"message":{{"content":""}}}}],{usage}}}"#), None),
        (CHAT, r#"{"choices":[{"message":{"content":"Hi"}}]}"#.into(), None),
        (TEXTS, r#"{"choices":[{"text":"Hi","finish_reason":"length"}]}"#.into(), None),
        (MESSAGES, r#"{"content":[{"text":"Hi"}],"stop_reason":"end_turn"}"#.into(), None),
        (CHAT, String::new(), Some(Fault::TruncatedStream)),
        (CHAT, "{}".into(), Some(Fault::TruncatedStream)),
        (CHAT, "<html>Please log in</html>".into(), Some(Fault::TruncatedStream)),
        (CHAT, r#"{"choices":[{"message":{"content":"Hi"#.into(), Some(Fault::TruncatedStream)),
        (CHAT, r#"{"choices":[]}"#.into(), Some(Fault::TruncatedStream)),
        (MESSAGES, r#"{"content":[],"usage":{"input_"#.into(), Some(Fault::TruncatedStream)),
        (
            CHAT,
            r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"error"}]}"#.into(),
            Some(Fault::ErrorMessage),
        ),
        (CHAT, format!(r#"{chat},"error":false}}"#), None),
    ] {
        let t = whole(path, &body);
        assert_eq!(t.failed, u64::from(fault.is_some()), "{body}: {:?}", t.faults);
        assert!(fault.is_none_or(|fault| t.fault(fault) == 1), "{body}: {:?}", t.faults);
    }
}
