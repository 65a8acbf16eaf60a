//! What is said of a command line that is refused.

use std::error::Error as _;
use std::fmt;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use prony_io::SetupError;
use prony_run::error::{Error, visible};

/// Options whose values a message about them must not repeat, as the parser names them.
const SECRETS: [&str; 3] = ["--user", "--header", "--body"];

/// The sentence as it is printed. A host that does not resolve may have been meant as a command.
pub(crate) fn printed(e: &Error) -> String {
    let meant = match e {
        Error::Setup(SetupError::Resolve { host, .. }) => super::command_meant(host),
        _ => None,
    };
    let hint = meant.map(|meant| {
        format!("; if it is no host, there is no command of that name: did you mean '{meant}'?")
    });
    e.printed() + &hint.unwrap_or_default()
}

/// Nothing to load.
pub(super) fn no_url() -> Error {
    Error::Argument(
        "no URL to load; give one, as in `prony http://127.0.0.1:8080/`, or `--urls FILE`".into(),
    )
}

/// A command where a URL must stand.
pub(crate) fn command_as_url(word: &str) -> Error {
    Error::Argument(format!(
        "`{word}` is a command and must come before all options; a host of that name is written \
         `http://{word}/`"
    ))
}

/// A word that is no command, and which command was meant.
pub(super) fn no_command(word: &str, meant: &str) -> Error {
    Error::Argument(format!(
        "there is no command '{word}'; did you mean '{meant}'? (a host of that name is written \
         `http://{word}/`)"
    ))
}

/// A unix socket in the place of a URL: as typed, and its path.
pub(super) fn unix_as_url(word: &str, path: &str) -> Error {
    Error::Argument(format!(
        "'{word}' is not a URL; a unix socket is an option, and the URL says the rest: \
         `--unix-socket {path} http://localhost/`"
    ))
}

/// A file that an option names and that is not what it must be, and why not.
pub(super) fn of_file(option: &str, path: &Path, why: impl fmt::Display) -> Error {
    Error::Argument(format!("{option}{}: {why}", path.display()))
}

/// A refusal of the command line parser as one sentence.
pub(crate) fn of_clap(e: &clap::Error) -> Error {
    if let Some(sentence) = of_value(e) {
        return Error::Argument(sentence);
    }
    let text = e.to_string();
    let lines = text.lines().map(str::trim);
    let lines = lines.take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more"));
    let lines = lines.map(|l| l.trim_start_matches("error: ").trim_start_matches("tip: "));
    // That any word can be a value after `--` helps nobody who has mistyped an option.
    let lines = lines.filter(|l| !l.is_empty() && !l.contains("as a value, use '--"));
    let parts: Vec<_> = lines.chain(foreign(e)).collect();
    let usage = text.lines().find_map(|l| l.trim().strip_prefix("Usage: prony "));
    let sentence = parts.join("; ").replace(":; ", ": ");
    let command = command(usage.unwrap_or_default());
    Error::Argument(format!("{sentence}; `prony {command}--help` lists all options"))
}

/// The command that a usage is of, and a blank; nothing where it is that of no command.
fn command(usage: &str) -> String {
    let word = usage.split(' ').next().filter(|w| w.bytes().all(|b| b.is_ascii_lowercase()));
    word.filter(|w| !w.is_empty()).map(|w| format!("{w} ")).unwrap_or_default()
}

/// A value that its option refuses, in the words of whoever refuses it.
fn of_value(e: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(arg)) = e.get(ContextKind::InvalidArg) else { return None };
    let Some(ContextValue::String(value)) = e.get(ContextKind::InvalidValue) else { return None };
    let name = arg.split(" <").next().unwrap_or(arg).trim_matches(['<', '>']);
    match (e.kind(), e.get(ContextKind::ValidValue)) {
        (ErrorKind::ValueValidation, _) => {
            let why = e.source()?.to_string();
            // Most sentences name the value themselves.
            let named = why.contains(&format!("'{value}'"));
            if SECRETS.contains(&name) {
                return Some(format!("{name}: {why}"));
            }
            let is_body = name == "--duration" && value.starts_with(['@', '{']);
            let hint = if is_body { "; the body of a request is -b (--body)" } else { "" };
            let value: String = value.chars().map(visible).collect();
            Some(match named {
                true => format!("{name}: {why}{hint}"),
                false => format!("{name} {value}: {why}{hint}"),
            })
        }
        (ErrorKind::InvalidValue, Some(ContextValue::Strings(valid))) if !value.is_empty() => {
            Some(format!("{name}: '{value}' is unknown; write one of {}", valid.join(", ")))
        }
        _ => None,
    }
}

/// Options of other load generators that people type, and what they are called here.
fn foreign(e: &clap::Error) -> Option<&'static str> {
    if e.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(arg)) = e.get(ContextKind::InvalidArg) else { return None };
    Some(match arg.as_str() {
        "-q" => "the rate over all connections is `--rate`",
        "-k" => "keep-alive is the default here, and `--no-reuse` ends it",
        "-s" => "scripts are not supported, and a timeout is `--timeout`",
        "-L" | "--latency" => "latencies are always reported in full",
        "-i" => "a HEAD request is `-m HEAD`",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_command_that_an_unknown_host_may_have_meant() {
        let printed = |host: &str| {
            let error = "no such name".into();
            printed(&Error::Setup(SetupError::Resolve { host: host.into(), error }))
        };
        let sentence = "does not resolve: no such name; check the name, or give an address";
        let hint = "if it is no host, there is no command of that name: did you mean 'serve'?";
        assert_eq!(printed("srve"), format!("host srve {sentence}; {hint}"));
        assert_eq!(printed("example"), format!("host example {sentence}"));
    }
}
