//! Rooms that import each other, directly or by way of others.
//!
//! The ratchet holds, for each room in a circle, how many rooms of its circle it imports: a new
//! circle is a new entry, and a new arrow within an old one a higher number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use super::graph::Rooms;
use super::{Finding, Measures};

/// The name of this rule in the ratchet.
const RULE: &str = "circle";

/// Enter the rooms that stand in circles.
pub(super) fn measure(crates: &[Rooms], measures: &mut Measures) {
    for rooms in crates {
        for circle in circles(rooms) {
            for room in &circle {
                let n = next(rooms, &circle, room).count();
                measures.insert((RULE, place(rooms, room)), n);
            }
        }
    }
}

/// For each room whose number the ratchet refuses: the shortest circles through its imports.
pub(super) fn explain(crates: &[Rooms], findings: &mut Vec<Finding>) {
    let mut more = Vec::new();
    for rooms in crates {
        for circle in circles(rooms) {
            for room in &circle {
                let own = place(rooms, room);
                let is_new = |f: &&Finding| f.path == own && f.what.starts_with(RULE);
                if !findings.iter().any(|f| is_new(&f)) {
                    continue;
                }
                for to in next(rooms, &circle, room) {
                    let chain = shortest(rooms, &circle, to, room);
                    let (path, line) = rooms.arrows[&(room.clone(), to.to_owned())].clone();
                    let what = format!("in a circle: {}", shown(rooms, room, &chain));
                    more.push(Finding { path, line, what });
                }
            }
        }
    }
    findings.extend(more);
}

/// The graph of all crates for people: each room with what it imports, then the circles. An arrow
/// within a circle has a `*`.
pub(super) fn drawn(crates: &[Rooms]) -> String {
    let mut text = String::new();
    for rooms in crates {
        let circles = circles(rooms);
        let _ = writeln!(text, "{}", rooms.folder);
        for room in &rooms.names {
            let circle = circles.iter().find(|c| c.contains(room));
            let _ = write!(text, "  {room} ->");
            for (_, to) in rooms.arrows.keys().filter(|(from, _)| from == room) {
                let mark = if circle.is_some_and(|c| c.contains(to)) { "*" } else { "" };
                let _ = write!(text, " {to}{mark}");
            }
            text.push('\n');
        }
        for circle in &circles {
            let names: Vec<&str> = circle.iter().map(String::as_str).collect();
            let _ = writeln!(text, "  circle of {} rooms: {}", circle.len(), names.join(", "));
            for chain in cover(rooms, circle) {
                let _ = writeln!(text, "    {}", shown(rooms, &chain[0], &chain[1..]));
            }
        }
    }
    text
}

/// How the ratchet calls a room.
fn place(rooms: &Rooms, room: &str) -> String {
    format!("{}/{room}", rooms.folder)
}

/// The rooms of the circle that a room imports.
fn next<'a>(
    rooms: &'a Rooms,
    circle: &'a BTreeSet<String>,
    room: &'a str,
) -> impl Iterator<Item = &'a str> {
    let arrows = rooms.arrows.keys().filter(move |(from, to)| from == room && circle.contains(to));
    arrows.map(|(_, to)| to.as_str())
}

/// The strongly connected components of more than one room.
fn circles(rooms: &Rooms) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        rooms.names.iter().map(|room| (room.as_str(), reached(rooms, room))).collect();
    let mut found = BTreeSet::new();
    for (room, there) in &reach {
        let circle: BTreeSet<String> =
            there.iter().filter(|r| reach[**r].contains(room)).map(|r| (*r).to_owned()).collect();
        if !circle.is_empty() {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// All rooms that can be reached by at least one arrow.
fn reached<'a>(rooms: &'a Rooms, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(room) = open.pop() {
        for to in next(rooms, &rooms.names, room) {
            if found.insert(to) {
                open.push(to);
            }
        }
    }
    found
}

/// The rooms on the shortest way, both ends included. There is one within a circle.
fn shortest(rooms: &Rooms, circle: &BTreeSet<String>, from: &str, to: &str) -> Vec<String> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open = VecDeque::from([from]);
    while let Some(room) = open.pop_front().filter(|room| *room != to) {
        for there in next(rooms, circle, room) {
            if there != from && !before.contains_key(there) {
                before.insert(there, room);
                open.push_back(there);
            }
        }
    }
    let mut way = vec![to.to_owned()];
    let mut at = to;
    while let Some(room) = before.get(at).filter(|_| at != from) {
        way.push((*room).to_owned());
        at = room;
    }
    way.reverse();
    way
}

/// Short circles, each from a room back to itself, that together pass every room of a component.
fn cover(rooms: &Rooms, circle: &BTreeSet<String>) -> Vec<Vec<String>> {
    let mut passed: BTreeSet<String> = BTreeSet::new();
    let mut chains = Vec::new();
    for room in circle {
        if passed.contains(room) {
            continue;
        }
        let ways = next(rooms, circle, room).map(|to| shortest(rooms, circle, to, room));
        let Some(way) = ways.min_by_key(Vec::len) else { continue };
        passed.extend(way.iter().cloned());
        chains.push([vec![room.clone()], way].concat());
    }
    chains
}

/// `a -> b -> a (a.rs:1, b.rs:2)`, the files below the folder of the crate.
fn shown(rooms: &Rooms, from: &str, way: &[String]) -> String {
    let mut at = from.to_owned();
    let mut places = Vec::new();
    for to in way {
        let (path, line) = &rooms.arrows[&(at, to.clone())];
        let path = path.strip_prefix(&format!("{}/", rooms.folder)).unwrap_or(path);
        places.push(format!("{path}:{line}"));
        at = to.clone();
    }
    format!("{from} -> {} ({})", way.join(" -> "), places.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::graph::of_sources;

    const SOURCES: [(&str, &str); 6] = [
        ("a.rs", "use crate::b::B;\n"),
        ("b.rs", "\nuse crate::c::C;\nuse crate::d::D;\n"),
        ("c/mod.rs", "mod inner;\nuse inner::X;\n"),
        ("c/inner.rs", "use super::X;\nuse crate::a::A;\nuse crate::b::B;\n"),
        ("d.rs", "use crate::e::E;\n"),
        ("e.rs", "\n"),
    ];

    #[test]
    fn circles_between_rooms_are_found() {
        let rooms = of_sources(&SOURCES);
        let found: Vec<Vec<String>> =
            circles(&rooms).into_iter().map(|c| c.into_iter().collect()).collect();
        assert_eq!(found, [["a", "b", "c"]]);
        let mut measures = Measures::new();
        measure(&[rooms], &mut measures);
        let seen: Vec<(String, usize)> = measures.into_iter().map(|((_, p), n)| (p, n)).collect();
        let want = [("a", 1), ("b", 1), ("c", 2)];
        assert_eq!(seen, want.map(|(p, n)| (format!("crates/x/src/{p}"), n)));
        assert_eq!(circles(&of_sources(&SOURCES[..3])), []);
    }

    #[test]
    fn circles_that_share_no_room_are_apart() {
        let found = circles(&of_sources(&[
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "use crate::a::A;\nuse crate::c::C;\n"),
            ("c.rs", "use crate::d::D;\n"),
            ("d.rs", "use crate::c::C;\n"),
        ]));
        assert_eq!(found.iter().map(BTreeSet::len).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn refused_room_is_explained_by_its_circles() {
        let rooms = [of_sources(&SOURCES)];
        let refused = Finding {
            path: "crates/x/src/a".to_owned(),
            line: 0,
            what: format!("{RULE} 1: over the limit"),
        };
        let mut findings = vec![refused];
        explain(&rooms, &mut findings);
        let seen: Vec<String> = findings[1..].iter().map(ToString::to_string).collect();
        assert_eq!(
            seen,
            ["crates/x/src/a.rs:1: in a circle: a -> b -> c -> a (a.rs:1, b.rs:2, c/inner.rs:2)"]
        );
    }

    #[test]
    fn graph_is_drawn_with_its_circles() {
        assert_eq!(
            drawn(&[of_sources(&SOURCES)]),
            "crates/x/src\n  a -> b*\n  b -> c* d\n  c -> a* b*\n  d -> e\n  e ->\n  \
             circle of 3 rooms: a, b, c\n    a -> b -> c -> a (a.rs:1, b.rs:2, c/inner.rs:2)\n"
        );
    }
}
