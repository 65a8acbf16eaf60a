//! The value of a `Location`, which the fuzz target of URLs reads, too.

use prony_plan::target::resolve_redirect;

/// It leads to a path that a request line can have, or nowhere.
///
/// # Panics
/// If not.
pub(super) fn check(location: &[u8]) {
    let mut path = Vec::new();
    for base in [&b"/"[..], b"/a/b?c", b"/a/../b/"] {
        if resolve_redirect(location, base, &mut path).is_some() {
            let can_be_sent = path.iter().all(u8::is_ascii_graphic);
            assert!(can_be_sent && path.starts_with(b"/"), "{path:?}");
        }
    }
}
