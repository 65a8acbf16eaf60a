//! What the options of curl mean for a request. The list has those of curl 8, in the order of their
//! names.

/// What an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// It is about curl's output, or its own doings: the request is the same.
    Nothing,
    /// What is not the same, and why.
    Note(&'static str),
    /// It changes the request.
    Set(Setting),
    /// The options after it are for other URLs.
    Next,
    /// curl sends nothing.
    Stop,
}

/// What an option changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Method,
    Url,
    Header,
    Agent,
    Referer,
    Range,
    Continue,
    User,
    Bearer,
    Cookie,
    Data,
    Raw,
    Binary,
    Encoded,
    Query,
    Json,
    Form,
    FormText,
    Upload,
    Target,
    Scheme,
    Get,
    Head,
    GlobOff,
    Insecure,
    Http2,
    Compressed,
    PathAsIs,
    FormEscape,
}

#[derive(Debug, PartialEq)]
pub(super) struct CurlOption {
    /// Without its dashes.
    pub(super) name: &'static str,
    /// `-` if it has none.
    letter: char,
    pub(super) has_value: bool,
    pub(super) does: Does,
}

use Does::{Next, Note, Nothing, Set, Stop};
use Setting::{
    Agent, Bearer, Binary, Compressed, Continue, Cookie, Data, Encoded, Form, FormEscape, FormText,
    Get, GlobOff, Head, Header, Http2, Insecure, Json, Method, PathAsIs, Query, Range, Raw,
    Referer, Scheme, Target, Upload, Url, User,
};

const TIMES: &str = "time limits are options of the load (--timeout)";
const RETRIES: &str = "failed requests are counted, not retried";
const PROXY: &str = "a proxy is an option of the load (--proxy)";
const ADDRESS: &str = "other addresses are an option of the load (--connect-to)";
const LOCAL: &str = "the local address is not that of the machine that recorded";
const RATE: &str = "how fast requests follow each other is set in the plan";
const CLIENT: &str = "client certificates are options of the load (--cert, --key)";
const TLS: &str = "TLS settings are options of the load";
const CONFIG: &str = "configuration files are not read";
const NETRC: &str = "files with passwords are not read";
const REDIRECTS: &str = "redirects are not followed";
const CHALLENGE: &str = "this kind of authentication is not imported";
const CONDITION: &str = "conditions on the time or the tag of a file are not imported";
const VERSION: &str = "the version of HTTP is set in the plan";
const CODING: &str = "the request is sent without this coding";
const NEWER: &str = "this option is not imported";

const fn value(name: &'static str, letter: char, does: Does) -> CurlOption {
    CurlOption { name, letter, has_value: true, does }
}

const fn flag(name: &'static str, letter: char, does: Does) -> CurlOption {
    CurlOption { name, letter, has_value: false, does }
}

static OPTIONS: [CurlOption; 271] = [
    value("abstract-unix-socket", '-', Note(ADDRESS)),
    flag("alpn", '-', Nothing),
    value("alt-svc", '-', Nothing),
    flag("anyauth", '-', Note(CHALLENGE)),
    flag("append", 'a', Nothing),
    value("aws-sigv4", '-', Note(CHALLENGE)),
    flag("basic", '-', Nothing),
    flag("buffer", '-', Nothing),
    flag("ca-native", '-', Note(TLS)),
    value("cacert", '-', Note(TLS)),
    value("capath", '-', Note(TLS)),
    value("cert", 'E', Note(CLIENT)),
    flag("cert-status", '-', Note(TLS)),
    value("cert-type", '-', Note(CLIENT)),
    value("ciphers", '-', Note(TLS)),
    flag("clobber", '-', Nothing),
    flag("compressed", '-', Set(Compressed)),
    flag("compressed-ssh", '-', Nothing),
    value("config", 'K', Note(CONFIG)),
    value("connect-timeout", '-', Note(TIMES)),
    value("connect-to", '-', Note(ADDRESS)),
    value("continue-at", 'C', Set(Continue)),
    value("cookie", 'b', Set(Cookie)),
    value("cookie-jar", 'c', Nothing),
    flag("create-dirs", '-', Nothing),
    value("create-file-mode", '-', Nothing),
    flag("crlf", '-', Note(CODING)),
    value("crlfile", '-', Note(TLS)),
    value("curves", '-', Note(TLS)),
    value("data", 'd', Set(Data)),
    value("data-ascii", '-', Set(Data)),
    value("data-binary", '-', Set(Binary)),
    value("data-raw", '-', Set(Raw)),
    value("data-urlencode", '-', Set(Encoded)),
    value("delegation", '-', Note(CHALLENGE)),
    flag("digest", '-', Note(CHALLENGE)),
    flag("disable", 'q', Nothing),
    flag("disable-eprt", '-', Nothing),
    flag("disable-epsv", '-', Nothing),
    flag("disallow-username-in-url", '-', Nothing),
    value("dns-interface", '-', Note(ADDRESS)),
    value("dns-ipv4-addr", '-', Note(ADDRESS)),
    value("dns-ipv6-addr", '-', Note(ADDRESS)),
    value("dns-servers", '-', Note(ADDRESS)),
    flag("doh-cert-status", '-', Note(ADDRESS)),
    flag("doh-insecure", '-', Note(ADDRESS)),
    value("doh-url", '-', Note(ADDRESS)),
    value("dump-header", 'D', Nothing),
    value("ech", '-', Note(TLS)),
    value("egd-file", '-', Nothing),
    value("engine", '-', Note(TLS)),
    flag("eprt", '-', Nothing),
    flag("epsv", '-', Nothing),
    value("etag-compare", '-', Note(CONDITION)),
    value("etag-save", '-', Nothing),
    value("expect100-timeout", '-', Nothing),
    flag("fail", 'f', Nothing),
    flag("fail-early", '-', Nothing),
    flag("fail-with-body", '-', Nothing),
    flag("false-start", '-', Note(TLS)),
    flag("follow", '-', Note(REDIRECTS)),
    value("form", 'F', Set(Form)),
    flag("form-escape", '-', Set(FormEscape)),
    value("form-string", '-', Set(FormText)),
    value("ftp-account", '-', Nothing),
    value("ftp-alternative-to-user", '-', Nothing),
    flag("ftp-create-dirs", '-', Nothing),
    value("ftp-method", '-', Nothing),
    flag("ftp-pasv", '-', Nothing),
    value("ftp-port", 'P', Nothing),
    flag("ftp-pret", '-', Nothing),
    flag("ftp-skip-pasv-ip", '-', Nothing),
    flag("ftp-ssl-ccc", '-', Nothing),
    value("ftp-ssl-ccc-mode", '-', Nothing),
    flag("ftp-ssl-control", '-', Nothing),
    flag("get", 'G', Set(Get)),
    flag("globoff", 'g', Set(GlobOff)),
    value("happy-eyeballs-timeout-ms", '-', Nothing),
    value("haproxy-clientip", '-', Note(PROXY)),
    flag("haproxy-protocol", '-', Note(PROXY)),
    flag("head", 'I', Set(Head)),
    value("header", 'H', Set(Header)),
    flag("help", 'h', Stop),
    value("hostpubmd5", '-', Nothing),
    value("hostpubsha256", '-', Nothing),
    value("hsts", '-', Nothing),
    flag("http0.9", '-', Nothing),
    flag("http1.0", '0', Note(VERSION)),
    flag("http1.1", '-', Nothing),
    flag("http2", '-', Set(Http2)),
    flag("http2-prior-knowledge", '-', Set(Http2)),
    flag("http3", '-', Note(VERSION)),
    flag("http3-only", '-', Note(VERSION)),
    flag("ignore-content-length", '-', Nothing),
    flag("include", 'i', Nothing),
    flag("insecure", 'k', Set(Insecure)),
    value("interface", '-', Note(LOCAL)),
    value("ip-tos", '-', Nothing),
    value("ipfs-gateway", '-', Note(NEWER)),
    flag("ipv4", '4', Nothing),
    flag("ipv6", '6', Nothing),
    value("json", '-', Set(Json)),
    flag("junk-session-cookies", 'j', Nothing),
    flag("keepalive", '-', Nothing),
    value("keepalive-cnt", '-', Nothing),
    value("keepalive-time", '-', Nothing),
    value("key", '-', Note(CLIENT)),
    value("key-type", '-', Note(CLIENT)),
    value("krb", '-', Nothing),
    value("libcurl", '-', Nothing),
    value("limit-rate", '-', Note(RATE)),
    flag("list-only", 'l', Nothing),
    value("local-port", '-', Note(LOCAL)),
    flag("location", 'L', Note(REDIRECTS)),
    flag("location-trusted", '-', Note(REDIRECTS)),
    value("login-options", '-', Nothing),
    value("mail-auth", '-', Nothing),
    value("mail-from", '-', Nothing),
    value("mail-rcpt", '-', Nothing),
    flag("mail-rcpt-allowfails", '-', Nothing),
    flag("manual", 'M', Stop),
    value("max-filesize", '-', Nothing),
    value("max-redirs", '-', Nothing),
    value("max-time", 'm', Note(TIMES)),
    flag("metalink", '-', Nothing),
    flag("mptcp", '-', Nothing),
    flag("negotiate", '-', Note(CHALLENGE)),
    flag("netrc", 'n', Note(NETRC)),
    value("netrc-file", '-', Note(NETRC)),
    flag("netrc-optional", '-', Note(NETRC)),
    flag("next", ':', Next),
    flag("no-buffer", 'N', Nothing),
    value("noproxy", '-', Nothing),
    flag("npn", '-', Nothing),
    flag("ntlm", '-', Note(CHALLENGE)),
    flag("ntlm-wb", '-', Note(CHALLENGE)),
    value("oauth2-bearer", '-', Set(Bearer)),
    value("output", 'o', Nothing),
    value("output-dir", '-', Nothing),
    flag("parallel", 'Z', Note(RATE)),
    flag("parallel-immediate", '-', Note(RATE)),
    value("parallel-max", '-', Note(RATE)),
    value("pass", '-', Note(CLIENT)),
    flag("path-as-is", '-', Set(PathAsIs)),
    value("pinnedpubkey", '-', Note(TLS)),
    flag("post301", '-', Nothing),
    flag("post302", '-', Nothing),
    flag("post303", '-', Nothing),
    value("preproxy", '-', Note(PROXY)),
    flag("progress-bar", '#', Nothing),
    flag("progress-meter", '-', Nothing),
    value("proto", '-', Nothing),
    value("proto-default", '-', Set(Scheme)),
    value("proto-redir", '-', Nothing),
    value("proxy", 'x', Note(PROXY)),
    flag("proxy-anyauth", '-', Note(PROXY)),
    flag("proxy-basic", '-', Note(PROXY)),
    flag("proxy-ca-native", '-', Note(TLS)),
    value("proxy-cacert", '-', Note(TLS)),
    value("proxy-capath", '-', Note(TLS)),
    value("proxy-cert", '-', Note(TLS)),
    value("proxy-cert-type", '-', Note(TLS)),
    value("proxy-ciphers", '-', Note(TLS)),
    value("proxy-crlfile", '-', Note(TLS)),
    flag("proxy-digest", '-', Note(PROXY)),
    value("proxy-header", '-', Note(PROXY)),
    flag("proxy-insecure", '-', Note(TLS)),
    value("proxy-key", '-', Note(TLS)),
    value("proxy-key-type", '-', Note(TLS)),
    flag("proxy-negotiate", '-', Note(PROXY)),
    flag("proxy-ntlm", '-', Note(PROXY)),
    value("proxy-pass", '-', Note(TLS)),
    value("proxy-pinnedpubkey", '-', Note(TLS)),
    value("proxy-service-name", '-', Note(PROXY)),
    flag("proxy-ssl-allow-beast", '-', Note(TLS)),
    flag("proxy-ssl-auto-client-cert", '-', Note(TLS)),
    value("proxy-tls13-ciphers", '-', Note(TLS)),
    value("proxy-tlsauthtype", '-', Note(TLS)),
    value("proxy-tlspassword", '-', Note(TLS)),
    value("proxy-tlsuser", '-', Note(TLS)),
    flag("proxy-tlsv1", '-', Note(TLS)),
    value("proxy-user", 'U', Note(PROXY)),
    value("proxy1.0", '-', Note(PROXY)),
    flag("proxytunnel", 'p', Note(PROXY)),
    value("pubkey", '-', Nothing),
    value("quote", 'Q', Nothing),
    value("random-file", '-', Nothing),
    value("range", 'r', Set(Range)),
    value("rate", '-', Note(RATE)),
    flag("raw", '-', Nothing),
    value("referer", 'e', Set(Referer)),
    flag("remote-header-name", 'J', Nothing),
    flag("remote-name", 'O', Nothing),
    flag("remote-name-all", '-', Nothing),
    flag("remote-time", 'R', Nothing),
    flag("remove-on-error", '-', Nothing),
    value("request", 'X', Set(Method)),
    value("request-target", '-', Set(Target)),
    value("resolve", '-', Note(ADDRESS)),
    value("retry", '-', Note(RETRIES)),
    flag("retry-all-errors", '-', Note(RETRIES)),
    flag("retry-connrefused", '-', Note(RETRIES)),
    value("retry-delay", '-', Note(RETRIES)),
    value("retry-max-time", '-', Note(RETRIES)),
    value("sasl-authzid", '-', Nothing),
    flag("sasl-ir", '-', Nothing),
    value("service-name", '-', Note(CHALLENGE)),
    flag("sessionid", '-', Nothing),
    flag("show-error", 'S', Nothing),
    flag("show-headers", '-', Nothing),
    value("sigalgs", '-', Note(TLS)),
    flag("silent", 's', Nothing),
    flag("skip-existing", '-', Nothing),
    value("socks4", '-', Note(PROXY)),
    value("socks4a", '-', Note(PROXY)),
    value("socks5", '-', Note(PROXY)),
    flag("socks5-basic", '-', Note(PROXY)),
    flag("socks5-gssapi", '-', Note(PROXY)),
    flag("socks5-gssapi-nec", '-', Note(PROXY)),
    value("socks5-gssapi-service", '-', Note(PROXY)),
    value("socks5-hostname", '-', Note(PROXY)),
    value("speed-limit", 'Y', Note(TIMES)),
    value("speed-time", 'y', Note(TIMES)),
    flag("ssl", '-', Note(TLS)),
    flag("ssl-allow-beast", '-', Note(TLS)),
    flag("ssl-auto-client-cert", '-', Note(TLS)),
    flag("ssl-no-revoke", '-', Note(TLS)),
    flag("ssl-reqd", '-', Note(TLS)),
    flag("ssl-revoke-best-effort", '-', Note(TLS)),
    flag("sslv2", '2', Note(TLS)),
    flag("sslv3", '3', Note(TLS)),
    value("stderr", '-', Nothing),
    flag("styled-output", '-', Nothing),
    flag("suppress-connect-headers", '-', Nothing),
    flag("tcp-fastopen", '-', Nothing),
    flag("tcp-nodelay", '-', Nothing),
    value("telnet-option", 't', Nothing),
    value("tftp-blksize", '-', Nothing),
    flag("tftp-no-options", '-', Nothing),
    value("time-cond", 'z', Note(CONDITION)),
    flag("tls-earlydata", '-', Note(TLS)),
    value("tls-max", '-', Note(TLS)),
    value("tls13-ciphers", '-', Note(TLS)),
    value("tlsauthtype", '-', Note(TLS)),
    value("tlspassword", '-', Note(TLS)),
    value("tlsuser", '-', Note(TLS)),
    flag("tlsv1", '1', Note(TLS)),
    flag("tlsv1.0", '-', Note(TLS)),
    flag("tlsv1.1", '-', Note(TLS)),
    flag("tlsv1.2", '-', Note(TLS)),
    flag("tlsv1.3", '-', Note(TLS)),
    flag("tr-encoding", '-', Note(CODING)),
    value("trace", '-', Nothing),
    value("trace-ascii", '-', Nothing),
    value("trace-config", '-', Nothing),
    flag("trace-ids", '-', Nothing),
    flag("trace-time", '-', Nothing),
    value("unix-socket", '-', Note(ADDRESS)),
    value("upload-file", 'T', Set(Upload)),
    value("upload-flags", '-', Nothing),
    value("url", '-', Set(Url)),
    value("url-query", '-', Set(Query)),
    flag("use-ascii", 'B', Nothing),
    value("user", 'u', Set(User)),
    value("user-agent", 'A', Set(Agent)),
    value("variable", '-', Note(NEWER)),
    flag("verbose", 'v', Nothing),
    flag("version", 'V', Stop),
    value("vlan-priority", '-', Nothing),
    value("write-out", 'w', Nothing),
    flag("xattr", '-', Nothing),
];

/// The option with this letter.
pub(super) fn of_letter(letter: char) -> Option<&'static CurlOption> {
    OPTIONS.iter().find(|option| option.letter == letter && letter != '-')
}

/// The option with this name, or with one that starts so if there is only one. The second value is
/// whether it is switched off (`--no-...`).
pub(super) fn of_name(name: &str) -> Option<(&'static CurlOption, bool)> {
    let find = |name: &str| {
        let exact = OPTIONS.iter().find(|option| option.name == name);
        let mut longer = OPTIONS.iter().filter(|option| option.name.starts_with(name));
        let only = longer.next().filter(|_| longer.next().is_none() && !name.is_empty());
        exact.or(only)
    };
    if let Some(option) = OPTIONS.iter().find(|option| option.name == name) {
        return Some((option, false));
    }
    let off = name.strip_prefix("no-").and_then(find).filter(|option| !option.has_value);
    off.map(|option| (option, true)).or_else(|| find(name).map(|option| (option, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_names_letters_and_negations() {
        assert!(OPTIONS.is_sorted_by(|a, b| a.name < b.name));
        let found = |name: &str| of_name(name).map(|(option, is_off)| (option.name, is_off));
        for (name, wanted) in [
            ("data", Some(("data", false))),
            ("head", Some(("head", false))),
            ("heade", Some(("header", false))),
            ("compress", None),
            ("no-compressed", Some(("compressed", true))),
            ("no-buffer", Some(("no-buffer", false))),
            ("no-data", None),
            ("", None),
            ("foo", None),
        ] {
            assert_eq!(found(name), wanted, "{name}");
        }
        assert_eq!(of_letter('X').map(|option| option.name), Some("request"));
        assert_eq!(of_letter('-'), None);
    }
}
