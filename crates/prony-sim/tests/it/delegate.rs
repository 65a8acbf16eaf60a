//! A macro for machines that wrap another machine and forward some of the methods to it.

/// Within `impl Machine`: forward these methods to this field.
macro_rules! delegate {
    ($to:ident: $($method:ident)*) => { $(delegate!(@ $method $to);)* };
    (@ on_connected $to:ident) => {
        fn on_connected(&mut self, id: prony_base::units::ConnId, now: Nanos) {
            self.$to.on_connected(id, now);
        }
    };
    (@ on_recv $to:ident) => {
        fn on_recv(&mut self, id: prony_base::units::ConnId, data: &mut [u8], now: Nanos) {
            self.$to.on_recv(id, data, now);
        }
    };
    (@ on_closed $to:ident) => {
        fn on_closed(
            &mut self,
            id: prony_base::units::ConnId,
            why: Option<prony_base::fault::Fault>,
            now: Nanos,
        ) {
            self.$to.on_closed(id, why, now);
        }
    };
    (@ on_tick $to:ident) => {
        fn on_tick(&mut self, now: Nanos) {
            self.$to.on_tick(now);
        }
    };
    (@ on_turn $to:ident) => {
        fn on_turn(&mut self, now: Nanos) {
            self.$to.on_turn(now);
        }
    };
    (@ on_stop $to:ident) => {
        fn on_stop(&mut self, how: prony_base::machine::StopRequest, now: Nanos) {
            self.$to.on_stop(how, now);
        }
    };
    (@ poll_action $to:ident) => {
        fn poll_action(&mut self) -> Option<prony_base::machine::Action> {
            self.$to.poll_action()
        }
    };
    (@ take_output $to:ident) => {
        fn take_output(
            &mut self,
            id: prony_base::units::ConnId,
            now: Nanos,
            send: &mut dyn FnMut(&[u8]) -> usize,
        ) -> bool {
            self.$to.take_output(id, now, send)
        }
    };
    (@ deadline $to:ident) => {
        fn deadline(&self) -> Option<Nanos> {
            self.$to.deadline()
        }
    };
}
pub(crate) use delegate;
