//! The table `[stream]` of a plan file.

use prony_core::plan::{StreamFormat, StreamPlan, TokenPlan};
use toml::de::DeValue;

use super::reader::Section;
use super::requests::Requests;
use super::words::{DIALECT, STREAM, word};
use super::written::{line, quoted};
use crate::builder::Draft;
use crate::values;

const TEXT: &str = "a text";

impl<'a> Requests<'a> {
    /// Reads the table `[stream]`, if it exists.
    pub(super) fn stream(&mut self, top: &mut Section<'a>, draft: &mut Draft) {
        let Some(item) = top.take("stream") else { return };
        let DeValue::Table(table) = item.value else {
            item.wrong_type(&mut self.problems, "a table: [stream]");
            return;
        };
        let mut section = Section::new("[stream]", item.at, table);
        let problems = &mut self.problems;
        let format = section.take("format").and_then(|i| i.word(problems, STREAM));
        let mut plan = StreamPlan::new(format.unwrap_or(StreamFormat::Sse));
        let text = |text: &str| Ok::<_, String>(text.to_owned());
        plan.content = section.take("content-pointer").and_then(|i| i.parse(problems, TEXT, text));
        plan.until = section.take("until-event").and_then(|i| i.parse(problems, TEXT, text));
        plan.end = section.take("require-end").and_then(|i| i.parse(problems, TEXT, text));
        let count = section.take("events");
        plan.count = count.and_then(|i| i.parse(problems, "a number", values::positive));
        let time = section.take("time");
        plan.time = time.and_then(|i| i.parse(problems, "a time", values::positive_span));
        plan.tokens =
            section.take("tokens").and_then(|i| i.word(problems, DIALECT)).map(TokenPlan::new);
        if let Some(item) = section.take("slo") {
            let limits =
                item.parse(problems, "limits such as \"ttft < 300ms\"", TokenPlan::parse_slo);
            match (&mut plan.tokens, limits) {
                (Some(tokens), Some(limits)) => tokens.slo = limits,
                (None, Some(_)) => {
                    let why = "limits of tokens need `tokens`, the dialect of a language model";
                    problems.add(item.at, why);
                }
                _ => {}
            }
        }
        if let Some(item) = section.take("tokenizer") {
            let path = item.parse(problems, "the path of a file", text);
            match (&mut plan.tokens, path) {
                (Some(tokens), Some(path)) => tokens.tokenizer = Some(path.into()),
                (None, Some(_)) => {
                    let why = "a tokenizer needs `tokens`, the dialect of a language model";
                    problems.add(item.at, why);
                }
                _ => {}
            }
        }
        if let Some(reconnect) = section.take("reconnect").and_then(|i| i.boolean(problems)) {
            plan.reconnect = reconnect;
        }
        section.finish(problems);
        if let Err(why) = plan.check() {
            problems.add(item.at, why);
        }
        draft.stream = Some(Box::new(plan));
    }
}

/// Writes the table `[stream]`.
pub(super) fn explain(plan: &StreamPlan, out: &mut String) {
    out.push_str("\n[stream]\n");
    line(out, "format", quoted(word(STREAM, &plan.format)));
    if let Some(pointer) = &plan.content {
        line(out, "content-pointer", quoted(pointer));
    }
    if let Some(count) = plan.count {
        line(out, "events", count);
    }
    if let Some(time) = plan.time {
        line(out, "time", quoted(&time.to_string()));
    }
    if let Some(text) = &plan.until {
        line(out, "until-event", quoted(text));
    }
    if let Some(text) = &plan.end {
        line(out, "require-end", quoted(text));
    }
    if plan.reconnect {
        line(out, "reconnect", true);
    }
    if let Some(tokens) = &plan.tokens {
        line(out, "tokens", quoted(word(DIALECT, &tokens.dialect)));
        if !tokens.slo.is_empty() {
            let limits: Vec<String> = tokens.slo.iter().map(ToString::to_string).collect();
            line(out, "slo", quoted(&limits.join(", ")));
        }
        if let Some(path) = &tokens.tokenizer {
            line(out, "tokenizer", quoted(path));
        }
    }
}
