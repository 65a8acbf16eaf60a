//! The end-to-end tests. Other steps compile beside them, and cargo lets nobody into a folder in
//! which it compiles: so they are compiled first, and run without cargo.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{again, readers, tests};
use crate::shell::output;

/// Their name in each crate. They form three queues, in each of which one test runs at a time:
/// those of measured times, those that mostly wait, and all others.
pub(super) const NAME: &str = "it";
/// Enough threads that none of the queues is empty while another one is long.
const THREADS: &str = "32";

/// The compiled tests of a crate.
struct Tests {
    program: PathBuf,
    /// The folder of the crate.
    folder: PathBuf,
}

/// Compile them, and the programs that they run.
pub(super) fn compile() -> Result<()> {
    compiled().map(drop)
}

/// Run them.
pub(super) fn run() -> Result<()> {
    for tests in compiled()? {
        again::tests(&[], || {
            let mut command = Command::new(&tests.program);
            command.arg("--quiet").current_dir(&tests.folder);
            command.env("CARGO_MANIFEST_DIR", &tests.folder);
            command.env("CI", "1").env("RUST_BACKTRACE", "1").env("RUST_TEST_THREADS", THREADS);
            readers::set_variables(&mut command)?;
            Ok(command)
        })?;
    }
    Ok(())
}

/// Compiled at the first call.
fn compiled() -> Result<&'static [Tests]> {
    static COMPILED: OnceLock<Vec<Tests>> = OnceLock::new();
    if let Some(all) = COMPILED.get() {
        return Ok(all);
    }
    let options = ["--no-run", "--test", NAME, "--message-format=json-render-diagnostics"];
    let text = output(tests()?.args(options))?;
    let all: Vec<Tests> =
        text.lines().map(of_message).filter_map(Result::transpose).collect::<Result<_>>()?;
    if all.is_empty() {
        bail!("cargo has compiled no test `{NAME}`");
    }
    Ok(COMPILED.get_or_init(|| all))
}

/// The tests that a message of cargo's is about, if it is about some.
fn of_message(line: &str) -> Result<Option<Tests>> {
    let message: Value = serde_json::from_str(line).context("cargo's messages: not JSON")?;
    let target = &message["target"];
    let (Some(program), true) =
        (message["executable"].as_str(), target["name"] == NAME && target["kind"][0] == "test")
    else {
        return Ok(None);
    };
    let manifest = message["manifest_path"].as_str().context("cargo's messages: no manifest")?;
    let mut folder = PathBuf::from(manifest);
    folder.pop();
    Ok(Some(Tests { program: program.into(), folder }))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn tests_are_found_in_the_messages_of_cargo() {
        let of = |line: &str| of_message(line).expect("JSON").map(|t| (t.program, t.folder));
        let of_it = r#"{"reason": "compiler-artifact", "manifest_path": "/a/b/Cargo.toml",
            "target": {"kind": ["test"], "name": "it"}, "executable": "/t/it-0"}"#;
        assert_eq!(of(of_it), Some(("/t/it-0".into(), "/a/b".into())));
        assert_eq!(of(&of_it.replace("\"it\"", "\"ace\"")), None);
        assert_eq!(of(r#"{"reason": "build-finished", "success": true}"#), None);
    }
}
