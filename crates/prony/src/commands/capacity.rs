//! `prony capacity`: the highest rate at which a target keeps its thresholds.

use std::time::Instant;

use prony_base::units::Span;
use prony_io::Options;
use prony_plan::plan::Plan;
use prony_plan::schedule::{Arrivals, ArrivalsArg};
use prony_report::capacity::{self, Capacity};
use prony_report::{Format, text};
use prony_run::builder::Planned;
use prony_run::capacity::{check_thresholds, search};
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::interrupt::Ending;
use prony_run::output::{self, Outputs};
use prony_run::run::{self, Provenance};
use prony_server::serve::ServerBehavior;
use prony_stats::capacity::{By, Finding, Limit, Purpose, Search, Settings, Trial, least_budget};
use prony_stats::summary::Summary;

use super::execution::{check_contact, control};
use super::worker::{once_on_hosts, say};
use crate::cli::LoadArgs;
use crate::cli::capacity::CapacityArgs;
use crate::cli::plan;
use crate::cli::shown::command_line;
use crate::embedding::{Event, Found};
use crate::exec_options::{check_simulable, environment_of, options};
use crate::progress::Steps;

/// The budget, unless the limits of times need a longer one.
const BUDGET: Span = Span::from_secs(300);

/// Searches for the capacity, and reports it.
pub(super) fn capacity(args: &CapacityArgs, typed: Vec<String>) -> Result<Exit, Error> {
    let mut load = args.of_trials()?;
    let format = args.stdout_format()?;
    let around = environment_of(&load.exec, load.unix_socket.is_some(), &load.shard);
    let connections = load.connections.unwrap_or(around.connections_max);
    if args.levels() == By::Connections {
        load.connections = Some(connections);
    }
    let load = &load;
    let thresholds = &load.until.threshold;
    check_thresholds(thresholds)?;
    let Planned { mut plan, notes, cap, .. } = plan::plan(load, &around)?;
    plan.thresholds.clone_from(thresholds);
    let plan = run::with_names(plan);
    run::check_thresholds(&plan)?;
    check_simulable(&plan, &load.exec)?;
    let formats = [Format::Html, Format::Svg, Format::Png, Format::Json];
    let why = "a capacity can be written as .html, .svg, .png or .json";
    let outputs = Outputs::prepare_only(&load.output.to.output, &formats, why)?;
    let settings = Settings {
        by: args.levels(),
        most: args.most(connections)?,
        thresholds: thresholds.clone(),
        from: args.first(),
        budget: budget(args)?,
        precision: args.accuracy,
        beyond: args.beyond,
        seed: plan.seed,
    };
    let (mut found, error) = run_trials(&plan, load, settings)?;
    found.version = env!("CARGO_PKG_VERSION").into();
    found.target = text::target_of(&plan);
    found.seed = plan.seed;
    found.arrivals = arrivals(args.levels(), load);
    found.command = command_line(&typed);
    found.run_at_80_percent =
        found.at_80_percent().map(|level| at_level(args.levels(), &found.command, &level, load));
    found.notes.extend(notes);
    found.notes.extend(
        cap.filter(|_| is_limited_by(&found, Limit::Connections))
            .map(|why| format!("The number of connections is limited: {why}.")),
    );
    let is_capped = is_limited_by(&found, Limit::Connections);
    if args.levels() == By::Connections && is_capped && args.load.connections.is_none() {
        let why = &around.connections_why;
        found.notes.push(format!("The number of connections is limited: {why}."));
    }
    let written = outputs.write_with(|format| found.render(format).unwrap_or_default());
    let exit = exit(&found, load);
    if let Some(embedding) = &load.output.embedding {
        embedding.send(Event::Found(Found::Capacity(Box::new(found))));
    } else if let Some(bytes) = found.render(format) {
        output::to_stdout(&bytes)?;
    }
    written?;
    // What is known comes before the error.
    error.map_or(Ok(exit), Err)
}

/// The budget; that of a limit of a time is at least what its trials need.
fn budget(args: &CapacityArgs) -> Result<Span, Error> {
    let thresholds = &args.load.until.threshold;
    let least = least_budget(args.levels(), thresholds);
    match args.budget {
        None => Ok(BUDGET.max(least)),
        Some(budget) if budget < least => {
            let seconds = least.as_secs_f64().ceil();
            Err(Error::Argument(format!(
                "--budget: too short for these thresholds: a search needs {seconds} s or more \
                 (1,500 times the longest limit), so that the queue of the target can settle in \
                 each trial"
            )))
        }
        Some(budget) => Ok(budget),
    }
}

/// Carries out the trials, with progress. Returns what is known, and why the search ended early.
fn run_trials(
    plan: &Plan,
    load: &LoadArgs,
    settings: Settings,
) -> Result<(Capacity, Option<Error>), Error> {
    let embedding = load.output.embedding.as_ref();
    let steps = Steps::new(load.output.quiet || load.output.no_progress, embedding);
    let thresholds = settings.thresholds.iter().map(ToString::to_string).collect();
    let accuracy = settings.precision;
    let mut host = String::new();
    let mut show = |search: &Search, trial: &Trial| steps.show(&progress(search, trial));
    let answer = match load.exec.simulate {
        Some(seed) => {
            let latency = load.exec.simulate_latency.unwrap_or_default();
            let workers = load.exec.simulate_workers;
            let server = ServerBehavior { latency, workers, ..ServerBehavior::default() };
            let threads = load.exec.threads.unwrap_or(1);
            let mut run = |trial: &Plan| {
                let seed = seed.wrapping_add(trial.seed);
                let summary =
                    run::simulate(trial, threads, seed, &server, &[], Provenance::default());
                let took = trial.warmup + trial.stop.duration.unwrap_or_default();
                Ok((summary, took))
            };
            search(plan, settings, &mut run, &mut show)
        }
        None if load.shard.hosts.is_some() => {
            let keep_service = run::needs_service(&[], plan);
            let control = control(&load.output)?;
            let mut run = |trial: &Plan| {
                let start = Instant::now();
                let summary = once_on_hosts(trial, keep_service, load, &control)?;
                complete(&summary)?;
                host.clone_from(&summary.run.host);
                Ok((summary, Span(start.elapsed().as_nanos() as u64)))
            };
            search(plan, settings, &mut run, &mut show)
        }
        None => {
            let keep_service = run::needs_service(&[], plan);
            let options = Options { keep_service, ..options(&load.exec) };
            run::check(plan, &options)?;
            let control = control(&load.output)?;
            let mut ending = Ending::default();
            let mut run = |trial: &Plan| {
                let start = Instant::now();
                let mut watch = |live: &_| {
                    if let Some(sentence) = ending.sentence(&control, live) {
                        say(&load.output, &sentence);
                    }
                };
                let summary =
                    run::run(trial, &options, &control, &mut watch, Provenance::default())?;
                check_contact(&summary, &load.exec)?;
                host.clone_from(&summary.run.host);
                Ok::<(Summary, Span), Error>((summary, Span(start.elapsed().as_nanos() as u64)))
            };
            search(plan, settings, &mut run, &mut show)
        }
    };
    steps.finish();
    let (answer, error) = answer?;
    let mut found = Capacity::new(answer, thresholds, accuracy);
    found.host = host;
    found.notes.extend(error.as_ref().map(|why| format!("The search has ended early: {why}.")));
    Ok((found, error))
}

/// A trial that lacks a part of its load shows nothing of the target.
fn complete(trial: &Summary) -> Result<(), Error> {
    let hosts = trial.run.hosts.as_deref();
    match hosts.and_then(|hosts| hosts.lost().next()) {
        None => Ok(()),
        Some((host, loss)) => {
            Err(Error::Machine(format!("{} was lost: {}", host.name, loss.cause)))
        }
    }
}

/// One line: what is tried now, what is known, and the time that is left.
fn progress(search: &Search, trial: &Trial) -> String {
    let what = match trial.purpose {
        Purpose::Bracket | Purpose::Estimate => "trying",
        Purpose::Probe => "waiting for the target to recover, probing",
        Purpose::Curve => "measuring the throughput of",
        Purpose::Beyond => "measuring beyond the capacity,",
    };
    let level = |level: f64| capacity::level(search.by(), level);
    let estimate = search.estimate().and_then(|e| e.interval);
    let known = match (estimate, search.bracket()) {
        (Some(i), _) => {
            format!("; capacity {} to {}", level(i.lo), level(i.hi))
        }
        (None, (Some(held), Some(missed))) => {
            format!("; between {} and {}", level(held), level(missed))
        }
        (None, (Some(held), None)) => format!("; at least {}", level(held)),
        (None, (None, _)) => String::new(),
    };
    let left = search.left().as_secs_f64();
    format!("{what} {}{known}; at most {left:.0} s left", level(trial.rate))
}

/// The command line of a load at that rate, or with that many connections, from that of the search.
/// The files of the search are not those of the load.
fn at_level(by: By, words: &[String], level: &str, load: &LoadArgs) -> Vec<String> {
    const WITH_VALUE: [&str; 7] =
        ["--budget", "--accuracy", "--from", "--beyond", "--by", "--output", "-o"];
    let mut out = Vec::new();
    let mut rest = words.iter();
    let mut is_command = true;
    let is_other = by == By::Connections;
    let is_connections = |word: &str| word == "-c" || word == "--connections";
    let has_connections = |word: &str| {
        let digits =
            word.strip_prefix("-c").is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
        digits || word.starts_with("--connections=")
    };
    while let Some(word) = rest.next() {
        if is_command && word == "capacity" {
            is_command = false;
        } else if WITH_VALUE.contains(&word.as_str()) || (is_other && is_connections(word)) {
            rest.next();
        } else if is_other && has_connections(word) {
            // The level is another.
        } else if word.starts_with("-o") {
            // A file.
        } else if !WITH_VALUE.iter().any(|option| word.starts_with(&format!("{option}="))) {
            out.push(word.clone());
        }
    }
    if by == By::Connections {
        out.extend(["--connections".into(), level.into()]);
        return out;
    }
    out.extend(["--rate".into(), level.into()]);
    // The search has its own default.
    if !words.iter().any(|w| w.starts_with("--arrivals")) && load.arrivals.is_some() {
        out.extend(["--arrivals".into(), "poisson".into()]);
    }
    out
}

fn arrivals(by: By, load: &LoadArgs) -> String {
    match &load.arrivals {
        _ if by == By::Connections => "closed loop".to_owned(),
        Some(ArrivalsArg::Process(arrivals @ (Arrivals::Fixed | Arrivals::Gamma(_)))) => {
            arrivals.to_string()
        }
        _ => "Poisson".to_owned(),
    }
}

fn is_limited_by(found: &Capacity, by: Limit) -> bool {
    matches!(found.answer.finding, Finding::AtLeast { limit, .. } if limit == by)
}

fn exit(found: &Capacity, load: &LoadArgs) -> Exit {
    match found.answer.finding {
        Finding::Capacity { .. } => Exit::Done,
        Finding::AtLeast { limit: Limit::Budget, .. } => Exit::Undecided,
        Finding::AtLeast { .. } if load.exec.accept_invalid => Exit::Done,
        Finding::AtLeast { .. } => Exit::NotValid,
        Finding::Nowhere { .. } => Exit::Missed,
        Finding::Interrupted { .. } => Exit::Interrupted,
        Finding::Changed { .. } | Finding::NotRecovered { .. } | Finding::Undecided { .. } => {
            Exit::Undecided
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn command_at_80_percent_is_a_load() {
        let words = "prony capacity http://h/ --threshold p99<3ms --budget 9m --beyond=1.5 -c 9 \
                     -o a.json -ob.html --output=c.svg";
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let Some(Command::Capacity(args)) = Cli::try_parse_from(&words).unwrap().command else {
            panic!("another command");
        };
        let load = args.of_trials().unwrap();
        let command = at_level(By::Rate, &words, "80", &load);
        assert_eq!(
            command.join(" "),
            "prony http://h/ --threshold p99<3ms -c 9 --rate 80 --arrivals poisson"
        );
        assert!(Cli::try_parse_from(&command).unwrap().command.is_none());
        let bursty = LoadArgs {
            arrivals: Some(ArrivalsArg::Process(Arrivals::Gamma(0.25))),
            ..load.clone()
        };
        assert_eq!(arrivals(By::Rate, &bursty), "gamma:0.25");
        assert_eq!(arrivals(By::Rate, &load), "Poisson");
        assert_eq!(arrivals(By::Connections, &load), "closed loop");
        let by = "prony capacity --by connections -c 99 http://h/ -c9 --connections=8";
        let words: Vec<String> = by.split(' ').map(str::to_owned).collect();
        let command = at_level(By::Connections, &words, "30", &load);
        assert_eq!(command.join(" "), "prony http://h/ --connections 30");
    }
}
