//! What a proxy replies to CONNECT.

use crate::layer::{NoTunnel, Tunnel};

/// The result of reading some bytes: how many belong to the reply that opens the tunnel, if it is
/// complete.
fn read(bytes: &[u8], length: usize) -> Result<Option<usize>, NoTunnel> {
    let mut tunnel = Tunnel::new("h:443", Some("Basic YQ=="));
    let mut before = 0;
    for piece in bytes.chunks(length.max(1)) {
        if let Some(used) = tunnel.receive(piece)? {
            assert!(used <= piece.len(), "more than has arrived");
            return Ok(Some(before + used));
        }
        before += piece.len();
    }
    Ok(None)
}

/// Fuzz target: a byte with the length of the pieces, then the bytes of the proxy. The result does
/// not depend on the pieces. A tunnel opens after a final head with a status of success, and no
/// byte of the server behind it is lost.
///
/// # Panics
/// If not.
pub fn tunnel(data: &[u8]) {
    let Some((&length, bytes)) = data.split_first() else { return };
    let whole = read(bytes, bytes.len());
    for length in [1, usize::from(length)] {
        assert_eq!(read(bytes, length), whole, "in pieces of {length} bytes");
    }
    match whole {
        Ok(Some(used)) => {
            assert!(bytes[..used].ends_with(b"\n"), "{used}");
            assert_eq!(read(&bytes[..used], used), whole, "what follows matters");
            assert_eq!(read(&bytes[..used - 1], used), Ok(None), "its last byte does not matter");
        }
        Err(NoTunnel::Status(status)) => assert!(!(200..300).contains(&status)),
        Ok(None) | Err(_) => {}
    }
}
