//! Who listens at an address: the sockets of this machine, and the processes that have them.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use prony_plan::target::Endpoint;

use super::tree;

/// The timeout of an attempt to connect.
const CONNECT: Duration = Duration::from_secs(1);

/// Whose a listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// One of these processes has it.
    Started,
    /// Only others have it: the name of one.
    Other(String),
    /// It cannot be found out, and why.
    Unknown(&'static str),
}

/// Whether somebody accepts connections there.
pub(super) fn accepts(endpoint: &Endpoint) -> bool {
    match endpoint.transport() {
        Endpoint::Tcp { host, port } => {
            let addresses = (host.as_str(), *port).to_socket_addrs();
            addresses
                .is_ok_and(|mut all| all.any(|a| TcpStream::connect_timeout(&a, CONNECT).is_ok()))
        }
        Endpoint::Unix { path } => UnixStream::connect(path).is_ok(),
        // Nothing to wait for.
        _ => true,
    }
}

/// Whether it is known that nobody listens there yet: not of datagrams.
pub(super) fn can_be_free(endpoint: &Endpoint) -> bool {
    matches!(endpoint.transport(), Endpoint::Tcp { .. } | Endpoint::Unix { .. })
}

/// Who listens there, if anybody can be seen.
pub(super) fn in_use(endpoint: &Endpoint) -> Option<String> {
    match owner(endpoint, &BTreeSet::new()) {
        Owner::Other(name) => Some(name),
        _ => accepts(endpoint).then(|| "another server".to_owned()),
    }
}

/// Whose the listener at this address is, if these processes were started for it.
pub(super) fn owner(endpoint: &Endpoint, started: &BTreeSet<i32>) -> Owner {
    let sockets = match endpoint.transport() {
        Endpoint::Tcp { host, port } => {
            let Ok(addresses) = (host.as_str(), *port).to_socket_addrs() else {
                return Owner::Unknown("its host has no address");
            };
            let own: Vec<IpAddr> =
                addresses.map(|address| address.ip()).filter(|ip| is_own(*ip)).collect();
            if own.is_empty() {
                return Owner::Unknown("it is not an address of this machine");
            }
            of_port(&own, *port)
        }
        Endpoint::Unix { path } => of_path(path),
        _ => return Owner::Unknown("datagrams have no listener"),
    };
    if sockets.is_empty() {
        return Owner::Unknown("its socket is not in the network of this process");
    }
    if started.iter().any(|&pid| has_any(pid, &sockets)) {
        return Owner::Started;
    }
    match tree::numbers().find(|&pid| has_any(pid, &sockets)) {
        Some(pid) => Owner::Other(tree::name(pid)),
        None => Owner::Unknown("its socket belongs to a process that prony may not look into"),
    }
}

/// Whether it is an address of this machine: only those can be bound.
fn is_own(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// The sockets that listen on this port at one of these addresses.
fn of_port(addresses: &[IpAddr], port: u16) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        let listeners = text.lines().skip(1).filter_map(listener);
        let is_here = |at: IpAddr| at.is_unspecified() || addresses.contains(&at.to_canonical());
        let here = listeners.filter(|(at, on, _)| *on == port && is_here(*at));
        found.extend(here.map(|(_, _, socket)| socket));
    }
    found
}

/// The address, port and number of a socket that listens, from its line in a table of the kernel.
fn listener(line: &str) -> Option<(IpAddr, u16, u64)> {
    const LISTENS: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    if *fields.get(3)? != LISTENS {
        return None;
    }
    let (address, port) = fields.get(1)?.split_once(':')?;
    // Words of 32 bits in the order of this machine.
    let word = |i: usize| Some(u32::from_str_radix(address.get(i..i + 8)?, 16).ok()?.to_ne_bytes());
    let ip = if address.len() == 8 {
        IpAddr::V4(Ipv4Addr::from(word(0)?))
    } else {
        let words = [word(0)?, word(8)?, word(16)?, word(24)?];
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(words.concat()).for_each(|(to, from)| *to = from);
        IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?, fields.get(9)?.parse().ok()?))
}

/// The sockets that listen at this path.
fn of_path(path: &str) -> BTreeSet<u64> {
    const LISTENS: u32 = 0x1_0000;
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let real = fs::canonicalize(path).ok();
    let is_it =
        |other: &str| other == path || real.as_deref().is_some_and(|r| r == Path::new(other));
    let socket = |line: &str| {
        let mut fields = line.split_whitespace();
        let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
        let number = fields.nth(2)?.parse().ok()?;
        (flags & LISTENS != 0 && is_it(fields.next()?)).then_some(number)
    };
    text.lines().skip(1).filter_map(socket).collect()
}

/// Whether a process has one of these sockets open.
fn has_any(pid: i32, sockets: &BTreeSet<u64>) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
    links.any(|link| {
        let number =
            link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']'));
        number.and_then(|n| n.parse().ok()).is_some_and(|n: u64| sockets.contains(&n))
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn own() -> BTreeSet<i32> {
        BTreeSet::from([i32::try_from(std::process::id()).expect("a number")])
    }

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp { host: host.into(), port }
    }

    #[test]
    fn listeners_have_owners() {
        for at in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let port = listener.local_addr().expect("an address").port();
            let endpoint = tcp("127.0.0.1", port);
            assert_eq!(owner(&endpoint, &own()), Owner::Started, "{at}");
            let Owner::Other(name) = owner(&endpoint, &BTreeSet::new()) else { panic!("{at}") };
            assert!(name.contains(&format!("(process {})", std::process::id())), "{name}");
            assert_eq!(in_use(&endpoint), Some(name));
            drop(listener);
            assert_eq!(in_use(&endpoint), None, "{at}");
            assert!(matches!(owner(&endpoint, &own()), Owner::Unknown(_)), "{at}");
        }
    }

    #[test]
    fn listeners_of_paths_have_owners() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let endpoint = Endpoint::Unix { path: path.to_str().expect("UTF-8").to_owned() };
        assert_eq!(in_use(&endpoint), None);
        let listener = UnixListener::bind(&path).expect("a socket");
        assert_eq!(owner(&endpoint, &own()), Owner::Started);
        assert!(matches!(owner(&endpoint, &BTreeSet::new()), Owner::Other(_)));
        drop(listener);
        assert_eq!(in_use(&endpoint), None, "a path that nobody listens at");
    }

    #[test]
    fn nothing_is_known_of_other_machines() {
        let other = owner(&tcp("192.0.2.1", 80), &own());
        assert_eq!(other, Owner::Unknown("it is not an address of this machine"));
    }
}
