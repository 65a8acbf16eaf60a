//! htstress's output, byte for byte, and prony's additions.

use std::fmt::Write as _;

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_stats::summary::Summary;

use prony_report::{self, Style, words};

/// The distance of the lines of progress if there is no number of requests.
const ENDLESS_EVERY: u64 = 1_000;

/// The lines of progress: `N requests` is printed after request N + 1 has ended.
#[derive(Clone, Debug)]
pub(super) struct Ticks {
    /// The distance of the lines; 0 = there are none.
    every: u64,
    /// The count of the next line.
    next: u64,
    /// The last count with a line: there is none after the last request.
    last: u64,
}

impl Ticks {
    /// The lines of a run with this number of requests; 0 = unlimited.
    pub(super) fn new(number: u64) -> Self {
        let (every, last) = match number {
            0 => (ENDLESS_EVERY, u64::MAX),
            n => (n / 10, n.saturating_sub(2)),
        };
        Self { every, next: 0, last }
    }

    /// The lines that are due when this number of requests has ended, without those printed before.
    pub(super) fn until(&mut self, ended: u64) -> String {
        let mut lines = String::new();
        while self.every > 0 && self.next < ended && self.next <= self.last {
            let _ = writeln!(lines, "{} requests", self.next);
            self.next += self.every;
        }
        lines
    }
}

/// Requests with a reply, as htstress counts them.
pub(super) fn requests(summary: &Summary) -> u64 {
    good(summary) + bad(summary)
}

fn good(summary: &Summary) -> u64 {
    summary.main.replies
}

/// Replies with a status of 400 or more, and invalid ones: malformed, empty or truncated.
fn bad(summary: &Summary) -> u64 {
    summary.main.failed - errors(summary)
}

/// Requests without a reply: refused, reset, timed out.
fn errors(summary: &Summary) -> u64 {
    summary.main.lost()
}

/// The most frequent error of the lost requests, as the end of a sentence.
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

/// From the first connect to the end of the last request. If the user stopped the run, the replies
/// during the drain count, and so does its time.
fn length(summary: &Summary) -> Span {
    let window = summary.main.window();
    if !summary.run.interrupted {
        return window;
    }
    summary.workers.iter().map(|m| m.wall).max().unwrap_or(window).max(window)
}

/// Latencies, kinds of errors, and what prony reports of the meter.
pub(super) fn extras(summary: &Summary, style: Style) -> String {
    prony_report::appendix(summary, style, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts with a line, if the number of ended requests takes these values.
    fn check(number: u64, steps: &[u64]) -> String {
        let mut ticks = Ticks::new(number);
        let lines: Vec<String> = steps.iter().map(|&n| ticks.until(n)).collect();
        lines.join("|").replace(" requests\n", " ")
    }

    #[test]
    fn prints_a_line_after_the_next_request() {
        assert_eq!(check(100, &[0, 1, 10, 11, 50, 100]), "|0 ||10 |20 30 40 |50 60 70 80 90 ");
        assert_eq!(check(0, &[0, 1, 1_000, 1_001, 3_000]), "|0 ||1000 |2000 ");
    }

    #[test]
    fn prints_no_line_after_the_last_request() {
        assert_eq!(check(10, &[10]), "0 1 2 3 4 5 6 7 8 ");
        assert_eq!(check(25, &[25]), "0 2 4 6 8 10 12 14 16 18 20 22 ");
        assert_eq!(check(9, &[9]), "");
    }
}
