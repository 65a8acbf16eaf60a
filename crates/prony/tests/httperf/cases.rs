//! The command lines that both programs run.

/// A case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// After `--server 127.0.0.1 --port @PORT@`. `@DEAD@` is a port on which nothing listens.
    pub(crate) args: &'static [&'static str],
    /// Files in its directory.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// Fields with intended improvements; the test of the defect checks their values.
    pub(crate) better: &'static [&'static str],
    /// Lower bounds of times that the server ensures, in the report's units.
    pub(crate) least: &'static [(&'static str, f64)],
    /// Interrupt the run with Ctrl-C after this time, in ms.
    pub(crate) interrupted_ms: Option<u64>,
    /// The maximum number of open descriptors.
    pub(crate) descriptors: Option<u32>,
}

impl Case {
    const fn new(name: &'static str, args: &'static [&'static str]) -> Self {
        Self {
            name,
            args,
            files: &[],
            better: &[],
            least: &[],
            interrupted_ms: None,
            descriptors: None,
        }
    }

    const fn file(mut self, files: &'static [(&'static str, &'static str)]) -> Self {
        self.files = files;
        self
    }

    const fn least(mut self, times: &'static [(&'static str, f64)]) -> Self {
        self.least = times;
        self
    }

    const fn better(mut self, fields: &'static [&'static str]) -> Self {
        self.better = fields;
        self
    }
}

/// The POST of the guide on services that need parameters.
const POST: &[(&str, &str)] = &[("post", "/ method=POST contents=\"param1=abc&param2=def\"\n")];
const FORM: &str = "--add-header=Content-Type: application/x-www-form-urlencoded\\n";
/// The example of the manual, with shorter pauses.
const MANUAL: &[(&str, &str)] = &[(
    "sess",
    "# session 1\n/foo.html think=0.1\n\t/pict1.gif\n\t/pict2.gif\n\
     /foo2.html method=POST contents='Post data'\n\t/pict3.gif\n\n# session 2\n\
     /foo3.html method=POST contents=\"Multiline\\ndata\"\n/foo4.html method=HEAD\n",
)];
const QUOTES: &[(&str, &str)] = &[(
    "quotes",
    "/a method=POST contents=plain'sin\"gle'\"dou'ble\"\\ end\\n\\ttab\\q\n\
     /b contents=\"\" method=DELETE think=0s\r\n   /c method=PUT contents=\"two\\\nlines\"\n\n\n\
     /d method=OPTIONS\n/e method=TRACE contents='\\r'\n\n",
)];
const STATUSES: &[(&str, &str)] = &[("mix", "/s200\n/s302\n/s404\n/s500\n/s204\n/s304\n")];
const NUL: &[(&str, &str)] = &[("nul", "/a\0/b\0\0/c\0")];
/// The times if a connect was refused: the original counts it as a connect.
const REFUSED: &[&str] = &["connect", "burst"];
/// The original takes any line for a reply with status 599.
const GARBAGE: &[&str] =
    &["replies", "conn_length", "header", "reply_size", "s5xx", "errors", "other"];
/// The original takes it for a complete reply. Neither reports errors.
const CUT_BODY: &[&str] = &["replies", "conn_length", "header", "content", "reply_size", "s2xx"];

/// The requests of one connection after another, or at a rate.
pub(crate) const REQUESTS: [Case; 42] = [
    Case::new("one", &[]),
    Case::new("rate", &["--hog", "--num-conns=20", "--num-calls=3", "--rate=100", "--timeout=5"]),
    Case::new("slow", &["--uri=/delay60", "--num-conns=5", "--num-calls=2"]).least(&[
        ("response", 60.0),
        ("life_min", 120.0),
        ("duration", 0.6),
    ]),
    Case::new("slow at a rate", &["--uri=/delay90", "--num-conns=20", "--rate=50"]).least(&[
        ("response", 90.0),
        ("life_min", 90.0),
        ("duration", 0.47),
    ]),
    Case::new("burst", &["--uri=/delay50", "--num-calls=4", "--burst-length=4"])
        .least(&[("response", 125.0), ("life_min", 200.0)]),
    Case::new("bursts", &["--num-calls=12", "--burst-length=4", "--num-conns=3"]),
    Case::new("burst of more", &["--num-calls=3", "--burst-length=8", "--num-conns=2"]),
    Case::new("sample", &["--num-conns=58", "--rate=10", "-v"]).least(&[("duration", 5.7)]),
    Case::new("refused", &["--port=@DEAD@", "--num-conns=5", "--rate=100"]).better(REFUSED),
    Case::new("refused in turn", &["--port=@DEAD@", "--num-conns=5"]).better(REFUSED),
    Case::new("silent", &["--uri=/hang", "--num-conns=4", "--rate=20", "--timeout=0.5"])
        .least(&[("duration", 0.65)]),
    Case::new("silent in turn", &["--uri=/hang", "--num-conns=3", "--timeout=0.2"])
        .least(&[("duration", 0.6)]),
    Case::new("think", &["--uri=/delay300", "--timeout=0.2", "--think-timeout=0.8"])
        .least(&[("response", 300.0)]),
    Case::new("think alone", &["--uri=/hang", "--think-timeout=0.3", "--num-conns=2"])
        .least(&[("duration", 0.6)]),
    Case::new("chunked", &["--uri=/chunkedtrailer", "--num-conns=2", "--num-calls=6"]),
    Case::new("chunked bursts", &["--uri=/chunks", "--num-calls=6", "--burst-length=3"]),
    Case::new("slow chunks", &["--uri=/slowchunks80", "--num-calls=3"])
        .least(&[("life_min", 240.0)]),
    Case::new("slow body", &["--uri=/twice80", "--num-calls=3"]).least(&[("life_min", 240.0)]),
    Case::new("large", &["--uri=/size300000", "--num-calls=3", "--num-conns=2"]),
    Case::new("to the end", &["--uri=/eof", "--num-conns=3"]),
    Case::new("old server", &["--uri=/old", "--num-conns=3", "--http-version=1.0"]),
    Case::new("empty", &["--uri=/empty", "--num-conns=3", "--num-calls=2"]),
    Case::new("reset", &["--uri=/reset", "--num-conns=3", "--num-calls=2"]),
    Case::new("cut head", &["--uri=/cut", "--num-conns=2"]),
    Case::new("cut chunk", &["--uri=/cutchunk", "--num-conns=2"]),
    Case::new("cut body", &["--uri=/trunc", "--num-conns=2"]).better(CUT_BODY),
    Case::new("not http", &["--uri=/garbage", "--num-conns=2"]).better(GARBAGE),
    Case::new("many headers", &["--uri=/many", "--num-calls=3"]),
    Case::new("head", &["--method=HEAD", "--num-calls=4"]),
    Case::new("no content", &["--uri=/s204", "--num-calls=3"]),
    Case::new("not found", &["--uri=/s404", "--num-calls=3", "--num-conns=2"]),
    Case::new("http 1.0", &["--http-version=1.0", "--num-calls=3", "--num-conns=2"]),
    Case::new("header", &["--add-header=A: b\\nC: d\\n", "--num-calls=2"]),
    Case::new("buffers", &["--send-buffer=8192", "--recv-buffer=32768", "--close-with-reset"]),
    Case::new("name", &["--server-name=www.example.com", "--num-calls=2"]),
    Case::new("poisson", &["--num-conns=6", "--period=e0.05", "-vvv"]),
    Case::new("uniform", &["--num-conns=6", "--period=u0.01,0.09", "--client=1/2", "-vvv"]),
    Case::new("period", &["--num-conns=6", "--period=d0.03"]),
    Case::new("lifetimes", &["--num-conns=20", "--num-calls=4", "--rate=200", "-vv"]),
    Case::new("wset", &["--wset=1024,0.5", "--num-conns=6", "--uri=/w", "--client=1/4", "-v"]),
    Case::new(
        "abbreviated",
        &["--num-conn", "3", "word", "--num-call", "4", "--ra", "50", "--burst-len", "2", "--verb"],
    ),
    Case {
        interrupted_ms: Some(700),
        ..Case::new("Ctrl-C", &["--num-conns=1000", "--rate=10", "--num-calls=2"])
    },
];

/// Sessions.
pub(crate) const SESSIONS: [Case; 20] = [
    Case::new("post", &["--hog", FORM, "--wsesslog=20,0,post"]).file(POST),
    Case::new("statuses", &["--wsesslog=2,0,mix"]).file(STATUSES),
    Case::new("manual", &["--wsesslog=3,0.05,sess", "--rate=10", "-v"])
        .least(&[("duration", 0.3), ("sess_life", 0.1)])
        .file(MANUAL),
    Case::new("quotes", &["--wsesslog=2,0,quotes"]).file(QUOTES),
    Case::new("wsess", &["--wsess=6,4,0.1", "--rate=10", "--burst-length=2", "-v"]).least(&[
        ("duration", 0.6),
        ("life_min", 100.0),
        ("sess_life", 0.1),
    ]),
    Case::new("in turn", &["--wsess=3,4,0.05", "--burst-length=4", "--uri=/delay20"]).least(&[
        ("response", 20.0),
        ("life_min", 80.0),
        ("sess_life", 0.1),
    ]),
    Case::new("last of one", &["--wsess=2,5,0", "--burst-length=2"]),
    Case::new("none", &["--wsess=2,0,0"]),
    Case::new("failure", &["--wsess=4,6,0", "--uri=/evenfail", "--failure-status=503"]),
    Case::new("long", &["--wsess=2,200,0", "--burst-length=50"]),
    Case::new(
        "like a browser",
        &["--wsess=2,5,0", "--burst-length=5", "--max-connections=4", "--max-piped-calls=1"],
    ),
    Case::new("http 1.0", &["--wsess=2,3,0", "--http-version=1.0"]),
    Case::new("never answers", &["--wsess=3,3,0", "--uri=/empty"]),
    Case::new("silent", &["--wsess=3,3,0", "--uri=/hang", "--rate=20", "--timeout=0.3"]),
    Case::new("cookies off", &["--wsess=2,3,0", "--uri=/cookie"]),
    Case::new("pauses", &["--wsess=4,3,0.1", "--rate=40"])
        .least(&[("life_min", 200.0), ("sess_life", 0.2)]),
    Case::new("poisson", &["--wsess=5,2,0", "--period=e0.04", "-vvv"]),
    Case::new("octal", &["--wsess=0x2,03,0"]),
    Case::new("nobody", &["--wsess=3,2,0", "--port=@DEAD@"]).better(REFUSED),
    Case::new("list", &["--wsess=2,4,0", "--wlog=y,nul", "--uri=/x"]).file(NUL),
];

/// Printed requests and replies must be identical to the last blank.
pub(crate) const PRINTED: [Case; 6] = [
    Case::new("all", &["--uri=/chunkedtrailer", "--print-request", "--print-reply", "-d0"]),
    Case::new("requests", &["--print-request=header", "--num-calls=3", "--num-conns=2"]),
    Case::new("replies", &["--print-reply=header", "--num-calls=3", "--uri=/s404"]),
    Case::new("bodies", &["--print-reply=body", "--num-calls=2", "--num-conns=2"]),
    Case::new("sessions", &["--wsesslog=2,0,sess", "--print-request=header"]).file(MANUAL),
    Case::new("method", &["--method=POST", "--print-request", "--add-header=A: b\\n"]),
];

/// Unusual requests.
pub(crate) const WIRE: [Case; 10] = [
    Case::new("escapes", &["--add-header=A: \\\\b\\a\\101\\1011c\\r\\n\\n", "--num-calls=2"]),
    Case::new("unknown escape", &["--add-header=A: \\b\\n"]),
    Case::new("blank in a path", &["--uri=/a b"]),
    Case::new("no path", &["--uri="]),
    Case::new("query", &["--uri=/x?a=1&b=%20#c"]),
    Case::new("any method", &["--method=BREW"]),
    Case::new("no method", &["--method="]),
    Case::new("header and http 1.0", &["--http-version=1.0", "--add-header=A: b\\n"]),
    Case::new("bursts", &["--wsess=2,6,0", "--burst-length=3", "--uri=/delay5"]),
    Case::new("name", &["--server-name=a.example", "--wsesslog=1,0,post"]).file(POST),
];

/// Cookies.
pub(crate) const COOKIES: [Case; 4] = [
    Case::new("one", &["--wsess=2,3,0", "--uri=/cookie", "--session-cookies"]),
    Case::new("printed", &["--wsess=2,3,0", "--uri=/cookie", "--session-cookies", "--print-req=h"]),
    Case::new(
        "and a header",
        &["--wsess=1,3,0", "--uri=/cookie", "--session-cookies", "--add-header=A: b\\n"],
    ),
    Case::new("and a body", &[FORM, "--session-cookies", "--wsesslog=2,0,cookies"])
        .file(&[("cookies", "/cookie method=POST contents=a=1\n/cookie contents='b=2'\n")]),
];
