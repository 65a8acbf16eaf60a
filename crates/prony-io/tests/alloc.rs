//! After the warm-up, requests allocate no memory. A counting allocator measures the engine, the
//! codec, the recorder and the target server, called directly, and round trips with their drivers.
//! Loading a large session file allocates little more than what its requests differ in. (These
//! tests are here and not in prony-core, because a counting allocator is unsafe code.)

#[path = "alloc/events.rs"]
mod events;
#[path = "alloc/http2.rs"]
mod http2;
#[path = "../../prony-proto/tests/identity/mod.rs"]
mod identity;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prony_base::machine::{Action, Machine};
use prony_base::units::{ConnId, Nanos, Span};
use prony_core::engine::Engine;
use prony_import::session_log::{self, Dialect};
use prony_io::{Control, Listen, Options, bind, run, serve};
use prony_plan::plan::{
    Burst, CallSpec, Calls, Exchange, Expect, Framing, Load, Message, Plan, SessionKind, Sessions,
    Stop, StreamPlan, Think, TlsSpec, TlsVersion,
};
use prony_plan::schedule::{Arrivals, RatePiece, RatePlan};
use prony_plan::target::Endpoint;
use prony_proto::layer::TlsContext;
use prony_proto::proto::h1::H1;
use prony_server::echo::{self, EchoBehavior};
use prony_server::serve::Serve;
use rustls::ServerConnection;

use http2::Requests;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes that are allocated now, modulo 2^64.
static LIVE: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is forwarded unchanged to the system's allocator; counting touches no memory
// of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's guarantees for `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's guarantees for `at` and `layout` are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add((size as u64).wrapping_sub(layout.size() as u64), Ordering::Relaxed);
        // SAFETY: the caller's guarantees for all three are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const REPLY: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 16\r\n\r\n0123456789abcdef";

fn plan(load: Load, pipeline: u32, requests_per_connection: Option<u32>) -> Plan {
    Plan {
        pipeline,
        requests_per_connection,
        expect: Expect { body: Some(b"9ab".to_vec()), ..Expect::default() },
        ..Plan::new(
            vec![Endpoint::Tcp { host: "127.0.0.1".into(), port: 1 }],
            vec![CallSpec {
                endpoint: 0,
                method: "GET".into(),
                path: "/".into(),
                authority: "127.0.0.1:1".into(),
                ..CallSpec::default()
            }],
            load,
            Stop { requests: Some(u64::MAX / 2), sessions: None, duration: None },
        )
    }
}

/// The same load in sessions of three bursts, with and without pauses.
fn sessions(plan: Plan) -> Plan {
    let burst = |lead, think| Burst { calls: vec![0; 20], lead, think, repeat: 1, control: None };
    let pause = Think::Exponential(Span::from_millis(5));
    let bursts = vec![burst(true, Think::None), burst(false, pause), burst(false, Think::None)];
    let sessions = Sessions {
        connections: 2,
        ..Sessions::plain(vec![SessionKind { name: String::new(), weight: 1, bursts }])
    };
    let stop = Stop { requests: None, sessions: Some(u64::MAX / 2), duration: None };
    Plan { sessions: Some(sessions), stop, ..plan }
}

/// A simulated server: in each iteration every connection gets the replies to its requests.
struct Peer {
    connecting: Vec<ConnId>,
    requested: Vec<(ConnId, usize)>,
    bytes: Vec<u8>,
    replies: u64,
    yielded: bool,
}

impl Peer {
    fn new() -> Self {
        Self {
            connecting: Vec::with_capacity(1024),
            requested: Vec::with_capacity(1024),
            bytes: Vec::with_capacity(1 << 20),
            replies: 0,
            yielded: false,
        }
    }

    fn poll(&mut self, engine: &mut Engine<H1>, now: Nanos) {
        while let Some(action) = engine.poll_action() {
            match action {
                Action::Connect { id, .. } => self.connecting.push(id),
                Action::Transmit { id } => {
                    let mut requests = 0;
                    engine.take_output(id, now, &mut |bytes| {
                        requests += bytes.windows(4).filter(|w| w == b"\r\n\r\n").count();
                        bytes.len()
                    });
                    self.requested.push((id, requests));
                }
                Action::Close { id, .. } => self.requested.retain(|(other, _)| *other != id),
                Action::Yield => self.yielded = true,
                Action::Pause { .. } | Action::Resume { .. } => {}
                Action::Finished => unreachable!("the plan is unlimited"),
            }
        }
    }

    fn turn(&mut self, engine: &mut Engine<H1>, now: Nanos, chunk: usize) {
        if engine.deadline().is_some_and(|d| d <= now) {
            engine.on_tick(now);
            self.poll(engine, now);
        }
        while let Some(id) = self.connecting.pop() {
            engine.on_connected(id, now);
            self.poll(engine, now);
        }
        for _ in 0..self.requested.len() {
            let (id, n) = self.requested.remove(0);
            self.bytes.clear();
            for _ in 0..n {
                self.bytes.extend_from_slice(REPLY);
            }
            self.replies += n as u64;
            let mut bytes = std::mem::take(&mut self.bytes);
            for piece in bytes.chunks_mut(chunk) {
                engine.on_recv(id, piece, now);
                self.poll(engine, now);
            }
            self.bytes = bytes;
        }
        if std::mem::take(&mut self.yielded) {
            engine.on_turn(now);
            self.poll(engine, now);
        }
    }
}

/// Runs `requests` requests after a warm-up of two seconds. Returns the allocations per second.
fn allocations(plan: &Plan, step: Span, chunk: usize, requests: u64) -> f64 {
    let mut engine = Engine::new(plan, H1::new(plan));
    let mut peer = Peer::new();
    let mut now = Nanos::ZERO;
    while now < Nanos(2_000_000_000) {
        peer.turn(&mut engine, now, chunk);
        now = now + step;
    }
    let (before, start, from) = (ALLOCATIONS.load(Ordering::Relaxed), peer.replies, now);
    while peer.replies < start + requests {
        peer.turn(&mut engine, now, chunk);
        now = now + step;
    }
    let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let seconds = now.since(from).as_secs_f64();
    println!("{made} allocations over {requests} requests in {seconds:.1} virtual seconds");
    made as f64 / seconds.max(1.0)
}

/// A single test, so that no other test allocates meanwhile.
#[test]
fn requests_allocate_no_memory_after_the_warm_up() {
    let closed = |connections| Load::Closed { connections, think: Think::None };
    let rate = RatePlan { pieces: vec![RatePiece { from: 50e3, to: 50e3, length: None }] };
    let open = Load::Open { rate, arrivals: Arrivals::Poisson, connections: 100 };
    let (slow, quick) = (Span::from_millis(10), Span::from_micros(100));
    let cases = [
        ("keep-alive", plan(closed(50), 1, None), slow, usize::MAX),
        ("pipelined", plan(closed(10), 64, None), slow, usize::MAX),
        ("pipelined, cut in pieces", plan(closed(10), 64, None), slow, 1_000),
        ("head cut in pieces", plan(closed(10), 1, None), slow, 20),
        ("a connection per request", plan(closed(50), 1, Some(1)), slow, usize::MAX),
        ("open", plan(open, 1, None), quick, usize::MAX),
        ("sessions", sessions(plan(closed(10), 64, None)), slow, usize::MAX),
        ("sessions over connections", sessions(plan(closed(10), 4, None)), slow, usize::MAX),
    ];
    for (name, plan, step, chunk) in cases {
        let per_second = allocations(&plan, step, chunk, 100_000);
        // The series may allocate a few times for each of the 32 blocks of a second, which has at
        // least 1,000 requests.
        assert!(per_second <= 96.0, "{name}: {per_second} allocations per second");
    }
    for (streams, what) in [1, 10, 100].map(|n| Requests::ALL.map(|what| (n, what))).concat() {
        let per_second = http2::allocations(streams, what);
        let name = format!("{streams} streams, {what:?}");
        assert!(per_second <= 96.0, "{name}: {per_second} allocations per second");
    }
    let station = r#"{"latency": "exp:1ms", "workers": 3, "size": 700}"#;
    for (name, behavior, chunk) in [
        ("plain", "{}", usize::MAX),
        ("plain, cut in pieces", "{}", 50),
        ("a station", station, usize::MAX),
    ] {
        let made = allocations_of_the_server(behavior, chunk);
        assert_eq!(made, 0, "{name}: allocations over 100,000 requests");
    }
    an_idle_connection_needs_at_most_1_kib();
    an_idle_http2_connection_needs_at_most_4_kib();
    an_open_stream_needs_at_most_4_kib();
    loading_a_session_file_allocates_only_for_differences();
    round_trips_allocate_nothing();
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let made = allocations_over_tls(version);
        assert!(made <= BY_RUSTLS, "{version:?}: {made} allocations per request");
    }
}

/// Allocations per request on a warm TLS connection, all by rustls: it allocates the sent record
/// and the text of the received record. The engine adds none.
const BY_RUSTLS: f64 = 2.001;

/// Ten thousand requests on one connection, after a warm-up of one thousand.
fn allocations_over_tls(version: TlsVersion) -> f64 {
    let identity = identity::identity(|_| {});
    let mut server = ServerConnection::new(Arc::new(identity.config)).expect("a server");
    let mut plan = plan(Load::Closed { connections: 1, think: Think::None }, 1, None);
    plan.endpoints[0] = plan.endpoints[0].clone().secured("h");
    let spec = TlsSpec { ca: Some(identity.pem), version: Some(version), ..TlsSpec::default() };
    plan.tls = Some(Box::new(spec));
    let context = TlsContext::new(&plan, Vec::new(), None).expect("a context");
    let mut engine = Engine::new(&plan, H1::new(&plan)).with_tls(Some(context));

    let (mut made, mut replies, mut now) = (0, 0, Nanos::ZERO);
    let (mut up, mut down) = (Vec::with_capacity(1 << 16), Vec::with_capacity(1 << 16));
    let mut request = Vec::with_capacity(1 << 16);
    engine.on_tick(now);
    let mut id = None;
    while replies < 11_000 {
        now = now + Span::from_micros(10);
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        if let Some(id) = id.filter(|_| !down.is_empty()) {
            engine.on_recv(id, &mut down, now);
        }
        let mut opened = None;
        while let Some(action) = engine.poll_action() {
            match action {
                Action::Connect { id, .. } => opened = Some(id),
                Action::Transmit { id } => {
                    engine.take_output(id, now, &mut |bytes| {
                        up.extend_from_slice(bytes);
                        bytes.len()
                    });
                }
                other => unreachable!("{other:?}"),
            }
        }
        if replies >= 1_000 {
            made += ALLOCATIONS.load(Ordering::Relaxed) - before;
        }
        if let Some(opened) = opened {
            id = Some(opened);
            engine.on_connected(opened, now);
            down.clear();
            continue;
        }
        let mut rest = &up[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).expect("room");
            server.process_new_packets().expect("a valid record");
        }
        up.clear();
        request.clear();
        // An error only means that there is no more data.
        drop(server.reader().read_to_end(&mut request));
        if request.ends_with(b"\r\n\r\n") {
            replies += 1;
            server.writer().write_all(REPLY).expect("memory");
        }
        down.clear();
        while server.wants_write() {
            server.write_tls(&mut down).expect("memory");
        }
    }
    made as f64 / 10_000.0
}

/// The bytes that the engine has allocated for this number of connections over HTTP/1.1, each of
/// which has carried a request and is idle.
fn idle_bytes(connections: u32) -> u64 {
    let before = LIVE.load(Ordering::Relaxed);
    let think = Think::Fixed(Span::from_secs(3_600));
    let plan = plan(Load::Closed { connections, think }, 1, None);
    let (mut engine, mut peer) = (Engine::new(&plan, H1::new(&plan)), Peer::new());
    for ms in 0..2_000 {
        peer.turn(&mut engine, Nanos::ZERO + Span::from_millis(ms), usize::MAX);
    }
    assert_eq!(engine.connections(), connections as usize);
    assert_eq!((engine.in_flight(), peer.replies), (0, u64::from(connections)));
    drop(peer);
    LIVE.load(Ordering::Relaxed).wrapping_sub(before)
}

/// Two runs differ only in their connections, so the rest of the engine does not count.
fn an_idle_connection_needs_at_most_1_kib() {
    let [few, many] = [100, 2_100].map(idle_bytes);
    let each = (many - few) / 2_000;
    println!("HTTP/1.1: {each} bytes for each idle connection and its user");
    assert!(each <= 1_024, "{each} bytes");
}

/// The same over HTTP/2. A further stream is also a further user, who thinks.
fn an_idle_http2_connection_needs_at_most_4_kib() {
    for (streams, limit) in [(1, 4_096), (10, 4_096 + 9 * 700)] {
        let [few, many] = [100, 2_100].map(|n| http2::idle_bytes(n, streams));
        let each = (many - few) / 2_000;
        println!("{streams} streams: {each} bytes for each idle connection and its users");
        assert!(each <= limit, "{streams} streams: {each} bytes");
    }
}

/// Events allocate nothing, whatever their pieces. The speed is printed, and not decided: other
/// load on the machine changes it.
fn an_open_stream_needs_at_most_4_kib() {
    let kinds = [
        ("plain", events::plain()),
        ("again", events::reconnecting()),
        ("tokens", events::tokens()),
    ];
    for (kind, stream) in kinds {
        let [few, many] = [1_000, 11_000].map(|n| events::open(stream.clone(), n, 20));
        let each = (many.bytes - few.bytes) / 10_000;
        let speed = many.events_per_second;
        println!("{kind}: {each} bytes for each open stream, {speed:.0} events per second");
        assert!(each <= 4_096, "{kind}: {each} bytes");
        over_http2(kind, &stream);
        let busy = events::open(stream, 10, 20_000);
        println!("{kind}: {:.0} events per second on 10 streams", busy.events_per_second);
        // The bytes of a virtual second may need a few blocks of a series.
        for needs in [few, many, busy] {
            assert!(needs.allocations <= 96 * 20, "{kind}: {} allocations", needs.allocations);
        }
    }
}

/// The same over HTTP/2, with 100 streams on each connection, of which each needs its share.
fn over_http2(kind: &str, stream: &StreamPlan) {
    let [few, many] = [10, 110].map(|n| events::open_http2(stream.clone(), n, 100, 20));
    let each = (many.bytes - few.bytes) / 10_000;
    let speed = many.events_per_second;
    println!("{kind}, HTTP/2: {each} bytes for each open stream, {speed:.0} events per second");
    assert!(each <= 4_096, "{kind}, HTTP/2: {each} bytes");
    for needs in [few, many] {
        assert!(needs.allocations <= 96 * 20, "{kind}, HTTP/2: {} allocations", needs.allocations);
    }
}

/// Each path has its own memory, and each burst its lists; the shards of a plan share everything.
fn loading_a_session_file_allocates_only_for_differences() {
    const REQUESTS: u64 = 10_000;
    let mut text = String::new();
    for n in 0..REQUESTS {
        let (indent, end) = if n % 10 == 0 { ("", "\n") } else { (" ", "") };
        let separator = if n % 100 == 0 { end } else { "" };
        writeln!(text, "{separator}{indent}/shop/item{n}.html think=1.5").expect("room");
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let mut calls = Calls::default();
    let log = (text.as_bytes(), Dialect::Prony);
    let kinds = session_log::add_to(&mut calls, log, Think::None, |request| CallSpec {
        method: CallSpec::method_of(request.method),
        path: request.uri.to_owned(),
        ..CallSpec::default()
    });
    let kinds = kinds.expect("a valid file");
    let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!((kinds.len() as u64, calls.len() as u64), (REQUESTS / 100, REQUESTS));
    // One allocation for each path; five for each burst of ten, whose lists grow twice.
    let most = REQUESTS + REQUESTS / 10 * 6;
    assert!((REQUESTS..most).contains(&made), "{made} allocations for {REQUESTS} requests");

    let plan = sessions(plan(Load::Closed { connections: 10, think: Think::None }, 1, None));
    let sessions = plan.sessions.map(|s| Sessions { kinds: kinds.into(), ..s });
    let plan = Plan { calls: calls.into_vec().into(), sessions, ..plan };
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let share = plan.shard(0, 2);
    let engine = Engine::new(&share, H1::new(&share));
    let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert!(made < 200, "{made} allocations for an engine that has {REQUESTS} requests to send");
    drop(engine);
}

/// Allocations of the target server over 100,000 requests on ten connections, after a warm-up of as
/// many.
fn allocations_of_the_server(behavior: &str, chunk: usize) -> u64 {
    let mut serve = Serve::new(serde_json::from_str(behavior).expect("a behavior"), 1);
    let ids: Vec<_> = (0..10).filter_map(|_| serve.on_accepted(0, Nanos::ZERO)).collect();
    let mut requests = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(20);
    let mut now = Nanos::ZERO;
    let mut before = 0;
    for round in 0..1_000 {
        if round == 500 {
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
        for &id in &ids {
            for piece in requests.chunks_mut(chunk.min(1 << 20)) {
                serve.on_recv(id, piece, now);
                poll_server(&mut serve, now);
            }
        }
        while serve.served().outstanding > 0 {
            now = serve.deadline().expect("outstanding requests have a deadline");
            serve.on_tick(now);
            poll_server(&mut serve, now);
        }
    }
    assert_eq!(serve.served().replies, 200_000);
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

/// Client and responder over loopback, with their usual drivers. A longer run allocates more, a few
/// times per second, but not per exchange.
fn round_trips_allocate_nothing() {
    let few = allocations_of_round_trips(1_000);
    let many = allocations_of_round_trips(20_000);
    println!("{few} allocations over 1,000 round trips, {many} over 20,000");
    assert!(many < few + 1_900, "{few} allocations over 1,000 round trips, {many} over 20,000");
}

fn allocations_of_round_trips(exchanges: u64) -> u64 {
    let listener = bind(&Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())).expect("a listener");
    let Listen::Tcp(at) = *listener.local() else { unreachable!("a TCP listener") };
    let mut plan = plan(Load::Closed { connections: 1, think: Think::None }, 1, None);
    plan.endpoints = vec![Endpoint::Tcp { host: at.ip().to_string(), port: at.port() }];
    plan.stop.requests = Some(exchanges);
    plan.expect = Expect::default();
    let messages = vec![Message { request: 128, reply: 2 }];
    plan.exchange =
        Some(Box::new(Exchange { framing: Framing::Short, warmup_exchanges: 10, messages }));
    let control = Control::new();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    std::thread::scope(|s| {
        let responder = s.spawn(|| {
            let machine = echo::Echo::new(EchoBehavior::default(), vec![false]);
            serve(vec![machine], &[listener], &Options::default(), &control, &|_, _| {})
        });
        let outcome = run(&plan, &Options::default(), &Control::new(), &mut |_| {}).expect("a run");
        control.stop_now();
        responder.join().expect("a responder").expect("its result");
        assert_eq!((outcome.merged().1.replies, outcome.driver), (exchanges, "direct"));
    });
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

fn poll_server(serve: &mut Serve, now: Nanos) {
    while let Some(action) = serve.poll_action() {
        let Action::Transmit { id } = action else { panic!("{action:?}") };
        assert!(serve.take_output(id, now, &mut |bytes| bytes.len()));
    }
}
