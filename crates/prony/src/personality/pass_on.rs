//! For protocols and sinks that stand around others: the methods in which they only hand on, and
//! those in which a protocol only puts a sink of its own in between.

/// A wrapper has all methods of its trait, and a default would silently take the place of the inner
/// one's: each such `impl` has `#[deny(clippy::missing_trait_methods)]`.
///
/// Within `impl ReplySink` or `impl Protocol`: these methods are those of that field. `through` a
/// sink: that stands around the given one, and shares a field with the protocol.
macro_rules! pass_on {
    ($to:ident: $($method:ident)*) => { $(pass_on!(@ $method $to);)* };
    ($to:ident through $sink:ident($shared:ident): decode end) => {
        fn decode(
            &mut self,
            conn: &mut Self::Conn,
            data: &[u8],
            sink: &mut impl ReplySink,
        ) -> Result<usize, Fault> {
            self.$to.decode(conn, data, &mut $sink { sink, $shared: self.$shared })
        }

        fn end(
            &mut self,
            conn: &mut Self::Conn,
            left: &[u8],
            sink: &mut impl ReplySink,
        ) -> Result<(), Fault> {
            self.$to.end(conn, left, &mut $sink { sink, $shared: self.$shared })
        }
    };
    (@ awaited $to:ident) => {
        fn awaited(&self) -> Option<u32> {
            self.$to.awaited()
        }
    };
    (@ outstanding $to:ident) => {
        fn outstanding(&self) -> u32 {
            self.$to.outstanding()
        }
    };
    (@ began $to:ident) => {
        fn began(&mut self) {
            self.$to.began();
        }
    };
    (@ wants_headers $to:ident) => {
        fn wants_headers(&self) -> bool {
            self.$to.wants_headers()
        }
    };
    (@ header $to:ident) => {
        fn header(&mut self, name: &[u8], value: &[u8]) {
            self.$to.header(name, value);
        }
    };
    (@ wants_body $to:ident) => {
        fn wants_body(&self) -> bool {
            self.$to.wants_body()
        }
    };
    (@ body $to:ident) => {
        fn body(&mut self, piece: &[u8]) {
            self.$to.body(piece);
        }
    };
    (@ room $to:ident) => {
        fn room(&self, conn: &Self::Conn, in_flight: u32, limit: u32) -> u32 {
            self.$to.room(conn, in_flight, limit)
        }
    };
    (@ encode $to:ident) => {
        fn encode(&mut self, conn: &mut Self::Conn, call: u32, last: bool, out: &mut Vec<u8>) {
            self.$to.encode(conn, call, last, out);
        }
    };
    (@ encode_filled $to:ident) => {
        fn encode_filled(
            &mut self,
            conn: &mut Self::Conn,
            call: u32,
            filled: &prony_core::script::Filled,
            last: bool,
            out: &mut Vec<u8>,
        ) {
            self.$to.encode_filled(conn, call, filled, last, out);
        }
    };
    (@ reply_to $to:ident) => {
        fn reply_to(&mut self, position: u32, reply: Reply) {
            self.$to.reply_to(position, reply);
        }
    };
    (@ odd $to:ident) => {
        fn odd(&mut self, what: prony_core::proto::Odd) {
            self.$to.odd(what);
        }
    };
    (@ greets $to:ident) => {
        fn greets(&self) -> bool {
            self.$to.greets()
        }
    };
    (@ greet $to:ident) => {
        fn greet(
            &mut self,
            conn: &mut Self::Conn,
            out: &mut Vec<u8>,
            ends: &mut Vec<usize>,
        ) -> prony_core::proto::Greeting {
            self.$to.greet(conn, out, ends)
        }
    };
    (@ greeted $to:ident) => {
        fn greeted(&mut self, conn: &mut Self::Conn, data: &[u8]) -> Result<usize, Fault> {
            self.$to.greeted(conn, data)
        }
    };
    (@ greets_again $to:ident) => {
        fn greets_again(&mut self, conn: &mut Self::Conn) -> bool {
            self.$to.greets_again(conn)
        }
    };
    (@ one_by_one $to:ident) => {
        fn one_by_one(&self) -> bool {
            self.$to.one_by_one()
        }
    };
    (@ is_lossy $to:ident) => {
        fn is_lossy(&self) -> bool {
            self.$to.is_lossy()
        }
    };
    (@ gave_up $to:ident) => {
        fn gave_up(&mut self, conn: &mut Self::Conn, position: u32) {
            self.$to.gave_up(conn, position);
        }
    };
    (@ deadline $to:ident) => {
        fn deadline(&self, conn: &Self::Conn) -> Option<prony_core::units::Nanos> {
            self.$to.deadline(conn)
        }
    };
}
pub(super) use pass_on;
