//! Who may name whom: checks the imports in the sources against the table in ARCHITECTURE.md.
//!
//! A row has modules on the left (of prony-core, or of the crate in parentheses), and on the right
//! what they may import of the pure crates: `nothing`, a list of modules and items (`plan::Think`),
//! or `all but` a list. Every module of prony-core needs a row. The root and the tests are not
//! checked.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::Finding;
use super::graph::{module_of, place_in_crate, resolve};
use super::imports;
use super::lexer::Source;

/// The document with the table.
pub(super) const DOCUMENT: &str = "ARCHITECTURE.md";
/// The header of the table.
const HEAD: &str = "| module | may name (of prony-core) |";
const CORE: &str = "prony-core";
/// The pure crates that depend on it.
const ABOVE: [&str; 2] = ["prony-server", "prony-stats"];

/// The table.
pub(super) struct Rules {
    /// The rule of each crate and module.
    rules: BTreeMap<(String, String), Rule>,
}

/// The rule of a module.
#[derive(Clone)]
struct Rule {
    /// Whether the list has what it may not import.
    not: bool,
    list: Vec<Vec<String>>,
    /// The line of the row, from 1.
    line: usize,
}

impl Rules {
    /// Read the table in the text of ARCHITECTURE.md.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let lines: Vec<&str> = text.lines().collect();
        let head = lines.iter().position(|l| *l == HEAD);
        let head = head.with_context(|| format!("{DOCUMENT} has no table `{HEAD}`"))?;
        let mut rules = BTreeMap::new();
        for (i, row) in lines.iter().enumerate().skip(head + 2) {
            let Some(row) = row.strip_prefix('|') else { break };
            let line = i + 1;
            let place = || format!("{DOCUMENT}:{line}");
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [left, right, ""] = cells[..] else { bail!("{}: not two columns", place()) };
            let (modules, package) = subjects(left).with_context(place)?;
            let rule = permission(right, line).with_context(place)?;
            for module in modules {
                if rules.insert((package.to_owned(), module.clone()), rule.clone()).is_some() {
                    bail!("{}: a second row for {module}", place());
                }
            }
        }
        Ok(Self { rules })
    }

    /// Check that each module in the table exists.
    pub(super) fn check_names(&self, paths: &[String], findings: &mut Vec<Finding>) {
        let exists = |package: &str, module: &str| {
            paths
                .iter()
                .filter_map(|p| place_in_crate(p))
                .any(|(p, file)| p == package && file.split('/').next() == Some(module))
        };
        for ((package, module), rule) in &self.rules {
            let named = rule.list.iter().map(|entry| entry[0].as_str());
            let named =
                named.map(|m| (ABOVE.into_iter().find(|c| exists(c, m)).unwrap_or(CORE), m));
            for (package, module) in named.chain([(package.as_str(), module.as_str())]) {
                if !exists(package, module) {
                    let what = format!("the table names `{module}`, which {package} has not");
                    let finding = Finding { path: DOCUMENT.to_owned(), line: rule.line, what };
                    if !findings.contains(&finding) {
                        findings.push(finding);
                    }
                }
            }
        }
    }

    /// Whether a module is of a crate below: prony-core passes it on, and it has no row.
    fn is_below(&self, module: &str) -> bool {
        let has_row =
            |package: &str| self.rules.contains_key(&(package.to_owned(), module.to_owned()));
        module != "*" && !has_row(CORE) && !ABOVE.iter().any(|package| has_row(package))
    }

    /// Check one file.
    pub(super) fn check(&self, path: &str, source: &Source<'_>, findings: &mut Vec<Finding>) {
        let Some((package, file)) = place_in_crate(path).filter(|_| !imports::is_test(path)) else {
            return;
        };
        let own = module_of(file);
        let Some(top) = own.first() else { return };
        let is_core = package == CORE;
        let Some(rule) = self.rules.get(&(package.to_owned(), top.clone())) else {
            if is_core {
                let what = format!("module `{top}` has no row in the table of {DOCUMENT}");
                findings.push(Finding { path: path.to_owned(), line: 0, what });
            }
            return;
        };
        for named in imports::read(source).named {
            let full = if is_core {
                // Its own submodules are always allowed, so bare names do not matter.
                resolve(&[&own[..], &named.within].concat(), &named.path, |_| false)
            } else {
                let is_pure = |name: &str| name == CORE || ABOVE.contains(&name);
                named
                    .path
                    .split_first()
                    .filter(|(name, _)| is_pure(&name.replace('_', "-")))
                    .map(|(_, p)| p.to_vec())
            };
            let Some(mut full) = full else { continue };
            if full.is_empty() {
                full.push("*".to_owned());
            }
            // An item at the root of the crate starts with a capital letter, a module does not.
            let is_root_item = full[0].starts_with(|c: char| c.is_uppercase());
            let is_free = is_root_item || is_core && full[0] == *top || self.is_below(&full[0]);
            if !is_free && !rule.permits(&full) {
                let what =
                    format!("may not name {} ({DOCUMENT}: who may name whom)", full.join("::"));
                findings.push(Finding { path: path.to_owned(), line: named.line, what });
            }
        }
    }
}

impl Rule {
    fn permits(&self, named: &[String]) -> bool {
        self.list.iter().any(|entry| named.starts_with(entry)) != self.not
    }
}

/// Parse the left cell: modules, and their crate.
fn subjects(cell: &str) -> Result<(Vec<String>, &str)> {
    let (modules, package) = match cell.strip_suffix(')').and_then(|c| c.rsplit_once('(')) {
        Some((modules, package)) => (modules.trim(), package),
        None => (cell, CORE),
    };
    Ok((list(modules)?, package))
}

/// Parse the right cell.
fn permission(cell: &str, line: usize) -> Result<Rule> {
    if cell == "nothing" {
        return Ok(Rule { not: false, list: Vec::new(), line });
    }
    let (not, entries) = cell.strip_prefix("all but ").map_or((false, cell), |rest| (true, rest));
    let split = |entry: String| entry.split("::").map(str::to_owned).collect();
    Ok(Rule { not, list: list(entries)?.into_iter().map(split).collect(), line })
}

/// Parse a list such as "`a`, `b`".
pub(super) fn list(text: &str) -> Result<Vec<String>> {
    let is_name = |c: char| c.is_alphanumeric() || "_:-".contains(c);
    let mut found = Vec::new();
    for entry in text.split(',').map(str::trim) {
        let name = entry.strip_prefix('`').and_then(|e| e.strip_suffix('`'));
        match name.filter(|n| !n.is_empty() && n.chars().all(is_name)) {
            Some(name) => found.push(name.to_owned()),
            None => bail!("not a list of names in backticks: {text}"),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_in;

    const SRC: &str = "crates/prony-core/src/";

    const TABLE: &str = "\
| module | may name (of prony-core) |
|---|---|
| `a`, `b` | nothing |
| `c` | `a`, `b::Item` |
| `d` | all but `c` |
| `e` (prony-io) | `a` |

| `f` | none of this table |
";

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        Rules::parse(TABLE).unwrap().check(path, &Source::new(text), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn checks_imports_against_the_table() {
        for (path, text, named) in [
            ("prony-core/src/a.rs", "use crate::b::B;\n", "b::B"),
            ("prony-core/src/a/mod.rs", "use super::d;\n", "d"),
            ("prony-core/src/b.rs", "use crate::*;\n", "*"),
            ("prony-core/src/c.rs", "use crate::{a::A, b::{Item}, b::Other};\n", "b::Other"),
            ("prony-core/src/d.rs", "fn f() -> crate::c::C {}\n", "c::C"),
            ("prony-core/src/d/x.rs", "mod y {\n    use super::super::super::c;\n}\n", "c"),
            ("prony-io/src/e/x.rs", "use prony_core::{a::A, b::B};\n", "b::B"),
        ] {
            let found = found(&format!("crates/{path}"), text);
            let want = format!("may not name {named} ");
            assert!(found.len() == 1 && found[0].contains(&want), "{text}: {found:?}");
        }
        for (path, text) in [
            ("prony-core/src/lib.rs", "pub use c::C;\n"),
            ("prony-core/src/a/x.rs", "use super::Y;\nuse crate::a::Z;\nuse crate::Root;\n"),
            ("prony-core/src/a/tests.rs", "use crate::d::D;\n"),
            ("prony-core/src/a.rs", "#[cfg(test)]\nmod tests {\n    use crate::d::D;\n}\n"),
            ("prony-io/src/e.rs", "use prony_core::a::A;\nuse crate::c::C;\n"),
            ("prony-io/src/other.rs", "use prony_core::b::B;\n"),
        ] {
            assert_eq!(found(&format!("crates/{path}"), text), Vec::<String>::new(), "{text}");
        }
        let new = found("crates/prony-core/src/f.rs", "\n");
        assert_eq!(
            new,
            ["crates/prony-core/src/f.rs: module `f` has no row in the table of ARCHITECTURE.md"]
        );
    }

    #[test]
    fn reports_modules_that_do_not_exist() {
        let paths: Vec<String> =
            ["prony-core/src/a.rs", "prony-core/src/b/mod.rs", "prony-core/src/d.rs"]
                .map(|p| format!("crates/{p}"))
                .into();
        let mut findings = Vec::new();
        Rules::parse(TABLE).unwrap().check_names(&paths, &mut findings);
        let seen: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            seen,
            [
                "ARCHITECTURE.md:4: the table names `c`, which prony-core has not",
                "ARCHITECTURE.md:5: the table names `c`, which prony-core has not",
                "ARCHITECTURE.md:6: the table names `e`, which prony-io has not",
            ]
        );
    }

    #[test]
    fn refuses_malformed_cells() {
        for row in [
            "| `a` | `b` and its kin |",
            "| `a` | all |",
            "| a | nothing |",
            "| `a` | nothing | more |",
            "| `a` | nothing |\n| `a` | `b` |",
        ] {
            assert!(Rules::parse(&format!("{HEAD}\n|---|---|\n{row}\n")).is_err(), "{row}");
        }
        assert!(Rules::parse("no table\n").is_err());
    }

    /// Boundaries that the table must always have.
    #[test]
    fn refuses_imports_across_the_main_boundaries() {
        for (path, text) in [
            (format!("{SRC}proto/h1.rs"), "use crate::record::Recorder;\n"),
            (format!("{SRC}proto/h1/head.rs"), "use crate::{units::Span, record::{Tally}};\n"),
            (format!("{SRC}record/mod.rs"), "use crate::proto::{Reply, Protocol};\n"),
            (format!("{SRC}engine.rs"), "use crate::fuzzing::http1;\n"),
            (
                "crates/prony-io/src/drivers/epoll/mod.rs".to_owned(),
                "use prony_core::{machine::Machine, record::Tally};\n",
            ),
            (
                "crates/prony-io/src/drivers/dedicated.rs".to_owned(),
                "use prony_core::engine::Engine;\n",
            ),
        ] {
            assert_eq!(findings_in(&path, text).len(), 1, "{text}");
        }
        let worker = "use prony_core::engine::Engine;\n";
        assert_eq!(findings_in("crates/prony-io/src/run/worker.rs", worker), Vec::<String>::new());
    }
}
