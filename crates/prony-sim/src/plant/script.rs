//! The server that plays a script: exact bytes at exact offsets and times.

use prony_core::units::{ConnId, Span};

use super::{Act, Plant, Yard};

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Go on when so many requests of the connection have arrived in all.
    Await(u64),
    /// Go on after that time.
    Wait(Span),
    /// Send these bytes.
    Send(Vec<u8>),
    /// Close when all is sent.
    Close,
    /// Reset at once.
    Reset,
}

/// Plays script k modulo their number to the k-th connection. A connection whose script is over
/// stays open, silent.
#[derive(Debug)]
pub struct Scripted {
    scripts: Vec<Vec<Step>>,
    opened: usize,
    plays: Vec<Play>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Play {
    script: usize,
    step: usize,
    requests: u64,
    /// Waits of a script that was played in the same slot before are none of this one's.
    waiting: bool,
}

impl Scripted {
    /// These scripts.
    pub fn new(scripts: Vec<Vec<Step>>) -> Self {
        assert!(!scripts.is_empty());
        Self { scripts, opened: 0, plays: Vec::new() }
    }

    /// One script for all connections.
    pub fn one(script: Vec<Step>) -> Self {
        Self::new(vec![script])
    }

    fn play(&mut self, id: ConnId, yard: &mut Yard) {
        let play = &mut self.plays[id.slot as usize];
        while let Some(step) = self.scripts[play.script].get(play.step) {
            match step {
                Step::Await(n) if play.requests < *n => return,
                Step::Await(_) => {}
                Step::Wait(span) => {
                    play.step += 1;
                    play.waiting = true;
                    yard.at(yard.now() + *span, id, Act::Token(0));
                    return;
                }
                Step::Send(bytes) => yard.send(id, bytes),
                Step::Close => yard.close(id),
                Step::Reset => yard.reset(id),
            }
            play.step += 1;
        }
    }
}

impl Plant for Scripted {
    fn opened(&mut self, id: ConnId, yard: &mut Yard) {
        let slot = id.slot as usize;
        if self.plays.len() <= slot {
            self.plays.resize(slot + 1, Play::default());
        }
        self.plays[slot] = Play { script: self.opened % self.scripts.len(), ..Play::default() };
        self.opened += 1;
        self.play(id, yard);
    }

    fn request(&mut self, id: ConnId, _: u64, _: &[u8], yard: &mut Yard) {
        self.plays[id.slot as usize].requests += 1;
        if !self.plays[id.slot as usize].waiting {
            self.play(id, yard);
        }
    }

    fn token(&mut self, id: ConnId, _: u64, yard: &mut Yard) {
        self.plays[id.slot as usize].waiting = false;
        self.play(id, yard);
    }
}
