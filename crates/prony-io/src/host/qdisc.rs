//! The queueing discipline of a network device, read over netlink.

use std::fs;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// The length of the request: header (16) and traffic control message (20).
const REQUEST: u32 = 36;
const HEADER: usize = 16;
const TRAFFIC: usize = 20;
/// `RTM_NEWQDISC`, `RTM_GETQDISC`.
const NEW: u16 = 36;
const GET: u16 = 38;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const ALL: u16 = 0x301;
/// `TC_H_ROOT`: the root queueing discipline.
const ROOT: u32 = 0xFFFF_FFFF;
/// `TCA_KIND`.
const KIND: u16 = 1;

/// The kind of a device's root queueing discipline; `None` if it has none (`noqueue`) or it is
/// unknown.
pub(super) fn of(device: &str) -> Option<String> {
    let index = fs::read_to_string(format!("/sys/class/net/{device}/ifindex")).ok()?;
    let index: i32 = index.trim().parse().ok()?;
    let kind = queues()?.into_iter().find(|(i, _)| *i == index).map(|(_, kind)| kind)?;
    (kind != "noqueue").then_some(kind)
}

/// The index and root queueing discipline of each device that has one.
fn queues() -> Option<Vec<(i32, String)>> {
    let (family, raw) = (Domain::from(libc::AF_NETLINK), Type::RAW);
    let mut socket = Socket::new(family, raw, Some(Protocol::from(libc::NETLINK_ROUTE))).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    let mut request = Vec::with_capacity(REQUEST as usize);
    request.extend_from_slice(&REQUEST.to_ne_bytes());
    request.extend_from_slice(&GET.to_ne_bytes());
    request.extend_from_slice(&ALL.to_ne_bytes());
    request.resize(REQUEST as usize, 0);
    socket.write_all(&request).ok()?;
    let (mut found, mut buffer) = (Vec::new(), vec![0; 32 << 10]);
    loop {
        let n = socket.read(&mut buffer).ok()?;
        if n == 0 || parse(&buffer[..n], &mut found) {
            return Some(found);
        }
    }
}

/// Parse a batch of replies. Returns whether it was the last.
fn parse(mut batch: &[u8], found: &mut Vec<(i32, String)>) -> bool {
    while let (Some(length), Some(kind)) = (word(batch, 0), half(batch, 4)) {
        let length = length as usize;
        if length < HEADER || length > batch.len() {
            return true;
        }
        match kind {
            NEW => found.extend(queue(&batch[HEADER..length])),
            // An error, or the end of the replies.
            2 | 3 => return true,
            _ => {}
        }
        batch = &batch[length.next_multiple_of(4).min(batch.len())..];
    }
    false
}

/// One reply: the device index and its root queueing discipline.
fn queue(body: &[u8]) -> Option<(i32, String)> {
    let (index, parent) = (word(body, 4)?, word(body, 12)?);
    let mut attributes = body.get(TRAFFIC..).filter(|_| parent == ROOT)?;
    while let (Some(length), Some(name)) = (half(attributes, 0), half(attributes, 2)) {
        let length = usize::from(length);
        let value = attributes.get(4..length)?;
        if name == KIND {
            let text = value.split(|&b| b == 0).next().unwrap_or_default();
            return Some((index as i32, String::from_utf8_lossy(text).into_owned()));
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut m = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        m.extend_from_slice(&kind.to_ne_bytes());
        m.resize(HEADER, 0);
        m.extend_from_slice(body);
        m
    }

    fn body(index: i32, parent: u32, kind: &[u8]) -> Vec<u8> {
        let mut b = vec![0; 4];
        b.extend_from_slice(&index.to_ne_bytes());
        b.extend_from_slice(&[0; 4]);
        b.extend_from_slice(&parent.to_ne_bytes());
        b.extend_from_slice(&[0; 4]);
        b.extend_from_slice(&(4 + kind.len() as u16).to_ne_bytes());
        b.extend_from_slice(&KIND.to_ne_bytes());
        b.extend_from_slice(kind);
        b
    }

    #[test]
    fn parses_replies_and_stops_at_malformed_ones() {
        let mut found = Vec::new();
        let mut batch = message(NEW, &body(1, ROOT, b"netem\0\0\0"));
        batch.extend(message(NEW, &body(2, 0x10000, b"pfifo\0\0\0")));
        assert!(!parse(&batch, &mut found));
        assert_eq!(found, [(1, "netem".to_owned())]);
        assert!(parse(&message(3, &[0; 4]), &mut found), "the end");
        assert!(parse(&[8, 0, 0, 0, 36, 0], &mut found), "shorter than its header");
        for cut in 0..batch.len() {
            parse(&batch[..cut], &mut Vec::new());
        }
    }

    #[test]
    fn queries_the_kernel() {
        // The result depends on the machine, but the query must finish.
        assert!(queues().is_some());
        assert_eq!(of("no-such-device"), None);
    }
}
