//! The exit codes, one table: the help text, `docs/options.md` and the tests read it.

use prony_core::summary::{Limit, Summary, Verdict};

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
    /// The meter itself was the bottleneck.
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
            Self::NoAnswer => "the target never answered: no request succeeded",
            Self::Usage => "bad usage or input; no load was started",
            Self::Output => "the run was made, but a report could not be written",
            Self::NotValid => {
                "the meter was the bottleneck: the run is not valid (unless --accept-invalid)"
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
        let limits = match summary.verdict() {
            Verdict::ClientLimited { reasons } if !accept_invalid => reasons,
            _ => Vec::new(),
        };
        if limits.iter().any(|l| matches!(l, Limit::RanOut { .. })) {
            Self::NotValid
        } else if summary.main.replies == 0 {
            Self::NoAnswer
        } else if limits.is_empty() {
            Self::Done
        } else {
            Self::NotValid
        }
    }
}
