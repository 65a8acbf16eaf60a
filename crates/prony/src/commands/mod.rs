//! The commands, and their common parts.

mod capacity;
mod carried;
mod compare;
mod demo;
mod echo;
pub mod embedded;
mod execution;
mod github;
mod import;
mod llm;
pub(crate) mod load;
mod merge;
mod pages;
mod phases;
mod plan;
mod ray_job;
mod record;
mod replay;
mod replayed;
mod report;
mod rtt;
mod selftest;
mod serve;
mod spectrum;
mod terms;
mod trace;
mod trend;
mod worker;

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};

use prony_report::{Detail, Style};
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::output;

use crate::cli::output::ToArgs;
use crate::cli::{Cli, Command, help, refusal};

/// Runs the command line and returns the exit code. Prints errors to standard error.
pub fn main(command_line: impl IntoIterator<Item = OsString>) -> u8 {
    let command_line: Vec<OsString> = command_line.into_iter().collect();
    if let Some(code) = prony_compat::main(&command_line) {
        return code;
    }
    let typed = command_line.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    let result = match Cli::read(command_line) {
        Ok(cli) => dispatch(cli, typed),
        Err(e) if e.use_stderr() => Err(refusal::of_clap(&e)),
        // Help or version. A closed standard output is not an error.
        Err(e) => output::with_stdout(|| e.print()).map(|()| Exit::Done),
    };
    let exit = result.unwrap_or_else(|e| {
        output::lines_to_stderr(&format!("prony: {}", refusal::printed(&e)));
        e.exit()
    });
    exit.code()
}

fn dispatch(cli: Cli, typed: Vec<String>) -> Result<Exit, Error> {
    match cli.command {
        None => load::load(&cli.load, typed),
        Some(Command::Load(args)) => load::load(&args, typed),
        Some(Command::Llm(args)) => llm::llm(&args, typed),
        Some(Command::Capacity(args)) => capacity::capacity(&args, typed),
        Some(Command::Run(args)) => plan::run(&args, typed),
        Some(Command::Check { plan }) => plan::check(&plan),
        Some(Command::Compare(args)) => compare::compare(&args, typed),
        Some(Command::Replay(args)) => replay::replay(&args, typed),
        Some(Command::Report(args)) => report::report(&args),
        Some(Command::Merge(args)) => merge::merge(&args),
        Some(Command::Worker(args)) => worker::worker(&args),
        Some(Command::Import(args)) => import::import(&args),
        Some(Command::Record(args)) => record::record(&args),
        Some(Command::RayJob(args)) => ray_job::ray_job(&args),
        Some(Command::Serve(args)) => serve::serve(&args),
        Some(Command::Rtt(args)) => rtt::rtt(&args, typed),
        Some(Command::Spectrum(args)) => spectrum::spectrum(&args, typed),
        Some(Command::Echo(args)) => echo::echo(&args),
        Some(Command::Selftest(args)) => selftest::selftest(&args),
        Some(Command::Demo(args)) => demo::demo(&args, typed),
        Some(Command::Help { topics }) => {
            output::to_stdout(help::page(&topics)?.as_bytes()).map(|()| Exit::Done)
        }
        Some(Command::Terms { name }) => {
            output::to_stdout(terms::page(&name)?.as_bytes()).map(|()| Exit::Done)
        }
        Some(Command::Completions { shell }) => {
            output::to_stdout(&pages::completions(shell)).map(|()| Exit::Done)
        }
        Some(Command::Man { page }) => {
            let page = pages::man(page.as_deref())?;
            output::to_stdout(&page).map(|()| Exit::Done)
        }
    }
}

/// The style of the report on standard output: with color on terminals, unless turned off.
fn style(to: &ToArgs) -> Style {
    let set = |name: &str| env::var_os(name).is_some_and(|v| !v.is_empty());
    let is = |name: &str, value: &str| env::var_os(name).is_some_and(|v| v == *value);
    let forced = set("CLICOLOR_FORCE") && !is("CLICOLOR_FORCE", "0");
    let wanted = forced || (io::stdout().is_terminal() && !is("CLICOLOR", "0"));
    let dumb = is("TERM", "dumb") && !forced;
    // Without a terminal, or with one that does not know its size, lines have the usual width.
    let columns = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_col);
    let width = match columns {
        0 => Style::WIDTH,
        n => usize::from(n).clamp(60, Style::WIDTH),
    };
    let color = wanted && !dumb && !set("NO_COLOR");
    let detail = match to.verbose {
        0 => Detail::Answer,
        1 => Detail::Whole,
        _ => Detail::Notes,
    };
    Style { color, histogram: to.histogram, width, detail }
}
