//! prony-core beside independent implementations, and beside its documents.

mod fuzz;
mod hpack;
