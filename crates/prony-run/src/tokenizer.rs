//! The tokenizer of a plan: a file `tokenizer.json`, as of Hugging Face.

use std::sync::Arc;

use prony_plan::plan::Plan;
use prony_plan::tokenizer::CountTokens;

use crate::error::Error;

/// The tokenizer that the plan names, if it names one.
///
/// # Errors
/// The file cannot be read, or is no tokenizer; or this build has none.
pub(crate) fn of(plan: &Plan) -> Result<Option<Arc<dyn CountTokens>>, Error> {
    let tokens = plan.stream.as_deref().and_then(|stream| stream.tokens.as_ref());
    match tokens.and_then(|tokens| tokens.tokenizer.as_deref()) {
        None => Ok(None),
        Some(path) => read(path).map(Some),
    }
}

/// The same, if [`of`] has found no error.
pub(crate) fn of_checked(plan: &Plan) -> Option<Arc<dyn CountTokens>> {
    of(plan).ok().flatten()
}

#[cfg(not(feature = "tokenizer"))]
fn read(path: &str) -> Result<Arc<dyn CountTokens>, Error> {
    Err(Error::Argument(format!(
        "--tokenizer {path}: this build of prony has no tokenizers; build it with --features \
         tokenizer"
    )))
}

#[cfg(feature = "tokenizer")]
use file::read;

#[cfg(feature = "tokenizer")]
mod file;

#[cfg(test)]
mod tests {
    use prony_plan::plan::{CallSpec, Load, Stop, StreamFormat, StreamPlan, Think};
    use prony_plan::plan::{TokenDialect, TokenPlan};

    use super::*;

    fn plan(path: &str) -> Plan {
        let tokenizer = Some(path.into());
        let tokens = Some(TokenPlan { tokenizer, ..TokenPlan::new(TokenDialect::OpenAi) });
        let stream = StreamPlan { tokens, ..StreamPlan::new(StreamFormat::Sse) };
        let load = Load::Closed { connections: 1, think: Think::None };
        let plan = Plan::new(Vec::new(), vec![CallSpec::default()], load, Stop::default());
        Plan { stream: Some(Box::new(stream)), ..plan }
    }

    fn sentence(path: &str) -> String {
        of(&plan(path)).expect_err("no tokenizer").to_string()
    }

    #[cfg(not(feature = "tokenizer"))]
    #[test]
    fn a_build_without_tokenizers_says_so() {
        assert!(sentence("t.json").contains("build it with --features tokenizer"));
    }

    #[cfg(feature = "tokenizer")]
    #[test]
    fn names_files_that_are_no_tokenizers() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokenizer.json");
        let missing = sentence(path.to_str().expect("UTF-8"));
        assert!(missing.contains("cannot be read: no such file"), "{missing}");
        for text in ["{}", "", "[1]"] {
            std::fs::write(&path, text).expect("a file");
            let wrong = sentence(path.to_str().expect("UTF-8"));
            assert!(wrong.contains("this is no tokenizer.json: "), "{wrong}");
            assert_eq!(wrong.lines().count(), 1, "{wrong}");
        }
    }

    #[test]
    fn a_plan_without_tokenizer_needs_none() {
        let mut plan = plan("x");
        plan.stream = None;
        assert!(of(&plan).expect("nothing to read").is_none());
    }
}
