//! The first line of a request, from its bytes as they are sent.

use std::collections::BTreeMap;

use prony_base::http2::frame::{HEADER, Head, flag, kind, unpadded};
use prony_base::http2::hpack::Decoder;
use prony_base::units::ConnId;

/// The longest list of headers that is read, in bytes.
const LIST_MAX: usize = 1 << 20;

/// Reads the first lines of the requests of all connections.
#[derive(Default)]
pub(super) struct Lines {
    /// The tables of connections with HTTP/2.
    tables: BTreeMap<ConnId, Decoder>,
}

impl Lines {
    /// The method, the target and the version of a request that starts with these bytes; `None` if
    /// they are none of HTTP.
    pub(super) fn read(&mut self, conn: ConnId, bytes: &[u8]) -> Option<String> {
        line_of_http1(bytes).or_else(|| self.line_of_http2(conn, bytes))
    }

    /// The connection is closed.
    pub(super) fn closed(&mut self, conn: ConnId) {
        self.tables.remove(&conn);
    }

    fn line_of_http2(&mut self, conn: ConnId, bytes: &[u8]) -> Option<String> {
        let block = header_block(bytes)?;
        let table = self.tables.entry(conn).or_default();
        let [mut method, mut path] = [String::new(), String::new()];
        let read = table.decode(&block, LIST_MAX, |name, value| {
            let text = match name {
                b":method" => &mut method,
                b":path" => &mut path,
                _ => return,
            };
            *text = String::from_utf8_lossy(value).into_owned();
        });
        read.ok().filter(|()| !method.is_empty()).map(|()| format!("{method} {path} HTTP/2"))
    }
}

fn line_of_http1(bytes: &[u8]) -> Option<String> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let line = std::str::from_utf8(&bytes[..end]).ok()?;
    let version = line.rsplit(' ').next()?;
    version.starts_with("HTTP/1.").then(|| line.to_owned())
}

/// The block of the first HEADERS frame, with its continuation.
fn header_block(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut block = None;
    loop {
        let head = Head::read(bytes)?;
        let payload = bytes.get(HEADER..HEADER + head.length as usize)?;
        match (head.kind, &mut block) {
            (kind::HEADERS, None) => {
                let mut fields = unpadded(head, payload)?;
                if head.has(flag::PRIORITY) {
                    fields = fields.get(5..)?;
                }
                block = Some(fields.to_vec());
            }
            (kind::CONTINUATION, Some(block)) => block.extend_from_slice(payload),
            _ => {}
        }
        if head.has(flag::END_HEADERS) && matches!(head.kind, kind::HEADERS | kind::CONTINUATION) {
            return block;
        }
        bytes = &bytes[HEADER + head.length as usize..];
    }
}
