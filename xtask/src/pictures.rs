//! Makes the pictures of the README from one real run: the live view near its end, and the plot of
//! latency by percentile. `--check` compares them with what the current build draws.

mod terminal;

use std::collections::BTreeSet;
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

/// The load of the pictures, and a short one for `--check`.
const LOAD: &str = "-c 32 -r 100..500@30s,500@40s --arrivals poisson --seed 1";
const SHORT_LOAD: &str = "-c 32 -r 100..500@3s,500@4s --arrivals poisson --seed 1";

/// The files of the pictures.
const PLOT: &str = "docs/img/report.svg";
const VIEW: &str = "docs/img/live-view.svg";

/// `cargo xtask pictures [--check] [PRONY]`, with this program or with a release build.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let (check, program) = match args {
        [flag, rest @ ..] if flag == "--check" => (true, rest),
        rest => (false, rest),
    };
    let prony = match program {
        [] => shell::prony("release")?,
        [program] => PathBuf::from(program),
        _ => bail!("usage: cargo xtask pictures [--check] [PRONY]"),
    };
    if check { self::check(&prony) } else { make(&prony) }
}

/// Make the pictures anew.
fn make(prony: &Path) -> Result<()> {
    let view = live_view(prony, LOAD, Path::new(PLOT))?;
    let drawn = fs::read_to_string(PLOT).context("the run wrote no plot")?;
    if drawn.contains("CLIENT-LIMITED") {
        bail!("the plot has a warning, because the machine was busy: run this on an idle one");
    }
    fs::write(VIEW, view).with_context(|| format!("cannot write {VIEW}"))
}

/// Check that the pictures show what this build draws: the same words, and the same styles of the
/// plot. Their figures are those of one run, and no other has the same.
pub(crate) fn check(prony: &Path) -> Result<()> {
    let folder = Path::new("target/pictures");
    fs::create_dir_all(folder)?;
    let plot = folder.join("plot.svg");
    let view = live_view(prony, SHORT_LOAD, &plot)?;
    // In virtual time, because a busy machine would add a warning. Requests wait for the few
    // connections, so that there are two curves.
    let simulated = Command::new(prony)
        .args(["http://localhost:8080/", "--simulate", "1", "--simulate-latency"])
        .args(["lognormal:20ms:0.4", "-c", "12", "-r", "500", "-d", "20s", "--quiet"])
        .args(["--accept-invalid", "--arrivals", "poisson", "-o"])
        .arg(&plot)
        .output()
        .context("cannot run prony")?;
    let plot = fs::read_to_string(&plot)
        .with_context(|| String::from_utf8_lossy(&simulated.stderr).into_owned())?;
    let old_plot = fs::read_to_string(PLOT).context(PLOT)?;
    compare(VIEW, &fs::read_to_string(VIEW).context(VIEW)?, &view)?;
    compare(PLOT, &old_plot, &plot)?;
    if style(&old_plot) != style(&plot) {
        bail!("{PLOT} has other styles than this build draws: cargo xtask pictures");
    }
    println!("the pictures of the README are current");
    Ok(())
}

/// Compare the words of an old picture with those of a new one.
fn compare(file: &str, old: &str, new: &str) -> Result<()> {
    let (old, new) = (words(old), words(new));
    let differences: Vec<_> = old.symmetric_difference(&new).map(String::as_str).collect();
    if !differences.is_empty() {
        bail!(
            "{file} is not current: only the file or only this build shows {}. To make it anew, on an \
             idle machine: cargo xtask pictures",
            differences.join(", ")
        );
    }
    Ok(())
}

/// The words in the texts of an SVG, without units.
fn words(svg: &str) -> BTreeSet<String> {
    const UNITS: [&str; 5] = ["ns", "us", "ms", "min", "pp"];
    let texts = svg.split('>').filter_map(|part| part.split_once('<')).map(|(text, _)| text);
    let words = texts
        .filter(|text| !text.contains('{'))
        .flat_map(|text| text.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase));
    words.filter(|word| word.len() > 1 && !UNITS.contains(&word.as_str())).collect()
}

/// The style sheet of an SVG.
fn style(svg: &str) -> Option<&str> {
    svg.split_once("<style>")?.1.split_once("</style>").map(|(style, _)| style)
}

/// Run the load in a terminal, and return a picture of the live view near its end.
fn live_view(prony: &Path, load: &str, plot: &Path) -> Result<String> {
    let server = Server::start_with(&mut Command::new(prony), &TARGET)?;
    let recorded = record(prony, server.url(), load, plot);
    server.stop()?;
    let mut screen = Screen::new(COLUMNS, ROWS);
    if !screen.play(&recorded?, |screen| screen.line(1).contains(MOMENT)) {
        bail!("the live view never showed `{MOMENT}`");
    }
    Ok(screen.svg("The live view of prony"))
}

/// Run the load in a terminal, and return all bytes that the terminal received.
fn record(prony: &Path, url: &str, load: &str, plot: &Path) -> Result<String> {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let command = format!(
        "stty cols {COLUMNS} rows {ROWS}; exec '{}' http://localhost:8080/ --connect-to {address} \
         {load} --tui -o '{}'",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_the_words_of_pictures() {
        let old = "<svg><style>.a{b:c}</style><text>12 ms</text><text>rate 5.0/s asked</text>";
        let new = old.replace("5.0/s asked", "7.1/s target").replace("12 ms", "980 us");
        assert_eq!(Vec::from_iter(words(old)), ["asked", "rate"]);
        assert_eq!(style(old), Some(".a{b:c}"));
        let said = compare("a.svg", old, &new).unwrap_err().to_string();
        assert!(said.contains("asked, target"), "{said}");
        assert!(compare("a.svg", old, &old.replace("12", "13")).is_ok());
    }
}
