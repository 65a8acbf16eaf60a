//! The patterns of paths by which requests are reported: `/item/*`. Found in the beginning of a
//! log, or given.
//!
//! Paths are cut at their slashes; the query is left out. A part that looks like a number or a key
//! is `*` from the start. Where more than [`KINDS`] different parts stand in one place, those that
//! have less than a twentieth of the requests of that place become one `*`, with everything below.

use std::collections::BTreeMap;

use prony_base::director::METHODS;

/// More different parts in one place are not all kept.
const KINDS: usize = 8;
/// The most rows of a report. The rest are other paths.
const ROWS: usize = 40;
/// Paths with more parts than this are one pattern from there on.
const DEPTH: usize = 8;

/// The name of requests that fit no pattern.
pub const OTHER: &str = "other paths";

/// Patterns of paths, and the name and method of each call.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    root: Matcher,
    /// The name of each pattern, the most frequent one first; [`OTHER`] is the last.
    pub names: Vec<String>,
    /// For each call, its method (an index into [`METHODS`]) and its name.
    pub calls: Vec<(u8, u32)>,
}

/// A place in a path: what may stand in it.
#[derive(Clone, Debug, Default)]
struct Matcher {
    literal: BTreeMap<Box<[u8]>, Self>,
    any: Option<Box<Self>>,
    /// The call of each method whose path ends here.
    calls: [Option<u32>; METHODS.len()],
    /// The same for paths that go on.
    rest: [Option<u32>; METHODS.len()],
}

/// A place in the paths of a log: what stands in it, and how often.
#[derive(Debug, Default)]
struct Node {
    children: BTreeMap<Vec<u8>, Self>,
    all: u64,
    ends: [u64; METHODS.len()],
}

const ANY: &[u8] = b"*";
const REST: &[u8] = b"**";

impl Patterns {
    /// The patterns of these paths, for requests with these methods (each a bit).
    pub fn find<'a>(requests: impl IntoIterator<Item = (u8, &'a [u8])>, methods: u8) -> Self {
        let mut root = Node::default();
        for (method, path) in requests {
            root.add(parts(path), usize::from(method));
        }
        root.merge();
        let mut found = Vec::new();
        root.list(&mut Vec::new(), &mut found);
        found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.2.cmp(&b.2)));
        found.truncate(ROWS);
        let mut patterns = Self::default();
        for (_, method, path) in found {
            let text = String::from_utf8_lossy(&path).into_owned();
            patterns.names.push(format!("{} {text}", METHODS[method]));
            patterns.add(&path, 1 << method);
        }
        patterns.end(methods)
    }

    /// These patterns: paths with `*` for any one part, and `**` at the end for all that follow;
    /// each for all methods (each a bit).
    pub fn given(texts: &[String], methods: u8) -> Self {
        let mut patterns = Self::default();
        for text in texts {
            patterns.names.push(text.clone());
            patterns.add(text.as_bytes(), methods);
        }
        patterns.end(methods)
    }

    /// The newest name is for this pattern.
    fn add(&mut self, pattern: &[u8], methods: u8) {
        let mut at = &mut self.root;
        let mut rest = false;
        for part in parts(pattern) {
            match part {
                REST => rest = true,
                ANY => at = at.any.get_or_insert_default(),
                literal => at = at.literal.entry(literal.into()).or_default(),
            }
        }
        let calls = if rest { &mut at.rest } else { &mut at.calls };
        for (method, place) in (0..).zip(calls) {
            if methods >> method & 1 == 1 && place.is_none() {
                *place = Some(self.calls.len() as u32);
                self.calls.push((method, self.names.len() as u32 - 1));
            }
        }
    }

    /// Adds the rest.
    fn end(mut self, methods: u8) -> Self {
        self.names.push(OTHER.to_owned());
        self.add(b"/**", methods);
        self
    }

    /// The call of a request whose method is one of those that are sent.
    pub fn call(&self, method: u8, path: &[u8]) -> u32 {
        let found = self.root.find(parts(path), usize::from(method));
        found.unwrap_or_else(|| self.root.rest[usize::from(method)].expect("a method that is sent"))
    }
}

impl Matcher {
    fn find<'a>(
        &self,
        mut parts: impl Iterator<Item = &'a [u8]> + Clone,
        method: usize,
    ) -> Option<u32> {
        let Some(part) = parts.next() else { return self.calls[method].or(self.rest[method]) };
        let literal = self.literal.get(part).and_then(|next| next.find(parts.clone(), method));
        let any = || self.any.as_ref().and_then(|next| next.find(parts, method));
        literal.or_else(any).or(self.rest[method])
    }
}

impl Node {
    fn add<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>, method: usize) {
        let mut at = self;
        at.all += 1;
        for (depth, part) in parts.take(DEPTH + 1).enumerate() {
            let key = match part {
                _ if depth == DEPTH => REST,
                part if is_variable(part) => ANY,
                part => part,
            };
            if !at.children.contains_key(key) {
                at.children.insert(key.to_vec(), Self::default());
            }
            at = at.children.get_mut(key).expect("it is there now");
            at.all += 1;
        }
        at.ends[method] += 1;
    }

    /// Makes `*` of parts that are rare in their place, if there are many.
    fn merge(&mut self) {
        if self.children.keys().filter(|key| *key != ANY).count() > KINDS {
            let rare = self.all.div_ceil(20);
            let keys = self.children.iter().filter(|(key, _)| *key != REST);
            let keys = keys.filter(|(_, node)| node.all < rare);
            let keys: Vec<Vec<u8>> = keys.map(|(key, _)| key.clone()).collect();
            let mut any = self.children.remove(ANY).unwrap_or_default();
            for node in keys.iter().filter_map(|key| self.children.remove(key)) {
                any.absorb(node);
            }
            if any.all > 0 {
                self.children.insert(ANY.to_vec(), any);
            }
        }
        self.children.values_mut().for_each(Self::merge);
    }

    fn absorb(&mut self, other: Self) {
        self.all += other.all;
        self.ends.iter_mut().zip(other.ends).for_each(|(sum, n)| *sum += n);
        for (key, node) in other.children {
            self.children.entry(key).or_default().absorb(node);
        }
    }

    /// Every pattern, with how often it is there.
    fn list(&self, path: &mut Vec<u8>, found: &mut Vec<(u64, usize, Vec<u8>)>) {
        for (method, n) in self.ends.into_iter().enumerate().filter(|(_, n)| *n > 0) {
            found.push((n, method, if path.is_empty() { b"/".to_vec() } else { path.clone() }));
        }
        for (part, node) in &self.children {
            let len = path.len();
            path.push(b'/');
            path.extend_from_slice(part);
            node.list(path, found);
            path.truncate(len);
        }
    }
}

/// The parts of a path between slashes, without the query. Of `/`, none.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let end = memchr::memchr(b'?', path).unwrap_or(path.len());
    let path = path[..end].strip_prefix(b"/").unwrap_or(&path[..end]);
    path.split(|byte| *byte == b'/').filter(move |_| !path.is_empty())
}

/// Whether a part looks like a number or a key, rather than a word.
fn is_variable(part: &[u8]) -> bool {
    let digits = part.iter().filter(|byte| byte.is_ascii_digit()).count();
    let hex = part.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    let all = digits == part.len() && digits > 0;
    all || (digits > 0 && ((hex && part.len() >= 8) || part.len() >= 20 || digits >= 4))
        || memchr::memchr(b'%', part).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAFE: u8 = 0b110_0001;

    fn found(paths: &[String]) -> Patterns {
        Patterns::find(paths.iter().map(|path| (0, path.as_bytes())), SAFE)
    }

    fn name(patterns: &Patterns, method: u8, path: &str) -> String {
        let (called, name) = patterns.calls[patterns.call(method, path.as_bytes()) as usize];
        assert_eq!(called, method);
        patterns.names[name as usize].clone()
    }

    #[test]
    fn numbers_keys_and_many_words_in_one_place_are_variable() {
        let mut paths = Vec::new();
        for i in 0..1000 {
            paths.push(format!("/item/{i}?page={i}"));
            paths.push(format!("/user/{}/cart", ["ann", "ben", "eve"][i % 3]));
            paths.push(format!("/tag/{}", (b'a' + (i % 26) as u8) as char));
            paths.push("/".into());
            if i % 2 == 0 {
                paths.push(format!("/file/0f3a{i:04}-11/v2"));
                paths.push("/a/b/c/d/e/f/g/h/i/j".into());
            }
        }
        let patterns = found(&paths);
        assert_eq!(
            patterns.names,
            [
                "GET /",
                "GET /item/*",
                "GET /tag/*",
                "GET /a/b/c/d/e/f/g/h/**",
                "GET /file/*/v2",
                "GET /user/ann/cart",
                "GET /user/ben/cart",
                "GET /user/eve/cart",
                OTHER,
            ]
        );
        for (path, expected) in [
            ("/", "GET /"),
            ("/?q", "GET /"),
            ("/item/77777", "GET /item/*"),
            ("/item/abc?x=/y", "GET /item/*"),
            ("/item/7/more", OTHER),
            ("/tag/zz", "GET /tag/*"),
            ("/user/ann/cart", "GET /user/ann/cart"),
            ("/user/zoe/cart", OTHER),
            ("/a/b/c/d/e/f/g/h/k", "GET /a/b/c/d/e/f/g/h/**"),
            ("/a/b/c/d/e/f/g", OTHER),
            ("/new", OTHER),
            ("*", OTHER),
        ] {
            assert_eq!(name(&patterns, 0, path), expected, "{path}");
        }
        assert_eq!(name(&patterns, 5, "/item/1"), OTHER, "HEAD was not in the log");
    }

    #[test]
    fn rows_are_limited() {
        let deep =
            (0..3000).map(|i| format!("/{}/{}/{}", i % 7, "abcdef".len(), "x".repeat(i % 60)));
        let wide = (0..250_u8).map(|i| {
            format!("/{0}{0}/{1}{1}/y", (b'a' + i % 8) as char, (b'a' + i / 8 % 8) as char)
        });
        let patterns = found(&deep.chain(wide).collect::<Vec<_>>());
        assert!(patterns.names.len() <= ROWS + 1, "{:?}", patterns.names);
    }

    #[test]
    fn patterns_can_be_given() {
        let texts = ["/item/*", "/static/**", "/"].map(str::to_owned);
        let patterns = Patterns::given(&texts, SAFE);
        for (path, expected) in [
            ("/item/1", "/item/*"),
            ("/item", OTHER),
            ("/static/css/a.css", "/static/**"),
            ("/static", "/static/**"),
            ("/", "/"),
            ("/else", OTHER),
        ] {
            for method in [0, 5, 6] {
                assert_eq!(name(&patterns, method, path), expected, "{path}");
            }
        }
        let all = Patterns::given(&["/**".to_owned()], SAFE);
        assert_eq!(name(&all, 0, "/a/b"), "/**");
    }
}
