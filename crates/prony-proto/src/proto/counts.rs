//! What a carrier of streams counts besides exchanges.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use prony_base::grpc::{Status, shown_message, shown_text};
use prony_base::http2::frame::Code;
use prony_base::merge::{Merge, first, first_of_each, greatest, least_known};
use prony_base::units::Span;

/// The most codes that are counted separately: a peer can send any.
const CODES_MAX: usize = 32;
/// The key that counts all further ones.
const OTHER: &str = "other codes";
/// How much of the text of a GOAWAY is kept, in bytes.
const TEXT_MAX: usize = 64;

/// Events of connections with streams, and the sizes of their heads.
#[derive(Clone, Debug, Default, Merge, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamCounts {
    /// Connections that use HTTP/2.
    pub connections: u64,
    /// Connections that use HTTP/1.1, as the peer does not offer HTTP/2.
    pub fallbacks: u64,
    /// The lowest limit of concurrent streams that a peer stated; `None`: none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[merge(least_known)]
    pub limit_least: Option<u32>,
    /// The limit that was stated last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[merge(first)]
    pub limit_last: Option<u32>,
    /// The integral over the window of the number of open streams.
    #[serde(default)]
    pub open_time: Span,
    /// The most streams that were open on one connection at once.
    #[serde(default)]
    #[merge(greatest)]
    pub open_max: u32,
    /// How often a body could not continue because the client's own flow-control window was full,
    /// and for how long, until the next byte of that body arrived.
    #[serde(default)]
    pub blocked: u64,
    /// See [`blocked`](Self::blocked).
    #[serde(default)]
    pub blocked_time: Span,
    /// GOAWAY frames, by code.
    #[merge(add_counts)]
    pub goaways: BTreeMap<String, u64>,
    /// The first text that came with a GOAWAY of each code: at most 64 bytes of it, with control
    /// characters escaped.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[merge(keep_first_texts)]
    pub goaway_texts: BTreeMap<String, String>,
    /// Requests that moved to another connection because of a GOAWAY: the peer had not processed
    /// them.
    pub moved: u64,
    /// Requests that the peer refused (`REFUSED_STREAM`).
    pub refused: u64,
    /// Streams that the peer reset, by code.
    #[merge(add_counts)]
    pub resets: BTreeMap<String, u64>,
    /// Streams that were cancelled here, because of a timeout.
    pub cancelled: u64,
    /// Names and values of the fields of requests, in bytes.
    pub sent_fields: u64,
    /// Header blocks of requests as they were sent, in bytes.
    pub sent_blocks: u64,
    /// Names and values of the fields of replies, in bytes.
    pub received_fields: u64,
    /// Header blocks of replies as they arrived, in bytes.
    pub received_blocks: u64,
    /// Frames of an unknown type.
    pub unknown_frames: u64,
    /// Replies to calls of gRPC without a status of gRPC, by their status of HTTP.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[merge(add_counts)]
    pub without_status: BTreeMap<String, u64>,
    /// The first message (`grpc-message`) that came with each status other than `OK`, by its name:
    /// shortened, and with control characters escaped.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[merge(first_of_each)]
    pub grpc_messages: BTreeMap<String, String>,
}

impl StreamCounts {
    /// Whether there was nothing to count.
    pub fn is_empty(&self) -> bool {
        self.connections == 0 && self.fallbacks == 0
    }

    /// A body goes on that could not for this long.
    #[cold]
    pub(super) fn unblocked(&mut self, after: Span) {
        self.blocked += 1;
        self.blocked_time += after;
    }

    /// A peer has stated its limit.
    pub(super) fn limit(&mut self, limit: Option<u32>) {
        let Some(now) = limit else { return };
        self.limit_least = Some(self.limit_least.map_or(now, |least| least.min(now)));
        self.limit_last = limit;
    }

    #[inline]
    pub(super) fn heads_sent(&mut self, fields: u32, blocks: u32) {
        self.sent_fields += u64::from(fields);
        self.sent_blocks += u64::from(blocks);
    }

    #[inline]
    pub(super) fn head_received(&mut self, fields: u32, block: usize) {
        self.received_fields += u64::from(fields);
        self.received_blocks += block as u64;
    }

    pub(super) fn goaway(&mut self, code: Code, text: &[u8]) {
        count(&mut self.goaways, &name(code), 1);
        if !text.is_empty() {
            let text = shown_text(&text[..text.len().min(TEXT_MAX)]);
            keep_first(&mut self.goaway_texts, &name(code), &text);
        }
    }

    pub(super) fn reset(&mut self, code: Code) {
        count(&mut self.resets, &name(code), 1);
    }

    #[cold]
    pub(super) fn without_status(&mut self, http: u16) {
        count(&mut self.without_status, &http.to_string(), 1);
    }

    /// A call has ended with this status and this text of a message.
    pub(super) fn grpc_message(&mut self, status: Status, text: &[u8]) {
        if status != Status::OK && !self.grpc_messages.contains_key(status.name()) {
            self.grpc_messages.insert(status.name().to_owned(), shown_message(text));
        }
    }
}

fn count(counts: &mut BTreeMap<String, u64>, code: &str, n: u64) {
    let is_known = counts.contains_key(code) || counts.len() < CODES_MAX;
    let sum = counts.entry(if is_known { code } else { OTHER }.to_owned()).or_default();
    *sum = sum.saturating_add(n);
}

fn add_counts(all: &mut BTreeMap<String, u64>, part: &BTreeMap<String, u64>) {
    for (code, &n) in part {
        count(all, code, n);
    }
}

fn keep_first_texts(all: &mut BTreeMap<String, String>, part: &BTreeMap<String, String>) {
    for (code, text) in part {
        keep_first(all, code, text);
    }
}

/// Keep the first text of each code, if there are not too many.
fn keep_first(texts: &mut BTreeMap<String, String>, code: &str, text: &str) {
    if texts.len() < CODES_MAX && !texts.contains_key(code) {
        texts.insert(code.to_owned(), text.to_owned());
    }
}

/// The name of the code, or its number.
fn name(code: Code) -> String {
    code.name().map_or_else(|| code.0.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_the_number_of_codes_and_counts_all() {
        let mut all = StreamCounts::default();
        for code in 0..100 {
            let mut part = StreamCounts::default();
            part.reset(Code(code));
            part.goaway(Code(code), b"text");
            all.merge(&part);
        }
        assert_eq!((all.resets.len(), all.goaways.len()), (CODES_MAX + 1, CODES_MAX + 1));
        assert_eq!(all.goaway_texts.len(), CODES_MAX);
        assert_eq!(all.resets.values().sum::<u64>(), 100);
        assert_eq!(all.resets[OTHER], 68);
        assert_eq!((all.resets["CANCEL"], all.resets["20"]), (1, 1));
    }

    /// A server can send any bytes, in any number of frames.
    #[test]
    fn keeps_the_first_text_of_each_code() {
        let mut all = StreamCounts::default();
        all.goaway(Code::NO_ERROR, b"");
        all.goaway(Code::NO_ERROR, b"max_age");
        all.goaway(Code::NO_ERROR, b"another");
        all.goaway(Code::ENHANCE_YOUR_CALM, b"100%25\x1b[31m\xff");
        let mut part = StreamCounts::default();
        part.goaway(Code::NO_ERROR, b"of another worker");
        part.goaway(Code::INTERNAL_ERROR, &[b'x'; 1_000]);
        all.merge(&part);
        let texts = all.goaway_texts.iter().map(|(code, text)| (&**code, &**text));
        let long = "x".repeat(64);
        let expected = [
            ("ENHANCE_YOUR_CALM", "100%25\\u{1b}[31m\u{fffd}"),
            ("INTERNAL_ERROR", &*long),
            ("NO_ERROR", "max_age"),
        ];
        assert_eq!(texts.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn keeps_the_least_limit() {
        let mut all = StreamCounts::default();
        all.limit(None);
        assert_eq!((all.limit_least, all.limit_last), (None, None));
        for limit in [100, 5, 50] {
            let mut part = StreamCounts::default();
            part.limit(Some(limit));
            all.limit(Some(limit));
            all.merge(&part);
        }
        assert_eq!((all.limit_least, all.limit_last), (Some(5), Some(50)));
    }
}
