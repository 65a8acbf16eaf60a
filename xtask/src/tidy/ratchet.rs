//! The ratchets: numbers that may only fall, in `xtask/tidy-ratchet.txt`, with a line
//! `RULE PLACE NUMBER` for each.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, bail};

use super::{Finding, Measures};

const FILE: &str = "xtask/tidy-ratchet.txt";
const HEAD: &str = "\
# Places that still break a rule of `cargo xtask tidy`, with their numbers. The numbers may only fall:
# `cargo xtask tidy --update` lowers them and removes lines that are no longer needed.
";

/// The numbers in the file, by rule and place.
type Allowed = BTreeMap<(String, String), usize>;

/// Compare with the file; with `update`, lower the numbers in the file first.
pub(super) fn settle(measures: &Measures, update: bool) -> Result<Vec<Finding>> {
    let mut allowed =
        parse(&fs::read_to_string(FILE).with_context(|| format!("cannot read {FILE}"))?)?;
    if update {
        lower(&mut allowed, measures);
        fs::write(FILE, shown(&allowed)).with_context(|| format!("cannot write {FILE}"))?;
    }
    Ok(compare(&allowed, measures))
}

fn parse(text: &str) -> Result<Allowed> {
    let mut allowed = Allowed::new();
    for line in text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [rule, place, number] = words[..] else {
            bail!("{FILE}: not `RULE PLACE NUMBER`: {line}")
        };
        let number = number.parse().with_context(|| format!("{FILE}: no number: {line}"))?;
        allowed.insert((rule.to_owned(), place.to_owned()), number);
    }
    Ok(allowed)
}

fn shown(allowed: &Allowed) -> String {
    let mut text = HEAD.to_owned();
    for ((rule, place), number) in allowed {
        let _ = writeln!(text, "{rule} {place} {number}");
    }
    text
}

fn lower(allowed: &mut Allowed, measures: &Measures) {
    let now: Allowed = measures
        .iter()
        .map(|((rule, place), &n)| (((*rule).to_owned(), place.clone()), n))
        .collect();
    allowed.retain(|key, _| now.contains_key(key));
    for (key, number) in allowed {
        *number = now[key].min(*number);
    }
}

fn compare(allowed: &Allowed, measures: &Measures) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ((rule, place), &n) in measures {
        let limit = allowed.get(&((*rule).to_owned(), place.clone())).copied();
        let what = match limit {
            Some(limit) if n <= limit => continue,
            Some(limit) => format!("{rule} {n}, and the ratchet is at {limit}"),
            None => format!("{rule} {n}: over the limit"),
        };
        findings.push(Finding { path: place.clone(), line: 0, what });
    }
    for ((rule, place), &limit) in allowed {
        let n = measures.iter().find(|((r, p), _)| r == rule && p == place).map_or(0, |(_, &n)| n);
        if n < limit {
            let what =
                format!("{rule} {n} is under the ratchet's {limit}: `cargo xtask tidy --update`");
            findings.push(Finding { path: place.clone(), line: 0, what });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(list: &[(&'static str, &str, usize)]) -> Measures {
        list.iter().map(|&(r, p, n)| ((r, p.to_owned()), n)).collect()
    }

    #[test]
    fn refuses_numbers_that_rise() {
        let allowed = parse("# x\nfile-lines a.rs 700\n").unwrap();
        assert_eq!(compare(&allowed, &measured(&[("file-lines", "a.rs", 700)])), []);
        for (n, word) in [(701, "is at 700"), (699, "--update")] {
            let found = compare(&allowed, &measured(&[("file-lines", "a.rs", n)]));
            assert!(found.len() == 1 && found[0].what.contains(word), "{found:?}");
        }
        assert_eq!(compare(&allowed, &measured(&[])).len(), 1);
        assert_eq!(compare(&Allowed::new(), &measured(&[("file-lines", "b.rs", 601)])).len(), 1);
    }

    #[test]
    fn update_lowers_numbers_and_adds_none() {
        let mut allowed =
            parse("file-lines a.rs 700\nfile-lines b.rs 700\nfile-lines c.rs 700\n").unwrap();
        let now = measured(&[
            ("file-lines", "a.rs", 650),
            ("file-lines", "b.rs", 800),
            ("file-lines", "d.rs", 9),
        ]);
        lower(&mut allowed, &now);
        assert_eq!(shown(&allowed), format!("{HEAD}file-lines a.rs 650\nfile-lines b.rs 700\n"));
    }

    #[test]
    fn refuses_malformed_lines() {
        assert!(parse("file-lines a.rs\n").is_err());
        assert!(parse("file-lines a.rs many\n").is_err());
    }
}
