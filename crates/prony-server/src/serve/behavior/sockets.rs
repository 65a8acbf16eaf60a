//! What a server does on connections of WebSocket.

use std::fmt;
use std::str::FromStr;

use prony_base::units::Span;
use serde::{Deserialize, Serialize};

use super::{BehaviorError, Latency, Share};

/// What the server does on connections of WebSocket.
///
/// As text: `echo` returns each message, after the service time of a request. `broadcast` sends it
/// to all other connections; `broadcast:lose=1%,duplicate=1%,swap=1%` makes mistakes with these
/// shares of the deliveries. `push:50` (per
/// second) or `push:exp:20ms` (a distribution of the time between messages, as of [`Latency`])
/// sends messages that begin with their number, from 1; those of the client are read and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SocketBehavior {
    /// Return each message.
    Echo,
    /// Send each message to all other connections, with these faults.
    Broadcast(BroadcastFaults),
    /// Send messages, with these times between them.
    Push(Latency),
}

/// The mistakes of a server that broadcasts, as shares of its deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BroadcastFaults {
    /// Deliveries that are left out.
    pub lose: Share,
    /// Deliveries that are made twice.
    pub duplicate: Share,
    /// Deliveries that are held back until the next message of the same publisher has been
    /// delivered.
    pub swap: Share,
}

const FORM: &str = "echo, broadcast, broadcast:lose=1%,duplicate=1%,swap=1%, push:50 (messages per \
                    second) or push:exp:20ms";

impl FromStr for SocketBehavior {
    type Err = BehaviorError;

    fn from_str(text: &str) -> Result<Self, BehaviorError> {
        let fail = |why: &'static str| BehaviorError {
            what: "behavior of WebSocket",
            given: text.to_owned(),
            why: why.into(),
            form: FORM,
        };
        if text == "echo" {
            return Ok(Self::Echo);
        }
        if let Some(rest) = text.strip_prefix("broadcast") {
            return BroadcastFaults::parse(rest).map(Self::Broadcast).map_err(fail);
        }
        let Some(("push", times)) = text.split_once(':') else {
            return Err(fail("it is none of echo, broadcast and push"));
        };
        let gap = match times.trim_end_matches("/s").parse::<f64>() {
            Ok(rate) if (1e-3..=1e6).contains(&rate) => {
                Latency::Fixed(Span::from_secs_f64(1.0 / rate))
            }
            Ok(_) => return Err(fail("the rate must be 0.001 to 1,000,000 per second")),
            Err(_) => times.parse()?,
        };
        match gap {
            Latency::None | Latency::Fixed(Span::ZERO) => {
                Err(fail("there must be time between messages"))
            }
            gap => Ok(Self::Push(gap)),
        }
    }
}

impl fmt::Display for SocketBehavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Echo => f.write_str("echo"),
            Self::Broadcast(faults) => write!(f, "broadcast{faults}"),
            Self::Push(gap) => write!(f, "push:{gap}"),
        }
    }
}

impl BroadcastFaults {
    /// Parse what follows `broadcast`.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        const WHY: &str = "lose, duplicate and swap may follow a colon, each with a share";
        let mut faults = Self::default();
        if text.is_empty() {
            return Ok(faults);
        }
        for item in text.strip_prefix(':').ok_or(WHY)?.split(',') {
            let (name, share) = item.split_once('=').ok_or(WHY)?;
            let share = share.parse().map_err(|_| "a share is not between 0 and 1")?;
            match name.trim() {
                "lose" => faults.lose = share,
                "duplicate" => faults.duplicate = share,
                "swap" => faults.swap = share,
                _ => return Err(WHY),
            }
        }
        Ok(faults)
    }
}

impl fmt::Display for BroadcastFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [("lose", self.lose), ("duplicate", self.duplicate), ("swap", self.swap)];
        let made = all.into_iter().filter(|(_, share)| *share != Share::NEVER);
        for (i, (name, share)) in made.enumerate() {
            write!(f, "{}{name}={share}", if i == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviors_are_read_from_text() {
        let parse = |text: &str| text.parse::<SocketBehavior>().map_err(|error| error.to_string());
        assert_eq!(parse("echo"), Ok(SocketBehavior::Echo));
        let fixed = SocketBehavior::Push(Latency::Fixed(Span::from_millis(20)));
        assert_eq!((parse("push:50"), parse("push:50/s")), (Ok(fixed), Ok(fixed)));
        assert_eq!(parse("push:fixed:20ms"), Ok(fixed));
        assert_eq!(fixed.to_string(), "push:fixed:20ms");
        let random = SocketBehavior::Push(Latency::Exponential(Span::from_millis(20)));
        assert_eq!(parse("push:exp:20ms"), Ok(random));
        for text in ["broadcast", "broadcast:lose=0.01,duplicate=0.5,swap=1", "broadcast:swap=0.1"]
        {
            assert_eq!(parse(text).map(|parsed| parsed.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(parse("broadcast:lose=1%"), parse("broadcast:lose=0.01"));
        for bad in
            ["broadcasts", "broadcast:", "broadcast:lose", "broadcast:lose=2", "broadcast:a=1"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for bad in ["", "push", "push:", "push:0", "push:none", "push:fixed:0s", "pull:5"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
