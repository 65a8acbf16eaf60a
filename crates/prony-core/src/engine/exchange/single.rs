//! The templates of requests without sessions: each request is a session of its own.

use super::Exchange;
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId};
use prony_plan::plan::{Deal, Load, Pick, Plan};
use prony_plan::script::{Filled, Locals, Script, Unsent, VIRTUAL_EPOCH};

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
    deal: Deal,
    /// How many requests there have been.
    taken: u64,
    /// If the calls are made in turn: the next numbers of each call. Those of a call are evenly
    /// spaced over all shares, so that its values are, too.
    of_calls: OfCalls,
}

#[derive(Clone, Debug)]
enum OfCalls {
    /// The calls are made at random.
    None,
    /// Each share goes through the calls by itself: how often it has made each.
    Own(Vec<u64>),
    /// Request k makes call k modulo their number, in the share to which k is dealt: the next
    /// request of each call, and the distance to the one after it, if it is always the same.
    Dealt(Vec<u64>, Option<u64>),
}

impl Numbers {
    fn new(plan: &Plan) -> Self {
        let (deal, calls) = (plan.deal(), plan.calls.len() as u64);
        let of_calls = match (&plan.load, plan.pick) {
            (_, Pick::Random) => OfCalls::None,
            (Load::Closed { .. }, Pick::InTurn) => OfCalls::Own(vec![0; plan.calls.len()]),
            (Load::Open { .. }, Pick::InTurn) => {
                let first = (0..calls).map(|call| dealt_from(&deal, call, calls)).collect();
                let step = deal.step().map(|of| calls * of / gcd(calls, of));
                OfCalls::Dealt(first, step)
            }
        };
        Self { deal, taken: 0, of_calls }
    }

    /// Two numbers of the next request, which no other one has: without gaps over all shares, and
    /// evenly spaced for its call.
    fn next(&mut self, call: u32) -> (u64, u64) {
        let number = self.deal.nth(self.taken);
        self.taken += 1;
        let own = match &mut self.of_calls {
            OfCalls::None => number,
            OfCalls::Own(made) => {
                let (calls, made) = (made.len() as u64, &mut made[call as usize]);
                *made += 1;
                self.deal.nth(*made - 1) * calls + u64::from(call)
            }
            OfCalls::Dealt(next, step) => {
                let (calls, next) = (next.len() as u64, &mut next[call as usize]);
                let own = *next;
                *next = match step {
                    Some(step) => own + *step,
                    None => dealt_from(&self.deal, own + calls, calls),
                };
                own
            }
        };
        (number, own)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The share's first number among `from`, `from + step` and so on; `from` if it has none.
fn dealt_from(deal: &Deal, from: u64, step: u64) -> u64 {
    // The deal repeats: what is not among these never comes.
    let all = (0..deal.round()).map(|n| from + n * step);
    all.into_iter().find(|&number| deal.has(number)).unwrap_or(from)
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
    use prony_plan::plan::{CallSpec, Shard, Stop, Think};
    use prony_plan::rate::{Arrivals, RatePlan};

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
            // Each of the nine connections makes each call as often.
            let count = calls as u64 * 36;
            for plan in shares(load.clone(), calls, Pick::InTurn, of) {
                let (mut numbers, deal) = (Numbers::new(&plan), plan.deal());
                for nth in 0..deal.count(count) {
                    let call = match load {
                        Load::Closed { .. } => nth + u64::from(plan.shard.index),
                        Load::Open { .. } => deal.nth(nth),
                    } % calls as u64;
                    let (number, counter) = numbers.next(call as u32);
                    all.push(number);
                    own[call as usize].push(counter);
                }
            }
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
