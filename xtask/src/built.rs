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
    /// Those of its target in cargo's sense.
    pub(crate) name: String,
    pub(crate) kind: String,
}

impl Program {
    /// The name of its crate, and what it is of: `prony-core/lib`, `prony/it`.
    pub(crate) fn label(&self) -> String {
        let package = self.folder.file_name().unwrap_or_default().to_string_lossy();
        let target = if self.kind == "test" { &self.name } else { &self.kind };
        format!("{package}/{target}")
    }
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
    fn programs(&self, name: &str, kind: &str) -> impl Iterator<Item = Program> {
        self.0.iter().filter_map(program).filter(move |p| p.name == name && p.kind == kind)
    }

    /// The programs with tests.
    pub(crate) fn tests(&self) -> Vec<Program> {
        let tests = self.0.iter().filter(|message| message["profile"]["test"] == true);
        tests.filter_map(program).collect()
    }

    /// The first of them.
    pub(crate) fn path(&self, name: &str, kind: &str) -> Result<PathBuf> {
        let found = self.programs(name, kind).next();
        let found = found.with_context(|| format!("cargo did not build the {kind} {name}"))?;
        Ok(found.path)
    }
}

/// The program that a message is about.
fn program(message: &Value) -> Option<Program> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let path = message["executable"].as_str()?.into();
    let mut folder = PathBuf::from(message["manifest_path"].as_str()?);
    folder.pop();
    let target = &message["target"];
    Some(Program { path, folder, name: text(&target["name"])?, kind: text(&target["kind"][0])? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_messages_of_cargo() {
        let built = Built::of(
            r#"{"reason": "compiler-artifact", "manifest_path": "/a/b/Cargo.toml", "target": {"kind": ["lib"], "name": "it"}, "profile": {"test": false}, "executable": null}
{"reason": "compiler-artifact", "manifest_path": "/a/b/Cargo.toml", "target": {"kind": ["test"], "name": "it"}, "profile": {"test": true}, "executable": "/t/it-0"}
{"reason": "compiler-artifact", "manifest_path": "/a/b/Cargo.toml", "target": {"kind": ["lib"], "name": "it"}, "profile": {"test": true}, "executable": "/t/it-1"}
{"reason": "compiler-artifact", "manifest_path": "/a/b/Cargo.toml", "target": {"kind": ["bin"], "name": "ace"}, "profile": {"test": false}, "executable": "/t/ace"}
{"reason": "build-finished", "success": true}"#,
        );
        let built = built.expect("JSON");
        let labels: Vec<String> = built.tests().iter().map(Program::label).collect();
        assert_eq!(labels, ["b/it", "b/lib"]);
        assert_eq!(built.tests()[0].folder, PathBuf::from("/a/b"));
        for (name, kind, path) in [("it", "test", "/t/it-0"), ("ace", "bin", "/t/ace")] {
            assert_eq!(built.path(name, kind).expect("a path"), PathBuf::from(path));
        }
        assert!(built.path("ace", "test").is_err());
    }
}
