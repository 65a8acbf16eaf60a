//! A reverse proxy that passes on what clients do, and records it.
//!
//! `proxy` has the sockets: a thread for each connection of a client, and a connection to the
//! target that belongs to it alone. `pair` is such a pair without sockets: it replaces the value of
//! `Host`, passes all other bytes on as they are, and observes the exchanges in them (`head`,
//! `framing`). `log` keeps them, `sessions` finds out which belong together, and `archive` makes an
//! HTTP archive of them, of which prony-import makes a plan.

mod archive;
mod framing;
mod head;
mod log;
mod pair;
mod proxy;
mod sessions;
mod wire;

pub use archive::{Facts, Site, archive, facts};
pub use head::{Header, ReplyHead, RequestHead};
pub use log::{
    BODIES_LIMIT, Body, Counts, Ended, Exchange, HEADS_LIMIT, Log, REPLY_LIMIT, REQUEST_LIMIT,
    Reply,
};
pub use proxy::{Target, run};
pub use sessions::By;
