//! `prony merge`: the shards of one run, as one.

use prony_run::error::Error;
use prony_run::exit::{Accepted, Exit};
use prony_run::merge;
use prony_run::output;

use super::github::publish_run;
use super::report::read;
use super::style;
use crate::cli::merge::MergeArgs;

/// Read the reports, merge them, and print and write the requested formats.
pub(super) fn merge(args: &MergeArgs) -> Result<Exit, Error> {
    let parts = args.files.iter().map(|path| Ok((path.display().to_string(), read(path)?)));
    let parts = parts.collect::<Result<Vec<_>, Error>>()?;
    let mut whole = merge::merge(parts, args.partial)?;
    whole.run.secrets_shown = args.to.show_secrets;
    // What a shard has accepted says nothing about the whole.
    whole.run.accepted = Accepted::default();
    args.accept.apply(&mut whole.run.accepted);
    let outputs = args.to.prepare()?;
    // The files first: a standard output that is gone must not lose them.
    let written = outputs.write(&whole).map_err(Error::without_run);
    output::print(args.to.stdout_format(), &whole, &style(&args.to))?;
    publish_run(&args.to, &whole)?;
    written?;
    Ok(Exit::of(&whole, whole.run.accepted))
}
