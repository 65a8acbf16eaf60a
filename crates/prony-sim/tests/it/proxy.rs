//! Requests through a proxy with known delays: what goes to it, when a tunnel is open, and what
//! counts if it is not.

use prony_base::fault::Fault;
use prony_base::units::{ConnId, Span};
use prony_plan::plan::{Follow, Group, Plan, ProxySpec, RedirectServer, Redirects, Stop, Think};
use prony_plan::schedule::Arrivals;
use prony_plan::target::Endpoint;
use prony_sim::link::Link;
use prony_sim::server::{Connections, Server, ServerAction, ServerModel};
use prony_sim::world::Setup;
use prony_sim::{Outcome, load};
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;

use crate::plans::{closed, get, ms, numbered, open};

/// What a proxy does when it is asked for a tunnel.
#[derive(Clone, Copy)]
enum Answer {
    Opens,
    Status(u16),
    Closes,
    Nothing,
}

/// A proxy, and the server behind it.
struct Proxy {
    answer: Answer,
    /// From the request for a tunnel to its answer.
    opening: Span,
    /// From a request to its reply.
    service: Span,
    tunnels: u64,
    forwarded: u64,
    /// Those of them that are for the server to which a redirect leads.
    named: u64,
    through: u64,
}

impl Proxy {
    fn new(answer: Answer) -> Self {
        let (opening, service) = (ms(7), ms(3));
        Self { answer, opening, service, tunnels: 0, forwarded: 0, named: 0, through: 0 }
    }
}

const AUTHORIZATION: &str = "Proxy-Authorization: Basic bmFtZTpwYXNz\r\n";

impl ServerModel for Proxy {
    fn request(&mut self, id: ConnId, index: u64, head: &[u8], conns: &mut Connections) {
        let head = std::str::from_utf8(head).expect("text");
        let target = head.split(' ').nth(1).expect("a target");
        if head.starts_with("CONNECT ") {
            assert_eq!((index, target), (0, "server:80"));
            assert!(head.contains("\r\nHost: server:80\r\n") && head.contains(AUTHORIZATION));
            self.tunnels += 1;
            let at = conns.now() + self.opening;
            match self.answer {
                Answer::Opens => {
                    let reply = "HTTP/1.1 200 Connection established\r\nVia: a proxy\r\n\r\n";
                    conns.at(at, id, ServerAction::Send(reply.into()));
                }
                Answer::Status(status) => {
                    let reply = format!("HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\nno");
                    conns.at(at, id, ServerAction::Send(reply.into_bytes()));
                }
                Answer::Closes => conns.at(at, id, ServerAction::Close),
                Answer::Nothing => {}
            }
            return;
        }
        if target.starts_with('/') {
            assert!(index > 0, "no tunnel was asked for");
            assert!(!head.contains("Proxy-Authorization"), "the server gets the password: {head}");
            self.through += 1;
        } else {
            let (_, server) = target.split_once("http://").expect("a whole URL");
            let (server, path) = server.split_once('/').expect("a path");
            assert!(["server", "named:81"].contains(&server), "{target}");
            assert!(head.contains(AUTHORIZATION), "{head}");
            assert!(head.contains(&format!("\r\nHost: {server}\r\n")), "{head}");
            self.forwarded += 1;
            if path == "away" {
                let reply = "HTTP/1.1 302 Found\r\nLocation: http://named:81/end\r\nContent-Length: \
                             0\r\n\r\n";
                conns.at(conns.now() + self.service, id, ServerAction::Send(reply.into()));
                return;
            }
            self.named += u64::from(target == "http://named:81/end");
        }
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec();
        conns.at(conns.now() + self.service, id, ServerAction::Send(reply));
    }
}

/// The plan through a proxy.
fn through(plan: Plan, tunnel: bool) -> Plan {
    let mut proxy = ProxySpec::parse("http://name:pass@proxy:3128").expect("an address");
    proxy.tunnel = tunnel;
    Plan { proxy: Some(Box::new(proxy)), ..plan }
}

/// The latency of the network in one direction.
const LATENCY: Span = Span::from_millis(2);

fn load_through(
    plan: &Plan,
    shares: u32,
    segment: Option<usize>,
    answer: Answer,
) -> (Outcome, Server<Proxy>) {
    plan.check().expect("a valid plan");
    let link = Link { segment, write: segment, ..Link::with_latency(LATENCY) };
    let setup = Setup { watch: false, ..Setup::new(link, 5) };
    let mut server = Server::new(Proxy::new(answer));
    let outcome = load(plan, shares, &setup, &mut [&mut server]);
    (outcome, server)
}

/// The tally, and how many tunnels the proxy was asked for, how many requests went through them,
/// and how many it forwarded.
fn run(
    plan: &Plan,
    shares: u32,
    segment: Option<usize>,
    answer: Answer,
) -> (Tally, (u64, u64, u64)) {
    let (outcome, server) = load_through(plan, shares, segment, answer);
    let (t, proxy) = (outcome.main(), server.model());
    assert_eq!(t.started, t.replies + t.failed + t.unfinished);
    (t, (proxy.tunnels, proxy.through, proxy.forwarded))
}

/// Runs in which every count of a proxy is more than 0.
pub(crate) fn outcomes() -> [Outcome; 2] {
    let plan = through(open(100.0, Arrivals::Fixed, 20), true);
    [Answer::Opens, Answer::Status(407)].map(|answer| load_through(&plan, 2, None, answer).0)
}

fn extremes(hist: &Hist) -> (Span, Span) {
    (hist.min().expect("a value"), hist.max().expect("a value"))
}

/// A tunnel opens a round trip and the proxy's delay after its connection, once for each
/// connection. Requests wait for it, and their service times do not contain it.
#[test]
fn tunnels_take_their_own_time() {
    for segment in [None, Some(1), Some(7)] {
        let plan = Plan {
            stop: Stop { requests: Some(30), sessions: None, duration: None },
            ..through(closed(3, Think::None, ms(1)), true)
        };
        let (t, counts) = run(&plan, 1, segment, Answer::Opens);
        assert_eq!((t.replies, t.failed), (30, 0));
        assert_eq!(counts, (3, 30, 0));
        let tunnels = t.proxy.as_deref().expect("tunnels");
        assert_eq!((tunnels.opened, tunnels.reasons.len()), (3, 0));
        assert_eq!(t.times.tunnel.count(), 3);
        if segment.is_none() {
            let round_trip = LATENCY + LATENCY;
            let exact = |span: Span| (span, span);
            assert_eq!(extremes(&t.times.connect), exact(round_trip));
            assert_eq!(extremes(&t.times.tunnel), exact(round_trip + ms(7)));
            assert_eq!(extremes(&t.times.service), exact(round_trip + ms(3)));
        }
    }
}

/// In an open loop, a request waits from its intended start for the connect and the tunnel.
#[test]
fn requests_wait_for_the_tunnel() {
    let plan = through(open(1.0, Arrivals::Fixed, 1), true);
    let (t, _) = run(&plan, 1, None, Answer::Opens);
    let round_trips = Span(3 * 2 * LATENCY.0);
    let all = round_trips + ms(7) + ms(3);
    assert_eq!(extremes(&t.times.response), (all, all));
    // The meter itself was not late.
    assert_eq!(t.times.lag.max(), Some(Span::ZERO));
}

/// Without a tunnel, the proxy gets the whole URL and the password with each request.
#[test]
fn requests_without_tls_are_forwarded() {
    for (shares, segment) in [(1, None), (3, Some(5))] {
        let plan = through(numbered(open(1000.0, Arrivals::Fixed, 60), 60), false);
        let (t, counts) = run(&plan, shares, segment, Answer::Opens);
        assert_eq!((t.replies, t.failed), (60, 0));
        assert_eq!(counts, (0, 0, 60));
        assert!(t.proxy.is_none() && t.times.tunnel.is_empty());
    }
}

/// A redirect to a named server goes through the proxy, too, with the URL of that server.
#[test]
fn redirects_are_forwarded() {
    let mut plan = through(open(10.0, Arrivals::Fixed, 8), false);
    plan.calls = vec![get("/away")].into();
    plan.groups = vec![Group { name: Follow::GROUP.into(), parts: Vec::new() }];
    plan.endpoints.push(Endpoint::Tcp { host: "named".into(), port: 81 });
    let servers = vec![RedirectServer { endpoint: 1, authority: "named:81".into() }];
    let redirects = Redirects::Most(2);
    plan.follow = Some(Box::new(Follow { redirects, servers, group: 0 }));
    plan.check().expect("a valid plan");
    let setup = Setup { watch: false, ..Setup::new(Link::with_latency(LATENCY), 5) };
    let both = [Answer::Opens; 2].map(|answer| Server::new(Proxy::new(answer)));
    let [mut first, mut second] = both;
    let t = load(&plan, 1, &setup, &mut [&mut first, &mut second]).main();
    assert_eq!((t.started, t.replies, t.failed), (16, 16, 0));
    assert_eq!((first.model().forwarded, first.model().named), (8, 0));
    assert_eq!((second.model().forwarded, second.model().named), (8, 8));
}

/// Each request for which the proxy opens no tunnel fails, and the reason is counted.
#[test]
fn says_why_there_is_no_tunnel() {
    let cases = [
        (Answer::Status(407), Fault::NoTunnel, "status 407"),
        (Answer::Status(502), Fault::NoTunnel, "status 502"),
        (Answer::Closes, Fault::NoTunnel, "connection closed without a reply"),
        (Answer::Nothing, Fault::ConnectTimeout, "no reply in time"),
    ];
    for (answer, fault, reason) in cases {
        for segment in [None, Some(3)] {
            let plan = through(open(100.0, Arrivals::Fixed, 20), true);
            let plan = Plan { connect_timeout: ms(100), ..plan };
            let (t, counts) = run(&plan, 1, segment, answer);
            assert_eq!((t.replies, t.failed), (0, 20), "{reason}");
            assert_eq!(t.faults[fault as usize], 20, "{reason}");
            let tunnels = t.proxy.as_deref().expect("tunnels");
            assert_eq!(tunnels.opened, 0);
            let reasons: Vec<_> = tunnels.reasons.iter().collect();
            assert_eq!(reasons, [(&reason.to_owned(), &counts.0)]);
            assert_eq!((counts.1, counts.2), (0, 0));
        }
    }
}
