//! prony-core beside independent implementations.

mod hpack;
