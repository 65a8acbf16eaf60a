//! Ports of the loopback address that no other test gets.

use std::net::SocketAddr;
use std::sync::Mutex;

use socket2::{Domain, Socket, Type};

/// The sockets that hold the ports, until the program ends.
static HELD: Mutex<Vec<Socket>> = Mutex::new(Vec::new());

/// A TCP port of 127.0.0.1 that refuses connections until a server of this test listens at it. It
/// is held by a socket that is bound and does not listen: the kernel gives it to nobody else, but a
/// server with `SO_REUSEADDR` can bind it.
pub(crate) fn reserved_port() -> u16 {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).expect("a port");
    // After the choice of the port, for which no other socket may have it.
    socket.set_reuse_address(true).expect("an option");
    let address = socket.local_addr().expect("an address");
    let port = address.as_socket().expect("an address of IP").port();
    HELD.lock().expect("no test failed here").push(socket);
    port
}
