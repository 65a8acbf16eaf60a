//! `cargo xtask licenses`: checks that the licenses of all dependencies are on deny.toml's list. It
//! reads cargo's metadata, and installs and downloads nothing.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::shell;

/// `cargo xtask licenses`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask licenses");
    }
    let allowed = allowed(&fs::read_to_string("deny.toml").context("cannot read deny.toml")?)?;
    let metadata = shell::metadata()?;
    let packages = metadata["packages"].as_array().context("cargo metadata: no packages")?;
    let mut refused = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or("?");
        let version = package["version"].as_str().unwrap_or("?");
        match package["license"].as_str() {
            None => refused.push(format!("{name} {version}: names no license")),
            Some(license) => match permits(license, &allowed) {
                Ok(true) => {}
                Ok(false) => refused.push(format!("{name} {version}: {license}")),
                Err(e) => refused.push(format!("{name} {version}: {license}: {e}")),
            },
        }
    }
    if !refused.is_empty() {
        bail!("licenses that deny.toml does not list:\n  {}", refused.join("\n  "));
    }
    println!("licenses: {} packages in order", packages.len());
    Ok(())
}

/// The list `allow` of deny.toml's `[licenses]`.
fn allowed(text: &str) -> Result<BTreeSet<String>> {
    let (_, rest) = text.split_once("\nallow = [").context("deny.toml: no `allow = [`")?;
    let (list, _) = rest.split_once(']').context("deny.toml: `allow` has no end")?;
    Ok(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Whether the allowed licenses satisfy an SPDX expression. The old form `A/B` means `A OR B`.
fn permits(expression: &str, allowed: &BTreeSet<String>) -> Result<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let value = any(&words, &mut at, allowed)?;
    if at != words.len() {
        bail!("not an SPDX expression");
    }
    Ok(value)
}

fn any(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> Result<bool> {
    let mut value = all(words, at, allowed)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        value |= all(words, at, allowed)?;
    }
    Ok(value)
}

fn all(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> Result<bool> {
    let mut value = one(words, at, allowed)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        value &= one(words, at, allowed)?;
    }
    Ok(value)
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> Result<bool> {
    let word = *words.get(*at).context("ends too early")?;
    *at += 1;
    if word == "(" {
        let value = any(words, at, allowed)?;
        if words.get(*at) != Some(&")") {
            bail!("a parenthesis is not closed");
        }
        *at += 1;
        return Ok(value);
    }
    if matches!(word, ")" | "AND" | "OR" | "WITH") {
        bail!("`{word}` where a license should be");
    }
    if words.get(*at) == Some(&"WITH") {
        // An exception only grants more rights, but it must be on the list together with the
        // license.
        let exception = words.get(*at + 1).context("ends too early")?;
        *at += 2;
        return Ok(allowed.contains(&format!("{word} WITH {exception}")));
    }
    Ok(allowed.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_judged() {
        let allowed = allowed("[licenses]\nallow = [\"MIT\", \"Zlib\"]\n").unwrap();
        for (expression, want) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND Zlib", true),
            ("MIT OR GPL-3.0 AND Zlib", true),
            ("(MIT OR Zlib) AND GPL-3.0", false),
            ("MIT WITH LLVM-exception", false),
            ("GPL-2.0 WITH LLVM-exception OR MIT", true),
        ] {
            assert_eq!(permits(expression, &allowed).unwrap(), want, "{expression}");
        }
        for bad in ["", "(MIT", "MIT OR", "MIT MIT", "AND MIT", "MIT)"] {
            assert!(permits(bad, &allowed).is_err(), "{bad}");
        }
    }
}
