//! What the report of a replay says of the log, and of what was made of it.

use prony_base::units::Span;
use prony_plan::plan::CallSpec;
use prony_replay::dispersion::WINDOWS;
use prony_replay::{By, FileFacts, Replay, SPEED};
use prony_stats::summary::{BadLine, Burstiness, LogBodies, LogRead, Replayed, Summary};

use crate::cli::replay::ReplayArgs;

/// Completes the report: the log, and what was made of it.
pub(super) fn complete(summary: &mut Summary, replay: &Replay, args: &ReplayArgs) {
    let handed = replay.handed();
    // The calls differ in what the log has.
    let base = summary.plan.calls.first().map(|call| CallSpec { name: None, ..call.clone() });
    summary.plan.calls = base.into_iter().collect::<Vec<_>>().into();
    let burstiness = WINDOWS.iter().zip(handed.logged).zip(handed.replayed);
    let burstiness = burstiness.filter(|((_, logged), replayed)| logged.or(*replayed).is_some());
    let has_times = handed.took.iter().any(|took| !took.is_empty());
    let (took_blocks, took_step) = (handed.took_blocks(), handed.took_step());
    let took = if has_times { handed.took } else { Vec::new() };
    summary.run.replay = Some(Box::new(Replayed {
        logs: handed.files.iter().map(log).collect(),
        speed: args.speed as f64 / SPEED as f64,
        copies: args.scale,
        shift: args.scale_shift,
        sample: args.sample.as_ref().map(|(_, text)| text.clone()),
        repeats: args.repeats,
        burstiness: burstiness
            .map(|((window, logged), replayed)| Burstiness {
                window: Span(*window),
                logged,
                replayed,
            })
            .collect(),
        took,
        took_blocks,
        took_step: if has_times { took_step } else { Span::ZERO },
        by: (args.by != By::Nobody).then(|| format!("{:?}", args.by).to_lowercase()),
        only_until_sent: args.by != By::Nobody && !args.wait,
        held: handed.held,
        bodies: replay.bodies().map(|bodies| LogBodies {
            file: args.bodies.as_ref().map(|file| file.display().to_string()).unwrap_or_default(),
            bodies: bodies.count(),
            keys: bodies.keys(),
            missing: handed.missing.requests,
            no_key: handed.missing.no_key,
            missing_keys: handed.missing.keys,
        }),
        read_late: handed.late,
        read_late_most: handed.late_most,
        failed: handed.failed,
    }));
}

fn log(file: &FileFacts) -> LogRead {
    let facts = &file.facts;
    let bad = |bad: &prony_replay::BadLine| BadLine {
        line: bad.line,
        why: bad.why.to_string(),
        text: bad.text.clone(),
    };
    LogRead {
        file: file.path.display().to_string(),
        format: file.format.to_owned(),
        times: file.times.clone(),
        bytes: facts.bytes,
        lines: facts.lines,
        requests: facts.requests,
        no_request: facts.no_request,
        other_method: facts.other_method,
        bad: facts.bad,
        first_bad: facts.first_bad.iter().map(bad).collect(),
        spread: facts.spread,
        moved: facts.moved,
        moved_most: Span(facts.moved_most),
    }
}
