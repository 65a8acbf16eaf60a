//! The table `[stream]` of a plan file.

use prony_plan::plan::{StreamPlan, TokenPlan};

use super::keyed;
use super::reader::Section;
use super::requests::Requests;
use super::words::{DIALECT, word};
use super::written::{line, quoted};
use crate::builder::Draft;

impl<'a> Requests<'a> {
    /// Reads the table `[stream]`, if it exists.
    pub(super) fn stream(&mut self, top: &mut Section<'a>, draft: &mut Draft) {
        let table = top.table("stream", "[stream]", &mut self.problems);
        let Some(mut section) = table else { return };
        let problems = &mut self.problems;
        let mut plan: StreamPlan = keyed::read(&mut section, problems);
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
            let text = |text: &str| Ok::<_, String>(text.to_owned());
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
        if let Err(why) = plan.check() {
            problems.add(section.at, why);
        }
        section.finish(problems);
        draft.stream = Some(Box::new(plan));
    }
}

/// Writes the table `[stream]`.
pub(super) fn explain(plan: &StreamPlan, out: &mut String) {
    out.push_str("\n[stream]\n");
    keyed::explain(plan, out);
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
