//! The first line of every run: the command line as httperf parsed it.

use super::options::Opts;
use super::values::{Period, Print, Uris, Workload};
use crate::printf::general as g;

/// httperf's default buffer sizes.
const SEND_BUFFER: u64 = 4_096;
const RECV_BUFFER: u64 = 16_384;

/// The line, without the newline.
pub(super) fn echo(o: &Opts) -> String {
    let mut line = o.program.clone();
    let mut word = |text: String| {
        line.push(' ');
        line.push_str(&text);
    };
    if o.verbose > 0 {
        word("--verbose".into());
    }
    print_words(o, &mut word);
    if o.hog {
        word("--hog".into());
    }
    if o.close_with_reset {
        word("--close-with-reset".into());
    }
    let times =
        [("think-timeout", o.think_timeout), ("timeout", o.timeout), ("runtime", o.runtime)];
    for (name, seconds) in times.into_iter().filter(|t| t.1 > 0.0) {
        word(format!("--{name}={}", g(seconds)));
    }
    target_words(o, &mut word);
    load_words(o, &mut word);
    ssl_words(o, &mut word);
    request_words(o, &mut word);
    workload_words(o, &mut word);
    if o.periodic_stats {
        word("--periodic-stats".into());
    }
    line
}

fn print_words(o: &Opts, word: &mut dyn FnMut(String)) {
    for (name, print) in [("print-reply", o.print_reply), ("print-request", o.print_request)] {
        match print {
            None => {}
            Some(Print::Both) => word(format!("--{name}")),
            Some(Print::Header) => word(format!("--{name}=header")),
            Some(Print::Body) => word(format!("--{name}=body")),
        }
    }
}

fn target_words(o: &Opts, word: &mut dyn FnMut(String)) {
    word(format!("--client={}/{}", o.client.0, o.client.1));
    if o.servers.is_none() {
        word(format!("--server={}", o.server));
    }
    if let Some(name) = &o.server_name {
        word(format!("--server_name={name}"));
    }
    if let Some(file) = &o.servers {
        word(format!("--servers={}", file.display()));
    }
    if o.port() > 0 {
        word(format!("--port={}", o.port()));
    }
    word(format!("--uri={}", o.uri));
    if let Some(status) = o.failure_status {
        word(format!("--failure-status={status}"));
    }
    if o.http_version != (1, 1) {
        word(format!("--http-version={}.{}", o.http_version.0, o.http_version.1));
    }
}

fn load_words(o: &Opts, word: &mut dyn FnMut(String)) {
    let limits = [("max-connections", o.max_connections), ("max-piped-calls", o.max_piped_calls)];
    for (name, n) in limits.into_iter().filter(|l| l.1 > 0) {
        word(format!("--{name}={n}"));
    }
    match &o.period {
        Period::Sequential => {}
        Period::Fixed(gap) => word(format!("--rate={}", g(1.0 / gap))),
        Period::Uniform(low, high) => word(format!("--period=u{},{}", g(*low), g(*high))),
        Period::Exponential(mean) => word(format!("--period=e{}", g(*mean))),
        Period::Steps(steps) => {
            let pairs = steps.iter().map(|(gap, length)| format!("{},{}", g(*gap), g(*length)));
            word(format!("--period=v{}", pairs.collect::<Vec<_>>().join(",")));
        }
    }
    word(format!("--send-buffer={}", o.send_buffer.unwrap_or(SEND_BUFFER)));
    if o.retry_on_failure {
        word("--retry-on-failure".into());
    }
    word(format!("--recv-buffer={}", o.recv_buffer.unwrap_or(RECV_BUFFER)));
    if o.session_cookies {
        word("--session-cookies".into());
    }
}

fn ssl_words(o: &Opts, word: &mut dyn FnMut(String)) {
    let ssl = &o.ssl;
    if ssl.on {
        word("--ssl".into());
    }
    if let Some(list) = &ssl.ciphers {
        word(format!("--ssl-ciphers={list}"));
    }
    if let Some(name) = &ssl.server_name {
        word(format!("--tls-server-name={name}"));
    }
    if ssl.no_reuse {
        word("--ssl-no-reuse".into());
    }
    let files = [
        ("ssl-cert", &ssl.certificate),
        ("ssl-key", &ssl.key),
        ("ssl-ca-file", &ssl.ca_file),
        ("ssl-ca-path", &ssl.ca_path),
    ];
    for (name, file) in files {
        if let Some(file) = file {
            word(format!("--{name}={}", file.display()));
        }
    }
    if ssl.verify {
        word("--ssl-verify".into());
    }
    if let Some(name) = ssl.protocol {
        word(format!("--ssl-protocol={name}"));
    }
}

fn request_words(o: &Opts, word: &mut dyn FnMut(String)) {
    if let Some(text) = &o.add_header {
        word(format!("--add-header='{text}'"));
    }
    if let Some(file) = &o.add_header_file {
        word(format!("--add-header-file='{}'", file.display()));
    }
    if let Some(method) = &o.method {
        word(format!("--method={method}"));
    }
    if o.timer_cache {
        word("--use-timer-cache".into());
    }
}

fn workload_words(o: &Opts, word: &mut dyn FnMut(String)) {
    match &o.workload {
        Workload::Sesslog(sessions, think, file) => {
            word(format!("--wsesslog={sessions},{think:.3},{}", file.display()));
            return;
        }
        Workload::Sesspage(sessions, pages, think) => {
            word(format!("--wsesspage={sessions},{pages},{think:.3}"));
        }
        Workload::Sess(sessions, calls, think) => {
            word(format!("--wsess={sessions},{calls},{think:.3}"));
        }
        Workload::Requests => {
            for (name, n) in [("num-conns", o.num_conns), ("num-calls", o.num_calls)] {
                if n > 0 {
                    word(format!("--{name}={n}"));
                }
            }
        }
    }
    if o.burst_length != 1 {
        word(format!("--burst-length={}", o.burst_length));
    }
    if let Uris::Set(files, rate) = o.uris {
        word(format!("--wset={files},{rate:.3}"));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::options::{self, Wish};
    use super::*;

    /// The words of a shell command line, with its quotes removed.
    fn words(line: &str) -> Vec<String> {
        let parts = line.split('\'');
        let quoted = |i: usize| i % 2 == 1;
        let (mut words, mut word) = (Vec::new(), String::new());
        for (i, part) in parts.enumerate() {
            if quoted(i) {
                word.push_str(part);
                continue;
            }
            for (j, piece) in part.split(' ').enumerate() {
                if j > 0 && !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                word.push_str(piece);
            }
        }
        words.extend((!word.is_empty()).then_some(word));
        words
    }

    fn echo_of(line: &str) -> String {
        match options::read("httperf", &words(line), &mut |_| {}) {
            Ok(Wish::Run(opts)) => echo(&opts),
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Real command lines, and the lines that httperf printed for them.
    #[test]
    fn echoes_recorded_commands_to_the_byte() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/httperf");
        let mut seen = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let mut lines = text.lines();
            let (command, echoed) = (lines.next().unwrap(), lines.next().unwrap());
            let command = command.strip_prefix("httperf").unwrap();
            // An old version printed the version during a run.
            let command = command.replace(" -V", "");
            // The development version always prints the protocol.
            let reported = command.contains("--ssl-protocol");
            let echoed =
                if reported { echoed.into() } else { echoed.replace(" --ssl-protocol=auto", "") };
            assert_eq!(echo_of(&command), echoed, "{}", path.display());
            seen += 1;
        }
        assert!(seen >= 30, "{seen} recorded commands");
    }

    #[test]
    fn prints_every_option_in_order() {
        assert_eq!(
            echo_of(
                "--wsess 3,5,0.25 -v --wset=7,0.5 --burst-length 3 --session-cookies --ssl \
                 --retry-on-failure --close-with-reset --hog --timeout 5 --think-timeout=0.25 \
                 --period u0.1,0.2 --server_name x --max-conn 3 --max-p 4 --failure-status=503 \
                 --print-reply=body --print-req=x --ssl-no-reuse --ssl-ciphers A:B --http-version 1.0 \
                 --method= --port 0 --runtime 3"
            ),
            "httperf --verbose --print-reply=body --print-request --hog --close-with-reset \
             --think-timeout=0.25 --timeout=5 --runtime=3 --client=0/1 --server=localhost \
             --server_name=x --uri=/ --failure-status=503 --http-version=1.0 \
             --max-connections=3 --max-piped-calls=4 --period=u0.1,0.2 --send-buffer=4096 \
             --retry-on-failure --recv-buffer=16384 --session-cookies --ssl --ssl-ciphers=A:B \
             --ssl-no-reuse --method= --wsess=3,5,0.250 --burst-length=3 --wset=7,0.500"
        );
    }
}
