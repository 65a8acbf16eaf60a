//! The client: schedule -> connection -> protocol -> record.
