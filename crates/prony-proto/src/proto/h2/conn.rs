//! One connection: what the two sides have agreed, what is owed to the peer, and the flow-control
//! windows.

use super::keepalive::{KEEPALIVE, Keepalive};
use super::requests::Table;
use super::streams::Streams;
use super::{Counts, Options};
use crate::proto::Sink;
use prony_base::fault::Fault;
use prony_base::http2::frame::{self, Code, Settings};
use prony_base::http2::hpack::Decoder;
use prony_base::http2::{PREFACE, STREAM_MAX, WINDOW};
use prony_base::units::RequestId;

/// How many streams may be cancelled on one connection. More would look like an attack to the peer.
pub(super) const CANCELS_MAX: usize = 1000;
/// How many acknowledgements may be owed to the peer.
pub(super) const OWED_MAX: usize = 1000;
/// How many frames without any use may follow each other.
pub(super) const IDLE_FRAMES_MAX: u32 = 1000;

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Conn {
    pub(super) streams: Streams,
    /// The ID of the next stream divided by two.
    pub(super) started: u32,
    pub(super) peer: Settings,
    /// Whether the peer has sent settings.
    pub(super) has_settings: bool,
    /// Whether the preface was sent.
    pub(super) greeted: bool,
    /// Whether the peer accepts no more streams.
    pub(super) drains: bool,
    pub(super) table: Table,
    /// A size of the dynamic table to announce in the next header block.
    pub(super) table_update: Option<u32>,
    pub(super) decoder: Decoder,
    /// How many more bytes of bodies the peer accepts.
    pub(super) send_window: i64,
    /// How many more bytes of bodies the peer may send.
    pub(super) receive_window: i64,
    /// Bytes of bodies received since the last WINDOW_UPDATE.
    pub(super) credit: u32,
    /// Streams whose body is not completely sent, in the order of their turn.
    pub(super) sending: Vec<u32>,
    /// Whether some of them may have become able to send, or have started to wait.
    pub(super) may_send: bool,
    /// Requests whose bodies could not be read from their files; their streams are reset.
    pub(super) unread: Vec<RequestId>,
    pub(super) acks: u32,
    pub(super) pongs: Vec<[u8; 8]>,
    /// Streams to reset.
    pub(super) resets: Vec<(u32, Code)>,
    /// Streams that owe a WINDOW_UPDATE.
    pub(super) credited: Vec<u32>,
    /// Streams that were reset here, or moved away, and that the peer has not ended, in ascending
    /// order: it may still send frames of them.
    pub(super) gone: Vec<u32>,
    /// How many streams were reset here.
    pub(super) cancels: usize,
    /// The DATA frame in progress.
    pub(super) data: Option<Progress>,
    /// The header block in progress.
    pub(super) block: Option<Box<Block>>,
    /// The last header blocks without effect on the table: a head, and trailers.
    pub(super) memos: [Option<Box<Memo>>; 2],
    /// Frames without any use since the last useful one.
    pub(super) idle_frames: u32,
    pub(super) keepalive: Keepalive,
    /// Why the connection is about to end.
    pub(super) error: Option<Code>,
}

/// A DATA frame of which a part has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) stream: u32,
    /// Bytes of body and of padding that have not arrived.
    pub(super) left: u32,
    pub(super) padding: u32,
    pub(super) ends: bool,
}

/// A header block that continues in the next frame.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) ends: bool,
    pub(super) frames: u32,
    pub(super) bytes: Vec<u8>,
}

/// A header block and its meaning.
#[derive(Debug, Default)]
pub(super) struct Memo {
    /// The state of the table for which this holds.
    pub(super) state: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) head: super::head::Head,
}

impl Conn {
    /// How many streams may be open now; `first` as long as the peer has stated no settings.
    #[inline]
    pub(super) fn limit(&self, first: impl FnOnce() -> u32) -> u32 {
        match self.has_settings {
            true => self.peer.streams.unwrap_or(u32::MAX),
            false => first(),
        }
    }

    /// Whether a stream with this ID was never opened.
    #[inline]
    pub(super) fn is_idle(&self, id: u32) -> bool {
        id & 1 == 0 || id >> 1 >= self.started
    }

    /// Whether all IDs are used.
    #[inline]
    pub(super) fn is_used_up(&self) -> bool {
        self.started > STREAM_MAX >> 1
    }

    /// Whether there is anything to send.
    #[inline]
    pub(super) fn owes(&self, options: &Options) -> bool {
        !self.greeted
            || self.may_send
            || self.acks > 0
            || self.credit > options.window / 2
            || self.keepalive.owes
            || !(self.pongs.is_empty() && self.resets.is_empty() && self.credited.is_empty())
    }

    /// End the connection with this code.
    pub(super) fn fails<T>(&mut self, code: Code) -> Result<T, Fault> {
        self.error = Some(code);
        Err(match code {
            Code::COMPRESSION_ERROR => Fault::BadHpack,
            Code::FLOW_CONTROL_ERROR => Fault::FlowControl,
            _ => Fault::BadHttp2,
        })
    }

    /// Reset a stream that is not in the table any more.
    pub(super) fn reset(&mut self, id: u32, code: Code) {
        self.reset_ended(id, code);
        self.is_gone(id);
    }

    /// Reset a stream that the peer has ended.
    pub(super) fn reset_ended(&mut self, id: u32, code: Code) {
        self.resets.push((id, code));
        self.cancels += 1;
    }

    /// The peer may still send frames of a stream that is not in the table any more.
    pub(super) fn is_gone(&mut self, id: u32) {
        if let Err(place) = self.gone.binary_search(&id) {
            self.gone.insert(place, id);
        }
    }

    /// The peer has ended a stream: it sends nothing more of it.
    #[inline]
    pub(super) fn peer_ended(&mut self, id: u32) {
        if !self.gone.is_empty()
            && let Ok(place) = self.gone.binary_search(&id)
        {
            self.gone.remove(place);
        }
    }

    /// After [`CANCELS_MAX`] streams that were reset here, for whatever reason, new exchanges get
    /// another connection. The others on this one go on.
    #[cold]
    pub(super) fn drain_if_cancelled_often(&mut self, sink: &mut impl Sink) {
        if self.cancels >= CANCELS_MAX {
            self.drains = true;
            sink.draining();
        }
    }

    /// Append what is owed, except for bodies.
    pub(super) fn send_frames(&mut self, options: &Options, out: &mut Vec<u8>) {
        if !self.greeted {
            self.greet(options, out);
        }
        for _ in 0..std::mem::take(&mut self.acks) {
            frame::settings_ack(out);
        }
        if std::mem::take(&mut self.keepalive.owes) {
            frame::ping(out, KEEPALIVE, false);
        }
        for data in self.pongs.drain(..) {
            frame::ping(out, data, true);
        }
        for (id, code) in self.resets.drain(..) {
            frame::rst_stream(out, id, code);
        }
        if self.credit > options.window / 2 {
            self.receive_window += i64::from(self.credit);
            frame::window_update(out, 0, std::mem::take(&mut self.credit));
        }
        for id in self.credited.drain(..) {
            if let Some(stream) = self.streams.get(id) {
                frame::window_update(out, id, std::mem::take(&mut stream.credit));
            }
        }
    }

    #[cold]
    fn greet(&mut self, options: &Options, out: &mut Vec<u8>) {
        self.greeted = true;
        out.extend_from_slice(PREFACE);
        frame::settings(out, &options.settings());
        if options.window > WINDOW {
            frame::window_update(out, 0, options.window - WINDOW);
        }
        self.receive_window = i64::from(options.window.max(WINDOW));
        self.send_window += i64::from(WINDOW);
        if options.table_size > prony_base::http2::TABLE_SIZE {
            self.decoder = Decoder::new(options.table_size);
        }
        if options.is_static {
            self.table = Table::Unused;
        }
    }

    /// Apply a SETTINGS frame.
    pub(super) fn settings(&mut self, payload: &[u8], counts: &mut Counts) -> Result<(), Fault> {
        let (old, mut new) = (self.peer, self.peer);
        let (mut table_least, mut wants_pushes) = (new.table_size, false);
        let result = new.apply(payload, |parameter, now| match parameter {
            Settings::TABLE_SIZE => table_least = table_least.min(now.table_size),
            Settings::PUSH => wants_pushes |= now.push,
            _ => {}
        });
        if let Err(code) = result {
            return self.fails(code);
        }
        // A server receives no pushes, so it may not ask for them (RFC 9113, 6.5.2).
        if wants_pushes {
            return self.fails(Code::PROTOCOL_ERROR);
        }
        self.peer = new;
        self.has_settings = true;
        let change = i64::from(new.window) - i64::from(old.window);
        if change != 0 {
            for stream in self.streams.all() {
                stream.window += change;
            }
            let most = i64::from(prony_base::http2::WINDOW_MAX);
            if self.streams.all().any(|s| s.window > most) {
                return self.fails(Code::FLOW_CONTROL_ERROR);
            }
            self.may_send |= !self.sending.is_empty();
        }
        self.table_shrinks_to(table_least);
        counts.limit(self.peer.streams);
        self.acks += 1;
        if self.acks as usize > OWED_MAX {
            return self.fails(Code::ENHANCE_YOUR_CALM);
        }
        Ok(())
    }

    /// The peer's dynamic table has at most this size.
    fn table_shrinks_to(&mut self, size: u32) {
        let least = self.table_update.unwrap_or(prony_base::http2::TABLE_SIZE);
        if size >= least {
            return;
        }
        self.table_update = Some(size);
    }

    /// Which blocks to send next: those without a table if the common fields do not fit.
    #[inline]
    pub(super) fn next_table(&mut self, common: usize) -> (Table, Option<u32>) {
        let update = self.table_update.take();
        if let Some(size) = update
            && (size as usize) < common
        {
            self.table = Table::Unused;
        }
        let now = self.table;
        if now == Table::Empty {
            self.table = Table::Warm;
        }
        (now, update)
    }
}
