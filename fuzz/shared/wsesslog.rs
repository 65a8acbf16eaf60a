//! What the fuzz target of session files does with its input.

use prony_import::session_log::{Dialect, parse};
use prony_plan::target::check_method;

/// Fuzz target: a session file, in both dialects. A parsed file has bursts with requests; every
/// error has a position.
///
/// # Panics
/// If not.
pub(crate) fn wsesslog(data: &[u8]) {
    let lines = data.split(|&b| b == b'\n').count();
    for dialect in [Dialect::Httperf, Dialect::Prony] {
        match parse(data, dialect) {
            Ok(sessions) => {
                assert!(!sessions.is_empty() && sessions.iter().all(|s| !s.is_empty()));
                let mut last = 0;
                for request in sessions.iter().flatten().flat_map(|burst| &burst.requests) {
                    assert!(request.line > last && request.line <= lines, "{request:?}");
                    assert!(!request.uri.is_empty() && check_method(request.method).is_ok());
                    last = request.line;
                }
            }
            Err(errors) => {
                assert!(!errors.is_empty(), "refused without a reason");
                for error in errors {
                    let sentence = error.to_string();
                    assert!(error.line <= lines && !sentence.contains('\n'), "{sentence:?}");
                }
            }
        }
    }
}
