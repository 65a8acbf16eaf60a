//! The options for this machine: local addresses and ports, buffers, threads.

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs as _};

use prony_io::{Options, SocketOptions};
use prony_plan::plan::Plan;
use prony_plan::target::Endpoint;

use super::options::Opts;
use super::values::Refusal;

/// The maximum number of local addresses in a range.
const RANGE_MAX: u32 = 65_536;

/// The settings in the options. Unknown names are refused.
pub(super) fn options(o: &Opts, plan: &Plan) -> Result<Options, Refusal> {
    for endpoint in &plan.endpoints {
        if let Endpoint::Tcp { host, port } = endpoint.transport()
            && (host.as_str(), *port).to_socket_addrs().is_err()
        {
            let message = format!("{}.core_addr_intern: invalid server address {host}", o.program);
            return Err(Refusal::new(message));
        }
    }
    let mut sources = Vec::new();
    for text in &o.myaddr {
        let invalid = || Refusal::new(format!("{}: invalid address list {text}", o.program));
        sources.extend(addresses(text).ok_or_else(invalid)?);
    }
    let size = |n: Option<u64>| n.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    Ok(Options {
        threads: o.more.threads.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
        sources,
        sockets: SocketOptions {
            reset: o.close_with_reset,
            send_buffer: size(o.send_buffer),
            recv_buffer: size(o.recv_buffer),
            all_ports: o.hog,
            ..SocketOptions::default()
        },
        over_limits: true,
        ..Options::default()
    })
}

/// A name, an address, or a range of addresses.
fn addresses(text: &str) -> Option<Vec<IpAddr>> {
    if let Some((first, last)) = text.split_once('-')
        && let (Ok(first), Ok(last)) = (first.parse::<Ipv4Addr>(), last.parse::<Ipv4Addr>())
    {
        let (first, last) = (u32::from(first), u32::from(last));
        let all = first..=last;
        return (first <= last && last - first < RANGE_MAX)
            .then(|| all.map(|n| IpAddr::V4(n.into())).collect());
    }
    let found = (text, 0).to_socket_addrs().ok()?.next()?;
    Some(vec![found.ip()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses_and_ranges() {
        let text = |t: &str| {
            let all = addresses(t)?;
            Some(all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(text("127.0.0.9").as_deref(), Some("127.0.0.9"));
        assert_eq!(text("::1").as_deref(), Some("::1"));
        let range = "127.0.0.254 127.0.0.255 127.0.1.0";
        assert_eq!(text("127.0.0.254-127.0.1.0").as_deref(), Some(range));
        for bad in ["127.0.0.2-127.0.0.1", "0.0.0.0-255.255.255.255", "127.0.0.1-", ""] {
            assert_eq!(text(bad), None, "{bad}");
        }
    }

    #[test]
    fn passes_socket_options() {
        let o = Opts {
            hog: true,
            close_with_reset: true,
            recv_buffer: Some(9),
            ..Opts::new("httperf")
        };
        let plan = super::super::plan::tests::plan_of("--server 127.0.0.1");
        let options = options(&o, &plan).unwrap();
        let sockets = SocketOptions {
            reset: true,
            recv_buffer: Some(9),
            all_ports: true,
            ..SocketOptions::default()
        };
        assert_eq!((options.sockets, options.threads), (sockets, None));
    }

    #[test]
    fn refuses_unknown_servers_with_httperfs_message() {
        let mut plan = super::super::plan::tests::plan_of("--server 127.0.0.1");
        // Refused without a lookup.
        plan.endpoints[0] = Endpoint::Tcp { host: "a\0b".into(), port: 80 };
        let refused = options(&Opts::new("httperf"), &plan).unwrap_err();
        assert_eq!(
            (refused.message.as_str(), refused.code),
            ("httperf.core_addr_intern: invalid server address a\0b", 1)
        );
    }
}
