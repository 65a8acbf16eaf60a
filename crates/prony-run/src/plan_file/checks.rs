//! The checks of replies, and the groups of steps, of a plan file.

use prony_plan::plan::{Burst, Check, Checks, Group, GroupPart, Plan, Step, Think};
use toml::de::DeTable;

use super::control;
use super::reader::{Item, Section};
use super::requests::Requests;
use super::session::Place;
use super::written::{array, quoted};

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

    /// Reads a group: its name, and the steps in it. It is noted if it is valid.
    pub(super) fn group(
        &mut self,
        item: Item<'a>,
        table: &'a DeTable<'a>,
        think: Think,
        place: Place,
    ) -> Option<Vec<Burst>> {
        if self.in_group {
            let what = "a group cannot contain a group; end the group before it";
            self.problems.add(item.at, what);
            return None;
        }
        let mut section = Section::new("a group", item.at, table);
        let name = section.take("group").and_then(|name| {
            name.parse(&mut self.problems, "a name", |text| {
                Group::check_name(text).map(|()| text.to_owned())
            })
        });
        let steps = section.take("request");
        if steps.is_none() {
            let what = "a group has steps: { group = \"NAME\", request = [...] }";
            self.problems.add(item.at, what);
        }
        section.finish(&mut self.problems);
        let steps = steps?;
        let items: Vec<_> = steps.list(&mut self.problems, "an array of requests")?.collect();
        if items.is_empty() {
            self.problems.add(steps.at, "the group has no request");
        }
        self.in_group = true;
        let bursts = self.steps(items, think, place);
        self.in_group = false;
        let bursts = bursts?;
        let first = place.first as u32;
        let part = GroupPart { kind: self.kind, first, bursts: bursts.len() as u32 };
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

/// The steps of one kind of session, with their groups around them: the lines of a list. `burst`
/// writes one burst.
pub(super) fn grouped(
    plan: &Plan,
    kind: u32,
    steps: &[Step<'_>],
    burst: &dyn Fn(usize) -> String,
) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let parts = plan.groups.iter().flat_map(|group| group.parts.iter().map(move |p| (group, p)));
    let parts = parts.filter(|(_, part)| part.kind == kind);
    let parts: Vec<_> = parts.map(|(group, part)| (group.name.as_str(), part.range())).collect();
    for (group, run) in control::runs(steps, &parts) {
        match group {
            // No group is in another.
            Some(name) => {
                let _ = writeln!(out, "  {{ group = {}, request = [", quoted(name));
                for text in control::steps(run, &[], burst) {
                    let _ = writeln!(out, "    {text},");
                }
                out.push_str("  ] },\n");
            }
            None => {
                for text in control::steps(run, &parts, burst) {
                    let _ = writeln!(out, "  {text},");
                }
            }
        }
    }
    out
}
