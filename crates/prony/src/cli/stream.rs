//! Options of streams in the bodies of replies.

use prony_plan::plan::StreamPlan;

use super::STREAMS;
use super::keyed::{Given, Headed};

impl Headed for StreamPlan {
    const HEADING: &'static str = STREAMS;
}

impl Given<StreamPlan> {
    /// The part of the plan; all options need `--stream`.
    pub(crate) fn plan(&self) -> Option<Box<StreamPlan>> {
        (!self.options.is_empty()).then(|| Box::new(self.part.clone()))
    }
}
