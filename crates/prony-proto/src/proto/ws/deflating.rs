//! Compressed messages.

use prony_base::websocket::{Deflater, Frame};
use prony_plan::plan::Plan;

/// How messages are compressed.
#[derive(Debug)]
pub(super) struct Deflating {
    deflater: Deflater,
    /// The message of each call, compressed.
    messages: Vec<Vec<u8>>,
}

impl Deflating {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut deflater = Deflater::default();
        let messages =
            plan.calls.iter().map(|call| deflater.compress(&call.body).to_vec()).collect();
        Self { deflater, messages }
    }

    /// Write a message.
    pub(super) fn write(&mut self, message: &[u8], frame: &Frame, out: &mut Vec<u8>) {
        frame.write_compressed(self.deflater.compress(message), out);
    }

    /// Write the message of a call, which is the same each time.
    pub(super) fn write_known(&self, call: u32, frame: &Frame, out: &mut Vec<u8>) {
        frame.write_compressed(&self.messages[call as usize], out);
    }
}
