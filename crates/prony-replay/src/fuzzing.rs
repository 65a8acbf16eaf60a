//! What the fuzz target `access_log` runs.

use crate::{Format, Log, Options};

/// Formats that are read with every input. The first decides by the first lines.
const FORMATS: [&str; 16] = [
    "",
    "combined",
    "haproxy",
    "alb",
    "w3c",
    "caddy",
    "envoy",
    "json",
    "$remote_addr [$time_local] \"$request\" $status $request_time",
    "$http_user_agent $upstream_response_time $request $time_local $status $http_referer",
    "escape=none \"$request\" \"$http_user_agent\" $msec $upstream_addr $status",
    "%h %t %m %U%q %s %D",
    "tomcat combined",
    "elb",
    "s3",
    "traefik",
];

/// Reads a log: the first line may be a format, the rest is read in each of some formats. Whatever
/// it is, every line is accounted for, times do not decrease, and paths can be sent.
///
/// # Panics
/// If one of these does not hold.
pub fn access_log(data: &[u8]) {
    let first = data.split(|b| *b == b'\n').next().unwrap_or_default();
    let given = str::from_utf8(first).ok().and_then(|first| Format::parse(first).ok());
    let formats = FORMATS.iter().map(|name| Format::parse(name).ok());
    for format in formats.chain(given.map(Some)) {
        let options = Options { format, bad_lines: 1.0, methods: 0x7f, ..Options::default() };
        let Ok(mut log) = Log::open(data, options) else { continue };
        let (mut last, mut requests) = (i64::MIN, 0);
        while let Ok(Some(record)) = log.next_record() {
            assert!(record.at >= last, "the times are in order");
            last = record.at;
            requests += 1;
            assert!(record.path.iter().all(|b| *b > b' ' && *b != 0x7f), "the path can be sent");
            assert!(matches!(record.path[0], b'/' | b'*'), "it is a path");
        }
        let facts = log.facts();
        assert_eq!(facts.requests, requests);
        let others = facts.comments + facts.no_request + facts.other_method + facts.bad;
        assert_eq!(facts.lines, requests + others, "every line is accounted for");
        assert_eq!(facts.bytes, data.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    fn corpus() -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/access_log");
        let files = fs::read_dir(&folder).expect("a corpus");
        files.map(|entry| fs::read(entry.expect("an entry").path()).expect("a file")).collect()
    }

    #[test]
    fn corpus_of_access_log() {
        let files = corpus();
        assert!(files.len() >= 12, "{} files", files.len());
        files.iter().for_each(|file| super::access_log(file));
    }

    proptest! {
        #[test]
        fn damaged_logs_are_accounted_for(
            file in any::<prop::sample::Index>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        ) {
            let files = corpus();
            let mut data = file.get(&files).clone();
            for (at, byte) in changes {
                let at = at.index(data.len());
                data[at] = byte;
            }
            super::access_log(&data);
        }
    }
}
