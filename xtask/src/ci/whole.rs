//! The end-to-end tests. Other steps compile beside them, and cargo lets nobody into a folder in
//! which it compiles: so they are compiled first, and run without cargo.

use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Result, bail};

use super::{again, readers, tests};
use crate::built::{Built, Program};

/// Their name in each crate. They form three queues, in each of which one test runs at a time:
/// those of measured times, those that mostly wait, and all others.
pub(super) const NAME: &str = "it";
/// Enough threads that none of the queues is empty while another one is long.
const THREADS: &str = "32";

/// Compile them, and the programs that they run.
pub(super) fn compile() -> Result<()> {
    compiled().map(drop)
}

/// Run them.
pub(super) fn run() -> Result<()> {
    for tests in compiled()? {
        again::tests(&[], || {
            let mut command = Command::new(&tests.path);
            command.arg("--quiet").current_dir(&tests.folder);
            // As cargo does: tests look for files of theirs from there.
            command.env("CARGO_MANIFEST_DIR", &tests.folder);
            command.env("CI", "1").env("RUST_BACKTRACE", "1").env("RUST_TEST_THREADS", THREADS);
            readers::set_variables(&mut command)?;
            Ok(command)
        })?;
    }
    Ok(())
}

/// Compiled at the first call.
fn compiled() -> Result<&'static [Program]> {
    static COMPILED: OnceLock<Vec<Program>> = OnceLock::new();
    if let Some(all) = COMPILED.get() {
        return Ok(all);
    }
    let all = Built::new(tests()?.args(["--test", NAME]))?.programs(NAME, "test");
    if all.is_empty() {
        bail!("cargo has compiled no test `{NAME}`");
    }
    Ok(COMPILED.get_or_init(|| all))
}
