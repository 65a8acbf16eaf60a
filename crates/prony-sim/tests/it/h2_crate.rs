//! HTTP/2 beside the crate `h2`, in virtual time: prony's client loads a server of `h2`, and a
//! client of `h2` asks prony's target server. Contents are equal whatever the sizes and windows.

mod pipe;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, client, server};
use http::{Request, Response};
use prony_base::fault::Fault;
use prony_base::machine::{Action, CloseHow, Machine, StopRequest};
use prony_base::units::{ConnId, Nanos, RequestId, Span};
use prony_core::engine::{Tap, Taps};
use prony_plan::plan::{CallSpec, Http2Spec, Plan, Think};
use prony_proto::proto::Reply;
use prony_server::serve::{Latency, Serve, ServerBehavior};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::server::{Connections, Server, ServerModel};
use prony_sim::world::Setup;

use crate::http2::http2;
use crate::plans::{Seed, assert_invariants, closed, has_all_seeds, ms, seeds};
use pipe::{Pipe, Task};

/// Random sizes: none, small ones, some around those of frames and windows, large ones.
fn size(rng: &mut Rng) -> usize {
    let near = |rng: &mut Rng, n: u64| (n + rng.below(5)).saturating_sub(2) as usize;
    match rng.below(7) {
        0 => 0,
        1 => near(rng, 2),
        2 => near(rng, 1 << 14),
        3 => near(rng, 65_535),
        4 => rng.below(1_000) as usize,
        _ => rng.below(200_000) as usize,
    }
}

fn body(rng: &mut Rng) -> Vec<u8> {
    let length = size(rng);
    let mut word = rng.bits();
    (0..length)
        .map(|_| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (word >> 33) as u8
        })
        .collect()
}

/// The limits of one side.
#[derive(Clone, Copy, Debug)]
struct Limits {
    window: u32,
    connection: u32,
    frame: u32,
    list: u32,
    table: u32,
    streams: u32,
}

impl Limits {
    fn random(rng: &mut Rng) -> Self {
        Self {
            window: *rng.pick(&[1, 7, 100, 1 << 14, 65_535, 1 << 20]),
            connection: *rng.pick(&[65_535, 100_000, 1 << 22]),
            frame: *rng.pick(&[1 << 14, (1 << 14) + 1, 1 << 17]),
            list: 1 << 16,
            table: *rng.pick(&[0, 64, 300, 4_096, 1 << 16]),
            streams: rng.between(1, 30) as u32,
        }
    }

    /// Tiny windows make many frames of large bodies.
    fn longest(&self) -> usize {
        if self.window < 1_000 { 300 * self.window as usize + 50 } else { usize::MAX }
    }
}

/// What a server of `h2` has read: the path and the body of each request.
type Log = Rc<RefCell<Vec<(String, Vec<u8>)>>>;

/// A server of `h2`, which answers each request with its own body and a header with its path.
struct Echo {
    limits: Limits,
    tasks: BTreeMap<ConnId, Task>,
    log: Log,
}

async fn serve(io: Pipe, limits: Limits, log: Log) {
    let mut builder = server::Builder::new();
    builder.initial_window_size(limits.window);
    builder.initial_connection_window_size(limits.connection);
    builder.max_frame_size(limits.frame);
    builder.max_header_list_size(limits.list);
    builder.max_concurrent_streams(limits.streams);
    let Ok(mut conn) = builder.handshake::<_, Bytes>(io).await else { return };
    let mut calls: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    poll_fn(|cx: &mut Context<'_>| {
        loop {
            match conn.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    calls.push(Box::pin(answer(request, respond, Rc::clone(&log))));
                }
                // The client may close when it has all replies.
                Poll::Ready(Some(Err(why))) if !why.is_io() => {
                    panic!("prony has broken a rule: {why}");
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        calls.retain_mut(|call| call.as_mut().poll(cx).is_pending());
        Poll::Pending
    })
    .await;
}

async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, log: Log) {
    let path = request.uri().path().to_owned();
    let mut body = request.into_body();
    let mut read = Vec::new();
    while let Some(piece) = body.data().await {
        // The client may have ended the run.
        let Ok(piece) = piece else { return };
        read.extend_from_slice(&piece);
        if body.flow_control().release_capacity(piece.len()).is_err() {
            return;
        }
    }
    log.borrow_mut().push((path.clone(), read.clone()));
    let reply = Response::builder().status(200).header("x-path", &path).header("x-same", "yes");
    let reply = reply.header("content-length", read.len()).body(()).expect("a reply");
    if let Ok(mut stream) = respond.send_response(reply, read.is_empty())
        && !read.is_empty()
    {
        _ = stream.send_data(read.into(), true);
    }
}

impl Echo {
    fn turn(&mut self, id: ConnId, conns: &mut Connections) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let (out, is_over) = task.run();
        if !out.is_empty() {
            conns.send(id, &out);
        }
        if is_over {
            self.tasks.remove(&id);
            conns.close(id);
        }
    }
}

impl ServerModel for Echo {
    fn opened(&mut self, id: ConnId, conns: &mut Connections) {
        let (limits, log) = (self.limits, Rc::clone(&self.log));
        self.tasks.insert(id, Task::new(|io| serve(io, limits, log)));
        self.turn(id, conns);
    }

    fn received(&mut self, id: ConnId, data: &[u8], conns: &mut Connections) -> bool {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.arrived(data);
        }
        self.turn(id, conns);
        true
    }

    fn request(&mut self, _: ConnId, _: u64, _: &[u8], _: &mut Connections) {
        unreachable!("it reads the bytes itself");
    }

    fn ended(&mut self, id: ConnId, conns: &mut Connections) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.ended();
        }
        self.turn(id, conns);
        conns.close(id);
    }
}

/// A request without its whole reply.
#[derive(Default)]
struct Open {
    call: u32,
    /// The part of the body that has arrived.
    body: Vec<u8>,
    /// What the header says.
    path: Option<Vec<u8>>,
}

/// Checks the contents of each reply.
struct Check {
    plan: Plan,
    open: BTreeMap<(ConnId, RequestId), Open>,
    checked: Arc<Mutex<u64>>,
}

impl Tap for Check {
    fn submitted(&mut self, conn: ConnId, id: RequestId, call: u32, _: &[u8]) {
        self.open.insert((conn, id), Open { call, ..Open::default() });
    }

    fn wants_headers(&self) -> bool {
        true
    }

    fn header(&mut self, conn: ConnId, id: RequestId, name: &[u8], value: &[u8]) {
        if name == b"x-path" {
            self.open.get_mut(&(conn, id)).expect("it was submitted").path = Some(value.to_vec());
        }
    }

    fn wants_body(&self) -> bool {
        true
    }

    fn body(&mut self, conn: ConnId, id: RequestId, piece: &[u8]) {
        let open = self.open.get_mut(&(conn, id)).expect("it was submitted");
        open.body.extend_from_slice(piece);
    }

    fn done(&mut self, conn: ConnId, id: RequestId, reply: &Reply) {
        let open = self.open.remove(&(conn, id)).expect("it was submitted");
        let Open { call, body, path } = open;
        let call = &self.plan.calls[call as usize];
        assert_eq!((reply.status, reply.body_bytes), (200, body.len() as u64));
        assert!(body == call.body, "{} bytes of another body", body.len());
        assert_eq!(path.as_deref(), Some(call.path.as_bytes()));
        *self.checked.lock().expect("one thread") += 1;
    }
}

/// A random load of requests with bodies, each with a path of its own.
fn random_plan(rng: &mut Rng, longest: usize) -> Plan {
    let requests = rng.between(1, 40);
    let mut plan = http2(closed(1, Think::None, ms(0)), rng.between(1, 3) as u32, 1);
    plan.pipeline = rng.between(1, 12) as u32;
    (plan.stop.requests, plan.stop.duration) = (Some(requests), None);
    plan.timeout = Span::from_secs(100_000);
    let call = |n: u64, rng: &mut Rng| {
        let mut body = body(rng);
        body.truncate(longest);
        CallSpec {
            method: if body.is_empty() { "GET" } else { "POST" }.into(),
            path: format!("/{n}/{}", "p".repeat(rng.below(200) as usize)),
            authority: "server".into(),
            headers: vec![
                ("x-token".to_owned(), format!("{:x}", rng.bits())),
                ("x-same".to_owned(), "same in all".to_owned()),
            ]
            .into(),
            body,
            ..CallSpec::default()
        }
    };
    plan.calls = (0..requests).map(|n| call(n, rng)).collect();
    plan
}

fn rough(rng: &mut Rng, seed: u64) -> Setup {
    let mut setup = Setup::new(Link::rough(rng), seed);
    setup.link.rate = None;
    setup.link.window = setup.link.window.map(|w| w.max(2_000));
    setup.link.segment = setup.link.segment.map(|s| s.max(20));
    setup.max_events = 100_000_000;
    setup.watch = false;
    setup
}

/// prony's client, a server of `h2`: both have the same requests, and the replies are the server's.
#[test]
fn a_server_of_the_crate_h2_understands_the_client() {
    let mut all = 0;
    for seed in seeds(60) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 170);
        let (theirs, ours) = (Limits::random(&mut rng), Limits::random(&mut rng));
        let mut plan = random_plan(&mut rng, theirs.longest().min(ours.longest()));
        // A stream over the limit would be refused.
        let spec = Http2Spec {
            window: ours.window,
            table_size: ours.table,
            frame_size: ours.frame,
            is_static: rng.chance(0.3),
            wait_settings: true,
            ..Http2Spec::default()
        };
        plan.http2 = Some(Box::new(spec));
        let mut setup = rough(&mut rng, seed);
        let checked = Arc::new(Mutex::new(0));
        let (shared, copy) = (Arc::clone(&checked), plan.clone());
        setup.taps = Some(Taps::new(move || Check {
            plan: copy.clone(),
            open: BTreeMap::new(),
            checked: Arc::clone(&shared),
        }));
        let log = Log::default();
        let (tasks, copy) = (BTreeMap::new(), Rc::clone(&log));
        let mut server = Server::new(Echo { limits: theirs, tasks, log: copy });
        let outcome = load(&plan, 1, &setup, &mut [&mut server]);
        assert_invariants(&outcome, "the crate h2 serves");
        let (t, requests) = (outcome.main(), plan.stop.requests.expect("a number"));
        assert_eq!((t.replies, t.failed), (requests, 0), "{:?}", t.faults);
        assert_eq!(*checked.lock().expect("one thread"), requests);
        let mut seen = std::mem::take(&mut *log.borrow_mut());
        seen.sort();
        let mut sent: Vec<_> =
            plan.calls.iter().map(|call| (call.path.to_string(), call.body.clone())).collect();
        sent.sort();
        assert!(seen == sent, "{} requests of {}", seen.len(), sent.len());
        all += requests;
    }
    assert!(!has_all_seeds() || all > 600, "{all}");
}

/// A client of `h2` on one connection.
struct Client {
    id: ConnId,
    task: Task,
    actions: VecDeque<Action>,
    out: Vec<u8>,
    is_over: bool,
}

impl Client {
    fn new(limits: Limits, bodies: Vec<Vec<u8>>, at_once: usize, got: Log) -> Self {
        let id = ConnId { slot: 0, generation: 1 };
        Self {
            id,
            task: Task::new(|io| ask(io, limits, (bodies, at_once), got)),
            actions: VecDeque::from([Action::Connect { id, endpoint: 0 }]),
            out: Vec::new(),
            is_over: false,
        }
    }

    fn turn(&mut self) {
        let (out, is_over) = self.task.run();
        self.out.extend_from_slice(&out);
        if !self.out.is_empty() {
            self.actions.push_back(Action::Transmit { id: self.id });
        }
        if is_over && !std::mem::replace(&mut self.is_over, true) {
            self.actions.push_back(Action::Close { id: self.id, how: CloseHow::Orderly });
            self.actions.push_back(Action::Finished);
        }
    }
}

impl Machine for Client {
    fn on_connected(&mut self, _: ConnId, _: Nanos) {
        self.turn();
    }

    fn on_recv(&mut self, _: ConnId, data: &mut [u8], _: Nanos) {
        self.task.arrived(data);
        self.turn();
    }

    fn on_closed(&mut self, _: ConnId, why: Option<Fault>, _: Nanos) {
        assert!(self.is_over, "the server has closed: {why:?}");
    }

    fn on_tick(&mut self, _: Nanos) {}

    fn on_stop(&mut self, _: StopRequest, _: Nanos) {}

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn take_output(&mut self, _: ConnId, _: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        if self.out.is_empty() {
            return true;
        }
        let taken = send(&self.out);
        self.out.drain(..taken);
        self.out.is_empty()
    }

    fn deadline(&self) -> Option<Nanos> {
        None
    }
}

/// Send these bodies to `/echo`, at most `at_once` at the same time, and keep what comes back.
async fn ask(io: Pipe, limits: Limits, (bodies, at_once): (Vec<Vec<u8>>, usize), got: Log) {
    let mut builder = client::Builder::new();
    builder.initial_window_size(limits.window);
    builder.initial_connection_window_size(limits.connection);
    builder.max_frame_size(limits.frame);
    builder.max_header_list_size(limits.list);
    builder.header_table_size(limits.table);
    builder.enable_push(false);
    let (send, mut conn) = builder.handshake::<_, Bytes>(io).await.expect("a handshake");
    let mut waiting: VecDeque<(usize, Vec<u8>)> = bodies.into_iter().enumerate().collect();
    let mut calls: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    poll_fn(|cx: &mut Context<'_>| {
        while calls.len() < at_once
            && let Some((n, body)) = waiting.pop_front()
        {
            calls.push(Box::pin(one(send.clone(), n, body, Rc::clone(&got))));
        }
        let before = calls.len();
        calls.retain_mut(|call| call.as_mut().poll(cx).is_pending());
        if calls.len() < before {
            // There is room for more.
            cx.waker().wake_by_ref();
        }
        if calls.is_empty() && waiting.is_empty() {
            return Poll::Ready(());
        }
        if let Poll::Ready(ended) = Pin::new(&mut conn).poll(cx) {
            panic!("prony has ended the connection: {ended:?}");
        }
        Poll::Pending
    })
    .await;
}

async fn one(send: client::SendRequest<Bytes>, n: usize, body: Vec<u8>, got: Log) {
    let mut send = send.ready().await.expect("an open connection");
    let path = format!("http://server/echo?{n}");
    let request = Request::builder().method("POST").uri(&path).header("x-n", n);
    let request = request.header("x-same", "same in all").body(()).expect("a request");
    let (reply, mut stream) = send.send_request(request, body.is_empty()).expect("it is sent");
    if !body.is_empty() {
        stream.send_data(body.into(), true).expect("it is sent");
    }
    let reply = reply.await.expect("a reply");
    assert_eq!(reply.status(), 200);
    let mut body = reply.into_body();
    let mut read = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.expect("a whole body");
        read.extend_from_slice(&piece);
        body.flow_control().release_capacity(piece.len()).expect("they were received");
    }
    got.borrow_mut().push((n.to_string(), read));
}

/// A client of `h2`, prony's target server: what it echoes is what was sent.
#[test]
fn a_client_of_the_crate_h2_understands_the_server() {
    let mut all = 0;
    for seed in seeds(60) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 171);
        let (mut theirs, ours) = (Limits::random(&mut rng), Limits::random(&mut rng));
        // The server ends a connection that asks for single bytes too often.
        theirs.window = theirs.window.max(100);
        let longest = theirs.longest().min(ours.longest());
        let bodies: Vec<Vec<u8>> = (0..rng.between(1, 30))
            .map(|_| {
                let mut body = body(&mut rng);
                body.truncate(longest);
                body
            })
            .collect();
        let behavior = ServerBehavior {
            latency: Latency::Exponential(Span(rng.below(2_000_000))),
            window: ours.window,
            max_streams: 100,
            max_body: 1 << 20,
            ..ServerBehavior::default()
        };
        let got = Log::default();
        let at_once = rng.between(1, 20) as usize;
        let mut client = Client::new(theirs, bodies.clone(), at_once, Rc::clone(&got));
        let mut serve = Serve::new(behavior, seed);
        let setup = rough(&mut rng, seed);
        let outcome = setup.run(&mut [&mut client], &mut [&mut serve]);
        assert_eq!(outcome.server_connections_left, 0);
        let mut seen = std::mem::take(&mut *got.borrow_mut());
        seen.sort_by_key(|(n, _)| n.parse::<usize>().expect("a number"));
        assert_eq!(seen.len(), bodies.len());
        for ((n, read), sent) in seen.iter().zip(&bodies) {
            assert!(read == sent, "request {n}: {} bytes of {}", read.len(), sent.len());
        }
        let served = serve.served();
        assert_eq!(
            (served.replies, served.violations, served.malformed),
            (bodies.len() as u64, 0, 0)
        );
        all += bodies.len();
    }
    assert!(!has_all_seeds() || all > 500, "{all}");
}
