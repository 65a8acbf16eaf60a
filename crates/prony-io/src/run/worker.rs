//! Runs a load from plan to tallies: resolves names, checks limits, runs workers, collects results.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use prony_base::feed::Feed;
use prony_base::merge::Merge;
use prony_base::meter::{CpuPressure, WorkerStats};
use prony_base::units::{Nanos, Span};
use prony_core::engine::{self, AnyEngine, Contact};
use prony_plan::plan::{Load, Plan, ProxySpec, Think};
use prony_plan::target::{Carrier, Endpoint};
use prony_proto::layer::TlsContext;
use prony_tally::record::Tally;

use super::control::Control;
use super::crew::{Crew, Done};
use super::gauges::{Gauge, Live};
use super::options::Options;
use crate::drivers::config::{Config, DriverChoice};
use crate::drivers::userspace;
use crate::error::{Refusal, SetupError};
use crate::host::cpu;
use crate::host::limits;
use crate::host::memory;
use crate::host::pressure::Accounts;
use crate::net::errno;
use crate::net::ports;
use crate::net::resolve::{self, Resolver};
use crate::net::socket::options::SocketOptions;
use crate::net::socket::{self, Mode, Remote, sctp};
use crate::net::timestamps;
use crate::time::sleep::Precision;

/// The fewest requests, or messages on streams, for which `auto` selects io_uring. Setting it up
/// takes 1.7 ms of CPU time on each thread, and it saves less than a microsecond per request on
/// connections that stay open.
const WORTH_A_RING: u64 = 5_000;

/// The result of a load.
#[derive(Debug)]
pub struct Outcome {
    /// The executed plan: the limits of the machine may have lowered its connection limit, and the
    /// rate may have changed during the run.
    pub plan: Plan,
    /// Warm-up (if the plan has one) and measurement, per worker.
    pub tallies: Vec<(Option<Tally>, Tally)>,
    /// Statistics of the meter itself, per worker.
    pub workers: Vec<WorkerStats>,
    /// The driver's name.
    pub driver: &'static str,
    /// The addresses of the plan's endpoints.
    pub addresses: Vec<Vec<String>>,
    /// The descriptor limit of the process.
    pub descriptor_limit: u64,
    /// Whether the run was stopped early.
    pub interrupted: bool,
    /// Whether the load ended because every connection failed ([`Options::needs_contact`]).
    pub out_of_reach: bool,
    /// How long after the agreed start the last worker started; `None` without an agreed start.
    pub start_late: Option<Span>,
    /// Throttled and stolen CPU time.
    pub cpu_pressure: CpuPressure,
    /// Notes for the reader of the report, as sentences.
    pub notes: Vec<String>,
}

impl Outcome {
    /// The merged results of all workers: warm-up and measurement.
    pub fn merged(&self) -> (Option<Tally>, Tally) {
        let mut all = self.tallies.iter();
        let Some((warm, main)) = all.next() else { return (None, Tally::default()) };
        let (mut warm, mut main) = (warm.clone(), main.clone());
        for (w, m) in all {
            main.merge(m);
            match (&mut warm, w) {
                (Some(sum), Some(w)) => sum.merge(w),
                (None, Some(w)) => warm = Some(w.clone()),
                (_, None) => {}
            }
        }
        main.settle();
        (warm, main)
    }
}

/// Run a load. All checks come before the first request. Calls `on_progress` from this thread about
/// 20 times a second.
pub fn run(
    plan: &Plan,
    options: &Options,
    control: &Control,
    on_progress: &mut dyn FnMut(&Live),
) -> Result<Outcome, SetupError> {
    let plan = &plan.clone().of_process();
    control.limit_drain(options.drain);
    let setup = Setup::new(plan, options)?;
    let _keeper = options.timestamps.then(|| timestamps::ready(&setup.endpoints)).transpose()?;
    let shards: Vec<Plan> =
        (0..setup.workers).map(|i| setup.plan.shard(i as u32, setup.workers as u32)).collect();
    let gauges: Vec<Gauge> = shards.iter().map(|_| Gauge::default()).collect();
    let crew = Crew {
        control,
        driver: setup.driver,
        cores: if options.pin { cpu::allowed() } else { Vec::new() },
        realtime: options.realtime,
        timed: is_timed(plan),
        start_at: options.start_at,
    };
    // A log is read ahead before the load starts.
    let feeds = options.feeds.as_ref().map(|feeds| feeds.make(setup.workers as u32));
    let feeds: Vec<Mutex<Option<Box<dyn Feed>>>> =
        feeds.into_iter().flatten().map(|feed| Mutex::new(Some(feed))).collect();
    let mut accounts = Accounts::read();
    let backlog = memory::backlog(setup.workers);
    let contact = options.needs_contact.then(Arc::<Contact>::default);
    let done = crew.work(
        setup.configs(options),
        &|i| {
            let tls = options.tls.as_ref().map(TlsContext::for_worker);
            let mut engine = engine::of_plan(&shards[i], tls);
            engine.limit_backlog(backlog);
            if let Some(feed) = feeds.get(i).and_then(|feed| feed.lock().ok()?.take()) {
                engine.replay(feed);
            }
            if options.timestamps {
                engine.expect_stamps();
            }
            prepare(&mut *engine, options, contact.as_ref());
            engine
        },
        |engine| &mut **engine,
        &|i, engine, now, spun| {
            let engine = &mut **engine;
            if options.adjustable_rate {
                gauges[i].apply_changes(control, engine, now);
            }
            gauges[i].show(engine, now, options.detail, spun);
            if options.blocks {
                gauges[i].show_blocks(engine);
            }
        },
        Some(&mut |now| {
            // The wait for the agreed start is not part of the run.
            if now == Nanos::ZERO {
                accounts = Accounts::read();
            }
            on_progress(&Live::of(&gauges, now, options.detail));
        }),
    )?;
    let cpu_pressure = Accounts::read().since(&accounts);
    let late = done.iter().flatten().map(|done| done.start_late).max();
    let start_late = late.filter(|_| options.start_at.is_some());
    let out_of_reach = contact.is_some_and(|contact| contact.has_ended());
    Ok(Outcome { cpu_pressure, start_late, out_of_reach, ..setup.outcome(done, control)? })
}

/// Check whether the load can be started, as [`run`] does first.
///
/// # Errors
/// The same.
pub fn check(plan: &Plan, options: &Options) -> Result<(), SetupError> {
    Setup::new(plan, options).map(drop)
}

/// Prepare an engine for these options.
fn prepare(engine: &mut dyn AnyEngine, options: &Options, contact: Option<&Arc<Contact>>) {
    if let Some(contact) = contact {
        engine.share_contact(Arc::clone(contact));
    }
    if options.keep_requests {
        engine.keep_requests();
    }
    if options.keep_service {
        engine.keep_service();
    }
    if options.adjustable_rate {
        engine.expect_rate_changes();
    }
    if let Some(observer) = &options.observer {
        engine.observe(observer.clone());
    }
    if let Some(directors) = &options.directors {
        engine.direct(directors.make());
    }
    if let Some(taps) = &options.taps {
        engine.tap(taps.make());
    }
    if let Some(peak) = &options.peak {
        engine.share_peak(Arc::clone(peak));
    }
    if let Some(tokenizer) = &options.tokenizer {
        engine.count_tokens(Arc::clone(tokenizer));
    }
}

/// Everything determined before the first worker starts.
struct Setup {
    plan: Plan,
    workers: usize,
    driver: DriverChoice,
    endpoints: Vec<Vec<Remote>>,
    /// Settings of userspace SCTP, if it is used.
    userspace: Option<userspace::Settings>,
    descriptor_limit: u64,
    notes: Vec<String>,
}

impl Setup {
    fn new(plan: &Plan, options: &Options) -> Result<Self, SetupError> {
        if plan.sessions.as_ref().is_some_and(|s| s.directed) && options.directors.is_none() {
            return Err(SetupError::NoDirector);
        }
        if plan.is_logged() && options.feeds.is_none() {
            return Err(SetupError::NoFeed);
        }
        let resolver = Resolver {
            family: options.family,
            connect_to: options.connect_to.as_ref(),
            unix_socket: options.unix_socket.as_ref(),
            sources: &options.sources,
        };
        // The proxy alone knows the addresses of the servers behind it.
        let proxy = plan.proxy.as_deref().map(ProxySpec::endpoint);
        let reached = plan.endpoints.iter().map(|endpoint| proxy.as_ref().unwrap_or(endpoint));
        let endpoints: Vec<Vec<Remote>> =
            reached.map(|endpoint| resolver.resolve(endpoint)).collect::<Result<_, _>>()?;
        resolve::check_sources(&options.sources)?;
        let userspace = options.sockets.userspace.filter(|_| plan.endpoints.iter().any(is_sctp));
        match &userspace {
            Some(settings) => check_userspace(plan, options, settings)?,
            None => endpoints.iter().flatten().try_for_each(check_kind)?,
        }
        let mut notes = Vec::new();
        for remote in endpoints.iter().flatten() {
            let datagrams = userspace.map(|_| remote.clone().over(Carrier::Udp));
            let remote = datagrams.as_ref().unwrap_or(remote);
            notes.extend(socket::options::check(remote, &options.sockets)?);
        }
        notes.sort();
        notes.dedup();
        notes.extend(timestamps_note(options.timestamps, options.driver));

        let threads = options.threads.unwrap_or_else(|| cpu::allowed().len());
        let connections = plan.connections_max();
        let workers = threads.min(plan.shards_max() as usize).max(1);
        let (descriptor_limit, _) = limits::raise_descriptors();
        let mut setup = Self {
            plan: plan.clone(),
            workers,
            driver: match options.driver {
                DriverChoice::Auto if is_ping_pong(plan, workers) => DriverChoice::Direct,
                // io_uring cannot read error queues or control data.
                _ if options.timestamps => DriverChoice::Epoll,
                DriverChoice::Uring if plan.endpoints.iter().all(is_sctp) => DriverChoice::Uring,
                // The buffers of io_uring would truncate datagrams. (The rest of an SCTP message
                // comes with the next read.)
                _ if plan.endpoints.iter().any(Endpoint::keeps_boundaries) => DriverChoice::Epoll,
                DriverChoice::Auto if auto_prefers_uring(plan) => DriverChoice::Auto,
                DriverChoice::Auto => DriverChoice::Epoll,
                chosen => chosen,
            },
            endpoints,
            userspace,
            descriptor_limit,
            notes,
        };
        if !(options.over_limits && matches!(plan.load, Load::Open { .. })) {
            setup.check_descriptors(connections)?;
            setup.check_ports(connections, options)?;
        }
        Ok(setup)
    }

    fn check_descriptors(&mut self, asked: u64) -> Result<(), SetupError> {
        let limit = self.descriptor_limit;
        let fit = limits::connections_that_fit(limit, self.workers);
        // In a closed loop, each connection may become one per endpoint.
        let most = asked * self.plan.endpoints.len() as u64;
        if asked > fit {
            if !self.lower_connection_limit(asked, fit) {
                return Err(SetupError::Descriptors { asked, fit, limit });
            }
        } else if most > fit && matches!(self.plan.load, Load::Closed { .. }) {
            self.notes.push(format!(
                "With one connection to each of the {} targets, the {asked} connections may become \
                 {most}, but the limit of {limit} open files allows {fit}.",
                self.plan.endpoints.len(),
            ));
        }
        Ok(())
    }

    fn check_ports(&mut self, asked: u64, options: &Options) -> Result<(), SetupError> {
        let mut to: Vec<SocketAddr> = Vec::new();
        for all in &self.endpoints {
            // A unix socket needs no port.
            let Some(first) = all.first().and_then(Remote::as_inet) else { return Ok(()) };
            if !to.contains(&first) {
                to.push(first);
            }
        }
        let all = options.sockets.all_ports.then_some(u64::from(ports::COUNT));
        let Some(ports) = all.or_else(limits::local_ports) else { return Ok(()) };
        let fit = limits::port_pairs(ports, &options.sources, to.len());
        if asked > fit && !self.lower_connection_limit(asked, fit) {
            return Err(SetupError::Ports { asked, fit });
        }
        Ok(())
    }

    /// Lower the connection limit of an open loop. Returns false for other loads.
    fn lower_connection_limit(&mut self, asked: u64, fit: u64) -> bool {
        let Load::Open { connections, .. } = &mut self.plan.load else { return false };
        if fit == 0 {
            return false;
        }
        // The limit applies to the whole plan, and this may be a shard.
        let whole = fit * u64::from(self.plan.shard.of);
        self.plan.connections_planned.get_or_insert(*connections);
        *connections = u32::try_from(whole).unwrap_or(u32::MAX).min(*connections);
        self.notes.push(format!(
            "The limits of this machine reduce the connection limit from {asked} to {fit}."
        ));
        true
    }

    fn configs(&self, options: &Options) -> Vec<Config> {
        // Measuring the wake-up lateness takes 20 ms, and is useful only for timed requests.
        let precision = match options.precision {
            Precision::Auto if !is_timed(&self.plan) => Precision::Sleep,
            chosen => chosen,
        };
        (0..self.workers)
            .map(|i| {
                let mut sources = options.sources.clone();
                let n = sources.len().max(1);
                sources.rotate_left(i % n);
                Config {
                    endpoints: self.endpoints.clone(),
                    listeners: Vec::new(),
                    dedicated: None,
                    sources,
                    sockets: SocketOptions { userspace: self.userspace, ..options.sockets },
                    worker: (i, self.workers),
                    precision,
                    tcp_info: options.tcp_info,
                    timestamps: options.timestamps,
                }
            })
            .collect()
    }

    fn outcome(
        mut self,
        done: Vec<Option<Done<Box<dyn AnyEngine + Send>>>>,
        control: &Control,
    ) -> Result<Outcome, SetupError> {
        let lost = done.iter().filter(|d| d.is_none()).count();
        if lost > 0 {
            self.notes.push(format!(
                "{lost} of {} workers panicked, which is a bug in prony; their results are missing.",
                done.len()
            ));
        }
        let done: Vec<_> = done.into_iter().flatten().collect();
        let driver = done.first().ok_or(SetupError::Died)?.driver;
        let (tallies, workers) = done.into_iter().map(|d| (d.machine.finish(), d.meter)).unzip();
        let rate_changes = control.rate_changes();
        let begin = Nanos::ZERO + self.plan.warmup;
        if let Some(rate) = self.plan.load.adjustable_rate().filter(|_| !rate_changes.is_empty()) {
            *rate = rate.with_changes(begin, &rate_changes);
        }
        let names = |all: &Vec<Remote>| all.iter().map(ToString::to_string).collect();
        Ok(Outcome {
            plan: self.plan,
            tallies,
            workers,
            driver,
            addresses: self.endpoints.iter().map(names).collect(),
            descriptor_limit: self.descriptor_limit,
            interrupted: control.stop_request().is_some(),
            out_of_reach: false,
            start_late: None,
            cpu_pressure: CpuPressure::default(),
            notes: self.notes,
        })
    }
}

/// A note if timestamps are `wanted`, but the selected driver cannot read them.
fn timestamps_note(wanted: bool, asked: DriverChoice) -> Option<String> {
    let text = "io_uring cannot read the kernel's timestamps: the epoll driver was used instead.";
    (wanted && asked == DriverChoice::Uring).then(|| text.to_owned())
}

/// Whether requests are due at given times: arrivals, sessions, or users after their think time.
fn is_timed(plan: &Plan) -> bool {
    let waits = !matches!(plan.load, Load::Closed { think: Think::None, .. });
    let timed = plan.clients.as_ref().is_some_and(|clients| clients.is_timed());
    waits || plan.sessions.is_some() || timed
}

/// Whether each worker has one connection with one exchange in flight, so that its calls can block.
fn is_ping_pong(plan: &Plan, workers: usize) -> bool {
    let Load::Closed { connections, think: Think::None } = plan.load else { return false };
    let alone = plan.exchange.is_some() && plan.pipeline == 1 && plan.endpoints.len() == 1;
    alone && plan.shard.share_of(u64::from(connections)) <= workers as u64
}

/// Whether measurements show io_uring to be at least as fast as epoll for such a plan: closed loops
/// with one request in flight per connection, and loads with one connection per request. Otherwise
/// the two are equal within the noise, and epoll uses less memory
/// (docs/design/2026-11-21-drivers.md). Sessions are not measured yet.
pub fn auto_prefers_uring(plan: &Plan) -> bool {
    let each = plan.messages.as_ref().and_then(|m| m.count).unwrap_or(1);
    if plan.stop.requests.is_some_and(|n| n.saturating_mul(each) < WORTH_A_RING) {
        return false;
    }
    let closed = matches!(plan.load, Load::Closed { .. }) && plan.sessions.is_none();
    plan.requests_per_connection == Some(1) || (closed && plan.pipeline == 1)
}

/// Check that the kernel supports this kind of socket.
fn check_kind(remote: &Remote) -> Result<(), SetupError> {
    if remote.is_plain_stream() {
        return Ok(());
    }
    if let Some(style) = remote.sctp() {
        let socket = sctp::socket(style, false, Mode::Blocking);
        return socket.map(drop).map_err(|error| SetupError::NoSctp { error });
    }
    match remote.socket(None, Mode::NonBlocking) {
        Ok(_) => Ok(()),
        Err(e) => {
            let error = io::Error::from_raw_os_error(e);
            // Other errors are counted when connecting.
            if errno::is_unsupported(&error) {
                return Err(SetupError::Lacks { to: remote.to_string(), error });
            }
            Ok(())
        }
    }
}

fn is_sctp(endpoint: &Endpoint) -> bool {
    matches!(endpoint, Endpoint::Inet { over: Carrier::Sctp | Carrier::SctpSeqpacket, .. })
}

/// Check that userspace SCTP supports the plan.
fn check_userspace(
    plan: &Plan,
    options: &Options,
    settings: &userspace::Settings,
) -> Result<(), Refusal> {
    userspace::ready(settings)?;
    let several = |e: &Endpoint| matches!(e, Endpoint::Inet { host, .. } if host.contains(','));
    if plan.endpoints.iter().any(several) {
        return Err(Refusal::OnePath { what: "the target" });
    }
    if options.sources.len() > 1 {
        return Err(Refusal::OnePath { what: "this side (--source)" });
    }
    let messages = plan.exchange.iter().flat_map(|e| &e.messages);
    let max = userspace::SIZE_MAX;
    match messages.map(|m| m.request.max(m.reply)).find(|&size| size > max) {
        Some(size) => Err(Refusal::TooLong { size, max }),
        None => Ok(()),
    }
}
