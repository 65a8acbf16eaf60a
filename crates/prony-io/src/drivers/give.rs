//! Giving the kernel what a machine has to send.

use prony_core::machine::Machine;
use prony_core::units::{ConnId, Nanos};

use crate::net::socket::Written;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// There is nothing more to send.
    All,
    /// There is more, and room for it.
    Some,
    /// The kernel has no room.
    Full,
    /// Nothing can be sent any more: the errno.
    Dead(i32),
}

/// Give the kernel what the connection has to send, until it takes no more of it.
#[inline]
pub(crate) fn give(
    m: &mut dyn Machine,
    id: ConnId,
    now: Nanos,
    write: impl Fn(&[u8]) -> Written,
) -> Given {
    let mut given = Given::All;
    let all = m.take_output(id, now, &mut |piece| {
        let Given::All = given else { return 0 };
        if piece.is_empty() {
            return 0;
        }
        match write(piece) {
            Written::Taken(n) => {
                if n < piece.len() {
                    given = Given::Full;
                }
                n
            }
            Written::Full => {
                given = Given::Full;
                0
            }
            Written::Dead(e) => {
                given = Given::Dead(e);
                0
            }
        }
    });
    if all || !matches!(given, Given::All) { given } else { Given::Some }
}
