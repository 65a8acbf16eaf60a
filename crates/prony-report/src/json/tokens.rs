//! The figures of the replies of language models.

use prony_tally::record::Tally;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Tokens {
    token_rate: Option<f64>,
    token_rate_of_one: Option<f64>,
    tokens_per_chunk: Option<f64>,
    chunk_rate: Option<f64>,
    goodput: Option<f64>,
    good_share: Option<f64>,
}

impl Tokens {
    pub(super) fn of(tally: &Tally) -> Option<Self> {
        let tokens = tally.tokens.as_deref()?;
        let ended = tally.replies + tally.failed;
        Some(Self {
            token_rate: tally.token_rate(),
            token_rate_of_one: tally.token_rate_of_one(),
            tokens_per_chunk: tally.tokens_per_chunk(),
            chunk_rate: tally.chunk_rate(),
            goodput: tally.goodput(),
            good_share: (ended > 0).then(|| tokens.good as f64 / ended as f64),
        })
    }
}
