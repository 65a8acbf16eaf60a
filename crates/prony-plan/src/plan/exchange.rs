//! Exchanges of the echo protocol: a message and its reply.

use serde::{Deserialize, Serialize};

use super::{Load, Plan};

/// The exchanges with a responder (`docs/echo-protocol.md`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// How messages are framed.
    pub framing: Framing,
    /// Exchanges on each new connection before it carries calls; they are not measured.
    pub warmup_exchanges: u32,
    /// The lengths of the messages, one for each of the plan's calls.
    pub messages: Vec<Message>,
}

/// The framing of the echo protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// That of the ACE tests: a length before each message, replies of 2 bytes.
    Short,
    /// A header before every message and reply, with lengths and a sequence number.
    Long,
}

/// The lengths of one exchange, without framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Bytes of the request.
    pub request: u32,
    /// Bytes of the reply; 2 in the short framing.
    pub reply: u32,
}

impl Exchange {
    /// The longest message: 16 MiB.
    pub const LENGTH_MAX: u32 = 16 << 20;
    /// The longest message that fits into a UDP datagram with the long framing.
    pub const DATAGRAM_MAX: u32 = 65_507 - prony_base::frame::HEADER as u32;
}

impl Plan {
    /// The number of exchanges on the connection, including its warm-up. Known only for a closed
    /// loop with one connection that stops after a number of exchanges.
    pub fn exchanges(&self) -> Option<u64> {
        let exchange = self.exchange.as_deref()?;
        let one = matches!(self.load, Load::Closed { connections: 1, .. });
        let counted = self.stop.requests.filter(|_| one && self.stop.duration.is_none())?;
        Some(counted + u64::from(exchange.warmup_exchanges))
    }

    /// Check whether the exchange can be run.
    pub(crate) fn check_exchange(&self, exchange: &Exchange) -> Result<(), String> {
        if exchange.messages.len() != self.calls.len() {
            return Err(format!(
                "there are {} messages for {} requests",
                exchange.messages.len(),
                self.calls.len()
            ));
        }
        if self.sessions.is_some() {
            return Err("messages cannot be exchanged in sessions".into());
        }
        let lossy = self.endpoints.iter().any(|e| e.transport().is_lossy());
        if lossy && exchange.framing == Framing::Short {
            return Err("over UDP messages need the long framing, which numbers them".into());
        }
        let most = if lossy { Exchange::DATAGRAM_MAX } else { Exchange::LENGTH_MAX };
        for message in &exchange.messages {
            if exchange.framing == Framing::Short && message.reply != 2 {
                return Err("the short framing has replies of 2 bytes".into());
            }
            if let Some(n) = [message.request, message.reply].into_iter().find(|&n| n > most) {
                let over = if lossy { "over UDP a message" } else { "a message" };
                return Err(format!("{over} has at most {most} bytes, not {n}"));
            }
        }
        Ok(())
    }
}
