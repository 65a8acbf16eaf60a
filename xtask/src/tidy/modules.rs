//! Who may name whom: the table of ARCHITECTURE.md, held against the sources.
//!
//! Tests are free to name what they like: files under `tests` and `benches`, `tests.rs`, and inline
//! `mod tests`.

use super::Finding;
use super::lexer::Source;

/// What a file may name of prony-core.
enum Rule {
    /// These modules (or items of them) and its own.
    Only(&'static [&'static str]),
    /// Everything but these.
    Not(&'static [&'static str]),
}
use Rule::{Not, Only};

const CORE: &str = "crates/prony-core/src/";

/// The modules of prony-core. A new module needs a line here.
const MODULES: &[(&str, Rule)] = &[
    ("units", Only(&[])),
    ("fault", Only(&[])),
    ("frame", Only(&[])),
    ("echo", Only(&["units", "fault", "machine", "frame"])),
    ("rng", Only(&["units", "plan::Think"])),
    ("machine", Only(&["units", "fault"])),
    ("layer", Only(&["units", "fault", "plan"])),
    ("target", Only(&["units", "rng", "schedule", "plan"])),
    ("schedule", Only(&["units", "rng", "target", "plan"])),
    ("plan", Only(&["units", "rng", "target", "schedule", "script", "frame"])),
    ("script", Only(&["units", "fault", "rng", "target", "plan"])),
    ("proto", Only(&["units", "fault", "frame", "plan", "script::Filled"])),
    ("record", Only(&["units", "fault", "proto::Reply", "proto::Odd"])),
    ("engine", Not(&["serve", "echo", "summary"])),
    ("serve", Not(&["engine", "echo", "frame", "proto", "record", "summary"])),
    ("shield", Only(&["units", "fault", "machine", "layer"])),
    ("summary", Only(&["units", "fault", "target", "schedule", "plan", "record"])),
    ("fuzzing", Not(&["engine", "serve", "summary"])),
    ("lib", Not(&[])),
];

/// A driver knows nothing of HTTP, sessions or histograms.
const DRIVER: Rule = Only(&[
    "machine",
    "units",
    "fault",
    "summary::Transport",
    "summary::Sctp",
    "summary::SctpStack",
    "summary::Stalls",
    "summary::StampClock",
    "target::Carrier",
]);

/// Files of the other crates, by the beginning of their path.
const OUTSIDE: &[(&str, Rule)] = &[
    ("crates/prony-io/src/epoll", DRIVER),
    ("crates/prony-io/src/uring", DRIVER),
    ("crates/prony-io/src/direct", DRIVER),
    ("crates/prony-io/src/datagrams", DRIVER),
    ("crates/prony-io/src/userspace", DRIVER),
    ("crates/prony-io/src/driver", DRIVER),
    ("crates/prony-io/src/pace", DRIVER),
    ("crates/prony-io/src/sleep", DRIVER),
    ("crates/prony-io/src/clock", DRIVER),
    ("crates/prony-io/src/sock", DRIVER),
    ("crates/prony-io/src/stamps", DRIVER),
    ("crates/prony-io/src/errno", DRIVER),
    ("crates/prony-sim/src/link", Not(&["engine", "record", "summary"])),
    ("crates/prony-sim/src/plant", Not(&["engine", "record", "summary"])),
    ("crates/prony-report/src", Not(&["engine", "machine", "proto", "serve"])),
    ("crates/prony/src/cli", Not(&["engine", "machine"])),
    ("crates/prony/src/main.rs", Only(&[])),
];

/// Check one file.
pub(super) fn check(path: &str, source: &Source<'_>, findings: &mut Vec<Finding>) {
    let is_test =
        path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs");
    if is_test {
        return;
    }
    let own = module_of(path);
    let (rule, root) = match own.first() {
        Some(module) => {
            let Some((_, rule)) = MODULES.iter().find(|(name, _)| name == module) else {
                let what = format!("module `{module}` has no line in xtask/src/tidy/modules.rs");
                findings.push(Finding { path: path.to_owned(), line: 0, what });
                return;
            };
            (rule, "crate")
        }
        None => match OUTSIDE.iter().find(|(begin, _)| path.starts_with(begin)) {
            Some((_, rule)) => (rule, "prony_core"),
            None => return,
        },
    };
    let code = source.code[..source.tests_begin()].join("\n");
    for (at, named) in names(&code, root, &own) {
        if !permits(rule, &own, &named) {
            let line = code[..at].lines().count().max(1);
            let what =
                format!("may not name {} (ARCHITECTURE.md: who may name whom)", named.join("::"));
            findings.push(Finding { path: path.to_owned(), line, what });
        }
    }
}

/// The module path of a file of prony-core; empty for others.
fn module_of(path: &str) -> Vec<&str> {
    let Some(path) = path.strip_prefix(CORE).and_then(|p| p.strip_suffix(".rs")) else {
        return Vec::new();
    };
    path.split('/').filter(|&s| s != "mod").collect()
}

fn permits(rule: &Rule, own: &[&str], named: &[String]) -> bool {
    let covers = |entry: &&&str| {
        let parts: Vec<&str> = entry.split("::").collect();
        named.len() >= parts.len() && parts.iter().zip(named).all(|(a, b)| a == b)
    };
    if own.first().is_some_and(|m| *m == named[0]) {
        return true;
    }
    match rule {
        Only(list) => list.iter().any(|e| covers(&e)),
        Not(list) => !list.iter().any(|e| covers(&e)),
    }
}

/// All paths that begin with `root::` (or with as many `super::` as lead there), with where they
/// stand.
fn names(code: &str, root: &str, own: &[&str]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let up = "super::".repeat(own.len());
    let starts = [format!("{root}::"), if root == "crate" { up } else { String::new() }];
    for start in starts.iter().filter(|s| !s.is_empty()) {
        for (at, _) in code.match_indices(start.as_str()) {
            let is_inside =
                code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            if !is_inside {
                let mut paths = Vec::new();
                expand(&code[at + start.len()..], &mut Vec::new(), &mut paths);
                found.extend(paths.into_iter().map(|p| (at, p)));
            }
        }
    }
    // What stands at the root of the crate is told from a module by its capital or its `!`.
    found.retain(|(_, p)| p[0].starts_with(|c: char| c.is_lowercase() || c == '*'));
    found
}

/// Take a path or a group of paths apart; returns how many bytes it was long.
fn expand(text: &str, prefix: &mut Vec<String>, out: &mut Vec<Vec<String>>) -> usize {
    let depth = prefix.len();
    let mut at = text.len() - text.trim_start().len();
    if text[at..].starts_with('{') {
        at += 1;
        loop {
            at += expand(&text[at..], prefix, out);
            at += text[at..].len() - text[at..].trim_start().len();
            let stopped = text[at..].chars().next();
            at += usize::from(stopped.is_some());
            if stopped != Some(',') {
                return at;
            }
        }
    }
    let len = text[at..]
        .find(|c: char| !c.is_alphanumeric() && !"_*#".contains(c))
        .unwrap_or(text.len() - at);
    if len == 0 {
        return at;
    }
    prefix.push(text[at..at + len].to_owned());
    at += len;
    if text[at..].starts_with("::") && !text[at + 2..].starts_with('<') {
        at += 2 + expand(&text[at + 2..], prefix, out);
    } else {
        out.push(prefix.clone());
        if text[at..].trim_start().starts_with("as ") {
            at += text[at..].find([',', '}', ';']).unwrap_or(0);
        }
    }
    prefix.truncate(depth);
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_in;

    fn paths(code: &str, own: &[&str]) -> Vec<String> {
        names(code, "crate", own).into_iter().map(|(_, p)| p.join("::")).collect()
    }

    #[test]
    fn paths_are_taken_apart() {
        let code = "use crate::{a, b::C as D, e::{self, f::G}};\nx(crate::h::i(1), crate::j::K::<u8>::new());";
        assert_eq!(paths(code, &["z"]), ["a", "b::C", "e::self", "e::f::G", "h::i", "j::K"]);
        assert_eq!(paths("use super::a::B; use super::super::c::D;", &["x", "y"]), ["c::D"]);
        assert_eq!(paths("use super::a::B; super::{c, d};", &["x"]), ["a::B", "c", "d"]);
        assert_eq!(paths("use other_crate::a; crate::Word; crate::a::*;", &["x"]), ["a::*"]);
    }

    #[test]
    fn names_that_the_table_forbids_are_found() {
        for (path, text, named) in [
            ("proto/h1.rs", "use crate::record::Recorder;\n", "record::Recorder"),
            (
                "proto/h1/head.rs",
                "\nuse crate::{units::Span, schedule::{RatePlan}};\n",
                "schedule::RatePlan",
            ),
            ("proto/mod.rs", "use super::engine;\n", "engine"),
            ("record/mod.rs", "use crate::proto::{Reply, Protocol};\n", "proto::Protocol"),
            ("units.rs", "fn f() -> crate::plan::Plan {}\n", "plan::Plan"),
            ("engine.rs", "use crate::summary::Summary;\n", "summary::Summary"),
        ] {
            let found = findings_in(&format!("{CORE}{path}"), text);
            assert!(
                found.len() == 1 && found[0].contains(&format!("may not name {named} ")),
                "{text}: {found:?}"
            );
        }
        for (path, text) in [
            ("crates/prony-report/src/text.rs", "use prony_core::engine::Engine;\n"),
            (
                "crates/prony-io/src/epoll.rs",
                "use prony_core::{machine::Machine, record::Tally};\n",
            ),
            ("crates/prony-core/src/novelty.rs", "fn f() {}\n"),
        ] {
            assert_eq!(findings_in(path, text).len(), 1, "{text}");
        }
    }

    #[test]
    fn names_that_it_permits_are_not() {
        for (path, text) in [
            (
                "crates/prony-core/src/record/mod.rs",
                "use crate::proto::Reply;\nuse crate::record::hist::Hist;\n",
            ),
            (
                "crates/prony-core/src/rng.rs",
                "#[cfg(test)]\nmod tests {\n    use crate::engine::Engine;\n}\n",
            ),
            ("crates/prony-core/src/rng.rs", "//! See crate::engine::Engine.\n"),
            ("crates/prony-core/src/schedule/tests.rs", "use crate::engine::Engine;\n"),
            (
                "crates/prony-core/src/proto/h1/head.rs",
                "use super::super::Reply;\nuse super::H1;\n",
            ),
            ("crates/prony-io/src/worker.rs", "use prony_core::engine::Engine;\n"),
        ] {
            assert_eq!(findings_in(path, text), Vec::<String>::new(), "{text}");
        }
    }
}
