//! The exit codes, one table: the help text, `docs/options.md` and the tests read it.

use prony_core::summary::{Limit, Summary};

/// How prony ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The run was made and its figures can be defended.
    Done = 0,
    /// No request succeeded.
    NoAnswer = 1,
    /// Bad usage or input: no load was started.
    Usage = 2,
    /// The run was made, but a report could not be written.
    Output = 3,
    /// The run was made, but its figures cannot be defended.
    NotValid = 98,
    /// The user ended the run before its time.
    Interrupted = 130,
}

impl Exit {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 6] =
        [Self::Done, Self::NoAnswer, Self::Usage, Self::Output, Self::NotValid, Self::Interrupted];

    /// The number that the shell sees.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// What it means, for users.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "the run was made and is valid",
            Self::NoAnswer => "no request succeeded",
            Self::Usage => "bad usage or input; no load was started",
            Self::Output => "the run was made, but a report could not be written",
            Self::NotValid => {
                "the run is not valid, for the reasons of its verdict (unless --accept-invalid)"
            }
            Self::Interrupted => "interrupted; what was measured is reported",
        }
    }

    /// How a finished run ends. An interruption comes first, then a meter that ran out of means
    /// (which is never the target's fault), then a silent target, then every other doubt.
    pub fn of(summary: &Summary, accept_invalid: bool) -> Self {
        if summary.run.interrupted {
            return Self::Interrupted;
        }
        let judgement = summary.verdict();
        let ran_out = |l: &Limit| matches!(l, Limit::RanOut { .. });
        if !accept_invalid && judgement.reasons.iter().any(ran_out) {
            Self::NotValid
        } else if summary.main.replies == 0 {
            Self::NoAnswer
        } else if accept_invalid || judgement.is_valid() {
            Self::Done
        } else {
            Self::NotValid
        }
    }
}

#[cfg(test)]
mod tests {
    use prony_core::fault::Fault;
    use prony_core::record::Tally;
    use prony_core::summary::{Meter, RunInfo};
    use prony_core::units::Span;

    use super::*;
    use crate::plan_file;

    /// A run with so many successes; what else happened is up to the caller.
    fn run(replies: u64, change: impl FnOnce(&mut Tally, &mut Meter, &mut RunInfo)) -> Summary {
        let plan = plan_file::tests::plan("url = 'http://h/'");
        let (mut tally, mut meter, mut info) =
            (Tally::default(), Meter::default(), RunInfo::default());
        (tally.started, tally.sent, tally.replies) = (replies, replies, replies);
        meter.wall = Span::from_secs(10);
        change(&mut tally, &mut meter, &mut info);
        Summary::from_parts(plan, info, vec![(None, tally, meter)])
    }

    fn busy(meter: &mut Meter) {
        meter.cpu_user = meter.wall;
    }

    fn without_descriptors(tally: &mut Tally) {
        tally.started += 7;
        tally.failed += 7;
        tally.faults[Fault::NoDescriptors as usize] += 7;
    }

    #[test]
    fn a_run_ends_as_the_table_says() {
        let of = |summary: Summary| (Exit::of(&summary, false), Exit::of(&summary, true));
        assert_eq!(of(run(5, |_, _, _| {})), (Exit::Done, Exit::Done));
        assert_eq!(of(run(0, |_, _, _| {})), (Exit::NoAnswer, Exit::NoAnswer));
        assert_eq!(of(run(50, |_, m, _| busy(m))), (Exit::NotValid, Exit::Done));
        // Nobody answered: that the meter was busy as well is the lesser news.
        assert_eq!(of(run(0, |_, m, _| busy(m))), (Exit::NoAnswer, Exit::NoAnswer));
        // The meter ran out of means: not the target's fault.
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
}
