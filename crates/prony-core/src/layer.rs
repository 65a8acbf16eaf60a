//! Bytes to bytes: what lies between the protocol and the driver's socket. One match per batch, not
//! per request.
//!
//! Today only the plain layer exists. TLS comes as a second, boxed arm; QUIC is not a layer (HTTP/3
//! owns its datagrams).

/// The layer over which a connection speaks.
#[derive(Debug, Default)]
pub enum Layer {
    /// Bytes go through as they are.
    #[default]
    Plain,
}
