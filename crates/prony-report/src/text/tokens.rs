//! The lines about the replies of language models.

use prony_plan::plan::StreamFormat;
use prony_stats::summary::Summary;
use prony_tally::record::{Finished, Tally};

use super::{Fact, units};

/// Tokens, chunks, how replies ended, and how many were good.
pub(super) fn facts(summary: &Summary) -> [Fact; 4] {
    let t = &summary.main;
    [
        ("tokens", tokens(t)),
        ("chunks", if is_whole(summary) { Vec::new() } else { chunks(t) }),
        ("finish", finishes(t)),
        ("goodput", goodput(summary)),
    ]
}

/// Whether replies are no streams.
fn is_whole(summary: &Summary) -> bool {
    summary.plan.stream.as_deref().is_some_and(|stream| stream.format == StreamFormat::Whole)
}

fn tokens(t: &Tally) -> Vec<String> {
    let Some(tokens) = t.tokens.as_deref() else { return Vec::new() };
    let silent = tokens.replies - tokens.counted.min(tokens.replies);
    let mut parts = Vec::new();
    if tokens.counted > 0 {
        let rates = [
            t.token_rate().filter(|rate| *rate > 0.0).map(units::rate),
            t.token_rate_of_one().map(|rate| format!("{} per user", units::rate(rate))),
        ];
        let rates: Vec<String> = rates.into_iter().flatten().collect();
        let rates = if rates.is_empty() { "".into() } else { format!(" ({})", rates.join(", ")) };
        parts.push(format!("{} out{rates}", units::count(tokens.output_tokens)));
    }
    if let Some(input) = t.input_tokens() {
        parts.push(format!("{} in", units::count(input)));
    }
    if tokens.tokenized > 0 {
        let replies = units::counted(tokens.tokenized, "reply", "replies");
        parts.push(format!("those of {replies} counted by the tokenizer"));
    }
    if tokens.doubted > 0 {
        let replies = units::counted(tokens.doubted, "reply says", "replies say");
        let taken = match tokens.doubted - tokens.by_total.min(tokens.doubted) {
            0 => "total_tokens - prompt_tokens was taken".into(),
            all if all == tokens.doubted => "their numbers were not taken".into(),
            _ => format!(
                "total_tokens - prompt_tokens was taken for {}, none for the others",
                units::count(tokens.by_total)
            ),
        };
        parts.push(format!(
            "{replies} to have less than half as many tokens as chunks, which cannot be: {taken}"
        ));
    }
    match silent {
        0 => {}
        1 => parts.push("the tokens of 1 reply are not known, so it has no ITL".into()),
        n => {
            let n = units::count(n);
            parts.push(format!("the tokens of {n} replies are not known, so they have no ITL"));
        }
    }
    if tokens.several > 0 {
        let replies = units::counted(tokens.several, "reply", "replies");
        parts.push(format!("{replies} of several choices, which have no ITL"));
    }
    parts
}

fn chunks(t: &Tally) -> Vec<String> {
    let Some(tokens) = t.tokens.as_deref().filter(|tokens| tokens.chunks > 0) else {
        return Vec::new();
    };
    let rate = t.chunk_rate().filter(|rate| *rate > 0.0);
    let rate = rate.map(|rate| format!(" ({})", units::rate(rate))).unwrap_or_default();
    let mut parts = vec![format!("{}{rate}", units::count(tokens.chunks))];
    if let Some(each) = t.tokens_per_chunk() {
        parts.push(format!("{} tokens per chunk", units::three(each)));
    }
    if tokens.chunks_together > 0 {
        let share = tokens.chunks_together as f64 / tokens.chunks as f64;
        parts.push(format!("{} arrived together with the one before", units::percent(share)));
    }
    if tokens.empty > 0 {
        parts.push(format!("{} without one", units::counted(tokens.empty, "reply", "replies")));
    }
    parts
}

/// Why successful replies ended.
fn finishes(t: &Tally) -> Vec<String> {
    let Some(tokens) = t.tokens.as_deref() else { return Vec::new() };
    let Finished { stop, length, tool, filter, other, none } = tokens.finished;
    let all = [
        (stop, "stop"),
        (length, "length"),
        (tool, "tool call"),
        (filter, "content filter"),
        (other, "another reason"),
        (none, "without a reason"),
    ];
    let some = all.into_iter().filter(|(n, _)| *n > 0);
    some.map(|(n, what)| format!("{} {what}", units::count(n))).collect()
}

/// Good replies per second and their share of the requests; `None` if nothing says which are good.
pub(crate) fn goodput_of(summary: &Summary) -> Option<(f64, f64)> {
    let tokens = summary.plan.stream.as_deref()?.tokens.as_ref()?;
    let (good, ended) = (summary.main.tokens.as_deref()?.good, summary.ended());
    let rate = summary.main.goodput().filter(|_| !tokens.slo.is_empty() && ended > 0)?;
    Some((rate, good as f64 / ended as f64))
}

fn goodput(summary: &Summary) -> Vec<String> {
    let limits = summary.plan.stream.as_deref().and_then(|stream| stream.tokens.as_ref());
    let limits: Vec<String> =
        limits.into_iter().flat_map(|tokens| &tokens.slo).map(ToString::to_string).collect();
    let Some((rate, share)) = goodput_of(summary) else { return Vec::new() };
    let share = units::percent(share);
    vec![units::rate(rate), format!("{share} of the requests keep {}", limits.join(" and "))]
}
