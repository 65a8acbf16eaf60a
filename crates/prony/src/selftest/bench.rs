//! The two sides of a self-test: a client on its cores, a target server on others.

use std::sync::Arc;
use std::thread;

use clap::Parser as _;
use prony_core::serve::{Latency, ServeLaw};
use prony_core::summary::Summary;
use prony_core::units::Span;
use prony_io::{Control, Options, cpu, limits};
use prony_run::error::Error;
use prony_run::interrupt::Ending;
use prony_run::local_server::{LocalServer, Wish};
use prony_run::run;
use prony_run::run::Provenance;

use crate::cli::refusal::of_clap;
use crate::cli::{Cli, plan};
use crate::means;

/// Who is where, and what ends it.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    /// The client's cores.
    pub(super) client: Vec<usize>,
    /// The server's; the same where there is only one.
    pub(super) server: Vec<usize>,
    /// What the user ends it with.
    pub(super) control: Arc<Control>,
    /// Whether standard error is left alone.
    pub(super) quiet: bool,
}

/// Why there is no result.
#[derive(Debug)]
pub(super) enum Why {
    /// The user has ended the test.
    Ended,
    /// It was refused, for a reason that is a whole sentence.
    Refused(Error),
}

impl From<Error> for Why {
    fn from(e: Error) -> Self {
        Self::Refused(e)
    }
}

impl Bench {
    /// The cores that the process may use, parted between client and server.
    pub(super) fn new(control: Arc<Control>) -> Self {
        let cores = cpu::allowed();
        let (client, server) = match cores.split_at(cores.len() / 2) {
            ([], all) => (all.to_vec(), all.to_vec()),
            (client, server) => (client.to_vec(), server.to_vec()),
        };
        Self { client, server, control, quiet: true }
    }

    /// Whether the user has ended it.
    pub(super) fn is_ended(&self) -> bool {
        self.control.stop_request().is_some()
    }

    /// The most connections from this process to itself.
    pub(super) fn connections_max(&self) -> u64 {
        let (descriptors, _) = limits::raise_descriptors();
        let workers = self.client.len() + self.server.len();
        (limits::connections_that_fit(descriptors, workers) / 2).clamp(1, 4_096)
    }

    /// A server with one worker, so that its law is one for all requests.
    pub(super) fn target(&self, law: ServeLaw, arrivals: bool) -> Result<LocalServer, Why> {
        let cores = self.server.first().copied().into_iter().collect();
        Ok(LocalServer::start(Wish { law, cores, arrivals, tls: false })?)
    }

    /// A server with a worker on each of its cores, that answers after that time, over TLS or not.
    pub(super) fn strong_target(&self, latency: Span, tls: bool) -> Result<LocalServer, Why> {
        let law = ServeLaw { latency: Latency::Fixed(latency), ..ServeLaw::default() };
        Ok(LocalServer::start(Wish { law, cores: self.server.clone(), arrivals: false, tls })?)
    }

    /// A load as a command line would ask for it (its words parted by blanks, without the URL);
    /// `change` may change what a command line cannot.
    pub(super) fn load(
        &self,
        words: &str,
        url: &str,
        change: impl FnOnce(&mut Options) + Send,
    ) -> Result<Summary, Why> {
        if self.is_ended() {
            return Err(Why::Ended);
        }
        let words: Vec<&str> = ["prony"].into_iter().chain(words.split(' ')).chain([url]).collect();
        let cli = Cli::try_parse_from(words).map_err(|e| of_clap(&e))?;
        let work = || {
            cpu::keep_to(&self.client).map_err(|e| {
                Error::Machine(format!("the client cannot be kept on its cores: {e}"))
            })?;
            let planned = plan::plan(&cli.load, &means::environment(&cli.load.means, false))?;
            let mut options = means::options(&cli.load.means);
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
        let died =
            || Error::Machine("a thread of the client died of a defect in prony itself".into());
        let summary = summary.map_err(|_| died())??;
        if summary.run.interrupted { Err(Why::Ended) } else { Ok(summary) }
    }
}
