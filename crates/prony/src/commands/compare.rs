//! `prony compare`: blocks of load against two or more targets in turn, or groups of saved results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prony_base::rng::{self, Stream};
use prony_base::secret::shown_url;
use prony_base::units::Span;
use prony_io::{Control, Options};
use prony_plan::plan::Plan;
use prony_plan::rate::RatePlan;
use prony_report::comparison::{Comparison, label, so_far};
use prony_report::{Format, units};
use prony_run::builder::Planned;
use prony_run::compare::{self, Done, Ran};
use prony_run::environment::{Environment, drawn_seed};
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::files::read_text;
use prony_run::interrupt::Ending;
use prony_run::output::{self, Outputs};
use prony_run::plan_file;
use prony_run::run::{self, Provenance};
use prony_run::target_process::{self, PORT, TargetProcess};
use prony_server::serve::ServerBehavior;
use prony_stats::comparison::{
    Block, Design, Figure, Held, LOOKS, ROUNDS_USUAL, Rounds, block_length,
};
use prony_stats::summary::Summary;

use super::execution::{check_contact, control};
use super::github::publish;
use super::report;
use super::worker::{once_on_hosts, say};
use crate::cli::LoadArgs;
use crate::cli::compare::{CompareArgs, REFUSED};
use crate::cli::plan;
use crate::cli::shown::command_line;
use crate::embedding::{Event, Found};
use crate::exec_options::{check_simulable, environment_of, options};

/// A comparison until it is decided lasts at most this long, if its blocks are so short that it can
/// have more than the usual number of rounds.
const BUDGET: Span = Span::from_secs(300);
/// The most targets.
const TARGETS_MAX: usize = 16;
/// The formats of a comparison.
const FORMATS: [Format; 6] =
    [Format::Text, Format::Html, Format::Svg, Format::Png, Format::Json, Format::Markdown];

/// A target and the load of its blocks.
struct Target {
    name: String,
    plan: Plan,
    notes: Vec<String>,
    start: Option<Start>,
    pid: Option<u32>,
}

/// How a target is started.
struct Start {
    command: String,
    /// The port in the plan in place of `{port}`, if the URL has that.
    placeholder: Option<u16>,
}

/// Compares the targets of the options.
pub(super) fn compare(args: &CompareArgs, typed: Vec<String>) -> Result<Exit, Error> {
    refuse(args)?;
    let outputs = outputs(args)?;
    let is_saved = |name: &String| is_file(name, "json");
    let (mut found, error) = if !args.against.is_empty() || args.load.urls.iter().all(is_saved) {
        (saved(args)?, None)
    } else {
        live(args)?
    };
    found.command = command_line(&typed);
    match error {
        // Report what is known so far, then the error.
        Some(error) if found.rounds == 0 => failed(args, error),
        Some(error) => finish(args, &found, outputs).and_then(|_| failed(args, error)),
        None => finish(args, &found, outputs),
    }
}

/// A server that does not start says nothing about a change.
fn failed(args: &CompareArgs, error: Error) -> Result<Exit, Error> {
    let is_embedded = args.load.output.embedding.is_some();
    if matches!(error, Error::Server(_)) && !args.fail_if.is_empty() && !is_embedded {
        output::lines_to_stderr(&format!("prony: {}", error.printed()));
        return Ok(Exit::CannotTell);
    }
    Err(error)
}

/// Whether it is the name of a file of that kind.
fn is_file(name: &str, extension: &str) -> bool {
    let path = Path::new(name);
    !name.contains("://") && path.extension().is_some_and(|e| e == extension)
}

/// Refuses options that a comparison has no use for.
fn refuse(args: &CompareArgs) -> Result<(), Error> {
    let load = &args.load;
    REFUSED.check(&load.typed)?;
    let targets = load.urls.len();
    if targets > TARGETS_MAX {
        return Err(Error::Argument(format!(
            "a comparison has at most {TARGETS_MAX} targets, not {targets}; write `--` between two \
             groups of saved results"
        )));
    }
    if targets < 2 && (targets == 0 || args.against.is_empty()) {
        return Err(Error::Argument(
            "a comparison needs two targets or more: prony compare URL URL, or prony compare \
             old*.json -- new*.json"
                .into(),
        ));
    }
    if let Some(option) = args.against.iter().find(|word| word.starts_with('-')) {
        return Err(Error::Argument(format!(
            "'{option}' comes after `--` and would be a file: write options before the groups"
        )));
    }
    let all = || load.urls.iter().chain(&args.against);
    let saved = all().find(|name| is_file(name, "json"));
    let other = all().find(|name| !is_file(name, "json"));
    if let (Some(saved), Some(other)) = (saved, other) {
        return Err(Error::Argument(format!(
            "'{saved}' is a saved result, '{}' is not: compare targets with targets, and saved \
             results (.json) with saved results",
            shown_url(other)
        )));
    }
    if args.figures.contains(&Figure::Cpu) && !has_cpu(args) {
        let why = "prony must know the processes of A and B";
        return Err(Error::Needs(
            "--figures cpu",
            "--start-a and --start-b, or --pid-a and --pid-b",
            why,
        ));
    }
    Ok(())
}

/// Whether the CPU time of both targets is known.
fn has_cpu(args: &CompareArgs) -> bool {
    let a = args.start_a.is_some() || args.pid_a.is_some();
    let b = args.start_b.is_some() || args.pid_b.is_some();
    a && b && args.load.urls.len() == 2 && args.load.exec.simulate.is_none()
}

fn outputs(args: &CompareArgs) -> Result<Outputs, Error> {
    let why = "a comparison can be written as .html, .svg, .png, .json or .md";
    let outputs = args.load.output.to.prepare_only(&FORMATS, why)?;
    let format = args.load.output.to.stdout_format();
    if !FORMATS.contains(&format) {
        let why = "a comparison can be printed as text, html, svg, json or markdown";
        return Err(Error::Conflict("--format", "prony compare", why));
    }
    Ok(outputs)
}

fn design(args: &CompareArgs, targets: usize, seed: u64) -> Design {
    let figures = if !args.figures.is_empty() {
        args.figures.clone()
    } else if args.fail_if.is_empty() {
        let cpu = has_cpu(args).then_some(Figure::Cpu);
        Figure::USUAL.into_iter().chain(cpu).collect()
    } else {
        Vec::new()
    };
    Design {
        targets: targets as u32,
        figures,
        rounds: args.blocks.map_or(Rounds::UntilDecided(ROUNDS_USUAL), Rounds::Exactly),
        margin: args.margin(),
        limits: args.fail_if.clone(),
        seed,
    }
    .with_figures_of_limits()
}

/// Compares groups of saved results.
fn saved(args: &CompareArgs) -> Result<Comparison, Error> {
    let groups: Vec<Vec<String>> = if args.against.is_empty() {
        args.load.urls.iter().map(|file| vec![file.clone()]).collect()
    } else {
        vec![args.load.urls.clone(), args.against.clone()]
    };
    let read = |file: &String| {
        let mut summary = report::read(Path::new(file))?;
        // What counts is what this comparison accepts, and not what the run did.
        summary.run.accepted.invalid = args.load.exec.accept_invalid;
        Ok((file.clone(), summary))
    };
    let runs = groups.iter().map(|group| group.iter().map(read).collect());
    let runs = runs.collect::<Result<Vec<Vec<(String, Summary)>>, Error>>()?;
    let doubts = compare::doubts(&runs);
    if let Some(doubt) = doubts.first()
        && !args.load.exec.accept_invalid
    {
        return Err(Error::Argument(format!("{doubt}; --accept-invalid compares them anyway")));
    }
    let names: Vec<String> = groups.iter().map(|group| group.join(" ")).collect();
    let mut found = compare::saved(&design(args, groups.len(), 0), &names, &runs);
    found.notes.extend(doubts.iter().map(|doubt| format!("Accepted: {doubt}.")));
    Ok(found)
}

/// Runs blocks of load until enough is known, or the user stops it.
fn live(args: &CompareArgs) -> Result<(Comparison, Option<Error>), Error> {
    let exec = &args.load.exec;
    let seed = exec.seed.or(exec.simulate).unwrap_or_else(drawn_seed);
    let around = environment_of(exec, args.load.unix_socket.is_some(), &args.load.shard);
    let mut design = design(args, args.load.urls.len(), seed);
    let block = block_length(&design.figures, args.load.rate.as_ref().map(RatePlan::initial));
    let targets = args.load.urls.iter().enumerate();
    let targets = targets.map(|(i, name)| target(args, i, name, (block, &around)));
    let targets = targets.collect::<Result<Vec<Target>, Error>>()?;
    if let (Rounds::UntilDecided(usual), Some(round)) = (design.rounds, length_of_round(&targets)) {
        let rounds = (BUDGET.0 / round.0.max(1)).try_into().unwrap_or(u32::MAX);
        design.rounds = Rounds::UntilDecided(usual.max(rounds));
    }
    let options = options(exec);
    let hosts = args.load.shard.hosts;
    for target in targets.iter().filter(|_| exec.simulate.is_none() && hosts.is_none()) {
        // Report what this kernel lacks before the first block. Workers check it themselves.
        run::check(&target.plan, &options)?;
    }
    let control = control(&args.load.output)?;
    let names: Vec<String> = targets.iter().map(|t| t.name.clone()).collect();
    let silent = args.load.output.quiet || args.load.output.no_progress;
    let mut doubts = BTreeMap::new();
    let mut one = |block: Block| {
        let target = &targets[block.target as usize];
        match exec.simulate {
            Some(world) => Ok(Some(simulated(args, target, block, world))),
            None => on_the_network(args, target, block, (&options, &control), &mut doubts),
        }
    };
    let embedding = args.load.output.embedding.as_ref();
    let mut progress = |done: &Done<'_>| match embedding {
        Some(embedding) => embedding.send(Event::Progress(line(done))),
        None if silent => {}
        None => {
            output::to_stderr(&format!("prony: {}", line(done)));
            if let Some(advice) = &done.advice {
                output::to_stderr(&format!("prony: {advice}"));
            }
        }
    };
    if let Some(outlook) = outlook(&design, &targets)
        && embedding.is_none()
        && !silent
        && exec.simulate.is_none()
    {
        output::to_stderr(&format!("prony: {outlook}"));
    }
    let is_stopped = || control.stop_request().is_some();
    let (mut found, error) = compare::live(&design, &names, &is_stopped, &mut one, &mut progress);
    for note in targets.iter().flat_map(|t| &t.notes) {
        if !found.notes.contains(note) {
            found.notes.push(note.clone());
        }
    }
    if doubts.is_empty() {
        found.notes.push(of_starts(args, &targets));
    }
    found.notes.extend(doubts.into_values());
    Ok((found, error))
}

/// How long a round takes; `None` if the plans do not say how long a block lasts.
fn length_of_round(targets: &[Target]) -> Option<Span> {
    let length = |plan: &Plan| Some(plan.stop.duration?.0.saturating_add(plan.warmup.0));
    let lengths: Option<Vec<u64>> = targets.iter().map(|t| length(&t.plan)).collect();
    Some(Span(lengths?.into_iter().fold(0, u64::saturating_add)))
}

/// How long the comparison can take, if that is known.
fn outlook(design: &Design, targets: &[Target]) -> Option<String> {
    let round = length_of_round(targets)?;
    let time = |rounds: u32| units::brief(Span(round.0.saturating_mul(rounds.into())));
    let blocks = units::counted(targets.len() as u64, "block", "blocks");
    let each = format!("a round of {blocks} takes {}", units::brief(round));
    Some(match design.rounds {
        Rounds::Exactly(n) => {
            format!("{each}; {} take {}", units::counted(n.into(), "round", "rounds"), time(n))
        }
        Rounds::UntilDecided(_) => {
            let (least, most) = (LOOKS[0], design.rounds_max());
            format!(
                "{each}; {least} to {most} rounds, as the decision needs, take {} to {}",
                time(least),
                time(most)
            )
        }
    })
}

/// The note about what varies from start to start.
fn of_starts(args: &CompareArgs, targets: &[Target]) -> String {
    let started = targets.iter().filter(|t| t.start.is_some()).count();
    if args.load.exec.simulate.is_some() {
        "Simulated targets: every block has its own random service times.".into()
    } else if started == targets.len() {
        "Each server was started anew for each of its blocks, so the variance from start to start \
         is part of the answer."
            .into()
    } else {
        "Servers were not started anew for each block, so the answer is about these running \
         processes: it does not include how much figures differ from one start of a server to the \
         next (--start-a, --start-b)."
            .into()
    }
}

/// The target with this index.
fn target(
    args: &CompareArgs,
    index: usize,
    name: &str,
    (block, around): (Span, &Environment),
) -> Result<Target, Error> {
    let (command, pid) = match index {
        0 => (args.start_a.clone(), args.pid_a),
        1 => (args.start_b.clone(), args.pid_b),
        _ => (None, None),
    };
    let is_plan = is_file(name, "toml");
    let text = if is_plan { read_text("plan", Path::new(name))? } else { name.to_owned() };
    let has_port = text.contains(PORT) && !text.contains(&format!("{{{PORT}"));
    let wants_port = command.as_ref().is_some_and(|c| c.contains(PORT));
    if has_port != wants_port {
        let (has, lacks) = if has_port { ("target", "--start") } else { ("--start", "target") };
        return Err(Error::Argument(format!(
            "target {}: the {has} has {PORT}, but the {lacks} has not; write it in both",
            label(index as u32)
        )));
    }
    let placeholder = if has_port { Some(target_process::free_port()?) } else { None };
    let filled = match placeholder {
        Some(port) => text.replace(PORT, &port.to_string()),
        None => text,
    };
    let Planned { plan, notes, .. } = if is_plan {
        plan_of_file(args, name, &filled, around)?
    } else {
        plan_of_url(&args.load, filled, (block, around))?
    };
    check_simulable(&plan, &args.load.exec)?;
    let start = command.map(|command| Start { command, placeholder });
    Ok(Target { name: shown_url(name), plan: run::with_names(plan), notes, start, pid })
}

fn plan_of_url(
    load: &LoadArgs,
    url: String,
    (block, around): (Span, &Environment),
) -> Result<Planned, Error> {
    let mut load = LoadArgs { urls: vec![url], ..load.clone() };
    let is_ended = load.duration.is_some()
        || load.requests.is_some()
        || load.sessions.is_some()
        || load.rate.as_ref().is_some_and(|rate| rate.length().is_some());
    if !is_ended {
        load.duration = Some(block);
    }
    plan::plan(&load, around)
}

/// A block is a run of the plan; only its duration may be overridden.
fn plan_of_file(
    args: &CompareArgs,
    name: &str,
    text: &str,
    around: &Environment,
) -> Result<Planned, Error> {
    let load = &args.load;
    let of_load = ["--rate", "--arrivals", "--connections", "--requests"];
    if let Some(option) = load.typed.first(&of_load) {
        let why = "the plan file sets the load of its blocks; change it there";
        return Err(Error::Conflict(option, "a plan file", why));
    }
    let path = PathBuf::from(name);
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let planned = plan_file::parse(name, text, Some(folder), around).map_err(Error::PlanFile)?;
    plan::check_sources(&load.exec)?;
    let mut plan = planned.plan;
    plan.stop.duration = load.duration.or(plan.stop.duration);
    // Thresholds are for single runs.
    plan.thresholds.clear();
    Ok(Planned { plan, ..planned })
}

/// A block of load in virtual time. Each has its own random service times.
fn simulated(args: &CompareArgs, target: &Target, block: Block, world: u64) -> Ran {
    let exec = &args.load.exec;
    let of_b = args.simulate_latency_b.filter(|_| block.target > 0);
    let latency = of_b.or(exec.simulate_latency).unwrap_or_default();
    let server = ServerBehavior { latency, ..ServerBehavior::default() };
    let plan = Plan { seed: block.seed, ..target.plan.clone() };
    let number = u64::from(block.round) << 8 | u64::from(block.target);
    let seed = rng::keyed(world, Stream::Serve, number, 0);
    let threads = exec.threads.unwrap_or(1);
    let summary = run::simulate(&plan, threads, seed, &server, &[], Provenance::default());
    Ran { summary, cpu_ns: None }
}

/// A block of load on the network, with a server of its own if that is started. `doubts` gets the
/// first that is not certain about the servers of a target. `None`: the user has stopped it.
fn on_the_network(
    args: &CompareArgs,
    target: &Target,
    block: Block,
    (options, control): (&Options, &Arc<Control>),
    doubts: &mut BTreeMap<u32, String>,
) -> Result<Option<Ran>, Error> {
    let is_stopped = || control.stop_request().is_some();
    let mut plan = Plan { seed: block.seed, ..target.plan.clone() };
    let mut server = None;
    if let Some(Start { command, placeholder }) = &target.start {
        let port = target_process::free_port()?;
        if let Some(placeholder) = placeholder {
            plan = target_process::with_port(&plan, *placeholder, port);
        }
        let mut process = TargetProcess::start(command, port, &plan)?;
        if !process.wait_until_ready(&plan, args.start_timeout, &is_stopped)? {
            process.hurry();
            return Ok(None);
        }
        if let Some(doubt) = process.doubt(&plan) {
            doubts.entry(block.target).or_insert(doubt);
        }
        server = Some(process);
    }
    let cpu = |server: &Option<TargetProcess>| match (server, target.pid) {
        (Some(server), _) => server.cpu(),
        (None, Some(pid)) => target_process::cpu_of_process(pid),
        (None, None) => None,
    };
    let before = cpu(&server);
    let mut ending = Ending::default();
    let mut watch = |live: &_| {
        if let Some(sentence) = ending.sentence(control, live) {
            say(&args.load.output, &sentence);
        }
    };
    let mut summary = match args.load.shard.hosts {
        Some(_) => once_on_hosts(&plan, false, &args.load, control)?,
        None => run::run(&plan, options, control, &mut watch, Provenance::default())?,
    };
    check_contact(&summary, &args.load.exec)?;
    summary.run.accepted.invalid = args.load.exec.accept_invalid;
    let after = cpu(&server);
    if let Some(mut server) = server {
        server.check()?;
        if is_stopped() {
            server.hurry();
        }
        if let Some(left) = server.end() {
            doubts.entry(block.target).or_insert(left);
        }
    }
    // The server's time also covers the warm-up; so does the number of requests.
    let ended = summary.ended() as f64;
    let measured = (summary.main.replies + summary.main.failed) as f64;
    let used = before.zip(after).map(|(before, after)| (after - before).0 as f64);
    let cpu_ns = used.filter(|_| ended > 0.0).map(|ns| ns / ended * measured);
    Ok(Some(Ran { summary, cpu_ns }))
}

/// The result of a block, for the progress.
fn line(done: &Done<'_>) -> String {
    let tally = &done.summary.main;
    let time = |name: &str, q: f64| {
        let time = tally.times.response.quantile(q);
        time.map_or_else(String::new, |t| format!(", {name} {}", units::span(t)))
    };
    format!(
        "block {} of at most {}: {}, {}{}{}{}{}",
        done.number,
        done.most,
        label(done.block.target),
        units::counted(tally.replies, "reply", "replies"),
        time("p50", 0.5),
        time("p99", 0.99),
        so_far(done.known).map_or_else(String::new, |known| format!("; {known}")),
        match done.disturbed {
            0 => String::new(),
            n => format!("; {n} of {} blocks disturbed", done.number),
        },
    )
}

/// Prints and writes the reports, and returns the exit code.
fn finish(args: &CompareArgs, found: &Comparison, outputs: Outputs) -> Result<Exit, Error> {
    let written = outputs.write_with(|format| found.render(format).unwrap_or_default());
    if let Some(embedding) = &args.load.output.embedding {
        embedding.send(Event::Found(Found::Comparison(Box::new(found.clone()))));
    } else if let Some(bytes) = found.render(args.load.output.to.stdout_format()) {
        output::to_stdout(&bytes)?;
    }
    let annotations = prony_report::github::of_comparison(found);
    let markdown = || found.render(Format::Markdown).unwrap_or_default();
    publish(&args.load.output.to, &annotations, markdown)?;
    written?;
    let has_limits = !found.limits.is_empty();
    let is_valid = found.doubts.is_empty() || args.load.exec.accept_invalid;
    let replies: u64 = found.targets.iter().map(|t| t.requests - t.failed).sum();
    Ok(match found.worst_limit() {
        _ if found.interrupted => Exit::Interrupted,
        _ if has_limits && !is_valid => Exit::CannotTell,
        _ if replies == 0 => Exit::NoAnswer,
        _ if !is_valid => Exit::NotValid,
        Some(Held::Fails) => Exit::Missed,
        Some(_) => Exit::CannotTell,
        None => Exit::Done,
    })
}
