//! The round-trip tests of ACE: against what the real programs were seen to print and send, against
//! each other, and against peers that do not behave.

mod program;
mod sctp;
mod tcp;
mod transcripts;
