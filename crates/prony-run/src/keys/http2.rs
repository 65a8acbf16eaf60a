//! The keys of HTTP/2.

use prony_core::http2::{FRAME_SIZE, FRAME_SIZE_MAX, WINDOW_MAX};
use prony_core::plan::Http2Spec;

use super::{Field, Key, Keyed};

impl Keyed for Http2Spec {
    const KEYS: &'static [Key<Self>] = &[
        Key {
            option: "--window",
            value: "SIZE",
            help: "Flow-control window of each stream and of the connection, in bytes [default: 1g]",
            more: None,
            field: Field::Size(
                |spec| &mut spec.window,
                1..=WINDOW_MAX,
                "a window has 1 to 2147483647 bytes",
            ),
        },
        Key {
            option: "--header-table-size",
            value: "SIZE",
            help: "Size of the table for the header fields of replies, in bytes; 0: none [default: 4k]",
            more: None,
            field: Field::Size(
                |spec| &mut spec.table_size,
                0..=1 << 20,
                "the table may have at most 1m",
            ),
        },
        Key {
            option: "--max-frame-size",
            value: "SIZE",
            help: "Largest frame that the server may send, in bytes [default: 16k]",
            more: None,
            field: Field::Size(
                |spec| &mut spec.frame_size,
                FRAME_SIZE..=FRAME_SIZE_MAX,
                "the largest frame has 16384 to 16777215 bytes",
            ),
        },
        Key {
            option: "--wait-settings",
            value: "",
            help: "Send requests only when the server's settings have arrived",
            more: Some(
                "By default the first requests go out with the client's own settings, before the \
                 server's limit of streams is known.",
            ),
            field: Field::Flag(|spec| &mut spec.wait_settings),
        },
        Key {
            option: "--hpack",
            value: "HOW",
            help: "Header compression: warm, or static (no use of the server's table) [default: warm]",
            more: None,
            field: Field::Choice(|spec| &mut spec.is_static, [("warm", false), ("static", true)]),
        },
        Key {
            option: "--retry-refused",
            value: "",
            help: "Send requests again whose streams the server refuses, up to 16 times",
            more: Some(
                "They keep their intended start. By default they fail, as other clients show it to \
                 users.",
            ),
            field: Field::Flag(|spec| &mut spec.retry_refused),
        },
        Key {
            option: "--keepalive",
            value: "T",
            help: "Check each connection with a ping at this interval [default: never]",
            more: Some("A connection whose server does not answer until the next ping is closed."),
            field: Field::Time(|spec| &mut spec.keepalive),
        },
    ];
}
