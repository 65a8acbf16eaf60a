//! Reports of streams: the page and the text have the figures of language models, WebSocket and
//! broadcasts in the terms of the field, with the values of the JSON report.

use prony_base::units::Span;
use prony_plan::plan::{
    BroadcastPlan, Http2Spec, HttpVersion, StreamFormat, StreamPlan, TokenDialect, TokenPlan,
    WebSocketPlan,
};
use prony_report::Format;
use prony_stats::summary::Summary;
use prony_tally::record::{
    Broadcast, Finished, Pings, StreamMessages, StreamTime, TimeLowerBound, Times, TokenTally,
};
use serde_json::Value;

use super::pictures::{all_between, assert_row, rendered};
use super::sample;

/// A broadcast over WebSocket, with pings.
pub(crate) fn websocket(run: &mut Summary) {
    let (after, wait) = (Span::ZERO, Span(9));
    let broadcast = BroadcastPlan { publishers: 3, after, wait, process: 0 };
    run.plan.websocket = Some(Box::new(WebSocketPlan {
        binary: true,
        subprotocols: vec!["chat".into()],
        compress: true,
        no_utf8_check: true,
        ping_every: Some(Span(5)),
        broadcast: Some(Box::new(broadcast)),
    }));
    let mut pings = Pings { sent: 3, answered: 1, ..Pings::default() };
    pings.time.record(Span(1_000));
    run.main.pings = Some(Box::new(pings));
    let mut bound = TimeLowerBound { added_max: Span(200), ..TimeLowerBound::default() };
    bound.times.record(Span(800));
    run.main.streams_without_meter = [(StreamTime::Ping, bound)].into();
    let mut broadcast = Broadcast { expected: 7, delivered: 5, ..Broadcast::default() };
    broadcast.delivery.record(Span(1_000));
    broadcast.spread.record(Span(1_000));
    run.main.broadcast = Some(Box::new(broadcast));
}

/// Times of messages, and a series for each kind of them.
pub(crate) fn record_over_time(run: &mut Summary) {
    record_messages(&mut run.main.times);
    let series = serde_json::to_value(&run.main.series).expect("JSON");
    let all = StreamTime::OVER_TIME.map(|time| (time.timed().json_key(), series.clone()));
    let all = serde_json::from_value(Value::Object(all.into_iter().collect())).expect("series");
    run.main.stream_series = Some(Box::new(all));
}

/// Replies of a language model.
pub(crate) fn tokens() -> TokenTally {
    let mut tally = TokenTally {
        chunks: 9,
        replies: 3,
        counted: 3,
        tokenized: 1,
        counted_chunks: 9,
        output_tokens: 18,
        good: 2,
        chunks_by_second: [(0, 9)].into(),
        good_by_second: [(0, 2)].into(),
        doubted: 1,
        by_total: 1,
        several: 1,
        ..TokenTally::default()
    };
    for hist in [&mut tally.ttft, &mut tally.ttft_service, &mut tally.itl, &mut tally.chunk_gap] {
        hist.record(Span(1_000));
    }
    tally
}

fn record_messages(times: &mut Times) {
    for hist in [
        &mut times.message,
        &mut times.message_service,
        &mut times.message_lag,
        &mut times.first_message,
        &mut times.first_content,
        &mut times.message_gap,
        &mut times.reconnect,
    ] {
        hist.record(Span(1_000));
    }
}

const MS: u64 = 1_000_000;

/// A language model over HTTP/2 with a hundred replies of eleven tokens, of which ninety were good,
/// and the messages of a broadcast.
pub(crate) fn model() -> Summary {
    let mut run = sample::closed_every(10 * MS);
    (run.plan.http, run.plan.http2) = (HttpVersion::Http2, Some(Box::<Http2Spec>::default()));
    let slo = TokenPlan::parse_slo("ttft < 300ms, itl < 50ms").expect("limits");
    let tokens = Some(TokenPlan { slo, ..TokenPlan::new(TokenDialect::OpenAi) });
    run.plan.stream = Some(Box::new(StreamPlan { tokens, ..StreamPlan::new(StreamFormat::Sse) }));
    let mut tally = TokenTally {
        chunks: 1_100,
        chunks_together: 11,
        replies: 100,
        counted: 100,
        counted_chunks: 1_100,
        output_tokens: 1_100,
        input_tokens: 3_300,
        good: 90,
        finished: Finished { stop: 60, length: 40, ..Finished::default() },
        chunks_by_second: [(0, 1_100)].into(),
        good_by_second: [(0, 90)].into(),
        ..TokenTally::default()
    };
    for k in 0..100 {
        tally.ttft.record(Span((200 + k) * MS));
        tally.ttft_service.record(Span((190 + k) * MS));
        tally.itl.record(Span(20 * MS + k));
        tally.chunk_gap.record_n(Span(20 * MS + k), 10);
    }
    run.main.tokens = Some(Box::new(tally));
    run.main.stream_messages = Some(Box::new(StreamMessages {
        received: 1_100,
        together: 11,
        bodies: Some(Box::default()),
        sizes: Some(Box::default()),
        ..StreamMessages::default()
    }));
    record_over_time(&mut run);
    run
}

fn room() -> Summary {
    let mut run = sample::closed_every(10 * MS);
    websocket(&mut run);
    record_over_time(&mut run);
    run
}

/// Each kind of times has a row on the page, under the name of the field, with the values of the
/// JSON report.
#[test]
fn the_page_has_streams_in_the_terms_of_the_field() {
    let of_model = [
        ("TTFT", "ttft"),
        ("TTFT service", "ttft_service"),
        ("ITL", "itl"),
        ("chunk gap", "chunk_gap"),
        ("first message", "first_message"),
        ("message gap", "message_gap"),
    ];
    let of_room = [
        ("message", "message"),
        ("message service", "message_service"),
        ("message lag", "message_lag"),
        ("delivery", "delivery"),
        ("spread", "spread"),
        ("ping", "ping"),
    ];
    for (summary, names) in [(model(), of_model), (room(), of_room)] {
        let html = rendered(Format::Html, &summary);
        let json: Value = serde_json::from_str(&rendered(Format::Json, &summary)).expect("JSON");
        let table = all_between(&html, "aria-label=\"all kinds of times\"", "</table>")[0];
        for (shown, name) in names {
            let row = all_between(table, &format!("<th scope=\"row\">{shown}</th>"), "</tr>");
            let row = row.first().unwrap_or_else(|| panic!("no row has the name {shown}"));
            let figures = &json["measurement"]["times"][name];
            assert!(figures["count"].as_u64() > Some(0), "{name}: {figures}");
            assert_row(row, figures, shown);
        }
    }
}

/// The facts of a model: tokens, chunks, how replies ended, goodput with its limits.
#[test]
fn the_page_has_the_facts_of_a_model() {
    let html = rendered(Format::Html, &model());
    let fact = |name: &str| {
        let found = all_between(&html, &format!("<dt>{name}</dt><dd>"), "</dd>");
        // The tile comes before.
        found.last().map(|text| (*text).to_owned()).unwrap_or_default()
    };
    let tokens = fact("tokens");
    assert!(tokens.starts_with("1,100 out (") && tokens.ends_with("3,300 in"), "{tokens}");
    assert!(tokens.contains("/s per user"), "{tokens}");
    let chunks = fact("chunks");
    assert!(chunks.starts_with("1,100 (") && chunks.contains("1.00 tokens per chunk"), "{chunks}");
    assert!(chunks.ends_with("1.00 % arrived together with the one before"), "{chunks}");
    assert_eq!(fact("finish"), "60 stop, 40 length");
    let goodput = fact("goodput");
    assert!(goodput.contains("of the requests keep"), "{goodput}");
    assert!(goodput.contains("ttft &lt; 300ms and itl &lt; 50ms"), "{goodput}");
}
