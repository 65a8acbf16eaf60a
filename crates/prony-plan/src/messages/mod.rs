//! Messages in a stream, whatever protocol carries them: when each is due ([`Times`]), which reply
//! belongs to it ([`Ledger`]), and whom a broadcast has reached ([`BroadcastLog`]).

mod broadcast;
mod ledger;
mod numbering;
mod stamp;
mod times;

pub use broadcast::{BroadcastLog, Delivery, Published, Subscription};
pub use ledger::{Ledger, Matched, Written};
pub use numbering::Numbering;
pub use stamp::{STAMP_LENGTH, Stamp, StampFinder};
pub use times::{Due, Times};
