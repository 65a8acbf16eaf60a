//! wrk's command line.

use std::path::PathBuf;

use super::units::{parse_metric, parse_time};
use crate::getopt::Takes::{Argument, Nothing};
use crate::getopt::{Item, Table};

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Print the version and the usage.
    Version,
    /// Print an error, the usage, or both.
    Refused { why: Option<String>, usage: bool },
    /// Run a load.
    Run(Options),
}

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) connections: u32,
    /// In seconds.
    pub(super) duration: u64,
    pub(super) threads: u32,
    pub(super) headers: Vec<String>,
    pub(super) latency: bool,
    /// In seconds.
    pub(super) timeout: u64,
    pub(super) extras: bool,
    /// The files for prony's own report.
    pub(super) outputs: Vec<PathBuf>,
    pub(super) url: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Key {
    Connections,
    Duration,
    Threads,
    Script,
    Header,
    Latency,
    Timeout,
    Version,
    Help,
    NoExtras,
    Output,
}

const TABLE: Table<Key> = Table {
    letters: &[
        ('c', Argument, Key::Connections),
        ('d', Argument, Key::Duration),
        ('t', Argument, Key::Threads),
        ('s', Argument, Key::Script),
        ('H', Argument, Key::Header),
        ('L', Nothing, Key::Latency),
        ('T', Argument, Key::Timeout),
        ('v', Nothing, Key::Version),
        ('h', Nothing, Key::Help),
    ],
    words: &[
        ("connections", Argument, Key::Connections),
        ("duration", Argument, Key::Duration),
        ("threads", Argument, Key::Threads),
        ("script", Argument, Key::Script),
        ("header", Argument, Key::Header),
        ("latency", Nothing, Key::Latency),
        ("timeout", Argument, Key::Timeout),
        ("help", Nothing, Key::Help),
        ("version", Nothing, Key::Version),
    ],
    newer: &[("no-extras", Nothing, Key::NoExtras), ("output", Argument, Key::Output)],
};

/// The error message for `-s`.
const NO_SCRIPTS: &str = "Lua scripts are not supported; `prony load` has options for the method (-m), \
    body (-b), headers (-H) and lists of URLs (--urls), and `prony run` runs sessions from a plan file";

/// Read a command line.
pub(super) fn read(program: &str, args: &[String]) -> Asked {
    let mut options = Options {
        connections: 10,
        duration: 10,
        threads: 2,
        headers: Vec::new(),
        latency: false,
        timeout: 2,
        extras: true,
        outputs: Vec::new(),
        url: String::new(),
    };
    let mut url = None;
    for item in TABLE.read(program, args) {
        let set = match item {
            // Words after the URL are arguments of a script, and ignored.
            Item::Operand(word) => {
                url.get_or_insert(word);
                Ok(())
            }
            Item::Refused(why) => Err((why, true)),
            Item::Option(Key::Version, _) => return Asked::Version,
            Item::Option(Key::Help, _) => return Asked::Refused { why: None, usage: true },
            Item::Option(key, value) => options.set(key, value.unwrap_or_default()),
        };
        if let Err((why, usage)) = set {
            return Asked::Refused { why: Some(why), usage };
        }
    }
    let Some(url) = url else {
        return Asked::Refused { why: None, usage: true };
    };
    if !url.contains("://") {
        let why = Some(format!("invalid URL: {}", url.escape_debug()));
        return Asked::Refused { why, usage: true };
    }
    if options.connections < options.threads {
        let why = Some("number of connections must be >= threads".to_owned());
        return Asked::Refused { why, usage: true };
    }
    Asked::Run(Options { url, ..options })
}

impl Options {
    /// Set an option. The error is a message, and whether the usage follows it.
    fn set(&mut self, key: Key, value: String) -> Result<(), (String, bool)> {
        let number = |option: &str| {
            let n = parse_metric(&value).and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
            n.ok_or_else(|| {
                (
                    format!(
                        "{option} '{}' is not a positive whole number such as 10 or 1k",
                        value.escape_debug()
                    ),
                    true,
                )
            })
        };
        let time = |option: &str| {
            let t = parse_time(&value).filter(|&t| t > 0 && t <= 1 << 32);
            t.ok_or_else(|| {
                (
                    format!(
                        "{option} '{}' is not a time such as 10, 30s or 2m",
                        value.escape_debug()
                    ),
                    true,
                )
            })
        };
        match key {
            Key::Connections => self.connections = number("-c")?,
            Key::Threads => self.threads = number("-t")?,
            Key::Duration => self.duration = time("-d")?,
            Key::Timeout => self.timeout = time("--timeout")?,
            Key::Script => return Err((format!("-s {value}: {NO_SCRIPTS}"), false)),
            Key::Header => self.headers.push(value),
            Key::Latency => self.latency = true,
            Key::NoExtras => self.extras = false,
            Key::Output => self.outputs.push(value.into()),
            Key::Version | Key::Help => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Asked {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read("wrk", &words)
    }

    #[test]
    fn options_in_any_order() {
        let expected = Options {
            connections: 1_000,
            duration: 120,
            threads: 4,
            headers: vec!["A:b".into(), "C:d".into()],
            latency: true,
            timeout: 5,
            extras: false,
            outputs: vec!["a.json".into(), "b.html".into()],
            url: "http://u".into(),
        };
        let lines = [
            "-c 1k -d2m -t 4 -H A:b -H C:d --latency --timeout 5s --no-extras --output a.json \
             --output=b.html http://u",
            "http://u -c1k --dur 2m --threads=4 --header A:b -HC:d -L -T5 --no-extras --output a.json \
             --output b.html -- for a script",
        ];
        for line in lines {
            assert_eq!(check(line), Asked::Run(expected.clone()), "{line}");
        }
    }

    #[test]
    fn refusals() {
        let why = |line| match check(line) {
            Asked::Refused { why, usage } => (why.unwrap_or_default(), usage),
            other => panic!("{line}: {other:?}"),
        };
        for (line, words, usage) in [
            ("", "", true),
            ("notaurl", "invalid URL: notaurl", true),
            ("127.0.0.1:80/", "invalid URL: 127.0.0.1:80/", true),
            ("-c 1.5k u", "-c '1.5k' is not a positive whole number such as 10 or 1k", true),
            ("-d 100ms u", "-d '100ms' is not a time such as 10, 30s or 2m", true),
            ("-c 1 -t 2 http://u", "number of connections must be >= threads", true),
            ("-Z u", "wrk: invalid option -- 'Z'", true),
        ] {
            assert_eq!(why(line), (words.to_owned(), usage), "{line}");
        }
        let (script, usage) = why("-s a.lua u");
        assert!(
            !usage && script.starts_with("-s a.lua: Lua scripts are not supported; `prony load`")
        );
    }
}
