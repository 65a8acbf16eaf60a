//! Streams of tokens: the replies of language models.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use prony_base::units::Span;

/// How the messages of replies are read as those of a language model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenPlan {
    /// What messages look like.
    pub dialect: TokenDialect,
    /// The limits that a good reply keeps: all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slo: Vec<TokenLimit>,
    /// The file of the tokenizer that counts the tokens of replies which do not say how many they
    /// have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<Box<str>>,
}

/// What the messages of a model look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenDialect {
    /// Chat completions and completions of OpenAI.
    #[serde(rename = "openai")]
    OpenAi,
    /// The events of Anthropic's messages.
    Anthropic,
}

/// A limit for one time of each reply, as text `ttft < 300ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenLimit {
    /// The time.
    pub time: TokenTime,
    /// It must be below this.
    pub limit: Span,
}

/// A time of one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenTime {
    /// From the intended start to the first output.
    Ttft,
    /// The mean time between its tokens.
    Itl,
    /// From the intended start to its end.
    Response,
}

const TIMES: [(&str, TokenTime); 3] =
    [("ttft", TokenTime::Ttft), ("itl", TokenTime::Itl), ("response", TokenTime::Response)];

impl FromStr for TokenLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            format!(
                "'{}' is not a limit: write ttft, itl or response, '<' and a time, as in \
                 'ttft < 300ms'",
                text.trim().escape_debug()
            )
        };
        let (name, limit) = text.split_once('<').ok_or_else(form)?;
        let time = TIMES.iter().find(|(known, _)| *known == name.trim()).ok_or_else(form)?.1;
        let limit: Span = limit.trim().parse().map_err(|_| form())?;
        if limit == Span::ZERO {
            return Err(form());
        }
        Ok(Self { time, limit })
    }
}

impl fmt::Display for TokenLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = TIMES.iter().find(|(_, time)| *time == self.time).map_or("", |(name, _)| name);
        write!(f, "{name} < {}", self.limit)
    }
}

impl TryFrom<String> for TokenLimit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<TokenLimit> for String {
    fn from(limit: TokenLimit) -> Self {
        limit.to_string()
    }
}

impl TokenPlan {
    /// Replies in this dialect, without limits.
    pub fn new(dialect: TokenDialect) -> Self {
        Self { dialect, slo: Vec::new(), tokenizer: None }
    }

    /// Limits as text, separated by commas.
    ///
    /// # Errors
    /// One sentence about the first invalid one.
    pub fn parse_slo(text: &str) -> Result<Vec<TokenLimit>, String> {
        let limits: Vec<TokenLimit> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        check_slo(&limits)?;
        Ok(limits)
    }
}

/// Each time has one limit at most.
pub(super) fn check_slo(limits: &[TokenLimit]) -> Result<(), String> {
    for (i, one) in limits.iter().enumerate() {
        if let Some(other) = limits[..i].iter().find(|other| other.time == one.time) {
            return Err(format!("'{other}' and '{one}' limit the same time; keep one of them"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_they_are_written() {
        let limits = TokenPlan::parse_slo("ttft<300ms, itl < 50ms,response < 20s").expect("limits");
        let again: Vec<String> = limits.iter().map(ToString::to_string).collect();
        assert_eq!(again, ["ttft < 300ms", "itl < 50ms", "response < 20s"]);
        assert_eq!(limits[1], TokenLimit { time: TokenTime::Itl, limit: Span::from_millis(50) });
        for wrong in ["", "ttft", "ttft > 3ms", "p99 < 1ms", "itl < x", "itl < 0s", "itl <= 1ms"] {
            assert!(TokenPlan::parse_slo(wrong).is_err(), "{wrong}");
        }
        let twice = TokenPlan::parse_slo("itl < 1ms, itl < 2ms").expect_err("twice");
        assert_eq!(twice, "'itl < 1ms' and 'itl < 2ms' limit the same time; keep one of them");
    }
}
