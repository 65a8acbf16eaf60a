//! Writing a machine's output to the kernel.

use prony_base::machine::Machine;
use prony_base::units::{ConnId, Nanos};

use crate::net::socket::Written;

/// The result of writing out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// The machine has no more output.
    Done,
    /// The machine has more output, and the socket has room.
    More,
    /// The socket's buffer is full.
    Full,
    /// The connection is dead: the errno.
    Dead(i32),
}

/// Write the connection's output until the kernel takes no more.
#[inline]
pub(crate) fn write_out(
    m: &mut dyn Machine,
    id: ConnId,
    now: Nanos,
    write: impl Fn(&[u8]) -> Written,
) -> WriteOutcome {
    let mut outcome = WriteOutcome::Done;
    let all = m.take_output(id, now, &mut |piece| {
        let WriteOutcome::Done = outcome else { return 0 };
        if piece.is_empty() {
            return 0;
        }
        match write(piece) {
            Written::Taken(n) => {
                if n < piece.len() {
                    outcome = WriteOutcome::Full;
                }
                n
            }
            Written::Full => {
                outcome = WriteOutcome::Full;
                0
            }
            Written::Dead(e) => {
                outcome = WriteOutcome::Dead(e);
                0
            }
        }
    });
    if all || !matches!(outcome, WriteOutcome::Done) { outcome } else { WriteOutcome::More }
}
