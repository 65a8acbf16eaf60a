//! HTTP/1.0 and 1.1, client side.
