//! Pipes and devices in place of files, and files that do not end: refused at once.

use std::fs::File;
use std::process::Command;

use tempfile::TempDir;

use crate::rig::prony;

#[test]
fn what_is_no_file_is_refused_at_once() {
    let folder = TempDir::new().expect("a folder");
    let pipe = folder.path().join("pipe");
    // Nothing writes to it.
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let pipe = pipe.to_str().expect("text");
    let url = "http://127.0.0.1:1/";
    for (no_file, what) in [(pipe, "a named pipe"), ("/dev/zero", "a device")] {
        let body = format!("@{no_file}");
        for args in [
            &["report", no_file][..],
            &["report", "--trend", no_file, no_file],
            &["merge", no_file, no_file],
            &["run", no_file],
            &["check", no_file],
            &["import", "har", no_file],
            &[url, "-n", "1", "-b", &body],
            &["https://127.0.0.1:1/", "-n", "1", "--cacert", no_file],
        ] {
            let ended = prony(args);
            assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
            let why = format!("it is {what}, not a file; ");
            assert!(ended.stderr.contains(&why), "{args:?}: {}", ended.stderr);
        }
    }
}

#[test]
fn a_saved_report_has_a_limited_length() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("long.json");
    // It takes no room on the disk.
    File::create(&path).and_then(|file| file.set_len((256 << 20) + 1)).expect("a file");
    let path = path.to_str().expect("text");
    for args in [&["report", path][..], &["merge", path, path]] {
        let ended = prony(args);
        assert_eq!(ended.code, 2, "{ended:?}");
        let why = "cannot be read: it is longer than 256 MiB, the most that is read";
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    }
}
