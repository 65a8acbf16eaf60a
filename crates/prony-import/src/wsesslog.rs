//! httperf's session files (`--wsesslog`), with prony's additions, as an import.

use prony_plan::plan::Think;

use crate::context::{Context, REQUESTS};
use crate::session_log::{self, Dialect, LogErrorKind, LoggedBurst, LoggedRequest};
use crate::url;
use crate::{Body, Import, Request, Session, Step};

/// The sessions of the file. Requests with an error are left out.
///
/// # Errors
/// It has no request, or a path without a server, or is too long: a sentence with the place.
pub(crate) fn read(bytes: &[u8], context: &Context<'_>) -> Result<Import, String> {
    let lines = bytes.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    // Before they take memory: a request can have several lines.
    if lines.filter(|line| !line.is_empty() && line[0] != b'#').count() > 4 * REQUESTS {
        return Err(": more than 400,000 lines, and so more than 100,000 requests".into());
    }
    let mut import = Import { is_of_httperf: true, ..Import::default() };
    let (sessions, errors) = session_log::read(bytes, Dialect::Prony);
    for error in errors {
        if error.kind == LogErrorKind::Empty {
            return Err(format!(":{}:{}: {}", error.line, error.column, error.kind));
        }
        let place = format!("line {}, column {}", error.line, error.column);
        import.notes.add(&format!("left out: {}", error.kind), &place);
    }
    for session in sessions {
        let steps: Result<Vec<Step>, String> =
            session.into_iter().map(|burst| step(burst, &mut import, context)).collect();
        import.sessions.push(Session { steps: steps?, ..Session::default() });
    }
    Ok(import)
}

fn step(
    burst: LoggedBurst<'_>,
    import: &mut Import,
    context: &Context<'_>,
) -> Result<Step, String> {
    let mut requests = Vec::new();
    for logged in burst.requests {
        let place = format!("line {}", logged.line);
        let (line, column) = (logged.line, logged.column);
        let at = |why| format!(":{line}:{column}: {why}");
        let address = context.options.at(logged.uri).map_err(at)?;
        match request(logged, &address, &place) {
            Ok(request) => {
                context.admit(&request).map_err(at)?;
                requests.push(request);
            }
            Err(why) => import.notes.add(&why, &place),
        }
    }
    // The first request of a burst is sent alone.
    let lead = requests.len() > 1;
    Ok(Step { requests, lead, think: burst.think.unwrap_or(Think::None) })
}

/// The request of a line, or why it is left out.
fn request(logged: LoggedRequest<'_>, address: &str, place: &str) -> Result<Request, String> {
    let (origin, path) = url::split(address)?;
    let headers = logged.headers.into_iter().map(|(name, value)| (name, value.into()));
    let mut headers = headers.collect();
    url::add_credentials(address, &mut headers);
    Ok(Request {
        place: place.to_owned(),
        origin,
        path: path.into(),
        method: logged.method.to_owned(),
        headers,
        body: Body::from(logged.body.into_owned()),
        name: logged.name.unwrap_or_default(),
        ..Request::default()
    })
}
