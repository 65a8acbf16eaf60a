//! htstress's command line.

use crate::getopt::Takes::{Argument, Nothing};
use crate::getopt::{Item, Table};

/// What a command line requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Print the usage.
    Help,
    /// An error: the texts for standard output and for standard error.
    Refused { out: Option<String>, err: Option<String> },
    /// A run.
    Run(Options),
}

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Requests; 0 = until Ctrl-C.
    pub(super) number: u64,
    /// Connections per thread, at least 1.
    pub(super) concurrency: u32,
    /// At least 1.
    pub(super) threads: u32,
    pub(super) debug: bool,
    pub(super) unix: Option<String>,
    pub(super) host: Option<String>,
    pub(super) ipv4: bool,
    pub(super) ipv6: bool,
    /// Whether latencies and the verdict are printed after the classic lines.
    pub(super) extras: bool,
    pub(super) url: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Key {
    Number,
    Concurrency,
    Threads,
    Debug,
    Unix,
    Host,
    Ipv4,
    Ipv6,
    Help,
    NoExtras,
}

const TABLE: Table<Key> = Table {
    letters: &[
        ('n', Argument, Key::Number),
        ('c', Argument, Key::Concurrency),
        ('t', Argument, Key::Threads),
        ('u', Argument, Key::Unix),
        ('h', Argument, Key::Host),
        ('d', Nothing, Key::Debug),
        ('4', Nothing, Key::Ipv4),
        ('6', Nothing, Key::Ipv6),
    ],
    words: &[
        ("number", Argument, Key::Number),
        ("concurrency", Argument, Key::Concurrency),
        ("threads", Argument, Key::Threads),
        ("udaddr", Argument, Key::Unix),
        ("host", Argument, Key::Host),
        ("debug", Nothing, Key::Debug),
        ("help", Nothing, Key::Help),
    ],
    newer: &[("no-extras", Nothing, Key::NoExtras)],
};

/// Read a command line.
pub(super) fn read(program: &str, args: &[String]) -> Asked {
    if args.is_empty() {
        return Asked::Help;
    }
    let mut options = Options {
        number: 0,
        concurrency: 1,
        threads: 1,
        debug: false,
        unix: None,
        host: None,
        ipv4: false,
        ipv6: false,
        extras: true,
        url: String::new(),
    };
    let mut url = None;
    for item in TABLE.read(program, args) {
        let refused = match item {
            Item::Operand(word) => {
                url.get_or_insert(word);
                Ok(())
            }
            Item::Refused(message) => {
                let out = Some("Unexpected argument: '?'".to_owned());
                return Asked::Refused { out, err: Some(message) };
            }
            Item::Option(Key::Help, _) => return Asked::Help,
            Item::Option(key, value) => options.set(key, value.unwrap_or_default()),
        };
        if let Err(sentence) = refused {
            return Asked::Refused { out: None, err: Some(format!("htstress: {sentence}")) };
        }
    }
    match url {
        Some(url) => Asked::Run(Options { url, ..options }),
        None => Asked::Refused { out: Some("Missing URL".into()), err: None },
    }
}

impl Options {
    fn set(&mut self, key: Key, value: String) -> Result<(), String> {
        match key {
            Key::Number => {
                let why = "the number of requests, 0 for no end";
                self.number = value.trim().parse().map_err(|_| wrong("-n", &value, why))?;
            }
            Key::Concurrency => {
                let why = "the connections of each thread, at least 1";
                let n = value.trim().parse().ok().filter(|&n| n > 0);
                self.concurrency = n.ok_or_else(|| wrong("-c", &value, why))?;
            }
            Key::Threads => {
                let why = "the number of threads";
                let n: u32 = value.trim().parse().map_err(|_| wrong("-t", &value, why))?;
                self.threads = n.max(1);
            }
            Key::Unix => self.unix = Some(value),
            Key::Host => self.host = Some(value),
            Key::Debug => self.debug = true,
            Key::Ipv4 => (self.ipv4, self.ipv6) = (true, false),
            Key::Ipv6 => (self.ipv4, self.ipv6) = (false, true),
            Key::NoExtras => self.extras = false,
            Key::Help => {}
        }
        Ok(())
    }
}

fn wrong(option: &str, value: &str, wants: &str) -> String {
    format!("{option} '{}' cannot be used; it wants {wants}", value.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Asked {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read("htstress", &words)
    }

    #[test]
    fn accepts_options_and_url_in_any_order() {
        let all = "-n 5 -c 6 --thr 7 --deb -u /s --host h -4 -6 --no-e u ignored";
        let Asked::Run(options) = check(all) else { panic!("{:?}", check(all)) };
        let expected = Options {
            number: 5,
            concurrency: 6,
            threads: 7,
            debug: true,
            unix: Some("/s".into()),
            host: Some("h".into()),
            ipv4: false,
            ipv6: true,
            extras: false,
            url: "u".into(),
        };
        assert_eq!(options, expected);
        assert_eq!(check("u --no-e -6 -4 -6 -hh -u/s -d -t7 -c6 -n5"), Asked::Run(expected));
    }

    #[test]
    fn rejects_malformed_numbers() {
        for line in ["-n x u", "-n -1 u", "-n 5k u", "-c 0 u", "-c 4294967296 u", "-t many u"] {
            let Asked::Refused { out: None, err: Some(why) } = check(line) else {
                panic!("{line}: {:?}", check(line))
            };
            let (option, rest) = line.split_once(' ').expect("two words");
            let value = rest.split_once(' ').expect("two words").0;
            let start = format!("htstress: {option} '{value}' cannot be used");
            assert!(why.starts_with(&start), "{why}");
        }
    }
}
