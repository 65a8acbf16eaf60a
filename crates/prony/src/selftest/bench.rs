//! The client and the target servers of a self-test, on separate cores.

use std::sync::Arc;
use std::thread;

use clap::Parser as _;
use prony_base::units::Span;
use prony_io::{Control, Options, cpu, limits};
use prony_run::error::Error;
use prony_run::interrupt::Ending;
use prony_run::local_server::{LocalServer, ServerConfig};
use prony_run::run;
use prony_run::run::Provenance;
use prony_server::serve::{Latency, ServerBehavior};
use prony_stats::summary::Summary;

use crate::cli::refusal::of_clap;
use crate::cli::{Cli, plan};
use crate::exec_options;

/// The cores of client and server, and the stop request of the user.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    /// The client's cores.
    pub(super) client: Vec<usize>,
    /// The server's cores; equal to the client's on a single core.
    pub(super) server: Vec<usize>,
    /// The stop request of the user.
    pub(super) control: Arc<Control>,
    /// Whether to print nothing to standard error.
    pub(super) quiet: bool,
}

/// Why a run has no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// The user interrupted the test.
    Interrupted,
    /// The run could not start.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Self::Error(e)
    }
}

impl Bench {
    /// Divides the cores that the process may use between client and server.
    pub(super) fn new(control: Arc<Control>) -> Self {
        let cores = cpu::allowed();
        let (client, server) = match cores.split_at(cores.len() / 2) {
            ([], all) => (all.to_vec(), all.to_vec()),
            (client, server) => (client.to_vec(), server.to_vec()),
        };
        Self { client, server, control, quiet: true }
    }

    /// Whether the user has interrupted the test.
    pub(super) fn is_interrupted(&self) -> bool {
        self.control.stop_request().is_some()
    }

    /// The maximum number of connections from this process to itself.
    pub(super) fn connections_max(&self) -> u64 {
        let (descriptors, _) = limits::raise_descriptors();
        let workers = self.client.len() + self.server.len();
        (limits::connections_that_fit(descriptors, workers) / 2).clamp(1, 4_096)
    }

    /// Starts a server with one worker thread, so that its behavior is the same for all requests.
    pub(super) fn target(
        &self,
        behavior: ServerBehavior,
        arrivals: bool,
    ) -> Result<LocalServer, Failure> {
        let cores = self.server.first().copied().into_iter().collect();
        Ok(LocalServer::start(ServerConfig { behavior, cores, arrivals, tls: false })?)
    }

    /// Starts a server with this latency and one worker thread per core, with or without TLS.
    pub(super) fn strong_target(&self, latency: Span, tls: bool) -> Result<LocalServer, Failure> {
        let behavior =
            ServerBehavior { latency: Latency::Fixed(latency), ..ServerBehavior::default() };
        Ok(LocalServer::start(ServerConfig {
            behavior,
            cores: self.server.clone(),
            arrivals: false,
            tls,
        })?)
    }

    /// Runs the load of a command line (words separated by spaces, without the URL). `change` can
    /// set options that the command line lacks.
    pub(super) fn load(
        &self,
        words: &str,
        url: &str,
        change: impl FnOnce(&mut Options) + Send,
    ) -> Result<Summary, Failure> {
        if self.is_interrupted() {
            return Err(Failure::Interrupted);
        }
        let words: Vec<&str> = ["prony"].into_iter().chain(words.split(' ')).chain([url]).collect();
        let cli = Cli::try_parse_from(words).map_err(|e| of_clap(&e))?;
        let work = || {
            cpu::pin_to(&self.client)
                .map_err(|e| Error::Machine(format!("cannot pin the client to its cores: {e}")))?;
            let planned = plan::plan(&cli.load, &exec_options::environment(&cli.load.exec, false))?;
            let mut options = exec_options::options(&cli.load.exec);
            change(&mut options);
            let mut ending = Ending::default();
            let mut watch = |live: &_| {
                if !self.quiet {
                    ending.say(&self.control, live);
                }
            };
            run::run(&planned.plan, &options, &self.control, &mut watch, Provenance::default())
        };
        let summary = thread::scope(|scope| scope.spawn(work).join());
        let panicked =
            |_| Error::Machine("a client thread panicked; this is a bug in prony".into());
        let summary = summary.map_err(panicked)??;
        if summary.run.interrupted { Err(Failure::Interrupted) } else { Ok(summary) }
    }
}
