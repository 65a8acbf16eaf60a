//! Multi-part forms (RFC 7578) as bodies.

use crate::Body;
use crate::text::Text;

/// What stands between the parts. No part of an import has it.
const BOUNDARY: &str = "prony-import-7d5b0a9c";

/// A part of a form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// The name of a file.
    pub(crate) file: Option<String>,
    /// The value of its `Content-Type`.
    pub(crate) kind: Option<String>,
    /// It is attached, and no field of a form.
    pub(crate) is_attached: bool,
    /// Other headers, each a line.
    pub(crate) headers: Vec<String>,
    pub(crate) content: Content,
}

/// What is in a part.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Text(Text),
    Bytes(Vec<u8>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(Text::default())
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text.into()),
            Err(e) => Self::Bytes(e.into_bytes()),
        }
    }
}

/// The value of `Content-Type`.
pub(crate) fn kind() -> String {
    format!("multipart/form-data; {}", boundary())
}

/// The parameter of a `Content-Type` that names the boundary.
pub(crate) fn boundary() -> String {
    format!("boundary={BOUNDARY}")
}

/// The body.
///
/// # Errors
/// One part is no text, and another has fields: a body has either.
pub(crate) fn body(parts: Vec<Part>) -> Result<Body, String> {
    let mut text = Text::default();
    let mut bytes: Option<Vec<u8>> = None;
    let add = |text: &mut Text, bytes: &mut Option<Vec<u8>>, more: &str| match bytes {
        Some(bytes) => bytes.extend(more.as_bytes()),
        None => text.push(more),
    };
    for part in parts {
        // As browsers and curl write what a name in quotes cannot have.
        let quoted =
            |text: &str| text.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
        let mut head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: {}; name=\"{}\"",
            if part.is_attached { "attachment" } else { "form-data" },
            quoted(&part.name)
        );
        if let Some(file) = &part.file {
            head.push_str(&format!("; filename=\"{}\"", quoted(file)));
        }
        if let Some(kind) = &part.kind {
            head.push_str(&format!("\r\nContent-Type: {kind}"));
        }
        for line in &part.headers {
            head.push_str(&format!("\r\n{line}"));
        }
        head.push_str("\r\n\r\n");
        add(&mut text, &mut bytes, &head);
        let refused = || "a form of bytes and of variables".to_owned();
        match (part.content, &mut bytes) {
            (Content::Text(content), None) => text.append(content),
            (Content::Text(content), Some(bytes)) => {
                bytes.extend(content.literal().ok_or_else(refused)?.as_bytes());
            }
            (Content::Bytes(content), Some(bytes)) => bytes.extend(content),
            (Content::Bytes(content), None) => {
                let mut all = text.literal().ok_or_else(refused)?.as_bytes().to_vec();
                all.extend(content);
                bytes = Some(all);
            }
        }
        add(&mut text, &mut bytes, "\r\n");
    }
    add(&mut text, &mut bytes, &format!("--{BOUNDARY}--\r\n"));
    Ok(bytes.map_or(Body::Text(text), Body::Bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, content: Content) -> Part {
        Part { name: name.into(), content, ..Part::default() }
    }

    #[test]
    fn parts_are_texts_or_bytes() {
        let mut field = Text::from("a");
        field.push_field("x");
        let Ok(Body::Text(text)) = body(vec![part("n\"", Content::Text(field.clone()))]) else {
            panic!("a text");
        };
        let head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=");
        assert_eq!(
            text.template(),
            format!("{head}\"n%22\"\r\n\r\na{{{{x}}}}\r\n--{BOUNDARY}--\r\n")
        );
        let bytes = part("b", vec![0xff].into());
        let found = body(vec![
            part("a", b"1".to_vec().into()),
            bytes.clone(),
            part("c", b"2".to_vec().into()),
        ]);
        let Ok(Body::Bytes(all)) = found else { panic!("{found:?}") };
        let before = format!("{head}\"a\"\r\n\r\n1\r\n{head}\"b\"\r\n\r\n");
        let after = format!("\r\n{head}\"c\"\r\n\r\n2\r\n--{BOUNDARY}--\r\n");
        let wanted = [before.as_bytes(), b"\xff", after.as_bytes()];
        assert_eq!(all, wanted.concat());
        for parts in [
            vec![part("a", Content::Text(field.clone())), bytes.clone()],
            vec![bytes, part("a", Content::Text(field))],
        ] {
            assert_eq!(body(parts), Err("a form of bytes and of variables".into()));
        }
    }
}
