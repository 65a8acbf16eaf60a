//! Runs for a program that embeds prony.

use std::ffi::OsString;

use prony_run::error::Error;
use prony_run::exit::Exit;

pub use super::report::Document;
use super::{capacity, compare, llm, load, plan, report, rtt};
use crate::cli::{Cli, Command, refusal};
use crate::embedding::Embedding;

/// Runs `load`, `llm`, `run`, `rtt`, `capacity` or `compare` with these words, of which the first
/// is the name of the program.
///
/// # Errors
/// The words are refused, or the run cannot be carried out; [`sentence`] gives the message.
pub fn run(words: Vec<OsString>, embedding: Embedding) -> Result<Exit, Error> {
    let typed = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let cli = Cli::read(words).map_err(|e| refusal::of_clap(&e))?;
    match cli.command {
        // The command of a line without one, and that of `load`.
        None => {
            let mut args = cli.load;
            args.output.embedding = Some(embedding);
            load::load(&args, typed)
        }
        Some(Command::Load(mut args)) => {
            args.output.embedding = Some(embedding);
            load::load(&args, typed)
        }
        Some(Command::Llm(mut args)) => {
            args.output.embedding = Some(embedding);
            llm::llm(&args, typed)
        }
        Some(Command::Run(mut args)) => {
            args.output.embedding = Some(embedding);
            plan::run(&args, typed)
        }
        Some(Command::Rtt(mut args)) => {
            args.output.embedding = Some(embedding);
            rtt::rtt(&args, typed)
        }
        Some(Command::Capacity(mut args)) => {
            args.load.output.embedding = Some(embedding);
            capacity::capacity(&args, typed)
        }
        Some(Command::Compare(mut args)) => {
            args.load.output.embedding = Some(embedding);
            compare::compare(&args, typed)
        }
        _ => Err(Error::Argument("this command does not run inside another program".into())),
    }
}

/// A saved JSON report, of a run or of a plan with phases.
///
/// # Errors
/// The text is not one, in a sentence.
pub fn read_report(text: &str) -> Result<Document, String> {
    report::document(text).map_err(|e| e.to_string())
}

/// The message of an error, as the command line prints it.
pub fn sentence(error: &Error) -> String {
    refusal::printed(error)
}
