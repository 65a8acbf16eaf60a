//! The kernel's interface for SCTP sockets: constants and structs of `linux/sctp.h`, which no crate
//! defines completely. The tests compare their sizes with the header's.

#![expect(dead_code, reason = "a kernel struct has all its fields, also those that are not read")]

use libc::{c_int, sockaddr_storage};

use crate::net::socket::Plain;

pub(super) const LEVEL: c_int = libc::IPPROTO_SCTP;

pub(super) const RTOINFO: c_int = 0;
pub(super) const INITMSG: c_int = 2;
pub(super) const NODELAY: c_int = 3;
pub(super) const PRIMARY_ADDR: c_int = 6;
pub(super) const STATUS: c_int = 14;
pub(super) const GET_PEER_ADDR_INFO: c_int = 15;
pub(super) const DELAYED_SACK: c_int = 16;
pub(super) const RECVRCVINFO: c_int = 32;
pub(super) const BINDX_ADD: c_int = 100;
pub(super) const BINDX_REMOVE: c_int = 101;
pub(super) const GET_PEER_ADDRS: c_int = 108;
pub(super) const GET_LOCAL_ADDRS: c_int = 109;
pub(super) const CONNECTX: c_int = 110;
pub(super) const GET_ASSOC_STATS: c_int = 112;
pub(super) const PEELOFF_FLAGS: c_int = 122;
pub(super) const EVENT: c_int = 127;

/// Ancillary data.
pub(super) const CMSG_SNDINFO: c_int = 2;
pub(super) const CMSG_RCVINFO: c_int = 3;

/// A notification from the kernel, not a message from the peer.
pub(super) const MSG_NOTIFICATION: c_int = 0x8000;
pub(super) const ASSOC_CHANGE: u16 = 0x8001;
/// States of an association in an [`AssocChange`].
pub(super) const COMM_UP: u16 = 0;

/// In place of an association's ID: all current and future associations.
pub(super) const ALL_ASSOCS: i32 = 2;

/// States of a path; 0 is a failed path.
pub(super) const PATH_POTENTIALLY_FAILED: i32 = 1;
pub(super) const PATH_ACTIVE: i32 = 2;
pub(super) const PATH_UNCONFIRMED: i32 = 3;

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct InitMsg {
    pub(super) out_streams: u16,
    pub(super) in_streams_max: u16,
    pub(super) attempts: u16,
    pub(super) timeout_ms: u16,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct RtoInfo {
    pub(super) assoc: i32,
    pub(super) initial: u32,
    pub(super) max: u32,
    pub(super) min: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct SackInfo {
    pub(super) assoc: i32,
    pub(super) delay_ms: u32,
    pub(super) frequency: u32,
}

#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub(super) struct PathInfo {
    pub(super) assoc: i32,
    pub(super) addr: sockaddr_storage,
    pub(super) state: i32,
    pub(super) cwnd: u32,
    pub(super) srtt_ms: u32,
    pub(super) rto_ms: u32,
    pub(super) mtu: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct AssocStatus {
    pub(super) assoc: i32,
    pub(super) state: i32,
    pub(super) rwnd: u32,
    pub(super) unacked: u16,
    pub(super) pending: u16,
    pub(super) in_streams: u16,
    pub(super) out_streams: u16,
    pub(super) fragmentation_point: u32,
    pub(super) primary: PathInfo,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct AssocStats {
    pub(super) assoc: i32,
    pub(super) rto_addr: sockaddr_storage,
    pub(super) rto_max_ms: u64,
    pub(super) sacks_in: u64,
    pub(super) sacks_out: u64,
    pub(super) packets_out: u64,
    pub(super) packets_in: u64,
    pub(super) retransmitted: u64,
    pub(super) out_of_sequence: u64,
    pub(super) duplicates_in: u64,
    pub(super) gap_acks_in: u64,
    pub(super) unordered_out: u64,
    pub(super) unordered_in: u64,
    pub(super) ordered_out: u64,
    pub(super) ordered_in: u64,
    pub(super) control_out: u64,
    pub(super) control_in: u64,
}

/// The header of a list of addresses.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct AddrsHead {
    pub(super) assoc: i32,
    pub(super) count: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct PeelOff {
    pub(super) assoc: i32,
    pub(super) fd: c_int,
    pub(super) flags: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Event {
    pub(super) assoc: i32,
    pub(super) kind: u16,
    pub(super) on: u8,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct AssocChange {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) length: u32,
    pub(super) state: u16,
    pub(super) error: u16,
    pub(super) out_streams: u16,
    pub(super) in_streams: u16,
    pub(super) assoc: i32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct SndInfo {
    pub(super) stream: u16,
    pub(super) flags: u16,
    pub(super) payload_protocol: u32,
    pub(super) context: u32,
    pub(super) assoc: i32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct RcvInfo {
    pub(super) stream: u16,
    pub(super) sequence: u16,
    pub(super) flags: u16,
    pub(super) payload_protocol: u32,
    pub(super) tsn: u32,
    pub(super) cumulative_tsn: u32,
    pub(super) context: u32,
    pub(super) assoc: i32,
}

// SAFETY: a C struct of integers.
unsafe impl Plain for InitMsg {}
// SAFETY: a C struct of integers.
unsafe impl Plain for RtoInfo {}
// SAFETY: a C struct of integers.
unsafe impl Plain for SackInfo {}
// SAFETY: a C struct of integers.
unsafe impl Plain for PathInfo {}
// SAFETY: a C struct of integers.
unsafe impl Plain for AssocStatus {}
// SAFETY: a C struct of integers.
unsafe impl Plain for AssocStats {}
// SAFETY: a C struct of integers.
unsafe impl Plain for PeelOff {}
// SAFETY: a C struct of integers.
unsafe impl Plain for Event {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of `sizeof` and `offsetof` for the structs of `linux/sctp.h` on 64-bit Linux.
    #[test]
    fn structs_have_the_kernels_sizes() {
        let sizes = [
            (size_of::<InitMsg>(), 8),
            (size_of::<RtoInfo>(), 16),
            (size_of::<SackInfo>(), 12),
            (size_of::<PathInfo>(), 152),
            (size_of::<AssocStatus>(), 176),
            (size_of::<AssocStats>(), 256),
            (size_of::<AddrsHead>(), 8),
            (size_of::<PeelOff>(), 12),
            (size_of::<Event>(), 8),
            (size_of::<AssocChange>(), 20),
            (size_of::<SndInfo>(), 16),
            (size_of::<RcvInfo>(), 28),
            (std::mem::offset_of!(PathInfo, state), 132),
            (std::mem::offset_of!(AssocStatus, primary), 24),
            (std::mem::offset_of!(AssocStats, retransmitted), 176),
        ];
        for (i, (ours, kernel)) in sizes.into_iter().enumerate() {
            assert_eq!(ours, kernel, "line {i}");
        }
    }
}
