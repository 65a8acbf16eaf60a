//! The exit codes. The help text, `docs/options.md` and the tests use this table.

use prony_report::phased::Phased;
pub use prony_stats::summary::Accepted;
use prony_stats::summary::{Conclusion, Reason, Summary, Weight};

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The run finished and is valid.
    Done = 0,
    /// No request succeeded.
    NoAnswer = 1,
    /// Invalid usage or input; no load was started.
    Usage = 2,
    /// The run finished, but a report could not be written.
    Output = 3,
    /// A threshold is undecided, as the sample is too small.
    Undecided = 97,
    /// The run is invalid, and has no thresholds, or some that the meter leaves undecided.
    NotValid = 98,
    /// A threshold is missed.
    Missed = 99,
    /// A comparison cannot tell whether a change is accepted.
    CannotTell = 125,
    /// The user stopped the run early.
    Interrupted = 130,
}

impl Exit {
    /// All exit codes, in ascending order.
    pub const ALL: [Self; 9] = [
        Self::Done,
        Self::NoAnswer,
        Self::Usage,
        Self::Output,
        Self::Undecided,
        Self::NotValid,
        Self::Missed,
        Self::CannotTell,
        Self::Interrupted,
    ];

    /// The number for the shell.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The meaning, for users.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "the run finished and is valid, or all its thresholds are met",
            Self::NoAnswer => "no request succeeded",
            Self::Usage => "invalid usage or input; no load was started",
            Self::Output => "the run finished, but a report could not be written",
            Self::NotValid => {
                "the run is invalid, and thresholds do not decide (--accept-invalid: 0)"
            }
            Self::Undecided => "a threshold is undecided (with --undecided pass: 0)",
            Self::Missed => "a threshold is missed, or a change is not accepted (--fail-if)",
            Self::CannotTell => "a comparison cannot tell whether a change is accepted",
            Self::Interrupted => "interrupted; the report covers the time until then",
        }
    }

    /// The exit code of a finished run. In order of precedence: interrupted; no successful request,
    /// unless a resource of the client was exhausted; a missed threshold; a verdict that weighs
    /// ([`Conclusion`]); an undecided threshold.
    pub fn of(summary: &Summary, accepted: Accepted) -> Self {
        Self::of_all(&[summary], accepted)
    }

    /// The exit code of a plan with phases.
    pub fn of_phases(report: &Phased, accepted: Accepted) -> Self {
        let runs: Vec<&Summary> = report.runs().map(|(_, summary)| summary).collect();
        if report.interrupted { Self::Interrupted } else { Self::of_all(&runs, accepted) }
    }

    /// The exit code of several runs that belong together: that of the gravest, in the same order.
    pub fn of_all(summaries: &[&Summary], accepted: Accepted) -> Self {
        if summaries.iter().any(|summary| summary.run.interrupted) {
            return Self::Interrupted;
        }
        let conclude = |summary: &&Summary| match summary.run.accepted == accepted {
            true => summary.conclusion(),
            false => {
                let mut summary = (*summary).clone();
                summary.run.accepted = accepted;
                summary.conclusion()
            }
        };
        let all: Vec<Conclusion> = summaries.iter().map(conclude).collect();
        // What a client without resources did not get is not the target's fault.
        let is_exhausted = |r: &Reason| matches!(r, Reason::ResourceExhausted { .. });
        let is_silent = |(summary, all): (&&Summary, &Conclusion)| {
            let exhausted = !accepted.invalid && all.judgment.reasons.iter().any(is_exhausted);
            summary.main.replies == 0 && !exhausted
        };
        if summaries.iter().zip(&all).any(is_silent) {
            return Self::NoAnswer;
        }
        match () {
            () if all.iter().any(Conclusion::misses) => Self::Missed,
            () if all.iter().any(|all| all.weight == Weight::Failed) => Self::NotValid,
            () if all.iter().any(Conclusion::leaves_undecided) => Self::Undecided,
            () => Self::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use prony_base::fault::Fault;
    use prony_base::meter::WorkerStats;
    use prony_base::units::Span;
    use prony_report::{Format, Style};
    use prony_server::serve::{Latency, ServerBehavior};
    use prony_stats::summary::RunInfo;
    use prony_tally::record::Tally;

    use super::*;
    use crate::plan_file;

    /// A run with this number of successes, and with the caller's changes.
    fn run(
        replies: u64,
        change: impl FnOnce(&mut Tally, &mut WorkerStats, &mut RunInfo),
    ) -> Summary {
        let plan = plan_file::tests::plan("url = 'http://h/'");
        let (mut tally, mut meter, mut info) =
            (Tally::default(), WorkerStats::default(), RunInfo::default());
        (tally.started, tally.sent, tally.replies) = (replies, replies, replies);
        meter.wall = Span::from_secs(10);
        change(&mut tally, &mut meter, &mut info);
        Summary::from_parts(plan, info, vec![(None, tally, meter)])
    }

    fn busy(meter: &mut WorkerStats) {
        meter.cpu_user = meter.wall;
    }

    fn without_descriptors(tally: &mut Tally) {
        tally.started += 7;
        tally.failed += 7;
        tally.faults[Fault::NoDescriptors as usize] += 7;
    }

    #[test]
    fn chooses_the_exit_code_of_a_run() {
        let of = |summary: Summary| {
            let accepted = |invalid| Accepted { invalid, ..Accepted::default() };
            (Exit::of(&summary, accepted(false)), Exit::of(&summary, accepted(true)))
        };
        assert_eq!(of(run(50, |_, _, _| {})), (Exit::Done, Exit::Done));
        assert_eq!(of(run(0, |_, _, _| {})), (Exit::NoAnswer, Exit::NoAnswer));
        assert_eq!(of(run(50, |_, m, _| busy(m))), (Exit::NotValid, Exit::Done));
        // No replies take precedence over a busy client.
        assert_eq!(of(run(0, |_, m, _| busy(m))), (Exit::NoAnswer, Exit::NoAnswer));
        // Exhausted resources of the client are not the target's fault.
        let out = |replies| run(replies, |t, _, _| without_descriptors(t));
        assert_eq!(of(out(5)), (Exit::NotValid, Exit::Done));
        assert_eq!(of(out(0)), (Exit::NotValid, Exit::NoAnswer));
        let failed = |t: &mut Tally| {
            (t.started, t.failed, t.faults[Fault::Reset as usize]) = (20, 15, 15);
        };
        assert_eq!(of(run(5, |t, _, _| failed(t))), (Exit::NotValid, Exit::Done));
        let interrupted = |replies| run(replies, |_, _, info| info.interrupted = true);
        assert_eq!(of(interrupted(5)), (Exit::Interrupted, Exit::Interrupted));
        assert_eq!(of(interrupted(0)), (Exit::Interrupted, Exit::Interrupted));
    }

    #[test]
    fn thresholds_decide_the_exit_code() {
        let of = |replies: u64, threshold: &str, undecided: bool| {
            let mut summary = run(replies, |_, _, _| {});
            summary.plan.thresholds = vec![threshold.parse().expect("a threshold")];
            Exit::of(&summary, Accepted { invalid: false, undecided })
        };
        assert_eq!(of(50, "errors = 0", false), Exit::Done);
        assert_eq!(of(50, "requests > 50", false), Exit::Missed);
        assert_eq!(of(50, "p99 < 3ms", false), Exit::Undecided);
        assert_eq!(of(50, "p99 < 3ms", true), Exit::Done);
        assert_eq!(of(0, "requests > 50", false), Exit::NoAnswer);
        // A busy meter makes fewer requests, not more, and decides what it does itself.
        let of_busy = |threshold: &str, invalid: bool| {
            let mut summary = run(50, |_, meter, _| busy(meter));
            summary.plan.thresholds = vec![threshold.parse().expect("a threshold")];
            Exit::of(&summary, Accepted { invalid, undecided: false })
        };
        assert_eq!(of_busy("requests > 50", false), Exit::NotValid);
        assert_eq!(of_busy("requests > 50", true), Exit::Missed);
        assert_eq!(of_busy("requests >= 50", false), Exit::Done);
        assert_eq!(of_busy("busy < 80%", false), Exit::Missed);
        assert_eq!(of_busy("errors = 0", false), Exit::Done);
    }

    /// A simulated run with these thresholds: 500 requests per second for 4 s, with exponential
    /// times of 2 ms, and with the caller's changes.
    fn simulated(thresholds: &str, change: impl FnOnce(&mut WorkerStats)) -> Summary {
        let text = format!(
            "url = 'http://h/'\nrate = 500\nduration = 4\nconnections = 100\n\
             thresholds = [{thresholds}]"
        );
        let plan = plan_file::tests::plan(&text);
        let latency = Latency::Exponential(Span::from_millis(2));
        let server = ServerBehavior { latency, ..ServerBehavior::default() };
        let mut parts = prony_sim::simulate(&plan, 1, 7, &server, &prony_sim::Extras::default());
        change(&mut parts[0].2);
        Summary::from_parts(plan, RunInfo::default(), parts)
    }

    /// Every report of a saved run says what that of the run said, and so does the exit code.
    #[test]
    fn saved_runs_exit_as_they_did() {
        let mut interrupted = simulated("'p99 < 1s'", |_| {});
        interrupted.run.interrupted = true;
        for (mut summary, code) in [
            (simulated("", |_| {}), Exit::Done),
            (simulated("", busy), Exit::NotValid),
            (simulated("'p99 < 1s'", |_| {}), Exit::Done),
            (simulated("'p99 < 1s', 'errors < 1%'", busy), Exit::Done),
            (simulated("'p50 < 100us'", |_| {}), Exit::Missed),
            (simulated("'busy < 80%', 'p99 < 9300us'", busy), Exit::Missed),
            (simulated("'p99 < 9300us', 'p99 < 1s'", |_| {}), Exit::Undecided),
            (simulated("'p99 < 9300us'", busy), Exit::Undecided),
            (simulated("'rate > 600', 'p99 < 1s'", busy), Exit::NotValid),
            (interrupted, Exit::Interrupted),
        ] {
            assert_eq!(Exit::of(&summary, Accepted::default()), code, "{:?}", summary.thresholds());
            for [invalid, undecided] in [[false, false], [false, true], [true, false], [true; 2]] {
                let accepted = Accepted { invalid, undecided };
                summary.run.accepted = accepted;
                let render = |format, summary: &Summary| {
                    let bytes = prony_report::render(format, summary, &Style::default());
                    String::from_utf8(bytes).expect("text")
                };
                let saved = prony_report::json::read(&render(Format::Json, &summary));
                let saved = saved.expect("a report");
                assert_eq!(saved.run.accepted, accepted);
                assert_eq!(saved.conclusion(), summary.conclusion());
                assert_eq!(Exit::of(&saved, accepted), Exit::of(&summary, accepted));
                for format in [Format::Text, Format::Junit, Format::Markdown] {
                    assert_eq!(render(format, &saved), render(format, &summary));
                }
                let lines = prony_report::github::of_run;
                assert_eq!(lines(&saved), lines(&summary));
            }
        }
    }

    #[test]
    fn several_runs_exit_with_the_code_of_the_gravest() {
        let good = run(50, |_, _, _| {});
        let interrupted = run(50, |_, _, info| info.interrupted = true);
        let exhausted = run(50, |t, _, _| without_descriptors(t));
        let silent = run(0, |_, _, _| {});
        let busy = run(50, |_, meter, _| busy(meter));
        let with = |threshold: &str| {
            let mut summary = run(50, |_, _, _| {});
            summary.plan.thresholds = vec![threshold.parse().expect("a threshold")];
            summary
        };
        let (missed, undecided) = (with("requests > 50"), with("p99 < 3ms"));
        // Each outweighs all after it.
        let order = [&interrupted, &silent, &missed, &exhausted, &busy, &undecided, &good];
        let codes = [
            Exit::Interrupted,
            Exit::NoAnswer,
            Exit::Missed,
            Exit::NotValid,
            Exit::NotValid,
            Exit::Undecided,
            Exit::Done,
        ];
        for (i, code) in codes.into_iter().enumerate() {
            let mut rest = order[i..].to_vec();
            rest.reverse();
            assert_eq!(Exit::of_all(&rest, Accepted::default()), code, "{i}");
            assert_eq!(Exit::of_all(&order[i..], Accepted::default()), code, "{i}");
        }
        assert_eq!(Exit::of_all(&[], Accepted::default()), Exit::Done);
    }
}
