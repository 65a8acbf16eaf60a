//! The fields of requests and trailers (RFC 9113, section 8).

use memchr::memchr;
use prony_base::http2::hpack::encode_static;
use prony_base::websocket::{Agreed, RequestFields};

use super::super::grpc::{CallHead, Kind};
use super::super::request::{Head, Refusal, Route, is_known, is_token, number, route};

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It is malformed: the stream is reset.
    Malformed,
    /// It gets this reply.
    Refused(Refusal),
}

/// What the fields so far say.
#[derive(Debug, Default)]
pub(super) struct Fields {
    method: Option<Method>,
    target: Option<Target>,
    has_scheme: bool,
    has_authority: bool,
    /// Whether a field came that is not a pseudo-header.
    has_regular: bool,
    length: Option<u64>,
    wants_continue: bool,
    last_event: Option<u64>,
    is_malformed: bool,
    /// What they say of a call of gRPC, if calls are served.
    call: Option<CallHead>,
    /// What they say of a connection of WebSocket, if those are served.
    socket: Option<Box<SocketHead>>,
    /// Whether the method is extended CONNECT (RFC 8441), if that is served.
    is_extended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Known { is_head: bool, is_options: bool, is_post: bool },
    Connect,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Path(Route),
    Asterisk,
    Wrong,
}

impl Fields {
    /// The fields of a request. `serves_calls`: it may be a call of gRPC; `serves_sockets`: a
    /// handshake of WebSocket.
    pub(super) fn new(serves_calls: bool, serves_sockets: bool) -> Self {
        let call = serves_calls.then(CallHead::default);
        Self { call, socket: serves_sockets.then(Box::default), ..Self::default() }
    }

    /// Take the next field of a request.
    pub(super) fn take(&mut self, name: &[u8], value: &[u8]) {
        let is_valid = match name.split_first() {
            Some((b':', pseudo)) => !self.has_regular && self.take_pseudo(pseudo, value),
            _ => {
                self.has_regular = true;
                if let Some(call) = &mut self.call {
                    call.take(name, value);
                }
                if let Some(socket) = &mut self.socket {
                    socket.take(name, value);
                }
                is_regular(name, value) && self.take_regular(name, value)
            }
        };
        self.is_malformed |= !is_valid;
    }

    /// Take the next field of trailers.
    pub(super) fn take_trailer(&mut self, name: &[u8], value: &[u8]) {
        self.is_malformed |= !is_regular(name, value);
    }

    pub(super) fn is_malformed(&self) -> bool {
        self.is_malformed
    }

    /// What the fields say of a call of gRPC, if they are one.
    pub(super) fn take_call(&mut self) -> Result<Option<Box<CallHead>>, Wrong> {
        let Some(call) = self.call.take_if(|call| call.kind() != Kind::Other) else {
            return Ok(None);
        };
        match self.method {
            _ if call.kind() == Kind::Unsupported => {
                Err(refused(415, "messages in an unknown format\n"))
            }
            Some(Method::Known { is_post: false, .. }) => Err(refused(405, "a call is no POST\n")),
            _ => Ok(Some(Box::new(call))),
        }
    }

    /// What the fields say of a connection of WebSocket, if they ask for one. `has_body`: the
    /// stream goes on.
    pub(super) fn take_socket(&mut self, has_body: bool) -> Result<Option<Box<SocketHead>>, Wrong> {
        let Some(socket) = self.socket.take().filter(|_| self.is_extended) else { return Ok(None) };
        socket.check(has_body).map(|()| Some(socket))
    }

    /// What the request is, and the length of its body as announced.
    pub(super) fn finish(
        self,
        has_body: bool,
        max_body: u64,
    ) -> Result<(Head, Option<u64>), Wrong> {
        let method = self.method.ok_or(Wrong::Malformed)?;
        let has_target = self.has_scheme && self.target.is_some();
        let is_complete = match method {
            Method::Connect if self.is_extended => has_target && self.has_authority,
            _ if self.is_extended => false,
            Method::Connect => self.has_authority && !self.has_scheme && self.target.is_none(),
            Method::Known { .. } | Method::Other => has_target,
        };
        if self.is_malformed || !is_complete || (!has_body && self.length.is_some_and(|n| n > 0)) {
            return Err(Wrong::Malformed);
        }
        let (is_head, is_options) = match method {
            Method::Known { is_head, is_options, .. } => (is_head, is_options),
            Method::Connect if self.is_extended => (false, false),
            _ => return Err(refused(501, "method not known\n")),
        };
        let route = match self.target {
            Some(Target::Path(route)) => route,
            Some(Target::Asterisk) if is_options => Route::Default,
            _ => return Err(Wrong::Malformed),
        };
        if self.length.is_some_and(|n| n > max_body) {
            return Err(refused(413, "body over the limit\n"));
        }
        let head = Head {
            route,
            is_head,
            is_http10: false,
            keep_open: true,
            wants_continue: self.wants_continue && has_body,
            has_body,
            last_event: self.last_event,
        };
        Ok((head, self.length))
    }

    fn take_pseudo(&mut self, name: &[u8], value: &[u8]) -> bool {
        match name {
            b"method" => {
                let method = match value {
                    _ if is_known(value) => Method::Known {
                        is_head: value == b"HEAD",
                        is_options: value == b"OPTIONS",
                        is_post: value == b"POST",
                    },
                    b"CONNECT" => Method::Connect,
                    _ => Method::Other,
                };
                let is_token = !value.is_empty() && value.iter().all(|&b| is_token(b));
                self.method.replace(method).is_none() && is_token
            }
            b"path" => {
                if let Some(call) = &mut self.call {
                    call.take_path(value);
                }
                let is_plain = value.iter().all(u8::is_ascii_graphic);
                let path = &value[..memchr(b'?', value).unwrap_or(value.len())];
                let target = match value {
                    b"*" => Target::Asterisk,
                    [b'/', ..] if is_plain => Target::Path(route(path)),
                    _ => Target::Wrong,
                };
                self.target.replace(target).is_none()
            }
            b"protocol" if self.socket.is_some() || self.is_extended => {
                if let Some(socket) = &mut self.socket {
                    socket.protocol(value);
                }
                !std::mem::replace(&mut self.is_extended, true)
            }
            b"scheme" => !std::mem::replace(&mut self.has_scheme, true),
            b"authority" => !std::mem::replace(&mut self.has_authority, true),
            _ => false,
        }
    }

    fn take_regular(&mut self, name: &[u8], value: &[u8]) -> bool {
        match name {
            b"content-length" => {
                let length = std::str::from_utf8(value).ok().and_then(number);
                let same = self.length.is_none() || self.length == length;
                self.length = length;
                same && length.is_some()
            }
            b"expect" => {
                self.wants_continue |= value.eq_ignore_ascii_case(b"100-continue");
                true
            }
            b"last-event-id" => {
                self.last_event = std::str::from_utf8(value).ok().and_then(number);
                true
            }
            _ => true,
        }
    }
}

pub(super) fn refused(status: u16, why: &'static str) -> Wrong {
    Wrong::Refused(Refusal { status, why })
}

/// What the head of a request says of a connection of WebSocket.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct SocketHead {
    pub(super) fields: RequestFields,
    is_websocket: bool,
    /// The first subprotocol that is offered.
    offered: Option<Vec<u8>>,
}

impl SocketHead {
    /// Take the next field.
    pub(super) fn take(&mut self, name: &[u8], value: &[u8]) {
        self.fields.field(name, value);
        if name == b"sec-websocket-protocol" && self.offered.is_none() {
            self.offered = value
                .split(|&byte| byte == b',')
                .map(<[u8]>::trim_ascii)
                .next()
                .map(<[u8]>::to_vec);
        }
    }

    /// The value of `:protocol`.
    pub(super) fn protocol(&mut self, value: &[u8]) {
        self.is_websocket = value == b"websocket";
    }

    /// Check the complete head of a stream that goes on, if `has_body`.
    pub(super) fn check(&self, has_body: bool) -> Result<(), Wrong> {
        if !self.is_websocket {
            return Err(refused(501, "protocol not known\n"));
        }
        if !has_body || self.fields.check_http2().is_err() {
            return Err(refused(400, "not a handshake of WebSocket, version 13\n"));
        }
        Ok(())
    }

    /// The header block of the reply.
    pub(super) fn reply(&self, agreed: Option<Agreed>) -> Vec<u8> {
        let mut block = Vec::new();
        encode_static(&mut block, b":status", b"200");
        encode_static(&mut block, b"server", b"prony");
        if let Some(protocol) = &self.offered {
            encode_static(&mut block, b"sec-websocket-protocol", protocol);
        }
        if let Some(agreed) = agreed {
            encode_static(&mut block, b"sec-websocket-extensions", agreed.reply().as_bytes());
        }
        block
    }
}

/// Whether a field that is no pseudo-header is allowed in HTTP/2.
fn is_regular(name: &[u8], value: &[u8]) -> bool {
    let is_name = !name.is_empty() && name.iter().all(|&b| is_token(b) && !b.is_ascii_uppercase());
    let is_value = !value.iter().any(|b| matches!(b, 0 | b'\r' | b'\n'))
        && value.trim_ascii().len() == value.len();
    let is_allowed = match name {
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
            false
        }
        b"te" => value.eq_ignore_ascii_case(b"trailers"),
        _ => true,
    };
    is_name && is_value && is_allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fields: &str, has_body: bool) -> Result<(Head, Option<u64>), Wrong> {
        let mut taken = Fields::default();
        for line in fields.split(", ") {
            let at = 1 + line[1..].find('=').expect("an equals sign");
            taken.take(&line.as_bytes()[..at], &line.as_bytes()[at + 1..]);
        }
        taken.finish(has_body, 1_000)
    }

    const GET: &str = ":method=GET, :scheme=http, :path=/bytes/7?x, :authority=a";

    #[test]
    fn reads_requests() {
        let (head, length) = request(GET, false).expect("a request");
        assert_eq!((head.route, head.is_head, length), (Route::Bytes(7), false, None));
        let head = |fields: &str| request(fields, false).expect("a request").0;
        assert!(head(":method=HEAD, :path=/, :scheme=https, te=trailers, cookie=a=b").is_head);
        let options = head(":method=OPTIONS, :path=*, :scheme=https");
        assert_eq!(options.route, Route::Default);
        let post = ":method=POST, :path=/echo, :scheme=http, content-length=5, expect=100-continue";
        let (head, length) = request(post, true).expect("a request");
        assert_eq!((head.route, head.wants_continue, length), (Route::Echo, true, Some(5)));
    }

    #[test]
    fn rejects_malformed_requests() {
        for fields in [
            ":scheme=http, :path=/",
            ":method=GET, :path=/",
            ":method=GET, :scheme=http",
            ":method=GET, :scheme=http, :path=",
            ":method=GET, :scheme=http, :path=*",
            ":method=GET, :scheme=http, :path=/a b",
            ":method=GET, :method=GET, :scheme=http, :path=/",
            ":method=GET, :scheme=http, :path=/, :path=/",
            ":method=GET, :scheme=http, :scheme=http, :path=/",
            ":method=, :scheme=http, :path=/",
            ":method=GET, :scheme=http, :path=/, :status=200",
            ":method=GET, :scheme=http, x=1, :path=/",
            ":method=CONNECT, :scheme=http, :path=/, :authority=a",
            ":method=CONNECT",
        ] {
            assert_eq!(request(fields, false), Err(Wrong::Malformed), "{fields}");
        }
        for field in [
            "X-Upper=1",
            "x y=1",
            "connection=close",
            "te=gzip",
            "transfer-encoding=chunked",
            "upgrade=h2c",
            "x= lead",
            "x=trail ",
            "x=a\rb",
            "x=a\0b",
            "content-length=x",
            "content-length=5",
            "keep-alive=1",
            "proxy-connection=x",
        ] {
            let fields = format!("{GET}, {field}");
            assert_eq!(request(&fields, false), Err(Wrong::Malformed), "{field}");
        }
        let lengths = format!("{GET}, content-length=1, content-length=2");
        assert_eq!(request(&lengths, true), Err(Wrong::Malformed));
        let mut trailers = Fields::default();
        trailers.take_trailer(b"x-sum", b"1");
        assert!(!trailers.is_malformed());
        trailers.take_trailer(b":path", b"/");
        assert!(trailers.is_malformed());
        let mut nameless = Fields::default();
        nameless.take(b"", b"x");
        assert!(nameless.is_malformed());
    }

    /// Extended CONNECT, if connections of WebSocket are served.
    #[test]
    fn reads_handshakes_of_websocket() {
        type Asked = Result<(bool, Option<u64>), Wrong>;
        let asked = |fields: &str, serves: bool| -> Asked {
            let mut taken = Fields::new(false, serves);
            for line in fields.split(", ") {
                let at = 1 + line[1..].find('=').expect("an equals sign");
                taken.take(&line.as_bytes()[..at], &line.as_bytes()[at + 1..]);
            }
            let socket = taken.take_socket(true);
            let (_, length) = taken.finish(true, 1_000)?;
            Ok((socket?.is_some(), length))
        };
        let connect = ":method=CONNECT, :scheme=http, :path=/chat, :authority=a";
        let whole = format!("{connect}, :protocol=websocket, sec-websocket-version=13");
        assert_eq!(asked(&whole, true), Ok((true, None)));
        let status = |fields: &str| match asked(fields, true) {
            Err(Wrong::Refused(refusal)) => refusal.status,
            other => panic!("{other:?}"),
        };
        let other = format!("{connect}, :protocol=connect-udp, sec-websocket-version=13");
        assert_eq!(
            (status(&other), status(&format!("{connect}, :protocol=websocket"))),
            (501, 400)
        );
        let get = whole.replace("CONNECT", "GET");
        let bare = ":method=CONNECT, :authority=a, :protocol=websocket, sec-websocket-version=13";
        let twice = format!("{connect}, :protocol=websocket, :protocol=websocket");
        for fields in [&get, bare, &twice, &format!("{whole}, :protocol=websocket")] {
            assert_eq!(asked(fields, true), Err(Wrong::Malformed), "{fields}");
        }
        assert_eq!(asked(&whole, false), Err(Wrong::Malformed), "it is not announced");
        assert_eq!(asked(GET, true), Ok((false, None)));
    }

    #[test]
    fn refuses_what_is_not_supported() {
        let status = |fields: &str| match request(fields, true) {
            Err(Wrong::Refused(refusal)) => refusal.status,
            other => panic!("{other:?}"),
        };
        assert_eq!(status(":method=CONNECT, :authority=a:1"), 501);
        assert_eq!(status(":method=BREW, :scheme=http, :path=/"), 501);
        assert_eq!(status(":method=PUT, :scheme=http, :path=/, content-length=1001"), 413);
    }
}
