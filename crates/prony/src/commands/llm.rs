//! `prony llm URL`: a load on a language model.

use prony_run::error::Error;
use prony_run::exit::Exit;

use super::load;
use crate::cli::LoadArgs;

/// Runs the load, and reports it.
pub(super) fn llm(args: &LoadArgs, typed: Vec<String>) -> Result<Exit, Error> {
    if !args.llm.is_asked() {
        let why = "the server is asked for a model; any name will do if it has only one";
        return Err(Error::Needs("prony llm", "--model NAME", why));
    }
    load::load(args, typed)
}
