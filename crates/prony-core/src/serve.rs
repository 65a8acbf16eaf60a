//! The target server.
