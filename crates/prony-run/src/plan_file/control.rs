//! Steps of a plan file that sessions decide about: conditions, switches, repetitions until a
//! condition holds, and retries.

use std::ops::Range;

use prony_base::units::Span;
use prony_plan::plan::{
    Alternative, AtLimit, Burst, Control, Gate, Retry, RetryOn, Step, Switch, Think, Until,
};
use toml::de::{DeTable, DeValue};

use super::reader::{Item, Section};
use super::requests::Requests;
use super::session::Place;
use super::words::{AT_LIMIT, RETRY_ON, word};
use super::written::{array, quoted};
use crate::values;

const ALTERNATIVES: &str = "a list of alternatives: [{ weight = 3, request = [...] }, ...]";
const RETRY: &str = "{ times = 3, wait = \"100ms\", factor = 2, max = \"5s\", jitter = 0.2, \
                     on = [\"status\", ...] }";

/// The failures after which a request is made again, if the file does not name them.
const USUAL: [RetryOn; 4] = [RetryOn::Status, RetryOn::Timeout, RetryOn::Lost, RetryOn::Connect];

/// The first wait before a retry, and by what the next is longer, if the file does not set them.
const WAIT: Span = Span::from_millis(100);
const FACTOR: u32 = 2_000;

impl<'a> Requests<'a> {
    /// Reads the conditions of a step.
    pub(super) fn gate(&mut self, section: &mut Section<'a>) -> Gate {
        let mut condition = |key| section.take(key).and_then(|item| self.condition(item));
        Gate { when: condition("when"), unless: condition("unless") }
    }

    fn condition(&mut self, item: Item<'a>) -> Option<String> {
        let expected = "a condition, as \"{{stock}} > 0\"";
        let text = item.string(&mut self.problems, expected)?;
        if text.trim().is_empty() {
            let what = format!("`{}` is empty, expected {expected}", item.key);
            self.problems.add(item.at, what);
            return None;
        }
        Some(text.to_owned())
    }

    /// Reads what ends the repetitions of a step.
    pub(super) fn until(&mut self, section: &mut Section<'a>, repeat: u32) -> Option<Until> {
        let (until, at_limit) = (section.take("until"), section.take("at-limit"));
        let Some(until) = until else {
            if let Some(item) = at_limit {
                self.problems.add(item.at, "`at-limit` needs `until`; add it, or omit `at-limit`");
            }
            return None;
        };
        if repeat < 2 {
            let what = "`until` needs `repeat`, the most times to make the step: 2 or more";
            self.problems.add(until.at, what);
        }
        let condition = self.condition(until);
        let at_limit = at_limit.and_then(|item| item.word(&mut self.problems, AT_LIMIT));
        Some(Until { condition: condition?, at_limit: at_limit.unwrap_or_default() })
    }

    /// Reads how a failed request is made again.
    pub(super) fn retry(&mut self, item: Item<'a>) -> Option<Retry> {
        let DeValue::Table(table) = item.value else {
            item.wrong_type(&mut self.problems, RETRY);
            return None;
        };
        let mut section = Section::new("a retry", item.at, table);
        let problems = &mut self.problems;
        let times = section.take("times");
        if times.is_none() {
            problems.add(item.at, "`retry` needs `times`: how often to make the request again");
        }
        let times = times.and_then(|i| i.parse(problems, "a number", values::per_connection));
        let wait = section.take("wait").and_then(|i| i.parse(problems, "a time", values::span));
        let max = section.take("max").and_then(|i| i.parse(problems, "a time", values::span));
        let factor = section.take("factor").and_then(|i| {
            let parse = |text: &str| thousandths(text, 1_000, 1_000_000);
            i.parse(problems, "a number from 1, as 2 or 1.5", parse)
        });
        let jitter = section.take("jitter").and_then(|i| {
            let parse = |text: &str| thousandths(text, 0, 1_000);
            i.parse(problems, "a number from 0 to 1, as 0.2", parse)
        });
        let on = section.take("on").and_then(|item| {
            let parts: Vec<_> = item.list(problems, "[\"status\", ...]")?.collect();
            if parts.is_empty() {
                problems.add(item.at, "`on` names no failure; omit it, or write [\"status\"]");
            }
            let on = parts.into_iter().map(|part| part.word(problems, RETRY_ON));
            on.collect::<Vec<_>>().into_iter().collect::<Option<Vec<_>>>()
        });
        section.finish(problems);
        Some(Retry {
            times: times?,
            wait: wait.unwrap_or(WAIT),
            factor: factor.unwrap_or(FACTOR),
            max,
            jitter: jitter.unwrap_or(0),
            on: on.unwrap_or_else(|| USUAL.to_vec()),
        })
    }

    /// Makes the request of a step again as all of the file are, if the step does not say how.
    pub(super) fn retry_by_default(&self, burst: &mut Burst) {
        if let Some(retry) = &self.retry
            && burst.calls.len() == 1
        {
            burst.control.get_or_insert_default().retry.get_or_insert_with(|| retry.clone());
        }
    }

    /// Reads a switch: the bursts of its alternatives, one alternative after the other.
    pub(super) fn switch(
        &mut self,
        item: Item<'a>,
        table: &'a DeTable<'a>,
        think: Think,
        place: Place,
    ) -> Option<Vec<Burst>> {
        let mut section = Section::new("a switch", item.at, table);
        let gate = self.gate(&mut section);
        let list = section.take("switch")?;
        section.finish(&mut self.problems);
        if place.depth == Step::DEPTH_MAX {
            let what = format!("switches are nested more than {} deep", Step::DEPTH_MAX);
            self.problems.add(item.at, what);
            return None;
        }
        let items: Vec<_> = list.list(&mut self.problems, ALTERNATIVES)?.collect();
        // Read all of them, to report all errors.
        let (mut bursts, mut alternatives, mut is_valid) = (Vec::new(), Vec::new(), true);
        for item in items {
            match self.alternative(item, think, place.after(&bursts)) {
                Some((weight, steps)) => {
                    alternatives.push(Alternative { weight, bursts: steps.len() as u32 });
                    bursts.extend(steps);
                }
                None => is_valid = false,
            }
        }
        if !is_valid {
            return None;
        }
        if !alternatives.is_empty() && alternatives.iter().all(|a| a.weight == 0) {
            self.problems.add(list.at, "all alternatives of the switch have a weight of 0");
            return None;
        }
        let Some(first) = bursts.first_mut() else {
            self.problems.add(list.at, "no alternative of the switch has a request");
            return None;
        };
        let switch = Switch { gate, alternatives };
        first.control.get_or_insert_default().switches.insert(0, switch);
        Some(bursts)
    }

    /// Reads an alternative of a switch: its weight, and its bursts.
    fn alternative(
        &mut self,
        item: Item<'a>,
        think: Think,
        place: Place,
    ) -> Option<(u32, Vec<Burst>)> {
        let DeValue::Table(table) = item.value else {
            item.wrong_type(&mut self.problems, "an alternative: { weight = 3, request = [...] }");
            return None;
        };
        let mut section = Section::new("an alternative", item.at, table);
        let problems = &mut self.problems;
        let weight = section
            .take("weight")
            .map_or(Some(1), |i| i.parse(problems, "a number", values::number));
        let steps = section.take("request");
        if steps.is_none() {
            let what = "the alternative has no `request`; write request = [] to make nothing";
            problems.add(item.at, what);
        }
        section.finish(problems);
        let steps: Vec<_> = steps?.list(problems, "an array of requests")?.collect();
        let bursts = self.steps(steps, think, Place { depth: place.depth + 1, ..place });
        Some((weight?, bursts?))
    }
}

/// A number with at most three decimals, in thousandths.
fn thousandths(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let bounds = || format!("write a number from {} to {}", shown(least), shown(most));
    let number: f64 = text.parse().map_err(|_| bounds())?;
    let rounded = (number * 1000.0).round();
    if !(f64::from(least)..=f64::from(most)).contains(&rounded) {
        return Err(bounds());
    }
    if (number * 1000.0 - rounded).abs() > 1e-6 {
        return Err("write at most three decimals".into());
    }
    Ok(rounded as u32)
}

fn shown(thousandths: u32) -> String {
    (f64::from(thousandths) / 1000.0).to_string()
}

/// The groups of one kind of session: the name of each, and its bursts.
pub(super) type Parts<'p> = [(&'p str, Range<usize>)];

/// Steps by their groups: those of a group together, each other step by itself.
pub(super) fn runs<'p, 's, 'b>(
    steps: &'s [Step<'b>],
    parts: &Parts<'p>,
) -> Vec<(Option<&'p str>, &'s [Step<'b>])> {
    let (mut runs, mut rest) = (Vec::new(), steps);
    while !rest.is_empty() {
        let group = parts
            .iter()
            .find_map(|(name, bursts)| Some((Some(*name), Step::prefix(rest, bursts)?)));
        let (name, count) = group.unwrap_or((None, 1));
        let (run, others) = rest.split_at(count);
        runs.push((name, run));
        rest = others;
    }
    runs
}

/// Writes steps, each as one text, with the groups around them; `burst` writes one burst.
pub(super) fn steps(
    steps: &[Step<'_>],
    parts: &Parts<'_>,
    burst: &dyn Fn(usize) -> String,
) -> Vec<String> {
    let one = |step: &Step<'_>, parts: &Parts<'_>| match step {
        Step::Burst(index) => burst(*index),
        Step::Switch(switch, alternatives) => {
            let alternatives = switch.alternatives.iter().zip(alternatives);
            let each = alternatives.map(|(alternative, inner)| {
                let weight = match alternative.weight {
                    1 => String::new(),
                    weight => format!("weight = {weight}, "),
                };
                format!("{{ {weight}request = {} }}", array(&self::steps(inner, parts, burst)))
            });
            let mut keys = gate(&switch.gate);
            keys.push(format!("switch = {}", array(&each.collect::<Vec<_>>())));
            format!("{{ {} }}", keys.join(", "))
        }
    };
    let run = |(group, run): (Option<&str>, &[Step<'_>])| match group {
        // No group is in another.
        Some(name) => {
            let inner: Vec<String> = run.iter().map(|step| one(step, &[])).collect();
            format!("{{ group = {}, request = {} }}", quoted(name), array(&inner))
        }
        None => run.iter().map(|step| one(step, parts)).collect(),
    };
    runs(steps, parts).into_iter().map(run).collect()
}

/// Writes the keys of a burst that decide about it.
pub(super) fn keys(control: &Control) -> Vec<String> {
    let mut keys = gate(&control.gate);
    if let Some(Until { condition, at_limit }) = &control.until {
        keys.push(format!("until = {}", quoted(condition)));
        if *at_limit != AtLimit::default() {
            keys.push(format!("at-limit = {}", quoted(word(AT_LIMIT, at_limit))));
        }
    }
    keys.extend(control.retry.as_ref().map(|retry| format!("retry = {}", self::retry(retry))));
    keys
}

fn gate(gate: &Gate) -> Vec<String> {
    let keys = [("when", &gate.when), ("unless", &gate.unless)];
    let key = |(key, text): (&str, &Option<String>)| {
        text.as_ref().map(|text| format!("{key} = {}", quoted(text)))
    };
    keys.into_iter().filter_map(key).collect()
}

fn retry(retry: &Retry) -> String {
    let mut keys = vec![
        format!("times = {}", retry.times),
        format!("wait = {}", quoted(&retry.wait.to_string())),
        format!("factor = {}", shown(retry.factor)),
    ];
    keys.extend(retry.max.map(|max| format!("max = {}", quoted(&max.to_string()))));
    if retry.jitter > 0 {
        keys.push(format!("jitter = {}", shown(retry.jitter)));
    }
    let on: Vec<_> = retry.on.iter().map(|on| quoted(word(RETRY_ON, on))).collect();
    keys.push(format!("on = {}", array(&on)));
    format!("{{ {} }}", keys.join(", "))
}
