//! Targets that cannot be reached: the run ends by itself, and says what to do.

use std::fs;

use crate::rig::{Serve, prony, reserved_port};
use crate::tls::Certificates;

const NOTE: &str = "Ended early: for 2 s, ";

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_refused_load_ends_with_its_report_and_what_to_do() {
    let nobody = reserved_port();
    let url = format!("http://127.0.0.1:{nobody}/");
    let ended = prony(&["-c", "2", "-d", "1h", "--json", "--quiet", &url]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let report = ended.report();
    report.check_sums();
    assert_eq!(report.errors("connect-refused"), report.count("started"));
    assert_eq!(report.0["run"]["interrupted"], false);
    let note =
        format!("{NOTE}every connection to 127.0.0.1:{nobody} was refused. Start the server");
    assert!(report.0["run"]["notes"][0].as_str().expect("a note").starts_with(&note), "{ended:?}");
    let ended = prony(&["-c", "2", "-d", "3s", "--keep-trying", "--quiet", &url]);
    assert!(!ended.stdout.contains(NOTE) && ended.code == 1, "{ended:?}");
}

#[test]
fn a_plan_file_and_round_trips_end_as_well() {
    let nobody = reserved_port();
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = folder.path().join("plan.toml");
    let text = format!(
        "url = 'http://127.0.0.1:{nobody}/'\nduration = '1m'\nsession = [{{ request = ['/'] }}]"
    );
    fs::write(&file, text).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let target = format!("127.0.0.1:{nobody}");
    for line in [&["run", file, "--quiet"][..], &["rtt", &target, "-d", "1m", "--quiet"]] {
        let ended = prony(line);
        let text = on_one_line(&ended.stdout);
        let says = text.contains(NOTE) && text.contains("was refused. Start the server");
        assert!(ended.code == 1 && says, "{ended:?}");
    }
}

#[test]
fn searches_and_comparisons_end_with_one_sentence() {
    let nobody = reserved_port();
    let server = Serve::start(&[]);
    let url = format!("http://127.0.0.1:{nobody}/");
    let sentence = format!("prony: every connection to 127.0.0.1:{nobody} was refused. Start the ");
    let search = ["capacity", &url, "--threshold", "p99 < 100ms"];
    let comparison = ["compare", &server.url("/"), &url, "-d", "300ms"];
    for line in [&search[..], &comparison] {
        let ended = prony(line);
        assert!(ended.code == 1 && ended.stderr.contains(&sentence), "{ended:?}");
    }
    // To bisect, a commit whose server cannot be reached is neither good nor bad.
    let limited = [&comparison[..], &["--fail-if", "p50 > +10%"]].concat();
    let ended = prony(&limited);
    assert!(ended.code == 125 && ended.stderr.contains(&sentence), "{ended:?}");
}

#[test]
fn a_refused_certificate_ends_a_load() {
    let files = Certificates::new();
    let (cert, key) = (files.path("expired.pem"), files.path("expired.key"));
    let server = Serve::start(&["--tls", "--cert", &cert, "--key", &key]);
    let url = server.url("/").replace("http://", "https://");
    let ca = files.path("ca.pem");
    let ended = prony(&["-c", "2", "-d", "1m", "--cacert", &ca, "--quiet", &url]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let text = on_one_line(&ended.stdout);
    let note = "succeeded: the server's certificate has expired. Correct the certificate";
    assert!(text.contains(NOTE) && text.contains(note), "{text}");
}
