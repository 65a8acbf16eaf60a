//! The table `[http2]` of a plan file.

use prony_plan::plan::{Http2Spec, Placement, Plan};

use super::keyed;
use super::reader::Section;
use super::requests::Requests;
use super::words::{PLACEMENT, word};
use super::written::{line, quoted};
use crate::builder::Draft;
use crate::keys::Keyed as _;
use crate::values;

const NUMBER: &str = "a number";

impl<'a> Requests<'a> {
    /// Reads the table `[http2]`, if it exists.
    pub(super) fn http2(&mut self, top: &mut Section<'a>, draft: &mut Draft) {
        let table = top.table("http2", "[http2]", &mut self.problems);
        let Some(mut section) = table else { return };
        if !draft.http.is_some_and(|http| http.is_http2()) {
            let what =
                "[http2] has no effect: add `http = \"2\"` (or \"2-only\") before the tables";
            self.problems.add(section.at, what);
        }
        let problems = &mut self.problems;
        let streams = section.take("streams");
        let streams = streams.and_then(|i| i.parse(problems, NUMBER, values::pipeline));
        draft.pipeline = streams.or(draft.pipeline);
        draft.placement = section.take("placement").and_then(|i| i.word(problems, PLACEMENT));
        draft.http2 = keyed::read::<Http2Spec>(&mut section, problems).boxed();
        section.finish(&mut self.problems);
    }
}

/// Writes the table `[http2]` of a plan with HTTP/2. Without `streams`, their number follows from
/// the load.
pub(super) fn explain(plan: &Plan, streams: Option<u32>, out: &mut String) {
    let spec = plan.http2.as_deref().copied().unwrap_or_default();
    out.push_str("\n[http2]\n");
    if let Some(streams) = streams {
        line(out, "streams", streams);
    }
    if plan.placement != Placement::Spread {
        line(out, "placement", quoted(word(PLACEMENT, &plan.placement)));
    }
    keyed::explain(&spec, out);
}
