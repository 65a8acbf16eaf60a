//! Groups: steps of a session that are measured together, as a transaction.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Plan;
use super::steps::{Step, steps};

/// Consecutive steps of sessions with a name. Its time is from the intended start of the first of
/// these steps to the end of the last reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name in reports; each group has its own.
    pub name: String,
    /// The steps, by their places in the sessions. Never empty.
    pub parts: Vec<GroupPart>,
}

/// The bursts of one kind of session that are one group: whole steps that follow one another, with
/// all alternatives of a switch among them, or in one alternative of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPart {
    /// Index of the kind of session.
    pub kind: u32,
    /// Index of the first burst in this kind.
    pub first: u32,
    /// The number of bursts, at least 1.
    pub bursts: u32,
}

impl Group {
    /// Check whether a group can have this name.
    ///
    /// # Errors
    /// One sentence.
    pub fn check_name(name: &str) -> Result<(), String> {
        let wrong = |c: char| c.is_control() || "<>=:,".contains(c);
        if name.is_empty() || name.trim() != name || name.contains(wrong) {
            return Err(format!(
                "'{}' is not a name of a group; it must not be empty, and have none of < > = : , \
                 and no blanks around it",
                name.escape_debug()
            ));
        }
        Ok(())
    }
}

impl GroupPart {
    /// The bursts in their kind of session.
    pub fn range(self) -> Range<usize> {
        self.first as usize..self.end() as usize
    }

    fn end(self) -> u64 {
        u64::from(self.first) + u64::from(self.bursts)
    }
}

impl Plan {
    /// Check whether the groups are parts of the plan's sessions.
    pub(crate) fn check_groups(&self) -> Result<(), String> {
        if self.groups.len() == usize::from(self.follow.is_some()) {
            return Ok(());
        }
        let Some(sessions) = self.sessions.as_ref().filter(|sessions| !sessions.directed) else {
            return Err("groups are steps of sessions, and the plan has none".into());
        };
        for (i, group) in self.groups.iter().enumerate() {
            Group::check_name(&group.name)?;
            if self.groups[..i].iter().any(|other| other.name == group.name) {
                return Err(format!("the plan has two groups '{}'", group.name));
            }
            if self.is_group_of_redirects(i) {
                continue;
            }
            if group.parts.is_empty() {
                return Err(format!("the group '{}' has no step", group.name));
            }
            for part in &group.parts {
                let kind = sessions.kinds.get(part.kind as usize);
                if part.bursts == 0 || kind.is_none_or(|k| part.end() > k.bursts.len() as u64) {
                    return Err(format!("the group '{}' has steps that do not exist", group.name));
                }
                let steps = kind.and_then(|kind| steps(&kind.bursts).ok()).unwrap_or_default();
                if !Step::are_whole(&steps, &part.range()) {
                    return Err(format!("the group '{}' has a part of a switch", group.name));
                }
            }
        }
        let mut parts: Vec<&GroupPart> = self.groups.iter().flat_map(|g| &g.parts).collect();
        parts.sort_by_key(|part| (part.kind, part.first));
        let overlap = |pair: &[&GroupPart]| {
            pair[0].kind == pair[1].kind && pair[0].end() > u64::from(pair[1].first)
        };
        match parts.windows(2).any(overlap) {
            true => Err("a step is in two groups".into()),
            false => Ok(()),
        }
    }
}
