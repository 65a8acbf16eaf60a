//! Messages in a stream, whatever protocol carries them: when each is due ([`Times`]), and which
//! reply belongs to it ([`Ledger`]). Knows nothing of bytes.

mod ledger;
mod times;

pub use ledger::{Ledger, Matched, Written};
pub use times::{Due, Times};
