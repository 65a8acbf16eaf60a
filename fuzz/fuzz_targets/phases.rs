#![no_main]

use prony_report::{Format, Style, json};

// The saved report of a plan with phases. `parts` is that of a run.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(report) = json::phased::read(text) else { return };
    for format in [Format::Text, Format::Json, Format::Markdown, Format::Junit, Format::Html] {
        assert!(report.render(format, &Style::default()).is_some());
    }
});
