//! What htstress prints, to the byte, and what prony adds.

use std::fmt::Write as _;

use prony_core::fault::Fault;
use prony_core::summary::Summary;
use prony_core::units::Span;

use prony_report::{self, Style, words};

/// Lines of progress without a number of requests come after so many.
const ENDLESS_EVERY: u64 = 1_000;

/// The lines of progress: `N requests`, when the request after the N-th has ended.
#[derive(Clone, Debug)]
pub(super) struct Ticks {
    /// The distance of the lines; 0 = there are none.
    every: u64,
    /// The count of the next line.
    next: u64,
    /// The greatest count that gets a line: the last request of all ends without one.
    last: u64,
}

impl Ticks {
    /// Those of a run of so many requests; 0 = without end.
    pub(super) fn new(number: u64) -> Self {
        let (every, last) = match number {
            0 => (ENDLESS_EVERY, u64::MAX),
            n => (n / 10, n.saturating_sub(2)),
        };
        Self { every, next: 0, last }
    }

    /// The lines that are due when so many requests have ended, and were not told before.
    pub(super) fn until(&mut self, ended: u64) -> String {
        let mut lines = String::new();
        while self.every > 0 && self.next < ended && self.next <= self.last {
            let _ = writeln!(lines, "{} requests", self.next);
            self.next += self.every;
        }
        lines
    }
}

/// Requests that were answered: what htstress counts.
pub(super) fn requests(summary: &Summary) -> u64 {
    good(summary) + bad(summary)
}

fn good(summary: &Summary) -> u64 {
    summary.main.replies
}

/// Statuses from 400 on, and what is no reply at all: junk, nothing, or one that is cut off.
fn bad(summary: &Summary) -> u64 {
    summary.main.failed - errors(summary)
}

/// Requests that no server has answered: refused, reset, timed out.
fn errors(summary: &Summary) -> u64 {
    summary.main.lost()
}

/// What most of the lost requests were lost of, as the end of a sentence.
pub(super) fn reason(summary: &Summary) -> String {
    let lost = Fault::ALL.into_iter().filter(|f| f.is_lost());
    let most = lost.map(|f| (summary.main.fault(f), f)).max_by_key(|&(n, _)| n);
    most.filter(|&(n, _)| n > 0)
        .map_or_else(String::new, |(_, f)| format!(": {}", words::sentence(f)))
}

/// The result.
pub(super) fn block(summary: &Summary) -> String {
    let (good, bad, errors) = (good(summary), bad(summary), errors(summary));
    let requests = good + bad;
    let percent = |n: u64| (u128::from(n) * 100).checked_div(requests.into()).unwrap_or(0);
    let seconds = length(summary).as_secs_f64();
    let rate = if seconds > 0.0 { requests as f64 / seconds } else { 0.0 };
    format!(
        "\n\
         requests:      {requests}\n\
         good requests: {good} [{}%]\n\
         bad requests:  {bad} [{}%]\n\
         socket errors: {errors} [{}%]\n\
         seconds:       {seconds:.3}\n\
         requests/sec:  {rate:.3}\n\
         \n",
        percent(good),
        percent(bad),
        percent(errors),
    )
}

/// From the first connect to the end of the last request. Where the user ended the run, the
/// replies that were waited for count, and so does their time.
fn length(summary: &Summary) -> Span {
    let window = summary.main.window();
    if !summary.run.interrupted {
        return window;
    }
    summary.meters.iter().map(|m| m.wall).max().unwrap_or(window).max(window)
}

/// Latencies, kinds of errors, what the meter says of itself.
pub(super) fn extras(summary: &Summary, style: Style) -> String {
    prony_report::appendix(summary, style, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts that get a line when the count of ended requests goes these steps.
    fn check(number: u64, steps: &[u64]) -> String {
        let mut ticks = Ticks::new(number);
        let lines: Vec<String> = steps.iter().map(|&n| ticks.until(n)).collect();
        lines.join("|").replace(" requests\n", " ")
    }

    #[test]
    fn lines_come_after_the_request_that_follows_their_number() {
        assert_eq!(check(100, &[0, 1, 10, 11, 50, 100]), "|0 ||10 |20 30 40 |50 60 70 80 90 ");
        assert_eq!(check(0, &[0, 1, 1_000, 1_001, 3_000]), "|0 ||1000 |2000 ");
    }

    #[test]
    fn the_last_request_has_none() {
        assert_eq!(check(10, &[10]), "0 1 2 3 4 5 6 7 8 ");
        assert_eq!(check(25, &[25]), "0 2 4 6 8 10 12 14 16 18 20 22 ");
        assert_eq!(check(9, &[9]), "");
    }
}
