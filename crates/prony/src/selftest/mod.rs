//! The self-test: compares measurements on this host with known values, finds the limits of the
//! host, and suggests improvements. Described in `docs/selftest.md`.

pub(crate) mod advice;
mod bench;
pub(crate) mod cite;
mod experiments;
mod floor;
mod limits;
pub(crate) mod record;
mod text;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use prony_base::units::Span;
use prony_io::Control;
use prony_io::cpu;
use prony_io::host::Host;
use prony_io::pressure::Accounts;

use advice::Usage;
use bench::{Bench, Failure};
use limits::KINDS;
use prony_run::error::Error;
use record::{Record, SCHEMA};
pub(crate) use text::text;

/// When searches stop.
const SEARCH_UNTIL: Duration = Duration::from_secs(26);
/// After this time, failed checks are not tried again.
const RETRY_UNTIL: Duration = Duration::from_secs(9);

/// The parameters of a self-test.
pub(crate) struct Request<'a> {
    /// Whether to take only a few seconds.
    pub(crate) quick: bool,
    /// Whether to print nothing to standard error.
    pub(crate) quiet: bool,
    /// The stop request of the user.
    pub(crate) control: Arc<Control>,
    /// Called with the name of each step before it starts.
    pub(crate) progress: &'a mut dyn FnMut(&str),
}

/// Runs the self-test. After an interruption, the record has the results so far.
///
/// # Errors
/// The host refuses a resource that every run needs.
pub(crate) fn run(request: Request<'_>) -> Result<Record, Error> {
    let (start, before, host) = (Instant::now(), Accounts::read(), Host::look());
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
    let bench = Bench { quiet: request.quiet, ..Bench::new(request.control) };
    let mut record = Record {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").into(),
        started_unix: started,
        seconds: 0.0,
        quick: request.quick,
        interrupted: false,
        passed: false,
        host,
        client_cores: bench.client.clone(),
        server_cores: bench.server.clone(),
        checks: Vec::new(),
        floor: None,
        lags: Vec::new(),
        rates: Vec::new(),
        others: None,
        advice: Vec::new(),
    };
    let stages = Stages { bench: &bench, quick: request.quick, start };
    match stages.all(&mut record, request.progress) {
        Ok(()) => record.passed = record.checks.iter().all(|c| c.passed),
        Err(Failure::Interrupted) => record.interrupted = true,
        Err(Failure::Error(e)) => return Err(e),
    }
    record.seconds = start.elapsed().as_secs_f64();
    let (user, system) = cpu::process_times();
    let usage = Usage {
        duration: Span::from_secs_f64(record.seconds),
        own: user + system,
        cpu_pressure: Accounts::read().since(&before),
    };
    record.others = advice::share_of_others(&record.host, &usage);
    record.advice = advice::advice(&record.host, &usage);
    Ok(record)
}

/// The steps of the self-test.
struct Stages<'a> {
    bench: &'a Bench,
    quick: bool,
    start: Instant,
}

impl Stages<'_> {
    fn all(&self, record: &mut Record, progress: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        let drivers: &[&str] = if self.quick { &["auto"] } else { &["epoll", "uring"] };
        for experiment in experiments::experiments(self.quick, self.bench.connections_max()) {
            progress(&format!("check: {}", experiment.name()));
            record.checks.push(experiment.run(self.bench, self.retry_until())?);
        }
        progress("shortest times");
        record.floor = Some(floor::floor(self.bench, drivers, self.quick));
        let target = self.bench.strong_target(limits::SERVICE, false)?;
        let secured = self.bench.strong_target(limits::SERVICE, true)?;
        let rates: &[u64] = if self.quick { &[200, 5_000] } else { &[100, 1_000, 10_000, 50_000] };
        for &rate in rates {
            progress(&format!("send lag at {rate} requests/s"));
            record.lags.push(limits::lag(self.bench, &target.url, rate, self.quick)?);
        }
        let (runs, length) = if self.quick { (3, 100) } else { (4, 300) };
        for &driver in drivers {
            for kind in KINDS {
                progress(&format!("highest rate: {} load, {driver}", kind.name));
                let effort = (runs, Span::from_millis(length));
                let until = self.start + SEARCH_UNTIL;
                let url = if kind.is_secured { &secured.url } else { &target.url };
                let found = limits::highest(self.bench, url, (kind, driver), effort, until)?;
                record.rates.push(found);
                // An interrupted search returns its best result so far.
                if self.bench.is_interrupted() {
                    return Err(Failure::Interrupted);
                }
            }
        }
        Ok(())
    }

    /// Until when a failed check may be tried again.
    fn retry_until(&self) -> Instant {
        self.start + if self.quick { RETRY_UNTIL / 3 } else { RETRY_UNTIL }
    }
}
