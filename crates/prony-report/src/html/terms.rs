//! The definitions of the terms on a page, and the links to them.

use maud::{Markup, html};

use super::super::terms::{Entry, read};

/// A name, linked to its definition on the page if there is one.
pub(super) fn linked(name: &str) -> Markup {
    linked_to(name, name)
}

/// Another text, linked to the definition of a name.
pub(super) fn linked_to(name: &str, text: &str) -> Markup {
    html! {
        @match id(name) {
            Some(id) => a.term href={ "#" (id) } { (text) },
            None => (text),
        }
    }
}

/// The definitions of these names, each once.
pub(super) fn definitions(names: &[&str]) -> Markup {
    let (entries, _) = read();
    let mut shown: Vec<&Entry<'_>> = Vec::new();
    for entry in names.iter().filter_map(|name| find(entries, name)) {
        if !shown.iter().any(|known| known.names == entry.names) {
            shown.push(entry);
        }
    }
    html! {
        @if !shown.is_empty() {
            h2 { "Terms" }
            dl.facts {
                @for entry in shown {
                    dt id=(id_of(entry)) { (entry.names) }
                    dd {
                        @for (i, (head, cell)) in cells(entry).enumerate() {
                            @if i > 0 { "; " (head) ": " }
                            (cell)
                        }
                    }
                }
            }
        }
    }
}

/// The columns with something in them.
fn cells<'e>(entry: &'e Entry<'_>) -> impl Iterator<Item = (&'e str, &'e str)> {
    entry
        .cells
        .iter()
        .map(|(head, cell)| (*head, cell.as_str()))
        .filter(|(_, cell)| !cell.is_empty())
}

/// The first entry of this name.
fn find<'e, 'p>(entries: &'e [Entry<'p>], name: &str) -> Option<&'e Entry<'p>> {
    let name = name.to_lowercase();
    entries.iter().find(|entry| entry.is_of(&name))
}

/// The id of the definition of a name.
fn id(name: &str) -> Option<String> {
    find(&read().0, name).map(id_of)
}

fn id_of(entry: &Entry<'_>) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("term-{}", entry.names.chars().map(letter).collect::<String>())
}
