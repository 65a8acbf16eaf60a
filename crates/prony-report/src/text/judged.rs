//! The verdict, and what it says of the figures.

use prony_stats::summary::{Summary, Verdict};

use super::page::{Ink, Page};
use crate::words;

pub(super) fn verdict(page: &mut Page, summary: &Summary) {
    let judgment = summary.verdict();
    let word = judgment.verdict.word();
    let bottleneck = summary.bottleneck(&judgment);
    if judgment.is_valid() {
        let wait = bottleneck.as_ref().and_then(words::longest_wait);
        let remarks: Vec<String> = words::failures(summary).into_iter().chain(wait).collect();
        if remarks.is_empty() {
            page.inked("verdict", word, Ink::Good);
        } else {
            page.inked("verdict", &format!("{word} ({})", remarks.join("; ")), Ink::Warning);
        }
    } else {
        let means = words::verdict(judgment.verdict);
        page.inked("verdict", &format!("{word}: {means}"), Ink::Bad);
        for reason in &judgment.reasons {
            page.line("", &words::reason(reason, summary));
        }
        if let Some(cause) = words::shared_host(&judgment, summary) {
            page.line("", &cause);
        }
        let is_named = judgment.verdict == Verdict::TargetFailed;
        if let Some(failures) = words::failures(summary).filter(|_| !is_named) {
            page.line("", &failures);
        }
    }
    if let Some(added) = words::meter_added(summary) {
        page.line("meter added", &added);
    }
    let parts = words::meter_added_to_parts(summary);
    for (part, added) in &parts {
        page.line("", &format!("{part}: {added}"));
    }
    // The verdict has already named the meter or the failures.
    let is_named = [Verdict::ClientLimited, Verdict::TargetFailed].contains(&judgment.verdict);
    if let Some(bottleneck) = bottleneck.filter(|_| !is_named) {
        page.line("bottleneck", &words::bottleneck(&bottleneck));
    }
}
