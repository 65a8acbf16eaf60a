//! Options of requests that vary: bodies from the lines of a file, URLs by pattern.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use prony_plan::plan::{CallSpec, Pick};
use prony_plan::script::PickRow;
use prony_plan::target::Url;
use prony_run::builder::Targets;
use prony_run::error::Error;
use prony_run::files::read;
use prony_run::glob::{self, Choice};
use prony_run::plan_file::{LINE, table_of_lines};

use super::REQUEST;

/// The name of the table of lines in the plan.
const TABLE: &str = "bodies";

/// Options of requests that vary.
#[derive(Clone, Debug, Args)]
pub struct VariedArgs {
    /// Send the lines of this file as bodies, one for each request; `-` is standard input
    ///
    /// The method is POST unless --method names one. The file is kept in memory; empty lines are
    /// left out.
    #[arg(
        long, value_name = "FILE", help_heading = REQUEST,
        conflicts_with_all = ["session_file", "body", "form"],
    )]
    pub body_lines: Option<PathBuf>,
    /// How to choose the line of --body-lines: in-turn, random or unique
    ///
    /// unique: each line is sent once, and the load ends after the last.
    #[arg(
        long, value_name = "HOW", help_heading = REQUEST, default_value = "in-turn",
        requires = "body_lines", value_parser = pick_row,
    )]
    pub body_pick: PickRow,
    /// URLs are patterns, as in curl: /item/[1-100], /[001-100:10], /[a-z], /{cart,list}
    ///
    /// Each request has the next values, or with --pick random any. Only path and query have
    /// patterns. \[ and \{ stand for themselves.
    #[arg(long, help_heading = REQUEST, conflicts_with = "session_file")]
    pub glob: bool,
}

fn pick_row(text: &str) -> Result<PickRow, String> {
    match text {
        "in-turn" => Ok(PickRow::InTurn),
        "random" => Ok(PickRow::Random),
        "unique" => Ok(PickRow::Unique),
        _ => Err("must be in-turn, random or unique".into()),
    }
}

impl VariedArgs {
    /// The template fields of the paths of these URLs, if they have patterns.
    pub(super) fn paths(&self, urls: &[&Url], pick: Pick) -> Result<Vec<Option<String>>, Error> {
        if !self.glob {
            return Ok(vec![None; urls.len()]);
        }
        let choice = match pick {
            Pick::InTurn => Choice::InTurn(urls.len() as u64),
            Pick::Random => Choice::Random,
        };
        let template = |url: &&Url| {
            glob::template(&url.path, choice).map_err(|why| {
                let value = prony_base::secret::shown_url(&url.to_string());
                Error::Value { what: "--glob", value, why }
            })
        };
        let paths = urls.iter().map(template).collect::<Result<Vec<_>, _>>()?;
        if paths.iter().all(Option::is_none) {
            let why = "no URL has a pattern, such as [1-100] or {cart,list}".to_owned();
            return Err(Error::Argument(format!("--glob: {why}")));
        }
        Ok(paths)
    }

    /// The lines that are bodies.
    pub(super) fn add_lines(&self, targets: &mut Targets) -> Result<(), Error> {
        let Some(file) = &self.body_lines else { return Ok(()) };
        let bytes = read("--body-lines", file)?;
        let table = table_of_lines(TABLE, self.body_pick, &bytes).map_err(|why| {
            Error::Argument(format!("--body-lines: the file {} {why}", file.display()))
        })?;
        targets.data.tables.push(Arc::new(table));
        Ok(())
    }

    /// The field of a body that is a line.
    pub(super) fn body(&self) -> Option<String> {
        self.body_lines.as_ref().map(|_| format!("{{{{{TABLE}.{LINE}}}}}"))
    }
}

/// Make a template of a request. Its path and its body are fields already, if they are given.
pub(super) fn vary(call: &mut CallSpec, path: Option<String>, body: Option<String>) {
    if path.is_none() && body.is_none() {
        return;
    }
    call.template = true;
    call.path = path.unwrap_or_else(|| glob::escaped(&call.path));
    for (_, value) in &mut call.headers {
        *value = glob::escaped(value);
    }
    call.body = match body {
        Some(field) => field.into_bytes(),
        None => {
            let mut escaped = Vec::new();
            prony_plan::script::Template::escape(&call.body, &mut escaped);
            escaped
        }
    };
}
