//! The file of the last self-test, and its summary in later reports.

use std::env;
use std::fs;
use std::path::PathBuf;

use prony_io::host::Host;
use prony_report::layout;
use prony_run::error::Error;
use prony_run::files;
use prony_stats::summary::SelfTested;
use serde::Deserialize;

use super::record::{Record, SCHEMA};

/// The default file: `$XDG_STATE_HOME/prony/selftest.json`, or under `~/.local/state` without that
/// variable. `None` without a home directory.
fn default_path() -> Option<PathBuf> {
    let absolute = |name: &str| {
        env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("prony").join("selftest.json"))
}

/// The default file, after creating its directory; `None` without a home directory.
///
/// # Errors
/// The directory cannot be created.
pub(crate) fn path() -> Result<Option<PathBuf>, Error> {
    let Some(path) = default_path() else { return Ok(None) };
    match path.parent().map_or(Ok(()), fs::create_dir_all) {
        Ok(()) => Ok(Some(path)),
        Err(why) => Err(Error::SelftestPlace { path, why }),
    }
}

/// The record as JSON.
pub(crate) fn json(record: &Record) -> String {
    layout::json(record)
}

/// The last self-test, for reports; `None` if there is none, or if it is from another host (hosts
/// can share a home directory).
pub(crate) fn cited() -> Option<SelfTested> {
    let text = files::bounded_text(&default_path()?).ok()?;
    of(&text, &Host::look(), env!("CARGO_PKG_VERSION"))
}

fn of(text: &str, host: &Host, version: &str) -> Option<SelfTested> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let saved: Version = serde_json::from_str(text).ok()?;
    (saved.schema == SCHEMA).then_some(())?;
    let saved: Record = serde_json::from_str(text).ok()?;
    (saved.host.name == host.name && !host.name.is_empty()).then_some(())?;
    let changes = [
        ("the kernel", saved.host.kernel != host.kernel),
        ("the processor", saved.host.processor != host.processor),
        ("the number of cores", saved.host.cores_allowed.len() != host.cores_allowed.len()),
        ("prony", saved.version != version),
    ];
    let changed: Vec<&str> = changes.iter().filter(|c| c.1).map(|c| c.0).collect();
    Some(SelfTested {
        started_unix: saved.started_unix,
        host: saved.host.name.clone(),
        kernel: saved.host.kernel.clone(),
        checks: saved.checks.len() as u64,
        checks_passed: saved.checks_passed() as u64,
        passed: saved.passed,
        changed: changed.join(", "),
        others: saved.others,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            schema: SCHEMA,
            version: "1.2.3".into(),
            started_unix: 1_700_000_000.0,
            seconds: 20.0,
            quick: false,
            interrupted: false,
            passed: true,
            host: host(),
            client_cores: vec![0],
            server_cores: vec![1],
            checks: Vec::new(),
            floor: None,
            lags: Vec::new(),
            rates: Vec::new(),
            others: Some(0.4),
            advice: Vec::new(),
        }
    }

    fn host() -> Host {
        Host {
            name: "here".into(),
            kernel: "6.1".into(),
            cores_allowed: vec![0, 1],
            ..Host::default()
        }
    }

    #[test]
    fn cites_a_self_test_of_this_host() {
        let found = of(&json(&record()), &host(), "1.2.3").expect("cited");
        assert_eq!(
            (found.passed, found.changed.as_str(), found.kernel.as_str(), found.others),
            (true, "", "6.1", Some(0.4))
        );
        assert_eq!(serde_json::from_str::<Record>(&json(&record())).expect("a record"), record());
    }

    #[test]
    fn reports_what_changed_since_the_self_test() {
        let kernel = Host { kernel: "6.2".into(), ..host() };
        let changed = |host: &Host, version| of(&json(&record()), host, version).map(|f| f.changed);
        assert_eq!(changed(&kernel, "1.2.3").as_deref(), Some("the kernel"));
        assert_eq!(changed(&kernel, "1.2.4").as_deref(), Some("the kernel, prony"));
        let fewer = Host { cores_allowed: vec![0], ..host() };
        assert_eq!(changed(&fewer, "1.2.3").as_deref(), Some("the number of cores"));
    }

    #[test]
    fn ignores_self_tests_of_other_hosts_and_invalid_files() {
        let other = Host { name: "there".into(), ..host() };
        assert_eq!(of(&json(&record()), &other, "1.2.3"), None);
        let later = Record { schema: SCHEMA + 1, ..record() };
        for text in [json(&later), String::new(), "{}".into(), r#"{"schema": 1}"#.into()] {
            assert_eq!(of(&text, &host(), "1.2.3"), None, "{text}");
        }
    }
}
