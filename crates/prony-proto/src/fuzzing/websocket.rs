//! Messages of WebSocket: any split of the bytes has the same messages, and they can be written.

use prony_base::websocket::{Event, Frame, Kind, Opcode, Reader, Role, Violation};

/// The longest message, so that streams can exceed it.
const MOST: u64 = u16::MAX as u64;

/// The messages of a stream, as frames that a server could send; and its end: the bytes that the
/// reader left, or the violation.
type Found = (Vec<u8>, Result<usize, Violation>);

/// The stream of the fuzz target `websocket`: the first byte chooses the side and whether messages
/// may be compressed, the second the length of the pieces; the rest is what the peer sends.
///
/// # Panics
/// If a guarantee is violated.
pub fn websocket(data: &[u8]) {
    let [side, cut, bytes @ ..] = data else { return };
    let role = if side % 2 == 0 { Role::Client } else { Role::Server };
    let deflates = side & 2 != 0;
    let whole = read(role, deflates, bytes, bytes.len());
    assert_eq!(read(role, deflates, bytes, usize::from(*cut)), whole);
    assert_eq!(read(role, deflates, bytes, 1), whole);
    assert!(deflates || whole.0.len() <= bytes.len());
    // What was found is valid, and is found again.
    let again = read(Role::Client, false, &whole.0, whole.0.len());
    assert_eq!(again, (whole.0, Ok(0)));
}

fn read(role: Role, deflates: bool, bytes: &[u8], cut: usize) -> Found {
    let (mut reader, mut kept, mut out) = (Reader::new(role, MOST), Vec::new(), Vec::new());
    if deflates {
        reader.accept_compressed(bytes.len().is_multiple_of(2));
    }
    let mut open: Option<(Opcode, Vec<u8>)> = None;
    for piece in bytes.chunks(cut.max(1)) {
        kept.extend_from_slice(piece);
        let used = reader.read(&kept, |event| match event {
            Event::Start(kind) => {
                let opcode = if kind == Kind::Text { Opcode::Text } else { Opcode::Binary };
                assert!(open.replace((opcode, Vec::new())).is_none());
            }
            Event::Piece(piece) => open.as_mut().expect("it started").1.extend_from_slice(piece),
            Event::End(length) => {
                let (opcode, bytes) = open.take().expect("it started");
                assert!(bytes.len() as u64 == length && length <= MOST);
                write(opcode, &bytes, &mut out);
            }
            Event::Ping(bytes) => write(Opcode::Ping, bytes, &mut out),
            Event::Pong(bytes) => write(Opcode::Pong, bytes, &mut out),
            Event::Close(close) => close.write_answer(None, &mut out),
        });
        match used {
            Ok(used) => drop(kept.drain(..used)),
            Err(violation) => return (out, Err(violation)),
        }
        assert!(kept.len() <= 131, "an incomplete head or control frame is shorter");
    }
    (out, Ok(kept.len()))
}

fn write(opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) {
    Frame { opcode, is_final: true, mask: None }.write(payload, out);
}
