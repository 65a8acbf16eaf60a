//! Command lines and their plans or error messages. The expected texts are in
//! `tests/*.txt`; `UPDATE_EXPECT=1` writes them anew.

use std::fmt::Write as _;
use std::fs;

use clap::Parser as _;
use expect_test::{ExpectFile, expect, expect_file};
use prony_plan::plan::Load;
use prony_run::builder::Planned;
use prony_run::environment::Environment;
use prony_run::error::Error;

use super::names::NAMES;
use super::plan::plan;
use super::refusal::of_clap;
use super::*;

fn around() -> Environment {
    Environment {
        connections_max: 19_900,
        connections_why: "what fits".into(),
        seed: 7,
        simulated: false,
    }
}

/// The plan of a command line, in which `_` stands for a blank inside a word.
fn planned(line: &str) -> Result<Planned, Error> {
    let words = line.split_whitespace().map(|w| w.replace('_', " "));
    let cli = Cli::try_parse_from(std::iter::once("prony".to_owned()).chain(words))
        .map_err(|e| of_clap(&e))?;
    match cli.command {
        None => plan(&cli.load, &around()),
        Some(Command::Load(args)) => plan(&args, &around()),
        Some(other) => panic!("{line}: {other:?} is not a load"),
    }
}

/// What differs between the plan of the line and that of the URL alone.
fn difference(line: &str) -> String {
    let base = serde_json::to_value(planned("http://h/").unwrap().plan).unwrap();
    let plan = serde_json::to_value(planned(line).unwrap().plan).unwrap();
    let base = base.as_object().unwrap();
    let changed =
        plan.as_object().unwrap().iter().filter(|(key, value)| base.get(*key) != Some(*value));
    changed.fold(String::new(), |text, (key, value)| text + &format!("  {key}: {value}\n"))
}

fn check(lines: &[&str], answer: impl Fn(&str) -> String, expected: ExpectFile) {
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "$ prony {line}\n{}", answer(line));
    }
    expected.assert_eq(&text);
}

mod sessions;

#[test]
fn the_option_table_is_valid() {
    Cli::command().debug_assert();
    load_alone().debug_assert();
    let command = Cli::command();
    let names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
    assert_eq!(names, NAMES);
}

/// The message for a value that is no number names its option, and says what is valid.
#[test]
fn no_message_is_that_of_the_standard_library_alone() {
    let all = Cli::command();
    let tables = std::iter::once((None, load_alone())).chain(
        all.get_subcommands().map(|command| (Some(command.get_name().to_owned()), command.clone())),
    );
    let mut numbers = 0;
    for (name, table) in tables {
        let options = table.get_arguments().filter(|arg| arg.get_action().takes_values());
        for option in options.filter_map(clap::Arg::get_long) {
            for value in ["x", "99999999999999999999999", "-1"] {
                let line = std::iter::once("prony").chain(name.as_deref());
                let value = format!("--{option}={value}");
                let Err(e) = Cli::try_parse_from(line.chain([&*value])) else { continue };
                let sentence = of_clap(&e).to_string();
                let bare = ["invalid digit", "number too", "from empty string", "would be zero"];
                assert!(!bare.iter().any(|bare| sentence.contains(bare)), "{sentence}");
                numbers += usize::from(sentence.starts_with(&format!("--{option}: '")));
            }
        }
    }
    assert!(numbers > 50, "{numbers} messages name their option and the value");
}

#[test]
fn a_url_alone() {
    let planned = planned("http://h:8080/a?b=c").unwrap();
    let plan = serde_json::to_string_pretty(&planned.plan).unwrap();
    expect_file!["tests/plain.json"].assert_eq(&plan);
    assert!(planned.notes.is_empty());
}

#[test]
fn plans() {
    let lines = [
        // Load is the same as nothing.
        "load http://h/",
        "load -c 50 http://h/ -d 10s",
        // Closed loops.
        "-c 100 http://h/",
        "http://h/ -c100 --think exp:50ms",
        "http://h/ --think uniform:10ms:90ms",
        "http://h/ -p 64",
        "http://h/ --no-reuse",
        "http://h/ --no-reuse --reuse",
        "http://h/ --requests-per-connection 100",
        // Stop rules.
        "http://h/ -n 10k",
        "http://h/ -d 1m30s",
        "http://h/ -z 500ms -n 2m",
        "http://h/ --warmup 5s",
        // Open loops.
        "http://h/ -r 500",
        "http://h/ -R 20k/s -c 10",
        "http://h/ --rate 1k@10s,1k..20k@60s,20k@30s --arrivals poisson",
        "http://h/ --rate 1k@10s -n 500",
        "http://h/ --rate 5 --arrivals gamma:0.25",
        "http://h/ --arrivals uniform:1ms:3ms",
        // Requests.
        "http://h/ -X DELETE",
        "http://h/ -b hello",
        "http://h/ -m GET -b hello -T text/plain",
        "http://h/ -H Accept:_*/* -H X-Two:2",
        "http://h/ -u me:secret",
        "http://me:secret@h/",
        "http://h/ --host other.example",
        "http://h/ --http 1.0",
        "https://h/ --http2 -c 4 --streams 10 --fill --window 64k --hpack static",
        "https://h/ --http 2 -r 500 --wait-settings",
        "https://h/ --http 2 -r 500 --spread",
        "http://h/ --h2c --header-table-size 0 --max-frame-size 32k",
        "http://h/ --http2-prior-knowledge",
        "http://h/ --expect 2xx,404 --expect-body ok --expect-length 2k",
        "http://h/ --timeout 1s --connect-timeout 250ms",
        "http://h/ --check status=2xx --check fast:time<1s",
        // Several urls.
        "http://h/a http://h/b http://[::1]:81/ --pick random",
        // Other places.
        "http://h/ http://i/ --connect-to 127.0.0.1:8080",
        "http://h/ --connect-to [::1]:8080",
        "http://h/ --unix-socket /run/x.sock",
        // Seeds.
        "http://h/ --seed 42",
        // Nothing to verify.
        "http://h/ -k",
        "http://h/ --simulate 42",
        "http://h/ --simulate 42 --seed 43",
    ];
    check(&lines, difference, expect_file!["tests/plans.txt"]);
}

#[test]
fn rejects_what_http2_does_not_have() {
    let lines = [
        "http://h/ --http2",
        "http://h/ --streams 5",
        "https://h/ --http2 -p 2",
        "https://h/ --http2 --window 4g",
        "https://h/ --http2 --max-frame-size 1k",
        "https://h/ --http2 --hpack some",
        "https://h/ --http2 --http 1.1",
        "https://h/ --alpn h2",
    ];
    let sentence = |line: &str| format!("  {}\n", planned(line).unwrap_err());
    check(&lines, sentence, expect_file!["tests/refused_http2.txt"]);
}

#[test]
fn rejects_invalid_options_of_grpc() {
    let lines = [
        "http://h/ --proto a.proto",
        "http://h/ --expect-grpc OK",
        "grpc://h/a.B/C http://h/",
        "grpc://h/a.B/C --grpc a.B/D",
        "http://h/x --grpc a.B/D",
        "grpc://h/a.B/C --proto /no/such.proto",
        "grpc://h/a.B/C --proto /no/such.proto --expect-grpc FINE",
        "grpc://h/a.B/C --proto /no/such.proto --expect 200",
        "grpc://h/a.B/C --protoset /no/such.binpb",
        "grpc://h/a.B/C --grpc-timeout soon",
        "grpc://h/a.B/C --proto-path x",
        "grpc://h/a.B/C -p 2",
        "http://h/ --messages 10/s",
        "grpc://h/a.B/C --messages 10/s..20/s/9s",
        "grpc://h/a.B/C --messages-count 5",
        "grpc://h/a.B/C --messages 10/s --messages-count 0",
        "grpc://h/a.B/C --messages 10/s --messages-arrivals often",
    ];
    let sentence = |line: &str| format!("  {}\n", planned(line).unwrap_err());
    check(&lines, sentence, expect_file!["tests/refused_grpc.txt"]);
}

#[test]
fn rejects_what_websocket_cannot_do() {
    let lines = [
        "http://h/ --binary",
        "http://h/ --subprotocol chat",
        "ws://h/ http://h/",
        "ws://h/ --subprotocol a,b",
        "ws://h/ --method POST -b x",
        "ws://h/ --messages 10/s",
        "ws://h/ -b x --messages 10/s --messages-reply id",
        "ws://h/ -b x --messages 10/s --messages-time 60s",
        "ws://h/ -b x --messages 10/s --messages-reply order --stream messages",
        "ws://h/ --stream sse",
        "http://h/ --stream messages",
        "http://h/ --stream ndjson --stream-events 5 --reconnect",
        "http://h/ --stream sse --reconnect",
        "ws://h/ -H Sec-WebSocket-Key:abc",
        "wss://h/ --http 1.0",
        "ws://h/ --http 2",
        "ws://h/ --h2c -p 2",
        "ws://h/ --streams 5",
        "ws://h/ --h2c --streams 2 -c 5 -b x --messages 10/s --messages-count 5 --publishers 10",
        "ws://h/ -p 2",
        "ws://h/ --expect OK",
        "ws://h/ --requests-per-connection 5",
        "http://h/ --ping-every 1s",
        "http://h/ --no-utf8-check",
        "ws://h/ -b x --messages 10/s --messages-over all -r 5",
        "ws://h/ -b x --messages-over all",
        "ws://h/ -b x --messages 10/s --messages-arrivals uniform:1ms:2ms",
        "ws://h/ -b x --messages-arrivals poisson",
        "ws://h/ -b x --messages-arrivals trace:times",
        "ws://h/ -b x --messages 10/s --messages-arrivals gama:2",
        "http://h/ --messages-arrivals uniform:1ms:2ms",
        "ws://h/ -b x --messages 10/s..20/s",
        "ws://h/ -b x --messages 10/s --messages-reply token --stream messages",
        "http://h/ -b x --publishers 2",
        "ws://h/ -b x --publishers 2",
        "ws://h/ -b x --publish-after 2s",
        "ws://h/ -b x --messages 10/s --publishers 2",
        "ws://h/ -b x --messages 10/s --messages-count 5 --publishers 50",
        "ws://h/ -b x --messages 10/s --messages-count 5 --publishers 2 -d 10s",
        "ws://h/ -b x --messages 10/s --messages-count 5 --publishers 2 -r 10",
        "ws://h/ -b x --messages 10/s --messages-count 5 --publishers 2 --warmup 5s",
        "ws://h/ -b x --messages 10/s --messages-time 28s --publishers 2",
        "ws://h/ -b x --messages 10/s --messages-count 5 --publishers 2 --messages-reply order",
    ];
    let sentence = |line: &str| format!("  {}\n", planned(line).unwrap_err());
    check(&lines, sentence, expect_file!["tests/refused_websocket.txt"]);
}

#[test]
fn rejects_invalid_checks() {
    let lines =
        ["http://h/ --check statuz", "http://h/ --check time<3", "ws://h/ --check status=101"];
    let sentence = |line: &str| format!("  {}\n", planned(line).unwrap_err());
    check(&lines, sentence, expect_file!["tests/refused_checks.txt"]);
}

#[test]
fn rejects_invalid_command_lines() {
    let lines = [
        "",
        "-c 10",
        "-c 10 serve",
        "http://h/ --frobnicate",
        "http://h/ --connexions 5",
        "http://h/ -q 5",
        "http://h/ -c",
        "http://h/ -c 0",
        "http://h/ -c ten",
        "http://h/ -c 2m",
        "http://h/ -c 1 -c 2",
        "http://h/ -n 0",
        "http://h/ -d 0s",
        "http://h/ -d 10x",
        "http://h/ -p 0",
        "http://h/ -p 8k",
        "http://h/ -r fast",
        "http://h/ -r 1k@10s,",
        "http://h/ --arrivals often",
        "http://h/ --arrivals poisson",
        "http://h/ --arrivals uniform:1ms:2ms --rate 5",
        "http://h/ --arrivals trace:/nowhere/x --rate 5",
        "http://h/ --arrivals trace:/nowhere/x",
        "http://h/ --rate 5 --think 1s",
        "http://h/ --arrivals uniform:1ms:2ms --think 1s",
        "http://h/ --think sometimes",
        "http://h/ --pick best",
        "http://h/ --no-reuse -p 2",
        "http://h/ --no-reuse --requests-per-connection 2",
        "http://h/ --http 1.0 -p 2",
        "http://h/ --http 3",
        "http://h/ -H nonsense",
        "http://h/ -H Host:_x --host y",
        "http://h/ -H Authorization:_x -u a:b",
        "http://h/ -H content-type:_x -T text/plain",
        "http://h/ -u me",
        "http://h/ -m G_ET",
        "http://h/ --host a_b",
        "http://h/ -b @/nowhere/x",
        "http://h/ --urls /nowhere/x",
        "http://h/ --urls /",
        "http://h/ --urls /dev/null",
        "ftp://h/",
        "https://",
        "http://h/a_b",
        "http://h/ --connect-to http://x/",
        "http://h/ --connect-to x:y",
        "http://h/ --unix-socket /x -4",
        "http://h/ -4 -6",
        "http://h/ -4 --source ::1",
        "http://h/ --source elsewhere",
        "http://h/ --expect good",
        "http://h/ --expect-length -1",
        "http://h/ --driver kqueue",
        "http://h/ --precision high",
        "http://h/ --precision 2s",
        "http://h/ --precision 0ms",
        "http://h/ --seed x",
        "http://h/ --json --format csv",
        "http://h/ --format xml",
        "http://h/ --simulate-latency exp:1ms",
        "http://h/ -H Content-Length:_5",
        "http://h/ -b xx -H Content-Length:_2 -H Transfer-Encoding:_chunked",
        "http://h/ -b xx -H Transfer-Encoding:_chunked --http 1.0",
    ];
    let sentence = |line: &str| format!("  {}\n", planned(line).unwrap_err());
    check(&lines, sentence, expect_file!["tests/refused.txt"]);
}

#[test]
fn error_messages_have_suggestions() {
    let lines = [
        "http://h/ --arrivals poison -r 5",
        "http://h/ --arrivals gama:0.5 -r 5",
        "http://h/ --arrivals uniform:1ms..2ms",
        "http://h/ --think expo:1ms",
        "http://h/ --think lognormal:2s,0.5",
        "http://h/ --driver iouring",
        "http://h/ --format jsn",
        "http://h/ --format JSON",
        "http://h/ --until p9+-5%",
        "serve --latency expo:1ms",
        "serve --latency lognormal:20ms,0.3",
        "http://h/ --tokenizer t.json",
        "load http://h/ -c 5 --all-turns --prompts p.jsonl",
        "capacity http://h/ --slo ttft<1s",
        "llm http://h/ --tokenizer t.json",
    ];
    let sentence = |line: &str| format!("  {}\n", planned(line).unwrap_err());
    check(&lines, sentence, expect_file!["tests/meant.txt"]);
}

#[test]
fn the_default_connection_limit_is_what_fits() {
    let unlimited = planned("http://h/ -r 500").unwrap();
    assert_eq!(unlimited.cap.as_deref(), Some("what fits"));
    assert!(matches!(unlimited.plan.load, Load::Open { connections: 19_900, .. }));
    // The report mentions it only if it delayed requests.
    assert!(unlimited.notes.is_empty());
    assert_eq!(planned("http://h/ -r 500 -c 10").unwrap().cap, None);
}

#[test]
fn notes_have_what_the_plan_lacks() {
    let notes = |line: &str| planned(line).unwrap().notes.join("\n");
    expect!["Connections used the local addresses 127.0.0.2, 127.0.0.3."]
        .assert_eq(&notes("http://h/ --source 127.0.0.2,127.0.0.3"));
    expect![[r#"
        Each thread was pinned to a core.
        Threads always spun while waiting (--precision spin)."#]]
    .assert_eq(&notes("http://h/ --pin --precision spin"));
    expect!["Requests due within 1ms were sent together, up to 1ms late (--precision)."]
        .assert_eq(&notes("http://h/ --precision 1ms"));
    expect![
        "Each user of the closed loop had a connection to each of the 2 servers, and used one of them at a time."
    ]
    .assert_eq(&notes("http://h/ http://i/ http://h/b -c 1"));
    expect![""].assert_eq(&notes("http://h/ http://i/ --connect-to localhost:80"));
}

#[test]
fn reads_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("times"), "0\n0.5\n1.25\n").unwrap();
    fs::write(dir.path().join("unsorted"), "0\n0.5\n0.25\n").unwrap();
    fs::write(dir.path().join("body"), b"\0\xff").unwrap();
    let body = dir.path().join("body");
    let urls = format!("GET http://h/\nX: 1\n\nPUT http://h/put\n@{}\n", body.display());
    fs::write(dir.path().join("urls"), urls).unwrap();
    fs::write(dir.path().join("wrong"), "http://h/\nGET nonsense://\n").unwrap();
    fs::write(dir.path().join("bytes"), b"\xff\xff").unwrap();
    let name = dir.path().display().to_string();
    let lines = [
        "http://h/ --arrivals trace:DIR/times",
        "http://h/ --arrivals trace:DIR/unsorted",
        "http://h/ -m PUT -b @DIR/body",
        "--urls DIR/urls -H X:_2 -H Y:_3",
        "--urls DIR/wrong",
        "--urls DIR/bytes",
    ];
    let answer = |line: &str| {
        let line = line.replace("DIR", &name);
        let refused = planned(&line).err().map(|e| format!("  {e}\n"));
        refused.unwrap_or_else(|| difference(&line)).replace(&name, "DIR")
    };
    check(&lines, answer, expect_file!["tests/files.txt"]);
}

/// clap breaks longer lines at the width of the terminal, in the middle of a paragraph.
#[test]
fn texts_after_the_options_fit_80_columns() {
    let mut command = Cli::command();
    command.build();
    let commands = std::iter::once(&command).chain(command.get_subcommands());
    let mut lines = 0;
    for command in commands {
        let texts = [command.get_after_help(), command.get_after_long_help()];
        for text in texts.into_iter().flatten() {
            let text = text.to_string();
            lines += text.lines().count();
            let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > 79).collect();
            assert!(wide.is_empty(), "{}: {wide:#?}", command.get_name());
        }
    }
    assert!(lines > 100, "{lines} lines");
}

/// Each option of another tool has a hint, and the options in it exist.
#[test]
fn options_of_other_tools_have_an_equivalent() {
    let known: Vec<String> = load_alone()
        .get_arguments()
        .flat_map(|arg| {
            let short = arg.get_short().map(|short| format!("-{short}"));
            let long = arg.get_long_and_visible_aliases().unwrap_or_default();
            short.into_iter().chain(long.into_iter().map(|long| format!("--{long}")))
        })
        .collect();
    let mut seen = 0;
    for (options, hint) in refusal::FOREIGN {
        let words = hint.split(|c: char| c.is_whitespace() || "`(),;".contains(c));
        for word in words.filter(|word| word.starts_with('-') && word.len() > 1) {
            assert!(known.iter().any(|known| known == word), "{hint}: {word}");
        }
        for option in options.iter().filter(|option| !known.iter().any(|known| known == *option)) {
            let why = planned(&format!("http://h/ {option} 5")).unwrap_err().to_string();
            let start = format!("unknown option '{option}'; {hint}; ");
            assert!(why.starts_with(&start) && !why.contains("did you mean"), "{why}");
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen}");
}

#[test]
fn words_that_are_no_urls_are_not_looked_up() {
    for (line, part) in [
        ("http://h/ 10", "'10' is neither a URL nor a command; for a duration use `-d 10s`"),
        ("GET http://h/", "'GET' is neither a URL nor a command; for the method use `-m GET`"),
        ("bench http://h/", "'bench' is neither a URL nor a command; `prony help` lists"),
        ("bench", "for a host with this name, write `http://bench/`"),
        ("lod", "unknown command 'lod'; did you mean 'load'?"),
        ("-n 5 servce", "unknown command 'servce'; did you mean 'serve'?"),
        (r#"http://h/ --json {"secret":1}"#, "for a body in JSON use `-b '{...}'"),
    ] {
        let why = planned(line).unwrap_err().to_string();
        assert!(why.contains(part) && !why.contains("secret"), "{line}: {why}");
    }
    for line in ["localhost", "h:80", "h/", "127.0.0.1", "a.b", "http://bench/"] {
        assert!(planned(line).is_ok(), "{line}");
    }
}

#[test]
fn help_is_a_command() {
    let help = |words: &[&str]| {
        let words = std::iter::once("prony").chain(words.iter().copied()).map(Into::into);
        Cli::read(words).unwrap_err()
    };
    for (asked, same) in [
        (&["help", "all"][..], &["--help"][..]),
        (&["help", "serve"], &["serve", "--help"]),
        (&["help", "capacity"], &["capacity", "--help"]),
    ] {
        let (asked, same) = (help(asked), help(same));
        assert!(!asked.use_stderr());
        assert_eq!(asked.to_string(), same.to_string());
    }
}

/// What is no command is a topic, and `-h` of a load is the screen without one.
#[test]
fn help_has_topics() {
    let topics = |words: &[&str]| {
        let words = std::iter::once("prony").chain(words.iter().copied()).map(Into::into);
        match Cli::read(words).expect("a command").command {
            Some(Command::Help { topics }) => topics,
            other => panic!("{other:?}"),
        }
    };
    for words in [&["help"][..], &["-h"], &["load", "-h"], &["-n", "5", "-h"], &["http://h/", "-h"]]
    {
        assert!(topics(words).is_empty(), "{words:?}");
    }
    assert_eq!(topics(&["help", "llm"]), ["llm"]);
    assert_eq!(topics(&["help", "load", "tls"]), ["load", "tls"]);
    // A command has what it does not share with a load.
    let short = |name: &str| {
        let words = ["prony", name, "-h"].map(Into::into);
        Cli::read(words).unwrap_err().to_string().lines().count()
    };
    for name in ["llm", "capacity", "compare", "replay"] {
        assert!(short(name) < 110, "{name}: {} lines", short(name));
    }
}
