//! A target server in this process: with its own thread, and its counters at the end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use prony_core::layer::Identity;
use prony_core::serve::{Serve, ServeLaw, Served};
use prony_core::shield::Shield;
use prony_core::units::Nanos;
use prony_io::{Control, Listen, Listener, Options, cpu};

use crate::error::Error;
use crate::tls;

/// What server is wanted.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// How it behaves.
    pub law: ServeLaw,
    /// The cores that it is kept on, with one worker for each; empty = one worker, anywhere. More
    /// than one worker means that each keeps the law for itself.
    pub cores: Vec<usize>,
    /// Whether it keeps the time of every arrival.
    pub arrivals: bool,
    /// Whether it speaks TLS, with a certificate of its own making.
    pub tls: bool,
}

/// A server that runs. It ends when it is dropped.
#[derive(Debug)]
pub struct LocalServer {
    /// Where it is found: `http://ADDR:PORT`, or `https`.
    pub url: String,
    control: Arc<Control>,
    thread: Option<JoinHandle<Option<Done>>>,
}

/// What a server did.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Its counters.
    pub served: Served,
    /// The time of every arrival, where it was to keep them.
    pub arrivals: Vec<Nanos>,
}

impl LocalServer {
    /// A server on a free port of the loopback device.
    pub fn start(wish: Wish) -> Result<Self, Error> {
        let any = Listen::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
        let listener = prony_io::bind(&any)?;
        let identity = wish.tls.then(|| tls::own_identity("127.0.0.1")).transpose()?;
        let scheme = if wish.tls { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local());
        let control = Arc::new(Control::new());
        let stop = Arc::clone(&control);
        let thread = thread::Builder::new()
            .name("target".into())
            .spawn(move || work(&wish, identity.as_ref(), listener, &stop))
            .map_err(|e| Error::Machine(format!("no thread for the server: {e}")))?;
        Ok(Self { url, control, thread: Some(thread) })
    }

    /// End it, and get what it did; `None` where it died.
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
    wish: &Wish,
    identity: Option<&Identity>,
    listener: Listener,
    control: &Control,
) -> Option<Done> {
    if !wish.cores.is_empty() {
        cpu::keep_to(&wish.cores).ok()?;
    }
    let machine = || {
        let mut serve = Serve::new(wish.law.clone(), 1);
        if wish.arrivals {
            serve.record_arrivals();
        }
        match identity {
            Some(identity) => Shield::new(serve, identity.clone(), vec![true]),
            None => Shield::none(serve),
        }
    };
    let machines = (0..wish.cores.len().max(1)).map(|_| machine()).collect();
    let options = Options::default();
    let ended = prony_io::serve(machines, &[listener], &options, control, &|_, _| {}).ok()?;
    let mut done = Done::default();
    for one in ended {
        done.served.merge(one.machine.inner().served());
        done.arrivals.extend_from_slice(one.machine.inner().arrivals());
    }
    Some(done)
}
