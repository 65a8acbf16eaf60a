//! The table `[http2]` of a plan file.

use prony_core::plan::{Http2Spec, Placement, Plan};
use prony_core::units;
use toml::de::DeValue;

use super::reader::Section;
use super::requests::Requests;
use super::words::{HPACK, PLACEMENT, word};
use super::written::{line, quoted};
use crate::builder::Draft;
use crate::values;

const NUMBER: &str = "a number";
const SIZE: &str = "a size in bytes, such as 65536 or \"64k\"";

impl<'a> Requests<'a> {
    /// Reads the table `[http2]`, if it exists.
    pub(super) fn http2(&mut self, top: &mut Section<'a>, draft: &mut Draft) {
        let Some(item) = top.take("http2") else { return };
        let DeValue::Table(table) = item.value else {
            item.wrong_type(&mut self.problems, "a table: [http2]");
            return;
        };
        if !draft.http.is_some_and(|http| http.is_http2()) {
            let what =
                "[http2] has no effect: add `http = \"2\"` (or \"2-only\") before the tables";
            self.problems.add(item.at, what);
        }
        let mut section = Section::new("[http2]", item.at, table);
        let problems = &mut self.problems;
        let streams = section.take("streams");
        let streams = streams.and_then(|i| i.parse(problems, NUMBER, values::pipeline));
        draft.pipeline = streams.or(draft.pipeline);
        draft.placement = section.take("placement").and_then(|i| i.word(problems, PLACEMENT));
        let mut size = |key, usual: u32| {
            let parse = |text: &str| match units::parse_size(text) {
                Ok(n) => u32::try_from(n).map_err(|_| "must be below 4g".to_owned()),
                Err(e) => Err(e.to_string()),
            };
            section.take(key).and_then(|i| i.parse(problems, SIZE, parse)).unwrap_or(usual)
        };
        let default = Http2Spec::default();
        let window = size("window", default.window);
        let table_size = size("header-table-size", default.table_size);
        let frame_size = size("max-frame-size", default.frame_size);
        let waits = section.take("wait-settings").and_then(|i| i.boolean(problems));
        let hpack = section.take("hpack").and_then(|i| i.word(problems, HPACK));
        let retries = section.take("retry-refused").and_then(|i| i.boolean(problems));
        let keepalive = section.take("keepalive");
        let keepalive = keepalive.and_then(|i| i.parse(problems, "a time", values::positive_span));
        section.finish(&mut self.problems);
        let spec = Http2Spec {
            window,
            table_size,
            frame_size,
            wait_settings: waits.unwrap_or(false),
            is_static: hpack.unwrap_or(false),
            retry_refused: retries.unwrap_or(false),
            keepalive,
        };
        draft.http2 = (spec != default).then(|| Box::new(spec));
    }
}

/// Writes the table `[http2]` of a plan with HTTP/2. Without `streams`, their number follows from
/// the load.
pub(super) fn explain(plan: &Plan, streams: Option<u32>, out: &mut String) {
    let spec = plan.http2.as_deref().copied().unwrap_or_default();
    let default = Http2Spec::default();
    out.push_str("\n[http2]\n");
    if let Some(streams) = streams {
        line(out, "streams", streams);
    }
    if plan.placement != Placement::Spread {
        line(out, "placement", quoted(word(PLACEMENT, &plan.placement)));
    }
    for (key, value, usual) in [
        ("window", spec.window, default.window),
        ("header-table-size", spec.table_size, default.table_size),
        ("max-frame-size", spec.frame_size, default.frame_size),
    ] {
        if value != usual {
            line(out, key, value);
        }
    }
    if spec.wait_settings {
        line(out, "wait-settings", true);
    }
    if spec.retry_refused {
        line(out, "retry-refused", true);
    }
    if let Some(keepalive) = spec.keepalive {
        line(out, "keepalive", quoted(&keepalive.to_string()));
    }
    if spec.is_static {
        line(out, "hpack", quoted(word(HPACK, &spec.is_static)));
    }
}
