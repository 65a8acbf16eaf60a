//! The round-trip tests of ACE: compared with recorded output and traffic of the original programs,
//! with each other, and with faulty peers.

mod program;
mod sctp;
mod tcp;
mod transcripts;
