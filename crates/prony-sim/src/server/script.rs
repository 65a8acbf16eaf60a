//! A server that follows a script: exact bytes at exact times.

use prony_base::units::{ConnId, Span};

use super::{Connections, ServerAction, ServerModel};

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait until this number of requests has arrived on the connection in total.
    Await(u64),
    /// Wait for this time.
    Wait(Span),
    /// Send these bytes.
    Send(Vec<u8>),
    /// Close the connection when everything is sent.
    Close,
    /// Reset the connection immediately.
    Reset,
}

/// Runs script k modulo their number on the k-th connection. A connection stays open after the last
/// step.
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
    /// Whether it is in a [`Step::Wait`].
    waiting: bool,
}

impl Scripted {
    /// A server with these scripts.
    pub fn new(scripts: Vec<Vec<Step>>) -> Self {
        assert!(!scripts.is_empty());
        Self { scripts, opened: 0, plays: Vec::new() }
    }

    /// A server with one script for all connections.
    pub fn one(script: Vec<Step>) -> Self {
        Self::new(vec![script])
    }

    fn play(&mut self, id: ConnId, conns: &mut Connections) {
        let play = &mut self.plays[id.slot as usize];
        while let Some(step) = self.scripts[play.script].get(play.step) {
            match step {
                Step::Await(n) if play.requests < *n => return,
                Step::Await(_) => {}
                Step::Wait(span) => {
                    play.step += 1;
                    play.waiting = true;
                    conns.at(conns.now() + *span, id, ServerAction::Timer(0));
                    return;
                }
                Step::Send(bytes) => conns.send(id, bytes),
                Step::Close => conns.close(id),
                Step::Reset => conns.reset(id),
            }
            play.step += 1;
        }
    }
}

impl ServerModel for Scripted {
    fn opened(&mut self, id: ConnId, conns: &mut Connections) {
        let slot = id.slot as usize;
        if self.plays.len() <= slot {
            self.plays.resize(slot + 1, Play::default());
        }
        self.plays[slot] = Play { script: self.opened % self.scripts.len(), ..Play::default() };
        self.opened += 1;
        self.play(id, conns);
    }

    fn request(&mut self, id: ConnId, _: u64, _: &[u8], conns: &mut Connections) {
        self.plays[id.slot as usize].requests += 1;
        if !self.plays[id.slot as usize].waiting {
            self.play(id, conns);
        }
    }

    fn timer(&mut self, id: ConnId, _: u64, conns: &mut Connections) {
        self.plays[id.slot as usize].waiting = false;
        self.play(id, conns);
    }
}
