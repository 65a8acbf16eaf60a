//! How far an import is.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts that an import keeps while another thread reads them.
#[derive(Debug, Default)]
pub struct Progress {
    /// The requests found so far.
    found: AtomicUsize,
    /// All requests, when they are known, and in how many values of replies were looked for.
    all: AtomicUsize,
    searched: AtomicUsize,
}

impl Progress {
    pub(crate) fn found(&self) {
        self.found.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read_all(&self, requests: usize) {
        self.all.store(requests, Ordering::Relaxed);
    }

    pub(crate) fn searched(&self) {
        self.searched.fetch_add(1, Ordering::Relaxed);
    }
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [found, all, searched] =
            [&self.found, &self.all, &self.searched].map(|count| count.load(Ordering::Relaxed));
        match (all, searched) {
            (0, _) => write!(f, "reading, {found} requests so far"),
            (_, 0) => write!(f, "read {all} requests"),
            _ if searched < all => {
                write!(f, "looking for values of replies in request {searched} of {all}")
            }
            _ => write!(f, "read {all} requests, writing the plan"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Options, import};

    #[test]
    fn counts_what_is_done() {
        let progress = Progress::default();
        assert_eq!(progress.to_string(), "reading, 0 requests so far");
        progress.found();
        assert_eq!(progress.to_string(), "reading, 1 requests so far");
        let progress = Progress::default();
        let options = Options { progress: Some(&progress), ..Options::default() };
        let lines = b"curl http://h/a\ncurl http://h/b\n";
        import(Format::Curl, "lines", lines, &options).expect("an import");
        assert_eq!(progress.to_string(), "read 2 requests, writing the plan");
    }
}
