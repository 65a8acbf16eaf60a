//! What userspace SCTP is set to, and whether it can be had.

use std::path::Path;
use std::sync::Arc;

use prony_core::summary::{Sctp, SctpStack};
use sctp_proto::TransportConfig;
use socket2::{Domain, Protocol, Socket, Type};

use super::association::{MESSAGE_MAX, STREAMS};
use crate::error::Refusal;
pub use crate::net::socket::options::{Settings, Via};
use crate::net::socket::sctp::Rto;

/// The port of UDP that SCTP has (RFC 6951).
pub const UDP_PORT: u16 = 9_899;
/// The longest message without its framing, in bytes.
pub const SIZE_MAX: u32 = 256 * 1024;
/// Whose SCTP it is, as reports name it.
pub const NAME: &str = "sctp-proto 0.10.8";

/// Bytes that may wait for the rest of their messages. The crate gives out whole messages only.
const RECEIVE_MAX: u32 = 2 * MESSAGE_MAX as u32;
/// What the crate has, of which only the timeouts can be set (RFC 9260, 16): milliseconds.
const RTO: Rto = Rto { initial: 3_000, min: 1_000, max: 60_000 };
const SACK_DELAY_MS: u32 = 200;
const SACK_PACKETS: u32 = 2;

impl Settings {
    /// What holds for associations with these ports of SCTP.
    pub(super) fn transport(&self, local: u16, remote: u16) -> Arc<TransportConfig> {
        let Rto { initial, min, max } = self.rto();
        let config = TransportConfig::default()
            .with_max_receive_buffer_size(RECEIVE_MAX)
            .with_max_send_message_size(MESSAGE_MAX as u32)
            .with_max_receive_message_size(MESSAGE_MAX as u32)
            .with_max_num_outbound_streams(STREAMS)
            .with_max_num_inbound_streams(STREAMS)
            // How long to try is the plan's to say.
            .with_max_init_retransmits(None)
            .with_rto_initial_ms(initial.into())
            .with_rto_min_ms(min.into())
            .with_rto_max_ms(max.into())
            .with_local_port(local)
            .with_remote_port(remote);
        Arc::new(config)
    }

    /// What reports tell of one association.
    pub(super) fn facts(&self, retransmits: u64) -> Sctp {
        let Rto { initial, min, max } = self.rto();
        Sctp {
            stack: match self.via {
                Via::Udp => SctpStack::Udp,
                Via::Raw => SctpStack::Raw,
            },
            associations: 1,
            retransmits,
            paths: 1,
            rto_initial_ms: initial,
            rto_min_ms: min,
            rto_max_ms: max,
            sack_delay_ms: SACK_DELAY_MS,
            sack_packets: SACK_PACKETS,
            nodelay: true,
            ..Sctp::default()
        }
    }

    /// The timeouts, those included that are not set.
    fn rto(&self) -> Rto {
        let or = |wish, usual| if wish == 0 { usual } else { wish };
        let Rto { initial, min, max } = self.rto;
        Rto { initial: or(initial, RTO.initial), min: or(min, RTO.min), max: or(max, RTO.max) }
    }
}

/// Whether it can be had here, and with these settings.
pub fn ready(settings: &Settings) -> Result<(), Refusal> {
    let Rto { min, max, .. } = settings.rto();
    if min > max {
        return Err(Refusal::RtoLimits { min, max });
    }
    if settings.via == Via::Udp {
        return Ok(());
    }
    // Not asked by making a socket, which would load it.
    if Path::new("/proc/net/sctp").exists() {
        return Err(Refusal::RawBesideKernel);
    }
    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(libc::IPPROTO_SCTP)));
    raw.map(drop).map_err(Refusal::Raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_is_named_as_it_is_locked() {
        let lock =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock"));
        let (name, version) = NAME.split_once(' ').unwrap();
        let locked = format!("name = \"{name}\"\nversion = \"{version}\"\n");
        assert!(lock.unwrap().contains(&locked), "{NAME} is not what is built in");
    }

    #[test]
    fn limits_that_exclude_each_other_are_refused() {
        let rto = Rto { initial: 0, min: 500, max: 20 };
        let settings = Settings { via: Via::Udp, udp_port: UDP_PORT, rto };
        assert!(matches!(ready(&settings), Err(Refusal::RtoLimits { min: 500, max: 20 })));
        // What is not given is the usual.
        let settings = Settings { rto: Rto { min: 0, ..rto }, ..settings };
        assert!(matches!(ready(&settings), Err(Refusal::RtoLimits { min: 1_000, max: 20 })));
        let settings = Settings { rto: Rto::default(), ..settings };
        assert!(ready(&settings).is_ok());
    }
}
