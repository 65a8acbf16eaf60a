//! All ways to read a line.

use super::{Pattern, class, is_escaped};
use crate::fields::{Fields, Role, Why};
use crate::times::Times;

/// More places at which a part may end are not looked at: the line is refused.
const EDGES_MAX: usize = 20_000;
/// The same for bytes that are looked at, those of all beginnings of all parts together.
const WORK_MAX: usize = 30_000_000;

/// A part, and where it begins and ends.
#[derive(Clone, Copy, Debug)]
struct Edge {
    part: usize,
    start: usize,
    end: usize,
}

impl Pattern {
    /// Reads a line in the one way in which it can be read.
    pub(super) fn searched<'a>(
        &self,
        line: &'a [u8],
        times: &mut Times,
    ) -> Result<Fields<'a>, Why> {
        if !line.starts_with(&self.begin) {
            return Err(Why::Form);
        }
        for level in 0..class::LEVELS {
            let edges = self.edges(line, level)?;
            if edges.is_empty() {
                continue;
            }
            let mut fields = Fields::new(self.escapes);
            for (i, part) in self.parts.iter().enumerate() {
                if part.role == Role::Ignored {
                    continue;
                }
                let mut own = edges.iter().filter(|edge| edge.part == i);
                let edge = own.next().ok_or(Why::Form)?;
                if own.next().is_some() {
                    return Err(Why::Ambiguous);
                }
                fields.set(part.role, &line[edge.start..edge.end], times)?;
                if i + 1 == self.used {
                    let after = edge.end + part.until.len();
                    self.set_optional(&mut fields, &line[after..], times);
                }
            }
            fields.finish()?;
            // It is nothing that a server has accepted.
            fields.is_no_request |= level + 1 == class::LEVELS || fields.aim.target.is_empty();
            return Ok(fields);
        }
        Err(Why::Form)
    }

    /// The parts of all ways to read a line.
    fn edges(&self, line: &[u8], level: usize) -> Result<Vec<Edge>, Why> {
        let limits = self.limits(line);
        let mut all: Vec<Edge> = Vec::new();
        let (mut starts, mut work) = (vec![self.begin.len()], 0);
        for (i, part) in self.parts.iter().enumerate() {
            let is_last = i + 1 == self.parts.len();
            let (mut next, mut many) = (Vec::new(), false);
            for &start in &starts {
                work += limits[start] - start;
                part.class.ends(line, (start, limits[start]), level, &mut |end| {
                    let fits = line[end..].starts_with(&part.until)
                        && (!is_last || !part.until.is_empty() || end == line.len());
                    if fits && all.len() < EDGES_MAX {
                        all.push(Edge { part: i, start, end });
                        next.push(end + part.until.len());
                    } else if fits {
                        many = true;
                    }
                });
                if many || work > WORK_MAX {
                    return Err(Why::Ambiguous);
                }
            }
            next.sort_unstable();
            next.dedup();
            starts = next;
        }
        // What is after the text after the last part is left over.
        let mut alive: Vec<usize> = starts.into_iter().filter(|at| *at == line.len()).collect();
        let mut kept = Vec::new();
        for (i, part) in self.parts.iter().enumerate().rev() {
            let leads = |edge: &&Edge| alive.binary_search(&(edge.end + part.until.len())).is_ok();
            let own: Vec<Edge> =
                all.iter().filter(|edge| edge.part == i).filter(leads).copied().collect();
            alive = own.iter().map(|edge| edge.start).collect();
            alive.sort_unstable();
            alive.dedup();
            kept.extend(own);
        }
        Ok(kept)
    }

    /// For each place, that of the first quotation mark from there on, if a part cannot contain it.
    fn limits(&self, line: &[u8]) -> Vec<usize> {
        let mut limits = vec![line.len(); line.len() + 1];
        if !self.escapes.protects_quotes() {
            return limits;
        }
        let hides = self.escapes.hides_quotes();
        let mut limit = line.len();
        for at in (0..line.len()).rev() {
            if line[at] == b'"' && !(hides && is_escaped(line, at)) {
                limit = at;
            }
            limits[at] = limit;
        }
        limits
    }
}
