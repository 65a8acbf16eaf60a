//! The histogram of each kind of time.

use super::Tally;
use super::hist::Hist;
use crate::threshold::{Timed, each_time};

macro_rules! histograms {
    ($(
        $(#[$doc:meta])+
        $name:ident, $key:literal, $label:literal, $json:ident, |$t:ident| $of:expr;
    )+) => {
        impl Tally {
            /// The times of a kind; `None` where the run has no such thing, and for groups: each name
            /// has its own.
            pub fn times_of(&self, timed: Timed) -> Option<&Hist> {
                match timed {
                    $(Timed::$name => {
                        let $t = self;
                        Some($of)
                    })+
                }
            }
        }
    };
}
each_time!(histograms);
