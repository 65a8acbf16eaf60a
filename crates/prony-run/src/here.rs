//! Whether the target runs on this machine.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;

use prony_plan::plan::Plan;
use prony_plan::target::Endpoint;
use prony_stats::summary::LocalTarget;

/// The first endpoint with an address of this machine. `addresses` are the resolved addresses of
/// the endpoints.
pub(crate) fn target(plan: &Plan, addresses: &[Vec<String>]) -> Option<LocalTarget> {
    // The addresses are those of the proxy.
    if plan.proxy.is_some() {
        return None;
    }
    let mut endpoints = plan.endpoints.iter().zip(addresses);
    let address = endpoints.find_map(|(endpoint, addresses)| {
        socket(endpoint).or_else(|| {
            addresses.iter().filter_map(|a| ip(a)).find(|&a| is_own(a)).map(|a| a.to_string())
        })
    })?;
    let cores = thread::available_parallelism().map_or(1, |n| n.get() as u32);
    Some(LocalTarget { address, cores })
}

/// The path of an endpoint that is a Unix domain socket.
fn socket(endpoint: &Endpoint) -> Option<String> {
    match endpoint {
        Endpoint::Unix { path } | Endpoint::UnixSeqpacket { path } => Some(path.clone()),
        Endpoint::Tls { over, .. } => socket(over),
        Endpoint::Tcp { .. } | Endpoint::Inet { .. } => None,
    }
}

/// Parses an address with or without a port.
fn ip(address: &str) -> Option<IpAddr> {
    address.parse::<SocketAddr>().map(|a| a.ip()).or_else(|_| address.parse()).ok()
}

/// Whether an address belongs to this machine: only then a socket can bind to it.
fn is_own(ip: IpAddr) -> bool {
    ip.is_loopback() || (!ip.is_multicast() && UdpSocket::bind((ip, 0)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_addresses_of_this_machine() {
        let own = |text: &str| ip(text).is_some_and(is_own);
        assert!(own("127.0.0.1:80") && own("127.3.2.1:1") && own("[::1]:80") && own("127.0.0.1"));
        // Reserved for documentation (RFC 5737, RFC 3849).
        assert!(!own("192.0.2.7:80") && !own("[2001:db8::7]:80") && !own("a name"));
    }

    #[test]
    fn unix_sockets_are_local() {
        let unix = Endpoint::Unix { path: "/run/s".into() };
        let secured = Endpoint::Tls { name: "h".into(), over: Box::new(unix.clone()) };
        assert_eq!(
            [socket(&unix), socket(&secured)],
            [Some("/run/s".into()), Some("/run/s".into())]
        );
    }
}
