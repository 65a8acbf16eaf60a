//! What the words of a command line are, before they are parsed: commands, or something else.

use std::ffi::{OsStr, OsString};

use super::help::is_topic;
use super::names::is_command;

/// Whether a word in the place of a URL is rather something else: it has no dot, colon or slash,
/// and is not the name of this host.
pub(super) fn is_bare_word(word: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !word.is_empty() && word.chars().all(is_name) && !word.eq_ignore_ascii_case("localhost")
}

/// `prony help COMMAND` as `prony COMMAND --help`, and `prony help all` as `prony --help`. Topics
/// stay with the command `help`.
pub(super) fn without_help(words: Vec<OsString>) -> Vec<OsString> {
    let [program, first, asked] = &words[..] else { return words };
    let asked = asked.to_str().unwrap_or_default();
    match first == "help" && !is_topic(asked) {
        true if asked == "all" => vec![program.clone(), "--help".into()],
        true if is_command(asked) => vec![program.clone(), asked.into(), "--help".into()],
        _ => words,
    }
}

/// The words of a load, without the command `load`, from the name of the program on; else `None`.
pub(super) fn of_load<W: AsRef<OsStr>>(words: &[W]) -> Option<impl Iterator<Item = &OsStr>> {
    let first = words.get(1)?.as_ref().to_str()?;
    let skipped = usize::from(first == "load");
    (skipped == 1 || !is_command(first)).then(|| {
        let (program, rest) = words.split_at(1);
        program.iter().chain(&rest[skipped..]).map(AsRef::as_ref)
    })
}
