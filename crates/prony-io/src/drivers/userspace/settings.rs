//! Settings of userspace SCTP, and whether it can be used.

use std::path::Path;
use std::sync::Arc;

use prony_base::meter::{Sctp, SctpStack};
use sctp_proto::TransportConfig;
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::Refusal;
pub use crate::net::socket::options::{Settings, Via};
use crate::net::socket::sctp::Rto;

/// The UDP port for SCTP (RFC 6951).
pub const UDP_PORT: u16 = 9_899;
/// The longest message without its framing, in bytes.
pub const SIZE_MAX: u32 = 256 * 1024;
/// The name of the implementation in reports.
pub const NAME: &str = "sctp-proto 0.10.8";

/// The number of streams that a peer may use.
pub(super) const STREAMS: u16 = 16;
/// The longest message, in bytes, including its framing.
pub(super) const MESSAGE_MAX: usize = SIZE_MAX as usize + 64;

/// The size of the receive buffer. The crate returns only complete messages.
const RECEIVE_MAX: u32 = 2 * MESSAGE_MAX as u32;
/// The crate's defaults (RFC 9260, 16), in milliseconds. Only the timeouts can be set.
const RTO: Rto = Rto { initial: 3_000, min: 1_000, max: 60_000 };
const SACK_DELAY_MS: u32 = 200;
const SACK_PACKETS: u32 = 2;

impl Settings {
    /// The crate's settings for associations between these SCTP ports.
    pub(super) fn transport(&self, local: u16, remote: u16) -> Arc<TransportConfig> {
        let Rto { initial, min, max } = self.rto();
        let config = TransportConfig::default()
            .with_max_receive_buffer_size(RECEIVE_MAX)
            .with_max_send_message_size(MESSAGE_MAX as u32)
            .with_max_receive_message_size(MESSAGE_MAX as u32)
            .with_max_num_outbound_streams(STREAMS)
            .with_max_num_inbound_streams(STREAMS)
            // The plan's timeout limits the attempts.
            .with_max_init_retransmits(None)
            .with_rto_initial_ms(initial.into())
            .with_rto_min_ms(min.into())
            .with_rto_max_ms(max.into())
            .with_local_port(local)
            .with_remote_port(remote);
        Arc::new(config)
    }

    /// The statistics of one association.
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

    /// The timeouts, with defaults for those that are not set.
    fn rto(&self) -> Rto {
        let or = |value, default| if value == 0 { default } else { value };
        let Rto { initial, min, max } = self.rto;
        Rto { initial: or(initial, RTO.initial), min: or(min, RTO.min), max: or(max, RTO.max) }
    }
}

/// Check that userspace SCTP can be used here with these settings.
pub fn ready(settings: &Settings) -> Result<(), Refusal> {
    let Rto { min, max, .. } = settings.rto();
    if min > max {
        return Err(Refusal::RtoLimits { min, max });
    }
    if settings.via == Via::Udp {
        return Ok(());
    }
    // Do not test this with a socket, which would load the module.
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
    fn name_has_the_locked_version() {
        let lock =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock"));
        let (name, version) = NAME.split_once(' ').unwrap();
        let locked = format!("name = \"{name}\"\nversion = \"{version}\"\n");
        assert!(lock.unwrap().contains(&locked), "{NAME} is not the locked version");
    }

    #[test]
    fn refuses_rto_min_above_rto_max() {
        let rto = Rto { initial: 0, min: 500, max: 20 };
        let settings = Settings { via: Via::Udp, udp_port: UDP_PORT, rto };
        assert!(matches!(ready(&settings), Err(Refusal::RtoLimits { min: 500, max: 20 })));
        // Timeouts that are not set have their defaults.
        let settings = Settings { rto: Rto { min: 0, ..rto }, ..settings };
        assert!(matches!(ready(&settings), Err(Refusal::RtoLimits { min: 1_000, max: 20 })));
        let settings = Settings { rto: Rto::default(), ..settings };
        assert!(ready(&settings).is_ok());
    }
}
