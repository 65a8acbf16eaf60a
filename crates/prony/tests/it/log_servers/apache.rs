//! Apache before a server, and with long downloads of its own.

use std::fs;
use std::time::Duration;

use super::backend::Backend;
use super::{Known, Request, check, requests, send, wait_for_lines};
use crate::rig::{Other, have, side_by_side};

/// The formats, and the resolution of their times in microseconds.
const FORMATS: [(&str, &str, u64); 5] = [
    ("common", "%h %l %u %t \"%r\" %>s %b", 1_000_000),
    ("combined", "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"", 1_000_000),
    ("micros", "%a %{usec}t %D \"%r\" %>s \"%{User-Agent}i\"", 1),
    ("ends", "\"%{User-Agent}i\" %{end:msec}t %D %>s %r", 1_000),
    ("parts", "%{sec}t.%{msec_frac}t|%m|%{Cookie}i|\"%r\"|%T|%{us}T|%s", 1_000),
];

fn config(backend: &Backend) -> String {
    let quoted = |format: &str| format.replace('"', "\\\"");
    let logs: String = FORMATS
        .iter()
        .map(|(name, format, _)| format!("CustomLog @DIR@/{name}.log \"{}\"\n", quoted(format)))
        .collect();
    let modules = "/usr/lib/apache2/modules";
    let load: String = ["mpm_event", "authz_core", "headers", "proxy", "proxy_http"]
        .map(|name| format!("LoadModule {name}_module {modules}/mod_{name}.so\n"))
        .concat();
    format!(
        "{load}
ServerRoot @DIR@
ServerName localhost
PidFile @DIR@/pid
ErrorLog @DIR@/error.log
Listen 127.0.0.1:@PORT@
StartServers 1
HttpProtocolOptions Unsafe
AllowEncodedSlashes NoDecode
MergeSlashes Off
LimitRequestLine 16000
{logs}
DocumentRoot @DIR@
<Location /download/>
    Header set X-Slowly 1
</Location>
ProxyPass /download/ !
ProxyPass / http://127.0.0.1:{}/ nocanon
",
        backend.port
    )
}

#[test]
fn logs_of_apache() {
    if !have("apache2") {
        return;
    }
    let backend = Backend::start();
    let server = Other::start("apache2", &["-DFOREGROUND", "-f"], &config(&backend));
    fs::create_dir_all(server.file("download")).expect("a folder");
    fs::write(server.file("download/a"), vec![b'x'; 8 << 20]).expect("written");
    let download =
        |i| Request { method: "GET".to_owned(), target: format!("/download/a?{i}").into_bytes() };
    let mut all = requests(|_| true);
    all.insert(5, download(1));
    all.insert(20, download(2));
    let sent = send(server.port, &all, Some(&backend));
    side_by_side(FORMATS, |(name, format, micros)| {
        let log = server.file(&format!("{name}.log"));
        wait_for_lines(&log, sent.len());
        let format = (name != "combined").then_some(format);
        let step = Duration::from_micros(micros);
        check("apache", &log, &sent, Known { format, step, ..Known::default() });
    });
}
