//! ab's command line, as APR's getopt reads it: options first, then one URL.

use std::path::PathBuf;

use prony_plan::plan::TlsVersion;

/// What a command line requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Print the usage.
    Help,
    /// Print the version.
    Version,
    /// An error message: with the usage after it and exit code 22, or without it and exit code 1.
    Refused { why: String, usage: bool },
    /// A run.
    Run(Box<Options>),
}

/// The options of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) requests: u64,
    pub(super) concurrency: u32,
    /// In seconds.
    pub(super) time_limit: Option<u64>,
    /// The timeout of each reply, in seconds.
    pub(super) timeout: u64,
    pub(super) bind: Option<std::net::IpAddr>,
    /// The method, and the file with the body, if any.
    pub(super) method: String,
    pub(super) body: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) verbosity: u64,
    pub(super) cookies: Vec<String>,
    pub(super) headers: Vec<String>,
    pub(super) auth: Option<String>,
    pub(super) proxy_auth: Option<String>,
    pub(super) proxy: Option<String>,
    pub(super) keep_alive: bool,
    pub(super) percentiles: bool,
    pub(super) confidence: bool,
    pub(super) progress: bool,
    pub(super) variable_length: bool,
    pub(super) keep_going: bool,
    pub(super) gnuplot: Option<String>,
    pub(super) csv: Option<String>,
    /// The files for prony's own report.
    pub(super) outputs: Vec<PathBuf>,
    /// The attributes of the HTML table, its rows and its cells, if a table is requested.
    pub(super) table: Option<[String; 3]>,
    /// In bytes; 0: the kernel's default.
    pub(super) buffer: u32,
    pub(super) ssl: Ssl,
    pub(super) threads: u32,
    pub(super) extras: bool,
    /// An unknown option, at which the options ended.
    pub(super) illegal: Option<char>,
    pub(super) url: String,
}

/// The options of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ssl {
    pub(super) version: Option<TlsVersion>,
    /// Names of OpenSSL.
    pub(super) suites: Option<String>,
    /// The file with the client's certificate and key.
    pub(super) certificate: Option<String>,
}

/// Options with an argument.
const WITH_ARGUMENT: &str = "ncstbBpuTvxyzCHAPXgemZfE";
/// Options without an argument.
const ALONE: &str = "wiVkdSqlrhI";
/// The maximum number of connections.
const CONCURRENCY_MAX: u32 = 20_000;
/// The number of requests if only a time is given.
const REQUESTS_TIMED: u64 = 50_000;

/// Why a command line is refused.
struct Refusal {
    why: String,
    usage: bool,
}

/// Read a command line.
pub(super) fn read(args: &[String]) -> Asked {
    let mut options = Options {
        requests: 1,
        concurrency: 1,
        timeout: 30,
        percentiles: true,
        confidence: true,
        progress: true,
        threads: 1,
        extras: true,
        ..Options::default()
    };
    match options.read(args) {
        Ok(None) => match options.checked() {
            Ok(options) => Asked::Run(Box::new(options)),
            Err(r) => Asked::Refused { why: r.why, usage: r.usage },
        },
        Ok(Some(asked)) => asked,
        Err(r) => Asked::Refused { why: r.why, usage: r.usage },
    }
}

fn usage<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { why: why.into(), usage: true })
}

fn failure<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { why: why.into(), usage: false })
}

/// A refusal that ab does not have. The program's name precedes it, as in ab's own messages about
/// options.
fn own_failure<T>(why: impl Into<String>) -> Result<T, Refusal> {
    failure(format!("ab: {}", why.into()))
}

impl Options {
    fn read(&mut self, args: &[String]) -> Result<Option<Asked>, Refusal> {
        let mut words = args.iter();
        let mut operands = Vec::new();
        while let Some(word) = words.next() {
            match word.as_str() {
                // ab reads no options after an unknown one.
                _ if self.illegal.is_some() => operands.push(word),
                "--" => operands.extend(words.by_ref()),
                "--no-extras" => self.extras = false,
                "--threads" => {
                    let value = words.next().map(String::as_str).unwrap_or_default();
                    self.threads = number("--threads", value, 1..=1_024)? as u32;
                }
                "--output" => match words.next() {
                    Some(file) => self.outputs.push(file.into()),
                    None => return own_failure("--output needs a file, such as run.json"),
                },
                // The first operand ends the options.
                letters if letters.starts_with('-') && letters.len() > 1 && operands.is_empty() => {
                    if let Some(asked) = self.letters(&letters[1..], &mut words)? {
                        return Ok(Some(asked));
                    }
                }
                _ => operands.push(word),
            }
        }
        match operands.as_slice() {
            [url] => self.url.clone_from(url),
            _ => {
                let illegal =
                    self.illegal.map(|letter| format!("illegal option -- {letter}\nab: "));
                return usage(illegal.unwrap_or_default() + "wrong number of arguments");
            }
        }
        Ok(None)
    }

    fn letters<'a>(
        &mut self,
        letters: &str,
        words: &mut impl Iterator<Item = &'a String>,
    ) -> Result<Option<Asked>, Refusal> {
        for (at, letter) in letters.char_indices() {
            let rest = &letters[at + letter.len_utf8()..];
            if WITH_ARGUMENT.contains(letter) {
                let value =
                    if rest.is_empty() { words.next().map(String::as_str) } else { Some(rest) };
                let Some(value) = value else {
                    return usage(format!("missing argument -- {letter}"));
                };
                self.valued(letter, value)?;
                return Ok(None);
            }
            if !ALONE.contains(letter) {
                self.illegal = Some(letter);
                return Ok(None);
            }
            match letter {
                'h' => return Ok(Some(Asked::Help)),
                'V' => return Ok(Some(Asked::Version)),
                _ => self.flag(letter)?,
            }
        }
        Ok(None)
    }

    fn flag(&mut self, letter: char) -> Result<(), Refusal> {
        match letter {
            'i' => return self.set_method("HEAD"),
            'k' => self.keep_alive = true,
            'd' => self.percentiles = false,
            'S' => self.confidence = false,
            'q' => self.progress = false,
            'l' => self.variable_length = true,
            'r' => self.keep_going = true,
            'w' => drop(self.attributes()),
            _ => {
                return own_failure("-I: prony always sends the server's name; omit -I");
            }
        }
        Ok(())
    }

    fn valued(&mut self, letter: char, value: &str) -> Result<(), Refusal> {
        let text = || Some(value.to_owned());
        match letter {
            'n' => {
                let n = value.trim().parse().ok().filter(|&n| n > 0);
                let Some(n) = n else { return failure("Invalid number of requests\n") };
                self.requests = n;
            }
            'c' => self.concurrency = number("-c", value, 1..=CONCURRENCY_MAX.into())? as u32,
            't' => {
                self.time_limit = Some(number("-t", value, 1..=1 << 32)?);
                self.requests = REQUESTS_TIMED;
            }
            's' => self.timeout = number("-s", value, 1..=1 << 32)?,
            'B' => match value.parse() {
                Ok(address) => self.bind = Some(address),
                Err(_) => {
                    return own_failure(format!(
                        "-B {value}: it must be an address of this machine"
                    ));
                }
            },
            'p' => {
                self.set_method("POST")?;
                self.body = text();
            }
            'u' => {
                self.set_method("PUT")?;
                self.body = text();
            }
            'm' => self.method = value.to_owned(),
            'T' => self.content_type = text(),
            'v' => self.verbosity = number("-v", value, 0..=9)?,
            'C' => self.cookies.push(value.to_owned()),
            'H' => self.headers.push(value.to_owned()),
            'A' => self.auth = text(),
            'P' => self.proxy_auth = text(),
            'X' => self.proxy = text(),
            'g' => self.gnuplot = text(),
            'e' => self.csv = text(),
            'b' => self.buffer = number("-b", value, 0..=1 << 30)? as u32,
            'x' => value.clone_into(&mut self.attributes()[0]),
            'y' => value.clone_into(&mut self.attributes()[1]),
            'z' => value.clone_into(&mut self.attributes()[2]),
            'Z' => self.ssl.suites = text(),
            'E' => self.ssl.certificate = text(),
            _ => self.ssl.version = version(value)?,
        }
        Ok(())
    }

    /// The attributes of the table, which is then printed.
    fn attributes(&mut self) -> &mut [String; 3] {
        self.table.get_or_insert_with(|| ["", "", "bgcolor=white"].map(Into::into))
    }

    /// `-i`, `-p` and `-u` exclude each other; `-m` can be combined with each.
    fn set_method(&mut self, method: &str) -> Result<(), Refusal> {
        let fixed = ["HEAD", "POST", "PUT"].contains(&self.method.as_str());
        if fixed && self.method != method {
            return failure(if method == "HEAD" {
                "Cannot mix HEAD with other methods\n"
            } else {
                "Cannot mix POST with other methods\n"
            });
        }
        if self.method.is_empty() {
            method.clone_into(&mut self.method);
        }
        Ok(())
    }

    fn checked(mut self) -> Result<Self, Refusal> {
        if self.method.is_empty() {
            "GET".clone_into(&mut self.method);
        }
        if u64::from(self.concurrency) > self.requests {
            return usage("Cannot use concurrency level greater than total number of requests");
        }
        Ok(self)
    }
}

/// The value of `-f`.
fn version(value: &str) -> Result<Option<TlsVersion>, Refusal> {
    match value.to_ascii_uppercase().as_str() {
        "ALL" => Ok(None),
        "TLS1.2" => Ok(Some(TlsVersion::Tls12)),
        "TLS1.3" => Ok(Some(TlsVersion::Tls13)),
        _ => own_failure(format!(
            "-f {} is not supported; use TLS1.2, TLS1.3 or ALL",
            value.escape_debug()
        )),
    }
}

fn number(option: &str, value: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, Refusal> {
    match value.trim().parse() {
        Ok(n) if range.contains(&n) => Ok(n),
        _ => usage(format!(
            "{option} '{}' is not a number from {} to {}",
            value.escape_debug(),
            range.start(),
            range.end()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Asked {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read(&words)
    }

    fn run(line: &str) -> Options {
        match check(line) {
            Asked::Run(options) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn reads_single_and_grouped_letters_and_arguments() {
        let o = run("-kqn10 -c 5 -SdlrCa=b -H X:1 -C c=d --no-extras --threads 3 u");
        assert!(o.keep_alive && o.variable_length && o.keep_going);
        assert!(!(o.progress || o.confidence || o.percentiles || o.extras));
        assert_eq!((o.requests, o.concurrency, o.threads), (10, 5, 3));
        assert_eq!((o.cookies, o.headers), (vec!["a=b".into(), "c=d".into()], vec!["X:1".into()]));
        assert_eq!((o.method.as_str(), o.url.as_str()), ("GET", "u"));
    }

    #[test]
    fn a_time_limit_implies_fifty_thousand_requests_unless_a_number_follows() {
        let of = |line| {
            let o = run(line);
            (o.requests, o.time_limit)
        };
        assert_eq!(of("-n 5 -t 2 u"), (50_000, Some(2)));
        assert_eq!(of("-t 2 -n 5 u"), (5, Some(2)));
    }

    #[test]
    fn tables_and_their_attributes() {
        let of = |line| run(line).table.map(|all| all.join("|"));
        assert_eq!(of("u"), None);
        assert_eq!(of("-w u"), Some("||bgcolor=white".into()));
        assert_eq!(of("-x a=1 u"), Some("a=1||bgcolor=white".into()));
        assert_eq!(of("-x a -y b -z c -w u"), Some("a|b|c".into()));
    }

    #[test]
    fn methods() {
        let of = |line| run(line).method;
        assert_eq!(of("-p f u"), "POST");
        assert_eq!(of("-u f u"), "PUT");
        assert_eq!(of("-i u"), "HEAD");
        assert_eq!(of("-m DELETE u"), "DELETE");
        assert_eq!(
            (of("-m PATCH -p f u"), of("-p f -m PATCH u")),
            ("PATCH".into(), "PATCH".into())
        );
    }

    #[test]
    fn an_unknown_option_ends_the_options() {
        let o = run("-n 5 -kQ u");
        assert_eq!((o.requests, o.keep_alive, o.illegal), (5, true, Some('Q')));
        assert_eq!(run("-n 5 u").illegal, None);
    }

    #[test]
    fn refusals() {
        let why = |line| match check(line) {
            Asked::Refused { why, usage } => (why, usage),
            other => panic!("{line}: {other:?}"),
        };
        for (line, words, usage) in [
            ("", "wrong number of arguments", true),
            ("u -n 5", "wrong number of arguments", true),
            ("-Q -n 5 u", "illegal option -- Q\nab: wrong number of arguments", true),
            ("-n", "missing argument -- n", true),
            ("-n 0 u", "Invalid number of requests\n", false),
            ("-n x u", "Invalid number of requests\n", false),
            ("-c 0 u", "-c '0' is not a number from 1 to 20000", true),
            ("-c 2 u", "Cannot use concurrency level greater than total number of requests", true),
            ("-p f -u g u", "Cannot mix POST with other methods\n", false),
            ("-f TLS1 u", "ab: -f TLS1 is not supported; use TLS1.2, TLS1.3 or ALL", false),
            ("-b much u", "-b 'much' is not a number from 0 to 1073741824", true),
            ("-I u", "ab: -I: prony always sends the server's name; omit -I", false),
            ("-B here u", "ab: -B here: it must be an address of this machine", false),
        ] {
            assert_eq!(why(line), (words.to_owned(), usage), "{line}");
        }
    }
}
