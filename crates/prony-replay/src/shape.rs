//! The arrivals of a replay, from those of a log: faster or slower, several copies of the log at
//! once, a sample of it, again and again.
//!
//! Time 0 is the first request of the log. A copy of the log that is `shift` behind it begins with
//! the request at `shift`, and goes on after the end of the log with its beginning. So each copy
//! has each request once, all copies start and end together, and no copy is kept in memory: each
//! reads the log by itself.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use prony_base::rng::{Stream, keyed, unit};

use crate::dispersion::{Dispersion, WINDOWS};
use crate::record::Record;
use crate::source::{FileFacts, Merged, Source, SourceError};

/// What is made of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// How much faster than in the log time passes, in millionths.
    pub speed: u64,
    /// How many copies of the log are sent at once.
    pub copies: u32,
    /// How far each copy is behind the one before, in nanoseconds of the log.
    pub shift: u64,
    /// Which requests are sent.
    pub sample: Sample,
    /// Whether the log begins again after its end.
    pub repeats: bool,
    /// The most requests.
    pub requests: Option<u64>,
    /// Requests from this time on are not sent; in nanoseconds.
    pub duration: Option<u64>,
    /// The seed of the sample.
    pub seed: u64,
}

/// The unit of [`Shape::speed`].
pub const SPEED: u64 = 1_000_000;

impl Default for Shape {
    fn default() -> Self {
        Self {
            speed: SPEED,
            copies: 1,
            shift: 10_000_000_000,
            sample: Sample::All,
            repeats: false,
            requests: None,
            duration: None,
            seed: 0,
        }
    }
}

/// Which requests of a log are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sample {
    /// All.
    #[default]
    All,
    /// Each with this probability, independently.
    Requests(f64),
    /// All of a client, with this probability.
    Clients(f64),
}

/// The beginning of a log, read already.
pub(crate) struct Beginning {
    pub(crate) log: Merged,
    pub(crate) records: VecDeque<(Record, usize)>,
}

/// A log that is read, with the time at which it starts.
struct Lap {
    source: Arc<Source>,
    /// The requests that have been read already.
    read: VecDeque<(Record, usize)>,
    log: Merged,
    /// The time of the first request, in nanoseconds since 1970.
    base: i64,
    /// Requests of this lap, and the time of the last.
    count: u64,
    last: u64,
    /// Laps that are complete, and their length, once it is known.
    laps: u64,
    period: Option<u64>,
    /// How bursty the first lap is, and what was read in it; of the first copy.
    seen: Option<Dispersion>,
    facts: Option<Vec<FileFacts>>,
}

impl Lap {
    /// The next request and its time since the first one; begins again at the end.
    fn next(&mut self, record: &mut Record, repeats: bool) -> Result<Option<Place>, SourceError> {
        loop {
            let part = match self.read.pop_front() {
                Some((first, part)) => {
                    *record = first;
                    Some(part)
                }
                None => self.log.next(record)?,
            };
            if let Some(part) = part {
                self.count += 1;
                self.last = record.at.abs_diff(self.base);
                if let Some(seen) = self.seen.as_mut().filter(|_| self.laps == 0) {
                    seen.add(self.last);
                }
                let at = self.laps * self.period.unwrap_or(0) + self.last;
                return Ok(Some(Place { at, part, lap: self.laps }));
            }
            // The first request follows the last at a mean distance.
            let gap = self.last / (self.count.max(2) - 1);
            self.period.get_or_insert_with(|| (self.last + gap).max(1));
            self.facts.get_or_insert_with(|| self.log.facts());
            if !repeats || self.count == 0 {
                return Ok(None);
            }
            self.log = self.source.open()?;
            (self.laps, self.count) = (self.laps + 1, 0);
        }
    }
}

/// Where a request is in the repeated log.
#[derive(Clone, Copy)]
struct Place {
    /// Since the first request, in nanoseconds of the log.
    at: u64,
    part: usize,
    lap: u64,
}

/// One of the copies.
struct Copy {
    number: u64,
    lap: Lap,
    shift: u64,
    /// The next request, if there is one, and its time.
    next: Option<u64>,
    record: Record,
    /// Whether no other copy, and no lap before, has had it.
    is_first: bool,
}

impl Copy {
    fn advance(&mut self, shape: &Shape) -> Result<(), SourceError> {
        let wraps = self.number > 0 || shape.repeats;
        self.next = loop {
            let Some(place) = self.lap.next(&mut self.record, wraps)? else { break None };
            if let Some(period) = self.lap.period.filter(|period| self.shift >= 2 * period) {
                // Not through all the laps of a shift that is longer than the log.
                self.shift = self.shift % period + period;
            }
            let Some(at) = place.at.checked_sub(self.shift) else { continue };
            if !shape.repeats && self.lap.period.is_some_and(|period| at >= period) {
                break None;
            }
            if shape.sample.has(&self.record, place, self.number, shape.seed) {
                self.is_first = self.number == 0 && place.lap == 0;
                break Some(at);
            }
        };
        Ok(())
    }
}

impl Sample {
    fn has(self, record: &Record, place: Place, copy: u64, seed: u64) -> bool {
        let draw = |a, b| unit(keyed(seed, Stream::Sample, a, b));
        match self {
            Self::All => true,
            Self::Requests(share) => {
                let line = record.line << 16 | place.part as u64;
                draw(line, copy << 40 | place.lap) < share
            }
            Self::Clients(share) => draw(record.client, u64::MAX) < share,
        }
    }
}

/// The arrivals of a replay, in the order of their times.
pub(crate) struct Shaped {
    shape: Shape,
    copies: Vec<Copy>,
    /// How many have been taken.
    taken: u64,
}

impl Shaped {
    pub(crate) fn new(
        source: &Arc<Source>,
        shape: &Shape,
        base: i64,
        beginning: Option<Beginning>,
    ) -> Result<Self, SourceError> {
        let mut beginning = beginning;
        let mut copies = Vec::new();
        for number in 0..u64::from(shape.copies) {
            let (log, read) = match beginning.take() {
                Some(beginning) => (beginning.log, beginning.records),
                None => (source.open()?, VecDeque::new()),
            };
            let source = Arc::clone(source);
            let seen = (number == 0).then(Dispersion::default);
            let lap = Lap {
                source,
                read,
                log,
                base,
                count: 0,
                last: 0,
                laps: 0,
                period: None,
                seen,
                facts: None,
            };
            let (shift, record) = (shape.shift.saturating_mul(number), Record::default());
            let mut copy = Copy { number, lap, shift, next: None, record, is_first: false };
            copy.advance(shape)?;
            copies.push(copy);
        }
        Ok(Self { shape: shape.clone(), copies, taken: 0 })
    }

    /// Exchanges `record` for that of the next request. Returns its time since the start, in
    /// nanoseconds. Of a request that is sent several times, the first has how long it took.
    pub(crate) fn next(&mut self, record: &mut Record) -> Result<Option<u64>, SourceError> {
        if self.shape.requests.is_some_and(|most| self.taken >= most) {
            return Ok(None);
        }
        let times = self.copies.iter().enumerate().filter_map(|(i, copy)| Some((copy.next?, i)));
        let Some((at, i)) = times.min() else { return Ok(None) };
        let scaled = u128::from(at) * u128::from(SPEED) / u128::from(self.shape.speed);
        let at = u64::try_from(scaled).unwrap_or(u64::MAX);
        if self.shape.duration.is_some_and(|until| at >= until) {
            return Ok(None);
        }
        self.taken += 1;
        let copy = &mut self.copies[i];
        mem::swap(record, &mut copy.record);
        if !copy.is_first {
            record.took = None;
        }
        copy.advance(&self.shape)?;
        Ok(Some(at))
    }

    /// What has been read of each file, and how bursty the log is, as far as it has been read; of
    /// repetitions, the first.
    pub(crate) fn read(&self) -> (Vec<FileFacts>, [Option<f64>; WINDOWS.len()]) {
        let lap = &self.copies[0].lap;
        let facts = lap.facts.clone().unwrap_or_else(|| lap.log.facts());
        let end = if lap.laps == 0 { lap.last } else { lap.period.unwrap_or(0) };
        (facts, lap.seen.as_ref().map_or([None; WINDOWS.len()], |seen| seen.indices(end)))
    }
}

#[cfg(test)]
mod tests;
