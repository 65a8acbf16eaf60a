//! Converts the kernel's errors to the engine's faults.

use prony_base::fault::Fault;

/// The calling thread's errno.
pub(crate) fn last() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Whether the kernel does not support this kind of socket.
pub(crate) fn is_unsupported(error: &std::io::Error) -> bool {
    let unsupported =
        [libc::EPROTONOSUPPORT, libc::ESOCKTNOSUPPORT, libc::EAFNOSUPPORT, libc::ENOPROTOOPT];
    error.raw_os_error().is_some_and(|e| unsupported.contains(&e))
}

/// The fault of a failed connect (socket, bind or connect).
pub(crate) fn connect_fault(errno: i32) -> Fault {
    match errno {
        // ENOENT: the unix socket does not exist, so there is no listener. EPROTOTYPE: the unix
        // socket is of another type (stream or packets). ENOPROTOOPT: the host has replied that it
        // does not support the protocol.
        libc::ECONNREFUSED | libc::ENOENT | libc::EPROTOTYPE | libc::ENOPROTOOPT => {
            Fault::ConnectRefused
        }
        libc::ETIMEDOUT => Fault::ConnectTimeout,
        libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED => Fault::ConnectReset,
        libc::EHOSTUNREACH
        | libc::ENETUNREACH
        | libc::EHOSTDOWN
        | libc::ENETDOWN
        | libc::ENONET
        | libc::EACCES
        | libc::EPERM
        | libc::EPROTO => Fault::ConnectUnreachable,
        _ => own_fault(errno),
    }
}

/// The fault of an open connection (recv, send, or the socket's pending error).
pub(crate) fn stream_fault(errno: i32) -> Fault {
    match errno {
        libc::ENFILE | libc::EMFILE | libc::ENOBUFS | libc::ENOMEM => own_fault(errno),
        // Over UDP: an ICMP error for a datagram, because nothing listens on the port.
        libc::ECONNREFUSED => Fault::ConnectRefused,
        libc::ECONNRESET
        | libc::EPIPE
        | libc::ECONNABORTED
        | libc::ETIMEDOUT
        | libc::EHOSTUNREACH
        | libc::ENETUNREACH
        | libc::EHOSTDOWN
        | libc::ENETDOWN
        | libc::ENETRESET
        | libc::ENOTCONN
        | libc::ENOPROTOOPT
        | libc::EPROTO => Fault::Reset,
        _ => Fault::Internal,
    }
}

/// Faults of the meter's own host.
fn own_fault(errno: i32) -> Fault {
    match errno {
        libc::EMFILE | libc::ENFILE => Fault::NoDescriptors,
        // EAGAIN: an internet connect found no free local port; EADDRINUSE: none with this source
        // address. EADDRNOTAVAIL: the same, or a missing address (see `Network::connect_fault`).
        libc::EADDRNOTAVAIL | libc::EADDRINUSE | libc::EAGAIN => Fault::NoPorts,
        libc::ENOBUFS | libc::ENOMEM | libc::ENOSPC => Fault::NoBuffers,
        // A kernel without IPv6.
        libc::EAFNOSUPPORT => Fault::NoAddress,
        _ => Fault::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errnos_map_to_faults() {
        use prony_base::fault::FaultClass;
        for (errno, fault) in [
            (libc::ECONNREFUSED, Fault::ConnectRefused),
            (libc::ENOENT, Fault::ConnectRefused),
            (libc::EPROTOTYPE, Fault::ConnectRefused),
            (libc::ENOPROTOOPT, Fault::ConnectRefused),
            (libc::ETIMEDOUT, Fault::ConnectTimeout),
            (libc::EHOSTUNREACH, Fault::ConnectUnreachable),
            (libc::ENETUNREACH, Fault::ConnectUnreachable),
            (libc::ECONNRESET, Fault::ConnectReset),
            (libc::EMFILE, Fault::NoDescriptors),
            (libc::ENFILE, Fault::NoDescriptors),
            (libc::EADDRNOTAVAIL, Fault::NoPorts),
            (libc::EAGAIN, Fault::NoPorts),
            (libc::EAFNOSUPPORT, Fault::NoAddress),
            (libc::ENOBUFS, Fault::NoBuffers),
            (libc::ENOMEM, Fault::NoBuffers),
            (libc::EINVAL, Fault::Internal),
        ] {
            assert_eq!(connect_fault(errno), fault, "errno {errno}");
        }
        let lost = [libc::ECONNRESET, libc::EPIPE, libc::ETIMEDOUT, libc::EHOSTUNREACH];
        for errno in lost.into_iter().chain([libc::ENOPROTOOPT]) {
            assert_eq!(stream_fault(errno), Fault::Reset, "errno {errno}");
        }
        assert_eq!(stream_fault(libc::ECONNREFUSED), Fault::ConnectRefused);
        assert_eq!(stream_fault(libc::ENOMEM).class(), FaultClass::Meter);
    }
}
