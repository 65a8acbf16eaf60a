//! The opening of a tunnel through an HTTP proxy: one request with the method CONNECT, and the head
//! of its reply (RFC 9110, 9.3.6).

use std::fmt;

/// The longest head of a reply, in bytes.
const HEAD_MAX: usize = 64 << 10;
/// The most interim replies before the final one.
const INTERIM_MAX: usize = 32;

/// A tunnel that is not open yet.
#[derive(Debug)]
pub struct Tunnel {
    request: Vec<u8>,
    /// How much of the request is sent.
    sent: usize,
    /// The received part of the reply.
    head: Vec<u8>,
    interim: usize,
}

/// Why a tunnel does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTunnel {
    /// The proxy has answered with this status.
    Status(u16),
    /// What came is not the head of a reply of HTTP, or is too long.
    NotHttp,
    /// The proxy has closed the connection before its reply was complete.
    Closed,
    /// The proxy did not reply in time.
    TimedOut,
}

impl fmt::Display for NoTunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::NotHttp => f.write_str("no reply of HTTP"),
            Self::Closed => f.write_str("connection closed without a reply"),
            Self::TimedOut => f.write_str("no reply in time"),
        }
    }
}

impl Tunnel {
    /// A tunnel to this server (`HOST:PORT`), and the value of `Proxy-Authorization`, if any.
    pub fn new(to: &str, authorization: Option<&str>) -> Self {
        let authorization = authorization
            .map(|value| format!("Proxy-Authorization: {value}\r\n"))
            .unwrap_or_default();
        let request = format!(
            "CONNECT {to} HTTP/1.1\r\nHost: {to}\r\nUser-Agent: prony/{}\r\n{authorization}\r\n",
            env!("CARGO_PKG_VERSION")
        );
        Self { request: request.into_bytes(), sent: 0, head: Vec::new(), interim: 0 }
    }

    /// Whether a part of the request is still to be sent.
    pub fn wants_send(&self) -> bool {
        self.sent < self.request.len()
    }

    /// Send the request, as far as it is accepted. Returns how many bytes were, and whether these
    /// are all.
    pub fn flush(&mut self, send: &mut dyn FnMut(&[u8]) -> usize) -> (usize, bool) {
        let before = self.sent;
        while self.wants_send() {
            let taken = send(&self.request[self.sent..]);
            self.sent += taken;
            if taken == 0 {
                break;
            }
        }
        (self.sent - before, !self.wants_send())
    }

    /// Bytes have arrived from the proxy. Returns how many of them belong to its reply once the
    /// tunnel is open: what follows comes from the server.
    ///
    /// # Errors
    /// The proxy does not open the tunnel.
    pub fn receive(&mut self, data: &[u8]) -> Result<Option<usize>, NoTunnel> {
        for (index, &byte) in data.iter().enumerate() {
            self.head.push(byte);
            if byte != b'\n' || !(self.head.ends_with(b"\r\n\r\n") || self.head.ends_with(b"\n\n"))
            {
                if self.head.len() > HEAD_MAX {
                    return Err(NoTunnel::NotHttp);
                }
                continue;
            }
            match status(&self.head)? {
                200..=299 => return Ok(Some(index + 1)),
                // 101 would end HTTP on this connection.
                100 | 102..=199 if self.interim < INTERIM_MAX => {
                    self.interim += 1;
                    self.head.clear();
                }
                status => return Err(NoTunnel::Status(status)),
            }
        }
        Ok(None)
    }
}

/// The status of a complete head (RFC 9112, 4): `HTTP/1.x NNN ...`.
fn status(head: &[u8]) -> Result<u16, NoTunnel> {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9', b' ', a, b, c, rest @ ..]
            if [a, b, c].iter().all(|digit| digit.is_ascii_digit())
                && matches!(rest, [] | [b' ', ..]) =>
        {
            let digit = |byte: &u8| u16::from(byte - b'0');
            let status = digit(a) * 100 + digit(b) * 10 + digit(c);
            (100..=599).contains(&status).then_some(status).ok_or(NoTunnel::NotHttp)
        }
        _ => Err(NoTunnel::NotHttp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunnel() -> Tunnel {
        Tunnel::new("h:443", None)
    }

    #[test]
    fn asks_for_the_server_in_any_number_of_writes() {
        let mut tunnel = Tunnel::new("[::1]:80", Some("Basic YQ=="));
        let mut out = Vec::new();
        let mut three = |bytes: &[u8]| {
            let taken = bytes.len().min(3);
            out.extend_from_slice(&bytes[..taken]);
            taken
        };
        while tunnel.wants_send() {
            tunnel.flush(&mut three);
        }
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            "CONNECT [::1]:80 HTTP/1.1\r\nHost: [::1]:80\r\nUser-Agent: prony/{version}\r\n\
             Proxy-Authorization: Basic YQ==\r\n\r\n"
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut none = |_: &[u8]| 0;
        assert_eq!(Tunnel::new("h:1", None).flush(&mut none), (0, false));
    }

    #[test]
    fn opens_in_any_split_and_leaves_the_servers_bytes() {
        let reply = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\nA: b\r\n\r\nserver";
        let end = reply.len() - "server".len();
        for cut in 0..reply.len() {
            let mut tunnel = tunnel();
            let first = tunnel.receive(&reply[..cut]).unwrap();
            match first {
                Some(used) => assert_eq!((used, cut >= end), (end, true)),
                None => assert_eq!(tunnel.receive(&reply[cut..]).unwrap(), Some(end - cut)),
            }
        }
    }

    #[test]
    fn says_why_it_does_not_open() {
        let why = |reply: &[u8]| tunnel().receive(reply).unwrap_err();
        assert_eq!(
            why(b"HTTP/1.1 407 Who\r\nContent-Length: 5\r\n\r\nhello"),
            NoTunnel::Status(407)
        );
        assert_eq!(why(b"HTTP/1.1 101 S\r\n\r\n"), NoTunnel::Status(101));
        for odd in ["SSH-2.0", "HTTP/1.1 99 A", "HTTP/1.1 2000 A", "HTTP/2 200", "HTTP/1.1 999"] {
            assert_eq!(why(format!("{odd}\r\n\r\n").as_bytes()), NoTunnel::NotHttp, "{odd}");
        }
        assert_eq!(why(&vec![b'a'; HEAD_MAX + 1]), NoTunnel::NotHttp);
        assert_eq!(why(&b"HTTP/1.1 100 C\r\n\r\n".repeat(INTERIM_MAX + 1)), NoTunnel::Status(100));
        assert_eq!(tunnel().receive(&vec![b'a'; HEAD_MAX]), Ok(None));
    }
}
