//! Validation of plans. Every plan is checked before a run, wherever it came from.

use crate::plan::{
    CallSpec, Expect, HttpVersion, Load, MessageReply, Pace, Pick, Plan, SessionKind, Step,
    StreamFormat, Think, TlsSpec, check_version, steps,
};
use crate::rate::Arrivals;
use crate::script::Script;
use crate::target::{Endpoint, check_header, check_method};
use prony_base::grpc::Status;
use prony_base::http2;
use prony_base::secret::quoted_url;
use prony_base::units::Span;

/// The maximum concurrency of a closed loop over all its connections: each request in flight is a
/// user with a 32-bit number.
const USERS_MAX: u64 = 1 << 31;
/// The maximum number of pairs of connection and target host in a closed loop: the engine needs
/// four bytes for each.
const PAIRS_MAX: u64 = 1 << 27;

impl Plan {
    /// Check whether the plan can be run. Front ends build valid plans; this catches plans that
    /// were written or changed by hand.
    ///
    /// # Errors
    /// One sentence about the first defect.
    pub fn check(&self) -> Result<(), String> {
        self.check_targets()?;
        self.check_limits()?;
        check_load(&self.load)?;
        self.check_clients()?;
        self.check_ramp_up()?;
        self.check_sessions()?;
        self.check_sockets()?;
        self.check_follow()?;
        self.check_signing()?;
        self.check_body_files()?;
        self.check_groups()?;
        self.exchange.as_deref().map_or(Ok(()), |exchange| self.check_exchange(exchange))?;
        check_expect(&self.expect, self.highest_status())?;
        self.check_checks()?;
        Script::new(self).map_err(|error| error.to_string())?;
        self.tls.as_deref().map_or(Ok(()), check_tls)?;
        self.check_stop()
    }

    fn check_targets(&self) -> Result<(), String> {
        if self.endpoints.is_empty() {
            return Err("the plan has no endpoint to connect to".into());
        }
        for (i, endpoint) in self.endpoints.iter().enumerate() {
            check_endpoint(endpoint).map_err(|why| format!("endpoint {}: {why}", i + 1))?;
        }
        if self.calls.is_empty() {
            return Err("the plan has no request to send".into());
        }
        for (i, call) in self.calls.iter().enumerate() {
            let checked = if call.endpoint as usize >= self.endpoints.len() {
                Err(format!("there is no endpoint {}", call.endpoint))
            } else if self.exchange.is_some() {
                self.check_call_name(call)
            } else {
                check_call(call)
                    .and_then(|()| check_version(call, self.http))
                    .and_then(|()| self.check_call_name(call))
            };
            checked.map_err(|why| format!("request {}: {why}", i + 1))?;
        }
        Ok(())
    }

    fn check_call_name(&self, call: &CallSpec) -> Result<(), String> {
        if call.name.is_some_and(|name| name as usize >= self.names.len()) {
            return Err("its name is not in the plan's list of names".into());
        }
        call.expect.as_deref().map_or(Ok(()), |expect| check_expect(expect, self.highest_status()))
    }

    fn check_clients(&self) -> Result<(), String> {
        let Some(clients) = &self.clients else { return Ok(()) };
        let Load::Closed { connections, think: Think::None } = self.load else {
            return Err("only a closed loop without think time has independent clients".into());
        };
        if self.sessions.is_some() || self.exchange.is_some() || self.endpoints.len() > 1 {
            return Err("independent clients send requests to one server, without sessions".into());
        }
        if self.pick != Pick::InTurn || self.replace_lost {
            return Err("independent clients make their requests in turn, each once".into());
        }
        if self.stop.requests.is_some_and(|n| n < u64::from(connections)) {
            return Err("there must be at least 1 request for each client".into());
        }
        if clients.starts.is_some_and(|(n, _)| n == 0) {
            return Err("at least 1 client must start at a time".into());
        }
        match &clients.pace {
            Pace::Rate(rate) if !(rate.is_finite() && *rate > 0.0) => {
                Err("the rate of a client must be above 0".into())
            }
            Pace::Times(times) if times.is_empty() => Err("the clients have no times".into()),
            Pace::Times(times) if !times.is_sorted() => {
                Err("the times of the clients are not in order".into())
            }
            _ => Ok(()),
        }
    }

    fn check_sessions(&self) -> Result<(), String> {
        let Some(sessions) = &self.sessions else {
            return match self.stop.sessions {
                Some(_) => Err("the plan has a number of sessions to run, but no sessions".into()),
                None => Ok(()),
            };
        };
        if self.stop.sessions == Some(0) {
            return Err("the run must have at least 1 session".into());
        }
        if sessions.connections == 0 {
            return Err("a session needs at least 1 connection".into());
        }
        if sessions.kinds.is_empty() {
            return Err("the plan has no session to run".into());
        }
        if sessions.pick == Pick::Random && sessions.kinds.iter().all(|kind| kind.weight == 0) {
            return Err("all sessions have a weight of 0".into());
        }
        for (i, kind) in sessions.kinds.iter().enumerate() {
            self.check_kind(kind).map_err(|why| format!("session {}: {why}", i + 1))?;
        }
        Ok(())
    }

    fn check_kind(&self, kind: &SessionKind) -> Result<(), String> {
        if kind.bursts.is_empty() {
            return Err("it has no burst of requests".into());
        }
        for (i, burst) in kind.bursts.iter().enumerate() {
            let fail = |why: String| Err(format!("burst {}: {why}", i + 1));
            if burst.calls.is_empty() {
                return fail("it has no request".into());
            }
            if let Some(call) = burst.calls.iter().find(|&&c| c as usize >= self.calls.len()) {
                return fail(format!("there is no request {call}"));
            }
            if burst.repeat == 0 {
                return fail("the number of repetitions must be at least 1".into());
            }
            if let Err(why) = check_think(burst.think) {
                return fail(why);
            }
            if let Some(retry) = burst.control.as_ref().and_then(|control| control.retry.as_ref()) {
                if burst.calls.len() > 1 {
                    return fail("only a burst of one request can be made again".into());
                }
                retry.check().or_else(fail)?;
            }
        }
        steps(&kind.bursts).map(|_| ())
    }

    fn check_http2(&self) -> Result<(), String> {
        let has_grpc = self.calls.iter().any(|call| call.grpc.is_some());
        if has_grpc && self.http != HttpVersion::Http2Only {
            return Err("gRPC needs HTTP/2 alone; use --http 2-only (`http = \"2-only\"`)".into());
        }
        if !self.http.is_http2() {
            let offers = self.tls.as_deref().is_some_and(|tls| tls.alpn.iter().any(|p| p == "h2"));
            return match offers {
                true => Err("the application protocol h2 is HTTP/2; use --http 2".into()),
                false => Ok(()),
            };
        }
        if self.exchange.is_some() {
            return Err("round trips have no HTTP version".into());
        }
        let is_plain = self.endpoints.iter().any(|e| e.tls_name().is_none());
        if self.http == HttpVersion::Http2 && is_plain {
            let scheme = if self.websocket.is_some() { "ws" } else { "http" };
            return Err(format!(
                "without TLS nothing negotiates HTTP/2: use --h2c (`http = \"2-only\"`) for \
                 {scheme}:// URLs of servers that speak it"
            ));
        }
        if self.calls.iter().any(|call| !call.raw.is_empty()) {
            return Err("HTTP/2 has no raw header bytes".into());
        }
        let spec = self.http2.as_deref().copied().unwrap_or_default();
        let frame_sizes = http2::FRAME_SIZE..=http2::FRAME_SIZE_MAX;
        if !frame_sizes.contains(&spec.frame_size) {
            return Err(format!(
                "the largest frame must have {} to {} bytes, not {}",
                http2::FRAME_SIZE,
                http2::FRAME_SIZE_MAX,
                spec.frame_size
            ));
        }
        if !(1..=http2::WINDOW_MAX).contains(&spec.window) {
            return Err(format!(
                "a window has 1 to {} bytes, not {}",
                http2::WINDOW_MAX,
                spec.window
            ));
        }
        Ok(())
    }

    fn check_messages(&self) -> Result<(), String> {
        let Some(messages) = self.messages.as_deref() else { return Ok(()) };
        messages.check()?;
        if self.websocket.is_some() {
            return self.check_length(messages.length(1));
        }
        if messages.reply == MessageReply::Token || messages.over > 1 {
            return Err("only messages of WebSocket have tokens, or a rate of all connections \
                        together"
                .into());
        }
        let takes = |call: &&CallSpec| call.grpc.as_deref().is_some_and(|grpc| grpc.takes);
        let mut paced = self.calls.iter().filter(takes).peekable();
        if paced.peek().is_none() {
            return Err(
                "a schedule of messages needs a call that takes a stream of messages".into()
            );
        }
        let longest = paced.map(|call| messages.length(call.message_count())).max();
        longest.map_or(Ok(()), |length| self.check_length(length))
    }

    /// The messages of a call are sent over this time.
    fn check_length(&self, length: Span) -> Result<(), String> {
        if length < self.timeout {
            return Ok(());
        }
        Err(format!(
            "the messages of a call are sent over {length}, and its timeout is {}; use a longer \
             timeout (`timeout`), or fewer messages",
            self.timeout
        ))
    }

    /// The highest status of a reply: those from 1000 are close codes of WebSocket.
    fn highest_status(&self) -> u16 {
        if self.websocket.is_some() || self.has_sockets() { 4999 } else { 599 }
    }

    fn check_stream(&self) -> Result<(), String> {
        let Some(stream) = self.stream.as_deref() else { return Ok(()) };
        stream.check()?;
        let is_of_websocket = stream.format == StreamFormat::Messages;
        if is_of_websocket != self.websocket.is_some() {
            return Err(match is_of_websocket {
                true => "only WebSocket has streams of the format messages; use sse, ndjson or \
                         chunks"
                    .into(),
                false => "WebSocket has messages of its own: use the format messages".into(),
            });
        }
        if self.exchange.is_some() || self.calls.iter().any(|call| call.grpc.is_some()) {
            return Err("only replies of HTTP are read as streams: gRPC and round trips have \
                        messages of their own"
                .into());
        }
        if let Some(time) = stream.time.filter(|&time| time >= self.timeout) {
            return Err(format!(
                "a stream is ended after {time}, and the timeout of its request is {}; use a \
                 longer timeout (`timeout`), or end streams earlier",
                self.timeout
            ));
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), String> {
        if self.pipeline == 0 {
            return Err("the pipelining depth must be at least 1".into());
        }
        if self.pipeline > 1 && self.http == HttpVersion::Http10 {
            return Err("HTTP/1.0 has no pipelining; use HTTP/1.1 or a depth of 1".into());
        }
        self.check_http2()?;
        self.check_messages()?;
        self.check_stream()?;
        self.check_websocket()?;
        self.check_proxy()?;
        if self.requests_per_connection == Some(0) {
            return Err("a connection must carry at least 1 request".into());
        }
        let (Load::Closed { connections, .. } | Load::Open { connections, .. }) = self.load;
        let users = u64::from(connections) * u64::from(self.pipeline);
        if matches!(self.load, Load::Closed { .. }) && users > USERS_MAX {
            return Err(format!(
                "{connections} connections with a pipelining depth of {} have {users} requests in \
                 flight; the limit is {USERS_MAX}",
                self.pipeline
            ));
        }
        let pairs = u64::from(connections) * self.endpoints.len() as u64;
        if matches!(self.load, Load::Closed { .. }) && pairs > PAIRS_MAX {
            return Err(format!(
                "{connections} connections to each of {} hosts are {pairs} connections; the limit \
                 is {PAIRS_MAX}",
                self.endpoints.len()
            ));
        }
        if self.timeout == Span::ZERO || self.connect_timeout == Span::ZERO {
            return Err("a timeout must be longer than 0".into());
        }
        if self.shard.of == 0 || self.shard.index >= self.shard.of {
            return Err(format!(
                "share {} of {} does not exist; shares are counted from 0",
                self.shard.index, self.shard.of
            ));
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), String> {
        if self.stop.requests == Some(0) {
            return Err("the run must have at least 1 request".into());
        }
        let alone = matches!(self.load, Load::Closed { .. }) && self.sessions.is_none();
        if self.replace_lost && !(alone && self.stop.requests.is_some()) {
            return Err("only a closed loop with a number of requests, without sessions, can \
                        replace lost requests"
                .into());
        }
        if self.stop.duration == Some(Span::ZERO) {
            return Err("the duration must be longer than 0".into());
        }
        let own_length = match &self.load {
            Load::Open { arrivals: Arrivals::Trace(times), .. } => times.last().copied(),
            Load::Open { arrivals: Arrivals::Log, .. } => Some(Span::ZERO),
            Load::Open { arrivals: Arrivals::Uniform(..), .. } | Load::Closed { .. } => None,
            Load::Open { rate, .. } => rate.length(),
        };
        let counted = self.stop.requests.is_some() || self.stop.sessions.is_some();
        if !counted && self.stop.duration.is_none() && own_length.is_none() {
            return Err("the run has no end; give a number of requests or a duration".into());
        }
        let only_requests =
            self.stop.sessions.is_none() && self.stop.duration.or(own_length).is_none();
        let always = |kind: &SessionKind| {
            let steps = steps(&kind.bursts).unwrap_or_default();
            Step::always_request(&steps, &kind.bursts)
        };
        if only_requests && self.sessions.as_ref().is_some_and(|s| !s.kinds.iter().any(always)) {
            return Err(
                "every session may skip all its steps, so the number of requests may never \
                        be reached; give a duration or a number of sessions, too"
                    .into(),
            );
        }
        let length = self.stop.duration.or(own_length).unwrap_or(Span::ZERO);
        if self.warmup.0.checked_add(length.0).is_none() {
            return Err("warm-up and run together are longer than 584 years".into());
        }
        Ok(())
    }
}

impl CallSpec {
    /// Check whether the request can be sent.
    ///
    /// # Errors
    /// One sentence about the first defect.
    pub fn check(&self) -> Result<(), String> {
        check_call(self)
    }
}

fn check_endpoint(endpoint: &Endpoint) -> Result<(), String> {
    match endpoint {
        Endpoint::Tcp { host, .. } | Endpoint::Inet { host, .. } if host.is_empty() => {
            Err("the host is missing".into())
        }
        Endpoint::Tcp { port: 0, .. } | Endpoint::Inet { port: 0, .. } => {
            Err("port 0 is not a valid port".into())
        }
        Endpoint::Unix { path } | Endpoint::UnixSeqpacket { path } if path.is_empty() => {
            Err("the path of the socket is missing".into())
        }
        // sockaddr_un has space for 107 bytes and a terminating zero.
        Endpoint::Unix { path } | Endpoint::UnixSeqpacket { path } if path.len() > 107 => {
            Err(format!("the path of the socket has {} bytes; the limit is 107", path.len()))
        }
        Endpoint::Tls { name, .. } if name.is_empty() => {
            Err("the name of the TLS server is missing".into())
        }
        Endpoint::Tls { over, .. } if over.tls_name().is_some() => {
            Err("TLS inside TLS is not supported".into())
        }
        Endpoint::Tls { over, .. } if over.keeps_boundaries() => {
            Err("TLS needs a byte stream below it".into())
        }
        Endpoint::Tls { over, .. } => check_endpoint(over),
        _ => Ok(()),
    }
}

fn check_call(call: &CallSpec) -> Result<(), String> {
    check_method(&call.method)?;
    let is_packable = call.template && !call.bare && call.grpc.is_none() && !call.body.is_empty();
    if call.gzip && !is_packable {
        return Err("only the body of a template is compressed for each request".into());
    }
    if !call.bare && !call.raw.is_empty() {
        return Err("raw lines need a request to which no headers are added".into());
    }
    // Requests of older tools are sent byte for byte, and those tools do not check the path either.
    if call.bare {
        return call.headers.iter().try_for_each(|(name, value)| check_header(name, value));
    }
    // A path from a template is checked when it has been filled in.
    let filled = call.template && call.path.starts_with("{{");
    // Requests to a proxy have an absolute URL.
    let absolute = ["http://", "https://"].iter().any(|scheme| call.path.starts_with(scheme));
    if !call.path.starts_with('/') && call.path != "*" && !absolute && !filled {
        return Err(format!("the path '{}' does not start with '/'", quoted_url(&call.path)));
    }
    for (what, text) in [("path", &*call.path), ("host", &*call.authority)] {
        let is_bad = |b: u8| b.is_ascii_control() || (b == b' ' && !call.template);
        // Testing all bytes is faster than stopping early, because it is vectorized.
        let any = text.bytes().fold(false, |any, b| any | is_bad(b));
        if let Some(b) = text.bytes().find(|&b| any && is_bad(b)) {
            let c = char::from(b);
            return Err(format!("the {what} contains {c:?}, which is not allowed"));
        }
    }
    for (name, value) in &call.headers {
        check_header(name, value)?;
    }
    call.check_framing()
}

fn check_load(load: &Load) -> Result<(), String> {
    match load {
        Load::Closed { connections: 0, .. } | Load::Open { connections: 0, .. } => {
            Err("the run needs at least 1 connection".into())
        }
        Load::Closed { think, .. } => check_think(*think),
        Load::Open { rate, arrivals, .. } => match arrivals {
            Arrivals::Gamma(shape) if !Arrivals::SHAPES.contains(shape) => {
                let (low, high) = (Arrivals::SHAPES.start(), Arrivals::SHAPES.end());
                Err(format!("the shape of gamma arrivals, {shape}, is not from {low} to {high}"))
            }
            Arrivals::Fixed | Arrivals::Poisson | Arrivals::Gamma(_) => rate.check(),
            Arrivals::Uniform(low, high) if low > high => {
                Err(format!("the bounds of the inter-arrival times, {low} and {high}, are swapped"))
            }
            Arrivals::Uniform(_, Span::ZERO) => Err("the inter-arrival times are all zero".into()),
            Arrivals::Uniform(..) => Ok(()),
            Arrivals::Log => Ok(()),
            Arrivals::Trace(times) if times.is_empty() => Err("the trace has no times".into()),
            Arrivals::Trace(times) => match times.windows(2).position(|pair| pair[0] > pair[1]) {
                Some(i) => {
                    Err(format!("time {} of the trace is earlier than the previous one", i + 2))
                }
                None => Ok(()),
            },
        },
    }
}

fn check_tls(tls: &TlsSpec) -> Result<(), String> {
    if tls.cert.is_some() != tls.key.is_some() {
        return Err("a client certificate needs its key, and a key its certificate".into());
    }
    match tls.alpn.iter().find(|p| p.is_empty() || p.len() > 255) {
        Some(p) => Err(format!("an ALPN name has 1 to 255 bytes, but '{p}' has {}", p.len())),
        None => Ok(()),
    }
}

fn check_think(think: Think) -> Result<(), String> {
    match think {
        Think::Uniform(low, high) if low > high => {
            Err(format!("the bounds of the think time, {low} and {high}, are swapped"))
        }
        _ => Ok(()),
    }
}

fn check_expect(expect: &Expect, highest: u16) -> Result<(), String> {
    if expect.statuses.is_empty() {
        return Err("the list of expected statuses is empty".into());
    }
    for &(low, high) in &expect.statuses {
        let is_grpc = low == high && usize::from(high) < Status::COUNT;
        if !is_grpc && (low > high || low < 100 || high > highest) {
            return Err(format!("{low}-{high} is not a range of statuses within 100 to {highest}"));
        }
    }
    Ok(())
}
