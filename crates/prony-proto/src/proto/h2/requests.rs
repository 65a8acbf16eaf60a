//! Header blocks of requests, encoded once per run, so that sending one is a copy.
//!
//! Fields that are the same in all calls of a plan are *common*. The first request of a connection
//! enters them into the peer's dynamic table, always in the same order; nothing else ever enters
//! it. So their indices are the same on every connection, and the blocks of later requests are the
//! same bytes. `:path` is never entered, as browsers do not enter it either.

use std::ops::Range;

use super::content::Kind;
use prony_base::grpc::Gzip;
use prony_base::http2::hpack::{Encoder, Indexing, encode_static};
use prony_base::http2::{TABLE_SIZE, frame};
use prony_base::units::Span;
use prony_plan::plan::{BodyFile, CallSpec, Cookies, Plan, Shared, SocketStep};
use prony_plan::script::{Filled, Moved};

/// The overhead of an entry of a dynamic table (RFC 7541, 4.1).
const ENTRY: usize = 32;

/// What the peer's dynamic table contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Table {
    /// Nothing yet: the next request enters the common fields.
    #[default]
    Empty,
    /// The common fields.
    Warm,
    /// Nothing, ever: the user or the peer wants no dynamic table.
    Unused,
}

/// Every call of a plan as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    arena: Vec<u8>,
    calls: Vec<Call>,
    specs: Shared<CallSpec>,
    /// The common fields, in the order in which they are entered.
    common: Vec<(Vec<u8>, Vec<u8>)>,
    /// The size of the common fields in a dynamic table.
    common_size: usize,
    /// An encoder for which the common fields are entered.
    warm: Encoder,
    /// The cookies of the call and of the session, together.
    cookies: Vec<u8>,
    scheme: Vec<&'static [u8]>,
    /// Whether calls open tunnels for WebSocket.
    opens_sockets: bool,
    /// How late the next request is.
    pub(super) late: Span,
}

/// A call: its header blocks in the arena, and what its fields are.
#[derive(Clone, Debug)]
struct Call {
    blocks: [Range<usize>; 3],
    /// The sum of the lengths of its names and values.
    plain: u32,
    is_head: bool,
    kind: Kind,
    /// Whether its messages have a schedule.
    is_paced: bool,
    /// Whether its messages are compressed, and its body with them, if it is the same in all
    /// requests.
    is_packed: bool,
    packed: Option<Box<[u8]>>,
    /// The timeout from its intended start, of which the server is given the rest.
    timeout: Option<Span>,
    fields: Vec<Field>,
    /// Whether its requests may have parts of their own, so that `fields` are kept.
    is_filled: bool,
}

#[derive(Clone, Debug)]
struct Field {
    name: Vec<u8>,
    value: Value,
    is_common: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Fixed(Vec<u8>),
    Path,
    /// Of this header of the user.
    Header(usize),
    Length,
}

/// The header block of a request that was just appended.
pub(super) struct Block {
    /// The sum of the lengths of names and values.
    pub(super) plain: u32,
    /// The size of the encoded block.
    pub(super) encoded: u32,
}

impl Requests {
    pub(super) fn new(plan: &Plan) -> Self {
        let of_sessions =
            plan.sessions.as_ref().is_some_and(|s| s.directed || s.cookies != Cookies::Off);
        let reconnects = plan.stream.as_deref().is_some_and(|stream| stream.reconnect);
        let follows = plan.follow.is_some();
        let signs = plan.aws_sigv4.is_some();
        let is_filled = of_sessions || plan.is_logged() || reconnects || follows || signs;
        let scheme = plan.endpoints.iter().map(|e| match e.tls_name() {
            Some(_) => &b"https"[..],
            None => b"http",
        });
        let mut gzip = Gzip::default();
        let mut requests = Self {
            arena: Vec::new(),
            calls: Vec::with_capacity(plan.calls.len()),
            specs: plan.calls.clone(),
            common: Vec::new(),
            common_size: 0,
            warm: Encoder::new(),
            cookies: Vec::new(),
            scheme: scheme.collect(),
            opens_sockets: plan.websocket.is_some(),
            late: Span::ZERO,
        };
        for spec in &plan.calls {
            let is_filled = is_filled || spec.template;
            let fields = requests.fields(spec);
            let is_head = spec.is_head();
            let kind = match spec.grpc.as_deref() {
                None => Kind::Http,
                Some(call) if call.streams => Kind::Streams,
                Some(_) => Kind::Unary,
            };
            let takes = spec.grpc.as_deref().is_some_and(|call| call.takes);
            let is_paced = takes && plan.messages.is_some();
            let blocks = [0..0, 0..0, 0..0];
            requests.calls.push(Call {
                blocks,
                plain: 0,
                is_head,
                kind,
                is_paced,
                is_packed: is_packed(spec),
                packed: is_packed(spec).then(|| packed(spec, &mut gzip)),
                timeout: spec.grpc.as_deref().and_then(|call| call.timeout),
                fields,
                is_filled,
            });
        }
        requests.find_common();
        requests.encode_all();
        requests
    }

    /// Whether the reply to the call has no body (HEAD).
    #[inline]
    pub(super) fn is_head(&self, call: u32) -> bool {
        self.calls[call as usize].is_head
    }

    /// The kind of the call.
    #[inline]
    pub(super) fn kind(&self, call: u32) -> Kind {
        self.calls[call as usize].kind
    }

    /// Whether the messages of the call have a schedule.
    #[inline]
    pub(super) fn is_paced(&self, call: u32) -> bool {
        self.calls[call as usize].is_paced
    }

    /// The numbers of the fields by which messages are matched.
    pub(super) fn tokens(&self, call: u32) -> Option<(u32, u32)> {
        self.specs[call as usize].grpc.as_deref().and_then(|call| call.token)
    }

    /// The call's body.
    #[inline]
    pub(super) fn body(&self, call: u32) -> &[u8] {
        match &self.calls[call as usize].packed {
            Some(packed) => packed,
            None => &self.specs[call as usize].body,
        }
    }

    /// The file with the call's body, if it is sent from there.
    pub(super) fn file(&self, call: u32) -> Option<&BodyFile> {
        self.specs[call as usize].file.as_deref()
    }

    /// Whether the messages of the call are compressed.
    #[inline]
    pub(super) fn is_packed(&self, call: u32) -> bool {
        self.calls[call as usize].is_packed
    }

    /// Whether a filled-in body has to be compressed.
    #[inline]
    pub(super) fn packs(&self, call: u32, filled: &[u8]) -> bool {
        self.calls[call as usize].is_packed && self.specs[call as usize].body != filled
    }

    /// The size that the common fields need in the peer's dynamic table, in bytes.
    pub(super) fn common_size(&self) -> usize {
        self.common_size
    }

    /// Append the HEADERS of a call. `update`: the size of the dynamic table to announce first.
    // Once for each request: there are two kinds of `H2` that call it.
    #[inline(always)]
    pub(super) fn write(
        &self,
        call: u32,
        stream: u32,
        table: Table,
        update: Option<u32>,
        out: &mut Vec<u8>,
    ) -> Block {
        let spec = &self.calls[call as usize];
        let begin = out.len();
        let block = &self.arena[spec.blocks[table as usize].clone()];
        out.extend_from_slice(block);
        let encoded = block.len() - frame::HEADER;
        out[begin + 5..begin + 9].copy_from_slice(&stream.to_be_bytes());
        if let Some(timeout) = spec.timeout {
            let plain = spec.plain + self.write_timeout(begin, timeout, out);
            if update.is_some() || out.len() - begin > prony_base::http2::FRAME_SIZE as usize {
                self.reframe(begin, update, out);
            }
            return Block { plain, encoded: (out.len() - begin - frame::HEADER) as u32 };
        }
        if update.is_some() || encoded > prony_base::http2::FRAME_SIZE as usize {
            self.reframe(begin, update, out);
        }
        Block { plain: spec.plain, encoded: (out.len() - begin - frame::HEADER) as u32 }
    }

    /// Whether a request with these parts may lack one of the common fields, or has another value
    /// for it. Such a request cannot enter them.
    pub(super) fn changes_common(&self, filled: &Filled) -> bool {
        let has_cookies = !filled.cookies().is_empty();
        let changes = |name: &[u8]| filled.has(name) || (has_cookies && name == b"cookie");
        filled.moved().is_some() || self.common.iter().any(|(name, _)| changes(name))
    }

    /// Append the HEADERS of a call with `filled` in place of the plan's parts.
    pub(super) fn write_filled(
        &mut self,
        call: u32,
        filled: &Filled,
        (stream, table): (u32, Table),
        update: Option<u32>,
        out: &mut Vec<u8>,
    ) -> Block {
        let begin = out.len();
        let spec = &self.specs[call as usize];
        let length = filled.body_length(spec);
        let flags = frame::flag::END_HEADERS | end_stream(length);
        frame::head(out, 0, frame::kind::HEADERS, flags, stream);
        let mut digits = [0; DIGITS];
        let length = decimal(length, &mut digits);
        let (mut block, mut plain) = (Writer::new(table, &mut self.warm), 0);
        let mut put = |out: &mut Vec<u8>, name: &[u8], value: &[u8], is_common: bool| {
            plain += name.len() + value.len();
            block.put(out, name, value, is_common);
        };
        let mut has_cookie = false;
        let moved = filled.moved();
        for field in &self.calls[call as usize].fields {
            if moved.is_some() && omits(filled, &field.name) {
                continue;
            }
            if let Some(value) = moved.and_then(|moved| of_moved(moved, &field.name)) {
                put(out, &field.name, value, false);
                continue;
            }
            let value = match &field.value {
                // The session has its own.
                Value::Fixed(_) if filled.has(&field.name) => continue,
                Value::Fixed(value) => value,
                Value::Path => filled.path().unwrap_or(spec.path.as_bytes()),
                Value::Header(n) => filled.header(*n).unwrap_or(spec.headers[*n].1.as_bytes()),
                Value::Length => length,
            };
            let cookies = filled.cookies();
            if field.name == b"cookie" && !cookies.is_empty() && !has_cookie {
                has_cookie = true;
                self.cookies.clear();
                for part in [value, b"; ", cookies] {
                    self.cookies.extend_from_slice(part);
                }
                put(out, b"cookie", &self.cookies, false);
            } else {
                put(out, &field.name, value, field.is_common);
            }
        }
        for line in filled.headers().split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
            let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
            let value = line[colon + 1..].trim_ascii();
            if name != "host" && !is_of_the_connection(&name, &String::from_utf8_lossy(value)) {
                put(out, name.as_bytes(), value, false);
            }
        }
        if !has_cookie && !filled.cookies().is_empty() {
            put(out, b"cookie", filled.cookies(), false);
        }
        if let Some(timeout) = self.calls[call as usize].timeout {
            plain += self.write_timeout(begin, timeout, out) as usize;
        }
        if update.is_some() || !set_length(begin, out) {
            self.reframe(begin, update, out);
        }
        Block { plain: plain as u32, encoded: (out.len() - begin - frame::HEADER) as u32 }
    }

    /// Append what is left of a timeout to the frame that starts at `begin`. Returns the length of
    /// the name and the value.
    #[cold]
    fn write_timeout(&self, begin: usize, timeout: Span, out: &mut Vec<u8>) -> u32 {
        let at = out.len();
        // A server ends a call without time at once.
        prony_base::grpc::timeout_text((timeout - self.late).0.max(1), out);
        let mut text = [0; prony_base::grpc::TIMEOUT_TEXT];
        let length = out.len() - at;
        text[..length].copy_from_slice(&out[at..]);
        out.truncate(at);
        encode_static(out, b"grpc-timeout", &text[..length]);
        set_length(begin, out);
        (b"grpc-timeout".len() + length) as u32
    }

    /// Complete a HEADERS frame at the end of `out`: prepend an update of the table's size to its
    /// block, set its length, and split it if it is too long for one frame.
    #[cold]
    fn reframe(&self, begin: usize, update: Option<u32>, out: &mut Vec<u8>) {
        let block = out.split_off(begin + frame::HEADER);
        let head = frame::Head::read(&out[begin..]).expect("a header was written");
        out.truncate(begin);
        let mut whole = Vec::with_capacity(block.len() + 8);
        if let Some(size) = update {
            size_update(&mut whole, size);
        }
        whole.extend_from_slice(&block);
        let flags = head.flags & !frame::flag::END_HEADERS;
        frame::header_block(out, head.stream, flags, &whole);
    }

    /// The fields of a call: pseudo-headers first, prony's own headers unless the user replaces
    /// them, the headers of the user without those that HTTP/2 does not have.
    fn fields(&self, spec: &CallSpec) -> Vec<Field> {
        let fixed = |value: &[u8]| Value::Fixed(value.to_vec());
        let field = |name: &[u8], value| Field { name: name.to_vec(), value, is_common: false };
        let host = spec.headers.iter().position(|(name, _)| name.eq_ignore_ascii_case("host"));
        let authority = match host {
            Some(n) if spec.template => Value::Header(n),
            Some(n) => fixed(spec.headers[n].1.as_bytes()),
            None => fixed(spec.authority.as_bytes()),
        };
        let mut fields = vec![
            field(b":method", fixed(spec.method.as_bytes())),
            field(b":scheme", fixed(self.scheme[spec.endpoint as usize])),
            field(b":authority", authority),
            field(b":path", Value::Path),
        ];
        if self.opens_sockets || spec.socket.as_deref().is_some_and(SocketStep::opens) {
            fields.push(field(b":protocol", fixed(b"websocket")));
        }
        if !spec.bare && !has(spec, "user-agent") {
            let agent = concat!("prony/", env!("CARGO_PKG_VERSION"));
            fields.push(field(b"user-agent", fixed(agent.as_bytes())));
        }
        if spec.grpc.is_some() {
            let all = [
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("grpc-encoding", "gzip"),
                ("grpc-accept-encoding", "gzip"),
            ];
            let all = if is_packed(spec) { &all[..] } else { &all[..2] };
            for (name, value) in all.iter().filter(|(name, _)| !has(spec, name)) {
                fields.push(field(name.as_bytes(), fixed(value.as_bytes())));
            }
        } else if !spec.bare && !has(spec, "accept") {
            fields.push(field(b"accept", fixed(b"*/*")));
        }
        for (n, (name, value)) in spec.headers.iter().enumerate() {
            let name = name.to_ascii_lowercase();
            if is_of_the_connection(&name, value) || name == "host" {
                continue;
            }
            let value = if spec.template { Value::Header(n) } else { fixed(value.as_bytes()) };
            fields.push(field(name.as_bytes(), value));
        }
        let wants_length = spec.has_body() || matches!(&*spec.method, "POST" | "PUT" | "PATCH");
        let says_how = has(spec, "content-length") || has(spec, "transfer-encoding");
        if !spec.bare && wants_length && !says_how && spec.grpc.is_none() {
            fields.push(field(b"content-length", Value::Length));
        }
        fields
    }

    /// Find the common fields, and put them first in every call, after the pseudo-headers.
    fn find_common(&mut self) {
        let first = self.calls[0].fields.clone();
        let mut size = 0;
        for field in first {
            let Value::Fixed(value) = &field.value else { continue };
            let entry = field.name.len() + value.len() + ENTRY;
            let is_common = |call: &Call| {
                let mut same = call.fields.iter().filter(|f| f.name == field.name);
                same.next().is_some_and(|f| f.value == field.value) && same.next().is_none()
            };
            let in_static = {
                let mut out = Vec::new();
                encode_static(&mut out, &field.name, value);
                out.len() == 1
            };
            let fits = size + entry <= TABLE_SIZE as usize;
            if fits && !in_static && self.calls.iter().all(is_common) {
                size += entry;
                self.common.push((field.name.clone(), value.clone()));
            }
        }
        self.common_size = size;
        for call in &mut self.calls {
            for field in &mut call.fields {
                field.is_common = self.common.iter().any(|(name, _)| *name == field.name);
            }
            let order = |f: &Field| {
                let common = self.common.iter().position(|(name, _)| *name == f.name);
                (!f.name.starts_with(b":"), common.map_or(usize::MAX, |n| n))
            };
            // Pseudo-headers may be in any order among themselves.
            call.fields.sort_by_key(order);
        }
        let mut scratch = Vec::new();
        for (name, value) in &self.common {
            self.warm.literal(&mut scratch, name, value, Indexing::Incremental);
        }
    }

    /// Encode all calls for each state of the table.
    fn encode_all(&mut self) {
        for (call, spec) in self.calls.iter_mut().zip(self.specs.iter()) {
            let plain = |field: &Field| field.name.len() + fixed_value(field, spec).len();
            call.plain = call.fields.iter().map(plain).sum::<usize>() as u32;
            for table in [Table::Empty, Table::Warm, Table::Unused] {
                let begin = self.arena.len();
                let flags = frame::flag::END_HEADERS | end_stream(spec.body_length());
                frame::head(&mut self.arena, 0, frame::kind::HEADERS, flags, 0);
                let mut block = Writer::new(table, &mut self.warm);
                for field in &call.fields {
                    let value = fixed_value(field, spec);
                    block.put(&mut self.arena, &field.name, &value, field.is_common);
                }
                // A longer block is split when it is written.
                set_length(begin, &mut self.arena);
                call.blocks[table as usize] = begin..self.arena.len();
            }
            if !call.is_filled {
                call.fields = Vec::new();
            }
        }
    }
}

/// Writes the fields of a block for a state of the peer's table.
enum Writer<'a> {
    /// Common fields enter it.
    Empty(Encoder),
    /// The encoder knows which have.
    Warm(&'a mut Encoder),
    Unused,
}

impl<'a> Writer<'a> {
    fn new(table: Table, warm: &'a mut Encoder) -> Self {
        match table {
            Table::Empty => Self::Empty(Encoder::new()),
            Table::Warm => Self::Warm(warm),
            Table::Unused => Self::Unused,
        }
    }

    #[inline]
    fn put(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8], is_common: bool) {
        let how = if is_common { Indexing::Incremental } else { Indexing::Without };
        match self {
            Self::Empty(fresh) => fresh.literal(out, name, value, how),
            Self::Warm(warm) => warm.literal(out, name, value, Indexing::Without),
            Self::Unused => encode_static(out, name, value),
        }
    }
}

/// Whether the messages of a call are compressed.
fn is_packed(spec: &CallSpec) -> bool {
    spec.grpc.as_deref().is_some_and(|call| call.gzip)
}

/// The body of a call with its messages compressed.
fn packed(spec: &CallSpec, gzip: &mut Gzip) -> Box<[u8]> {
    let mut out = Vec::new();
    gzip.pack(&spec.body, &mut out);
    out.into()
}

/// Set the length of the frame that starts at `begin` and ends the output. Return whether it fits
/// into one frame.
fn set_length(begin: usize, out: &mut [u8]) -> bool {
    let length = out.len() - begin - frame::HEADER;
    let [_, a, b, c] = (length as u32).to_be_bytes();
    out[begin..begin + 3].copy_from_slice(&[a, b, c]);
    length <= prony_base::http2::FRAME_SIZE as usize
}

/// The most digits of a length.
const DIGITS: usize = 20;

/// A number as text.
fn decimal(mut number: u64, digits: &mut [u8; DIGITS]) -> &[u8] {
    let mut first = DIGITS;
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[first..];
        }
    }
}

/// Append an update of the dynamic table's size (RFC 7541, 6.3).
fn size_update(out: &mut Vec<u8>, size: u32) {
    const PREFIX: u32 = 31;
    if size < PREFIX {
        out.push(0x20 | size as u8);
        return;
    }
    out.push(0x20 | PREFIX as u8);
    let mut rest = size - PREFIX;
    while rest >= 128 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Whether a request after a redirect lacks this field.
fn omits(filled: &Filled, name: &[u8]) -> bool {
    filled.omits(str::from_utf8(name).unwrap_or_default())
}

/// The value of a pseudo-header that a redirect has changed.
fn of_moved<'a>(moved: &'a Moved, name: &[u8]) -> Option<&'a [u8]> {
    match name {
        b":method" if moved.is_get => Some(b"GET"),
        b":scheme" => Some(if moved.secure { b"https" } else { b"http" }),
        b":authority" => moved.authority.as_deref().map(str::as_bytes),
        _ => None,
    }
}

fn end_stream(length: u64) -> u8 {
    if length == 0 { frame::flag::END_STREAM } else { 0 }
}

/// The value of a field as the plan has it.
fn fixed_value(field: &Field, spec: &CallSpec) -> Vec<u8> {
    match &field.value {
        Value::Fixed(value) => value.clone(),
        Value::Path => spec.path.clone().into_bytes(),
        Value::Header(n) => spec.headers[*n].1.clone().into_bytes(),
        Value::Length => spec.body_length().to_string().into_bytes(),
    }
}

/// Whether HTTP/2 has no such header: those about one connection (RFC 9113, 8.2.2).
fn is_of_the_connection(name: &str, value: &str) -> bool {
    match name {
        "connection" | "proxy-connection" | "keep-alive" | "transfer-encoding" | "upgrade" => true,
        "te" => !value.eq_ignore_ascii_case("trailers"),
        _ => false,
    }
}

/// Whether the user sets a header of this name (in lower case).
fn has(spec: &CallSpec, name: &str) -> bool {
    spec.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
}
