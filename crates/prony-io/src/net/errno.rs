//! What the kernel says, in the engine's words.

use prony_core::fault::Fault;

/// The calling thread's errno.
pub(crate) fn last() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Whether that is how the kernel says that it has no sockets of some kind.
pub(crate) fn lacks(error: &std::io::Error) -> bool {
    let lacking =
        [libc::EPROTONOSUPPORT, libc::ESOCKTNOSUPPORT, libc::EAFNOSUPPORT, libc::ENOPROTOOPT];
    error.raw_os_error().is_some_and(|e| lacking.contains(&e))
}

/// Why a connection could not be made (socket, bind or connect).
pub(crate) fn connect_fault(errno: i32) -> Fault {
    match errno {
        // ENOENT: a unix socket that is not there, so nobody listens. EPROTOTYPE: one of another
        // kind (a stream for packets, or the other way round). ENOPROTOOPT: the host has answered
        // that it has nobody for the protocol.
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

/// Why an open connection is dead (recv, send, or the socket's pending error).
pub(crate) fn stream_fault(errno: i32) -> Fault {
    match errno {
        libc::ENFILE | libc::EMFILE | libc::ENOBUFS | libc::ENOMEM => own_fault(errno),
        // A datagram came back: over UDP that is how one learns that nobody listens.
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

/// The meter's own shortages.
fn own_fault(errno: i32) -> Fault {
    match errno {
        libc::EMFILE | libc::ENFILE => Fault::NoDescriptors,
        // EAGAIN: an internet connect found no free local port; EADDRINUSE: none with that source
        // address.
        // EADDRNOTAVAIL: the same, or a missing address (see `Network::connect_fault`).
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
    fn each_errno_has_the_class_that_users_expect() {
        use prony_core::fault::FaultClass;
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
