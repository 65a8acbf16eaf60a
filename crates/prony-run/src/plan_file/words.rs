//! The words of a plan file, for reading and writing.

use prony_plan::plan::{
    AtLimit, Cookies, HttpVersion, Lost, OnFailure, Pick, Placement, RetryOn, TokenDialect,
};
use prony_plan::script::{Exhausted, PickRow};

/// Words and their meanings.
pub(super) type Words<T> = &'static [(&'static str, T)];

pub(super) const COOKIES: Words<Cookies> = &[
    ("off", Cookies::Off),
    ("session", Cookies::Session),
    ("shared", Cookies::Shared),
    ("always", Cookies::Always),
];

pub(super) const LOST: Words<Lost> =
    &[("idempotent", Lost::Idempotent), ("resend", Lost::Resend), ("fail", Lost::Fail)];

pub(super) const ON_FAILURE: Words<OnFailure> =
    &[("end", OnFailure::End), ("continue", OnFailure::Continue)];

pub(super) const AT_LIMIT: Words<AtLimit> =
    &[("fail", AtLimit::Fail), ("continue", AtLimit::Continue)];

pub(super) const RETRY_ON: Words<RetryOn> = &[
    ("status", RetryOn::Status),
    ("reply", RetryOn::Reply),
    ("timeout", RetryOn::Timeout),
    ("lost", RetryOn::Lost),
    ("connect", RetryOn::Connect),
];

pub(super) const PICK: Words<Pick> = &[("in-turn", Pick::InTurn), ("random", Pick::Random)];

pub(super) const HTTP: Words<HttpVersion> = &[
    ("1.1", HttpVersion::Http11),
    ("1.0", HttpVersion::Http10),
    ("2", HttpVersion::Http2),
    ("2-only", HttpVersion::Http2Only),
];

pub(super) const PLACEMENT: Words<Placement> =
    &[("spread", Placement::Spread), ("fill", Placement::Fill)];

pub(super) const DIALECT: Words<TokenDialect> =
    &[("openai", TokenDialect::OpenAi), ("anthropic", TokenDialect::Anthropic)];

/// How bodies are compressed.
pub(super) const COMPRESS: Words<()> = &[("gzip", ())];

pub(super) const ROWS: Words<PickRow> =
    &[("in-turn", PickRow::InTurn), ("random", PickRow::Random), ("unique", PickRow::Unique)];

pub(super) const EXHAUSTED: Words<Exhausted> =
    &[("stop", Exhausted::Stop), ("reuse", Exhausted::Reuse), ("fail", Exhausted::Fail)];

/// Whether the timeout counts from the send.
pub(super) const TIMEOUT_FROM: Words<bool> = &[("intended", false), ("send", true)];

/// The word for a value.
pub(super) fn word<T: PartialEq>(words: Words<T>, value: &T) -> &'static str {
    words.iter().find(|(_, v)| v == value).map_or("", |(word, _)| word)
}
