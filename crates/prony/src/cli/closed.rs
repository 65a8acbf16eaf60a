//! The options of closed loops alone.

use clap::Args;
use prony_base::units::Span;
use prony_plan::plan::Think;
use prony_run::error::Error;

use super::{LOAD, values};

/// When the users of a closed loop start, and what they do between two requests.
#[derive(Clone, Debug, Default, Args)]
pub struct ClosedArgs {
    /// Think time after each reply: 50ms, exp:50ms, uniform:1ms:9ms [default: none]
    ///
    /// Only for closed loops.
    #[arg(long, value_name = "T", help_heading = LOAD, value_parser = values::think)]
    pub think: Option<Think>,
    /// Start the users of a closed loop one after the other, evenly over this time [default: none]
    ///
    /// With -c 100 --ramp-up 60s, the first user starts at once, and another one every 0.6 s.
    /// Without it, all start at once. With --warmup of the same length, only the complete load is
    /// measured.
    #[arg(long, value_name = "T", help_heading = LOAD, value_parser = values::span)]
    pub ramp_up: Option<Span>,
}

impl ClosedArgs {
    /// Refuses these options in an open loop, which the option `open` makes.
    ///
    /// # Errors
    /// There is one of them.
    pub(super) fn check_open(&self, open: &'static str) -> Result<(), Error> {
        if self.think.is_some() {
            let why = "an open loop does not wait for replies; omit one of them";
            return Err(Error::Conflict("--think", open, why));
        }
        if self.ramp_up.is_some() {
            let why = "an open loop has no users; a ramp of its rate is --rate 1..20k@60s";
            return Err(Error::Conflict("--ramp-up", open, why));
        }
        Ok(())
    }
}
