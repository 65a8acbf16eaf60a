//! `prony spectrum`: round trips over lengths and transports.

use prony_core::plan::Plan;
use prony_core::rng::{Sequence, Stream};
use prony_core::summary::Summary;

use super::load::stoppable;
use super::rtt::with_sockets;
use crate::cli::plan::{check_sources, drawn_seed, means};
use crate::cli::rtt::exchange;
use crate::cli::spectrum::SpectrumArgs;
use crate::cli::tls;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{self, Outputs};
use crate::report::spectrum::Spectrum;
use crate::report::{Format, units, words};
use crate::run;

/// What is measured over and over: one length over one transport.
struct Cell {
    transport: String,
    size: u32,
    plan: Plan,
}

/// Measure every length over every transport, as often as is asked, in random order; Ctrl-C keeps
/// what there is.
pub(super) fn spectrum(args: &SpectrumArgs, typed: Vec<String>) -> Result<Exit, Error> {
    check_sources(&args.means)?;
    let seed = args.means.seed.unwrap_or_else(drawn_seed);
    let (cells, transports) = cells(args, seed)?;
    if args.means.timestamps {
        let why = "it tells one figure of each run; `prony rtt --timestamps` tells the phases";
        return Err(Error::Conflict("--timestamps", "prony spectrum", why));
    }
    let outputs = Outputs::prepare(&args.output)?;
    outputs.only(&[Format::Svg, Format::Png, Format::Json, Format::Csv])?;
    let control = stoppable()?;
    let mut found = Spectrum::new();
    let mut rng = Sequence::new(seed, Stream::Pick);
    let all = cells.len() * args.repeat as usize;
    let mut done = 0;
    'repetitions: for _ in 0..args.repeat {
        for i in shuffled(cells.len(), &mut rng) {
            if control.stop_request().is_some() {
                break 'repetitions;
            }
            let Cell { transport, size, plan } = &cells[i];
            let options = with_sockets(plan, &args.means, &args.messages);
            let mut one = run::run(plan, &options, &control, &mut |_| {}, Vec::new(), Vec::new())?;
            one.run.percentile = args.means.percentile;
            found.doubts.extend(doubt(&one, transport, *size, control.stop_request().is_some()));
            if one.main.started > 0 {
                found.add(transport, *size, args.messages.reply_size, &one.main);
            }
            (found.version, found.host) = (one.run.version.clone(), one.run.host.clone());
            done += 1;
            if !args.quiet {
                let p50 = one.main.times.service.quantile(0.5).map(units::span);
                output::to_stderr(&format!(
                    "prony: {done} of {all}: {transport}, {}: p50 {}",
                    units::counted(u64::from(*size), "byte", "bytes"),
                    p50.unwrap_or_else(|| "unknown".into()),
                ));
            }
        }
    }
    found.notes = means(&args.means);
    found.notes.extend(args.messages.sctp.note());
    found.tell_doubts(all);
    found.interrupted = control.stop_request().is_some();
    found.seed = seed;
    found.command = typed;
    found.sort(&transports);
    finish(args, &found, outputs)
}

/// Why the figures of one measurement cannot be defended; nothing of one that the user has ended.
fn doubt(one: &Summary, transport: &str, size: u32, ended: bool) -> Option<String> {
    let judgement = one.verdict();
    let reason = judgement.reasons.first().filter(|_| !ended)?;
    let size = units::counted(u64::from(size), "byte", "bytes");
    let (word, reason) = (judgement.verdict.word(), words::limit(reason, one));
    Some(format!("{transport}, {size}: {word}: {reason}"))
}

fn cells(args: &SpectrumArgs, seed: u64) -> Result<(Vec<Cell>, Vec<String>), Error> {
    let (mut cells, mut transports) = (Vec::new(), Vec::new());
    let secured = tls::spec(&args.tls)?;
    let pairs = args.pairs()?;
    let named: Vec<_> = pairs.iter().map(|(transport, _)| *transport).collect();
    args.messages.sctp.check(&named, args.means.driver, args.messages.nagle)?;
    for (transport, place) in pairs {
        let name = transport.name().to_owned();
        if transports.contains(&name) {
            continue;
        }
        let mut endpoint = transport.endpoint(&place)?;
        if endpoint.tls_name().is_some() {
            tls::rename(&args.tls, std::slice::from_mut(&mut endpoint))?;
        }
        for &size in &args.size.0 {
            let mut plan = exchange(endpoint.clone(), &[size], &args.messages);
            plan.stop.requests = Some(args.exchanges);
            plan.stop.duration = args.duration;
            plan.tls.clone_from(&secured);
            plan.seed = seed;
            plan.check().map_err(|why| {
                Error::Plan(format!(
                    "{name}, {}: {why}",
                    units::counted(size.into(), "byte", "bytes")
                ))
            })?;
            cells.push(Cell { transport: name.clone(), size, plan });
        }
        transports.push(name);
    }
    Ok((cells, transports))
}

/// The numbers below `n` in random order.
fn shuffled(n: usize, rng: &mut Sequence) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    order
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
        (false, false) if found.doubts.is_empty() || args.means.accept_invalid => Exit::Done,
        (false, false) => Exit::NotValid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_has_every_cell_once() {
        let mut rng = Sequence::new(7, Stream::Pick);
        let orders: Vec<_> = (0..4).map(|_| shuffled(17, &mut rng)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..17).collect::<Vec<_>>());
        }
        assert_ne!(orders[0], orders[1]);
    }
}
