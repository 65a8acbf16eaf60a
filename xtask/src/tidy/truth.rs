//! Checks that the tests in docs/truth.md exist, and that it lists all tests of a property.

use super::Finding;

/// The document with the table.
pub(super) const TABLE: &str = "docs/truth.md";

/// A test with the number of a property in its name: `p07_gaps` of P7.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    path: String,
    line: usize,
    name: String,
}

/// Add the tests of a file that have such a number.
pub(super) fn gather(path: &str, text: &str, tests: &mut Vec<Numbered>) {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for (i, line) in lines.iter().enumerate() {
        let name = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next());
        let Some(name) = name.filter(|name| number(name).is_some()) else { continue };
        let marked =
            lines[..i].iter().rev().take_while(|l| l.starts_with("#[")).any(|l| *l == "#[test]");
        if marked {
            let (path, name) = (path.to_owned(), name.to_owned());
            tests.push(Numbered { path, line: i + 1, name });
        }
    }
}

/// Compare the table with the tests.
pub(super) fn check(table: &str, tests: &[Numbered], findings: &mut Vec<Finding>) {
    let mut named = vec![false; tests.len()];
    let mut find = |path: &str, line: usize, what: String| {
        findings.push(Finding { path: path.to_owned(), line, what });
    };
    for (i, row) in table.lines().enumerate() {
        let Some(property) = property(row) else { continue };
        for cell in row.split(';') {
            let file = cell.split("](../").nth(1).and_then(|rest| rest.split(')').next());
            for name in cell.split('`').skip(1).step_by(2).filter(|name| number(name).is_some()) {
                if number(name) != Some(property) {
                    find(TABLE, i + 1, format!("{name} is not a test of P{property}"));
                }
                let is_it = |t: &Numbered| t.name == name && Some(t.path.as_str()) == file;
                match tests.iter().position(is_it) {
                    Some(at) => named[at] = true,
                    None => find(TABLE, i + 1, format!("there is no test {name} in {file:?}")),
                }
            }
        }
    }
    for (test, _) in tests.iter().zip(named).filter(|(_, named)| !named) {
        find(&test.path, test.line, format!("{} is missing in {TABLE}", test.name));
    }
}

/// The number of the property of a row.
fn property(row: &str) -> Option<u32> {
    row.strip_prefix("| P")?.split(' ').next()?.parse().ok()
}

/// The number at the start of a test's name.
fn number(name: &str) -> Option<u32> {
    let (digits, rest) = name.strip_prefix('p')?.split_at_checked(2)?;
    rest.strip_prefix('_')?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_the_table_with_the_tests() {
        let text = "#[test]\nfn p01_a() {}\n#[test]\nfn p02_b() {}\nfn p99(h: u8) {}\n\
                    fn p03_helper() {}\n    #[test]\n    fn p04_d(x in y()) {}\n";
        let mut tests = Vec::new();
        gather("a.rs", text, &mut tests);
        let names: Vec<_> = tests.iter().map(|t| (t.line, t.name.as_str())).collect();
        assert_eq!(names, [(2, "p01_a"), (4, "p02_b"), (8, "p04_d")]);
        let table = "| P1 | x | `p01_a` in [a.rs](../a.rs); `p01_b` in [a.rs](../a.rs) |\n\
                     | P4 | `code` | `p04_d` in [b.rs](../b.rs) |\n\
                     | P5 | y | `p02_b` in [a.rs](../a.rs) |\n";
        let mut findings = Vec::new();
        check(table, &tests, &mut findings);
        let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
        let expected = [
            "docs/truth.md:1: there is no test p01_b in Some(\"a.rs\")",
            "docs/truth.md:2: there is no test p04_d in Some(\"b.rs\")",
            "docs/truth.md:3: p02_b is not a test of P5",
            "a.rs:8: p04_d is missing in docs/truth.md",
        ];
        assert_eq!(shown, expected);
    }
}
