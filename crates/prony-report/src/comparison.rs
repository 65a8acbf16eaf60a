//! A comparison of two or more targets: the figures of each, what differs, and its text, JSON and
//! Markdown. `docs/compare.md` documents the fields.

mod text;

use std::fmt::Write as _;

use prony_base::merge::Merge;
use prony_base::units::Span;
use prony_stats::comparison::{
    Answer, Compared, Design, Figure, Held, Measured, Outcome, Rounds, Shape,
};
use prony_tally::record::hist::Hist;
use serde::Serialize;

pub(crate) use text::{shown, value};

use super::words::changes;
pub use super::words::changes::{label, so_far};

/// The schema version of the JSON report.
const SCHEMA: u32 = 1;

/// The result of a comparison.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Comparison {
    schema: u32,
    /// What kind of document this is.
    kind: &'static str,
    /// prony's version.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// Operating system, kernel, cores; empty for saved runs and in simulation.
    pub host: String,
    /// The seed of the order of the blocks and of their arrivals.
    pub seed: u64,
    /// Whether saved runs were compared.
    pub saved: bool,
    /// Whether the user stopped it early.
    pub interrupted: bool,
    /// Complete rounds, each with a block of every target; 0 for saved runs.
    pub rounds: u32,
    /// The most rounds that there could have been.
    pub rounds_max: u32,
    /// Whether everything was decided.
    pub decided: bool,
    /// Whether it stopped early, as the rounds that were left could hardly decide anything more.
    pub futile: bool,
    /// The number of blocks, or of saved runs, that the meter disturbed.
    pub disturbed: u32,
    /// The equivalence margin, as a share.
    pub margin: f64,
    /// The probability that the interval of one figure misses its true value.
    pub error: f64,
    /// Facts that the reader must know, as complete sentences.
    pub notes: Vec<String>,
    /// Why the comparison is not valid, as complete sentences; empty if it is.
    pub doubts: Vec<String>,
    /// The targets; the first is A.
    pub targets: Vec<Side>,
    /// The changes from A to each other target.
    pub changes: Vec<Change>,
    /// The distributions against that of A.
    pub distributions: Vec<Distribution>,
    /// The limits of changes, decided.
    pub limits: Vec<Limit>,
    /// The blocks of load, in the order in which they ran; the runs, if saved ones were compared.
    pub blocks: Vec<Block>,
    /// How long a round takes on average, if the targets were loaded.
    #[serde(skip)]
    pub round_length: Option<Span>,
}

/// One target: its figures over all blocks together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Side {
    /// `A`, `B` and so on.
    pub label: String,
    /// Its URL, plan file, or files.
    pub name: String,
    /// The number of blocks or runs.
    pub blocks: u32,
    /// Requests that ended.
    pub requests: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// The completed rate, per second.
    pub rate: f64,
    /// CPU time of the server's processes per request, in nanoseconds.
    pub cpu_ns: Option<f64>,
    /// The mean response time.
    pub mean_ns: Option<f64>,
    /// Percentiles of all response times together.
    pub p50_ns: Option<u64>,
    /// The same.
    pub p90_ns: Option<u64>,
    /// The same.
    pub p99_ns: Option<u64>,
    /// The same.
    pub p999_ns: Option<u64>,
    #[serde(skip)]
    response: Hist,
    #[serde(skip)]
    cpu_total_ns: Option<f64>,
    #[serde(skip)]
    rates: f64,
}

/// The change of one figure.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The target that is compared with A.
    pub target: String,
    /// The figure's name.
    pub figure: String,
    /// What `a` and `b` are measured in: `ns`, `per-second` or `share`.
    pub unit: &'static str,
    /// The figure of A over all blocks together.
    pub a: Option<f64>,
    /// That of the target.
    pub b: Option<f64>,
    /// The ratio of the target to A: the geometric mean over the pairs; `None` for a share.
    pub ratio: Option<f64>,
    /// The lower end of its interval.
    pub ratio_lo: Option<f64>,
    /// The upper end.
    pub ratio_hi: Option<f64>,
    /// The difference in the unit: of a ratio, that of A's figure multiplied by it.
    pub difference: Option<f64>,
    /// The lower end of its interval.
    pub difference_lo: Option<f64>,
    /// The upper end.
    pub difference_hi: Option<f64>,
    /// `higher`, `lower`, `same` or `undecided`.
    pub outcome: &'static str,
    /// Whether it is undecided only because of what the meter may have added.
    pub due_to_meter: bool,
    /// About how much longer the comparison must run to decide it, in nanoseconds, if that would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_ns: Option<u64>,
    /// The same as a sentence.
    pub sentence: String,
}

/// The distribution of a target against that of A.
#[derive(Clone, Debug, Serialize)]
pub struct Distribution {
    /// The target that is compared with A.
    pub target: String,
    /// The p-value of the randomization test; `None` for saved runs.
    pub p_value: Option<f64>,
    /// `differs`, `same` or `undecided`.
    pub outcome: &'static str,
    /// The same as a sentence.
    pub sentence: String,
    /// The shift function: each quantile's ratio to A.
    pub quantiles: Vec<Quantile>,
}

/// One quantile of a shift function.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantile {
    /// The quantile, above 0 and below 1.
    pub quantile: f64,
    /// Its ratio to A.
    pub ratio: f64,
    /// The lower end of its interval.
    pub ratio_lo: f64,
    /// The upper end.
    pub ratio_hi: f64,
}

/// A limit of a change, decided.
#[derive(Clone, Debug, Serialize)]
pub struct Limit {
    /// The target that is compared with A.
    pub target: String,
    /// The limit as it was written.
    pub limit: String,
    /// `holds`, `fails` or `unknown`.
    pub outcome: &'static str,
    /// The same as a sentence.
    pub sentence: String,
}

/// One block of load, or one saved run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Block {
    /// Its round, from 1; 0 for a saved run.
    pub round: u32,
    /// The label of its target.
    pub target: String,
    /// The seed of its arrivals.
    pub seed: u64,
    /// Its verdict.
    pub verdict: &'static str,
    /// Requests that ended.
    pub requests: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// The completed rate, per second.
    pub rate: f64,
    /// The mean response time.
    pub mean_ns: Option<f64>,
    /// Its percentiles.
    pub p50_ns: Option<u64>,
    /// The same.
    pub p99_ns: Option<u64>,
}

impl Comparison {
    /// A result in which nothing was measured, of targets with these names.
    pub fn new(names: &[String], design: &Design) -> Self {
        let side = |(i, name): (usize, &String)| Side {
            label: label(i as u32),
            name: name.clone(),
            ..Side::default()
        };
        Self {
            schema: SCHEMA,
            kind: "comparison",
            seed: design.seed,
            margin: design.margin,
            rounds_max: design.rounds_max(),
            targets: names.iter().enumerate().map(side).collect(),
            ..Self::default()
        }
    }

    /// Adds a block of a target.
    pub fn add(&mut self, target: u32, block: Block, measured: &Measured<'_>) {
        if let Some(side) = self.targets.get_mut(target as usize) {
            side.add(measured);
            let response = measured.response;
            let ns = |q: f64| response.quantile(q).map(|t| t.0);
            self.blocks.push(Block {
                target: side.label.clone(),
                requests: measured.ended,
                failed: measured.failed,
                rate: measured.rate,
                mean_ns: response.mean_ns(),
                p50_ns: ns(0.5),
                p99_ns: ns(0.99),
                ..block
            });
        }
    }

    /// Sets what is known.
    pub fn answer(&mut self, design: &Design, answer: &Answer) {
        self.rounds = answer.rounds;
        self.error = answer.error;
        self.decided = answer.is_decided();
        for against in &answer.targets {
            let target = label(against.target);
            let (Some(a), Some(b)) =
                (self.targets.first(), self.targets.get(against.target as usize))
            else {
                continue;
            };
            let round = self.round_length;
            let time =
                |rounds: Option<f64>| Some(Span::from_secs_f64(round?.as_secs_f64() * rounds?));
            let changes = against.figures.iter().map(|c| {
                let more = time(c.rounds_more(design.margin));
                Change::of(&target, [a, b], c, design, more)
            });
            self.changes.extend(changes);
            let shapes = against.distribution.iter();
            self.distributions.extend(shapes.map(|s| Distribution::of(&target, s, design)));
            let limit = |(limit, held): &(prony_stats::comparison::Limit, Held)| {
                let compared = against.figures.iter().find(|c| c.figure == limit.figure);
                Limit {
                    target: target.clone(),
                    limit: limit.to_string(),
                    outcome: match held {
                        Held::Holds => "holds",
                        Held::Fails => "fails",
                        Held::Unknown => "unknown",
                    },
                    sentence: {
                        let more = time(compared.and_then(|c| c.rounds_more_for(limit)));
                        changes::limit(limit, *held, compared, &target, more)
                    },
                }
            };
            self.limits.extend(against.limits.iter().map(limit));
        }
        let can_go_on = matches!(design.rounds, Rounds::UntilDecided(_)) && !self.saved;
        if can_go_on && !self.interrupted && !self.decided {
            let more = "More rounds (--blocks), longer blocks (-d), a wider --margin or fewer \
                        --figures decide more.";
            self.notes.push(if self.futile {
                format!(
                    "Stopped early: the rounds that were left could hardly decide anything else. \
                     {more}"
                )
            } else {
                format!("Not everything is decided. {more}")
            });
        }
    }

    /// The text report.
    pub(super) fn text(&self) -> String {
        text::render(self)
    }

    /// All sentences: of the limits, the figures and the distributions.
    pub fn sentences(&self) -> impl Iterator<Item = &str> {
        let limits = self.limits.iter().map(|l| l.sentence.as_str());
        let changes = self.changes.iter().map(|c| c.sentence.as_str());
        limits.chain(changes).chain(self.distributions.iter().map(|d| d.sentence.as_str()))
    }

    /// Whether any limit fails, or else whether any is unknown; `None` if all hold.
    pub fn worst_limit(&self) -> Option<Held> {
        let any = |outcome| self.limits.iter().any(|l| l.outcome == outcome);
        if any("fails") { Some(Held::Fails) } else { any("unknown").then_some(Held::Unknown) }
    }

    pub(super) fn markdown(&self) -> String {
        let mut out = String::from("### Comparison\n\n");
        for side in &self.targets {
            let name = super::markdown::code(&side.name);
            let _ = writeln!(out, "- **{}**: {name}", side.label);
        }
        for doubt in &self.doubts {
            let _ = writeln!(out, "\n**Not valid**: {}", super::markdown::escaped(doubt));
        }
        out.push_str(
            "\n| figure | A | against A | change | interval |\n|---|---:|---:|---:|---|\n",
        );
        for c in &self.changes {
            let (a, b) = (value(c, c.a), value(c, c.b));
            let (change, interval) = shown(c);
            let _ = writeln!(
                out,
                "| {} ({}) | {a} | {b} | {change} | {interval} |",
                c.figure, c.target
            );
        }
        out.push('\n');
        for sentence in self.sentences() {
            let _ = writeln!(out, "- {}", super::markdown::escaped(sentence));
        }
        out
    }
}

impl Side {
    fn add(&mut self, measured: &Measured<'_>) {
        self.blocks += 1;
        self.requests += measured.ended;
        self.failed += measured.failed;
        // Blocks have the same length, so the mean of their rates is the rate of all.
        self.rates += measured.rate;
        self.rate = self.rates / f64::from(self.blocks);
        self.response.merge(measured.response);
        self.cpu_total_ns = match (self.cpu_total_ns, measured.cpu_ns) {
            (Some(all), Some(one)) => Some(all + one),
            (None, Some(one)) if self.blocks == 1 => Some(one),
            _ => None,
        };
        let per_request = |total: f64| (self.requests > 0).then(|| total / self.requests as f64);
        self.cpu_ns = self.cpu_total_ns.and_then(per_request);
        let ns = |q: f64| self.response.quantile(q).map(|t: Span| t.0);
        self.mean_ns = self.response.mean_ns();
        (self.p50_ns, self.p90_ns) = (ns(0.5), ns(0.9));
        (self.p99_ns, self.p999_ns) = (ns(0.99), ns(0.999));
    }

    /// The figure over all blocks together, as [`Measured::value`].
    fn value(&self, figure: Figure) -> Option<f64> {
        let (response, rate) = (&self.response, self.rate);
        let (ended, failed) = (self.requests, self.failed);
        let cpu_ns = self.cpu_total_ns;
        Measured { response, rate, ended, failed, cpu_ns, certain: None }.value(figure)
    }
}

impl Change {
    fn of(
        target: &str,
        sides: [&Side; 2],
        compared: &Compared,
        design: &Design,
        more: Option<Span>,
    ) -> Self {
        let figure = compared.figure;
        let [a, b] = sides.map(|side| side.value(figure));
        let (estimate, interval) = (compared.estimate, compared.interval);
        // An end may be unknown, because of the meter.
        let known = |end: f64| Some(end).filter(|end| end.is_finite());
        let ends =
            [estimate, interval.and_then(|i| known(i.lo)), interval.and_then(|i| known(i.hi))];
        let [ratio, ratio_lo, ratio_hi] =
            ends.map(|v| v.map(f64::exp).filter(|_| figure.is_ratio()));
        let in_unit = |v: Option<f64>| {
            if figure.is_ratio() { Some(v?.exp_m1() * a?) } else { v }
        };
        let [difference, difference_lo, difference_hi] = ends.map(in_unit);
        Self {
            target: target.to_owned(),
            figure: figure.to_string(),
            unit: match figure {
                Figure::Rate => "per-second",
                Figure::Errors => "share",
                _ => "ns",
            },
            a,
            b,
            ratio,
            ratio_lo,
            ratio_hi,
            difference,
            difference_lo,
            difference_hi,
            outcome: changes::outcome(compared.outcome),
            due_to_meter: compared.is_due_to_meter,
            more_ns: more.map(|more| more.0),
            sentence: changes::change(compared, target, design.margin, more),
        }
    }
}

impl Distribution {
    fn of(target: &str, shape: &Shape, design: &Design) -> Self {
        let quantile = |band: &prony_stats::comparison::Band| Quantile {
            quantile: band.quantile,
            ratio: band.estimate.exp(),
            ratio_lo: band.interval.lo.exp(),
            ratio_hi: band.interval.hi.exp(),
        };
        Self {
            target: target.to_owned(),
            p_value: shape.p_value,
            outcome: match shape.outcome {
                Outcome::Higher | Outcome::Lower => "differs",
                Outcome::Same => "same",
                Outcome::Undecided => "undecided",
            },
            sentence: changes::distribution(shape, target, design.margin),
            quantiles: shape.bands.iter().map(quantile).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
