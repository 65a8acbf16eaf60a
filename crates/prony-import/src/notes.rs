//! What an import leaves out or changes, with the places.

use std::collections::HashMap;

/// How many places are shown.
const SHOWN: usize = 5;

/// One kind of thing that was left out or changed.
#[derive(Clone, Copy, Debug)]
pub struct Note<'a> {
    /// What it is, and why.
    pub what: &'a str,
    /// How many things.
    pub count: usize,
    /// Where the first ones are.
    pub places: &'a [String],
}

impl Note<'_> {
    /// The places, of which the first few are written out.
    pub fn shown_places(&self) -> String {
        let shown = self.places.join(", ");
        match self.count - self.places.len() {
            0 => shown,
            rest => format!("{shown}, and {rest} more"),
        }
    }
}

/// How many kinds are kept apart; what an input says can be a part of a note.
const KINDS: usize = 200;

/// The last kind.
const OTHERS: &str = "left out or changed for other reasons";

/// Notes in the order of their first appearance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    all: Vec<Kind>,
    /// Where a kind is.
    at: HashMap<String, usize>,
}

#[derive(Clone, Debug)]
struct Kind {
    what: String,
    count: usize,
    places: Vec<String>,
}

impl Notes {
    pub(crate) fn add(&mut self, what: &str, place: &str) {
        let is_full = self.all.len() >= KINDS && !self.at.contains_key(what);
        let what = if is_full { OTHERS } else { what };
        let at = *self.at.entry(what.to_owned()).or_insert(self.all.len());
        if at == self.all.len() {
            self.all.push(Kind { what: what.to_owned(), count: 0, places: Vec::new() });
        }
        let kind = &mut self.all[at];
        kind.count += 1;
        if kind.places.len() < SHOWN {
            kind.places.push(place.to_owned());
        }
    }

    pub(crate) fn all(&self) -> Vec<Note<'_>> {
        self.all.iter().map(Kind::note).collect()
    }
}

impl Kind {
    fn note(&self) -> Note<'_> {
        Note { what: &self.what, count: self.count, places: &self.places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_kinds_and_places_are_kept() {
        let mut notes = Notes::default();
        for nth in 0..1_000 {
            notes.add(&format!("kind {nth}"), "a");
            notes.add("kind 0", &format!("line {nth}"));
        }
        let all = notes.all();
        assert_eq!((all.len(), all[0].count, all[0].places.len()), (KINDS + 1, 1_001, SHOWN));
        assert!(all[0].shown_places().ends_with(", and 996 more"), "{}", all[0].shown_places());
        assert_eq!((all[KINDS].what, all[KINDS].count), (OTHERS, 1_000 - KINDS));
    }
}
