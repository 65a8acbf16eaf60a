//! Calls of gRPC: their schema, and their messages from JSON. A plan has only the bytes.

use std::path::PathBuf;

use prony_base::units::Span;
use prony_io::Options;
use prony_plan::plan::{CallSpec, Expect, HttpVersion, Load, MessagePlan, MessageReply, Plan};
use prony_plan::schedule::{Arrivals, RatePlan};

/// How the calls of a plan become calls of gRPC.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GrpcDraft {
    /// `.proto` files.
    pub files: Vec<PathBuf>,
    /// Folders in which their imports are searched.
    pub folders: Vec<PathBuf>,
    /// Files with sets of descriptors.
    pub sets: Vec<PathBuf>,
    /// Whether the bodies are encoded messages with their prefixes, so that no schema is needed.
    pub encoded: bool,
    /// Whether the server is simulated: it has its own services alone.
    pub simulated: bool,
    /// The timeout that calls announce to the server.
    pub timeout: Option<Span>,
    /// Whether that timeout counts from the intended start; otherwise from the send.
    pub timeout_from_intended: bool,
    /// Whether messages are compressed with gzip.
    pub gzip: bool,
    /// The schedule of the messages of each call that takes a stream of them.
    pub messages: MessagesDraft,
}

impl GrpcDraft {
    /// Whether the schema comes from the server itself.
    pub fn asks_server(&self) -> bool {
        self.files.is_empty() && self.sets.is_empty() && !self.encoded
    }
}

/// The schedule of messages. Only with a rate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessagesDraft {
    /// Messages per second of each call; `None` if the times between messages are no rate.
    pub rate: Option<RatePlan>,
    /// The times between messages.
    pub arrivals: Arrivals,
    /// Messages per call.
    pub count: Option<u64>,
    /// For how long messages are sent.
    pub time: Option<Span>,
    /// How replies are matched: `order`, `none`, the name of a field of both messages, or two names
    /// `REQUEST:REPLY`. With encoded messages `field`, and each call has the numbers of its fields.
    pub reply: Option<String>,
}

impl MessagesDraft {
    /// The schedule, if there is one.
    ///
    /// # Errors
    /// The rest of a schedule without its rate.
    pub(crate) fn plan(&self) -> Result<Option<Box<MessagePlan>>, String> {
        if self.lacks_rate() {
            return Err("a schedule of messages needs their rate: --messages (`messages`)".into());
        }
        if *self == Self::default() {
            return Ok(None);
        }
        let reply = match self.reply.as_deref() {
            None => MessageReply::Usual,
            Some("order") => MessageReply::Order,
            Some("none") => MessageReply::None,
            Some(_) => MessageReply::Field,
        };
        let (rate, arrivals) = (self.rate.clone().unwrap_or_default(), self.arrivals.clone());
        let (count, time) = (self.count, self.time);
        Ok(Some(Box::new(MessagePlan { rate, over: 1, arrivals, count, time, reply })))
    }

    /// Ends a schedule that has no end of its own with the load: in a closed loop with a duration,
    /// each stream is opened once, and sends messages for that long.
    ///
    /// # Errors
    /// A load without such an end, or one that begins with a warm-up.
    pub(crate) fn end_with_load(&mut self, plan: &mut Plan) -> Result<(), String> {
        let rate_ends = self.rate.as_ref().is_some_and(|rate| rate.length().is_some());
        let has_end = rate_ends || self.count.is_some() || self.time.is_some();
        let is_schedule = self.rate.is_some() || !self.arrivals.has_rate();
        if has_end || !is_schedule {
            return Ok(());
        }
        let (Load::Closed { connections, .. }, Some(time)) = (&plan.load, plan.stop.duration)
        else {
            return Err(
                "a schedule of messages needs an end: --messages-time (`messages-time`) or \
                        --messages-count (`messages-count`); or the duration of a closed loop \
                        (-c, -d)"
                    .into(),
            );
        };
        if plan.warmup > Span::ZERO {
            return Err("a schedule of messages that lasts as long as the load has no warm-up: \
                        leave it out, or give --messages-time (`messages-time`) or \
                        --messages-count (`messages-count`)"
                .into());
        }
        if time >= plan.timeout {
            return Err(format!(
                "messages are sent for {time} on each connection or call, which is not below the \
                 timeout of {}: give a longer --timeout (`timeout`), or --messages-time \
                 (`messages-time`)",
                plan.timeout
            ));
        }
        let all = u64::from(*connections) * u64::from(plan.pipeline);
        plan.stop.requests = Some(plan.stop.requests.map_or(all, |requests| requests.min(all)));
        self.time = Some(time);
        Ok(())
    }

    /// Whether it has all but the rate that its times between messages need.
    pub(crate) fn lacks_rate(&self) -> bool {
        self.rate.is_none() && self.arrivals.has_rate() && *self != Self::default()
    }
}

/// Turns the requests of a plan into calls of gRPC: their paths are methods, their bodies JSON.
/// Without files, the schema comes from the server, which is asked for it with `options`. Returns a
/// note about it for the report.
///
/// # Errors
/// A sentence about the schema, or about the first request that does not fit it.
pub fn prepare(
    plan: &mut Plan,
    draft: &GrpcDraft,
    options: &Options,
) -> Result<Option<String>, String> {
    plan.http = HttpVersion::Http2Only;
    plan.messages = draft.messages.plan()?;
    let mut calls = plan.calls.to_vec();
    let mut note = None;
    expect(&mut plan.expect)?;
    calls.iter_mut().filter_map(|call| call.expect.as_deref_mut()).try_for_each(expect)?;
    for call in calls.iter_mut().filter(|_| !draft.timeout_from_intended) {
        announce(call, draft.timeout);
    }
    if draft.encoded {
        for call in &mut calls {
            call.method = "POST".into();
            call.grpc.get_or_insert_default();
        }
    } else {
        note = encode(plan, &mut calls, draft, options)?;
    }
    if draft.timeout_from_intended && draft.timeout.is_some() {
        calls.iter_mut().filter_map(|call| call.grpc.as_deref_mut()).for_each(|grpc| {
            grpc.timeout = draft.timeout;
        });
    }
    if draft.gzip {
        calls.iter_mut().filter_map(|call| call.grpc.as_deref_mut()).for_each(|grpc| {
            grpc.gzip = true;
        });
    }
    // Calls with several messages have an end: their last one.
    let is_endless = |call: &CallSpec| {
        call.grpc.as_deref().is_some_and(|grpc| grpc.takes) && call.message_count() <= 1
    };
    if plan.sessions.is_none() && calls.iter().all(is_endless) {
        let mut messages = draft.messages.clone();
        messages.end_with_load(plan)?;
        if let Some(schedule) = plan.messages.as_deref_mut() {
            schedule.time = messages.time;
        }
    }
    plan.calls = calls.into();
    Ok(note)
}

/// Expects `OK` instead of the statuses of HTTP that are expected by default.
fn expect(expect: &mut Expect) -> Result<(), String> {
    if matches!(expect.statuses[..], [(200, 399)] | [(200, 299), (300, 399)]) {
        expect.statuses = vec![(0, 0)];
    }
    match expect.is_of_grpc() {
        true => Ok(()),
        false => Err("calls of gRPC have statuses of gRPC: use --expect-grpc (`expect-grpc`) \
                      instead of --expect (`expect`)"
            .into()),
    }
}

/// Adds `grpc-timeout` to the headers of a call.
fn announce(call: &mut CallSpec, timeout: Option<Span>) {
    let Some(timeout) = timeout else { return };
    let mut text = Vec::new();
    prony_base::grpc::timeout_text(timeout.0, &mut text);
    let value = String::from_utf8_lossy(&text).into_owned();
    call.headers.push(("grpc-timeout".into(), value));
}

#[cfg(not(feature = "grpc"))]
fn encode(
    _: &Plan,
    _: &mut [CallSpec],
    _: &GrpcDraft,
    _: &Options,
) -> Result<Option<String>, String> {
    Err("this program was built without schemas of gRPC; build it with `--features grpc`, or write \
         encoded messages in a plan file (`encoded = true`)"
        .into())
}

#[cfg(feature = "grpc")]
fn encode(
    plan: &Plan,
    calls: &mut [CallSpec],
    draft: &GrpcDraft,
    options: &Options,
) -> Result<Option<String>, String> {
    schema::encode(plan, calls, draft, options)
}

#[cfg(feature = "grpc")]
mod schema {
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::Instant;

    use prony_base::fault::Fault;
    use prony_base::grpc::Status;
    use prony_base::units::{ConnId, RequestId, Span};
    use prony_core::engine::Tap;
    use prony_grpc::{BYTES_MAX, SERVICES, Schema, reflect, types_in_any};
    use prony_io::{Control, Options, Taps};
    use prony_plan::plan::{CallSpec, GrpcCall, Load, MessageReply, Plan, Stop, Think};

    use super::GrpcDraft;
    use crate::files::read;
    use crate::run;

    /// More than the bytes of a reply around its files.
    const KEPT_BEYOND: usize = 1 << 20;
    /// How long a server may take to reply with a part of its schema.
    const REFLECTION: Span = Span::from_secs(10);

    pub(super) fn encode(
        plan: &Plan,
        calls: &mut [CallSpec],
        draft: &GrpcDraft,
        options: &Options,
    ) -> Result<Option<String>, String> {
        let (schema, note) = schema(plan, calls, draft, options)?;
        for (i, call) in calls.iter_mut().enumerate() {
            let of_call = |why: String| format!("request {}: {why}", i + 1);
            let method = schema.method(&call.path).map_err(of_call)?;
            if draft.simulated {
                let known = simulated()?.method(&call.path).map(|_| ());
                known.map_err(|why| of_call(format!("of the simulated server: {why}")))?;
            }
            let text = std::str::from_utf8(&call.body);
            let text = text.map_err(|_| of_call("its body is not JSON".into()))?;
            let encoded = method.encode(text).map_err(of_call)?;
            let varies = !encoded.call.messages.is_empty();
            if varies && plan.sessions.is_none() {
                let what = "template fields need a session: run a plan file with [[session]], or \
                            use --session";
                return Err(of_call(what.into()));
            }
            let has_fields = |(_, value): &(String, String)| value.contains("{{");
            call.template &= varies || call.headers.iter().any(has_fields);
            call.path = method.path();
            call.method = "POST".into();
            call.body = encoded.body;
            let mut grpc = encoded.call;
            if grpc.takes
                && let Some(names) = fields(plan, draft)
            {
                let (request, reply) = names.split_once(':').unwrap_or((names, names));
                grpc.token = Some(method.token(request, reply).map_err(of_call)?);
            }
            call.grpc = Some(Box::new(grpc));
        }
        Ok(note)
    }

    /// The names of the fields by which replies are matched.
    fn fields<'d>(plan: &Plan, draft: &'d GrpcDraft) -> Option<&'d str> {
        let by_field = plan.messages.as_deref().is_some_and(|m| m.reply == MessageReply::Field);
        draft.messages.reply.as_deref().filter(|_| by_field)
    }

    fn schema(
        plan: &Plan,
        calls: &[CallSpec],
        draft: &GrpcDraft,
        options: &Options,
    ) -> Result<(Schema, Option<String>), String> {
        if draft.asks_server() && draft.simulated {
            let note = "The schema is that of the simulated server.";
            return Ok((simulated()?, Some(note.into())));
        }
        if draft.asks_server() {
            return ask(plan, calls, options);
        }
        for path in &draft.files {
            read("--proto", path).map_err(|e| e.to_string())?;
        }
        let mut schema = match draft.files.is_empty() {
            true => Schema::default(),
            false => Schema::compile(&draft.files, &draft.folders)
                .map_err(|why| format!("the schema cannot be compiled: {why}"))?,
        };
        for path in &draft.sets {
            let bytes = read("--protoset", path).map_err(|e| e.to_string())?;
            schema.add_set(&bytes).map_err(|why| {
                format!("'{}' is not a set of descriptors: {why}", path.display())
            })?;
        }
        Ok((schema, None))
    }

    /// The schema of the simulated server.
    fn simulated() -> Result<Schema, String> {
        let mut schema = Schema::default();
        schema.add_set(prony_server::serve::DESCRIPTORS)?;
        Ok(schema)
    }

    /// Asks the server for its schema.
    fn ask(
        plan: &Plan,
        calls: &[CallSpec],
        options: &Options,
    ) -> Result<(Schema, Option<String>), String> {
        let methods: Vec<String> = calls.iter().map(|call| call.path.clone()).collect();
        let bodies = calls.iter().filter_map(|call| std::str::from_utf8(&call.body).ok());
        let types: Vec<String> = bodies.flat_map(types_in_any).collect();
        let (mut version, started) = (0, Instant::now());
        let schema = loop {
            let ask = |question| one_call(plan, calls, SERVICES[version], question, options);
            let result = reflect(&methods, &types, ask, || started.elapsed());
            match result {
                Ok(schema) => break schema,
                Err(Failed::Status(Status::UNIMPLEMENTED)) if version + 1 < SERVICES.len() => {
                    version += 1;
                }
                Err(why) => return Err(why.sentence()),
            }
        };
        let name = SERVICES[version].split('/').nth(1).unwrap_or_default();
        let note = format!("The schema is the server's own ({name}).");
        Ok((schema, Some(note)))
    }

    /// Why the server could not be asked.
    enum Failed {
        /// Its reply has this status.
        Status(Status),
        /// Another reason.
        Other(String),
    }

    impl From<String> for Failed {
        fn from(why: String) -> Self {
            Self::Other(why)
        }
    }

    impl Failed {
        fn sentence(self) -> String {
            let why = match self {
                Self::Status(Status::UNIMPLEMENTED) => "it has no reflection".to_owned(),
                Self::Status(status) => format!("it replies {}", status.name()),
                Self::Other(why) => why,
            };
            format!(
                "the server cannot be asked for its schema: {why}; give the schema with --proto or \
                 --protoset (`proto` or `protoset` in [grpc])"
            )
        }
    }

    /// What a call has returned: the bytes of its messages, and its status.
    #[derive(Clone, Debug, Default)]
    struct Seen(Arc<Mutex<(Vec<u8>, Option<u16>)>>);

    impl Tap for Seen {
        fn wants_body(&self) -> bool {
            true
        }

        fn body(&mut self, _: ConnId, _: RequestId, piece: &[u8]) {
            let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // A reply that never ends is kept up to the bound of a schema, which then refuses it.
            let room = (BYTES_MAX + KEPT_BEYOND).saturating_sub(seen.0.len());
            seen.0.extend_from_slice(&piece[..piece.len().min(room)]);
        }

        fn done(&mut self, _: ConnId, _: RequestId, reply: &prony_proto::proto::Reply) {
            let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            seen.1 = Some(reply.status);
        }
    }

    /// Makes one call with one message to the server of a plan, and returns its messages.
    fn one_call(
        plan: &Plan,
        calls: &[CallSpec],
        path: &str,
        message: Vec<u8>,
        options: &Options,
    ) -> Result<Vec<u8>, Failed> {
        let mut body = prony_base::grpc::prefix(false, message.len() as u32).to_vec();
        body.extend(message);
        let first = &calls[0];
        let call = CallSpec {
            endpoint: first.endpoint,
            authority: first.authority.clone(),
            // Its credentials may be necessary, too.
            headers: first.headers.iter().filter(|(n, _)| n != "grpc-timeout").cloned().collect(),
            method: "POST".into(),
            path: path.to_owned(),
            body,
            grpc: Some(Box::new(GrpcCall { streams: true, ..GrpcCall::default() })),
            ..CallSpec::default()
        };
        let load = Load::Closed { connections: 1, think: Think::None };
        let stop = Stop { requests: Some(1), ..Stop::default() };
        let mut one = Plan::new(plan.endpoints.clone(), vec![call], load, stop);
        one.proxy.clone_from(&plan.proxy);
        one.http = plan.http;
        one.http2.clone_from(&plan.http2);
        one.tls.clone_from(&plan.tls);
        one.timeout = REFLECTION;
        one.connect_timeout = plan.connect_timeout;
        one.expect.statuses = vec![(0, 0)];
        one.check().map_err(Failed::Other)?;
        let seen = Seen::default();
        let taps = seen.clone();
        let options = Options {
            threads: Some(1),
            taps: Some(Taps::new(move || taps.clone())),
            ..options.clone()
        };
        let done = run::run(&one, &options, &Control::default(), &mut |_| {}, Default::default());
        let summary = done.map_err(|e| Failed::Other(e.to_string()))?;
        let (bytes, status) =
            std::mem::take(&mut *seen.0.lock().unwrap_or_else(PoisonError::into_inner));
        match status.and_then(|status| Status::new(u32::from(status))) {
            Some(Status::OK) => Ok(bytes),
            Some(status) => Err(Failed::Status(status)),
            None => {
                let faults = Fault::ALL.into_iter().filter(|f| summary.main.fault(*f) > 0);
                let fault = faults.map(prony_report::words::sentence).next();
                Err(Failed::Other(fault.unwrap_or("it does not reply").to_owned()))
            }
        }
    }
}
