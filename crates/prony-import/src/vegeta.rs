//! vegeta's targets: as text (`METHOD URL`, headers, `@FILE` for the body, an empty line), or as
//! JSON lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::context::Context;
use crate::text::Text;
use crate::url;
use crate::{Import, Request, Session, Step};

#[derive(Deserialize)]
struct Target {
    method: String,
    url: String,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    header: Map<String, Value>,
}

/// The targets in turn.
pub(crate) fn read(text: &str, context: &Context<'_>) -> Result<Import, String> {
    let mut import = Import { is_list: true, ..Import::default() };
    let requests = match text.trim_start().starts_with('{') {
        true => json(text, context)?,
        false => http(text, context)?,
    };
    for (at, request) in requests {
        match request {
            Ok(request) => {
                context.weigh(&request).map_err(|e| format!(":{at}: {e}"))?;
                import.sessions.push(alone(request));
            }
            Err(why) => import.notes.add(&why, &format!("line {at}")),
        }
    }
    Ok(import)
}

/// A session of one request.
pub(crate) fn alone(request: Request) -> Session {
    Session { steps: vec![Step::from(request)], ..Session::default() }
}

type Found = Vec<(usize, Result<Request, String>)>;

fn json(text: &str, context: &Context<'_>) -> Result<Found, String> {
    let mut all = Vec::new();
    for (line, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let at = line + 1;
        context.count().map_err(|e| format!(":{at}: {e}"))?;
        let target: Target = serde_json::from_str(text)
            .map_err(|e| format!(":{at}:{}: this is not a target: {e}", e.column()))?;
        let request = url::split(&target.url).and_then(|(origin, path)| {
            let body = target.body.unwrap_or_default();
            let body = STANDARD.decode(body).map_err(|_| "its body is not base64")?;
            let mut headers = target.header.iter().flat_map(values).collect();
            url::add_credentials(&target.url, &mut headers);
            Ok(Request {
                place: format!("line {at}"),
                origin,
                path: path.into(),
                method: target.method,
                headers,
                body: body.into(),
                ..Request::default()
            })
        });
        all.push((at, request));
    }
    Ok(all)
}

/// A header with one value or several.
fn values((name, value): (&String, &Value)) -> Vec<(String, Text)> {
    let one = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (name.clone(), Text::from(text))
    };
    value.as_array().map_or_else(|| vec![one(value)], |all| all.iter().map(one).collect())
}

fn http(text: &str, context: &Context<'_>) -> Result<Found, String> {
    let mut all: Found = Vec::new();
    // A target has headers until an empty line or the next target.
    let mut open = false;
    for (line, text) in text.lines().map(str::trim).enumerate() {
        let at = line + 1;
        if text.starts_with('#') {
            continue;
        }
        if text.is_empty() {
            open = false;
            continue;
        }
        if let (true, Some(file), Some((_, Ok(request)))) =
            (open, text.strip_prefix('@'), all.last_mut())
        {
            let content = context.read(file, &format!("line {at}"));
            let content = content.map_err(|e| format!(":{at}: {}", String::from(e)))?;
            request.body = content.into();
            continue;
        }
        let first = text.split_whitespace().next().unwrap_or_default();
        let is_target = first.bytes().all(|b| b.is_ascii_uppercase()) && first.len() < text.len();
        match (is_target, open, text.split_once(':')) {
            (true, ..) => {
                context.count().map_err(|e| format!(":{at}: {e}"))?;
                open = true;
                let address = text[first.len()..].trim();
                let mut headers = Vec::new();
                url::add_credentials(address, &mut headers);
                let request = url::split(address).map(|(origin, path)| Request {
                    place: format!("line {at}"),
                    origin,
                    path: path.into(),
                    method: first.to_owned(),
                    headers,
                    ..Request::default()
                });
                all.push((at, request));
            }
            (false, true, Some((name, value))) => {
                if let Some((_, Ok(request))) = all.last_mut() {
                    // It replaces that of a user in the URL.
                    if name.trim().eq_ignore_ascii_case("authorization") {
                        request.headers.retain(|(n, _)| !n.eq_ignore_ascii_case("authorization"));
                    }
                    request.headers.push((name.trim().to_owned(), value.trim().into()));
                }
            }
            _ => {
                return Err(format!(
                    ":{at}: '{first}' starts neither a target (METHOD URL) nor a header of one"
                ));
            }
        }
    }
    Ok(all)
}
