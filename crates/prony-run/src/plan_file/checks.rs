//! The checks of replies, and the groups of steps, of a plan file.

use prony_core::plan::{Burst, Check, Checks, Group, GroupPart, Plan, Step, Think};
use toml::de::DeValue;

use super::explain::{array, quoted};
use super::reader::{Item, Section};
use super::request::Requests;

const CHECKS: &str = "a list of checks, as [\"status = 200\", \"fast: time < 200ms\"]";
const CHECK: &str = "a check, as \"status = 200\"";

impl<'a> Requests<'a> {
    /// Reads the checks of all requests.
    pub(super) fn checks_of_all(&mut self, top: &mut Section<'a>) {
        let list = self.check_list(top);
        self.checks = Checks::of_all(list.into_iter().map(|(_, check)| check).collect());
        self.check_names(0);
    }

    /// Reads the checks of one request: indices into the checks of the plan.
    pub(super) fn checks(&mut self, section: &mut Section<'a>) -> Vec<u32> {
        let mut own = Vec::new();
        for (at, check) in self.check_list(section) {
            let known = self.checks.list.len();
            let index = self.checks.intern(check);
            if index as usize == known {
                self.check_names(at);
            }
            if index >= self.checks.of_all && !own.contains(&index) {
                own.push(index);
            }
        }
        own
    }

    fn check_list(&mut self, section: &mut Section<'a>) -> Vec<(usize, Check)> {
        let Some(item) = section.take("checks") else { return Vec::new() };
        let items = item.list(&mut self.problems, CHECKS).into_iter().flatten();
        let each = items.filter_map(|item| {
            let text = item.string(&mut self.problems, CHECK)?;
            let read: Result<Check, String> = text.parse();
            let read = read.map_err(|why| self.problems.add(item.at, format!("`checks`: {why}")));
            Some((item.at, read.ok()?))
        });
        each.collect()
    }

    /// Reports two checks with one name, once.
    fn check_names(&mut self, at: usize) {
        if let Err(why) = self.checks.check_names() {
            self.problems.add(at, why);
            self.checks.list.pop();
        }
    }

    /// Reads `group` of a step, and the steps in it. The group is noted if it is valid.
    pub(super) fn group(
        &mut self,
        section: &mut Section<'a>,
        name: Item<'a>,
        think: Think,
        first: usize,
    ) -> Option<Vec<Burst>> {
        let name = name.parse(&mut self.problems, "a name", |text| {
            Group::check_name(text).map(|()| text.to_owned())
        });
        let steps = section.take("request");
        let Some(steps) = steps else {
            let what = "a group has steps: { group = \"NAME\", request = [...] }";
            self.problems.add(section.at, what);
            return None;
        };
        let items: Vec<_> = steps.list(&mut self.problems, "an array of requests")?.collect();
        if items.is_empty() {
            self.problems.add(steps.at, "the group has no request");
        }
        for key in ["group", "switch"] {
            let has_key = |step: &&Item<'_>| {
                let DeValue::Table(table) = step.value else { return false };
                table.contains_key(key)
            };
            if let Some(step) = items.iter().find(has_key) {
                let what = format!("a group cannot contain a {key}; end the group before it");
                self.problems.add(step.at, what);
                return None;
            }
        }
        let bursts: Vec<_> = items.into_iter().map(|step| self.step(step, think, 0)).collect();
        let bursts = bursts.into_iter().collect::<Option<Vec<_>>>()?.concat();
        let part = GroupPart { kind: self.kind, first: first as u32, bursts: bursts.len() as u32 };
        let name = name?;
        match self.groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.parts.push(part),
            None => self.groups.push(Group { name, parts: vec![part] }),
        }
        Some(bursts)
    }
}

/// The checks as a list.
pub(super) fn list<'c>(checks: impl Iterator<Item = &'c Check>) -> String {
    array(&checks.map(|check| quoted(&check.to_string())).collect::<Vec<_>>())
}

/// The checks of all requests; `None` if there are none.
pub(super) fn of_all(plan: &Plan) -> Option<String> {
    let all = &plan.checks.list[..plan.checks.of_all as usize];
    (!all.is_empty()).then(|| list(all.iter()))
}

/// The steps of one kind of session, each with its text, with their groups around them: the lines
/// of a list.
pub(super) fn grouped(plan: &Plan, kind: u32, steps: &[Step<'_>], texts: &[String]) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let parts = plan.groups.iter().flat_map(|group| group.parts.iter().map(move |p| (group, p)));
    let parts: Vec<_> = parts.filter(|(_, part)| part.kind == kind).collect();
    for (step, text) in steps.iter().zip(texts) {
        // No group has a switch.
        let i = if let Step::Burst(index) = step { *index as u32 } else { u32::MAX };
        let part = parts.iter().find(|(_, p)| (p.first..p.first + p.bursts).contains(&i));
        let is_first = part.is_some_and(|(_, p)| p.first == i);
        let is_last = part.is_some_and(|(_, p)| p.first + p.bursts == i + 1);
        if let Some((group, _)) = part.filter(|_| is_first) {
            let _ = writeln!(out, "  {{ group = {}, request = [", quoted(&group.name));
        }
        let indent = if part.is_some() { "    " } else { "  " };
        let _ = writeln!(out, "{indent}{text},");
        if is_last {
            out.push_str("  ] },\n");
        }
    }
    out
}
