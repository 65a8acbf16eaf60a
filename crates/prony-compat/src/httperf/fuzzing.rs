//! The fuzz target of httperf's command line, and the test that replays its corpus.

use prony_run::environment::Environment;
use prony_run::plan_file::{explain, parse};

use super::echo::echo;
use super::options::{Opts, Wish, read};
use super::pages;
use super::plan::plan;
use super::values::{Uris, Workload};

/// The maximum size of a plan here; a command line can ask for much more.
const MOST: u64 = 1_000;

/// Fuzz target: httperf's command line, with words separated by zero bytes. An accepted command
/// line can be typed as it is echoed, and its plan can be written to a plan file and read again.
///
/// # Panics
/// When it is not so.
pub fn getopt(data: &[u8]) {
    let words = data.split(|&b| b == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    match read("httperf", &words.collect::<Vec<_>>(), &mut |_| {}) {
        Ok(Wish::Run(opts)) => {
            typed_again(&opts);
            planned(&opts);
        }
        Ok(Wish::Help | Wish::Version) => {}
        Err(refusal) => {
            assert!(refusal.message.starts_with("httperf: "), "{}", refusal.message);
            assert!([1, 255].contains(&refusal.code), "{}", refusal.code);
        }
    }
}

/// The echo line must have the same meaning as the command line.
fn typed_again(opts: &Opts) {
    let line = echo(opts);
    let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
    // Quotes would need a shell.
    if words.iter().any(|word| word.contains('\'') || !word.bytes().all(|b| b.is_ascii_graphic())) {
        return;
    }
    match read("httperf", &words[1..], &mut |_| {}) {
        Ok(Wish::Run(again)) => assert_eq!(echo(&again), line),
        other => panic!("{line}: {other:?}"),
    }
}

/// The plan of the command line, if that needs no file.
fn planned(opts: &Opts) {
    let ssl = &opts.ssl;
    let files = [&opts.servers, &opts.add_header_file, &ssl.certificate, &ssl.key];
    let files = files.into_iter().chain([&ssl.ca_file, &ssl.ca_path]).any(Option::is_some);
    let (sessions, calls) = match opts.workload {
        Workload::Requests => (opts.num_conns, opts.num_calls),
        Workload::Sess(sessions, calls, _) => (sessions, calls),
        Workload::Sesslog(..) | Workload::Sesspage(..) => return,
    };
    let uris = match opts.uris {
        Uris::One => 1,
        Uris::Set(files, _) => files,
        Uris::Log(..) => return,
    };
    if files || [sessions, calls, uris].iter().any(|&n| n > MOST) {
        return;
    }
    let Ok((plan, _)) = plan(opts, pages::page, &mut |_| {}) else { return };
    let written = explain(&plan, &[]);
    let around = Environment {
        connections_max: 9,
        connections_why: "a reason".into(),
        seed: 1,
        simulated: false,
    };
    let again = parse("explained", &written, None, &around);
    let again = again.unwrap_or_else(|why| panic!("{written}\n{}", why.join("\n")));
    assert_eq!(again.plan, plan, "{written}");
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;
    use proptest::sample::subsequence;

    #[test]
    fn corpus_of_getopt() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/getopt");
        let files = fs::read_dir(&folder).expect("a corpus");
        let files: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
        assert!(files.len() >= 20, "{} files in {}", files.len(), folder.display());
        for file in files {
            println!("{}", file.display());
            super::getopt(&fs::read(&file).expect("a readable file"));
        }
    }

    const OPTIONS: [&str; 40] = [
        "--server=127.0.0.1",
        "--port=8080",
        "--uri=/a/b?c=d",
        "--num-conns=10",
        "--num-calls=5",
        "--rate=100",
        "--period=u0.1,0.5",
        "--period=e0.25",
        "--period=v0.1,2,0.2,3",
        "--timeout=5",
        "--think-timeout=0.5",
        "--hog",
        "--close-with-reset",
        "--http-version=1.0",
        "--wsess=10,5,0.5",
        "--burst-length=3",
        "--max-connections=2",
        "--max-piped-calls=4",
        "--wset=20,0.3",
        "--session-cookies",
        "--retry-on-failure",
        "--failure-status=503",
        "--client=1/3",
        "--ssl",
        "--ssl-no-reuse",
        "--ssl-ciphers=AES256-SHA",
        "--method=POST",
        "--add-header=X: y\\n",
        "--no-host-hdr",
        "--server-name=name",
        "--print-reply=header",
        "--print-request",
        "--recv-buffer=8192",
        "--send-buffer=4096",
        "--runtime=3",
        "--verbose",
        "--threads=2",
        "--user-agent=x",
        "--compact",
        "--no-extras",
    ];

    proptest! {
        #[test]
        fn what_is_meant_can_be_written(words in subsequence(&OPTIONS[..], 0..8)) {
            super::getopt(words.join("\0").as_bytes());
        }
    }
}
