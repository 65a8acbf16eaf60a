//! Options that are declared in `prony_run::keys`.

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
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
            if matches.value_source(key.long()) != Some(ValueSource::CommandLine) {
                continue;
            }
            options.push(key.option);
            if let Field::Flag(field) = key.field {
                *field(&mut part) = true;
                continue;
            }
            for text in matches.get_many::<String>(key.long()).into_iter().flatten() {
                let wrong = |why| Error::raw(ErrorKind::ValueValidation, why);
                key.set(&mut part, text).map_err(wrong)?;
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
    let arg = key.group.into_iter().fold(arg, Arg::group);
    let arg = key.alias.into_iter().fold(arg, Arg::visible_alias);
    let arg = match key.field {
        Field::Flag(_) => return arg.action(ArgAction::SetTrue),
        Field::Texts(..) => arg.action(ArgAction::Append),
        _ => arg,
    };
    let arg = arg.value_name(key.value);
    if let (Some(default), Field::Word(words)) = (key.listed, &key.field) {
        let words = PossibleValuesParser::new(words.iter().map(|(word, _)| *word));
        return arg.default_value(default).value_parser(words);
    }
    // The text is kept: the part of the plan that it sets is there when all are parsed.
    let checked = |text: &str| key.set(&mut T::default(), text).map(|()| text.to_owned());
    arg.value_parser(ValueParser::new(checked))
}
