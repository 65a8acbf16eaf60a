//! What the test programs ask of the machine.

use std::path::PathBuf;

/// A program that must be there in CI and is skipped with a message elsewhere.
pub(crate) fn have(program: &str) -> bool {
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&dirs)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")])
        .any(|dir| dir.join(program).is_file());
    if !found {
        assert!(std::env::var_os("CI").is_none(), "{program} is not installed, but CI needs it");
        eprintln!("skipped: {program} is not installed");
    }
    found
}
