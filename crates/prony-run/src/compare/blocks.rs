//! The verdicts of the blocks of a comparison, or of saved runs: what they leave of it, and what to
//! do.

use prony_report::comparison::{Comparison, label};
use prony_report::{units, words};
use prony_stats::comparison::{Answer, Compared, Held};
use prony_stats::summary::{Judgment, Reason, Summary, Verdict};

/// The largest share of a target's blocks that may have failed.
const FAILED_MAX: f64 = 0.1;
/// After this number of disturbed blocks, the user learns what to do ...
const ADVICE_AFTER: u32 = 6;
/// ... if they are more than this share.
const ADVICE_SHARE: f64 = 0.1;

/// The blocks so far.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    /// What one is called, and several.
    name: [&'static str; 2],
    targets: Vec<OfTarget>,
    /// Why the last disturbed block was.
    last: Option<Why>,
    has_advised: bool,
}

/// The blocks of a target.
#[derive(Clone, Debug, Default)]
struct OfTarget {
    blocks: u32,
    /// Those that the meter disturbed.
    disturbed: Kind,
    /// Those whose figures describe a minority of the requests.
    failed: Kind,
    drifting: u32,
}

/// Blocks of a kind.
#[derive(Clone, Debug, Default)]
struct Kind {
    number: u32,
    /// The verdict and reason of the first.
    first: String,
}

/// Why a block was disturbed, and what helps.
#[derive(Clone, Debug)]
struct Why {
    reason: String,
    remedy: &'static str,
}

impl Kind {
    fn add(&mut self, judgment: &Judgment, summary: &Summary) {
        if self.number == 0 {
            let why = judgment.reasons.first().map(|r| words::reason(r, summary));
            let word = judgment.verdict.word();
            self.first = format!("{word}: {}", why.unwrap_or_default());
        }
        self.number += 1;
    }
}

impl Blocks {
    pub(super) fn new(targets: usize, name: [&'static str; 2]) -> Self {
        let targets = vec![OfTarget::default(); targets];
        Self { name, targets, last: None, has_advised: false }
    }

    pub(super) fn add(
        &mut self,
        target: u32,
        judgment: &Judgment,
        is_disturbed: bool,
        summary: &Summary,
    ) {
        let of_target = &mut self.targets[target as usize];
        of_target.blocks += 1;
        if is_disturbed {
            of_target.disturbed.add(judgment, summary);
            self.last = judgment.reasons.first().map(|reason| Why {
                reason: words::reason(reason, summary),
                remedy: remedy(reason),
            });
        }
        match judgment.verdict {
            // Few blocks are stationary where the target drifts; the other half of the pair drifts
            // with it. A block needs no sample size of its own.
            Verdict::NotStationary => of_target.drifting += 1,
            Verdict::TargetFailed => of_target.failed.add(judgment, summary),
            Verdict::ClientLimited
            | Verdict::Partial
            | Verdict::Valid
            | Verdict::TooShort
            | Verdict::Interrupted => {}
        }
    }

    /// Their number.
    pub(super) fn number(&self) -> u32 {
        self.targets.iter().map(|t| t.blocks).sum()
    }

    /// How many of them the meter disturbed.
    pub(super) fn disturbed(&self) -> u32 {
        self.targets.iter().map(|t| t.disturbed.number).sum()
    }

    fn share_disturbed(&self) -> String {
        let [one, many] = self.name;
        let blocks = units::counted(self.number().into(), one, many);
        let verb = if self.number() == 1 { "is" } else { "are" };
        format!("{} of {blocks} {verb} disturbed", units::count(self.disturbed().into()))
    }

    /// What to do, once, if many of them are disturbed.
    pub(super) fn advice(&mut self) -> Option<String> {
        let (n, all) = (self.disturbed(), self.number());
        if self.has_advised || n < ADVICE_AFTER || f64::from(n) <= f64::from(all) * ADVICE_SHARE {
            return None;
        }
        self.has_advised = true;
        let Why { reason, remedy } = self.last.as_ref()?;
        Some(format!(
            "{}. The last: {reason}. {remedy}. The comparison goes on: changes that are larger than \
             what prony itself may have added are found.",
            self.share_disturbed()
        ))
    }

    /// Adds to what was found what the verdicts leave of it.
    pub(super) fn judge(&self, answer: &Answer, found: &mut Comparison) {
        found.disturbed = self.disturbed();
        for (target, blocks) in self.targets.iter().enumerate() {
            blocks.judge(self.name, &label(target as u32), found);
        }
        let undecided = due_to_meter(answer);
        if !undecided.is_empty() {
            let remedy = self.last.as_ref().map_or("", |why| why.remedy);
            let doubt = format!(
                "{} is not decided because of the load generator: {}. {remedy}.",
                undecided.join(", "),
                self.share_disturbed()
            );
            // What is certain in spite of it is the answer.
            let is_failed = found.worst_limit() == Some(Held::Fails);
            if is_failed { &mut found.notes } else { &mut found.doubts }.push(doubt);
        }
    }
}

/// The limits, or else the figures, that only the meter leaves undecided.
fn due_to_meter(answer: &Answer) -> Vec<String> {
    let mut all = Vec::new();
    for against in &answer.targets {
        let of = |what: String| match answer.targets.len() {
            1 => what,
            _ => format!("{what} of {}", label(against.target)),
        };
        if against.limits.is_empty() {
            let figures = against.figures.iter().filter(|c| c.is_due_to_meter);
            all.extend(figures.map(|c| of(c.figure.to_string())));
        }
        for (limit, held) in &against.limits {
            let is_of = |c: &&Compared| c.figure == limit.figure;
            let as_measured = against.figures.iter().find(is_of).and_then(|c| c.as_measured);
            if *held == Held::Unknown && limit.held(as_measured) != Held::Unknown {
                all.push(of(format!("'{limit}'")));
            }
        }
    }
    all
}

/// What helps against a disturbance.
fn remedy(reason: &Reason) -> &'static str {
    match reason {
        Reason::OnHost { reason, .. } => remedy(reason),
        Reason::RateMissed { .. } | Reason::ResourceExhausted { .. } | Reason::Partial { .. } => {
            "Ask for less load (-r, -c), or give prony more of what it lacks"
        }
        _ => "End other programs on this machine, or run prony on another machine than the servers",
    }
}

impl OfTarget {
    fn judge(&self, [one, many]: [&str; 2], label: &str, found: &mut Comparison) {
        let of = |n: u32| {
            let blocks = units::counted(u64::from(self.blocks), one, many);
            format!("{} of {blocks} of {label}", units::count(n.into()))
        };
        let Self { disturbed, failed, .. } = self;
        if disturbed.number > 0 {
            found.notes.push(format!(
                "{} are disturbed. They count with what the load generator may have added. The \
                 first: {}.",
                of(disturbed.number),
                disturbed.first
            ));
        }
        let share = f64::from(failed.number) / f64::from(self.blocks.max(1));
        if share > FAILED_MAX {
            let (of, first) = (of(failed.number), &failed.first);
            found.doubts.push(format!("{of} are not valid. The first: {first}."));
        } else if failed.number > 0 {
            found.notes.push(format!(
                "{} are not valid, few enough to be compared. The first: {}.",
                of(failed.number),
                failed.first
            ));
        }
        if self.drifting * 10 > self.blocks && !found.saved {
            found.notes.push(format!(
                "{} were not stationary: the target drifts. Blocks of one round are compared with \
                 each other, so this is not a difference.",
                of(self.drifting)
            ));
        }
    }
}
