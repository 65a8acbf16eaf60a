//! The histogram of each kind of time, and the value of each number.

use prony_plan::{each_number, each_time};

use super::Tally;
use super::hist::Hist;
use prony_plan::threshold::{Scalar, Timed};

macro_rules! histograms {
    ($(
        $(#[$doc:meta])+
        $name:ident, $key:literal, $label:literal, $json:ident, |$t:ident| $of:expr;
    )+) => {
        impl Tally {
            /// The times of a kind; `None` where the run has no such thing, and for groups: each
            /// name has its own.
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

macro_rules! values {
    ($(
        $(#[$doc:meta])+
        $name:ident, $key:literal, $label:literal, $unit:ident, $distorted:ident,
            |$t:pat_param| $of:expr;
    )+) => {
        impl Tally {
            /// A figure that is one number: times in nanoseconds, shares of 1. `None` where the run
            /// has no such thing, and for those that are no matter of the tally.
            pub fn number(&self, scalar: Scalar) -> Option<f64> {
                match scalar {
                    $(Scalar::$name => {
                        let $t = self;
                        $of
                    })+
                }
            }
        }
    };
}
each_number!(values);
