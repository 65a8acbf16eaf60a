//! The templates of requests without sessions: each request is a session of its own.

use super::Exchange;
use crate::fault::Fault;
use crate::plan::{Load, Pick, Plan, Shard};
use crate::script::{Filled, Locals, Script, Unsent, VIRTUAL_EPOCH};
use crate::units::{Nanos, RequestId};

/// Fills in requests, each of which has a number, and with it rows and values, of its own.
#[derive(Debug)]
pub(in crate::engine) struct Single {
    script: Script,
    numbers: Numbers,
    /// The numbers of each request, by the slot of its exchange, with the exchange's generation.
    /// They stay the same if the request is sent again.
    known: Vec<(Option<u32>, (u64, u64))>,
    /// When the run starts, in nanoseconds since 1970.
    pub(super) epoch: u64,
    /// Scratch.
    locals: Locals,
    filled: Filled,
}

/// The numbers of the requests of a share.
#[derive(Clone, Debug)]
struct Numbers {
    shard: Shard,
    /// How many requests there have been.
    taken: u64,
    /// If the calls are made in turn: the next number of each call, and the distance to the one
    /// after it. Those of a call are evenly spaced over all shares, so that its values are, too.
    of_calls: Vec<u64>,
    step: u64,
}

impl Numbers {
    fn new(plan: &Plan) -> Self {
        let (index, of) = (u64::from(plan.shard.index), u64::from(plan.shard.of));
        let calls = plan.calls.len() as u64;
        let mut numbers = Self { shard: plan.shard, taken: 0, of_calls: Vec::new(), step: 1 };
        match (&plan.load, plan.pick) {
            (_, Pick::Random) => {}
            // Each share goes through the calls by itself.
            (Load::Closed { .. }, Pick::InTurn) => {
                numbers.of_calls = (0..calls).map(|call| index * calls + call).collect();
                numbers.step = calls * of;
            }
            // Request k makes call k modulo their number, in share k modulo theirs.
            (Load::Open { .. }, Pick::InTurn) => {
                let is_own = |number: &u64| number % of == index;
                let first = |call| (0..of).map(|round| round * calls + call).find(is_own);
                numbers.of_calls = (0..calls).map(|call| first(call).unwrap_or(call)).collect();
                numbers.step = (1..=of).map(|n| n * calls).find(|n| n % of == 0).unwrap_or(calls);
            }
        }
        numbers
    }

    /// Two numbers of the next request, which no other one has: without gaps over all shares, and
    /// evenly spaced for its call.
    fn next(&mut self, call: u32) -> (u64, u64) {
        let number = self.taken * u64::from(self.shard.of) + u64::from(self.shard.index);
        self.taken += 1;
        match self.of_calls.get_mut(call as usize) {
            None => (number, number),
            Some(next) => {
                let own = *next;
                *next += self.step;
                (number, own)
            }
        }
    }
}

impl Single {
    pub(super) fn new(plan: &Plan, script: Script) -> Self {
        Self {
            script,
            numbers: Numbers::new(plan),
            known: Vec::new(),
            epoch: VIRTUAL_EPOCH,
            locals: Locals::default(),
            filled: Filled::default(),
        }
    }

    /// Whether a call must be filled in before it is sent.
    pub(super) fn fills(&self, call: u32) -> bool {
        self.script.fills(call)
    }

    /// Fill in a request.
    pub(super) fn fill(
        &mut self,
        id: RequestId,
        exchange: &Exchange,
        now: Nanos,
    ) -> Result<&Filled, Fault> {
        let slot = id.slot as usize;
        if self.known.len() <= slot {
            self.known.resize(slot + 1, (None, (0, 0)));
        }
        let (generation, number) = &mut self.known[slot];
        if *generation != Some(id.generation) {
            (*generation, *number) = (Some(id.generation), self.numbers.next(exchange.call));
        }
        let Self { script, locals, filled, .. } = self;
        locals.now = self.epoch.saturating_add(now.0);
        locals.counter = Some(number.1);
        script.begin(number.0, locals);
        match script.fill(exchange.call, 0, locals, None, now, filled) {
            Ok(()) => Ok(filled),
            Err(Unsent::NoValue) => Err(Fault::NoValue),
            Err(Unsent::Unfit) => Err(Fault::UnfitValue),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{CallSpec, Stop, Think};
    use crate::rate::{Arrivals, RatePlan};

    /// A plan with this number of calls, and its shares.
    fn shares(load: Load, calls: usize, pick: Pick, of: u32) -> Vec<Plan> {
        let calls = vec![CallSpec::default(); calls];
        let plan = Plan { pick, ..Plan::new(Vec::new(), calls, load, Stop::default()) };
        (0..of).map(|index| Plan { shard: Shard { index, of }, ..plan.clone() }).collect()
    }

    /// The calls of closed loops begin with that of the share's index; open loops make call k
    /// modulo their number.
    #[test]
    fn numbers_have_no_gaps_and_those_of_a_call_are_evenly_spaced() {
        let closed = Load::Closed { connections: 9, think: Think::None };
        let (rate, arrivals) = (RatePlan::default(), Arrivals::Fixed);
        let open = Load::Open { rate, arrivals, connections: 9 };
        for (load, calls, of) in [
            (&closed, 1, 1),
            (&closed, 4, 3),
            (&closed, 3, 2),
            (&open, 1, 3),
            (&open, 4, 3),
            (&open, 4, 2),
            (&open, 6, 4),
        ] {
            let (mut all, mut own) = (Vec::new(), vec![Vec::new(); calls]);
            for plan in shares(load.clone(), calls, Pick::InTurn, of) {
                let mut numbers = Numbers::new(&plan);
                let index = plan.shard.index as usize;
                for nth in 0..calls * 12 {
                    let call = match load {
                        Load::Closed { .. } => (nth + index) % calls,
                        Load::Open { .. } => (nth * of as usize + index) % calls,
                    };
                    let (number, counter) = numbers.next(call as u32);
                    all.push(number);
                    own[call].push(counter);
                }
            }
            let count = (calls * 12) as u64 * u64::from(of);
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>(), "{calls} calls, {of} shares");
            for (call, own) in own.iter_mut().enumerate() {
                own.sort_unstable();
                let step = calls as u64;
                let expected = (0..count / step).map(|n| n * step + call as u64);
                assert_eq!(
                    *own,
                    expected.collect::<Vec<_>>(),
                    "call {call} of {calls}, {of} shares"
                );
            }
        }
    }

    #[test]
    fn calls_at_random_have_the_numbers_of_the_requests() {
        let load = Load::Closed { connections: 9, think: Think::None };
        let mut numbers = Numbers::new(&shares(load, 5, Pick::Random, 2)[1]);
        assert_eq!([4, 0, 0].map(|call| numbers.next(call)), [(1, 1), (3, 3), (5, 5)]);
    }
}
