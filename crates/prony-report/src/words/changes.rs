//! The sentences of a comparison, and of a replay against its log.

use prony_stats::comparison::{
    Answer, Compared, Figure, Held, Limit, Missing, Outcome, SHARE_MARGIN, Shape,
};

use prony_base::units::Span;

use super::{no_interval, thresholds};
use crate::units;

/// The label of a target: A, B, ... Z, A1, ...
pub fn label(target: u32) -> String {
    let letter = char::from(b'A' + (target % 26) as u8);
    if target < 26 { letter.to_string() } else { format!("{letter}{}", target / 26) }
}

/// A figure in a sentence.
fn name(figure: Figure) -> String {
    match figure {
        Figure::Mean => "the mean".into(),
        Figure::Rate => "the rate".into(),
        Figure::Errors => "the share of failed requests".into(),
        Figure::Cpu => "CPU time per request".into(),
        Figure::Distribution => "the distribution".into(),
        Figure::Percentile(_) => figure.to_string(),
    }
}

/// The end of an interval as a change in percent (of a share: in percentage points).
fn percent(figure: Figure, value: f64) -> f64 {
    if figure.is_ratio() { value.exp_m1() * 100.0 } else { value * 100.0 }
}

/// A number of percent: `8.2`, `0.35`, `120`.
pub(crate) fn number(percent: f64) -> String {
    let v = percent.abs();
    match v {
        v if v < 0.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => units::count(v.round() as u64),
    }
}

/// The same with its sign.
pub(crate) fn signed(percent: f64) -> String {
    let sign = if percent < 0.0 { '-' } else { '+' };
    format!("{sign}{}", number(percent))
}

fn unit(figure: Figure) -> &'static str {
    if figure.is_ratio() { "%" } else { "percentage points" }
}

/// An interval of percents of which an end may be unknown.
pub(crate) fn range(lo: Option<f64>, hi: Option<f64>, unit: &str) -> String {
    match (lo.map(signed), hi.map(signed)) {
        (Some(lo), Some(hi)) => format!("{lo} to {hi} {unit}"),
        (Some(lo), None) => format!("{lo} {unit} or more"),
        (None, Some(hi)) => format!("{hi} {unit} or less"),
        (None, None) => "nothing is certain".into(),
    }
}

/// The interval of a change.
fn interval_of(compared: &Compared) -> Option<String> {
    let end = |end: f64| end.is_finite().then(|| percent(compared.figure, end));
    let interval = compared.interval?;
    Some(range(end(interval.lo), end(interval.hi), unit(compared.figure)))
}

/// What is known so far of the figures that matter most: those of the limits, or the median.
pub fn so_far(answer: &Answer) -> Option<String> {
    let mut all = Vec::new();
    for against in &answer.targets {
        let of_limits = against.limits.iter().map(|(limit, _)| limit.figure);
        let mut figures: Vec<Figure> = of_limits.collect();
        figures.dedup();
        if figures.is_empty() {
            let median = Figure::Percentile(50.0);
            let known = |f: Figure| against.figures.iter().any(|c| c.figure == f);
            let first = against.figures.first().map(|c| c.figure);
            figures.extend(Some(median).filter(|f| known(*f)).or(first));
        }
        for figure in figures {
            let compared = against.figures.iter().find(|c| c.figure == figure);
            let Some(compared) = compared else { continue };
            if let (Some(by), Some(interval)) = (compared.estimate, interval_of(compared)) {
                let (by, unit) = (signed(percent(figure, by)), unit(figure));
                let target = label(against.target);
                all.push(format!("{figure} {by} {unit} in {target} ({interval})"));
            }
        }
    }
    (!all.is_empty()).then(|| format!("so far {}", all.join(", ")))
}

/// How a figure of a target differs from that of A, and how much longer it would take to know.
pub(crate) fn change(compared: &Compared, target: &str, margin: f64, more: Option<Span>) -> String {
    let there = format!("in {target}");
    match sentence(compared, &there, &there, margin) {
        Ok(sentence) => format!("{sentence}{}", price(more, &name(compared.figure))),
        Err(name) => format!("{name} is not compared: {}", missing(compared.missing)),
    }
}

/// How much longer a decision would take, as the end of a sentence.
fn price(more: Option<Span>, what: &str) -> String {
    more.map_or_else(String::new, |more| {
        format!("; about {} more would decide {what}", thresholds::longer(more))
    })
}

/// How a figure of a replay differs from that of its log.
pub(crate) fn log_sentence(compared: &Compared, margin: f64) -> String {
    sentence(compared, "than in the log", "against the log", margin).unwrap_or_else(|name| {
        let why = match compared.missing {
            Some(Missing::TooFewSamples { needs }) => {
                let needs = units::count(needs);
                format!("it needs {needs} requests in the log and in the run")
            }
            other => missing(other),
        };
        format!("{name} is not compared: {why}")
    })
}

/// How a figure differs: `more` and `against` name what it is compared with, after a comparative
/// and after an interval. Without an interval, the name of the figure.
fn sentence(compared: &Compared, more: &str, against: &str, margin: f64) -> Result<String, String> {
    let figure = compared.figure;
    let name = name(figure);
    let (Some(estimate), Some(interval)) = (compared.estimate, compared.interval) else {
        return Err(name);
    };
    let [estimate, lo, hi] = [estimate, interval.lo, interval.hi].map(|v| percent(figure, v));
    let unit = unit(figure);
    Ok(match compared.outcome {
        Outcome::Higher => {
            let longer = if figure.is_time() { "longer" } else { "higher" };
            let (by, lo) = (number(estimate), number(lo));
            let or = if hi.is_finite() {
                format!("to {} {unit}", number(hi))
            } else {
                format!("{unit} or more")
            };
            format!("{name} is {by} {unit} {longer} {more} ({lo} {or})")
        }
        Outcome::Lower => {
            let shorter = if figure.is_time() { "shorter" } else { "lower" };
            // The end that is nearer to no change first.
            let (by, hi) = (number(estimate), number(hi));
            let or = if interval.lo.is_finite() {
                format!("to {} {unit}", number(lo))
            } else {
                format!("{unit} or more")
            };
            format!("{name} is {by} {unit} {shorter} {more} ({hi} {or})")
        }
        Outcome::Same => {
            let most = if figure.is_ratio() { margin } else { SHARE_MARGIN };
            format!(
                "no difference of more than {} {unit} in {name} ({} to {} {unit} {against})",
                short(most * 100.0),
                signed(lo),
                signed(hi),
            )
        }
        Outcome::Undecided => {
            let part = if compared.is_due_to_meter {
                ", with what the load generator may have added"
            } else {
                ""
            };
            if interval.lo.is_finite() && interval.hi.is_finite() {
                let (lo, hi) = (signed(lo), signed(hi));
                format!("{name} is undecided: between {lo} and {hi} {unit} {against}{part}")
            } else {
                let interval = interval_of(compared).unwrap_or_default();
                format!("{name} is undecided: {interval} {against}{part}")
            }
        }
    })
}

/// A number as a user writes it: `2`, `0.5`.
fn short(number: f64) -> String {
    let digits = format!("{number:.4}");
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Whether the distributions differ.
pub(crate) fn distribution(shape: &Shape, target: &str, margin: f64) -> String {
    let of_p = |p: f64| if p < 0.001 { format!("{p:.4}") } else { format!("{p:.3}") };
    let times = "the distribution of response times";
    match (shape.outcome, shape.missing) {
        (_, Some(why)) => format!("the distribution is not compared: {}", missing(Some(why))),
        (Outcome::Same, None) => format!(
            "no difference of more than {} % in any quantile from p5 to p95 in {target}",
            short(margin * 100.0)
        ),
        (Outcome::Higher | Outcome::Lower, None) => {
            let how = match (shape.p_value, shape.shown_by) {
                (Some(p), _) if p <= shape.error => format!(" (p = {})", of_p(p)),
                (_, Some(figure)) => format!(", as {} does", name(figure)),
                _ => String::new(),
            };
            format!("{times} differs in {target}{how}")
        }
        (Outcome::Undecided, None) => match shape.p_value {
            None => format!("the shift function shows how the quantiles of {target} differ"),
            Some(p) => format!(
                "whether {times} differs in {target} is undecided (p = {}; it does from {} on)",
                of_p(p),
                of_p(shape.error)
            ),
        },
    }
}

/// What a limit comes to.
pub(crate) fn limit(
    limit: &Limit,
    held: Held,
    compared: Option<&Compared>,
    target: &str,
    more: Option<Span>,
) -> String {
    let change = compared.and_then(|c| Some(format!("{} in {target}", interval_of(c)?)));
    let change = change.unwrap_or_else(|| missing(compared.and_then(|c| c.missing)));
    match held {
        Held::Holds => format!("holds, '{limit}' is ruled out: {change}"),
        Held::Fails => format!("fails, '{limit}' is true: {change}"),
        Held::Unknown => {
            let price = price(more, &format!("'{limit}'"));
            format!("cannot tell whether '{limit}': {change}{price}")
        }
    }
}

/// An outcome in JSON.
pub(crate) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Higher => "higher",
        Outcome::Lower => "lower",
        Outcome::Same => "same",
        Outcome::Undecided => "undecided",
    }
}

/// Why a figure has no interval, as the end of a sentence.
fn missing(missing: Option<Missing>) -> String {
    match missing {
        Some(Missing::TooFewSamples { needs }) => format!(
            "it needs {} requests in each block; run longer blocks (-d)",
            units::count(needs)
        ),
        Some(Missing::TooFewInAll { needs }) => format!(
            "it needs {} requests of each target; run longer blocks (-d)",
            units::count(needs)
        ),
        Some(Missing::TooFewRounds) => "fewer than two rounds are complete".into(),
        Some(Missing::Unbounded) => {
            "the load generator did not offer the load, or lost some".into()
        }
        Some(Missing::NotMeasured) | None => {
            "it was not measured, or a run is too short for its interval; run longer (-d)".into()
        }
        Some(Missing::TooCoarse { step }) => {
            format!("the log has its times to {} only", units::exact(step))
        }
        Some(Missing::NoInterval { of_log, why }) => {
            let side = if of_log { "the log" } else { "the run" };
            format!("{side} has no interval of it ({})", no_interval(why))
        }
    }
}
