//! A target server in a thread of this process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use prony_base::merge::Merge;
use prony_base::units::Nanos;
use prony_io::{Control, Listen, Listener, Options, cpu};
use prony_proto::layer::Identity;
use prony_server::serve::{Serve, Served, ServerBehavior};
use prony_server::tls_server::TlsServer;

use crate::error::Error;
use crate::tls;

/// The configuration of a server.
#[derive(Clone, Debug, Default)]
pub struct ServerConfig {
    /// Its behavior.
    pub behavior: ServerBehavior,
    /// The cores to run on, with one worker thread each; empty: one thread on any core. Each worker
    /// thread applies the behavior separately.
    pub cores: Vec<usize>,
    /// Whether to record the time of every arrival.
    pub arrivals: bool,
    /// Whether to use TLS, with a self-signed certificate.
    pub tls: bool,
}

/// A running server. It stops when it is dropped.
#[derive(Debug)]
pub struct LocalServer {
    /// Its URL: `http://ADDR:PORT` or `https://ADDR:PORT`.
    pub url: String,
    control: Arc<Control>,
    thread: Option<JoinHandle<Option<Done>>>,
}

/// The result of a server.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Its counters.
    pub served: Served,
    /// The time of every arrival, if recorded.
    pub arrivals: Vec<Nanos>,
}

impl LocalServer {
    /// Starts a server on a free port of the loopback device.
    pub fn start(config: ServerConfig) -> Result<Self, Error> {
        let any = Listen::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
        let listener = prony_io::bind(&any)?;
        let identity = config.tls.then(|| tls::own_identity("127.0.0.1")).transpose()?;
        let scheme = if config.tls { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local());
        let control = Arc::new(Control::new());
        let stop = Arc::clone(&control);
        let thread = thread::Builder::new()
            .name("target".into())
            .spawn(move || work(&config, identity.as_ref(), listener, &stop))
            .map_err(|e| Error::Machine(format!("cannot start a thread for the server: {e}")))?;
        Ok(Self { url, control, thread: Some(thread) })
    }

    /// Stops the server and returns its result; `None` if it panicked.
    pub fn stop(mut self) -> Option<Done> {
        self.control.stop_now();
        self.thread.take()?.join().ok().flatten()
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        self.control.stop_now();
    }
}

fn work(
    config: &ServerConfig,
    identity: Option<&Identity>,
    listener: Listener,
    control: &Control,
) -> Option<Done> {
    if !config.cores.is_empty() {
        cpu::pin_to(&config.cores).ok()?;
    }
    let machine = || {
        let mut serve = Serve::new(config.behavior.clone(), 1);
        if config.arrivals {
            serve.record_arrivals();
        }
        match identity {
            Some(identity) => TlsServer::new(serve, identity.clone(), vec![true]),
            None => TlsServer::none(serve),
        }
    };
    let machines = (0..config.cores.len().max(1)).map(|_| machine()).collect();
    let options = Options::default();
    let ended = prony_io::serve(machines, &[listener], &options, control, &|_, _| {}).ok()?;
    let mut done = Done::default();
    for one in ended {
        done.served.merge(one.machine.inner().served());
        done.arrivals.extend_from_slice(one.machine.inner().arrivals());
    }
    Some(done)
}
