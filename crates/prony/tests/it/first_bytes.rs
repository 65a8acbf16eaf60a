//! Replies that are wrong from their first byte on: the fault is the same over plain HTTP/1.1, over
//! HTTP/1.1 because a server does not know HTTP/2, and in the handshake of WebSocket.

use crate::rig::{Other, have, prony};
use crate::tls::Certificates;

/// Sends the same bytes to every client that has sent something; over TLS if it has a certificate.
const SERVER: &str = r#"
import socket, ssl, threading

NAME = "@NAME@"

def serve(client):
    try:
        if NAME:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(NAME + ".pem", NAME + ".key")
            context.set_alpn_protocols(["http/1.1"])
            client = context.wrap_socket(client, server_side=True)
        if client.recv(65536):
            client.sendall(b"no status line\r\n\r\n")
            client.recv(65536)
    except OSError:
        pass
    client.close()

listener = socket.create_server(("127.0.0.1", @PORT@))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

#[test]
fn faults_in_the_first_byte_have_their_names() {
    if !have("python3") {
        return;
    }
    let certificates = Certificates::new();
    let name = certificates.path("server");
    let rows: [(&str, &str, &[&str]); 3] =
        [("http", "", &[]), ("https", &name, &["-k", "--http2"]), ("ws", "", &[])];
    for (scheme, name, more) in rows {
        let server = Other::start("python3", &[], &SERVER.replace("@NAME@", name));
        let url = format!("{scheme}://127.0.0.1:{}/", server.port);
        let load = ["-n", "3", "-c", "1", "--timeout", "20s", "--json", "--quiet", &url];
        let report = prony(&[&load[..], more].concat()).report();
        report.check_sums();
        let errors = &report.0["measurement"]["errors"];
        assert_eq!(report.errors("bad-status-line"), 3, "{scheme}: {errors:#}");
        assert_eq!((report.count("failed"), report.count("retries")), (3, 0), "{scheme}");
    }
}
