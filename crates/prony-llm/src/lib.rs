//! Requests to language models: prompts from files, or drawn with a given number of tokens, and
//! traces of arrivals with numbers of tokens. `body` writes the requests in the dialects of
//! servers. Nothing here opens a socket or a file.

mod body;
mod lengths;
mod prompts;
mod text;
mod trace;

use prony_base::units::Span;
use serde_json::Value;

pub use body::{Api, Format};
pub use lengths::Lengths;
pub use prompts::{Turns, read_prompts};
pub use text::{drawn, of_trace};
pub use trace::read_trace;

/// One request to a language model.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What is asked.
    pub input: Input,
    /// The most tokens of the reply; `None`: the server decides.
    pub output: Option<u32>,
}

/// What a request asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A text.
    Text(String),
    /// The messages of a conversation, as the chat completions of OpenAI have them.
    Messages(Vec<Value>),
}

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it arrives, from the first one.
    pub at: Span,
    /// Its tokens.
    pub input: u32,
    /// The tokens of its reply.
    pub output: u32,
}
