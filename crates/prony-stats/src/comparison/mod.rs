//! Comparisons of two or more servers: which block of load runs next, when enough is known, and
//! what the answer is. Pure: its inputs are measurements, and it reads no clock.
//!
//! A round has one block of load for each target, in random order, with the same arrival seed. A
//! figure's changes from A to another target, one per round, are independent and, if nothing
//! differs, symmetric around zero, whatever drifts from round to round. Times, rates and CPU time
//! are compared by the logarithm of their ratio, shares by their difference; Student's t gives the
//! interval of the mean change.
//!
//! All intervals of a comparison hold together with a probability of 95 %: the 5 % are split
//! evenly between the figures and targets (Bonferroni), and between the looks: half of it evenly,
//! half in proportion to the rounds that each adds (alpha spending: Lan and DeMets, Biometrika 70,
//! 1983, bounded by the sum of the looks). So the intervals are repeated confidence intervals
//! (Jennison and Turnbull, JRSS B 51, 1989): they may be read at any look, and stopping early costs
//! nothing. `docs/compare.md` has the measured error rates and power.
//!
//! A block that the meter disturbed counts with what is certain of it: a meter makes times longer,
//! never shorter, so a figure of times lies between that without the most that the meter can have
//! added, and the measured one. The lower end of an interval is that of the least changes.

mod figure;
mod interval;
mod limit;
mod logged;
mod outlook;
mod pairs;
mod price;
mod saved;
mod shape;
mod steps;

use prony_base::rng::{self, Sequence, Stream};
use prony_base::units::Span;

use crate::summary::confidence::{Interval, NoInterval};
pub use figure::{Figure, GRID, Measured, block_length};
use interval::{Change, Counts};
pub use limit::{Held, Limit};
pub use logged::{LogFigure, LogRow, WithLog, compare_with_log};
use outlook::Outlook;
use pairs::Cell;
use price::Price;
pub use saved::{SavedRun, compare_saved};
pub use steps::{RUNS_MIN, SIDE_MIN, STEP_ERROR, Step, steps};

/// The probability that any interval of a comparison misses its true value.
pub const ERROR: f64 = 0.05;
/// The numbers of rounds after which a comparison looks at what it knows.
pub const LOOKS: [u32; 9] = [6, 10, 16, 24, 36, 54, 80, 120, 180];
/// The fewest rounds that a user may ask for.
pub const ROUNDS_MIN: u32 = 3;
/// The most.
pub const ROUNDS_MAX: u32 = 10_000;
/// The most rounds of a comparison until it is decided, unless its budget is known.
pub const ROUNDS_USUAL: u32 = 54;
/// A percentile whose blocks have too few requests does not prolong a comparison if its values
/// need more rounds than this.
const POOL_MAX: u64 = 6;
/// The equivalence margin unless the user sets another, as a share.
pub const MARGIN: f64 = 0.02;
/// The equivalence margin of a share of failures: 0.1 percentage points.
pub const SHARE_MARGIN: f64 = 0.001;

/// How many rounds there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// Until every figure is decided or cannot be decided any more, at the last of [`LOOKS`] within
    /// this number at the latest.
    UntilDecided(u32),
    /// This number.
    Exactly(u32),
}

/// What is compared, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// The number of targets: 2 or more.
    pub targets: u32,
    /// The figures; those of the limits are among them.
    pub figures: Vec<Figure>,
    /// How many rounds there are.
    pub rounds: Rounds,
    /// The equivalence margin, as a share: smaller changes of times and rates do not matter.
    pub margin: f64,
    /// Changes that are not accepted. If there are any, their decision ends the comparison.
    pub limits: Vec<Limit>,
    /// The seed of the order of the blocks, and of the seeds of their arrivals.
    pub seed: u64,
}

/// A block of load to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its round, from 0.
    pub round: u32,
    /// Its target; 0 is A.
    pub target: u32,
    /// The seed of its arrivals, the same for all targets of the round.
    pub seed: u64,
}

/// A comparison in progress.
#[derive(Clone, Debug)]
pub struct Comparison {
    design: Design,
    /// By round, then by target.
    rounds: Vec<Vec<Option<Cell>>>,
}

/// What is known at the end, or so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Complete rounds.
    pub rounds: u32,
    /// The probability that the interval of one figure misses its true value.
    pub error: f64,
    /// The targets other than A, in order.
    pub targets: Vec<Against>,
}

/// A target against A.
#[derive(Clone, Debug, PartialEq)]
pub struct Against {
    /// The target, from 1.
    pub target: u32,
    /// The figures, in the order of the design; the distribution is apart.
    pub figures: Vec<Compared>,
    /// The distribution, if it is one of the figures.
    pub distribution: Option<Shape>,
    /// The limits, each with what it comes to.
    pub limits: Vec<(Limit, Held)>,
    /// The figures that need several rounds for a value, too many to wait for.
    pub set_aside: Vec<Figure>,
}

/// The change of one figure from A.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The figure.
    pub figure: Figure,
    /// The logarithm of the ratio to A, or the difference of shares; `None` if it is not known.
    pub estimate: Option<f64>,
    /// Its interval, with what the meter may have added.
    pub interval: Option<Interval>,
    /// The interval of what was measured, whatever the meter did.
    pub as_measured: Option<Interval>,
    /// Why there is none.
    pub missing: Option<Missing>,
    /// What that means.
    pub outcome: Outcome,
    /// Whether it is undecided only because of what the meter may have added.
    pub is_due_to_meter: bool,
    /// What more of it would take.
    price: Option<Price>,
}

/// The distribution of response times against that of A.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The p-value of the randomization test; `None` if there was none.
    pub p_value: Option<f64>,
    /// Each quantile of [`GRID`] with the logarithm of its ratio to A, and its interval.
    pub bands: Vec<Band>,
    /// Why there are none.
    pub missing: Option<Missing>,
    /// What that means: it is never [`Outcome::Lower`].
    pub outcome: Outcome,
    /// The p-value from which on the test decides that they differ.
    pub error: f64,
    /// The mean or percentile that shows that they differ, if one does.
    pub shown_by: Option<Figure>,
}

/// The change of one quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// The quantile, above 0 and below 1.
    pub quantile: f64,
    /// The logarithm of its ratio to A.
    pub estimate: f64,
    /// Its interval.
    pub interval: Interval,
}

/// Why a change is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Missing {
    /// A block (or run) has fewer requests than this figure needs.
    TooFewSamples {
        /// The number that it needs.
        needs: u64,
    },
    /// All blocks of a target together have too few requests for several values of this figure.
    TooFewInAll {
        /// The number that each target needs.
        needs: u64,
    },
    /// Fewer than two rounds are complete.
    TooFewRounds,
    /// A block (or run) has no such figure, or its interval is unknown.
    NotMeasured,
    /// The times in a log are not exact enough for it.
    TooCoarse {
        /// Their resolution.
        step: Span,
    },
    /// The meter disturbed blocks of which nothing is certain.
    Unbounded,
    /// The times of a log, or of its replay, have no confidence interval for it.
    NoInterval {
        /// Whether it is the log.
        of_log: bool,
        /// Why.
        why: NoInterval,
    },
}

/// What the interval of a change means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The figure is higher than in A; a distribution differs.
    Higher,
    /// It is lower.
    Lower,
    /// Its change is within the margin.
    Same,
    /// The interval contains both no change and changes beyond the margin.
    Undecided,
}

impl Design {
    /// The design with the figures of its limits.
    #[must_use]
    pub fn with_figures_of_limits(mut self) -> Self {
        for limit in &self.limits {
            if !self.figures.contains(&limit.figure) {
                self.figures.push(limit.figure);
            }
        }
        self
    }

    /// The numbers of rounds at which it is decided whether to continue.
    pub fn looks(&self) -> Vec<u32> {
        match self.rounds {
            Rounds::UntilDecided(most) if most >= LOOKS[0] => {
                LOOKS.into_iter().filter(|&look| look <= most).collect()
            }
            Rounds::UntilDecided(n) | Rounds::Exactly(n) => vec![n],
        }
    }

    /// The most rounds that it can need.
    pub fn rounds_max(&self) -> u32 {
        self.looks().last().copied().unwrap_or_default()
    }

    /// The error probability of one figure of one target at the look at or after this number of
    /// rounds.
    pub fn error(&self, rounds: u32) -> f64 {
        let looks = self.looks();
        let most = f64::from(self.rounds_max());
        let at = looks.iter().position(|&look| look >= rounds).unwrap_or(looks.len() - 1);
        let before = if at == 0 { 0 } else { looks[at - 1] };
        let added = f64::from(looks[at] - before) / most;
        ERROR * f64::midpoint(added, 1.0 / looks.len() as f64) / self.comparisons()
    }

    /// How many changes are compared.
    fn comparisons(&self) -> f64 {
        f64::from(self.targets.saturating_sub(1).max(1)) * self.figures.len().max(1) as f64
    }

    fn order(&self, round: u32) -> Vec<u32> {
        let mut rng = Sequence::numbered(self.seed, Stream::Blocks, u64::from(round) + 1);
        let mut order: Vec<u32> = (0..self.targets).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i as u64 + 1) as usize);
        }
        order
    }
}

impl Comparison {
    /// A comparison in which nothing was measured.
    pub fn new(design: Design) -> Self {
        Self { design, rounds: Vec::new() }
    }

    /// What is compared.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// The next block; `None` if enough is known, or all rounds are complete.
    pub fn next_block(&self) -> Option<Block> {
        let complete = self.complete();
        let round = complete as u32;
        if complete == self.rounds.len() && self.is_over(round) {
            return None;
        }
        let open = self.rounds.get(complete);
        let is_missing = |target: &u32| open.is_none_or(|cells| cells[*target as usize].is_none());
        let target = self.design.order(round).into_iter().find(is_missing)?;
        // As short as a seed that a user types.
        let seed = rng::keyed(self.design.seed, Stream::Blocks, u64::from(round), 1) >> 32;
        Some(Block { round, target, seed })
    }

    /// Record what was measured in the block that [`Comparison::next_block`] has named.
    pub fn record(&mut self, block: Block, measured: &Measured<'_>) {
        let round = block.round as usize;
        let empty = vec![None; self.design.targets as usize];
        if self.rounds.len() <= round {
            self.rounds.resize(round + 1, empty);
        }
        let cell = Cell::of(&self.design.figures, measured);
        self.rounds[round][block.target as usize] = Some(cell);
    }

    /// The number of complete rounds.
    pub fn rounds(&self) -> u32 {
        self.complete() as u32
    }

    /// Whether it ended before its last round, as the rest could hardly decide anything more.
    pub fn is_futile(&self) -> bool {
        let rounds = self.rounds();
        rounds < self.design.rounds_max()
            && self.design.looks().contains(&rounds)
            && !self.known(self.is_of_distribution()).is_decided()
            && self.next_block().is_none()
    }

    /// What is known: at the end, or when the user stops it.
    pub fn answer(&self) -> Answer {
        self.known(true)
    }

    /// The same so far, without the distributions.
    pub fn so_far(&self) -> Answer {
        self.known(false)
    }

    /// The same; the distributions only if they are asked for.
    fn known(&self, has_distribution: bool) -> Answer {
        let rounds = self.complete() as u32;
        let error = self.design.error(rounds);
        let against = |target| self.against(target, error, has_distribution);
        Answer { rounds, error, targets: (1..self.design.targets).map(against).collect() }
    }

    fn complete(&self) -> usize {
        let is_complete = |cells: &Vec<Option<Cell>>| cells.iter().all(Option::is_some);
        self.rounds.iter().take_while(|cells| is_complete(cells)).count()
    }

    fn is_over(&self, rounds: u32) -> bool {
        let is_look = rounds > 0 && self.design.looks().contains(&rounds);
        if rounds >= self.design.rounds_max() || !is_look {
            return rounds >= self.design.rounds_max();
        }
        let known = self.known(self.is_of_distribution());
        // Noise of a host comes in bursts: the first look can be in one.
        known.is_decided() || (rounds > LOOKS[0] && !self.is_worth_more(&known))
    }

    /// A distribution is expensive to compare. It decides no end unless nothing else does.
    fn is_of_distribution(&self) -> bool {
        self.design.figures.iter().all(|&f| f == Figure::Distribution)
    }

    /// Whether the rounds that are left have a chance to decide something that is undecided.
    fn is_worth_more(&self, known: &Answer) -> bool {
        if self.is_of_distribution() {
            return true;
        }
        let has_limits = !self.design.limits.is_empty();
        known.targets.iter().any(|against| {
            let is_open = |figure: Figure| {
                let limits = against.limits.iter().filter(|(limit, _)| limit.figure == figure);
                let mut limits = limits.filter(|(_, held)| *held == Held::Unknown);
                let compared = against.figures.iter().find(|c| c.figure == figure);
                let counts = compared.is_some_and(|c| {
                    c.outcome == Outcome::Undecided && !against.set_aside.contains(&figure)
                });
                if has_limits { limits.next().is_some() } else { counts }
            };
            let chance = |(i, &figure): (usize, &Figure)| self.chance(against.target, i, figure);
            let figures = self.design.figures.iter().enumerate();
            let mut open = figures.filter(|(_, figure)| is_open(**figure));
            open.any(|figure| chance(figure) >= outlook::CHANCE_MIN)
        })
    }

    /// The chance that the last round decides a figure, or one of its limits.
    fn chance(&self, target: u32, index: usize, figure: Figure) -> f64 {
        let pairs = self.pairs(target);
        let design = &self.design;
        let (so_far, most) = (self.rounds(), design.rounds_max());
        let differences = match pairs::differences(figure, index, &pairs) {
            Ok(differences) => differences,
            Err(Missing::TooFewInAll { needs }) => {
                let all = |of: fn(&(&Cell, &Cell)) -> u64| pairs.iter().map(of).sum::<u64>();
                let fewest = all(|p| p.0.counts.ended).min(all(|p| p.1.counts.ended)) as f64;
                let at_last = fewest * f64::from(most) / f64::from(so_far);
                return if at_last < needs as f64 { 0.0 } else { 1.0 };
            }
            Err(_) => return 1.0,
        };
        let rounds = outlook::Rounds { so_far, most };
        let floor = least_half(figure, &pairs, design.error(most));
        let outlook = Outlook::of(figure, &differences, rounds, design.error(most), floor);
        let Some(outlook) = outlook else { return 1.0 };
        let limits: Vec<&Limit> = design.limits.iter().filter(|l| l.figure == figure).collect();
        if limits.is_empty() {
            let (least, most) = margins(figure, design.margin);
            return outlook.excludes(0.0) + outlook.is_within(least, most);
        }
        limits.into_iter().map(|limit| outlook.excludes(limit.compared())).fold(0.0, f64::max)
    }

    /// The cells of A and of another target, by complete round.
    fn pairs(&self, target: u32) -> Vec<(&Cell, &Cell)> {
        let rounds = self.rounds.iter().take(self.complete());
        let pairs = rounds.map(|cells| (cells[0].as_ref(), cells[target as usize].as_ref()));
        pairs.filter_map(|(a, b)| a.zip(b)).collect()
    }

    fn against(&self, target: u32, error: f64, has_distribution: bool) -> Against {
        let pairs = self.pairs(target);
        let (design, mut figures) = (&self.design, Vec::new());
        for (i, &figure) in design.figures.iter().enumerate() {
            if figure == Figure::Distribution {
                continue;
            }
            let change = change(figure, i, &pairs, error);
            let rounds = pairs.len() as u32;
            let price = change.ok().and_then(|change| Price::of(figure, change, rounds, error));
            figures.push(Compared { price, ..Compared::of(figure, change, design.margin) });
        }
        let set_aside = set_aside(&design.figures, &pairs);
        let has_distribution = has_distribution && design.figures.contains(&Figure::Distribution);
        let distribution =
            has_distribution.then(|| Shape::of_pairs(&pairs, design.margin, error, design.seed));
        let against = Against::of(target, figures, distribution, &design.limits);
        Against { set_aside, ..against }
    }
}

/// The percentiles that need too many rounds for a value, unless there is nothing else.
fn set_aside(figures: &[Figure], pairs: &[(&Cell, &Cell)]) -> Vec<Figure> {
    let fewest = pairs.iter().flat_map(|(a, b)| [a.counts.ended, b.counts.ended]).min();
    let fewest = fewest.unwrap_or_default().max(1);
    let is_far = |figure: &Figure| {
        matches!(figure, Figure::Percentile(_))
            && figure.samples_needed().div_ceil(fewest) > POOL_MAX
    };
    let all: Vec<Figure> = figures.iter().copied().filter(is_far).collect();
    if all.len() < figures.len() { all } else { Vec::new() }
}

/// The change of the figure with this index.
fn change(
    figure: Figure,
    index: usize,
    pairs: &[(&Cell, &Cell)],
    error: f64,
) -> Result<Change, Missing> {
    let differences = pairs::differences(figure, index, pairs)?;
    let floor = least_half(figure, pairs, error);
    interval::of_pairs(figure, &differences, error, floor).ok_or(Missing::TooFewRounds)
}

/// The least half-width of the interval of a figure, however alike the blocks are.
fn least_half(figure: Figure, pairs: &[(&Cell, &Cell)], error: f64) -> f64 {
    if figure != Figure::Errors {
        return 0.0;
    }
    let sum = |of: fn(&(&Cell, &Cell)) -> Counts| {
        pairs.iter().map(of).fold(Counts::default(), |a, b| Counts {
            ended: a.ended + b.ended,
            failed: a.failed + b.failed,
        })
    };
    interval::of_counts(sum(|p| p.0.counts), sum(|p| p.1.counts), error)
}

impl Answer {
    /// Whether every limit is decided, or without limits every figure that is known; the
    /// distribution only if nothing else is compared.
    pub fn is_decided(&self) -> bool {
        let by_limits = self.targets.iter().any(|t| !t.limits.is_empty());
        self.targets.iter().all(|t| {
            if by_limits {
                return t.limits.iter().all(|(_, held)| *held != Held::Unknown);
            }
            let waits = |f: &&Compared| f.interval.is_some() && !t.set_aside.contains(&f.figure);
            let known = t.figures.iter().filter(waits);
            let mut outcomes: Vec<Outcome> = known.map(|f| f.outcome).collect();
            if t.figures.is_empty() {
                outcomes.extend(t.distribution.iter().map(|shape| shape.outcome));
            }
            !outcomes.is_empty() && outcomes.iter().all(|&o| o != Outcome::Undecided)
        })
    }

    /// Whether any figure, or a distribution, differs.
    pub fn differs(&self) -> bool {
        let is_change = |o: Outcome| matches!(o, Outcome::Higher | Outcome::Lower);
        self.targets.iter().any(|t| {
            t.figures.iter().any(|f| is_change(f.outcome))
                || t.distribution.as_ref().is_some_and(|d| is_change(d.outcome))
        })
    }
}

impl Against {
    fn of(
        target: u32,
        figures: Vec<Compared>,
        distribution: Option<Shape>,
        limits: &[Limit],
    ) -> Self {
        let held = |limit: &Limit| {
            let compared = figures.iter().find(|c| c.figure == limit.figure);
            (limit.clone(), limit.held(compared.and_then(|c| c.interval)))
        };
        let distribution = distribution.map(|shape| shape.with(&figures));
        let limits = limits.iter().map(held).collect();
        Self { target, limits, figures, distribution, set_aside: Vec::new() }
    }
}

impl Compared {
    fn of(figure: Figure, change: Result<Change, Missing>, margin: f64) -> Self {
        let interval = change.map(|c| c.interval).ok();
        let as_measured = change.map(|c| c.as_measured).ok();
        let of = |interval: Option<Interval>| {
            interval.map_or(Outcome::Undecided, |i| outcome(figure, i, margin))
        };
        Self {
            figure,
            estimate: change.map(|c| c.estimate).ok(),
            interval,
            as_measured,
            missing: change.err(),
            outcome: of(interval),
            is_due_to_meter: of(interval) == Outcome::Undecided
                && of(as_measured) != Outcome::Undecided,
            price: None,
        }
    }

    /// About how many rounds more would decide it, if all goes on as it was. `None` if it is
    /// decided, if no number would do, or if it is not known from rounds.
    pub fn rounds_more(&self, margin: f64) -> Option<f64> {
        let price = self.price.filter(|_| self.outcome == Outcome::Undecided)?;
        let (lo, hi) = margins(self.figure, margin);
        let ways = [price.excludes(0.0), price.is_within(lo, hi)];
        ways.into_iter().flatten().reduce(f64::min)
    }

    /// The same for a limit of this figure.
    pub fn rounds_more_for(&self, limit: &Limit) -> Option<f64> {
        let is_open = limit.held(self.interval) == Held::Unknown;
        self.price.filter(|_| is_open)?.excludes(limit.compared())
    }
}

/// The ends of the margin, as a figure is compared.
fn margins(figure: Figure, margin: f64) -> (f64, f64) {
    if figure.is_ratio() {
        // As far down as up: a ratio of 1.02 either way.
        (-libm::log1p(margin), libm::log1p(margin))
    } else {
        (-SHARE_MARGIN, SHARE_MARGIN)
    }
}

fn outcome(figure: Figure, Interval { lo, hi }: Interval, margin: f64) -> Outcome {
    let (least, most) = margins(figure, margin);
    if lo >= least && hi <= most {
        Outcome::Same
    } else if lo > 0.0 {
        Outcome::Higher
    } else if hi < 0.0 {
        Outcome::Lower
    } else {
        Outcome::Undecided
    }
}

#[cfg(test)]
mod tests;
