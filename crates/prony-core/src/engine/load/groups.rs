//! The groups of steps in which sessions are.

use prony_base::units::{Nanos, Span};
use prony_plan::plan::Plan;
use prony_tally::record::{GroupEnd, GroupKey, SessionEnd};

/// No group.
const NONE: u32 = u32::MAX;

/// The groups of a plan, and where each session is. Exists only if the plan has groups.
#[derive(Debug)]
pub(super) struct Groups {
    /// The part of a group to which each burst belongs, or [`NONE`].
    part_of: Vec<u32>,
    /// The group of each part.
    groups: Vec<u32>,
    /// By the slot of the session.
    running: Vec<Running>,
}

/// The group in which a session is.
#[derive(Clone, Copy, Debug)]
struct Running {
    /// The part, or [`NONE`].
    part: u32,
    began: Nanos,
    paused: Span,
    failed: bool,
    /// Whether it had failed before its current step.
    had_failed: bool,
}

impl Running {
    fn new(part: u32, began: Nanos) -> Self {
        Self { part, began, paused: Span::ZERO, failed: false, had_failed: false }
    }
}

impl Groups {
    /// `None` if the plan has no groups. `first_bursts` has the number of the first burst of each
    /// kind of session, and in the end that of all bursts.
    pub(super) fn new(plan: &Plan, first_bursts: &[u32]) -> Option<Box<Self>> {
        if plan.groups.is_empty() {
            return None;
        }
        let all = first_bursts.last().copied().unwrap_or(0);
        let (mut part_of, mut groups) = (vec![NONE; all as usize], Vec::new());
        for (group, spec) in (0..).zip(&plan.groups) {
            for part in &spec.parts {
                let first = (first_bursts[part.kind as usize] + part.first) as usize;
                part_of[first..first + part.bursts as usize].fill(groups.len() as u32);
                groups.push(group);
            }
        }
        Some(Box::new(Self { part_of, groups, running: Vec::new() }))
    }

    /// The first request of a step of this session starts, intended for `intended`. Returns the
    /// group that starts with it, if one does.
    pub(super) fn step_starts(
        &mut self,
        slot: u32,
        burst: u32,
        intended: Nanos,
    ) -> Option<GroupKey> {
        let part = self.part_of[burst as usize];
        let (key, slot) = (GroupKey::Session(slot), slot as usize);
        if self.running.len() <= slot {
            self.running.resize(slot + 1, Running::new(NONE, intended));
        }
        let running = &mut self.running[slot];
        let starts = running.part != part;
        if starts {
            *running = Running::new(part, intended);
        }
        running.had_failed = running.failed;
        (starts && part != NONE).then_some(key)
    }

    /// The group in which this session is.
    pub(super) fn running(&self, slot: u32) -> Option<GroupKey> {
        let running = self.running.get(slot as usize)?;
        (running.part != NONE).then_some(GroupKey::Session(slot))
    }

    /// The request of the current step of this session has failed, and is made again.
    pub(super) fn step_again(&mut self, slot: u32, wait: Span) {
        if let Some(running) = self.running.get_mut(slot as usize) {
            running.failed = running.had_failed;
            running.paused += wait;
        }
    }

    /// A request of this session has failed.
    pub(super) fn request_failed(&mut self, slot: u32) {
        if let Some(running) = self.running.get_mut(slot as usize) {
            running.failed = true;
        }
    }

    /// A step of this session has ended, and `next` is the next after a pause; `None` if there is
    /// none. Returns the group, if it ends.
    pub(super) fn step_ended(
        &mut self,
        slot: u32,
        next: Option<u32>,
        pause: Span,
    ) -> Option<GroupEnd> {
        let running = self.running.get_mut(slot as usize)?;
        if next.is_some_and(|burst| self.part_of[burst as usize] == running.part) {
            running.paused += pause;
            return None;
        }
        let how = if running.failed { SessionEnd::Failed } else { SessionEnd::Completed };
        self.end(slot, how)
    }

    /// The session in this slot has ended. Returns the group in which it was.
    pub(super) fn session_ended(&mut self, slot: u32, how: SessionEnd) -> Option<GroupEnd> {
        self.end(slot, how)
    }

    fn end(&mut self, slot: u32, how: SessionEnd) -> Option<GroupEnd> {
        let running = self.running.get_mut(slot as usize)?;
        let &mut Running { part, began, paused, .. } = running;
        running.part = NONE;
        let group = *self.groups.get(part as usize)?;
        Some(GroupEnd { key: GroupKey::Session(slot), group, how, began, paused })
    }
}
