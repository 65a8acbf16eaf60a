//! Import cycles between top-level modules.
//!
//! For each module in a cycle, the ratchet has the number of modules of the cycle that it imports.
//! A new cycle is a new entry, and a new import within a cycle is a higher number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use super::graph::CrateGraph;
use super::{Finding, Measures};

/// The name of this rule in the ratchet.
const RULE: &str = "cycle";

/// Measure the modules in cycles.
pub(super) fn measure(crates: &[CrateGraph], measures: &mut Measures) {
    for graph in crates {
        for cycle in cycles(graph) {
            for module in &cycle {
                let n = next(graph, &cycle, module).count();
                measures.insert((RULE, place(graph, module)), n);
            }
        }
    }
}

/// For each module that the ratchet refuses, add the shortest cycles through its imports.
pub(super) fn explain(crates: &[CrateGraph], findings: &mut Vec<Finding>) {
    let mut more = Vec::new();
    for graph in crates {
        for cycle in cycles(graph) {
            for module in &cycle {
                let own = place(graph, module);
                let is_new = |f: &&Finding| f.path == own && f.what.starts_with(RULE);
                if !findings.iter().any(|f| is_new(&f)) {
                    continue;
                }
                for to in next(graph, &cycle, module) {
                    let chain = shortest(graph, &cycle, to, module);
                    let (path, line) =
                        graph.imports_between[&(module.clone(), to.to_owned())].clone();
                    let what = format!("in a cycle: {}", shown(graph, module, &chain));
                    more.push(Finding { path, line, what });
                }
            }
        }
    }
    findings.extend(more);
}

/// The graphs of all crates as text: each module with its imports, then the cycles. An import
/// within a cycle has a `*`.
pub(super) fn drawn(crates: &[CrateGraph]) -> String {
    let mut text = String::new();
    for graph in crates {
        let cycles = cycles(graph);
        let _ = writeln!(text, "{}", graph.folder);
        for module in &graph.names {
            let cycle = cycles.iter().find(|c| c.contains(module));
            let _ = write!(text, "  {module} ->");
            for (_, to) in graph.imports_between.keys().filter(|(from, _)| from == module) {
                let mark = if cycle.is_some_and(|c| c.contains(to)) { "*" } else { "" };
                let _ = write!(text, " {to}{mark}");
            }
            text.push('\n');
        }
        for cycle in &cycles {
            let names: Vec<&str> = cycle.iter().map(String::as_str).collect();
            let _ = writeln!(text, "  cycle of {} graph: {}", cycle.len(), names.join(", "));
            for chain in cover(graph, cycle) {
                let _ = writeln!(text, "    {}", shown(graph, &chain[0], &chain[1..]));
            }
        }
    }
    text
}

/// The name of a module in the ratchet.
fn place(graph: &CrateGraph, module: &str) -> String {
    format!("{}/{module}", graph.folder)
}

/// The modules of the cycle that a module imports.
fn next<'a>(
    graph: &'a CrateGraph,
    cycle: &'a BTreeSet<String>,
    module: &'a str,
) -> impl Iterator<Item = &'a str> {
    let imports_between =
        graph.imports_between.keys().filter(move |(from, to)| from == module && cycle.contains(to));
    imports_between.map(|(_, to)| to.as_str())
}

/// The strongly connected components with more than one module.
fn cycles(graph: &CrateGraph) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        graph.names.iter().map(|module| (module.as_str(), reached(graph, module))).collect();
    let mut found = BTreeSet::new();
    for (module, there) in &reach {
        let cycle: BTreeSet<String> =
            there.iter().filter(|r| reach[**r].contains(module)).map(|r| (*r).to_owned()).collect();
        if !cycle.is_empty() {
            found.insert(cycle);
        }
    }
    found.into_iter().collect()
}

/// All modules that can be reached by at least one import.
fn reached<'a>(graph: &'a CrateGraph, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for to in next(graph, &graph.names, module) {
            if found.insert(to) {
                open.push(to);
            }
        }
    }
    found
}

/// The modules on the shortest path, both ends included. Within a cycle, there always is one.
fn shortest(graph: &CrateGraph, cycle: &BTreeSet<String>, from: &str, to: &str) -> Vec<String> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open = VecDeque::from([from]);
    while let Some(module) = open.pop_front().filter(|module| *module != to) {
        for there in next(graph, cycle, module) {
            if there != from && !before.contains_key(there) {
                before.insert(there, module);
                open.push_back(there);
            }
        }
    }
    let mut way = vec![to.to_owned()];
    let mut at = to;
    while let Some(module) = before.get(at).filter(|_| at != from) {
        way.push((*module).to_owned());
        at = module;
    }
    way.reverse();
    way
}

/// Short cycles that together contain every module of a component.
fn cover(graph: &CrateGraph, cycle: &BTreeSet<String>) -> Vec<Vec<String>> {
    let mut passed: BTreeSet<String> = BTreeSet::new();
    let mut chains = Vec::new();
    for module in cycle {
        if passed.contains(module) {
            continue;
        }
        let ways = next(graph, cycle, module).map(|to| shortest(graph, cycle, to, module));
        let Some(way) = ways.min_by_key(Vec::len) else { continue };
        passed.extend(way.iter().cloned());
        chains.push([vec![module.clone()], way].concat());
    }
    chains
}

/// `a -> b -> a (a.rs:1, b.rs:2)`, with paths below the source folder.
fn shown(graph: &CrateGraph, from: &str, way: &[String]) -> String {
    let mut at = from.to_owned();
    let mut places = Vec::new();
    for to in way {
        let (path, line) = &graph.imports_between[&(at, to.clone())];
        let path = path.strip_prefix(&format!("{}/", graph.folder)).unwrap_or(path);
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
    fn finds_cycles_between_top_level_modules() {
        let graph = of_sources(&SOURCES);
        let found: Vec<Vec<String>> =
            cycles(&graph).into_iter().map(|c| c.into_iter().collect()).collect();
        assert_eq!(found, [["a", "b", "c"]]);
        let mut measures = Measures::new();
        measure(&[graph], &mut measures);
        let seen: Vec<(String, usize)> = measures.into_iter().map(|((_, p), n)| (p, n)).collect();
        let want = [("a", 1), ("b", 1), ("c", 2)];
        assert_eq!(seen, want.map(|(p, n)| (format!("crates/x/src/{p}"), n)));
        assert_eq!(cycles(&of_sources(&SOURCES[..3])), []);
    }

    #[test]
    fn separates_cycles_without_common_modules() {
        let found = cycles(&of_sources(&[
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "use crate::a::A;\nuse crate::c::C;\n"),
            ("c.rs", "use crate::d::D;\n"),
            ("d.rs", "use crate::c::C;\n"),
        ]));
        assert_eq!(found.iter().map(BTreeSet::len).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn explains_a_refused_module_by_its_cycles() {
        let graph = [of_sources(&SOURCES)];
        let refused = Finding {
            path: "crates/x/src/a".to_owned(),
            line: 0,
            what: format!("{RULE} 1: over the limit"),
        };
        let mut findings = vec![refused];
        explain(&graph, &mut findings);
        let seen: Vec<String> = findings[1..].iter().map(ToString::to_string).collect();
        assert_eq!(
            seen,
            ["crates/x/src/a.rs:1: in a cycle: a -> b -> c -> a (a.rs:1, b.rs:2, c/inner.rs:2)"]
        );
    }

    #[test]
    fn prints_the_graph_with_its_cycles() {
        assert_eq!(
            drawn(&[of_sources(&SOURCES)]),
            "crates/x/src\n  a -> b*\n  b -> c* d\n  c -> a* b*\n  d -> e\n  e ->\n  \
             cycle of 3 graph: a, b, c\n    a -> b -> c -> a (a.rs:1, b.rs:2, c/inner.rs:2)\n"
        );
    }
}
