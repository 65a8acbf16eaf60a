//! What the fuzz target of saved shares does with its input.

use prony_report::{Format, Style, json, render};
use prony_run::merge::merge;

/// Fuzz target: the reports of shares, apart by lines of `---`. What can be read can be written and
/// read again, with the same figures; what can be merged can be written in every format.
///
/// # Panics
/// When it is not so.
pub(crate) fn parts(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut parts = Vec::new();
    for (i, text) in text.split("\n---\n").enumerate() {
        let Ok(summary) = json::read(text) else { continue };
        let written = render(Format::Json, &summary, &Style::default());
        let written = String::from_utf8(written).expect("JSON is text");
        let again = json::read(&written).unwrap_or_else(|why| panic!("{why}\n{written}"));
        assert_eq!(again.main, summary.main, "{written}");
        assert_eq!(again.warmup, summary.warmup, "{written}");
        parts.push((format!("part {}", i + 1), summary));
    }
    if let Ok(whole) = merge(parts, true) {
        for format in [Format::Text, Format::Json, Format::Csv, Format::Hgrm] {
            assert!(!render(format, &whole, &Style::default()).is_empty());
        }
    }
}
