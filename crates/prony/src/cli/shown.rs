//! The command line as shown in reports, without the secrets in options and URLs.
//!
//! The normal parser reads the words, so that combined letters (`-ku`), attached values
//! (`-ume:pw`, `--user=me:pw`) and values in the next word are all found.

use std::ffi::OsString;

use clap::{ArgAction, ArgMatches, Command};
use prony_base::secret::{HIDDEN, shown_header, shown_url};
use prony_stats::summary::CommandLine;

use super::{Cli, load_alone, of_load};

/// The command line that a run saves.
pub fn recorded(words: Vec<String>) -> CommandLine {
    let shown = command_line(&words);
    CommandLine::new(words, shown)
}

/// The command line without secrets. One without secrets is unchanged; otherwise the result is an
/// equivalent command line with `(hidden)` in place of each secret. If it does not parse, all of it
/// is hidden.
pub(crate) fn command_line(words: &[String]) -> Vec<String> {
    let Some((program, rest)) = words.split_first() else { return Vec::new() };
    match shown(words) {
        Some(shown) => shown,
        None if rest.is_empty() => vec![program.clone()],
        None => vec![program.clone(), HIDDEN.to_owned()],
    }
}

fn shown(words: &[String]) -> Option<Vec<String>> {
    shown_load(words).or_else(|| shown_by_all(words))
}

/// The same, parsed with the options of a load alone, which is quicker; `None` if that is not
/// enough.
fn shown_load(words: &[String]) -> Option<Vec<String>> {
    let mut command = accepting(load_alone());
    let matches = command.try_get_matches_from_mut(of_load(words)?).ok()?;
    let line = words[..1].iter().chain(words.get(1).filter(|word| *word == "load"));
    Some(of_matches(words, line.cloned().collect(), &command, &matches))
}

fn shown_by_all(words: &[String]) -> Option<Vec<String>> {
    let mut command = accepting(Cli::lenient()).mut_subcommands(accepting);
    let mut matches = &command.try_get_matches_from_mut(words).ok()?;
    let mut command = &command;
    let mut line = vec![words[0].clone()];
    if let Some((name, sub)) = matches.subcommand() {
        line.push(name.to_owned());
        (command, matches) = (command.find_subcommand(name)?, sub);
    }
    Some(of_matches(words, line, command, matches))
}

/// Accepts invalid values.
fn accepting(command: Command) -> Command {
    command.mut_args(|arg| {
        let has_value = arg.get_action().takes_values();
        if has_value { arg.value_parser(clap::value_parser!(OsString)) } else { arg }
    })
}

/// The words, or, if one of them is secret, `line` followed by the options and operands.
fn of_matches(
    words: &[String],
    mut line: Vec<String>,
    command: &Command,
    matches: &ArgMatches,
) -> Vec<String> {
    let mut found = found(command, matches);
    found.sort_by_key(|found| found.0);
    let is_hidden = found.iter().any(|found| found.2);
    line.extend(found.into_iter().flat_map(|found| found.1));
    if is_hidden { line } else { words.to_vec() }
}

/// For each option and operand: its position, its words, and whether a secret was hidden.
fn found(command: &Command, matches: &ArgMatches) -> Vec<(usize, Vec<String>, bool)> {
    let mut found = Vec::new();
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        if matches.value_source(id) != Some(clap::parser::ValueSource::CommandLine) {
            continue;
        }
        let name = match (arg.get_short(), arg.get_long()) {
            (Some(short), _) => Some(format!("-{short}")),
            (None, long) => long.map(|long| format!("--{long}")),
        };
        let mut places = matches.indices_of(id).into_iter().flatten();
        let mut place = || places.next().unwrap_or(usize::MAX);
        if !arg.get_action().takes_values() {
            let times = if matches!(arg.get_action(), ArgAction::Count) {
                matches.get_count(id)
            } else {
                1
            };
            found.extend((0..times).map(|_| (place(), name.iter().cloned().collect(), false)));
            continue;
        }
        for values in matches.get_raw_occurrences(id).into_iter().flatten() {
            let values: Vec<_> = values.map(|v| v.to_string_lossy().into_owned()).collect();
            let shown: Vec<String> = values.iter().map(|value| shown_value(id, value)).collect();
            let is_hidden = shown != values;
            match &name {
                None => found.extend(shown.into_iter().map(|v| (place(), vec![v], is_hidden))),
                Some(name) => {
                    let first = values.iter().map(|_| place()).min().unwrap_or(usize::MAX);
                    found.push((first, vec![name.clone(), shown.join(",")], is_hidden));
                }
            }
        }
    }
    found
}

/// The value of an option or operand, without secrets.
fn shown_value(id: &str, value: &str) -> String {
    let names_file = value.starts_with('@');
    match id {
        "user" | "proxy_user" => HIDDEN.to_owned(),
        "header" | "body" if names_file => value.to_owned(),
        "header" => header(value),
        "body" => HIDDEN.to_owned(),
        "form" => part(value),
        "urls" => shown_url(value),
        _ if value.contains("://") => shown_url(value),
        _ => value.to_owned(),
    }
}

/// A part of a form: the name of its file, but not its text.
fn part(value: &str) -> String {
    match value.split_once('=') {
        Some((_, content)) if content.starts_with(['@', '<']) => value.to_owned(),
        Some((name, _)) => format!("{name}={HIDDEN}"),
        None => HIDDEN.to_owned(),
    }
}

/// A header line, without secrets.
pub(crate) fn header(line: &str) -> String {
    match line.split_once(':') {
        Some((name, value)) if shown_header(name, value.trim()) == HIDDEN => {
            format!("{name}: {HIDDEN}")
        }
        Some(_) => line.to_owned(),
        None => HIDDEN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> String {
        let words: Vec<String> = line.split('|').map(str::to_owned).collect();
        command_line(&words).join("|")
    }

    #[test]
    fn hides_credentials_in_all_positions() {
        for (line, shown) in [
            ("prony|-c|5|http://h/", "prony|-c|5|http://h/"),
            ("prony|-c5|--rate=5|-k|http://h/", "prony|-c5|--rate=5|-k|http://h/"),
            ("prony|-u|me:pw|http://h/", "prony|-u|(hidden)|http://h/"),
            ("prony|-ume:pw|http://h/", "prony|-u|(hidden)|http://h/"),
            ("prony|-u=me:pw|http://h/", "prony|-u|(hidden)|http://h/"),
            ("prony|-ku|me:pw|https://h/", "prony|-k|-u|(hidden)|https://h/"),
            ("prony|-kume:pw|https://h/", "prony|-k|-u|(hidden)|https://h/"),
            ("prony|-4ku|me:pw|https://h/", "prony|-4|-k|-u|(hidden)|https://h/"),
            ("prony|--user=me:pw|--urls|f", "prony|-u|(hidden)|--urls|f"),
            ("prony|load|https://h/|-kH|X: pw", "prony|load|https://h/|-k|-H|X: (hidden)"),
            ("prony|-kHX-Api-Key: pw|https://h/", "prony|-k|-H|X-Api-Key: (hidden)|https://h/"),
            ("prony|--header=X:pw|-c5|http://h/", "prony|-H|X: (hidden)|-c|5|http://h/"),
            ("prony|-HAccept: a|http://h/", "prony|-HAccept: a|http://h/"),
            ("prony|-H|@f|-b|@g|http://h/", "prony|-H|@f|-b|@g|http://h/"),
            ("prony|-b|pw|--tui|http://h/", "prony|-b|(hidden)|--tui|http://h/"),
            ("prony|-b|-pw|http://h/", "prony|-b|(hidden)|http://h/"),
            ("prony|-Ume:pw|-xp:1|http://h/", "prony|-U|(hidden)|-x|p:1|http://h/"),
            ("prony|-F|a=pw|http://h/", "prony|-F|a=(hidden)|http://h/"),
            ("prony|-F|a=@f|-F|b=<f|http://h/", "prony|-F|a=@f|-F|b=<f|http://h/"),
            (
                "prony|h|me:pw@h|http://h/?a=pw&b",
                "prony|h|(hidden)@h|http://h/?a=(hidden)&(hidden)",
            ),
            (
                "prony|--source|::1,::2|--source=::3|http://me@h/",
                "prony|--source|::1,::2|--source|::3|http://(hidden)@h/",
            ),
            ("prony|run|plan.toml|-t|2", "prony|run|plan.toml|-t|2"),
            ("prony|--no-such|-u|me:pw|http://h/", "prony|(hidden)"),
            ("prony", "prony"),
        ] {
            assert_eq!(check(line), shown, "{line}");
            assert_eq!(check(shown), shown, "shown again");
        }
    }
}
