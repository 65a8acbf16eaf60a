//! The source of the URIs: a single one, a set of files (`--wset`), or a list (`--wlog`).

use std::path::Path;

use prony_run::files::{self, FILE_MAX};

use super::options::Opts;
use super::values::{Refusal, Uris};

/// The URIs of the calls of a run, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sequence {
    /// The distinct URIs.
    pub(super) uris: Vec<String>,
    /// Entry k is the index of the URI of call k.
    pub(super) order: Vec<u32>,
    /// Whether the order repeats after its last entry; otherwise the run ends there.
    pub(super) repeats: bool,
}

/// The order of a set repeats after this number of calls at the latest, even if its true period is
/// longer.
const ORDER_MAX: usize = 1 << 20;

/// The start value of `--wset`: the first number of the C library's `drand48` without a seed.
const FIRST: f64 = 11.0 / 281_474_976_710_656.0;

/// The URIs of at most `calls` calls.
pub(super) fn sequence(o: &Opts, calls: u64) -> Result<Sequence, Refusal> {
    match &o.uris {
        Uris::One => Ok(Sequence { uris: vec![o.uri.clone()], order: vec![0], repeats: true }),
        Uris::Set(files, rate) => Ok(set(o, *files, *rate, calls)),
        Uris::Log(repeats, file) => log(*repeats, file),
    }
}

fn set(o: &Opts, files: u64, rate: f64, calls: u64) -> Sequence {
    let files = files.max(1);
    let (mut index, stride) = (o.client.0 % files, o.client.1 % files);
    let first = index;
    let mut sum = FIRST;
    let mut visited = Vec::new();
    let most = usize::try_from(calls).unwrap_or(ORDER_MAX).clamp(1, ORDER_MAX);
    loop {
        sum += rate;
        if sum >= 1.0 {
            sum -= 1.0;
            index = (index + stride) % files;
        }
        visited.push(index);
        if visited.len() >= most || (index == first && (sum - FIRST).abs() < 1e-9) {
            break;
        }
    }
    let mut known: Vec<u64> = visited.clone();
    known.sort_unstable();
    known.dedup();
    let order = visited.iter().map(|file| known.partition_point(|k| k < file) as u32).collect();
    let uris = known.iter().map(|&file| file_uri(&o.uri, file, files)).collect();
    Sequence { uris, order, repeats: true }
}

/// The URI of a file of the set: a directory for each digit.
fn file_uri(prefix: &str, file: u64, files: u64) -> String {
    let digits = (files - 1).checked_ilog10().map_or(0, |n| n as usize + 1);
    let mut uri = prefix.strip_suffix('/').unwrap_or(prefix).to_owned();
    if digits > 0 {
        for digit in format!("{file:0digits$}").chars() {
            uri.push('/');
            uri.push(digit);
        }
    }
    uri + ".html"
}

fn log(repeats: bool, file: &Path) -> Result<Sequence, Refusal> {
    let name = file.display();
    let bytes =
        files::bounded(file, FILE_MAX).map_err(|_| Refusal::new(format!("can't open {name}")))?;
    if bytes.is_empty() {
        return Err(Refusal::new(format!("file {name} is empty")));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Refusal::new(format!("{name} contains URIs that are not UTF-8")))?;
    // httperf separates the URIs by zero bytes. Lists written by hand have lines.
    let list: Vec<&str> = if text.contains('\0') {
        text.split('\0').collect()
    } else {
        text.lines().map(str::trim_end).collect()
    };
    let uris: Vec<String> = list.into_iter().filter(|u| !u.is_empty()).map(Into::into).collect();
    if uris.is_empty() {
        return Err(Refusal::new(format!("{name} does not contain any valid URIs")));
    }
    let order = (0..uris.len() as u32).collect();
    Ok(Sequence { uris, order, repeats })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn uris_of_set(
        uri: &str,
        client: (u64, u64),
        files: u64,
        rate: f64,
        calls: u64,
    ) -> Vec<String> {
        let o =
            Opts { uri: uri.into(), client, uris: Uris::Set(files, rate), ..Opts::new("httperf") };
        let s = sequence(&o, calls).unwrap();
        let order = s.order.iter().cycle().take(calls as usize);
        order.map(|&i| s.uris[i as usize].clone()).collect()
    }

    /// The expected URIs are what httperf printed with `-v`.
    #[test]
    fn the_order_of_a_set_matches_httperf() {
        let uris = uris_of_set("/w", (1, 4), 1024, 0.5, 6);
        let recorded = ["0/0/0/1", "0/0/0/5", "0/0/0/5", "0/0/0/9", "0/0/0/9", "0/0/1/3"];
        assert_eq!(uris, recorded.map(|file| format!("/w/{file}.html")));
        assert_eq!(uris_of_set("/", (0, 1), 10, 0.0, 2), ["/0.html", "/0.html"]);
        assert_eq!(uris_of_set("/", (0, 1), 1, 1.0, 1), [".html"]);
        assert_eq!(uris_of_set("/pre/", (0, 1), 11, 0.0, 1), ["/pre/0/0.html"]);
    }

    #[test]
    fn the_order_of_a_set_repeats() {
        let o = Opts { uris: Uris::Set(1024, 0.5), client: (1, 4), ..Opts::new("httperf") };
        let s = sequence(&o, 1_000_000).unwrap();
        // 256 files of this client, each called twice.
        assert_eq!((s.order.len(), s.uris.len()), (512, 256));
        let all = uris_of_set("/", (1, 4), 1024, 0.5, 2_048);
        assert_eq!(all[..512], all[512..1_024]);
    }

    #[test]
    fn list_items_are_separated_by_zero_bytes_or_newlines() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("uris");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            let name = file.display().to_string();
            log(false, &file).map(|s| s.uris).map_err(|r| r.message.replace(&name, "F"))
        };
        let two = vec!["/a".to_owned(), "/b c".to_owned()];
        assert_eq!(read("/a\0\0/b c\0"), Ok(two.clone()));
        assert_eq!(read("/a\r\n\n/b c\n"), Ok(two));
        assert_eq!(read(""), Err("file F is empty".into()));
        assert_eq!(read("\0\0"), Err("F does not contain any valid URIs".into()));
        let gone = log(true, &dir.path().join("gone")).unwrap_err().message;
        assert!(gone.starts_with("can't open "), "{gone}");
    }
}
