//! Lines that are JSON objects: those of Envoy, Caddy and Traefik, and others with named fields.

use std::mem;

use crate::fields::{Edge, Fields, Form, Role, Why};
use crate::format_error::FormatError;
use crate::times::{SECOND, Times};

/// How deep objects may be in each other.
const DEPTH: usize = 64;

/// Which values of an object are of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// The names on the way to a value, and what it is. Of several for one role, the first that a
    /// line has is used.
    wanted: Vec<(Vec<String>, Role)>,
    /// For each of them, a bit for each one before it that is the same.
    same: Vec<u64>,
    /// A line without a method has a GET: it is a format that need not have one.
    may_lack_method: bool,
}

/// When a request began, and when it ended.
const START: Role = Role::Time(Form::Any, Edge::Start);
const END: Role = Role::Time(Form::Any, Edge::End);

impl Names {
    fn new(wanted: &[(&str, Role)]) -> Self {
        let path = |name: &str| name.split('.').map(str::to_owned).collect();
        let is_same = |role: Role, other: Role| match (role, other) {
            (Role::Time(_, edge), Role::Time(_, other)) => edge == other,
            _ => mem::discriminant(&role) == mem::discriminant(&other),
        };
        let bits = |i: usize| {
            let (_, role) = wanted[i];
            let before = wanted[..i].iter().enumerate();
            let same = before.filter(|(_, (_, other))| is_same(role, *other));
            same.fold(0, |bits, (j, _)| bits | 1 << j)
        };
        let same = (0..wanted.len()).map(bits).collect();
        let wanted = wanted.iter().map(|(name, role)| (path(name), *role)).collect();
        Self { wanted, same, may_lack_method: false }
    }

    /// Caddy's access log. It is written when a request has ended.
    pub(crate) fn caddy() -> Self {
        Self::new(&[
            ("ts", END),
            ("request.method", Role::Method),
            ("request.uri", Role::Target),
            ("status", Role::Status),
            ("duration", Role::Took(SECOND)),
            ("request.client_ip", Role::Client),
            ("request.remote_ip", Role::Client),
        ])
    }

    /// Traefik's access log in JSON. Its `time` is that at which the line was written.
    pub(crate) fn traefik() -> Self {
        Self::new(&[
            ("StartUTC", START),
            ("StartLocal", START),
            ("time", END),
            ("RequestMethod", Role::Method),
            ("RequestPath", Role::Target),
            ("DownstreamStatus", Role::Status),
            ("Duration", Role::Took(1)),
            ("ClientHost", Role::Client),
            ("ClientAddr", Role::ClientPort),
        ])
    }

    /// Envoy's JSON, as its documentation and Istio name the fields.
    pub(crate) fn envoy() -> Self {
        Self::new(&[
            ("start_time", START),
            ("method", Role::Method),
            ("x-envoy-original-path", Role::Target),
            ("path", Role::Target),
            ("response_code", Role::Status),
            ("duration", Role::Took(SECOND / 1000)),
            ("downstream_remote_address", Role::ClientPort),
        ])
    }

    /// The names that nginx, web frameworks and log shippers use.
    pub(crate) fn usual() -> Self {
        let names = Self::new(&[
            ("start_time", START),
            ("@timestamp", END),
            ("timestamp", END),
            ("time", END),
            ("ts", END),
            ("msec", END),
            ("time_iso8601", END),
            ("time_local", END),
            ("request", Role::Request),
            ("method", Role::Method),
            ("request_method", Role::Method),
            ("request_uri", Role::Target),
            ("uri", Role::Target),
            ("url", Role::Target),
            ("path", Role::Target),
            ("status", Role::Status),
            ("status_code", Role::Status),
            ("request_time", Role::Took(SECOND)),
            ("duration_ms", Role::Took(SECOND / 1000)),
            ("latency_ms", Role::Took(SECOND / 1000)),
            ("remote_addr", Role::Client),
            ("client_ip", Role::Client),
            ("remote_ip", Role::Client),
            ("client", Role::Client),
            ("http_cookie", Role::Cookie),
            ("cookie", Role::Cookie),
        ]);
        Self { may_lack_method: true, ..names }
    }

    /// Names that the user gives: `time=at path=http.path method=verb`.
    pub(crate) fn given(text: &str) -> Result<Self, FormatError> {
        let mut wanted = Vec::new();
        for word in text.split_whitespace() {
            let refused = || FormatError::Word(word.to_owned());
            let (part, name) = word.split_once('=').ok_or_else(refused)?;
            let role = match part {
                "start" => START,
                "time" => END,
                "request" => Role::Request,
                "method" => Role::Method,
                "path" => Role::Target,
                "query" => Role::Query,
                "status" => Role::Status,
                "client" => Role::Client,
                "cookie" => Role::Cookie,
                "body" => Role::BodyKey,
                "took-s" => Role::Took(SECOND),
                "took-ms" => Role::Took(SECOND / 1000),
                "took-us" => Role::Took(SECOND / 1_000_000),
                "took-ns" => Role::Took(1),
                _ => return Err(refused()),
            };
            wanted.push((name, role));
        }
        let has = |is: fn(Role) -> bool| wanted.iter().any(|(_, role)| is(*role));
        if !has(Role::is_time) {
            return Err(FormatError::NoTime);
        }
        if !has(Role::is_path) || wanted.len() > 64 {
            return Err(FormatError::NoPath);
        }
        let may_lack_method = !has(Role::is_method);
        Ok(Self { may_lack_method, ..Self::new(&wanted) })
    }

    /// The names of the times: those at which requests began or ended, and how long they took.
    pub(crate) fn times(&self) -> impl Iterator<Item = (Role, String)> {
        let is_time = |role: Role| role.is_time() || role.is_took();
        let times = self.wanted.iter().filter(move |(_, role)| is_time(*role));
        times.map(|(path, role)| (*role, path.join(".")))
    }

    /// Whether a line has the key of a body.
    pub(crate) fn has_body_key(&self) -> bool {
        self.wanted.iter().any(|(_, role)| *role == Role::BodyKey)
    }

    pub(crate) fn read<'a>(&self, line: &'a [u8], times: &mut Times) -> Result<Fields<'a>, Why> {
        let mut found: [Option<&[u8]>; 64] = [None; 64];
        let mut reader = Reader { line, at: 0 };
        reader.skip_space();
        if reader.next() != Some(b'{') {
            return Err(Why::NotJson);
        }
        let all = u64::MAX >> (64 - self.wanted.len());
        reader.object(self, all, 0, &mut found).ok_or(Why::NotJson)?;
        let mut fields = Fields::default();
        // Of several names for the same, the first one that the line has counts.
        let (mut has, mut has_no_path) = (0_u64, false);
        for (i, (_, role)) in self.wanted.iter().enumerate() {
            match found[i] {
                None => {}
                Some(b"" | b"-" | b"null") => has_no_path |= role.is_path(),
                Some(text) if has & self.same[i] == 0 => {
                    has |= 1 << i;
                    fields.set(*role, text, times)?;
                }
                Some(_) => {}
            }
        }
        // The server says that it has got none.
        fields.is_no_request |= has_no_path && fields.aim.target.is_empty();
        if self.may_lack_method && fields.method.is_empty() && !fields.aim.target.is_empty() {
            fields.method = b"GET";
        }
        fields.finish()?;
        Ok(fields)
    }
}

/// Reads just as much of an object as is of use; it does not check the rest.
struct Reader<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = self.line.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn skip_space(&mut self) {
        while matches!(self.line.get(self.at), Some(b' ' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    /// An object after its brace. `among` has a bit for each wanted value whose names up to here
    /// are those of the way to this object.
    fn object(
        &mut self,
        names: &Names,
        among: u64,
        depth: usize,
        found: &mut [Option<&'a [u8]>; 64],
    ) -> Option<()> {
        self.skip_space();
        if self.line.get(self.at) == Some(&b'}') {
            self.at += 1;
            return Some(());
        }
        loop {
            self.skip_space();
            if self.next()? != b'"' {
                return None;
            }
            let name = self.string()?;
            self.skip_space();
            if self.next()? != b':' {
                return None;
            }
            self.skip_space();
            let mut here = 0;
            for (i, (path, _)) in names.wanted.iter().enumerate() {
                let is_name = || path.get(depth).is_some_and(|part| part.as_bytes() == name);
                if among >> i & 1 == 1 && is_name() {
                    here |= 1 << i;
                }
            }
            let (value, is_object) = self.value(names, here, depth, found)?;
            for (i, (path, _)) in names.wanted.iter().enumerate() {
                if here >> i & 1 == 1 && path.len() == depth + 1 && !is_object {
                    found[i] = Some(value);
                }
            }
            self.skip_space();
            match self.next()? {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }

    /// A value: its text without quotation marks, and whether it is an object or an array.
    fn value(
        &mut self,
        names: &Names,
        here: u64,
        depth: usize,
        found: &mut [Option<&'a [u8]>; 64],
    ) -> Option<(&'a [u8], bool)> {
        let begin = self.at;
        match self.next()? {
            b'"' => return self.string().map(|text| (text, false)),
            b'{' if here != 0 => self.object(names, here, depth + 1, found)?,
            b'{' | b'[' => self.skip_nested()?,
            _ => {
                let is_end = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\r');
                let rest = &self.line[self.at..];
                self.at += rest.iter().position(is_end)?;
                return Some((&self.line[begin..self.at], false));
            }
        }
        Some((&self.line[begin..self.at], true))
    }

    /// A string after its quotation mark, with its escapes.
    #[inline]
    fn string(&mut self) -> Option<&'a [u8]> {
        let begin = self.at;
        loop {
            let i = memchr::memchr2(b'"', b'\\', &self.line[self.at..])?;
            self.at += i + 1;
            if self.line[self.at - 1] == b'"' {
                return Some(&self.line[begin..self.at - 1]);
            }
            self.at += 1;
            if self.at > self.line.len() {
                return None;
            }
        }
    }

    /// The rest of an object or array after its bracket.
    fn skip_nested(&mut self) -> Option<()> {
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            if depth > DEPTH {
                return None;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(names: &Names, line: &str) -> Result<String, Why> {
        let fields = names.read(line.as_bytes(), &mut Times::default())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(format!(
            "{} {} {} {} {:?} {:?}",
            fields.time.map_or(0, |time| time.at / 1000),
            text(fields.client),
            text(fields.method),
            text(fields.aim.target),
            fields.status,
            fields.took.map(|took| took / 1000),
        ))
    }

    #[test]
    fn caddy() {
        let line = r#"{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request",
            "request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"10.0.0.1","proto":"HTTP/2.0",
            "method":"GET","host":"localhost","uri":"/a?b=\"c\"","headers":{"User-Agent":["curl/7.82.0"],
            "Accept":["*/*"],"Odd":[{"uri":"/no"}]},"tls":{"resumed":false}},"bytes_read":0,"user_id":"",
            "duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}"#;
        let line = line.replace('\n', " ");
        let expected = r#"1646861401524102 10.0.0.1 GET /a?b=\"c\" Some(200) Some(929)"#;
        assert_eq!(read(&Names::caddy(), &line).as_deref(), Ok(expected));
    }

    #[test]
    fn envoy() {
        let line = r#"{"start_time":"2020-11-25T21:26:18.409Z","method":"GET","path":"/a",
            "response_code":418,"duration":3,"x-envoy-original-path":null,"downstream_remote_address":"10.0.0.2:51936"}"#;
        let line = line.replace('\n', " ");
        let expected = "1606339578409000 10.0.0.2 GET /a Some(418) Some(3000)";
        assert_eq!(read(&Names::envoy(), &line).as_deref(), Ok(expected));
    }

    #[test]
    fn usual_and_given_names() {
        let line =
            r#"{"time": "2020-11-25T21:26:18Z", "request": "HEAD /a HTTP/1.1", "status": "200"}"#;
        let expected = "1606339578000000  HEAD /a Some(200) None";
        assert_eq!(read(&Names::usual(), line).as_deref(), Ok(expected));
        let names = Names::given("time=at path=http.path took-ms=ms").expect("names");
        let line = r#"{"at": 1606339578000, "http": {"path": "/x"}, "ms": 1.5, "path": 7}"#;
        let expected = "1606339578000000  GET /x None Some(1500)";
        assert_eq!(read(&names, line).as_deref(), Ok(expected));
        assert_eq!(Names::given("path=a"), Err(FormatError::NoTime));
        assert_eq!(Names::given("time=a"), Err(FormatError::NoPath));
        assert_eq!(Names::given("time=a b"), Err(FormatError::Word("b".into())));
    }

    #[test]
    fn refuses_what_is_no_object() {
        let whole =
            r#"{"time":1606339578,"path":"/a\\","x":[1,{"a":"]"}],"y":{"z":null},"q":true}"#;
        assert!(read(&Names::usual(), whole).is_ok());
        for cut in 0..whole.len() {
            assert_eq!(read(&Names::usual(), &whole[..cut]), Err(Why::NotJson), "{cut}");
        }
        assert_eq!(read(&Names::usual(), "{}"), Err(Why::NoTime));
        let deep = format!("{{\"a\":{}", "[".repeat(100_000));
        assert_eq!(read(&Names::usual(), &deep), Err(Why::NotJson));
    }
}
