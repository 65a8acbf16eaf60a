//! `prony spectrum`: round-trip times by length and transport.

use std::iter;

use prony_base::fault::Fault;
use prony_base::rng::{Sequence, Stream};
use prony_io::Control;
use prony_plan::plan::{Exchange, Plan};
use prony_report::spectrum::Spectrum;
use prony_report::{Format, units, words};
use prony_run::environment::{Environment, drawn_seed};
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::interrupt::{Ending, stoppable};
use prony_run::output::{self, Outputs};
use prony_run::run::{self, Provenance};
use prony_stats::summary::Summary;
use prony_tally::record::Tally;

use super::rtt::with_sockets;
use crate::cli::plan::{check_sources, exec_notes};
use crate::cli::rtt::exchange;
use crate::cli::shown::command_line;
use crate::cli::spectrum::SpectrumArgs;
use crate::cli::tls;
use crate::cli::transport::Transport;

/// One length over one transport, which is measured repeatedly.
struct Cell {
    transport: String,
    size: u32,
    plan: Plan,
}

/// The measurements of the options.
#[derive(Default)]
struct Asked {
    cells: Vec<Cell>,
    transports: Vec<String>,
    /// The lengths that are left out, as a sentence.
    left_out: Option<String>,
}

/// Measures every length over every transport, in random order, for the given number of
/// repetitions. Ctrl-C stops and keeps the results so far.
pub(super) fn spectrum(args: &SpectrumArgs, typed: Vec<String>) -> Result<Exit, Error> {
    check_sources(&args.exec)?;
    let seed = args.exec.seed.unwrap_or_else(drawn_seed);
    let Asked { cells, transports, left_out } = asked(args, seed)?;
    if args.exec.timestamps {
        let why = "a spectrum has one figure per run; `prony rtt --timestamps` shows the parts";
        return Err(Error::Conflict("--timestamps", "prony spectrum", why));
    }
    let formats = [Format::Html, Format::Svg, Format::Png, Format::Json, Format::Csv];
    let why = "a spectrum can be written as .html, .svg, .png, .json or .csv";
    let outputs = Outputs::prepare_only(&args.output, &formats, why)?;
    for cell in &cells {
        // Report what this kernel lacks before the first measurement.
        run::check(&cell.plan, &with_sockets(&cell.plan, &args.exec, &args.messages))?;
    }
    let control = stoppable()?;
    let mut found = Spectrum::new();
    let refused = measure(args, &cells, seed, &control, &mut found).err();
    found.notes = exec_notes(&args.exec);
    found.notes.extend(args.messages.sctp.note());
    found.notes.extend(left_out);
    found.report_doubts(cells.len() * args.repeat as usize);
    found.interrupted = control.stop_request().is_some();
    found.seed = seed;
    found.command = command_line(&typed);
    found.sort(&transports);
    match refused {
        // Report the results so far, then the error.
        Some(refusal) if found.is_empty() => Err(refusal),
        Some(refusal) => finish(args, &found, outputs).and(Err(refusal)),
        None => finish(args, &found, outputs),
    }
}

/// Measures every cell once per repetition, each time in a different order, until the user stops.
fn measure(
    args: &SpectrumArgs,
    cells: &[Cell],
    seed: u64,
    control: &Control,
    found: &mut Spectrum,
) -> Result<(), Error> {
    let all = cells.len() * args.repeat as usize;
    let (mut done, mut ending) = (0, Ending::default());
    for order in orders(cells.len(), seed).take(args.repeat as usize) {
        for i in order {
            if control.stop_request().is_some() {
                return Ok(());
            }
            let Cell { transport, size, plan } = &cells[i];
            let options = with_sockets(plan, &args.exec, &args.messages);
            let mut watch = |live: &_| {
                if !args.quiet {
                    ending.say(control, live);
                }
            };
            let mut one = run::run(plan, &options, control, &mut watch, Provenance::default())?;
            one.run.percentile = args.exec.percentile;
            found.doubts.extend(doubt(&one, transport, *size, control.stop_request().is_some()));
            if one.main.started > 0 {
                found.add(transport, *size, args.messages.reply_size, &one.main);
            }
            (found.version, found.host) = (one.run.version.clone(), one.run.host.clone());
            done += 1;
            if !args.quiet {
                output::to_stderr(&format!(
                    "prony: {done} of {all}: {transport}, {}: {}",
                    units::counted(u64::from(*size), "byte", "bytes"),
                    brief(&one.main),
                ));
            }
        }
    }
    Ok(())
}

/// The result of one measurement, for the progress.
fn brief(tally: &Tally) -> String {
    if let Some(p50) = tally.times.service.quantile(0.5).filter(|_| tally.replies > 0) {
        return format!("p50 {}", units::span(p50));
    }
    let fault = Fault::ALL.into_iter().max_by_key(|&f| tally.fault(f));
    match fault.filter(|&f| tally.replies == 0 && tally.fault(f) > 0) {
        Some(fault) => format!("no reply: {}", words::sentence(fault)),
        None => format!("{}, too few for a p50", units::counted(tally.replies, "reply", "replies")),
    }
}

/// Why a measurement is invalid; `None` for one that the user stopped.
fn doubt(one: &Summary, transport: &str, size: u32, ended: bool) -> Option<String> {
    let judgment = one.verdict();
    let reason = judgment.reasons.first().filter(|_| !ended)?;
    let size = units::counted(u64::from(size), "byte", "bytes");
    let (word, reason) = (judgment.verdict.word(), words::reason(reason, one));
    Some(format!("{transport}, {size}: {word}: {reason}"))
}

fn asked(args: &SpectrumArgs, seed: u64) -> Result<Asked, Error> {
    let mut asked = Asked::default();
    let spec = tls::spec(&args.tls)?;
    let pairs = args.pairs()?;
    let named: Vec<_> = pairs.iter().map(|(transport, _)| *transport).collect();
    args.messages.check(&named, args.exec.driver)?;
    let endpoints = pairs.iter().map(|(transport, place)| transport.endpoint(place));
    let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
    let secured = tls::check(&args.tls, &endpoints, "--transport tls")?;
    let spec = spec.filter(|_| secured);
    for (transport, endpoint) in named.into_iter().zip(endpoints) {
        let name = transport.name().to_owned();
        let fits = |size: &u32| *size <= Exchange::DATAGRAM_MAX || transport != Transport::Udp;
        let (mut sizes, too_long) = args.size.0.iter().partition::<Vec<u32>, _>(|size| fits(size));
        if sizes.is_empty() {
            // The check of the plan explains the error.
            sizes.clone_from(&too_long);
        } else {
            asked.left_out = asked.left_out.or_else(|| left_out(&too_long));
        }
        for size in sizes {
            let mut draft = exchange(endpoint.clone(), &[size], &args.messages);
            draft.server_name.clone_from(&args.tls.sni);
            draft.stop.requests = Some(args.exchanges);
            draft.stop.duration = args.duration;
            draft.tls.clone_from(&spec);
            draft.seed = Some(seed);
            let plan = draft.plan(&Environment::default()).plan;
            plan.check().map_err(|why| {
                Error::Plan(format!(
                    "{name}, {}: {why}",
                    units::counted(size.into(), "byte", "bytes")
                ))
            })?;
            asked.cells.push(Cell { transport: name.clone(), size, plan });
        }
        asked.transports.push(name);
    }
    Ok(asked)
}

/// The lengths that are left out, as a sentence for the report.
fn left_out(sizes: &[u32]) -> Option<String> {
    let most = units::count(Exchange::DATAGRAM_MAX.into());
    let sizes: Vec<_> = sizes.iter().map(|&size| units::count(size.into())).collect();
    let sizes = (!sizes.is_empty()).then(|| sizes.join(", "))?;
    Some(format!("Messages over UDP have at most {most} bytes; left out for UDP: {sizes}."))
}

/// Random orders of `n` cells, one per repetition; the same for the same seed.
fn orders(n: usize, seed: u64) -> impl Iterator<Item = Vec<usize>> {
    let mut rng = Sequence::new(seed, Stream::Pick);
    iter::repeat_with(move || {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, rng.below(i as u64 + 1) as usize);
        }
        order
    })
}

fn finish(args: &SpectrumArgs, found: &Spectrum, outputs: Outputs) -> Result<Exit, Error> {
    let written = outputs.write_with(|format| found.render(format).unwrap_or_default());
    if let Some(bytes) = found.render(args.stdout_format()) {
        output::to_stdout(&bytes)?;
    }
    written?;
    Ok(match (found.interrupted, found.is_empty()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::NoAnswer,
        (false, false) if found.doubts.is_empty() || args.exec.accept_invalid => Exit::Done,
        (false, false) => Exit::NotValid,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser as _;
    use prony_base::merge::Merge;
    use prony_base::units::Span;
    use prony_run::environment::Environment;
    use prony_server::serve::{Latency, ServerBehavior};

    use super::*;
    use crate::cli::Cli;
    use crate::cli::plan::plan;

    #[test]
    fn every_order_has_every_cell_once() {
        for order in orders(17, 7).take(4) {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..17).collect::<Vec<_>>());
        }
    }

    #[test]
    fn p13_runs_come_in_random_order_by_the_seed() {
        let reported = |seed| orders(4, seed).take(4_800).collect::<Vec<_>>();
        assert_eq!(reported(3), reported(3));
        assert_ne!(reported(3), reported(4));
        let mut counts = BTreeMap::new();
        for order in reported(3) {
            *counts.entry(order).or_insert(0.0) += 1.0;
        }
        // Of 24 orders each is as likely: chi-square with 23 degrees of freedom, at 0.1 %.
        assert_eq!(counts.len(), 24);
        let far: f64 = counts.values().map(|n: &f64| (n - 200.0).powi(2) / 200.0).sum();
        assert!(far < 49.7, "{far}: {counts:?}");
    }

    /// Runs of a world: requests one after another, to a server that takes that long.
    fn runs(times: &[(Span, Span)], seed: u64) -> Vec<Tally> {
        let cli = Cli::try_parse_from(["prony", "-c", "1", "-n", "100", "http://h/"]).unwrap();
        let around = Environment {
            connections_max: 9,
            connections_why: String::new(),
            seed: 1,
            simulated: false,
        };
        let plan = plan(&cli.load, &around).unwrap().plan;
        let run = |(&(least, most), seed)| {
            let server = ServerBehavior {
                latency: Latency::Uniform(least, most),
                ..ServerBehavior::default()
            };
            prony_sim::simulate(&plan, 1, seed, &server, &prony_sim::Extras::default()).remove(0).1
        };
        times.iter().zip(seed..).map(run).collect()
    }

    /// The one cell of a spectrum of these repetitions: its median with both ends of the band.
    fn banded(runs: &[Tally]) -> (f64, f64, f64) {
        let mut found = Spectrum::new();
        runs.iter().for_each(|tally| found.add("tcp", 64, 64, tally));
        let p50 = found.cells[0].p50;
        (p50.ns.unwrap() as f64, p50.low_ns.unwrap(), p50.high_ns.unwrap())
    }

    /// Where a server is faster or slower from its start on, the requests of one run tell nothing
    /// of the next. Its median is evenly 800 to 1,200 us, its requests within 10 us of that.
    #[test]
    fn p13_a_band_is_as_wide_as_runs_differ() {
        const RUNS: usize = 5;
        let us = |n: u64| Span(n * 1_000);
        let ways = banded(&runs(&[(us(1_000), us(1_000)); 2], 1)).0 - 1e6;
        let truth = 1e6 + ways;
        let mut rng = Sequence::new(13, Stream::Pick);
        let (worlds, mut held, mut pooled_held, mut widths) = (100, 0, 0, 0.0);
        for world in 0..worlds {
            let median = |_| us(800) + Span(rng.below(400_001));
            let medians: Vec<Span> = (0..RUNS).map(median).collect();
            let ranges: Vec<_> = medians.iter().map(|&m| (m - us(10), m + us(10))).collect();
            let runs = runs(&ranges, world * 1_000);
            let (figure, low, high) = banded(&runs);
            assert!(low <= figure && figure <= high, "{low} {figure} {high}");
            held += u32::from(low <= truth && truth <= high);
            widths += (high - low) / 2.0 / worlds as f64;
            // The interval if all times were independent and of one run.
            let mut all = runs[0].times.service.clone();
            runs[1..].iter().for_each(|tally| all.merge(&tally.times.service));
            let reach = 0.98 / (all.count() as f64).sqrt();
            let end = |q: f64| all.estimate(q).unwrap().0 as f64;
            pooled_held += u32::from(end(0.5 - reach) <= truth && truth <= end(0.5 + reach));
        }
        assert!((90..=99).contains(&held), "the truth was in {held} of {worlds} bands");
        assert!(pooled_held < 30, "of the pooled times in {pooled_held}");
        // The standard deviation is 400 us / sqrt(12); 2.776 is Student's t, and 0.94 what five
        // runs make of a standard deviation on average.
        let expected = 2.776 * 0.94 * 400e3 / 12_f64.sqrt() / (RUNS as f64).sqrt();
        assert!((widths / expected - 1.0).abs() < 0.1, "{widths} for {expected} ns");
        // Runs that are alike have a narrow band.
        let (_, low, high) = banded(&runs(&[(us(990), us(1_010)); RUNS], 1));
        assert!(low <= truth && truth <= high && high - low < 5e3, "{low} {high} for {truth}");
    }
}
