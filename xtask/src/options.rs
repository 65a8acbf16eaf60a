//! `cargo xtask options`: checks that docs/options.md and the `--help` texts have the same options.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell;

const DOC: &str = "docs/options.md";

/// `cargo xtask options`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask options");
    }
    check(&shell::prony("release")?)
}

/// The step of `ci`, with the program that the tests run.
pub(crate) fn check(prony: &Path) -> Result<()> {
    let doc = fs::read_to_string(DOC).with_context(|| format!("cannot read {DOC}"))?;
    let mut helped = BTreeSet::new();
    for command in commands(&doc) {
        let help = shell::output(&mut shell::program(prony, &[command, "--help"]))?;
        helped.extend(long_options(&help));
    }
    let problems = compare(&helped, &long_options(&doc));
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    println!("options: {} in --help and in {DOC}", helped.len());
    Ok(())
}

/// The commands with a section of their own. `prony URL...` is `load`.
fn commands(doc: &str) -> Vec<&str> {
    let headings =
        doc.lines().filter_map(|line| line.strip_prefix("## `prony ")?.strip_suffix('`'));
    headings.map(|name| if name == "URL..." { "load" } else { name }).collect()
}

fn compare(helped: &BTreeSet<String>, documented: &BTreeSet<String>) -> Vec<String> {
    let missing = helped.difference(documented).map(|o| format!("{DOC} does not name {o}"));
    let surplus =
        documented.difference(helped).map(|o| format!("{DOC} names {o}: --help does not"));
    missing.chain(surplus).collect()
}

/// All words that look like `--option`, except in calls of cargo.
fn long_options(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|l| !l.contains("cargo ")) {
        for (at, _) in line.match_indices("--") {
            if line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-') {
                continue;
            }
            let name = &line[at + 2..];
            let end = name
                .find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))
                .unwrap_or(name.len());
            let name = name[..end].trim_end_matches('-');
            if name.starts_with(|c: char| c.is_ascii_lowercase()) {
                found.insert(format!("--{name}"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_options_in_help_and_tables() {
        let help =
            "  -c, --connections <N>   N of them, see --http2\n      --[no-]x  a--b  --- --1\n";
        assert_eq!(Vec::from_iter(long_options(help)), ["--connections", "--http2"]);
        let doc = "| `-c, --connections N` | `--http2`: |\n    cargo run --release -- demo\n";
        assert_eq!(long_options(doc), long_options(help));
    }

    #[test]
    fn finds_commands_in_headings() {
        let doc = "# Options\n## `prony URL...`\n### More\n## `prony merge`\n## Examples\n";
        assert_eq!(commands(doc), ["load", "merge"]);
    }

    #[test]
    fn reports_options_missing_on_either_side() {
        let found = compare(&long_options("--a --b"), &long_options("--b --c"));
        assert_eq!(
            found,
            ["docs/options.md does not name --a", "docs/options.md names --c: --help does not"]
        );
    }
}
