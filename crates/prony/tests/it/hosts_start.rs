//! The agreed start of a run on several hosts: either all workers start at it, or none. A shell
//! around one of the workers changes what it reads or says; the server's counter is the truth.

use std::thread;
use std::time::Duration;

use crate::hosts::with_workers;
use crate::rig::{Serve, served, waiting};

/// A run of three workers, one of which runs in this command of a shell. Returns the driver's
/// sentence, after the time at which the others would have sent their first second.
fn with_one(odd: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let first = folder.path().join("first").display().to_string();
    let worker = "PRONY worker --threads 1";
    let odd = odd.replace("WORKER", worker);
    let script = format!("if mkdir {first} 2>/dev/null; then {odd}; else exec {worker}; fi");
    let server = Serve::start(&[]);
    let (refused, said) = with_workers(&script, &server.url("/"), 3);
    // Those who have acknowledged the start must not send anything, either.
    thread::sleep(Duration::from_secs(1));
    let seen = server.stop();
    let why = refused.expect_err("nothing was started");
    assert_eq!((said, served(&seen, "requests")), (vec![], 0), "{why}");
    why
}

#[test]
fn an_order_that_comes_too_late_starts_no_worker() {
    let _waiting = waiting();
    let why = with_one(r#"sed -u 's/"at_unix_ns":[0-9]*/"at_unix_ns":1/' | WORKER"#);
    assert!(why.contains(" got the order to start "), "{why}");
    assert!(why.ends_with(" too late; nothing was sent"), "{why}");
}

#[test]
fn a_start_that_one_worker_does_not_acknowledge_starts_none() {
    let _waiting = waiting();
    let why = with_one(r#"WORKER | sed -u '/"type":"armed"/d'"#);
    assert!(why.ends_with(" did not acknowledge the start in time; nothing was sent"), "{why}");
}

#[test]
fn a_start_that_one_worker_acknowledges_late_starts_none() {
    let _waiting = waiting();
    // Longer than any lead that the driver chooses here.
    let why = with_one(
        r#"WORKER | while IFS= read -r line; do
             case $line in *'"type":"armed"'*) sleep 20;; esac; printf '%s\n' "$line"; done"#,
    );
    assert!(why.ends_with(" did not acknowledge the start in time; nothing was sent"), "{why}");
}

#[test]
fn a_worker_that_ends_before_the_start_starts_none() {
    let _waiting = waiting();
    let why = with_one(r#"WORKER | sed -u '/"type":"armed"/{s/.*//;q}'"#);
    assert!(why.contains(" sent a line that is not a line of protocol 1"), "{why}");
    assert!(why.ends_with("; nothing was sent"), "{why}");
}
