//! The live view in a real terminal (tmux): the tests press keys and read the screen.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::rig::{Serve, alone, have, prony, wait_until, waiting};

/// A terminal that runs one program; closed on drop.
struct Terminal {
    dir: TempDir,
}

impl Terminal {
    /// Run `prony` with these arguments in a terminal of this size, with `environment` before the
    /// command. After it has exited, the last lines show its exit code and the terminal's state.
    fn start((width, height): (u16, u16), environment: &str, args: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let terminal = Self { dir };
        let clean = "unset NO_COLOR LC_ALL LC_CTYPE; LANG=C.UTF-8; export LANG";
        let restored = "stty -a | grep -q -e -icanon -e '-echo ' && echo raw || echo restored";
        let program = env!("CARGO_BIN_EXE_prony");
        let script = format!(
            "{clean}; {environment} {program} {args}; echo exit $?; {restored}; exec sleep 600"
        );
        let [width, height] = [width, height].map(|n| n.to_string());
        let new = ["new-session", "-d", "-x", &width, "-y", &height, &script];
        terminal.tmux(&[&["-f", "/dev/null", "-u"], &new[..]].concat());
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let socket = self.dir.path().join("tmux");
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(socket).args(args).env_remove("TMUX").stdin(Stdio::null());
        let output = tmux.output().expect("tmux runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn press(&self, keys: &str) {
        self.tmux(&["send-keys", keys]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn resize(&self, width: u16, height: u16) {
        let [width, height] = [width, height].map(|n| n.to_string());
        self.tmux(&["resize-window", "-x", &width, "-y", &height]);
    }

    /// Wait until the screen contains all of these words. Returns the screen.
    fn wait_for(&self, words: &[&str]) -> String {
        let mut screen = String::new();
        wait_until(&format!("{words:?} on the screen"), || {
            screen = self.screen();
            words.iter().all(|word| screen.contains(word))
        });
        screen
    }

    /// Wait until prony has exited with this code. The terminal must be restored.
    fn wait_for_end(&self, code: u8) -> String {
        let screen = self.wait_for(&[&format!("exit {code}"), "restored"]);
        let state = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        assert_eq!(state.trim(), "0 1", "the screen of before, and a cursor");
        screen
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// A shell prefix: run some commands, then write the process number of the next command to a
/// directory.
fn job(first: &str) -> (TempDir, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let pid = dir.path().join("pid");
    let job = format!("{first}; sh -c 'echo $$ > {}; exec \"$0\" \"$@\"'", pid.display());
    (dir, job)
}

/// Send a signal to it.
fn signal(dir: &TempDir, signal: Signal) {
    let pid = std::fs::read_to_string(dir.path().join("pid")).expect("its number");
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a number");
    kill_process(pid, signal).expect("it runs");
}

#[test]
fn is_the_default_on_a_terminal_and_the_report_follows() {
    if !have("tmux") {
        return;
    }
    let _alone = alone();
    let server = Serve::start(&["--latency", "5ms"]);
    let args = format!("-r 200 -d 600s --timeout 10s {}", server.url("/"));
    let terminal = Terminal::start((100, 50), "", &args);
    let words = ["running", "target 200/s", "response times", "200: ", "send lag", "left"];
    terminal.wait_for(&words);
    terminal.press("?");
    terminal.wait_for(&["close this help"]);
    terminal.press("?");
    terminal.wait_for(&words);
    terminal.press("q");
    let report = terminal.wait_for_end(130);
    for word in ["open loop", "stopped the run early", "response", "p99"] {
        assert!(report.contains(word), "{word}: {report}");
    }
}

#[test]
fn a_second_key_ends_the_run_at_once() {
    if !have("tmux") {
        return;
    }
    let _alone = alone();
    let server = Serve::start(&["--latency", "500s"]);
    let args = format!("-r 50 -d 600s --timeout 600s --tui {}", server.url("/"));
    for second in ["q", "C-c"] {
        let terminal = Terminal::start((80, 40), "", &args);
        terminal.wait_for(&["running", "no replies"]);
        terminal.press("q");
        terminal.wait_for(&["draining"]);
        terminal.press(second);
        let report = terminal.wait_for_end(130);
        assert!(report.contains("unfinished"), "{report}");
    }
}

#[test]
fn keys_change_the_rate_and_the_report_shows_it() {
    if !have("tmux") {
        return;
    }
    let _waiting = waiting();
    let server = Serve::start(&[]);
    let report = tempfile::NamedTempFile::with_suffix(".json").expect("a file");
    let path = report.path().display();
    let args = format!("-r 100 -d 600s -o {path} {}", server.url("/"));
    let terminal = Terminal::start((100, 50), "", &args);
    terminal.wait_for(&["running", "target 100/s"]);
    terminal.press("p");
    terminal.wait_for(&["paused", "target 0.00/s", "0.00/s completed"]);
    terminal.press("+");
    terminal.press("+");
    terminal.press("p");
    terminal.wait_for(&["running", "target 121/s (121 %)"]);
    // Whole intervals of the pause.
    terminal.wait_for(&["121/s completed"]);
    terminal.press("q");
    terminal.wait_for_end(130);

    let json = std::fs::read_to_string(report.path()).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let pieces = report["plan"]["load"]["open"]["rate"]["pieces"].as_array().expect("pieces");
    let rates: Vec<f64> = pieces.iter().filter_map(|piece| piece["from"].as_f64()).collect();
    assert_eq!(rates, [100.0, 0.0, 121.0], "{pieces:?}");
    let notes = report["run"]["notes"].to_string();
    assert!(notes.contains("paused from") && notes.contains("121 % from"), "{notes}");
    // The started requests are those of the pieces, minus those that the first threads to stop did
    // not start. Without the pause there would be a hundred more for each of its seconds.
    let asked = report["measurement"]["rates"]["target_rate"].as_f64().expect("a rate");
    let window = report["measurement"]["rates"]["window_ns"].as_f64().expect("a window") / 1e9;
    let started = report["measurement"]["tally"]["started"].as_f64().expect("a count");
    assert!((asked * window - started).abs() < 60.0, "{asked}/s in {window} s, not {started}");
}

/// The screen has a line for each host, and keys change the rate on all of them.
#[test]
fn several_hosts_have_a_line_each_and_one_rate() {
    if !have("tmux") {
        return;
    }
    let _waiting = waiting();
    let server = Serve::start(&[]);
    let report = tempfile::NamedTempFile::with_suffix(".json").expect("a file");
    let path = report.path().display();
    let args = format!("-r 100 -d 600s --hosts 2 -o {path} {}", server.url("/"));
    let terminal = Terminal::start((100, 50), "", &args);
    terminal.wait_for(&["running", "#1 ", "#2 ", "50.0/s, p50", "2 of 2 hosts", "200: "]);
    terminal.press("p");
    terminal.wait_for(&["paused", "target 0.00/s", "0.00/s completed"]);
    terminal.press("+");
    terminal.press("+");
    terminal.press("p");
    terminal.wait_for(&["running", "target 121/s (121 %)"]);
    terminal.wait_for(&["121/s completed"]);
    terminal.press("q");
    terminal.wait_for_end(130);

    let json = std::fs::read_to_string(report.path()).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let pieces = report["plan"]["load"]["open"]["rate"]["pieces"].as_array().expect("pieces");
    let rates: Vec<f64> = pieces.iter().filter_map(|piece| piece["from"].as_f64()).collect();
    assert_eq!(rates, [100.0, 0.0, 121.0], "{pieces:?}");
    let notes = report["run"]["notes"].to_string();
    assert!(notes.contains("paused from") && notes.contains("121 % from"), "{notes}");
    let asked = report["measurement"]["rates"]["target_rate"].as_f64().expect("a rate");
    let window = report["measurement"]["rates"]["window_ns"].as_f64().expect("a window") / 1e9;
    let started = report["measurement"]["tally"]["started"].as_f64().expect("a count");
    assert!((asked * window - started).abs() < 60.0, "{asked}/s in {window} s, not {started}");
}

#[test]
fn continued_job_restores_the_screen() {
    if !have("tmux") {
        return;
    }
    let _alone = alone();
    let server = Serve::start(&["--latency", "5ms"]);
    // A shell with job control, which continues when the job is stopped.
    let (dir, job) = job("set -m");
    let args = format!("-c 2 -d 600s {}; stty sane; echo away; read line; fg", server.url("/"));
    let terminal = Terminal::start((80, 24), &job, &args);
    terminal.wait_for(&["running", "p50", "meter"]);
    signal(&dir, Signal::TSTP);
    terminal.wait_for(&["away"]);
    terminal.press("Enter");
    terminal.wait_for(&["running", "p50", "meter"]);
    terminal.press("q");
    terminal.wait_for_end(130);
}

/// Ctrl-\\ is disabled while the screen is shown; `kill -QUIT` from elsewhere still works.
#[test]
fn sigquit_restores_the_terminal() {
    if !have("tmux") {
        return;
    }
    let _alone = alone();
    let server = Serve::start(&["--latency", "5ms"]);
    let (dir, job) = job("ulimit -c 0");
    let args = format!("-c 2 -d 600s {}", server.url("/"));
    let terminal = Terminal::start((80, 24), &job, &args);
    terminal.wait_for(&["running", "p50", "meter"]);
    signal(&dir, Signal::QUIT);
    terminal.wait_for_end(128 + 3);
}

#[test]
fn keys_without_effect_show_a_message() {
    if !have("tmux") {
        return;
    }
    let _alone = alone();
    let server = Serve::start(&["--latency", "5ms"]);
    let terminal = Terminal::start((80, 24), "", &format!("-c 2 -d 600s {}", server.url("/")));
    terminal.wait_for(&["running"]);
    terminal.press("p");
    terminal.wait_for(&["work only in an open loop whose arrivals have a rate"]);
    terminal.press("q");
    terminal.wait_for_end(130);
}

#[test]
fn supports_terminals_of_any_size_and_kind() {
    if !have("tmux") {
        return;
    }
    let _alone = alone();
    let server = Serve::start(&["--latency", "5ms"]);
    let args = format!("-c 2 --think 5ms -d 600s {}", server.url("/"));
    let terminal = Terminal::start((80, 24), "LC_ALL=C NO_COLOR=1", &args);
    let screen = terminal.wait_for(&["running", "p50", "200: "]);
    assert!(screen.is_ascii(), "{screen}");
    let inked = terminal.tmux(&["capture-pane", "-p", "-e"]);
    let colored = (30..=37).chain(90..=97).any(|code| inked.contains(&format!("{code}m")));
    assert!(!colored, "{inked}");
    terminal.resize(20, 5);
    let mut screen = String::new();
    wait_until("five lines of twenty columns", || {
        screen = terminal.screen();
        let lines: Vec<&str> = screen.lines().collect();
        lines.len() == 5 && lines[0].starts_with("running") && lines[4].starts_with("q stop")
    });
    terminal.resize(90, 30);
    terminal.wait_for(&["running", "p50", "meter", "q q stop at once"]);
    terminal.press("C-c");
    terminal.wait_for_end(130);
}

#[test]
fn prints_a_line_per_second_without_a_terminal() {
    let server = Serve::start(&[]);
    let url = server.url("/");
    let refused = prony(&["--tui", "-n", "1", &url]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("--tui needs a terminal on standard error"), "{refused:?}");
    let _waiting = waiting();
    let ended = prony(&["-c", "1", "--think", "20ms", "-d", "3500ms", &url]);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    // At 1, 2 and 3 seconds; on a busy machine they may be late, but there are never more.
    assert!((1..=3).contains(&lines.len()), "{lines:?}");
    assert!(lines.iter().all(|line| line.starts_with("prony: ") && line.contains("in flight")));
}
