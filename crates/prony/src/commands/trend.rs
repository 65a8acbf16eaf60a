//! `prony report --trend`: each figure over many runs.

use prony_report::trend::Trend;
use prony_report::{Format, Saved};
use prony_run::compare;
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::output;
use prony_stats::summary::Summary;

use crate::cli::output::ReportArgs;

/// The formats of a trend.
const FORMATS: [Format; 3] = [Format::Text, Format::Html, Format::Json];

/// Prints and writes the trend of these runs.
pub(super) fn trend(args: &ReportArgs, results: &[Saved<'_>]) -> Result<Exit, Error> {
    if results.len() < 2 {
        return Err(Error::Argument("a trend needs two runs or more; give several FILEs".into()));
    }
    let format = args.to.stdout_format();
    if !FORMATS.contains(&format) {
        let why = "a trend can be printed as text, html or json";
        return Err(Error::Conflict("--format", "--trend", why));
    }
    let outputs = args.to.prepare_only(&FORMATS, "a trend can be written as .html or .json")?;
    let named = |r: &Saved<'_>| (r.name.to_owned(), r.summary.clone());
    let runs: Vec<(String, Summary)> = results.iter().map(named).collect();
    let doubts = compare::doubts(&[runs]);
    let trend = Trend::of(results, doubts.iter().map(|doubt| format!("{doubt}.")).collect());
    let written = outputs.write_with(|format| trend.render(format).unwrap_or_default());
    output::to_stdout(&trend.render(format).unwrap_or_default())?;
    written.map_err(Error::without_run)?;
    Ok(Exit::Done)
}
