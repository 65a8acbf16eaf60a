//! The options that a command line has, and those of a load that another command refuses: its help
//! does not list them, and a command line with one of them says why.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Id};
use prony_run::error::Error;

/// What a command, or a kind of load, refuses.
pub(crate) struct Refused {
    /// The command, or the option of that kind of load.
    pub(crate) by: &'static str,
    /// Options, and why they are refused.
    pub(crate) options: &'static [(&'static [&'static str], &'static str)],
    /// What else the help leaves out, because it needs one of them, or does nothing: options, and
    /// headings of the help.
    pub(crate) hidden: &'static [&'static str],
}

/// The options that were typed, by their IDs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypedOptions(Vec<String>);

/// Options with IDs that are not their names.
const IDS: [(&str, &str); 3] =
    [("--urls", "urls_file"), ("--session", "session_file"), ("--until-goal", "until")];

/// Whether an option has this ID, which may have `_` for a dash.
fn has_id(option: &str, id: &str) -> bool {
    if let Some((_, known)) = IDS.iter().find(|(other, _)| *other == option) {
        return *known == id;
    }
    let Some(name) = option.strip_prefix("--").filter(|name| name.len() == id.len()) else {
        return false;
    };
    name.bytes().zip(id.bytes()).all(|(a, b)| a == b || (a == b'-' && b == b'_'))
}

impl Refused {
    /// Hides an option that is refused.
    pub(crate) fn hide(&self, arg: Arg) -> Arg {
        let refused = self.options.iter().flat_map(|(options, _)| *options);
        let is_hidden = refused.chain(self.hidden).any(|name| {
            has_id(name, arg.get_id().as_str()) || arg.get_help_heading() == Some(name)
        });
        if is_hidden { arg.hide(true) } else { arg }
    }

    /// # Errors
    /// The first of these options that was typed, and why it is refused.
    pub(crate) fn check(&self, typed: &TypedOptions) -> Result<(), Error> {
        let first =
            self.options.iter().find_map(|(options, why)| Some((typed.first(options)?, why)));
        match first {
            Some((option, why)) => Err(Error::Conflict(option, self.by, why)),
            None => Ok(()),
        }
    }
}

impl TypedOptions {
    /// The first of these options that was typed.
    pub(crate) fn first(&self, options: &[&'static str]) -> Option<&'static str> {
        let is_typed = |option: &&'static str| self.0.iter().any(|id| has_id(option, id));
        options.iter().copied().find(is_typed)
    }
}

impl Args for TypedOptions {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for TypedOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_typed =
            |id: &&Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        Ok(Self(matches.ids().filter(is_typed).map(ToString::to_string).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::{Cli, capacity, compare, llm, replay};

    /// A mistyped option would be neither hidden nor refused.
    #[test]
    fn refused_options_are_options_of_their_command() {
        let cli = Cli::command();
        let commands = [
            ("capacity", &capacity::REFUSED),
            ("compare", &compare::REFUSED),
            ("llm", &llm::REFUSED),
            ("replay", &replay::REFUSED),
        ];
        for (command, refused) in commands {
            let command = cli.find_subcommand(command).expect("a command");
            let names = refused.options.iter().flat_map(|(options, _)| *options);
            for name in names.chain(refused.hidden) {
                let of_name = |arg: &&Arg| {
                    let is_it = has_id(name, arg.get_id().as_str());
                    is_it || arg.get_help_heading() == Some(name)
                };
                let args: Vec<&Arg> = command.get_arguments().filter(of_name).collect();
                assert!(!args.is_empty(), "{} has no {name}", refused.by);
                for arg in args {
                    assert!(arg.is_hide_set(), "{} lists {}", refused.by, arg.get_id());
                    let is_named = arg.get_long().is_some_and(|long| *name == format!("--{long}"));
                    assert!(is_named || !name.starts_with("--"), "{name}");
                }
            }
        }
    }

    #[test]
    fn typed_options_are_known_by_their_names() {
        let line = ["prony", "http://h/", "-r5", "--urls", "f", "--h2c", "--wait-settings", "-c=1"];
        let cli = Cli::read(line.map(Into::into)).expect("it can be parsed");
        let load = super::super::load_alone();
        let longs = load.get_arguments().filter_map(Arg::get_long);
        let typed: BTreeSet<&str> = longs
            .filter(|long| cli.load.typed.0.iter().any(|id| has_id(&format!("--{long}"), id)))
            .collect();
        let expected = ["connections", "h2c", "rate", "urls", "wait-settings"];
        assert_eq!(Vec::from_iter(typed), expected);
        assert_eq!(cli.load.typed.first(&["--duration", "--h2c", "--rate"]), Some("--h2c"));
    }
}
