//! What the two sides of a connection have agreed, as its server sees it: the flow-control windows
//! and the limit of streams. It panics if the client exceeds one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use prony_base::http2::frame::{HEADER, Head, Settings, flag, kind};
use prony_base::http2::{WINDOW, WINDOW_MAX};

/// A connection's windows, in bytes, and its open streams.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The settings of each frame that is not acknowledged: a window, a limit of streams.
    asked: VecDeque<(Option<u32>, Option<u32>)>,
    /// The window of new streams, and the limit of streams.
    initial: u32,
    limit: Option<u32>,
    /// What the client may still send, on all streams and on each one that it has opened.
    to_server: i64,
    streams: BTreeMap<u32, i64>,
    /// The streams that neither side has ended.
    open: BTreeSet<u32>,
    /// The same for the server, which may break the rules.
    to_client: i64,
    client_initial: u32,
    client_streams: BTreeMap<u32, i64>,
    /// Whether the server has sent settings.
    pub(super) has_greeted: bool,
    /// Whether the server sent something that is no sequence of frames.
    is_lost: bool,
}

impl Default for Ledger {
    fn default() -> Self {
        let window = i64::from(WINDOW);
        Self {
            asked: VecDeque::new(),
            initial: WINDOW,
            limit: None,
            to_server: window,
            streams: BTreeMap::new(),
            open: BTreeSet::new(),
            to_client: window,
            client_initial: WINDOW,
            client_streams: BTreeMap::new(),
            has_greeted: false,
            is_lost: false,
        }
    }
}

impl Ledger {
    /// The server sends these bytes.
    pub(super) fn sends(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(head) = Head::read(rest) {
            let end = HEADER + head.length as usize;
            let Some(payload) = rest.get(HEADER..end) else { break };
            self.sends_frame(head, payload);
            rest = &rest[end..];
        }
        self.is_lost |= !rest.is_empty();
    }

    fn sends_frame(&mut self, head: Head, payload: &[u8]) {
        match head.kind {
            kind::SETTINGS if !head.has(flag::ACK) => {
                self.has_greeted = true;
                let mut settings = Settings::default();
                let (mut window, mut limit) = (None, None);
                let valid = settings.apply(payload, |parameter, now| match parameter {
                    Settings::WINDOW => window = Some(now.window),
                    Settings::STREAMS => limit = now.streams,
                    _ => {}
                });
                if valid.is_ok() {
                    self.asked.push_back((window, limit));
                }
            }
            kind::WINDOW_UPDATE if payload.len() == 4 => {
                let more = u32::from_be_bytes(payload.try_into().expect("four")) & WINDOW_MAX;
                match head.stream {
                    0 => self.to_server += i64::from(more),
                    stream => {
                        if let Some(window) = self.streams.get_mut(&stream) {
                            *window += i64::from(more);
                        }
                    }
                }
            }
            kind::DATA => {
                self.to_client -= i64::from(head.length);
                if let Some(window) = self.client_streams.get_mut(&head.stream) {
                    *window -= i64::from(head.length);
                }
            }
            _ => {}
        }
        let may_end = matches!(head.kind, kind::DATA | kind::HEADERS);
        if head.kind == kind::RST_STREAM || (may_end && head.has(flag::END_STREAM)) {
            self.open.remove(&head.stream);
        }
    }

    /// The client opens a stream.
    pub(super) fn opens(&mut self, stream: u32) {
        self.streams.insert(stream, i64::from(self.initial));
        self.client_streams.insert(stream, i64::from(self.client_initial));
        self.open.insert(stream);
        let (open, limit) = (self.open.len(), self.limit.map_or(usize::MAX, |n| n as usize));
        assert!(open <= limit || self.is_lost, "{open} streams are open, the limit is {limit}");
    }

    /// The client has reset a stream.
    pub(super) fn reset(&mut self, stream: u32) {
        self.open.remove(&stream);
    }

    /// The client acknowledges the oldest settings: they hold from here on.
    pub(super) fn acknowledged(&mut self) {
        let Some((window, limit)) = self.asked.pop_front() else {
            assert!(self.is_lost, "an acknowledgement without settings");
            return;
        };
        if let Some(window) = window {
            let more = i64::from(window) - i64::from(self.initial);
            self.initial = window;
            self.streams.values_mut().for_each(|left| *left += more);
        }
        self.limit = limit.or(self.limit);
    }

    /// The client sends a DATA frame.
    pub(super) fn received(&mut self, stream: u32, length: u32) {
        self.to_server -= i64::from(length);
        let window = self.streams.get_mut(&stream).expect("an open stream");
        *window -= i64::from(length);
        if self.is_lost || length == 0 {
            return;
        }
        assert!(*window >= 0, "{} bytes over the window of stream {stream}", -*window);
        assert!(self.to_server >= 0, "{} bytes over the window", -self.to_server);
    }

    /// The client's own settings.
    pub(super) fn settings(&mut self, payload: &[u8]) {
        let mut settings = Settings { window: self.client_initial, ..Settings::default() };
        settings.apply(payload, |_, _| {}).expect("valid settings");
        assert!(!settings.push, "a client that forbids pushes");
        self.client_initial = settings.window;
    }

    /// The client lets the server send more.
    pub(super) fn update(&mut self, stream: u32, more: u32) {
        assert!(more > 0, "a window grows");
        let window = match stream {
            0 => Some(&mut self.to_client),
            _ => self.client_streams.get_mut(&stream),
        };
        let window = window.expect("the window of a stream that was opened");
        *window += i64::from(more);
        assert!(*window <= i64::from(WINDOW_MAX), "a window of {window} bytes");
    }
}
