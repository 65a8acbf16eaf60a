//! What cargo has compiled, by its messages.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell::output;

/// The artifacts of a build.
pub(crate) struct Built(Vec<Value>);

/// A program, and the folder of its crate.
#[derive(Debug, PartialEq)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) folder: PathBuf,
}

impl Built {
    /// Compile what this command of `cargo test` would run.
    pub(crate) fn new(test: &mut Command) -> Result<Self> {
        Self::of(&output(test.args(["--no-run", "--message-format=json-render-diagnostics"]))?)
    }

    fn of(messages: &str) -> Result<Self> {
        let lines = messages.lines().map(serde_json::from_str);
        Ok(Self(lines.collect::<Result<_, _>>().context("cargo's messages: not JSON")?))
    }

    /// The programs of this name and kind, of all crates.
    pub(crate) fn programs(&self, name: &str, kind: &str) -> Vec<Program> {
        let program = |message: &Value| {
            let target = &message["target"];
            let is_it = target["name"] == name && target["kind"][0] == kind;
            let path = message["executable"].as_str().filter(|_| is_it)?.into();
            let mut folder = PathBuf::from(message["manifest_path"].as_str()?);
            folder.pop();
            Some(Program { path, folder })
        };
        self.0.iter().filter_map(program).collect()
    }

    /// The first of them.
    pub(crate) fn path(&self, name: &str, kind: &str) -> Result<PathBuf> {
        let found = self.programs(name, kind).into_iter().next();
        let found = found.with_context(|| format!("cargo did not build the {kind} {name}"))?;
        Ok(found.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_messages_of_cargo() {
        let built = Built::of(
            r#"{"reason": "compiler-artifact", "manifest_path": "/a/b/Cargo.toml", "target": {"kind": ["lib"], "name": "it"}, "executable": null}
{"reason": "compiler-artifact", "manifest_path": "/a/b/Cargo.toml", "target": {"kind": ["test"], "name": "it"}, "executable": "/t/it-0"}
{"reason": "build-finished", "success": true}"#,
        );
        let built = built.expect("JSON");
        let it = Program { path: "/t/it-0".into(), folder: "/a/b".into() };
        assert_eq!(built.programs("it", "test"), [it]);
        assert_eq!(built.path("it", "test").expect("a path"), PathBuf::from("/t/it-0"));
        for (name, kind) in [("it", "lib"), ("ace", "test")] {
            assert!(built.path(name, kind).is_err());
        }
    }
}
