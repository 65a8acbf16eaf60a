//! Runs tests that change or count process-wide state in their own process.

use std::process::Command;

const MARK: &str = "PRONY_IO_TEST_CHILD";

/// Run `body` in a child process that runs only the calling test. `name`: the test's full name.
pub(crate) fn alone(name: &str, body: impl FnOnce()) {
    if std::env::var_os(MARK).is_some() {
        body();
        return;
    }
    let exe = std::env::current_exe().expect("the test binary has a path");
    let out = Command::new(exe)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        .output()
        .expect("the test binary can be run");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && text.contains("1 passed"),
        "{name} alone:\n{text}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
}
