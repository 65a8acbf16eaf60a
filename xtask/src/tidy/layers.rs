//! The layers of crates: checks the manifests against the table in ARCHITECTURE.md.
//!
//! A crate may depend on those in the rows above its own, and in its row are the crates that no
//! other one may depend on. Cargo refuses cycles, but not dependencies that belong into a higher
//! layer. Dependencies of tests are not checked.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::Finding;
use super::walls::{DOCUMENT, list};

/// The header of the table.
const HEAD: &str = "| crate | what | uses alone |";

/// The table, from the lowest crate to the highest.
pub(super) struct Layers(Vec<Floor>);

struct Floor {
    name: String,
    alone: Vec<String>,
}

impl Layers {
    /// Read the table in the text of ARCHITECTURE.md.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines().enumerate().skip_while(|(_, line)| *line != HEAD);
        lines.next().with_context(|| format!("{DOCUMENT} has no table `{HEAD}`"))?;
        let mut layers: Vec<Floor> = Vec::new();
        for (i, row) in lines.skip(1) {
            let Some(row) = row.strip_prefix('|') else { break };
            let place = || format!("{DOCUMENT}:{}", i + 1);
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [name, _, alone, ""] = cells[..] else { bail!("{}: not three columns", place()) };
            let names = |cell| if cell == "nothing" { Ok(Vec::new()) } else { list(cell) };
            let name = list(name).with_context(place)?.concat();
            layers.push(Floor { name, alone: names(alone).with_context(place)? });
        }
        Ok(Self(layers))
    }

    /// Check one file, if it is a manifest in `crates/`.
    pub(super) fn check(&self, path: &str, text: &str, findings: &mut Vec<Finding>) {
        let name = path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml"));
        let Some(name) = name else { return };
        let mut report = |line, what| {
            findings.push(Finding { path: path.to_owned(), line, what });
        };
        let Some(place) = self.0.iter().position(|floor| floor.name == name) else {
            return report(0, format!("{name} has no row in the table `{HEAD}` of {DOCUMENT}"));
        };
        for (taken, line) in dependencies(text) {
            if self.0[place..].iter().any(|other| other.name == taken) {
                report(line, format!("{name} must not depend on {taken} ({DOCUMENT})"));
            }
            let owner = self.0.iter().find(|other| other.alone.contains(&taken));
            if let Some(owner) = owner.filter(|owner| owner.name != name) {
                report(line, format!("{} alone takes {taken} ({DOCUMENT})", owner.name));
            }
        }
    }
}

/// The dependencies in a manifest, except those of tests, with their lines, from 1.
fn dependencies(manifest: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let mut section = "";
    for (i, line) in manifest.lines().map(str::trim).enumerate() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
            // A section can have a single dependency, with its name in the header.
            if let Some((kind, name)) = section.rsplit_once('.')
                && is_taken(kind)
            {
                found.insert(name.to_owned(), i + 1);
            }
        } else if is_taken(section) && !line.is_empty() && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            found.insert(name.trim_matches('"').to_owned(), i + 1);
        }
    }
    found
}

/// Whether this is a section of dependencies, other than those of tests.
fn is_taken(section: &str) -> bool {
    let last = section.rsplit('.').next();
    matches!(last, Some("dependencies" | "build-dependencies"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| crate | what | uses alone |
|---|---|---|
| `low` | units | nothing |
| `mid` | plans | nothing |
| `top` | options | `clap` |

";

    fn found(name: &str, manifest: &str) -> Vec<String> {
        let mut findings = Vec::new();
        let path = format!("crates/{name}/Cargo.toml");
        Layers::parse(TABLE).unwrap().check(&path, manifest, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn accepts_dependencies_of_the_table() {
        let nothing = Vec::<String>::new();
        let top = "[package]\nname = \"top\"\n[dependencies]\nlow.workspace = true\nclap = \"4\"\n";
        assert_eq!(found("top", top), nothing);
        let tests =
            "[dev-dependencies]\ntop.workspace = true\nclap = \"4\"\n[features]\nclap = []\n";
        assert_eq!(found("mid", tests), nothing);
        assert_eq!(found("mid", "[dependencies]\n# top is above\nserde = \"1\"\n"), nothing);
    }

    #[test]
    fn refuses_dependencies_of_a_higher_layer() {
        for (manifest, line) in [
            ("[dependencies]\ntop.workspace = true\n", 2),
            ("[dependencies.top]\npath = \"../top\"\n", 1),
            ("[target.'cfg(unix)'.dependencies]\n\n\"top\" = \"1\"\n", 3),
        ] {
            let want = "mid must not depend on top (ARCHITECTURE.md)";
            assert_eq!(found("mid", manifest), [format!("crates/mid/Cargo.toml:{line}: {want}")]);
        }
        let clap = "[dependencies]\nclap = { version = \"4\" }\n";
        let want = "crates/mid/Cargo.toml:2: top alone takes clap (ARCHITECTURE.md)";
        assert_eq!(found("mid", clap), [want]);
        assert_eq!(found("new", clap).len(), 1);
    }

    #[test]
    fn refuses_a_table_that_it_cannot_read() {
        assert!(Layers::parse(&TABLE.replace("`clap`", "clap")).is_err());
        assert!(Layers::parse(&TABLE.replace(" units |", "")).is_err());
        assert!(Layers::parse("no table").is_err());
    }
}
