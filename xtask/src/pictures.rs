//! Makes the pictures of the README from one real run: the live view near its end, and the plot of
//! latency by percentile.

mod terminal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::server::Server;
use crate::shell;
use terminal::Screen;

/// The text in the second line of the live view when the picture is taken.
const MOMENT: &str = " 4 s left";

/// The size of the terminal, in characters.
const COLUMNS: usize = 100;
const ROWS: usize = 30;

/// The options of the target: widely distributed latencies, some errors, and freezes.
const TARGET: [&str; 6] =
    ["--latency", "lognormal:20ms:0.4", "--status", "200:98,503:2", "--stall", "300ms@17s"];

/// `cargo xtask pictures [PRONY]`, with this program or with a release build.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let prony = match args {
        [] => shell::prony("release")?,
        [program] => PathBuf::from(program),
        _ => bail!("usage: cargo xtask pictures [PRONY]"),
    };
    let images = Path::new("docs/img");
    let plot = images.join("report.svg");
    let server = Server::start_with(&mut Command::new(&prony), &TARGET)?;
    let recorded = record(&prony, server.url(), &plot);
    server.stop()?;
    let drawn = fs::read_to_string(&plot).context("the run wrote no plot")?;
    if drawn.contains("CLIENT-LIMITED") {
        bail!("the plot has a warning, because the machine was busy: run this on an idle one");
    }
    let mut screen = Screen::new(COLUMNS, ROWS);
    if !screen.play(&recorded?, |screen| screen.line(1).contains(MOMENT)) {
        bail!("the live view never showed `{MOMENT}`");
    }
    let picture = images.join("live-view.svg");
    fs::write(&picture, screen.svg("The live view of prony"))
        .with_context(|| format!("cannot write {}", picture.display()))
}

/// Run the load in a terminal, and return all bytes that the terminal received.
fn record(prony: &Path, url: &str, plot: &Path) -> Result<String> {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let command = format!(
        "stty cols {COLUMNS} rows {ROWS}; exec '{}' http://localhost:8080/ --connect-to {address} \
         -c 32 -r 100..500@30s,500@40s --arrivals poisson --seed 1 --tui -o '{}'",
        prony.display(),
        plot.display()
    );
    let out = Command::new("script")
        .args(["-q", "-f", "-c", &command, "/dev/null"])
        .env("TERM", "xterm-256color")
        .env("LC_ALL", "C.UTF-8")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run script (util-linux)")?;
    String::from_utf8(out.stdout).context("the terminal received bytes that are not UTF-8")
}
