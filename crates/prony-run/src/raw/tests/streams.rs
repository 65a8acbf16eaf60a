//! The columns of streams: against arithmetic, and against the counters of the report.

use std::collections::BTreeMap;
use std::sync::Arc;

use prony_plan::plan::Plan;
use prony_plan::tokenizer::CountTokens;
use prony_server::serve::ServerBehavior;
use prony_tally::record::Tally;

use super::against;

/// Counts words.
#[derive(Debug)]
struct Words;

impl CountTokens for Words {
    fn count(&self, text: &str) -> Option<u32> {
        Some(text.split_whitespace().count() as u32)
    }
}

/// Of plans that name a tokenizer.
pub(super) fn words(plan: &Plan) -> Option<Arc<dyn CountTokens>> {
    let tokens = plan.stream.as_deref()?.tokens.as_ref()?;
    tokens.tokenizer.is_some().then(|| Arc::new(Words) as Arc<dyn CountTokens>)
}

const MS: u64 = 1_000_000;
/// From a request to the first byte of a reply, in the simulated network.
const ROUND_TRIP: u64 = MS / 10;

/// A load of requests with five words to a model.
fn asks(load: &str, usage: &str, stream: &str) -> String {
    let body = format!(
        "{{\"messages\":[{{\"role\":\"user\",\"content\":\"a b c d e\"}}],\"max_tokens\":1000,\
         \"stream\":true,\"stream_options\":{{\"{usage}\":true}}}}"
    );
    format!(
        "url = 'http://h/v1/chat/completions'\n{load}\n\
         request = [{{ method = 'POST', path = '/v1/chat/completions', body = '{body}' }}]\n\
         [stream]\nformat = 'sse'\ntokens = 'openai'\n{stream}\n"
    )
}

type Row = BTreeMap<String, serde_json::Value>;

/// The lines of a run against a server that sends such events, and the counters of the report.
fn lines(events: &str, plan: &str) -> (Vec<Row>, Tally) {
    let (csv, _) = against(&server(events), "x.csv", plan, 1);
    let (file, all) = against(&server(events), "x.jsonl", plan, 1);
    let rows: Vec<Row> = String::from_utf8(file)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut csv = csv::Reader::from_reader(&csv[..]);
    let columns = csv.headers().unwrap().clone();
    assert_eq!((columns.len(), columns.get(11)), (20, Some("warmup")));
    for (row, cells) in rows.iter().zip(csv.records()) {
        for (column, cell) in columns.iter().zip(&cells.unwrap()) {
            let value = &row[column];
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(if value.is_null() { "" } else { &text }, cell, "{column}");
        }
    }
    (rows, all)
}

fn server(events: &str) -> ServerBehavior {
    ServerBehavior { sse: Some(events.parse().unwrap()), ..ServerBehavior::default() }
}

fn number(row: &Row, column: &str) -> Option<u64> {
    row[column].as_u64()
}

fn sum(rows: &[Row], column: &str) -> u128 {
    rows.iter().filter_map(|row| number(row, column)).map(u128::from).sum()
}

/// The first token after 20 ms, then ten chunks of four tokens, one each 5 ms.
#[test]
fn a_line_has_the_times_and_tokens_of_its_reply() {
    let plan = asks("rate = 1\nduration = 10", "include_usage", "");
    let (rows, all) = lines("ttft=20ms,gap=5ms,count=11,tokens=4", &plan);
    assert_eq!((rows.len(), all.failed), (10, 0), "{:?}", all.faults);
    // The first request waits for the connection, too.
    for (row, waits) in rows.iter().zip([ROUND_TRIP].into_iter().chain([0; 9])) {
        let of = |column: &str| number(row, column).expect(column);
        assert_eq!(of("ttft_ns"), 20 * MS + ROUND_TRIP + waits);
        assert_eq!(of("first_content_ns") - of("intended_ns"), of("ttft_ns"));
        assert_eq!(of("itl_ns"), 50 * MS / 43);
        assert_eq!((of("input_tokens"), of("output_tokens")), (5, 44));
        // A chunk with the role comes before the first token, and others after the last.
        assert!(of("messages") > 11 && of("first_message_ns") <= of("first_content_ns"), "{row:?}");
        assert!(of("last_message_ns") >= of("first_content_ns") + 50 * MS);
        assert!(of("last_message_ns") <= of("done_ns"));
    }
}

/// Random times and lengths: the sums of the columns are those of the histograms, which know them
/// exactly. Replies that come too late have a first token if one has arrived, and neither a mean
/// gap nor tokens.
#[test]
fn the_columns_of_models_add_up_to_the_report() {
    let load = "rate = 200\nduration = 3\narrivals = 'poisson'\ntimeout = '20ms'";
    let plan = asks(load, "include_usage", "");
    let (rows, all) = lines("ttft=exp:8ms,gap=exp:1ms,count=2..30", &plan);
    let tokens = all.tokens.unwrap();
    assert_eq!(rows.len() as u64, all.replies + all.failed);
    assert!(all.failed > 10 && all.replies > 100, "{} {}", all.failed, all.replies);
    assert_eq!(sum(&rows, "ttft_ns"), tokens.ttft.sum_ns());
    assert_eq!(sum(&rows, "itl_ns"), tokens.itl.sum_ns());
    assert_eq!(sum(&rows, "output_tokens"), u128::from(tokens.output_tokens));
    assert_eq!(sum(&rows, "input_tokens"), u128::from(tokens.input_tokens));
    let failed: Vec<&Row> = rows.iter().filter(|row| !row["error"].is_null()).collect();
    let begun = failed.iter().filter(|row| number(row, "ttft_ns").is_some()).count();
    assert!(begun > 10 && begun + 10 < failed.len(), "{begun} of {}", failed.len());
    for row in failed {
        assert_eq!((number(row, "itl_ns"), number(row, "output_tokens")), (None, None));
    }
}

/// Tokens that are counted after the load are in the file, too.
#[test]
fn tokens_that_a_tokenizer_counts_are_in_the_file() {
    let plan = asks("rate = 50\nduration = 2", "no_usage", "tokenizer = 'words.json'");
    let (rows, all) = lines("ttft=5ms,gap=1ms,count=2..30", &plan);
    let tokens = all.tokens.unwrap();
    assert_eq!((rows.len(), tokens.tokenized), (100, 100));
    assert!(rows.iter().all(|row| number(row, "output_tokens").is_some()));
    assert_eq!(sum(&rows, "output_tokens"), u128::from(tokens.output_tokens));
    assert_eq!(sum(&rows, "itl_ns"), tokens.itl.sum_ns());
}

/// Events that are not those of a model have their times, and no tokens.
#[test]
fn events_have_their_times() {
    let plan = "url = 'http://h/'\nrate = 1\nduration = 5\n[stream]\nformat = 'sse'\n";
    let (rows, all) = lines("ttft=20ms,gap=5ms,count=11", plan);
    assert_eq!((rows.len(), all.failed), (5, 0), "{:?}", all.faults);
    for row in &rows[1..] {
        let of = |column: &str| number(row, column).expect(column);
        assert_eq!(of("first_message_ns") - of("intended_ns"), 20 * MS + ROUND_TRIP);
        assert_eq!(of("last_message_ns") - of("first_message_ns"), (of("messages") - 1) * 5 * MS);
        assert_eq!(of("messages"), 11);
        for none in ["ttft_ns", "itl_ns", "input_tokens", "output_tokens"] {
            assert_eq!(number(row, none), None);
        }
    }
}
