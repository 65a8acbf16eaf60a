//! Replies of language models, from prony's target server and scripted ones: times by arithmetic
//! and by a known distribution, tokens, limits, faults, and counters whatever the network does.

use std::sync::Arc;

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_plan::plan::{
    CallSpec, Plan, StreamFormat, StreamPlan, Think, TokenDialect, TokenLimit, TokenPlan,
};
use prony_plan::schedule::Arrivals;
use prony_plan::tokenizer::CountTokens;
use prony_server::serve::{Serve, Served, ServerBehavior, Share};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::server::{Scripted, Server, Step};
use prony_sim::world::Setup;
use prony_tally::record::{Finished, StreamBodies, Tally, TokenTally};

use crate::faults::random_setup;
use crate::http2::http2;
use crate::known::{assert_close, assert_distribution, assert_exponential, erlang, inverse};
use crate::plans::{Seed, assert_invariants, closed, ms, open, seeds};

const PATHS: [(&str, TokenDialect); 3] = [
    ("/v1/chat/completions", TokenDialect::OpenAi),
    ("/v1/completions", TokenDialect::OpenAi),
    ("/v1/messages", TokenDialect::Anthropic),
];

/// Requests with five words to that path. The reply may have `limit` tokens.
pub(crate) fn asks(plan: Plan, path: usize, limit: u64, streams: bool, slo: &str) -> Plan {
    let (path, dialect) = PATHS[path];
    let body = format!(
        "{{\"messages\":[{{\"role\":\"user\",\"content\":\"a b c\"}}],\"prompt\":\"d e\",\
         \"max_tokens\":{limit},\"stream\":{streams},\
         \"stream_options\":{{\"include_usage\":true}}}}"
    );
    let call = |spec: &CallSpec| CallSpec {
        method: "POST".into(),
        path: path.into(),
        body: body.clone().into_bytes(),
        ..spec.clone()
    };
    let format = if streams { StreamFormat::Sse } else { StreamFormat::Whole };
    let slo = if slo.is_empty() { Vec::new() } else { TokenPlan::parse_slo(slo).expect(slo) };
    let tokens = Some(TokenPlan { slo, ..TokenPlan::new(dialect) });
    let plan = Plan {
        calls: plan.calls.iter().map(call).collect::<Vec<_>>().into(),
        stream: Some(Box::new(StreamPlan { tokens, ..StreamPlan::new(format) })),
        timeout: Span::from_secs(600),
        ..plan
    };
    plan.check().expect("a valid plan");
    plan
}

fn versions(plan: &Plan) -> [Plan; 2] {
    [plan.clone(), http2(plan.clone(), 1, 1_000)]
}

fn model(text: &str) -> ServerBehavior {
    ServerBehavior { sse: Some(text.parse().expect(text)), ..ServerBehavior::default() }
}

fn run(plan: &Plan, link: Link, behavior: ServerBehavior) -> (Tally, Served) {
    let mut serve = Serve::new(behavior, 5);
    let outcome = load(plan, 1, &Setup::new(link, 5), &mut [&mut serve]);
    assert_invariants(&outcome, "tokens");
    assert_eq!(serve.served().violations, 0);
    (outcome.main(), serve.served().clone())
}

fn tokens(t: &Tally) -> &TokenTally {
    t.tokens.as_deref().expect("replies of a model")
}

/// One request per second: the first token after 20 ms, then four each 5 ms; a chunk with a role
/// has none. A round trip takes 1 ms, and so does the connect.
#[test]
fn times_of_tokens_are_those_of_arithmetic() {
    for path in 0..3 {
        let plan = asks(open(1.0, Arrivals::Fixed, 20), path, 1_000, true, "ttft < 21500us");
        for plan in versions(&plan) {
            let link = Link::with_latency(Span::from_micros(500));
            let (t, served) = run(&plan, link, model("ttft=20ms,gap=5ms,count=11,tokens=4,pings"));
            assert_eq!((t.replies, t.failed, served.events), (20, 0, 220), "{:?}", t.faults);
            let tokens = tokens(&t);
            let all =
                |hist: &prony_tally::record::hist::Hist| (hist.count(), hist.min(), hist.max());
            // Only the first request waits for the connection.
            assert_eq!(all(&tokens.ttft), (20, Some(ms(21)), Some(ms(22))));
            assert_eq!(all(&tokens.ttft_service), (20, Some(ms(21)), Some(ms(21))));
            assert_eq!(all(&tokens.chunk_gap), (20 * 10, Some(ms(5)), Some(ms(5))));
            let itl = Some(Span(50_000_000 / 43));
            assert_eq!(all(&tokens.itl), (20, itl, itl));
            assert_eq!(all(&t.times.response), (20, Some(ms(71)), Some(ms(72))));
            assert_eq!((tokens.chunks, tokens.chunks_together, tokens.empty), (220, 0, 0));
            assert_eq!((tokens.replies, tokens.counted, tokens.counted_chunks), (20, 20, 220));
            assert_eq!((tokens.output_tokens, tokens.input_tokens), (20 * 44, 20 * 5));
            assert_eq!(tokens.finished, Finished { stop: 20, ..Finished::default() });
            assert_eq!(tokens.good, 19);
            assert!(t.times.first_message.is_empty() && t.times.message_gap.is_empty());
            assert_eq!(t.tokens_per_chunk(), Some(4.0));
        }
    }
}

/// The limit of a request ends its reply.
#[test]
fn a_limit_of_tokens_is_kept_and_seen() {
    for path in 0..3 {
        let plan = asks(open(1.0, Arrivals::Fixed, 10), path, 7, true, "");
        let (t, _) = run(&plan, Link::with_latency(Span::ZERO), model("gap=5ms,count=50,tokens=2"));
        let tokens = tokens(&t);
        assert_eq!((tokens.output_tokens, tokens.chunks), (70, 40));
        assert_eq!(tokens.finished, Finished { length: 10, ..Finished::default() });
        assert_eq!(tokens.itl.max(), Some(Span(15_000_000 / 6)));
        // Without limits, every reply keeps them.
        assert_eq!(tokens.good, 10);
    }
}

/// A reply in one piece has tokens, and none of the times between them.
#[test]
fn replies_in_one_piece_have_tokens_but_no_times_of_them() {
    for path in 0..3 {
        let plan = asks(open(1.0, Arrivals::Fixed, 10), path, 40, false, "response < 100ms");
        for plan in versions(&plan) {
            let (t, _) = run(&plan, Link::with_latency(Span::ZERO), model("ttft=20ms,gap=2ms"));
            assert_eq!((t.replies, t.failed), (10, 0), "{:?}", t.faults);
            let tokens = tokens(&t);
            assert_eq!((tokens.output_tokens, tokens.input_tokens, tokens.counted), (400, 50, 10));
            assert!(tokens.ttft.is_empty() && tokens.itl.is_empty() && tokens.chunk_gap.is_empty());
            assert_eq!(t.times.response.max(), Some(ms(20 + 39 * 2)));
            assert_eq!(tokens.good, 10);
        }
    }
}

/// Exponential times: the figures are those of the distribution, within 1 %; and so are the rates
/// of tokens and of good replies in an open loop. The ITL of six tokens is the mean of five times,
/// and the latency the sum of six.
#[test]
fn times_of_tokens_are_those_of_a_known_distribution() {
    const TTFT: f64 = 200e6;
    const GAP: f64 = 20e6;
    // P(x + y > t) for an exponential x and a sum y of five others.
    let latency = |t: f64| {
        let slower = 1.0 / GAP - 1.0 / TTFT;
        let scaled = (1.0 / GAP / slower).powi(5) * (-t / TTFT).exp();
        erlang(5, 1.0 / GAP, t) - scaled * erlang(5, slower, t)
    };
    for path in [0, 2] {
        let plan = open(50.0, Arrivals::Poisson, 400_000);
        let plan = asks(plan, path, 1_000, true, "ttft < 200ms");
        let behavior = model("ttft=exp:200ms,gap=exp:20ms,count=6");
        let (t, served) = run(&plan, Link::with_latency(Span::ZERO), behavior);
        assert_eq!((t.replies, t.failed), (400_000, 0), "{:?}", t.faults);
        let tokens = tokens(&t);
        assert_eq!((tokens.chunks, tokens.output_tokens), (served.events, served.events));
        assert_exponential(&tokens.ttft, TTFT, "TTFT");
        assert_exponential(&tokens.ttft_service, TTFT, "TTFT from the send");
        assert_exponential(&tokens.chunk_gap, GAP, "gap");
        let itl = |q| inverse(|t| erlang(5, 5.0 / GAP, t), q, 1e12);
        assert_distribution(&tokens.itl, GAP, itl, "ITL");
        let end = |q| inverse(latency, q, 1e12);
        assert_distribution(&t.times.response, TTFT + 5.0 * GAP, end, "latency");
        assert_close(tokens.good as f64 / 400_000.0, 1.0 - (-1.0_f64).exp(), "goodput");
        assert_close(t.token_rate().expect("tokens"), t.rate() * 6.0, "tokens per second");
        assert_close(t.rate(), 50.0, "replies per second");
        assert_close(t.token_rate_of_one().expect("tokens"), 1e9 / GAP, "of one user");
    }
}

/// In a closed loop that a time ends, the rate of tokens is that of N users, although the last
/// replies are not complete: N replies of 1 + 99 tokens, each in 100 ms + 99 * 10 ms.
#[test]
fn the_rate_of_tokens_has_those_of_incomplete_replies() {
    let plan = Plan { warmup: ms(2_000), ..closed(10, Think::Exponential(ms(100)), ms(20_000)) };
    let plan = asks(plan, 0, 1_000, true, "");
    let (t, _) = run(&plan, Link::with_latency(Span::ZERO), model("ttft=100ms,gap=10ms"));
    let rate = t.token_rate().expect("tokens");
    let expected = 10.0 * 100.0 / (0.1 + 99.0 * 0.01 + 0.1);
    assert!((rate / expected - 1.0).abs() < 0.02, "{rate} {expected}");
    assert_eq!(t.chunk_rate(), Some(rate));
}

/// Whatever the network does to the bytes, both sides count the same tokens.
#[test]
fn any_split_has_the_same_tokens() {
    for seed in seeds(60) {
        let _seed = Seed(seed);
        let mut rng = Rng::new(seed, 0);
        let link = Link { window: None, ..Link::rough(&mut rng) };
        let plan = asks(open(200.0, Arrivals::Poisson, 40), rng.below(3) as usize, 99, true, "");
        let plan = &versions(&plan)[rng.below(2) as usize];
        let behavior =
            model("ttft=exp:2ms,gap=bimodal:0ns:1ms:50%,count=2..40,empty=1,tokens=3,pings");
        let (t, served) = run(plan, link, behavior);
        assert_eq!((t.replies, t.failed), (40, 0), "{:?}", t.faults);
        let tokens = tokens(&t);
        assert_eq!((tokens.counted, tokens.input_tokens), (40, 200));
        // The first event of each reply has no token.
        assert_eq!(tokens.chunks, served.events - 40);
        assert_eq!(tokens.chunk_gap.count(), tokens.chunks - 40);
        assert_eq!(tokens.counted_chunks, tokens.chunks);
        assert_eq!(tokens.ttft.count(), 40);
        let zeros = tokens.chunk_gap.count_in_bin(Span::ZERO);
        assert_eq!(zeros, tokens.chunks_together);
        assert_eq!(tokens.finished.stop + tokens.finished.length, 40);
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

/// One request to a server with this script.
fn scripted(path: usize, text: &str) -> Tally {
    let plan = asks(open(1.0, Arrivals::Fixed, 1), path, 9, true, "itl < 1s");
    let script = vec![Step::Await(1), Step::Send(text.as_bytes().to_vec()), Step::Close];
    let mut server = Server::new(Scripted::one(script));
    let setup = Setup::new(Link::with_latency(Span::ZERO), 1);
    let outcome = load(&plan, 1, &setup, &mut [&mut server]);
    assert_invariants(&outcome, "a script");
    outcome.main()
}

/// Replies that end in each way beside stop and length, one without output, one whose last event is
/// incomplete, one of two choices, and one whose tokens are only in their total.
pub(crate) fn each_end() -> Vec<Tally> {
    let content = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\n";
    let end = |why: &str| {
        let last = format!("{{\"delta\":{{}},\"finish_reason\":\"{why}\"}}");
        format!("{content}data: {{\"choices\":[{last}]}}\n\n{usage}data: [DONE]\n\n")
    };
    let ends = ["tool_calls", "content_filter", "bored"].map(end);
    let mark = "data: [DONE]\n\n";
    let others = [usage.to_owned(), format!("{content}{mark}"), format!("{content}{mark}data: {{")];
    let two = "data: {\"choices\":[{\"text\":\"a\"},{\"index\":1,\"text\":\"a\"}]}\n\n";
    let total = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":0,\
                 \"prompt_tokens\":3,\"total_tokens\":4}}\n\n";
    let more = [format!("{two}{mark}"), format!("{content}{total}{mark}")];
    ends.iter()
        .chain(&others)
        .chain(&more)
        .map(|events| scripted(0, &format!("{HEAD}{events}")))
        .collect()
}

#[test]
fn an_error_in_a_stream_fails_its_request() {
    let openai = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n\
                  data: {\"error\":{\"message\":\"out of memory\"}}\n\ndata: [DONE]\n\n";
    let anthropic = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\
                     \"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    for (path, events, chunks) in [(0, openai, 1), (2, anthropic, 0)] {
        let t = scripted(path, &format!("{HEAD}{events}"));
        assert_eq!((t.replies, t.failed, t.fault(Fault::ErrorMessage)), (0, 1, 1));
        let seen = t.tokens.as_deref().map_or((0, 0), |tokens| (tokens.chunks, tokens.replies));
        assert_eq!(seen, (chunks, 0));
        let bodies = t.stream_messages.as_deref().and_then(|m| m.bodies.as_deref()).copied();
        let failed = StreamBodies { begun: 1, failed: 1, ..StreamBodies::default() };
        assert_eq!(bodies, Some(failed));
    }
}

/// The same in a reply in one piece, whose status is 200.
#[test]
fn an_error_in_one_piece_fails_its_request() {
    let openai = r#"{"error":{"message":"out of memory","type":"server_error"}}"#;
    let anthropic = r#"{"type":"error","error":{"type":"overloaded_error","message":"Full"}}"#;
    let whole = r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;
    for (path, body, failed) in [(0, openai, 1), (2, anthropic, 1), (0, whole, 0)] {
        let plan = asks(open(1.0, Arrivals::Fixed, 1), path, 9, false, "response < 1s");
        let text = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let script = vec![Step::Await(1), Step::Send(text.into_bytes())];
        let mut server = Server::new(Scripted::one(script));
        let setup = Setup::new(Link::with_latency(Span::ZERO), 1);
        let outcome = load(&plan, 1, &setup, &mut [&mut server]);
        assert_invariants(&outcome, "a script");
        let t = outcome.main();
        assert_eq!((t.failed, t.fault(Fault::ErrorMessage)), (failed, failed), "{body}");
        assert_eq!(t.statuses.get(&200), Some(&1));
        let good = t.tokens.as_deref().map_or(0, |tokens| tokens.good);
        let bodies = t.stream_messages.as_deref().and_then(|m| m.bodies.as_deref()).copied();
        let bodies = bodies.expect("a body");
        assert_eq!((good, t.replies, bodies.failed), (1 - failed, 1 - failed, failed), "{body}");
    }
}

/// Without a number of tokens there is no ITL, and a limit for it is not kept.
#[test]
fn replies_without_usage_have_chunks_only() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    let t = scripted(0, &format!("{HEAD}{text}{text}{text}data: [DONE]\n\n"));
    let tokens = tokens(&t);
    assert_eq!((tokens.replies, tokens.counted, tokens.chunks), (1, 0, 3));
    assert_eq!((tokens.chunks_together, tokens.good), (2, 0));
    assert!(tokens.itl.is_empty() && t.token_rate().is_none() && t.output_tokens().is_none());
    assert_eq!(tokens.finished, Finished { none: 1, ..Finished::default() });
    // A reply without output has no time to its first token, and one token has nothing after it.
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\n";
    for (events, empty) in [(usage.to_owned(), 1), (format!("{text}{usage}"), 0)] {
        let t = scripted(0, &format!("{HEAD}{events}"));
        let tokens = t.tokens.as_deref().expect("a reply");
        assert_eq!((tokens.counted, tokens.empty, tokens.good), (1, empty, 1));
        assert_eq!((tokens.ttft.count(), tokens.itl.count()), (1 - empty, 0));
    }
}

/// Counts words.
#[derive(Debug)]
struct Words;

impl CountTokens for Words {
    fn count(&self, text: &str) -> Option<u32> {
        // One text that it cannot read.
        (!text.contains('?')).then(|| text.split_whitespace().count() as u32)
    }
}

/// The same for each plan.
pub(crate) fn words(_: &Plan) -> Option<Arc<dyn CountTokens>> {
    Some(Arc::new(Words))
}

/// A world in which the replies that do not say how many tokens they have are counted.
fn counting(link: Link) -> Setup {
    Setup { tokenizers: Some(words), ..Setup::new(link, 5) }
}

/// The plan, without asking for the number of tokens.
pub(crate) fn silent(plan: &Plan) -> Plan {
    let silent = |spec: &CallSpec| {
        let body = String::from_utf8(spec.body.clone()).expect("JSON");
        CallSpec { body: body.replace("include_usage", "no_usage").into_bytes(), ..spec.clone() }
    };
    let calls = plan.calls.iter().map(silent).collect::<Vec<_>>().into();
    Plan { calls, ..plan.clone() }
}

/// Six tokens in three chunks, of which the last comes 50 ms after the first: 10 ms each. The
/// second chunk ends within a token. A reply that says how many it has is not counted again, and
/// one that the tokenizer cannot read is not counted at all.
#[test]
fn a_tokenizer_counts_what_replies_do_not_say() {
    let chunk = |text: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
    };
    let usage = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":26}}\n\n";
    let mark = "data: [DONE]\n\n";
    for (first, usage, itl, [counted, tokenized, output, good]) in [
        ("one ", "", Some(ms(10)), [1, 1, 6, 1]),
        ("one ", usage, Some(ms(2)), [1, 0, 26, 1]),
        ("one? ", "", None, [0, 0, 0, 0]),
    ] {
        let plan = asks(open(1.0, Arrivals::Fixed, 1), 0, 9, true, "itl < 11ms");
        let script = vec![
            Step::Await(1),
            Step::Send(format!("{HEAD}{}", chunk(first)).into_bytes()),
            Step::Wait(ms(20)),
            Step::Send(chunk("two three some").into_bytes()),
            Step::Wait(ms(30)),
            Step::Send(format!("{}{usage}{mark}", chunk("thing\\nf\\u00fcnf six")).into_bytes()),
            Step::Close,
        ];
        let setup = counting(Link::with_latency(Span::ZERO));
        let outcome = load(&plan, 1, &setup, &mut [&mut Server::new(Scripted::one(script))]);
        assert_invariants(&outcome, "a tokenizer");
        let t = outcome.main();
        let tokens = tokens(&t);
        assert_eq!((tokens.replies, tokens.chunks), (1, 3));
        let counts = [tokens.counted, tokens.tokenized, tokens.output_tokens, tokens.good];
        assert_eq!(counts, [counted, tokenized, output, good], "{first}{usage}");
        assert_eq!(tokens.itl.min(), itl);
    }
}

/// The target server without its numbers: a tokenizer finds the same figures, also in the warm-up,
/// on several threads, and after the end of the load. Only the tokens of requests are not known.
#[test]
fn figures_of_a_tokenizer_are_those_of_the_server() {
    for path in 0..2 {
        for streams in [true, false] {
            let plan =
                asks(closed(6, Think::None, ms(3_000)), path, 44, streams, "response < 75ms");
            let plan = Plan { warmup: Span::from_secs(1), ..plan };
            for plan in versions(&plan) {
                figures_are_the_same(&plan, streams);
            }
        }
    }
}

fn figures_are_the_same(plan: &Plan, streams: bool) {
    let of = |plan: &Plan| {
        let mut serve = Serve::new(model("ttft=exp:20ms,gap=5ms,count=3..11,tokens=4"), 5);
        let setup = counting(Link::with_latency(Span::from_micros(500)));
        let outcome = load(plan, 2, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "figures of a tokenizer");
        let warm = outcome.warmup().expect("a warm-up");
        [warm, outcome.main()].map(|t| (tokens(&t).clone(), t.stream_series))
    };
    let said = of(plan);
    if !streams {
        // Replies in one piece always say it.
        assert_eq!(said, of(&silent(plan)));
        return;
    }
    for ((mut tokens, series), (said, said_series)) in of(&silent(plan)).into_iter().zip(said) {
        assert!(said.replies > 20 && said.itl.count() > 20 && said.good > 0, "{said:?}");
        assert_eq!((tokens.tokenized, tokens.input_tokens), (tokens.replies, 0));
        (tokens.tokenized, tokens.input_tokens) = (0, said.input_tokens);
        assert_eq!((tokens, series), (said, said_series));
    }
}

/// A plan for a language model, over either version, and a server that may break replies off.
pub(crate) fn random_tokens(rng: &mut Rng) -> (Plan, ServerBehavior) {
    let plan = if rng.chance(0.5) {
        open(300.0, Arrivals::Poisson, 60)
    } else {
        closed(rng.between(1, 5) as u32, Think::None, ms(100))
    };
    let streams = rng.chance(0.8);
    let slo = if streams { "ttft < 3ms, itl < 700us" } else { "response < 9ms" };
    let plan = asks(plan, rng.below(3) as usize, rng.between(1, 50), streams, slo);
    let mut plan = versions(&plan)[rng.below(2) as usize].clone();
    plan.timeout = ms(rng.between(31, 90));
    let share = |rng: &mut Rng| Share(rng.unit() * 0.1);
    let behavior = ServerBehavior {
        reset: share(rng),
        truncate: share(rng),
        rst: share(rng),
        refuse: share(rng),
        statuses: "200:9,503:1".parse().expect("statuses"),
        ..model("ttft=exp:2ms,gap=exp:700us,count=1..60,empty=1,tokens=2")
    };
    (plan, behavior)
}

#[test]
fn p4_counters_of_tokens_agree_whatever_fails() {
    for seed in seeds(300) {
        let _seed = Seed(seed);
        let mut rng = Rng::new(seed, 0);
        let (plan, behavior) = random_tokens(&mut rng);
        let mut setup = random_setup(&mut rng, seed);
        let is_silent = seed % 2 == 1;
        let plan = if is_silent { silent(&plan) } else { plan };
        setup.tokenizers = is_silent.then_some(words);
        let mut serve = Serve::new(behavior, seed);
        let outcome = load(&plan, 1, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "tokens that fail");
        let t = outcome.main();
        let Some(tokens) = t.tokens.as_deref() else { continue };
        let Finished { stop, length, tool, filter, other, none } = tokens.finished;
        assert_eq!(stop + length, tokens.replies, "{tokens:?}");
        assert_eq!((tool, filter, other, none), (0, 0, 0, 0));
        // Others have a status that is expected, and no tokens.
        let replies = t.statuses.get(&200).copied().unwrap_or(0);
        assert_eq!((tokens.replies, tokens.counted), (replies, replies));
        assert!(tokens.good <= tokens.replies && tokens.counted_chunks <= tokens.chunks);
        assert!(tokens.chunks_in_drain + tokens.chunks_together <= 2 * tokens.chunks);
        assert!(is_silent || tokens.tokenized == 0, "{tokens:?}");
        assert_eq!(tokens.input_tokens, 5 * (tokens.replies - tokens.tokenized));
        assert_eq!(t.fault(Fault::ErrorMessage) + t.fault(Fault::NotAStream), 0, "{:?}", t.faults);
        assert_eq!(tokens.chunks_by_second.values().sum::<u64>(), tokens.chunks);
        assert_eq!(tokens.good_by_second.values().sum::<u64>(), tokens.good);
    }
}

/// Limits are those of the plan, and no others.
#[test]
fn a_plan_without_streams_has_no_limit_for_their_times() {
    let mut plan = asks(open(1.0, Arrivals::Fixed, 1), 0, 9, false, "response < 1s");
    let limit: TokenLimit = "itl < 1s".parse().expect("a limit");
    let stream = plan.stream.as_deref_mut().expect("a stream");
    stream.tokens.as_mut().expect("tokens").slo.push(limit);
    let why = plan.check().expect_err("no parts");
    assert!(why.starts_with("a reply in one piece has no time to its first token"), "{why}");
}
