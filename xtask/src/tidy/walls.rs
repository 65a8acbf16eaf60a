//! Walls inside a crate: modules that may not name a crate which their own crate depends on. A row
//! of the table in ARCHITECTURE.md has modules and their crate on the left, and on the right the
//! crates that they may not name. Tests are not checked.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::Finding;
use super::graph::{module_of, place_in_crate};
use super::imports;
use super::lexer::Source;

/// The document with the table.
pub(super) const DOCUMENT: &str = "ARCHITECTURE.md";
/// The header of the table.
const HEAD: &str = "| modules | may not name |";

/// The table.
pub(super) struct Walls {
    /// The crates that each module (of a crate) may not name, and the line of its row, from 1.
    rows: BTreeMap<(String, String), (Vec<String>, usize)>,
}

impl Walls {
    /// Read the table in the text of ARCHITECTURE.md.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let lines: Vec<&str> = text.lines().collect();
        let head = lines.iter().position(|l| *l == HEAD);
        let head = head.with_context(|| format!("{DOCUMENT} has no table `{HEAD}`"))?;
        let mut rows = BTreeMap::new();
        for (i, row) in lines.iter().enumerate().skip(head + 2) {
            let Some(row) = row.strip_prefix('|') else { break };
            let place = || format!("{DOCUMENT}:{}", i + 1);
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [left, right, ""] = cells[..] else { bail!("{}: not two columns", place()) };
            let subjects = left.strip_suffix(')').and_then(|c| c.rsplit_once(" ("));
            let (modules, package) =
                subjects.with_context(|| format!("{}: not modules and their crate", place()))?;
            let crates = list(right).with_context(place)?;
            for module in list(modules).with_context(place)? {
                if rows
                    .insert((package.to_owned(), module.clone()), (crates.clone(), i + 1))
                    .is_some()
                {
                    bail!("{}: a second row for {module}", place());
                }
            }
        }
        Ok(Self { rows })
    }

    /// Check that each module in the table exists.
    pub(super) fn check_names(&self, paths: &[String], findings: &mut Vec<Finding>) {
        for ((package, module), (_, line)) in &self.rows {
            let mut files = paths.iter().filter_map(|p| place_in_crate(p));
            if !files.any(|(p, file)| p == package && module_of(file).first() == Some(module)) {
                let what = format!("the table names `{module}`, which {package} has not");
                findings.push(Finding { path: DOCUMENT.to_owned(), line: *line, what });
            }
        }
    }

    /// Check one file.
    pub(super) fn check(&self, path: &str, source: &Source<'_>, findings: &mut Vec<Finding>) {
        let Some((package, file)) = place_in_crate(path).filter(|_| !imports::is_test(path)) else {
            return;
        };
        let Some(module) = module_of(file).into_iter().next() else { return };
        let Some((crates, _)) = self.rows.get(&(package.to_owned(), module)) else { return };
        for named in imports::read(source).named {
            let taken = named.path.first().map(|name| name.replace('_', "-"));
            if let Some(taken) = taken.filter(|taken| crates.contains(taken)) {
                let what = format!("may not name {taken} ({DOCUMENT}: `{HEAD}`)");
                findings.push(Finding { path: path.to_owned(), line: named.line, what });
            }
        }
    }
}

/// Parse a list such as "`a`, `b`".
pub(super) fn list(text: &str) -> Result<Vec<String>> {
    let is_name = |c: char| c.is_alphanumeric() || "_-".contains(c);
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

    const TABLE: &str = "\
| modules | may not name |
|---|---|
| `a`, `b` (prony-io) | `prony-core`, `prony-tally` |

| `c` (prony-io) | `prony-base` |
";

    #[test]
    fn checks_imports_against_the_table() {
        let found = |path: &str, text: &str| {
            let mut findings = Vec::new();
            Walls::parse(TABLE).unwrap().check(path, &Source::new(text), &mut findings);
            findings.len()
        };
        let engine = "use prony_core::engine::{Engine, AnyEngine};\n";
        assert_eq!(found("crates/prony-io/src/a.rs", engine), 2);
        assert_eq!(found("crates/prony-io/src/b/x.rs", "fn f() -> prony_tally::T {}\n"), 1);
        assert_eq!(found("crates/prony-io/src/a.rs", "use prony_base::units::Span;\n"), 0);
        assert_eq!(found("crates/prony-io/src/c.rs", engine), 0);
        assert_eq!(found("crates/prony-io/src/a/tests.rs", engine), 0);
        assert_eq!(found("crates/prony-run/src/a.rs", engine), 0);
    }

    #[test]
    fn reports_modules_that_do_not_exist() {
        let mut findings = Vec::new();
        let paths = ["crates/prony-io/src/a.rs".to_owned()];
        Walls::parse(TABLE).unwrap().check_names(&paths, &mut findings);
        let seen: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(seen, ["ARCHITECTURE.md:3: the table names `b`, which prony-io has not"]);
    }

    #[test]
    fn refuses_malformed_cells() {
        for row in [
            "| `a` (prony-io) | `b` and its kin |",
            "| `a` | `prony-core` |",
            "| a (prony-io) | `b` |",
            "| `a` (prony-io) | `b` | more |",
            "| `a` (prony-io) | `b` |\n| `a` (prony-io) | `c` |",
        ] {
            assert!(Walls::parse(&format!("{HEAD}\n|---|---|\n{row}\n")).is_err(), "{row}");
        }
        assert!(Walls::parse("no table\n").is_err());
    }

    /// Walls that the table must always have.
    #[test]
    fn refuses_imports_through_the_main_walls() {
        for (path, text) in [
            ("crates/prony-io/src/drivers/epoll/mod.rs", "use prony_tally::record::Tally;\n"),
            ("crates/prony-io/src/drivers/dedicated.rs", "use prony_core::engine::Engine;\n"),
            ("crates/prony-run/src/plan_file/mod.rs", "use prony_core::engine::Engine;\n"),
        ] {
            assert_eq!(findings_in(path, text).len(), 1, "{text}");
        }
        let worker = "use prony_core::engine::Engine;\n";
        assert_eq!(findings_in("crates/prony-io/src/run/worker.rs", worker), Vec::<String>::new());
    }
}
