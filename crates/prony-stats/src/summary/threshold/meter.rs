//! What the faults of the meter leave of a figure.
//!
//! Late sends and reads make measured times longer, never shorter, as long as the load was offered.
//! So the true figure of a time is at most the measured one, and at least that of the times without
//! the most that the meter can have added. If a part of the load was not offered, figures of the
//! asked load are at least as bad as those measured. If the meter lost something, nothing is known.
//!
//! A closed loop is offered as long as its users wait for their replies: what a late meter adds is
//! a part of the time that they wait. By Little's law, the mean time of `n` users is `n` over their
//! throughput, and a meter that adds nothing lowers no throughput.

use prony_plan::threshold::{Counted, Distortion, Figure, Statistic, Timed};

use super::super::Summary;
use super::super::verdict::Reason;

/// What is wrong with the meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    /// It sent or read late.
    pub(super) late: bool,
    /// It did not offer the whole load.
    pub(super) short: bool,
    /// It lost time, or requests.
    pub(super) lost: bool,
}

/// On which side of a measured figure the true one can lie. The sides of what the meter itself
/// does, and of facts, are both known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Error {
    /// It is as measured, whatever the meter did.
    None,
    /// A late meter makes it larger, and less load smaller: a time, a share of failures.
    Larger,
    /// A late meter makes it larger or smaller: gaps between messages.
    Any,
    /// A late meter makes it smaller: a rate, a number of replies.
    Smaller,
    /// A late meter does not change it, and less load makes it smaller: a share of bad replies.
    OfBad,
    /// The same, and less load makes it larger: a share of good replies.
    OfGood,
    /// A late meter makes it smaller, and less load larger: a share of replies that came in time.
    InTime,
}

impl Faults {
    pub(super) fn add(&mut self, reason: &Reason) {
        match reason {
            Reason::CpuSaturated { .. }
            | Reason::SendLag { .. }
            | Reason::CpuThrottled { .. }
            | Reason::CpuStolen { .. }
            | Reason::RunQueueDelay { .. }
            | Reason::EventLoopStall { .. } => self.late = true,
            Reason::RateMissed { .. }
            | Reason::ResourceExhausted { .. }
            | Reason::Partial { .. }
            | Reason::UnreadLines { .. } => self.short = true,
            Reason::LittlesLawMismatch { .. } => self.lost = true,
            Reason::OnHost { reason, .. } => self.add(reason),
            Reason::Failures { .. }
            | Reason::TargetUnavailable { .. }
            | Reason::Interrupted
            | Reason::LevelShift(_)
            | Reason::Autocorrelated { .. }
            | Reason::TooFewSamples { .. }
            | Reason::IntervalTooWide { .. } => {}
        }
    }

    /// Whether the true figure is certainly not above the measured one.
    pub(super) fn leaves_upper(self, error: Error) -> bool {
        let Self { late, short, lost } = self;
        match error {
            Error::None => true,
            Error::Larger | Error::OfBad => !short && !lost,
            Error::Any | Error::Smaller => !late && !short && !lost,
            Error::OfGood => !lost,
            Error::InTime => !late && !lost,
        }
    }

    /// Whether the true figure is certainly not below the measured one, if what a late meter adds
    /// is taken off.
    pub(super) fn leaves_lower(self, error: Error) -> bool {
        let Self { late, short, lost } = self;
        match error {
            Error::None => true,
            Error::Larger | Error::OfBad | Error::Smaller => !lost,
            Error::Any => !late && !lost,
            Error::OfGood | Error::InTime => !short && !lost,
        }
    }
}

impl Error {
    /// That of a figure.
    pub(super) fn of(figure: Figure) -> Self {
        match figure {
            Figure::Time(Timed::SendLag | Timed::MessageLag, _) => Self::None,
            // What waits to be read arrives without a gap.
            Figure::Time(
                Timed::MessageGap | Timed::ChunkGap | Timed::Itl | Timed::Transfer | Timed::Spread,
                _,
            )
            | Figure::Time(_, Statistic::Stdev) => Self::Any,
            Figure::Time(..) => Self::Larger,
            Figure::Count(counted) => match counted {
                Counted::Errors | Counted::Timeouts | Counted::Error(_) | Counted::Unfinished => {
                    Self::Larger
                }
                Counted::Retries | Counted::MessagesUnsent => Self::OfBad,
                Counted::SessionsFailed | Counted::GroupsFailed => Self::Larger,
                Counted::Status(status) if status < 400 => Self::OfGood,
                Counted::StatusClass(class) if class < 4 => Self::OfGood,
                Counted::Status(_) | Counted::StatusClass(_) => Self::OfBad,
                Counted::Check | Counted::Checks => Self::OfGood,
                Counted::Good | Counted::SessionsCompleted | Counted::GroupsCompleted => {
                    Self::InTime
                }
            },
            Figure::Scalar(scalar) => match scalar.distortion() {
                Distortion::Exact => Self::None,
                Distortion::Smaller => Self::Smaller,
                Distortion::Any => Self::Any,
            },
        }
    }
}

impl Summary {
    /// What is wrong with the meter.
    pub(super) fn faults_of_meter(&self) -> Faults {
        let mut faults = Faults::default();
        self.reasons_of_load().iter().for_each(|reason| faults.add(reason));
        faults
    }
}
