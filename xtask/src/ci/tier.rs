//! The two tiers of `ci`: the gate, and the whole. All tests are in the gate but those of a list,
//! and loops over seeds take a seventh of them, each day another one.

use std::fs;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

/// The tests that only `ci --full` runs, with their processor time, and what the gate has in their
/// place.
pub(crate) const LIST: &str = "docs/reliability/full-tests.md";

/// The number of parts of the seeds: each weekday has its own. Simulations also take turns
/// by their seeds, modulo 2, 3 or 5, so this is none of these.
const PARTS: u64 = 7;

/// How much runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tier {
    /// What catches nearly all mistakes, within 15 min.
    Gate,
    /// Everything but what takes hours.
    Full,
}

impl Tier {
    /// The part of the seeds that tests take, for `PRONY_SEEDS`. `None`: all.
    pub(super) fn seeds(self) -> Result<Option<String>> {
        if self == Self::Full {
            return Ok(None);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let days = now.context("the clock is before 1970")?.as_secs() / 86_400;
        Ok(Some(format!("{}/{PARTS}", days % PARTS)))
    }
}

/// The rows of [`LIST`].
pub(crate) struct Listed(Vec<Row>);

/// A test program, and the name of one of its tests, or the start of several names.
#[derive(Debug, PartialEq)]
struct Row {
    program: String,
    test: String,
}

impl Listed {
    pub(crate) fn read() -> Result<Self> {
        let text = fs::read_to_string(LIST).with_context(|| format!("cannot read {LIST}"))?;
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        Ok(Self(rows.map(Row::parse).collect::<Result<_>>()?))
    }

    /// Refuse rows of other programs than these.
    pub(crate) fn check(&self, programs: &[String]) -> Result<()> {
        match self.0.iter().find(|row| !programs.contains(&row.program)) {
            Some(row) => bail!("{LIST}: there is no test program {}", row.program),
            None => Ok(()),
        }
    }

    /// Those of these tests of a program that the gate leaves out. A row that is about no test is
    /// an error.
    pub(crate) fn of(&self, program: &str, names: &[String]) -> Result<Vec<String>> {
        let mut left_out = Vec::new();
        for row in self.0.iter().filter(|row| row.program == program) {
            let before = left_out.len();
            left_out.extend(names.iter().filter(|name| row.is_about(name)).cloned());
            if left_out.len() == before {
                bail!("{LIST}: {program} has no test `{}`", row.test);
            }
        }
        left_out.sort_unstable();
        left_out.dedup();
        Ok(left_out)
    }
}

impl Row {
    fn parse(line: &str) -> Result<Self> {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let code = |cell: &str| Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_owned());
        let [program, test, cpu, instead] = cells[..] else {
            bail!("{LIST}: not four cells: {line}");
        };
        let (Some(program), Some(test)) = (code(program), code(test)) else {
            bail!("{LIST}: neither a program nor a test: {line}");
        };
        if cpu.parse::<f64>().is_err() || instead.is_empty() {
            bail!("{LIST}: no processor time, or no reason: {line}");
        }
        Ok(Self { program, test })
    }

    fn is_about(&self, name: &str) -> bool {
        match self.test.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.test,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_tests_or_the_start_of_their_names() {
        let rows = ["| `a/it` | `b::c` | 1.5 | d |", "| `a/it` | `e::*` | 2 | f |"];
        let listed = Listed(rows.map(|row| Row::parse(row).expect("a row")).into());
        let names = ["b::c", "b::cc", "e::f", "e::g"].map(str::to_owned);
        assert_eq!(listed.of("a/it", &names).expect("names"), ["b::c", "e::f", "e::g"]);
        assert_eq!(listed.of("b/it", &names).expect("names"), [""; 0]);
        assert!(listed.of("a/it", &names[..2]).is_err(), "no test begins with `e::`");
        assert!(listed.check(&["a/it".to_owned(), "b/it".to_owned()]).is_ok());
        assert!(listed.check(&["b/it".to_owned()]).is_err());
        for wrong in ["| `a/it` | `b` | 1.5 | |", "| `a/it` | `b` | x | d |", "| a | b | 1 | d |"] {
            assert!(Row::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn parts_share_no_factor_with_what_simulations_alternate_by() {
        assert!([2, 3, 5].iter().all(|n| !PARTS.is_multiple_of(*n)));
        assert_eq!(Tier::Full.seeds().expect("all"), None);
    }
}
