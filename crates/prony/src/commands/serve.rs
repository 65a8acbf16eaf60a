//! `prony serve`: the target server.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::path::Path;

use prony_base::units::Nanos;
use prony_io::{Listen, Options};
use prony_proto::layer::Identity;
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::interrupt::stoppable;
use prony_run::output;
use prony_server::serve::{Serve, Served};
use prony_server::tls_server::{Handshakes, TlsServer};
use serde::Serialize;

use crate::cli::serve::ServeArgs;
use crate::cli::tls;
use crate::exec_options::driver;

/// The summary of the server.
#[derive(Serialize)]
struct Done<'a> {
    #[serde(flatten)]
    served: &'a Served,
    #[serde(skip_serializing_if = "Option::is_none")]
    handshakes: Option<Handshakes>,
}

/// Serves until the duration is over or a signal stops it, then prints a summary.
pub(super) fn serve(args: &ServeArgs) -> Result<Exit, Error> {
    let listener = prony_io::bind(&listen("serve", &args.address)?)?;
    let control = stoppable()?;
    let identity = identity(args, listener.local())?;
    if !args.quiet {
        let url = match (&identity, url(listener.local())) {
            (Some(_), url) => url.replacen("http://", "https://", 1),
            (None, url) => url,
        };
        output::to_stderr(&format!("listening on {url}"));
    }
    let mut machine = Serve::new(args.behavior(), args.seed);
    if args.record_arrivals.is_some() {
        machine.record_arrivals();
    }
    let machine = match identity {
        Some(identity) => TlsServer::new(machine, identity, vec![true]),
        None => TlsServer::none(machine),
    };
    let end = args.duration.map(|d| Nanos::ZERO + d);
    let show = |_: &TlsServer<Serve>, now: Nanos| {
        if end.is_some_and(|end| now >= end) {
            control.stop();
        }
    };
    let options = Options { driver: driver(args.driver), ..Options::default() };
    let served = prony_io::serve(vec![machine], &[listener], &options, &control, &show)?;
    for one in &served {
        if let Some(path) = &args.record_arrivals {
            write_arrivals(path, one.machine.inner().arrivals())?;
        }
        let (served, handshakes) = (one.machine.inner().served(), one.machine.handshakes());
        let text = if args.json {
            serde_json::to_string(&Done { served, handshakes })
                .map_or_else(|e| e.to_string(), |json| json + "\n")
        } else {
            format!("{served}{}", handshakes.map(|h| h.to_string()).unwrap_or_default())
        };
        output::to_stdout(text.as_bytes())?;
    }
    Ok(Exit::Done)
}

/// The certificate and key of the server, with `--tls`.
fn identity(args: &ServeArgs, listen: &Listen) -> Result<Option<Identity>, Error> {
    if !args.tls {
        return match args.identity.cert {
            Some(_) => Err(Error::Needs("--cert", "--tls", "the server uses no TLS")),
            None => Ok(None),
        };
    }
    let host = match listen {
        Listen::Tcp(at) => at.ip().to_string(),
        _ => "localhost".to_owned(),
    };
    let identity = tls::identity(&args.identity, &host)?;
    Ok(Some(identity.speaking(&["h2", "http/1.1", "http/1.0"])))
}

/// The address of the server for clients.
pub(super) fn url(listen: &Listen) -> String {
    match listen {
        Listen::Tcp(_) | Listen::Mptcp(_) | Listen::Sctp { .. } => format!("http://{listen}"),
        Listen::Unix(_) | Listen::UnixSeqpacket(_) => format!("unix:{listen}"),
    }
}

/// Parses an address: PORT, HOST:PORT or unix:PATH.
pub(super) fn listen(what: &'static str, text: &str) -> Result<Listen, Error> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Listen::Unix(path.into()));
    }
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok(Listen::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
    }
    let wrong = |why: String| Error::Value { what, value: text.to_owned(), why };
    if !text.contains(':') {
        return Err(wrong("has no port; write ADDR:PORT, such as 127.0.0.1:8080".into()));
    }
    let mut addresses = text
        .to_socket_addrs()
        .map_err(|_| wrong("is not an address; write ADDR:PORT, such as 127.0.0.1:8080".into()))?;
    addresses.next().map(Listen::Tcp).ok_or_else(|| wrong("resolves to no address".into()))
}

/// Writes one arrival per line, in seconds since the first.
fn write_arrivals(path: &Path, arrivals: &[Nanos]) -> Result<(), Error> {
    let mut text = String::with_capacity(arrivals.len() * 16);
    let first = arrivals.first().copied().unwrap_or_default();
    for at in arrivals {
        let _ = writeln!(text, "{:.9}", at.since(first).as_secs_f64());
    }
    fs::write(path, text).map_err(|why| Error::Report { what: path.display().to_string(), why })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn parses_addresses_to_listen_on() {
        for (text, url_of_it) in [
            ("8080", "http://127.0.0.1:8080"),
            (":0", "http://127.0.0.1:0"),
            ("127.0.0.2:9000", "http://127.0.0.2:9000"),
            ("[::1]:80", "http://[::1]:80"),
            ("unix:/run/x", "unix:/run/x"),
        ] {
            assert_eq!(url(&listen("serve", text).unwrap()), url_of_it);
        }
    }

    #[test]
    fn rejects_invalid_addresses() {
        for (text, sentence) in [
            ("here", expect!["serve `here`: has no port; write ADDR:PORT, such as 127.0.0.1:8080"]),
            (
                "1.2.3.4",
                expect!["serve `1.2.3.4`: has no port; write ADDR:PORT, such as 127.0.0.1:8080"],
            ),
            (
                "127.0.0.1:99999",
                expect![
                    "serve `127.0.0.1:99999`: is not an address; write ADDR:PORT, such as 127.0.0.1:8080"
                ],
            ),
        ] {
            sentence.assert_eq(&listen("serve", text).unwrap_err().to_string());
        }
    }
}
