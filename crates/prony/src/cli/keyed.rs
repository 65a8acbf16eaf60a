//! Options that are declared in `prony_run::keys`.

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use prony_run::keys::{Field, Key, Keyed};

/// A part of a plan with its options, and which of them were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Given<T> {
    pub(crate) part: T,
    /// With their dashes, in the order of the table.
    pub(crate) options: Vec<&'static str>,
}

/// The heading of its options in the help.
pub(crate) trait Headed: Keyed {
    const HEADING: &'static str;
}

impl<T: Headed> Args for Given<T> {
    fn augment_args(command: Command) -> Command {
        T::KEYS.iter().fold(command, |command, key| command.arg(option(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Headed> FromArgMatches for Given<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let (mut part, mut options) = (T::default(), Vec::new());
        for key in T::KEYS {
            let text = match key.field {
                Field::Flag(_) => matches.get_flag(key.long()).then_some(""),
                _ => matches.get_one::<String>(key.long()).map(String::as_str),
            };
            if let Some(text) = text {
                let wrong = |why| Error::raw(ErrorKind::ValueValidation, why);
                key.set(&mut part, text).map_err(wrong)?;
                options.push(key.option);
            }
        }
        Ok(Self { part, options })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn option<T: Headed>(key: &'static Key<T>) -> Arg {
    let arg = Arg::new(key.long()).long(key.long()).help_heading(T::HEADING).help(key.help);
    let arg = match key.more {
        Some(more) => arg.long_help(format!("{}\n\n{more}", key.help)),
        None => arg,
    };
    let arg = key.needs.into_iter().fold(arg, Arg::requires);
    let arg = key.excludes.into_iter().fold(arg, Arg::conflicts_with);
    let arg = key.alias.into_iter().fold(arg, Arg::visible_alias);
    if let Field::Flag(_) = key.field {
        return arg.action(ArgAction::SetTrue);
    }
    // The text is kept: the part of the plan that it sets is there when all are parsed.
    let checked = |text: &str| key.set(&mut T::default(), text).map(|()| text.to_owned());
    arg.value_name(key.value).value_parser(ValueParser::new(checked))
}
