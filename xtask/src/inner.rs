//! `cargo xtask test`: the tests of one file or crate, in the profile for the loop of change and
//! test (`.cargo/inner.toml`).

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell::{cargo, run};

const USAGE: &str = "\
usage: cargo xtask test FILE|CRATE [WORD]
  FILE   a Rust file of a crate: the unit tests of its module, or its tests
  CRATE  a name such as prony-core: its unit tests
  WORD   only tests with this in their names, instead of those of the file
";

/// What to test: a crate, its unit tests (`None`) or an integration test, and tests by their names.
#[derive(Debug, PartialEq)]
struct Chosen {
    package: String,
    target: Option<String>,
    filter: String,
}

/// `cargo xtask test`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let (place, word) = match args {
        [place] => (place, None),
        [place, word] => (place, Some(word)),
        _ => bail!("{USAGE}"),
    };
    let Chosen { package, target, filter } = chosen(place)?;
    let mut test = cargo(&["test", "--locked", "--quiet", "--release"]);
    test.args(["--config", ".cargo/inner.toml", "--package", &package]);
    if ["prony", "prony-run"].contains(&package.as_str()) {
        // As packages have them; some messages name them.
        test.args(["--features", "grpc,parquet,tokenizer"]);
    }
    match &target {
        None => test.arg("--lib"),
        Some(name) => test.args(["--test", name]),
    };
    run(test.arg("--").arg(word.unwrap_or(&filter)))
}

fn chosen(place: &str) -> Result<Chosen> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
    let path = Path::new(place);
    let path = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    match parts[..] {
        [package] if Path::new("crates").join(package).is_dir() => {
            Ok(Chosen { package: package.to_owned(), target: None, filter: String::new() })
        }
        ["crates", package, "src", ref module @ ..] => {
            Ok(Chosen { package: package.to_owned(), target: None, filter: name(module) })
        }
        ["crates", package, "tests", folder, ref module @ ..] => {
            let target = match (package, folder.strip_suffix(".rs").unwrap_or(folder)) {
                ("prony-sim", "it") => "simulation",
                ("prony-io", "it") => "drivers",
                (_, other) => other,
            };
            let target = Some(target.to_owned());
            Ok(Chosen { package: package.to_owned(), target, filter: name(module) })
        }
        _ => bail!("`{place}` is neither a Rust file of a crate nor a crate\n{USAGE}"),
    }
}

/// The module of a file, as the names of its tests begin.
fn name(file: &[&str]) -> String {
    let mut module: Vec<&str> = file.iter().map(|p| p.strip_suffix(".rs").unwrap_or(p)).collect();
    while let Some("mod" | "lib" | "main" | "tests") = module.last().copied() {
        module.pop();
    }
    module.join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_their_tests() {
        let of = |package: &str, target: Option<&str>, filter: &str| Chosen {
            package: package.to_owned(),
            target: target.map(str::to_owned),
            filter: filter.to_owned(),
        };
        for (place, expected) in [
            (
                "crates/prony-core/src/engine/load/users.rs",
                of("prony-core", None, "engine::load::users"),
            ),
            ("crates/prony-core/src/engine/tests/mod.rs", of("prony-core", None, "engine")),
            ("crates/prony-sim/tests/it/truth.rs", of("prony-sim", Some("simulation"), "truth")),
            ("crates/prony/tests/it/main.rs", of("prony", Some("it"), "")),
            ("crates/prony-io/tests/alloc.rs", of("prony-io", Some("alloc"), "")),
        ] {
            assert_eq!(chosen(place).expect("a file"), expected);
        }
        assert!(chosen("README.md").is_err());
    }
}
