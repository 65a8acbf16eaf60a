//! From the options to the plan: a closed loop with a connection for each request, and always the
//! same bytes.

use std::net::{SocketAddr, ToSocketAddrs as _};

use prony_plan::plan::{CallSpec, Expect, HttpVersion, Plan, Stop};
use prony_plan::target::{Endpoint, Url};
use prony_run::error::Error;

use super::options::Options;
use crate::plan::closed;

/// The plan of these options.
pub(super) fn of(options: &Options) -> Result<Plan, Error> {
    let too_many = || Error::Argument("-c times -t is more connections than can be counted".into());
    let connections = options.concurrency.checked_mul(options.threads).ok_or_else(too_many)?;
    let target = Target::of(&options.url)?;
    let endpoint = match &options.unix {
        Some(path) => Endpoint::Unix { path: path.clone() },
        None => {
            let host = address(&target.host, target.port, options.ipv6);
            Endpoint::Tcp { host, port: target.port }
        }
    };
    let endpoint = if target.tls { endpoint.secured(&target.host) } else { endpoint };
    let host = options.host.clone().unwrap_or(target.header);
    let call = CallSpec {
        method: "GET".into(),
        path: target.path,
        authority: host.as_str().into(),
        headers: vec![("Host".into(), host)].into(),
        bare: true,
        ..CallSpec::default()
    };
    // Unlimited is the largest number.
    let requests = Some(if options.number == 0 { u64::MAX } else { options.number });
    let plan = Plan {
        stop: Stop { requests, ..Stop::default() },
        replace_lost: true,
        requests_per_connection: Some(1),
        expect: Expect { statuses: vec![(100, 399)], body: None, length: None },
        http: HttpVersion::Http10,
        ..closed(endpoint, call, connections)
    };
    plan.check().map_err(Error::Plan)?;
    Ok(plan)
}

/// A URL, split as htstress does: everything after the host is the path, and is sent unchanged.
struct Target {
    tls: bool,
    host: String,
    port: u16,
    /// The Host header: the host as typed, without the port.
    header: String,
    path: String,
}

impl Target {
    fn of(text: &str) -> Result<Self, Error> {
        // A fragment does not belong into a request, but the original sends it, so it is accepted.
        let (whole, fragment) = match text.split_once('#') {
            Some((head, fragment)) => (head, format!("#{fragment}")),
            None => (text, String::new()),
        };
        let url = Url::parse_http(whole).map_err(Error::Url)?;
        let header =
            if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
        Ok(Self {
            tls: url.tls,
            host: url.host,
            port: url.port,
            header,
            path: url.path + &fragment,
        })
    }
}

/// The name to resolve. With `-6`, a host that has only IPv4 addresses is reached by a mapped
/// address, as in the original's resolver.
fn address(host: &str, port: u16, ipv6: bool) -> String {
    if !ipv6 {
        return host.to_owned();
    }
    // A host without an address is refused later, with the reason.
    let all: Vec<SocketAddr> = (host, port).to_socket_addrs().into_iter().flatten().collect();
    match all.first() {
        Some(SocketAddr::V4(v4)) if all.iter().all(SocketAddr::is_ipv4) => {
            v4.ip().to_ipv6_mapped().to_string()
        }
        _ => host.to_owned(),
    }
}
