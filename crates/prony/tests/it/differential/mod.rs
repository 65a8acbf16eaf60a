//! What a program sends, beside what prony sends for the same input: byte for byte, at a server
//! that keeps what arrives.

mod curl;
mod curl_lines;
mod har;
mod literal;
pub(crate) mod logger;
mod openapi;
mod postman;
pub(crate) mod request;
