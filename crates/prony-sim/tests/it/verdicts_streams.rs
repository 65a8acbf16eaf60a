//! The verdicts of loads whose requests last long, with and without a meter that is stopped: what
//! is measured there are messages, gaps, tokens, deliveries, pings and round trips.

use prony_base::machine::Machine;
use prony_base::units::Span;
use prony_plan::plan::{Framing, Load, MessagePlan, Plan, Stop, StreamFormat, StreamPlan, Think};
use prony_plan::schedule::{Arrivals, RatePlan};
use prony_server::echo::{Echo, EchoBehavior};
use prony_server::serve::{BroadcastFaults, Latency, Serve, ServerBehavior, SocketBehavior};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::world::{Pauses, Setup};
use prony_stats::summary::{Judgment, RunInfo};
use prony_tally::record::StreamTime;

use crate::broadcast::broadcast;
use crate::exchange::exchange_plan;
use crate::http2::http2;
use crate::messages::{grpc, with_messages};
use crate::plans::{Seed, assert_invariants, closed, ms, seeds, summed};
use crate::websocket::{echo, websocket, with_ping};
use crate::websocket_http2::over_http2;
use crate::{events, tokens};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Messages of WebSocket on a schedule.
    Messages,
    /// The same, over HTTP/2.
    OverHttp2,
    /// Messages in bidirectional streams of gRPC.
    Grpc,
    /// Deliveries of a broadcast.
    Deliveries,
    /// Gaps between pushed messages.
    Pushed,
    /// Pings of WebSocket.
    Pings,
    /// Gaps between server-sent events.
    Events,
    /// First tokens, and gaps between tokens.
    Tokens,
    /// Round trips.
    RoundTrips,
}

const KINDS: [Kind; 9] = [
    Kind::Messages,
    Kind::OverHttp2,
    Kind::Grpc,
    Kind::Deliveries,
    Kind::Pushed,
    Kind::Pings,
    Kind::Events,
    Kind::Tokens,
    Kind::RoundTrips,
];

impl Kind {
    /// A load of this kind, of 9 to 12 s, and what it loads: ten streams at the same time, each of
    /// which has 20 to 50 messages per second.
    fn load(self, rng: &mut Rng) -> (Plan, Box<dyn Machine>) {
        let length = Span::from_secs(rng.between(9, 12));
        let rate = 20.0 + rng.unit() * 30.0;
        let latency = match rng.below(3) {
            0 => Latency::Fixed(ms(5)),
            1 => Latency::Uniform(ms(2), ms(12)),
            _ => Latency::Exponential(ms(5)),
        };
        (self.plan(length, rate), self.server(latency, rng.below(1 << 40)))
    }

    fn server(self, latency: Latency, seed: u64) -> Box<dyn Machine> {
        let behavior = |latency| match self {
            Self::Messages | Self::OverHttp2 => echo(latency),
            Self::Grpc => grpc(latency),
            Self::Deliveries => {
                sockets(latency, SocketBehavior::Broadcast(BroadcastFaults::default()))
            }
            Self::Pushed => sockets(Latency::None, SocketBehavior::Push(Latency::Fixed(ms(20)))),
            Self::Pings => sockets(Latency::None, SocketBehavior::Push(Latency::Fixed(ms(20)))),
            Self::Events => events::events("ttft=fixed:20ms,gap=fixed:20ms,count=100000"),
            Self::Tokens => events::events("ttft=fixed:100ms,gap=fixed:20ms,count=100000"),
            Self::RoundTrips => ServerBehavior::default(),
        };
        match self {
            Self::RoundTrips => Box::new(Echo::new(EchoBehavior::default(), Vec::new())),
            _ => Box::new(Serve::new(behavior(latency), seed)),
        }
    }

    /// The true times beside a server that takes 5 ms, and a network that takes 50 us each way.
    fn truth(self) -> Vec<(StreamTime, Span)> {
        const ANSWER: Span = Span::from_micros(5_100);
        const GAP: Span = Span::from_millis(20);
        match self {
            Self::Messages | Self::OverHttp2 => vec![(StreamTime::Message, ANSWER)],
            Self::Deliveries => vec![(StreamTime::Delivery, ANSWER)],
            Self::Pushed | Self::Events => vec![(StreamTime::MessageGap, GAP)],
            Self::Pings => vec![(StreamTime::Ping, Span::from_micros(100))],
            Self::Tokens => vec![
                (StreamTime::Ttft, Span::from_micros(100_100)),
                (StreamTime::Itl, GAP),
                (StreamTime::ChunkGap, GAP),
            ],
            // The server answers one message of a stream after the other, so those that a late
            // meter sends together wait in it.
            Self::Grpc => vec![],
            Self::RoundTrips => vec![],
        }
    }

    fn plan(self, length: Span, rate: f64) -> Plan {
        let streams = |n: u64| Plan {
            stop: Stop { requests: Some(n), ..Stop::default() },
            ..closed(n as u32, Think::None, ms(1))
        };
        let messages = MessagePlan::fixed(rate, None, Some(length));
        let until = |format| StreamPlan { time: Some(length), ..StreamPlan::new(format) };
        match self {
            Self::Messages => websocket(streams(10), Some(messages), None),
            Self::OverHttp2 => over_http2(websocket(streams(10), Some(messages), None), 2, 5),
            Self::Grpc => with_messages(http2(streams(10), 2, 5), messages),
            Self::Deliveries => {
                let count = (length.as_secs_f64() * rate) as u64;
                broadcast(10, 2, rate, count, Span::from_secs(1))
            }
            Self::Pushed => websocket(streams(10), None, Some(until(StreamFormat::Messages))),
            Self::Pings => {
                let stream = until(StreamFormat::Messages);
                with_ping(websocket(streams(10), None, Some(stream)), ms(50))
            }
            Self::Events => events::with(streams(10), until(StreamFormat::Sse)),
            Self::Tokens => {
                let plan = closed(10, Think::None, length);
                tokens::asks(plan, 0, 40, true, "")
            }
            Self::RoundTrips => {
                let rate = RatePlan::constant(rate);
                let load = Load::Open { rate, arrivals: Arrivals::Poisson, connections: 4 };
                let plan = exchange_plan(Framing::Short, 5, &[(128, 2)], load);
                Plan { stop: Stop { duration: Some(length), ..Stop::default() }, ..plan }
            }
        }
    }
}

fn sockets(latency: Latency, ws: SocketBehavior) -> ServerBehavior {
    ServerBehavior { latency, ws: Some(ws), ..ServerBehavior::default() }
}

/// The verdict on the load of this kind with this seed, with a meter that has these pauses.
fn judgment(kind: Kind, seed: u64, pauses: impl FnOnce(&mut Rng) -> Option<Pauses>) -> Judgment {
    let mut rng = Rng::new(seed, 43);
    let (mut plan, mut server) = kind.load(&mut rng);
    plan.seed = seed;
    plan.check().expect("a valid plan");
    // A round trip has no service time, and takes as long as the network.
    let one_way = if kind == Kind::RoundTrips { ms(2) } else { Span::from_micros(50) };
    let link = Link { jitter: Span(rng.below(100_000)), ..Link::with_latency(one_way) };
    let pauses = pauses(&mut rng);
    let setup = Setup { watch: false, pauses, ..Setup::new(link, seed) };
    let outcome = load(&plan, 1, &setup, &mut [&mut *server]);
    assert_invariants(&outcome, "verdicts of streams");
    summed(&plan, RunInfo::default(), outcome).verdict()
}

#[test]
fn clean_loads_of_streams_are_valid() {
    let mut alarms = Vec::new();
    for seed in seeds(198) {
        let _case = Seed(seed);
        let kind = KINDS[seed as usize % KINDS.len()];
        let judgment = judgment(kind, seed, |_| None);
        if !judgment.is_valid() {
            alarms.push((seed, kind, judgment));
        }
    }
    assert!(alarms.len() <= 3, "{} of 198: {alarms:#?}", alarms.len());
}

/// No load of any kind is valid if the meter runs for half of the time or less.
#[test]
fn p08_paused_meters_of_streams_are_reported() {
    let mut wrong = Vec::new();
    for seed in seeds(360) {
        let _case = Seed(seed);
        let kind = KINDS[seed as usize % KINDS.len()];
        let pauses = |rng: &mut Rng| {
            if rng.chance(0.5) {
                return Some(Pauses::fixed(ms(100), ms(50)));
            }
            let period = rng.between(20, 200);
            let length = period as f64 * (0.5 + rng.unit() * 0.45);
            Some(Pauses::fixed(ms(period), Span((length * 1e6) as u64)))
        };
        let judgment = judgment(kind, seed, pauses);
        if judgment.is_valid() {
            wrong.push((kind, seed));
        }
    }
    let first = wrong.first();
    assert!(wrong.is_empty(), "{} of 360 were called valid, the first {first:?}", wrong.len());
}

/// What the meter added to each time is known here, as the true times are all equal. The bound is
/// at least that, and not many times as much.
#[test]
fn p08_the_time_added_in_streams_has_a_close_upper_bound() {
    let mut ratios = Vec::new();
    for seed in 0..90 {
        let _case = Seed(seed);
        let kind = KINDS[seed as usize % KINDS.len()];
        let mut rng = Rng::new(seed, 44);
        let mut plan = kind.plan(Span::from_secs(6), 20.0 + rng.unit() * 30.0);
        plan.seed = seed;
        let mut server = kind.server(Latency::Fixed(ms(5)), seed);
        let (period, share) = (rng.between(5, 200), 0.02 + 0.9 * rng.unit());
        let length = Span((period as f64 * 1e6 * share) as u64);
        let random = rng.chance(0.7).then_some(seed);
        let pauses = Pauses { period: ms(period), length, random, is_busy: rng.chance(0.5) };
        let link = Link::with_latency(Span::from_micros(50));
        let setup = Setup { watch: false, pauses: Some(pauses), ..Setup::new(link, seed) };
        let main = load(&plan, 1, &setup, &mut [&mut *server]).main();
        for (time, truth) in kind.truth() {
            let measured = main.times_in_streams(time).expect("some were measured");
            for q in [0.5, 0.9, 0.99, 1.0] {
                let Some(figure) = measured.quantile(q) else { continue };
                let bound = main.meter_added_in_streams(time, q).expect("as many have a bound");
                // A figure is rounded up by a thousandth at most.
                let added = figure - truth - figure / 1_000;
                let what = format!("{kind:?} {time:?} {q}: {figure} {bound}: {pauses:?}");
                assert!(bound >= added, "{what}: {added}");
                if added > truth / 100 {
                    ratios.push(bound.0 as f64 / added.0 as f64);
                }
            }
        }
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    println!("{} figures, mean ratio {mean:.2}", ratios.len());
    assert!(ratios.len() > 100, "{} figures", ratios.len());
    assert!(mean < 3.0, "{mean}");
}
