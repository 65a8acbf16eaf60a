//! The line about HTTP/2: connections, the limit of streams, heads, and what servers did.

use std::collections::BTreeMap;

use prony_base::grpc::Status;
use prony_base::http2::frame::Code;
use prony_tally::record::Tally;

use crate::units;

/// What is known about streams; empty without HTTP/2.
pub(super) fn streams(t: &Tally) -> Vec<String> {
    let Some(counts) = t.http2.as_deref() else { return Vec::new() };
    let mut parts = vec![match (counts.connections, counts.fallbacks) {
        (n, 0) => format!("on {}", units::counted(n, "connection", "connections")),
        (0, _) => "on no connection: the server offered only HTTP/1.1".to_owned(),
        (n, others) => format!(
            "on {}, HTTP/1.1 on {}",
            units::counted(n, "connection", "connections"),
            units::count(others)
        ),
    }];
    if counts.connections == 0 {
        return parts;
    }
    parts.push(match (counts.limit_least, counts.limit_last) {
        (Some(least), Some(last)) if least != last => {
            format!(
                "limit {} streams (at last {})",
                units::count(least.into()),
                units::count(last.into())
            )
        }
        (Some(limit), _) => format!("limit {} streams", units::count(limit.into())),
        (None, _) => "no limit of streams".to_owned(),
    });
    if let Some(mean) = t.streams_mean().filter(|_| counts.open_max > 0) {
        let most = units::count(counts.open_max.into());
        let mean = units::three(mean);
        parts.push(format!("{mean} streams open on average, at most {most} on one connection"));
    }
    if counts.blocked > 0 {
        parts.push(format!(
            "{} for {} in total until the own window was renewed",
            units::counted(counts.blocked, "reply waited", "replies waited"),
            units::span(counts.blocked_time)
        ));
    }
    let waited = t.times.stream_wait.count();
    if waited > 0 && t.started > 0 {
        let share = waited as f64 / t.started as f64;
        parts.push(format!("{} of requests waited for a stream", units::percent(share)));
    }
    let share = |blocks: u64, fields: u64| units::percent(blocks as f64 / fields.max(1) as f64);
    if counts.received_fields > 0 {
        parts.push(format!(
            "heads compressed to {} (requests) and {} (replies)",
            share(counts.sent_blocks, counts.sent_fields),
            share(counts.received_blocks, counts.received_fields)
        ));
    }
    parts.extend(by_code("GOAWAY", &counts.goaways));
    parts.extend(counts.goaway_texts.iter().map(|(code, text)| format!("{code} says: {text}")));
    for (n, what) in [
        (counts.moved, "moved to another connection"),
        (counts.refused, "refused"),
        (counts.cancelled, "cancelled"),
    ] {
        if n > 0 {
            parts.push(format!("{} {what}", units::counted(n, "request", "requests")));
        }
    }
    parts.extend(by_code("RST_STREAM", &counts.resets));
    parts.extend(wants_http1([&counts.resets, &counts.goaways]));
    parts.extend(by_code("no status of gRPC, by status of HTTP", &counts.without_status));
    parts
}

/// What the server did not offer or asks for; empty without HTTP/2, and if all is well.
pub(super) fn remarks(t: &Tally) -> Vec<String> {
    let Some(counts) = t.http2.as_deref() else { return Vec::new() };
    let old = (counts.fallbacks > 0).then(|| {
        let connections = units::counted(counts.fallbacks, "connection", "connections");
        format!("the server offered only HTTP/1.1 on {connections}")
    });
    old.into_iter().chain(wants_http1([&counts.resets, &counts.goaways])).collect()
}

/// What to do about a server that asks for another version.
fn wants_http1(codes: [&BTreeMap<String, u64>; 2]) -> Option<String> {
    let name = Code::HTTP_1_1_REQUIRED.name()?;
    let asks = codes.iter().any(|codes| codes.contains_key(name));
    asks.then(|| "the server requires HTTP/1.1 for these requests: try --http 1.1".to_owned())
}

/// What servers of gRPC say about calls with each status other than `OK`: the first message.
pub(super) fn grpc_messages(t: &Tally) -> Vec<String> {
    let Some(counts) = t.http2.as_deref() else { return Vec::new() };
    let seen = |name: &str| {
        let number = Status::from_name(name).map(|status| u16::from(status.number()));
        number.is_some_and(|number| t.statuses.contains_key(&number))
    };
    let seen = counts.grpc_messages.iter().filter(|(status, _)| seen(status));
    seen.map(|(status, message)| format!("{status}: {message}")).collect()
}

/// How many frames of a type arrived, by their codes; `None` without any.
fn by_code(what: &str, codes: &BTreeMap<String, u64>) -> Option<String> {
    let each = codes.iter().map(|(code, n)| format!("{} {code}", units::count(*n)));
    let each: Vec<_> = each.collect();
    (!each.is_empty()).then(|| format!("{what}: {}", each.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_servers_say_at_their_end_and_which_version_they_require() {
        let codes = |code: &str| BTreeMap::from([(code.to_owned(), 3)]);
        let mut t = Tally::default();
        let counts = t.http2.get_or_insert_default();
        counts.connections = 1;
        counts.goaways = codes("NO_ERROR");
        counts.goaway_texts = BTreeMap::from([("NO_ERROR".to_owned(), "max_age".to_owned())]);
        let ended = streams(&t);
        assert!(ended.ends_with(&["GOAWAY: 3 NO_ERROR".into(), "NO_ERROR says: max_age".into()]));
        let advice = "the server requires HTTP/1.1 for these requests: try --http 1.1".to_owned();
        for (is_reset, code) in [(true, "HTTP_1_1_REQUIRED"), (false, "HTTP_1_1_REQUIRED")] {
            let counts = t.http2.get_or_insert_default();
            (counts.goaways, counts.resets) = (BTreeMap::new(), BTreeMap::new());
            *if is_reset { &mut counts.resets } else { &mut counts.goaways } = codes(code);
            assert_eq!(streams(&t).last(), Some(&advice));
        }
        let counts = t.http2.get_or_insert_default();
        (counts.goaways, counts.resets) = (BTreeMap::new(), codes("CANCEL"));
        assert!(!streams(&t).contains(&advice));
    }
}
