//! The keys of HTTP/2.

use prony_base::http2::{FRAME_SIZE, FRAME_SIZE_MAX, WINDOW_MAX};
use prony_plan::plan::Http2Spec;

use super::{Key, Keyed};

type Row = Key<Http2Spec>;

impl Keyed for Http2Spec {
    const KEYS: &'static [Row] = &[
        Row::size(
            "--window",
            "Flow-control window of each stream and of the connection, in bytes [default: 1g]",
            |spec| &mut spec.window,
            1..=WINDOW_MAX,
            "a window has 1 to 2147483647 bytes",
        ),
        Row::size(
            "--header-table-size",
            "Size of the table for the header fields of replies, in bytes; 0: none [default: 4k]",
            |spec| &mut spec.table_size,
            0..=1 << 20,
            "the table may have at most 1m",
        ),
        Row::size(
            "--max-frame-size",
            "Largest frame that the server may send, in bytes [default: 16k]",
            |spec| &mut spec.frame_size,
            FRAME_SIZE..=FRAME_SIZE_MAX,
            "the largest frame has 16384 to 16777215 bytes",
        ),
        Row::flag(
            "--wait-settings",
            "Send requests only when the server's settings have arrived",
            |spec| &mut spec.wait_settings,
        )
        .more(
            "By default the first requests go out with the client's own settings, before the \
             server's limit of streams is known.",
        ),
        Row::word(
            "--hpack",
            "HOW",
            "Header compression: warm, or static (no use of the server's table) [default: warm]",
            &[("warm", |spec| spec.is_static = false), ("static", |spec| spec.is_static = true)],
        ),
        Row::flag(
            "--retry-refused",
            "Send requests again whose streams the server refuses, up to 16 times",
            |spec| &mut spec.retry_refused,
        )
        .more(
            "They keep their intended start. By default they fail, as other clients show it to \
             users.",
        ),
        Row::time(
            "--keepalive",
            "Check each connection with a ping at this interval [default: never]",
            |spec| &mut spec.keepalive,
        )
        .more("A connection whose server does not answer until the next ping is closed."),
    ];
}
