//! The real binary over TLS: with nginx and every driver, and with faulty servers.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use std::thread;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use tempfile::TempDir;

use crate::rig::{Other, Report, Serve, alone, drivers, have, measure, prony};
use crate::scripted::{Scripted, send};

/// A CA, a server certificate, an expired one and a client certificate, as PEM files.
pub(crate) struct Certificates(TempDir);

impl Certificates {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "prony test authority");
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"));
        let ca = ca.expect("an authority");
        let certificates = Self(folder);
        certificates.write("ca.pem", &ca.pem());
        // As `openssl req -x509` makes one: its own authority.
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["localhost".into()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = params.self_signed(&key).expect("a certificate");
        certificates.write("own.pem", &own.pem());
        certificates.write("own.key", &key.serialize_pem());
        for (name, expired) in [("server", false), ("expired", true), ("client", false)] {
            let key = KeyPair::generate().expect("a key");
            let mut params = CertificateParams::new(vec!["localhost".into()]).expect("a name");
            params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
            if expired {
                params.not_after = rcgen::date_time_ymd(2020, 1, 1);
            }
            let cert = params.signed_by(&key, &ca).expect("a certificate");
            certificates.write(&format!("{name}.pem"), &cert.pem());
            certificates.write(&format!("{name}.key"), &key.serialize_pem());
            let both = cert.pem() + &key.serialize_pem();
            certificates.write(&format!("{name}.both.pem"), &both);
        }
        certificates
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("a file");
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }
}

const NGINX: &str = "
    access_log @DIR@/access.log;
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:@PORT@ ssl;
        ssl_certificate @CERTS@/@NAME@.pem;
        ssl_certificate_key @CERTS@/@NAME@.key;
        ssl_session_cache shared:s:1m;
        @MORE@
        location / { return 200 'hello'; }
        location /large { root @CERTS@; }
    }
";

/// Older versions of nginx need a setting for TLS 1.3.
const BOTH: &str = "ssl_protocols TLSv1.2 TLSv1.3;";

pub(crate) fn nginx(certificates: &Certificates, name: &str, more: &str) -> Other {
    let folder = certificates.0.path().to_str().expect("UTF-8");
    let config = NGINX.replace("@CERTS@", folder).replace("@NAME@", name).replace("@MORE@", more);
    certificates.write("large", &"x".repeat(40_000));
    Other::nginx(&config)
}

pub(crate) fn url(server: &Other, path: &str) -> String {
    format!("https://127.0.0.1:{}{path}", server.port)
}

fn tls(report: &Report, field: &str) -> u64 {
    report.0["measurement"]["tally"]["tls"][field].as_u64().unwrap_or(0)
}

fn reasons(report: &Report) -> String {
    report.0["measurement"]["tally"]["tls"]["reasons"].to_string()
}

fn log(server: &Other, name: &str) -> String {
    fs::read_to_string(server.file(name)).unwrap_or_default()
}

#[test]
fn counters_agree_with_nginx() {
    if !have("nginx") {
        return;
    }
    let _alone = alone();
    let certificates = Certificates::new();
    let ca = certificates.path("ca.pem");
    for driver in drivers() {
        for version in ["1.2", "1.3"] {
            let server = nginx(&certificates, "server", BOTH);
            let base = ["--cacert", &ca, "--driver", driver, "--tls", version, "-t", "1"];
            let kept =
                measure(&[&base[..], &["-c", "5", "-n", "500", &url(&server, "/")]].concat());
            kept.check_sums();
            assert_eq!((kept.count("replies"), kept.count("connected")), (500, 5));
            assert_eq!((tls(&kept, "full"), tls(&kept, "resumed")), (5, 0), "{driver} {version}");
            assert_eq!(kept.0["measurement"]["times"]["handshake"]["count"], 5);
            let kinds = kept.0["measurement"]["tally"]["tls"]["kinds"].to_string();
            assert!(kinds.contains(&format!("TLS {version}")), "{kinds}");

            let large = url(&server, "/large");
            let fresh =
                measure(&[&base[..], &["-c", "1", "-n", "50", "--no-reuse", &large]].concat());
            assert_eq!((fresh.count("replies"), fresh.count("bytes_body")), (50, 2_000_000));
            assert_eq!(
                (tls(&fresh, "full"), tls(&fresh, "resumed")),
                (1, 49),
                "{driver} {version}"
            );
            let off = ["-c", "1", "-n", "20", "--no-reuse", "--tls-resume", "off", &large];
            let off = measure(&[&base[..], &off].concat());
            assert_eq!((tls(&off, "full"), tls(&off, "resumed")), (20, 0), "{driver} {version}");

            let lines = log(&server, "access.log").lines().count();
            assert_eq!(lines, 570, "{driver} {version}");
            // The first connection checked whether the server listens.
            let errors = log(&server, "error.log");
            let mut bad = errors.lines().filter(|l| l.contains("SSL") && !l.contains("*1 "));
            assert_eq!(bad.next(), None, "{driver} {version}");
        }
    }
}

#[test]
fn mixed_with_plain_connections_and_in_an_open_loop() {
    if !have("nginx") {
        return;
    }
    let certificates = Certificates::new();
    let server = nginx(&certificates, "server", BOTH);
    let plain = Serve::start(&[]);
    let (ca, secured) = (certificates.path("ca.pem"), url(&server, "/"));
    for load in [&["-c", "3", "-n", "60"][..], &["-r", "500", "-n", "60"]] {
        let urls = ["--cacert", &ca, &secured, &plain.url("/")];
        let report = measure(&[load, &urls].concat());
        report.check_sums();
        assert_eq!(report.count("replies"), 60);
        assert!(tls(&report, "full") > 0 && tls(&report, "full") < report.count("connected"));
    }
}

#[test]
fn counts_failed_handshakes_by_reason() {
    if !have("nginx") {
        return;
    }
    let certificates = Certificates::new();
    let ca = certificates.path("ca.pem");
    let good = nginx(&certificates, "server", "ssl_protocols TLSv1.2;");
    let expired = nginx(&certificates, "expired", "");
    let (good, expired) = (url(&good, "/"), url(&expired, "/"));
    let cases: [(&[&str], &str); 6] = [
        (&[&good], "has an unknown issuer"),
        (&["--cacert", &ca, "--sni", "example.org", &good], "is for localhost"),
        (&["--cacert", &ca, &expired], "has expired"),
        (&["--cacert", &ca, "--tls", "1.3", &good], "protocol_version"),
        (&["-k", "--ciphers", "ECDHE-RSA-AES128-GCM-SHA256", &good], "handshake_failure"),
        (&["-k", "--groups", "X25519MLKEM768", &good], "handshake_failure"),
    ];
    for (args, why) in cases {
        let ended = prony(&[&["-c", "2", "-n", "6", "--json", "--quiet"], args].concat());
        assert_eq!(ended.code, 1, "{ended:?}");
        let report = ended.report();
        report.check_sums();
        assert_eq!(report.errors("tls-handshake"), 6, "{args:?}");
        assert!(reasons(&report).contains(why), "{args:?}: {}", reasons(&report));
    }
    for url in [&good, &expired] {
        assert_eq!(measure(&["-k", "-c", "2", "-n", "6", url]).count("replies"), 6);
    }
}

/// A self-signed certificate that is its own authority is trusted if it is named.
#[test]
fn trusts_a_named_certificate_that_is_its_own_authority() {
    if !have("nginx") {
        return;
    }
    let certificates = Certificates::new();
    let server = nginx(&certificates, "own", "");
    let run = |cacert: &str, url: &str| {
        let cacert = certificates.path(cacert);
        prony(&[
            "-n",
            "2",
            "-c",
            "1",
            "--json",
            "--quiet",
            "--accept-invalid",
            "--cacert",
            &cacert,
            url,
        ])
    };
    let local = url(&server, "/").replace("127.0.0.1", "localhost");
    let ended = run("own.pem", &local);
    assert_eq!((ended.code, ended.report().count("replies")), (0, 2), "{ended:?}");
    let other_name = url(&server, "/").replace("localhost", "127.0.0.1");
    assert!(run("own.pem", &other_name).stdout.contains("is for localhost"), "another name");
    assert_eq!(run("ca.pem", &local).report().count("replies"), 0);
}

/// The body of the reply has the selected group.
#[test]
fn uses_the_requested_key_exchange_group() {
    if !have("nginx") {
        return;
    }
    let certificates = Certificates::new();
    let curves =
        "ssl_ecdh_curve secp384r1:prime256v1; location = /group { return 200 $ssl_curve; }";
    let server = nginx(&certificates, "server", &format!("{BOTH} {curves}"));
    let url = url(&server, "/group");
    // Before TLS 1.3, the groups had to include the certificate's curve. The last case starts with
    // a group that the server refuses, so the server requests the other one.
    for (version, groups, taken) in [
        ("1.2", "x25519,P-256", "prime256v1"),
        ("1.3", "P-256", "prime256v1"),
        ("1.3", "secp384r1", "secp384r1"),
        ("1.3", "x25519:P-256", "prime256v1"),
    ] {
        let args = ["-k", "-c", "2", "-n", "6", "--no-reuse", "--tls", version];
        let expected = ["--groups", groups, "--expect-body", taken, &url];
        let report = measure(&[&args[..], &expected].concat());
        assert_eq!(report.count("replies"), 6, "{groups} {version}: {:#}", report.0);
    }
}

#[test]
fn sends_client_certificates() {
    if !have("nginx") {
        return;
    }
    let certificates = Certificates::new();
    let ca = certificates.path("ca.pem");
    let more = format!("ssl_client_certificate {ca}; ssl_verify_client on;");
    let server = nginx(&certificates, "server", &more);
    let base = ["--cacert", &ca, "-c", "2", "-n", "6"];
    let (cert, key) = (certificates.path("client.pem"), certificates.path("client.key"));
    let with =
        measure(&[&base[..], &["--cert", &cert, "--key", &key, &url(&server, "/")]].concat());
    assert_eq!(with.status(200), 6);
    let without = prony(&[&base[..], &["--json", "--quiet", &url(&server, "/")]].concat());
    assert_eq!(without.report().status(400), 6);
}

#[test]
fn writes_keys_to_sslkeylogfile() {
    if !have("nginx") {
        return;
    }
    let certificates = Certificates::new();
    let server = nginx(&certificates, "server", BOTH);
    let keys = certificates.path("keys.log");
    let mut command = crate::rig::command(&["-k", "-c", "1", "-n", "1", &url(&server, "/")]);
    let ended = command.env("SSLKEYLOGFILE", &keys).output().expect("the binary starts");
    assert!(ended.status.success());
    assert!(fs::read_to_string(keys).expect("keys").contains("CLIENT_TRAFFIC_SECRET_0 "));
}

/// A server that sends the same bytes on every connection, then closes.
fn saying(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut hello = [0; 4096];
            let _ = stream.read(&mut hello);
            let _ = stream.write_all(bytes);
        }
    });
    format!("https://{address}/")
}

#[test]
fn peers_without_tls_do_not_block_a_run() {
    let cases: [(&[u8], &str); 4] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS"),
        (b"", "during the handshake"),
        (b"\x16\x03\x03\x00\x20half", "during the handshake"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "internal_error"),
    ];
    for driver in drivers() {
        for (bytes, why) in cases {
            let args = ["-k", "-c", "2", "-n", "20", "--driver", driver, "--json", "--quiet"];
            let ended = prony(&[&args[..], &[&saying(bytes)]].concat());
            let report = ended.report();
            report.check_sums();
            assert_eq!(report.errors("tls-handshake"), 20, "{driver} {why}: {}", reasons(&report));
            assert!(reasons(&report).contains(why), "{driver} {why}: {}", reasons(&report));
        }
    }
}

#[test]
fn names_malformed_files() {
    let certificates = Certificates::new();
    certificates.write("empty.pem", "");
    let path = |name: &str| certificates.path(name);
    let url = "https://127.0.0.1:1/";
    let cases: [(&[&str], &str); 7] = [
        (&["--cacert", &path("none.pem")], "--cacert"),
        (&["--cacert", &path("empty.pem")], "there is no certificate in it"),
        (&["--cert", &path("client.pem")], "name its file with --key"),
        (&["--cert", &path("client.pem"), "--key", &path("server.key")], "do not match"),
        (&["--groups", "P-384,sect163k1"], "'sect163k1' is not a supported key exchange group"),
        (&["--ciphers", "RC4-MD5"], "the supported ones are TLS_AES_128_GCM_SHA256"),
        (&["--tls", "1.2", "--ciphers", "TLS_AES_256_GCM_SHA384"], "is of TLS 1.2"),
    ];
    for (args, why) in cases {
        let ended = prony(&[args, &[url]].concat());
        assert_eq!((ended.code, ended.stderr.lines().count()), (2, 1), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(why), "{args:?}: {}", ended.stderr);
    }
    let ended = prony(&["--tls", "1.3", "http://127.0.0.1:1/"]);
    assert!(ended.code == 2 && ended.stderr.contains("no target uses TLS"), "{ended:?}");
}

#[test]
fn a_server_that_expects_tls_is_named() {
    let server = Serve::start(&["--tls"]);
    let plain = prony(&["-n", "5", "-c", "1", &server.url("/").replace("https://", "http://")]);
    assert_eq!(plain.code, 1, "{plain:?}");
    let words: Vec<&str> = plain.stdout.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("the server speaks TLS at this port: use https://"), "{plain:?}");
    assert!(words.contains(r#"first: "\x15\x03\x03"#), "{plain:?}");
    // What other servers say is shown, and no such hint.
    for (says, shown) in [
        ("hello\r\n\r\n", r#"first: "hello\r\n\r\n" after"#),
        ("SSH-2.0-x\r\n", r#"first: "SSH-2.0-x\r\n" after"#),
        ("\u{1b}[31m", r#"first: "\x1b[31m" after"#),
    ] {
        let other = Scripted::start(move |_, _| send(says));
        let ended = prony(&["-n", "5", "-c", "1", &format!("http://127.0.0.1:{}/", other.port)]);
        assert!(ended.stdout.contains("bad-status-line"), "{ended:?}");
        assert!(ended.stdout.contains(shown), "{ended:?}");
        assert!(!ended.stdout.contains("https://"), "{ended:?}");
    }
    // A server of HTTP/2 without TLS, whose settings come before any reply.
    let settings = "\0\0\u{6}\u{4}\0\0\0\0\0\0\u{3}\0\0\0d";
    let http2 = Scripted::start(move |_, _| send(settings));
    let ended = prony(&["-n", "5", "-c", "1", &format!("http://127.0.0.1:{}/", http2.port)]);
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("HTTP/2 without TLS at this port: use --h2c"), "{ended:?}");
}
