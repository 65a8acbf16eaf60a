//! Error messages for invalid command lines.

use std::error::Error as _;
use std::fmt;
use std::num::{IntErrorKind, ParseIntError};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use prony_base::plain;
use prony_io::SetupError;
use prony_run::error::Error;
use prony_run::keys;

use super::names::nearest;

/// Options with secret values, which error messages must not repeat.
const SECRETS: [&str; 3] = ["--user", "--header", "--body"];

/// The printed message. Of an unknown host that may be meant as a command, it says so.
pub(crate) fn printed(e: &Error) -> String {
    let Error::Setup(SetupError::Resolve { host, .. }) = e else { return e.printed() };
    let hint = match super::command_meant(host) {
        Some(meant) => format!("; did you mean the command '{meant}'?"),
        None if std::env::args().any(|word| word == *host) && !host.contains('.') => {
            format!("; '{host}' is no command, see `prony --help`")
        }
        None => String::new(),
    };
    e.printed() + &plain::line(&hint)
}

/// Error: no URL.
pub(super) fn no_url() -> Error {
    Error::Argument(
        "no URL; give one, as in `prony http://127.0.0.1:8080/`, or use `--urls FILE`".into(),
    )
}

/// Error: a command in the place of a URL.
pub(crate) fn command_as_url(word: &str) -> Error {
    Error::Argument(format!(
        "`{word}` is a command and must come before all options; for a host with this name, write \
         `http://{word}/`"
    ))
}

/// Error: an unknown command, with a suggestion.
pub(super) fn no_command(word: &str, meant: &str) -> Error {
    Error::Argument(format!(
        "unknown command '{word}'; did you mean '{meant}'? (for a host with this name, write \
         `http://{word}/`)"
    ))
}

/// Error: a word in the place of a URL that is neither a URL nor a command. It may be a host, but
/// rather something else: a number, a method, the command of another tool.
pub(super) fn bare_word(word: &str) -> Error {
    const METHODS: [&str; 9] =
        ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];
    let meant = match word {
        _ if word.bytes().all(|b| b.is_ascii_digit()) => {
            format!("for a duration use `-d {word}s`, for a number of requests `-n {word}`")
        }
        _ if METHODS.contains(&word) => format!("for the method use `-m {word}`"),
        _ => format!(
            "`prony help` lists the commands; for a host with this name, write `http://{word}/`"
        ),
    };
    Error::Argument(format!("'{word}' is neither a URL nor a command; {meant}"))
}

/// Error: a body in the place of a URL. It may be secret, so it is not repeated.
pub(super) fn body_as_url() -> Error {
    Error::Argument(
        "a URL does not start with '{'; for a body in JSON use `-b '{...}' -T application/json` \
         (`--json` prints the report as JSON)"
            .into(),
    )
}

/// Error: `unix:PATH` in the place of a URL.
pub(super) fn unix_as_url(word: &str, path: &str) -> Error {
    Error::Argument(format!(
        "'{word}' is not a URL; for a Unix domain socket write \
         `--unix-socket {path} http://localhost/`"
    ))
}

/// Error: the contents of a file that an option names.
pub(super) fn of_file(option: &str, path: &Path, why: impl fmt::Display) -> Error {
    Error::Argument(format!("{option}{}: {why}", path.display()))
}

/// The words that the value of an option can start with, up to a colon, for suggestions. The
/// parser itself knows the values of options with a fixed list.
const WORDS: [(&str, &[&str]); 8] = [
    ("--latency", DISTRIBUTIONS),
    ("--simulate-latency", DISTRIBUTIONS),
    ("--think", &["none", "fixed", "exp", "uniform", "lognormal"]),
    ("--arrivals", &["fixed", "poisson", "gamma", "uniform", "trace"]),
    ("--figures", &["mean", "rate", "errors", "cpu", "distribution"]),
    ("--format", &["text", "html", "svg", "json", "csv", "junit", "markdown", "hgrm", "hlog"]),
    ("--pick", &["in-turn", "random"]),
    ("--precision", &["sleep", "auto", "spin"]),
];
const DISTRIBUTIONS: &[&str] = &["none", "fixed", "exp", "uniform", "lognormal", "bimodal"];

/// The words that the value of an option can start with; `None` if that is not known.
pub(crate) fn words_of(option: &str) -> Option<Vec<&'static str>> {
    let known = WORDS.iter().find(|(name, _)| *name == option);
    known.map(|(_, words)| words.to_vec()).or_else(|| keys::words_of(option))
}

/// The suggestion for a value: one of these words, followed by the rest of the value.
fn value_meant<'a>(value: &str, mut words: impl Iterator<Item = &'a str> + Clone) -> String {
    let (word, rest) = value.split_at(value.find(':').unwrap_or(value.len()));
    let within = |name: &&str| *name != word && word.contains(name);
    let lower = word.to_ascii_lowercase();
    // One letter is missing, wrong, too many, or at the place of its neighbor.
    let slips = |name: &&str| name.len() > 1 && strsim::damerau_levenshtein(name, &lower) == 1;
    let similarity = |name: &&str| strsim::jaro_winkler(name, &lower);
    let slip = words.clone().filter(slips).max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    let meant = nearest(word, words.clone()).or(slip).or_else(|| words.find(within));
    meant.map(|meant| format!("; did you mean '{meant}{rest}'?")).unwrap_or_default()
}

/// An error of the command line parser as one sentence.
pub(crate) fn of_clap(e: &clap::Error) -> Error {
    if let Some(sentence) = of_value(e) {
        return Error::Argument(sentence);
    }
    let text = e.to_string();
    if let Some(sentence) = without_model(e, &text) {
        return Error::Argument(sentence);
    }
    let lines = text.lines().map(str::trim);
    let lines = lines.take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more"));
    let lines = lines.map(|l| l.trim_start_matches("error: ").trim_start_matches("tip: "));
    // The tip about `--` does not help with a mistyped option.
    let lines = lines.filter(|l| !l.is_empty() && !l.contains("as a value, use '--"));
    let foreign_option = foreign(e);
    // The equivalent of another tool's option is worth more than an option with a similar name.
    let lines = lines.filter(|l| foreign_option.is_none() || !l.contains("similar argument"));
    let parts: Vec<_> = lines.map(plainer).chain(foreign_option.map(str::to_owned)).collect();
    let usage = text.lines().find_map(|l| l.trim().strip_prefix("Usage: prony "));
    let command = command(usage.unwrap_or_default());
    let help = format!("`prony {command}--help` lists all options");
    let sentence = [parts.join("; "), help].join("; ");
    Error::Argument(sentence.replace(":; ", ": ").replace("?; ", "? "))
}

/// The message for an option of language models in a load on none: only `--model` is missing. The
/// usage in the text lists the options that were given, unless it is written by hand.
fn without_model(e: &clap::Error, text: &str) -> Option<String> {
    let Some(ContextValue::Strings(missing)) = e.get(ContextKind::InvalidArg) else { return None };
    if e.kind() != ErrorKind::MissingRequiredArgument || *missing != ["--model <NAME>"] {
        return None;
    }
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: "))?;
    let all = super::load_alone();
    let of_models = all.get_arguments().filter(|arg| arg.get_help_heading() == Some(super::LLM));
    let names = of_models.filter_map(clap::Arg::get_long).filter(|name| *name != "model");
    let mut options = names.map(|name| format!("--{name}"));
    let hint = "name one with --model NAME, as in `prony llm --model NAME URL`";
    match options.find(|option| usage.split(' ').any(|word| word == option)) {
        Some(given) => Some(format!("{given} is an option of language models: {hint}")),
        None if usage.contains("--model") => None,
        None => {
            let given = "--prompts, --slo, --tokenizer and others are options of language models";
            Some(format!("{given}: {hint}"))
        }
    }
}

/// A sentence of clap in the words of the other messages.
fn plainer(line: &str) -> String {
    let quoted = |start: &str, end: &str| {
        let name = line.strip_prefix(start)?.strip_suffix(end)?;
        name.starts_with('-').then_some(name)
    };
    if let Some(name) = quoted("unexpected argument '", "' found") {
        format!("unknown option '{name}'")
    } else if let Some(name) = quoted("a similar argument exists: '", "'") {
        format!("did you mean '{name}'?")
    } else {
        line.to_owned()
    }
}

/// The command in a usage line, followed by a space; empty if there is none.
fn command(usage: &str) -> String {
    let is_name = |w: &&str| {
        w.starts_with(|c: char| c.is_ascii_lowercase())
            && w.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
    };
    usage.split(' ').next().filter(is_name).map(|w| format!("{w} ")).unwrap_or_default()
}

/// The message for an invalid value, from the parser of its option.
fn of_value(e: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(arg)) = e.get(ContextKind::InvalidArg) else { return None };
    let Some(ContextValue::String(value)) = e.get(ContextKind::InvalidValue) else { return None };
    let name = arg.split(" <").next().unwrap_or(arg).trim_matches(['<', '>']);
    match (e.kind(), e.get(ContextKind::ValidValue)) {
        (ErrorKind::ValueValidation, _) => {
            let source = e.source()?;
            let number = source.downcast_ref::<ParseIntError>();
            let why = number.map_or_else(|| source.to_string(), |e| no_number(value, e));
            // Most messages contain the value.
            let named = why.contains(&format!("'{value}'"));
            if SECRETS.contains(&name) {
                return Some(format!("{name}: {why}"));
            }
            let is_body = name == "--duration" && value.starts_with(['@', '{']);
            let words = words_of(name);
            let value: String = plain::line(value).into_owned();
            let hint = match is_body {
                true => "; for the request body use -b (--body)".to_owned(),
                false => value_meant(&value, words.unwrap_or_default().iter().copied()),
            };
            Some(match named {
                true => format!("{name}: {why}{hint}"),
                false => format!("{name} {value}: {why}{hint}"),
            })
        }
        (ErrorKind::InvalidValue, Some(ContextValue::Strings(valid))) if !value.is_empty() => {
            let hint = value_meant(value, valid.iter().map(String::as_str));
            Some(format!("{name}: '{value}' is unknown; write one of {}{hint}", valid.join(", ")))
        }
        _ => None,
    }
}

/// Why a value is not the number that its option has, for options without a parser of their own.
fn no_number(value: &str, e: &ParseIntError) -> String {
    let value: String = plain::line(value).into_owned();
    match e.kind() {
        IntErrorKind::Zero => "must be at least 1".to_owned(),
        IntErrorKind::PosOverflow => format!("'{value}' is too large"),
        _ => format!("'{value}' is not a whole number; write one such as 42"),
    }
}

/// Options of other load generators, and their equivalents in prony. A hint is for all options
/// before it in the list.
pub(super) const FOREIGN: [(&[&str], &str); 17] = [
    (
        &["-q", "--qps", "--rps", "--request-rate", "--rate-limit", "--max-rate", "--throughput"],
        "for the rate over all connections use `--rate`",
    ),
    (
        &["--users", "--vus", "--virtual-users", "--concurrency", "--concurrent", "--clients"],
        "for users who make one request after another use `-c` (`--connections`)",
    ),
    (
        &["--iterations", "--number", "--amount", "--total", "--num-requests", "--max-requests"],
        "for the number of requests use `-n` (`--requests`)",
    ),
    (&["--time", "--run-time", "--test-time"], "for the time of the run use `-d` (`--duration`)"),
    (
        &["--stages", "--stage", "--ramp", "--profile"],
        "stages are pieces of a rate plan: `--rate 0..1k@30s,1k@2m`",
    ),
    (
        &["--burst-rate", "--burst-delay", "--burst"],
        "for bursts use pieces of a rate plan (`--rate 10k@1s,0@9s`), or `--arrivals gamma:0.5`",
    ),
    (
        &["--follow", "--follow-redirects", "--redirects"],
        "to follow redirects use `-L` (`--location`)",
    ),
    (&["--cookie", "--cookies"], "for a cookie use `-H 'Cookie: NAME=VALUE'`"),
    (
        &["--data", "--data-raw", "--data-binary", "--payload", "--post-data"],
        "for the request body use `-b` (`--body`)",
    ),
    (&["--body-file", "--data-file"], "for a body in a file use `-b @FILE`"),
    (&["--request", "--verb"], "for the method use `-m` (`--method`)"),
    (&["--headers"], "for a header use `-H` (`--header`), once for each"),
    (&["-k", "--keep-alive"], "keep-alive is the default; `--no-reuse` turns it off"),
    (&["--disable-keepalive", "--no-keepalive"], "for a connection per request use `--no-reuse`"),
    (&["-s", "--script"], "Lua scripts are not supported; for the timeout use `--timeout`"),
    (&["-L", "--latency", "--latencies"], "latencies are always reported in full"),
    (&["-i"], "for HEAD requests use `-m HEAD`"),
];

/// The equivalent of an option of another load generator.
fn foreign(e: &clap::Error) -> Option<&'static str> {
    if e.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(arg)) = e.get(ContextKind::InvalidArg) else { return None };
    let arg = arg.split('=').next().unwrap_or_default();
    let found = FOREIGN.iter().find(|(options, _)| options.contains(&arg));
    found.map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_a_command_for_an_unknown_host() {
        let printed = |host: &str| {
            let error = "no such name".into();
            printed(&Error::Setup(SetupError::Resolve { host: host.into(), error }))
        };
        let sentence = "does not resolve: no such name; check the name, or use an IP address";
        let hint = "did you mean the command 'serve'?";
        assert_eq!(printed("srve"), format!("host srve {sentence}; {hint}"));
        assert_eq!(printed("example"), format!("host example {sentence}"));
    }
}
