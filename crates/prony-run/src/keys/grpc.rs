//! The keys of gRPC, but for methods and schemas.

use super::{Key, Keyed};
use crate::grpc::GrpcDraft;

type Row = Key<GrpcDraft>;

impl Keyed for GrpcDraft {
    const KEYS: &'static [Row] = &[
        Row::time(
            "--grpc-timeout",
            "Timeout that calls announce to the server (grpc-timeout) [default: none]",
            |draft| &mut draft.timeout,
        )
        .key("timeout"),
        Row::word(
            "--grpc-timeout-from",
            "FROM",
            "Where --grpc-timeout counts from: send or intended (start of the call)",
            &[
                ("send", |draft| draft.timeout_from_intended = false),
                ("intended", |draft| draft.timeout_from_intended = true),
            ],
        )
        .key("timeout-from")
        .listed("send")
        .needs("grpc-timeout")
        .more(
            "With intended, the server is given what is left of the timeout when the call is \
             sent.",
        ),
        Row::word(
            "--grpc-encoding",
            "ENCODING",
            "How messages are compressed: gzip or identity (not compressed)",
            &[("identity", |draft| draft.gzip = false), ("gzip", |draft| draft.gzip = true)],
        )
        .key("encoding")
        .listed("identity")
        .more(
            "With gzip, prony announces that replies may be compressed, too. Bytes are counted as \
             they are sent and received; expectations and extracts see the messages before \
             compression.",
        ),
    ];
}
