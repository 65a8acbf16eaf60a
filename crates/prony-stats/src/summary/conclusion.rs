//! What a run comes to for those who asked for it: one rule for the exit code and for every report
//! that a build server reads.
//!
//! Thresholds decide by themselves: each says what is certain of its figure, whatever the verdict
//! says about the precision of others. So a run whose thresholds are all met has succeeded although
//! the meter was late, or the target changed. The verdict decides where there are no thresholds,
//! where the meter is the reason that one could not be decided, and where the target failed: then
//! the figures are those of a minority.

use super::{Checked, Doubt, Judgment, Outcome, Summary, Verdict};

/// How much a verdict or a threshold weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// All is well, or as the plan asked for.
    Fine,
    /// It is said, but decides nothing: the thresholds do.
    Said,
    /// It would count if the user did not accept it.
    Accepted,
    /// It is not known whether all is well.
    Unknown,
    /// All is not well.
    Failed,
}

/// What a run comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// The verdict on the run.
    pub judgment: Judgment,
    /// How much it weighs: [`Weight::Failed`] unless it is valid, accepted, or thresholds decide.
    pub weight: Weight,
    /// The thresholds, and how much each weighs.
    pub thresholds: Vec<(Checked, Weight)>,
}

impl Summary {
    /// What the run comes to.
    pub fn conclusion(&self) -> Conclusion {
        let (judgment, accepted) = (self.verdict(), self.run.accepted);
        let checked = self.thresholds();
        let is_of_meter = |checked: &Checked| checked.doubt == Some(Doubt::Meter);
        let decide_alone = !checked.is_empty()
            && !checked.iter().any(is_of_meter)
            && !matches!(judgment.verdict, Verdict::TargetFailed | Verdict::Interrupted);
        let weight = match () {
            () if self.has_what_was_asked(&judgment) => Weight::Fine,
            () if accepted.invalid => Weight::Accepted,
            () if decide_alone => Weight::Said,
            () => Weight::Failed,
        };
        let weigh = |checked: Checked| {
            let weight = match checked.outcome {
                Outcome::Met => Weight::Fine,
                Outcome::Missed => Weight::Failed,
                Outcome::Undecided if accepted.undecided => Weight::Accepted,
                Outcome::Undecided => Weight::Unknown,
            };
            (checked, weight)
        };
        Conclusion { judgment, weight, thresholds: checked.into_iter().map(weigh).collect() }
    }
}

impl Conclusion {
    /// Whether a threshold is certainly missed.
    pub fn misses(&self) -> bool {
        self.thresholds.iter().any(|(_, weight)| *weight == Weight::Failed)
    }

    /// Whether a threshold is undecided, and the user does not accept it.
    pub fn leaves_undecided(&self) -> bool {
        self.thresholds.iter().any(|(_, weight)| *weight == Weight::Unknown)
    }
}
