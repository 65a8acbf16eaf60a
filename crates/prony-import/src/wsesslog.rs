//! httperf's session files (`--wsesslog`), with prony's additions, which prony-core reads.

use prony_core::plan::{Dialect, LoggedBurst, LoggedRequest, Think, parse_session_log};

use crate::url;
use crate::{Body, Import, Options, Request, Session, Step};

/// The sessions of the file.
///
/// # Errors
/// The first error in it, with its line and column.
pub(crate) fn read(bytes: &[u8], options: &Options<'_>) -> Result<Import, String> {
    let mut import = Import { is_of_httperf: true, ..Import::default() };
    let sessions = parse_session_log(bytes, Dialect::Prony).map_err(|errors| {
        let first = errors.first().expect("there is one");
        format!(":{}:{}: {}", first.line, first.column, first.kind)
    })?;
    for session in sessions {
        let steps: Result<Vec<Step>, String> =
            session.into_iter().map(|burst| step(burst, &mut import, options)).collect();
        import.sessions.push(Session { steps: steps?, ..Session::default() });
    }
    Ok(import)
}

fn step(
    burst: LoggedBurst<'_>,
    import: &mut Import,
    options: &Options<'_>,
) -> Result<Step, String> {
    let mut requests = Vec::new();
    for logged in burst.requests {
        let place = format!("line {}", logged.line);
        let at = |why| format!(":{}:{}: {why}", logged.line, logged.column);
        let address = options.at(logged.uri).map_err(at)?;
        match request(logged, &address, &place) {
            Ok(request) => requests.push(request),
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
