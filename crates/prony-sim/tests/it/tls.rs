//! TLS in virtual time: a handshake takes the round trips of its TLS version, and no more.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use prony_base::machine::{Action, Machine};
use prony_base::units::{ConnId, Nanos};
use prony_core::engine::Engine;
use prony_plan::plan::{Resume, Stop, Think, TlsSpec, TlsVersion};
use prony_proto::layer::TlsContext;
use prony_proto::proto::h1::H1;
use prony_server::serve::{Serve, ServerBehavior};
use prony_sim::link::Link;
use prony_sim::world::Setup;
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;
use rustls::{ServerConfig, ServerConnection};

use crate::delegate::delegate;
use crate::identity::identity;
use crate::plans::{closed, ms};

/// The target server, with TLS.
struct TlsServer {
    plain: Serve,
    config: Arc<ServerConfig>,
    conns: BTreeMap<(u32, u32), Conn>,
    /// Connections that have records to send.
    due: VecDeque<ConnId>,
    now: Nanos,
}

struct Conn {
    tls: ServerConnection,
    /// Records that are not sent yet.
    out: Vec<u8>,
}

impl TlsServer {
    fn conn(&mut self, id: ConnId) -> &mut Conn {
        self.conns.get_mut(&(id.slot, id.generation)).expect("an open connection")
    }
}

impl Machine for TlsServer {
    delegate!(plain: on_connected on_closed on_stop deadline);

    fn on_accepted(&mut self, listener: u32, now: Nanos) -> Option<ConnId> {
        let id = self.plain.on_accepted(listener, now)?;
        let tls = ServerConnection::new(Arc::clone(&self.config)).expect("a connection");
        self.conns.insert((id.slot, id.generation), Conn { tls, out: Vec::new() });
        Some(id)
    }
    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        self.now = now;
        let Conn { tls, .. } = self.conn(id);
        let (mut rest, mut plain) = (&data[..], Vec::new());
        while !rest.is_empty() {
            tls.read_tls(&mut rest).expect("room");
            tls.process_new_packets().expect("valid records");
            // An error means that there is no more data for now.
            drop(tls.reader().read_to_end(&mut plain));
        }
        if tls.wants_write() {
            self.due.push_back(id);
        }
        if !plain.is_empty() {
            self.plain.on_recv(id, &mut plain, now);
        }
    }
    fn on_tick(&mut self, now: Nanos) {
        self.now = now;
        self.plain.on_tick(now);
    }
    fn poll_action(&mut self) -> Option<Action> {
        if let Some(id) = self.due.pop_front() {
            return Some(Action::Transmit { id });
        }
        let action = self.plain.poll_action()?;
        if let Action::Transmit { id } = action {
            let tls = &mut self.conns.get_mut(&(id.slot, id.generation)).expect("open").tls;
            self.plain.take_output(id, self.now, &mut |bytes| {
                tls.writer().write_all(bytes).expect("memory");
                bytes.len()
            });
        }
        Some(action)
    }
    fn take_output(&mut self, id: ConnId, _: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let Conn { tls, out } = self.conn(id);
        while tls.wants_write() {
            tls.write_tls(out).expect("memory");
        }
        let taken = send(out);
        out.drain(..taken);
        out.is_empty()
    }
}

/// Ten requests of one user, each on a new connection, with a one-way latency of 10 ms and a
/// service time of 5 ms.
pub(crate) fn ten_requests(version: TlsVersion, resume: Resume) -> Tally {
    let identity = identity(|_| {});
    let behavior = r#"{"latency": "fixed:5ms"}"#;
    let behavior: ServerBehavior = serde_json::from_str(behavior).expect("a valid behavior");
    let mut server = TlsServer {
        plain: Serve::new(behavior, 1),
        config: Arc::new(identity.config),
        conns: BTreeMap::new(),
        due: VecDeque::new(),
        now: Nanos::ZERO,
    };
    let mut plan = closed(1, Think::None, ms(1));
    plan.stop = Stop { requests: Some(10), sessions: None, duration: None };
    plan.requests_per_connection = Some(1);
    plan.endpoints[0] = plan.endpoints[0].clone().secured("h");
    let ca = Some(identity.pem);
    plan.tls = Some(Box::new(TlsSpec { ca, version: Some(version), resume, ..TlsSpec::default() }));
    let context = TlsContext::new(&plan, Vec::new(), None).expect("a context");
    let mut engine = Engine::new(&plan, H1::new(&plan)).with_tls(Some(context));
    let setup = Setup { watch: false, ..Setup::new(Link::with_latency(ms(10)), 1) };
    setup.run(&mut [&mut engine], &mut [&mut server]);
    engine.finish().1
}

fn range(hist: &Hist) -> (u64, u64, u64) {
    let whole = |t: Option<prony_base::units::Span>| t.expect("a time").0 / 1_000_000;
    (hist.count(), whole(hist.min()), whole(hist.max()))
}

#[test]
fn p17_a_handshake_takes_the_round_trips_of_its_version() {
    // A round trip is 20 ms. TLS 1.3 takes one; TLS 1.2 takes two, or one if it resumes a session.
    for (version, resume, resumed, handshake) in [
        (TlsVersion::Tls13, Resume::Off, 0, (10, 20, 20)),
        (TlsVersion::Tls13, Resume::On, 9, (10, 20, 20)),
        (TlsVersion::Tls12, Resume::Off, 0, (10, 40, 40)),
        (TlsVersion::Tls12, Resume::On, 9, (10, 20, 40)),
    ] {
        let t = ten_requests(version, resume);
        let what = format!("{version:?} {resume:?}: {t:?}");
        assert_eq!((t.replies, t.failed, t.connected), (10, 0, 10), "{what}");
        let tls = t.tls.as_deref().expect("handshakes");
        assert_eq!((tls.full, tls.resumed), (10 - resumed, resumed), "{what}");
        assert_eq!(range(&t.times.connect), (10, 20, 20), "{what}");
        assert_eq!(range(&t.times.handshake), handshake, "{what}");
        // A round trip and the service: the handshake is not part of the service time.
        assert_eq!(range(&t.times.service), (10, 25, 25), "{what}");
        // Connect, handshake and service follow each other.
        let (_, least, most) = handshake;
        assert_eq!(range(&t.times.response), (10, 45 + least, 45 + most), "{what}");
        assert_eq!(t.times.lag.max().map(|lag| lag.0), Some(0), "{what}");
    }
}
