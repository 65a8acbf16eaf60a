//! What an import leaves out or changes, with the places.

/// How many places are shown.
const SHOWN: usize = 5;

/// One kind of thing that was left out or changed.
#[derive(Clone, Copy, Debug)]
pub struct Note<'a> {
    /// What it is, and why.
    pub what: &'a str,
    /// Where, one for each thing.
    pub places: &'a [String],
}

impl Note<'_> {
    /// The places, of which the first few are written out.
    pub fn shown_places(&self) -> String {
        let shown = self.places.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>();
        let rest = self.places.len() - shown.len();
        match rest {
            0 => shown.join(", "),
            _ => format!("{}, and {rest} more", shown.join(", ")),
        }
    }
}

/// Notes in the order of their first appearance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    all: Vec<(String, Vec<String>)>,
}

impl Notes {
    pub(crate) fn add(&mut self, what: &str, place: &str) {
        let note = match self.all.iter().position(|(w, _)| w == what) {
            Some(at) => &mut self.all[at].1,
            None => {
                self.all.push((what.to_owned(), Vec::new()));
                &mut self.all.last_mut().expect("just added").1
            }
        };
        note.push(place.to_owned());
    }

    pub(crate) fn all(&self) -> Vec<Note<'_>> {
        self.all.iter().map(|(what, places)| Note { what, places }).collect()
    }
}
