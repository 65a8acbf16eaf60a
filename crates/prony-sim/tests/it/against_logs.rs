//! The response times of a replay against those of its log: logs whose times have a known
//! distribution, against servers with the same one, or a slower one.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use prony_base::director::METHODS;
use prony_base::meter::WorkerStats;
use prony_base::rng::{Sequence, Stream};
use prony_base::units::Span;
use prony_plan::plan::{CallSpec, Load, Plan, Stop};
use prony_plan::schedule::{Arrivals, RatePlan};
use prony_replay::{Format, Replay, SPEED, Settings, Shape, Source};
use prony_server::serve::{Serve, ServerBehavior};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::world::Setup;
use prony_stats::comparison::{LogFigure, LogRow, Outcome, WithLog, compare_with_log};
use prony_stats::summary::{Replayed, RunInfo, Summary};

use crate::plans::{Seed, get};

/// Replays of each world.
const RUNS: u64 = 60;
/// Requests of a log: 100 a second.
const REQUESTS: u64 = 6_000;

/// The server of a log and of its replay, with service times of 10 ms, or 3 ms.
#[derive(Clone, Copy, Debug)]
enum World {
    /// Any number of requests at once, exponential times.
    Independent,
    /// The same with log-normal times: a heavy tail.
    HeavyTail,
    /// One after the other, busy for three tenths of the time: an M/M/1 queue.
    Queue,
}

impl World {
    fn latency(self, slower: f64) -> String {
        let us = |us: f64| format!("{}us", (us * slower).round());
        match self {
            Self::Independent => format!("exp:{}", us(10_000.0)),
            Self::HeavyTail => format!("lognormal:{}:1", us(10_000.0)),
            Self::Queue => format!("exp:{}", us(3_000.0)),
        }
    }

    fn server(self, slower: f64, seed: u64) -> Serve {
        let workers = matches!(self, Self::Queue).then_some(NonZeroU32::MIN);
        let latency = self.latency(slower).parse().expect("a latency");
        Serve::new(ServerBehavior { latency, workers, ..ServerBehavior::default() }, seed)
    }
}

/// Writes a log of this world: requests for two paths, one of three for `/b/`, at the times of
/// their ends. One in fifty has the status 500, and took two seconds.
fn write_log(path: &Path, world: World, seed: u64) {
    let mut came = Sequence::new(seed, Stream::Arrivals);
    let mut served = Sequence::new(seed ^ 0x5eed, Stream::Serve);
    let (mut at, mut busy_until, mut lines) = (0_u64, 0_u64, Vec::new());
    for k in 0..REQUESTS {
        at += came.exponential(Span::from_millis(10)).0;
        let ms = Span::from_millis;
        let took = match world {
            World::Independent => served.exponential(ms(10)).0,
            World::HeavyTail => served.log_normal(ms(10), 1.0).0,
            World::Queue => {
                busy_until = busy_until.max(at) + served.exponential(ms(3)).0;
                busy_until - at
            }
        };
        let has_failed = k % 50 == 7;
        let (status, took) = if has_failed { (500, 2_000_000_000) } else { (200, took) };
        let (took, end) = (took / 1_000, (at + took) / 1_000);
        let name = if k % 3 == 0 { "b" } else { "a" };
        let line = format!(
            "{{\"time\": {}.{:06}, \"path\": \"/{name}/{k}\", \"status\": {status}, \
             \"took\": {}.{:06}}}\n",
            1_700_000_000 + end / 1_000_000,
            end % 1_000_000,
            took / 1_000_000,
            took % 1_000_000,
        );
        lines.push((end, line));
    }
    lines.sort();
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    fs::write(path, text).expect("written");
}

fn replay(path: &Path, shape: Shape) -> Replay {
    let mut source = Source { paths: vec![path.to_owned()], ..Source::default() };
    let format = "json time=time path=path status=status took-s=took";
    source.options.format = Some(Format::parse(format).expect("a format"));
    let patterns = vec!["/a/*".to_owned(), "/b/*".to_owned()];
    Replay::open(Settings { source, shape, patterns, ..Settings::default() }).expect("a log")
}

/// Replays a log against a server of this world that is slower by this factor.
fn run(path: &Path, shape: Shape, (world, slower): (World, f64), seed: u64) -> Summary {
    let replay = replay(path, shape);
    let patterns = replay.patterns();
    let call = |&(method, name): &(u8, u32)| CallSpec {
        method: METHODS[usize::from(method)].into(),
        name: Some(name),
        ..get("/")
    };
    let (rate, arrivals) = (RatePlan::default(), Arrivals::Log);
    let plan = Plan {
        load: Load::Open { rate, arrivals, connections: 10_000 },
        stop: Stop::default(),
        calls: patterns.calls.iter().map(call).collect(),
        names: patterns.names.clone(),
        ..crate::plans::open(1.0, Arrivals::Fixed, 1)
    };
    let setup =
        Setup { feeds: Some(replay.direct()), watch: false, ..Setup::new(Link::default(), 1) };
    let outcome = load(&plan, 2, &setup, &mut [&mut world.server(slower, seed)]);
    let handed = replay.handed();
    let replayed = Replayed {
        took_blocks: handed.took_blocks(),
        took_step: handed.took_step(),
        took: handed.took,
        ..Replayed::default()
    };
    let run = RunInfo { replay: Some(Box::new(replayed)), ..RunInfo::default() };
    Summary::from_parts(plan, run, vec![(None, outcome.main(), WorkerStats::default())])
}

/// What a replay of a log of this world says.
fn compared(path: &Path, world: World, slower: f64, seed: u64) -> WithLog {
    write_log(path, world, seed);
    let summary = run(path, Shape::default(), (world, slower), seed + 1_000_000);
    let found = compare_with_log(&summary).expect("a log with times");
    assert_eq!(found.step, Span::from_micros(1));
    let names: Vec<_> = found.rows.iter().map(|row| row.name).collect();
    assert_eq!(names, [None, Some(0), Some(1)]);
    // The log's failures count in neither of them.
    assert_eq!((found.rows[0].logged, found.rows[0].measured), (REQUESTS * 49 / 50, REQUESTS));
    found
}

fn figures(found: &WithLog) -> impl Iterator<Item = &LogFigure> {
    found.rows.iter().flat_map(|row| &row.figures)
}

/// Two equal distributions are said to differ, in any figure of any path, in at most 5 % of the
/// replays.
#[test]
fn replays_on_an_equal_server_raise_few_alarms() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    for world in [World::Independent, World::HeavyTail, World::Queue] {
        let (mut alarms, mut known) = (0, 0);
        for seed in 0..RUNS {
            let _case = Seed(seed);
            let found = compared(&path, world, 1.0, seed);
            let differs = |figure: &LogFigure| {
                matches!(figure.compared.outcome, Outcome::Higher | Outcome::Lower)
            };
            alarms += u64::from(figures(&found).any(differs));
            known += figures(&found).filter(|figure| figure.compared.interval.is_some()).count();
        }
        assert!(alarms * 20 <= RUNS, "{world:?}: {alarms} of {RUNS}");
        // Each of three rows has four figures.
        let all = RUNS as usize * 12;
        assert!(known * 10 >= all * 9, "{world:?}: {known} of {all}");
    }
}

/// A server that is slower by a fifth is found, and the intervals hold the fifth.
#[test]
fn a_server_that_is_slower_than_the_log_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let (mut found, mut missed) = ([0; 4], 0);
    for seed in 0..RUNS {
        let _case = Seed(seed);
        let compared = compared(&path, World::Independent, 1.2, seed);
        let true_change = 1.2_f64.ln();
        let misses = |figure: &LogFigure| {
            figure.compared.interval.is_some_and(|i| true_change < i.lo || i.hi < true_change)
        };
        missed += u64::from(figures(&compared).any(misses));
        let all: &LogRow = &compared.rows[0];
        for (found, figure) in found.iter_mut().zip(&all.figures) {
            *found += u64::from(figure.compared.outcome == Outcome::Higher);
        }
    }
    assert!(missed * 20 <= RUNS, "{missed} of {RUNS}");
    let [mean, p50, p90, p99] = found;
    assert!(mean == RUNS && p50 >= RUNS * 9 / 10 && p90 >= RUNS * 9 / 10, "{found:?}");
    assert!(p99 >= RUNS / 2, "{found:?}");
}

/// A log that is sent several times has its times once: more copies do not make it better known.
#[test]
fn copies_and_laps_do_not_count_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    write_log(&path, World::Independent, 5);
    let world = (World::Independent, 1.0);
    let one = run(&path, Shape::default(), world, 1);
    let of_log = |summary: &Summary| {
        let replay = summary.run.replay.clone().expect("a replay");
        (replay.took, replay.took_blocks.expect("times"))
    };
    let expected = of_log(&one);
    for shape in [
        Shape { copies: 3, shift: 2_000_000_000, ..Shape::default() },
        Shape { repeats: true, requests: Some(2 * REQUESTS), ..Shape::default() },
    ] {
        let several = run(&path, shape.clone(), world, 1);
        assert!(several.main.started >= 2 * REQUESTS, "{shape:?}");
        assert!(of_log(&several) == expected, "{shape:?}");
    }
    // Twice as fast, the same times are in half as many blocks.
    let fast = of_log(&run(&path, Shape { speed: 2 * SPEED, ..Shape::default() }, world, 1));
    assert!(fast.0 == expected.0);
    let [slow, fast] =
        [&expected.1, &fast.1].map(|blocks| blocks.length() * blocks.all().len() as u64);
    assert!((fast.0 as f64 / slow.0 as f64 - 0.5).abs() < 0.05, "{fast:?} {slow:?}");
}
