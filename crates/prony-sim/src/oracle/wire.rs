//! Finds the messages in a stream of bytes by the blank line and the content length alone. That is
//! enough for requests and for the replies of well-behaved servers. The code is independent of the
//! client's parser.

/// The start or the end of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mark<'a> {
    /// The first byte of a message.
    Start,
    /// The last byte of a message.
    End {
        /// The first line and the headers, with the blank line.
        head: &'a [u8],
        /// The status of a reply; 0 for requests.
        status: u16,
        /// Length of the body in bytes.
        body: u64,
    },
}

/// Finds the messages of one direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    head: Vec<u8>,
    /// Remaining bytes of the body; `None` inside the head.
    left: Option<u64>,
    body: u64,
}

impl Parser {
    /// Parse these bytes, and report the starts and ends of messages in them.
    pub(crate) fn feed(
        &mut self,
        mut data: &[u8],
        replies: bool,
        mut report: impl FnMut(Mark<'_>),
    ) {
        while !data.is_empty() {
            if self.left.is_none() {
                if self.head.is_empty() {
                    report(Mark::Start);
                }
                data = self.feed_head(data, replies);
            }
            let Some(left) = self.left else { return };
            let n = left.min(data.len() as u64);
            data = &data[n as usize..];
            self.left = Some(left - n);
            if left == n {
                let status = if replies { status_of(&self.head) } else { 0 };
                report(Mark::End { head: &self.head, status, body: self.body });
                self.head.clear();
                self.left = None;
            }
        }
    }

    /// Parse the head up to its blank line; return the bytes after it.
    fn feed_head<'d>(&mut self, data: &'d [u8], replies: bool) -> &'d [u8] {
        // The blank line may start in the bytes parsed before.
        let from = self.head.len().saturating_sub(3);
        let before = self.head.len();
        self.head.extend_from_slice(data);
        let Some(at) = self.head[from..].windows(4).position(|w| w == b"\r\n\r\n") else {
            return &[];
        };
        let end = from + at + 4;
        self.head.truncate(end);
        let bodiless = replies && matches!(status_of(&self.head), 0..200 | 204 | 304);
        self.body = if bodiless { 0 } else { length_of(&self.head) };
        self.left = Some(self.body);
        &data[end - before..]
    }
}

/// The status in a reply's head; 0 if there is none.
pub(crate) fn status_of(head: &[u8]) -> u16 {
    let digits = head.get(9..12).unwrap_or_default();
    std::str::from_utf8(digits).ok().and_then(|s| s.parse().ok()).unwrap_or(0)
}

/// The number k of a request for `/k` or `/anything/k`.
pub(crate) fn number_of(head: &[u8]) -> Option<u64> {
    let path = head.split(|&b| b == b' ').nth(1)?;
    let last = path.rsplit(|&b| b == b'/').next()?;
    std::str::from_utf8(last).ok()?.parse().ok()
}

fn length_of(head: &[u8]) -> u64 {
    let line = head
        .split(|&b| b == b'\n')
        .find(|line| line.len() > 15 && line[..15].eq_ignore_ascii_case(b"content-length:"));
    let text = line.and_then(|line| std::str::from_utf8(&line[15..]).ok());
    text.and_then(|t| t.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_messages_in_segments_of_any_size() {
        let stream = b"GET /7 HTTP/1.1\r\nhost: x\r\n\r\n\
            POST /a/8 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n\r\n";
        for size in 1..=stream.len() {
            let mut parser = Parser::default();
            let mut found = Vec::new();
            let mut started = 0;
            for piece in stream.chunks(size) {
                parser.feed(piece, false, |mark| match mark {
                    Mark::Start => started += 1,
                    Mark::End { head, body, .. } => {
                        found.push((head.len(), number_of(head), body));
                    }
                });
            }
            assert_eq!(started, 3, "segments of {size}");
            assert_eq!(found, [(28, Some(7), 0), (41, Some(8), 5), (18, None, 0)]);
        }
    }

    #[test]
    fn a_reply_without_body_ends_with_its_head() {
        let mut parser = Parser::default();
        let mut statuses = Vec::new();
        let stream = b"HTTP/1.1 103 Early\r\ncontent-length: 9\r\n\r\nHTTP/1.1 204 No\r\n\r\n";
        parser.feed(stream, true, |mark| {
            if let Mark::End { status, body, .. } = mark {
                statuses.push((status, body));
            }
        });
        assert_eq!(statuses, [(103, 0), (204, 0)]);
    }
}
