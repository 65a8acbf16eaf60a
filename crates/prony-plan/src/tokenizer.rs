//! What counts the tokens of a text: a trait. Tokenizers are outside of this crate.

use std::fmt;
use std::sync::Arc;

use crate::plan::Plan;

/// Counts the tokens of the replies that do not say how many they have. Called after the load.
pub trait CountTokens: fmt::Debug + Send + Sync {
    /// How many tokens the text has, without those that only mark its start and end; `None` if the
    /// tokenizer cannot read it.
    fn count(&self, text: &str) -> Option<u32>;
}

/// Returns the tokenizer that a plan names, if it names one.
pub type Tokenizers = fn(&Plan) -> Option<Arc<dyn CountTokens>>;
