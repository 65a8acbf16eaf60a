//! Tests over TCP: the bytes on the wire, and faulty peers of client and server.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::program::{self, LIMIT, Server};

/// The payload segments of a run of the original programs with `-s 2 -c 2`.
const WIRE: &str = include_str!("../data/ace/wire-tcp-s2-c2.txt");

const TCP: &[&str] = &["-t", "tcp"];

fn server() -> Server {
    Server::start("SOCK_STREAM_srv", TCP)
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream
}

/// The recorded bytes of the client: the header, 100 warm-up exchanges, two measured ones. The
/// recording omits the uniform part in the middle.
fn recorded() -> Vec<u8> {
    let segment = |line: &str| -> Option<(usize, Vec<u8>)> {
        let (number, rest) = line.trim().split_once(" client>server len")?;
        let bytes = rest.split_whitespace().skip(1);
        let bytes = bytes.map(|b| u8::from_str_radix(b, 16).expect("a byte")).collect();
        Some((number.parse().expect("a number"), bytes))
    };
    let reported: Vec<_> = WIRE.lines().filter_map(segment).collect();
    let at = |n: usize| reported.iter().find(|(number, _)| *number == n).expect("listed").1.clone();
    let mut all = at(1);
    for _ in 0..100 {
        all.extend([at(2), at(3)].concat());
    }
    [all, at(302), at(304)].concat()
}

fn end_of(mut stream: &TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("an orderly end");
    rest
}

#[test]
fn the_server_replies_to_the_recorded_client() {
    let server = server();
    let mut stream = connect(&server);
    stream.write_all(&recorded()).expect("sent");
    // Two bytes for each message, then the server closes without a request to do so.
    assert_eq!(end_of(&stream), [0; 2 * 102]);
    server.wait_for("Test for 102 iterations");
    let port = stream.local_addr().expect("an address").port();
    let said = server.said();
    let expected = [
        "(P|T) Accepting connections on port 0 on interface INADDR_ANY using IPPROTO_TCP"
            .to_owned(),
        format!("(P|T) starting server at port {}", server.port),
        "(P|T) spawning server".to_owned(),
        format!("(P|T) client localhost connected from {port}"),
        "(P|T) Test for 102 iterations".to_owned(),
    ];
    assert_eq!(said, expected);
}

/// Start a server that runs a function for one client. Returns its port.
fn fake<T: Send + 'static>(
    act: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (String, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let thread = thread::spawn(move || act(listener.accept().expect("a client").0));
    (port.to_string(), thread)
}

/// Read a message and its length.
fn message(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut payload = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut payload)?;
    Ok([&length[..], &payload].concat())
}

fn client(port: &str, further: &[&str]) -> program::Ended {
    let args = ["-t", "tcp", "-H", "127.0.0.1", "-p", port, "-s", "2", "-c", "2", "-b", "2"];
    program::run("SOCK_STREAM_clt", &[&args, further].concat())
}

/// Sends exactly the bytes of the original client, except for the payload, which is random memory.
#[test]
fn the_client_sends_the_same_bytes_as_the_original() {
    let (port, thread) = fake(|mut stream| {
        let mut all = vec![0; 8];
        stream.read_exact(&mut all).expect("a header");
        for _ in 0..102 {
            all.extend(message(&mut stream).expect("a message"));
            stream.write_all(&[0, 0]).expect("answered");
        }
        // The client closes, whether the server does or not.
        all.extend(end_of(&stream));
        all
    });
    client(&port, &[]).assert_whole(2, 4);
    let mut expected = recorded();
    expected[8..].chunks_mut(8).for_each(|message| message[4..].fill(0));
    assert_eq!(thread.join().expect("no panic"), expected);
}

#[test]
fn a_reply_in_two_parts_is_joined() {
    let (port, thread) = fake(|mut stream| {
        stream.set_nodelay(true).expect("no delay");
        stream.read_exact(&mut [0; 8]).expect("a header");
        for _ in 0..102 {
            message(&mut stream).expect("a message");
            stream.write_all(&[0]).expect("half");
            thread::sleep(Duration::from_millis(1));
            stream.write_all(&[0]).expect("the other half");
        }
    });
    let ended = client(&port, &[]);
    ended.assert_whole(2, 4);
    assert!(ended.field("minimum") >= 1000.0, "{ended:?}");
    thread.join().expect("no panic");
}

/// The original client prints nothing and exits with 0; ours prints a message and fails.
#[test]
fn an_aborted_run_fails_with_a_message() {
    for (replies, what) in [(50, "the server has closed"), (101, "the server has closed")] {
        let (port, thread) = fake(move |mut stream| {
            stream.read_exact(&mut [0; 8]).expect("a header");
            for _ in 0..replies {
                message(&mut stream).expect("a message");
                stream.write_all(&[0, 0]).expect("answered");
            }
            drop(message(&mut stream));
        });
        let ended = client(&port, &[]);
        thread.join().expect("no panic");
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        let is_reported = ended.stderr.contains(what) || ended.stderr.contains("Connection reset");
        assert!(ended.stderr.starts_with("recv_n: ") && is_reported, "{ended:?}");
    }
    let (port, thread) = fake(|mut stream| {
        stream.read_exact(&mut [0; 8]).expect("a header");
        message(&mut stream).expect("a message");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("something else");
        drop(end_of(&stream));
    });
    let ended = client(&port, &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stderr.contains("more bytes than one reply"), "{ended:?}");
    drop(thread.join());
}

#[test]
fn the_header_counts_modulo_two_to_the_32() {
    let (port, thread) = fake(|mut stream| {
        let mut header = [0; 8];
        stream.read_exact(&mut header).expect("a header");
        header
    });
    let ended = client(&port, &["-c", "4294967290"]);
    assert_eq!(thread.join().expect("no panic"), [1, 0, 0, 0, 94, 0, 0, 0]);
    assert_eq!(ended.code, Some(1));
}

/// The histogram has the requested size, bins and outliers, in microseconds.
#[test]
fn a_run_has_the_requested_histogram() {
    let server = server();
    let port = server.port.to_string();
    let ended = client(&port, &["-c", "300", "-s", "10", "-M", "1", "-x", "7", "-b", "3"]);
    ended.assert_whole(300, 1024);
    let above = ended.stdout.lines().find(|l| l.contains("above")).expect("a row");
    assert!(above.contains("       1.000  -       above    :    300    1.000    1.000"), "{above}");
    let outliers = ended.stdout.split("outliers:\n").nth(1).expect("outliers");
    assert_eq!(outliers.trim().lines().count(), 7, "{ended:?}");
    // -C sets the local port.
    let free =
        TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    client(&port, &["-C", &free.to_string(), "-i", "127.0.0.1"]).assert_whole(2, 4);
    server.wait_for(&format!("connected from {free}"));
}

/// Make one exchange on a connection with this header. Returns the reply.
fn exchange(server: &Server, opening: [u8; 8], lengths: &[u32]) -> Vec<u8> {
    let mut stream = connect(server);
    stream.write_all(&opening).expect("sent");
    let mut all = Vec::new();
    for &length in lengths {
        stream.write_all(&length.to_be_bytes()).expect("sent");
        stream.write_all(&vec![7; length as usize]).expect("sent");
        let mut reply = [9; 2];
        stream.read_exact(&mut reply).expect("a reply");
        all.extend(reply);
    }
    [all, end_of(&stream)].concat()
}

#[test]
fn the_server_supports_both_byte_orders_and_any_length() {
    let server = server();
    assert_eq!(exchange(&server, [0, 0, 0, 0, 0, 0, 0, 3], &[4, 4, 4]), [0; 6]);
    assert_eq!(exchange(&server, [1, 0, 0, 0, 3, 0, 0, 0], &[0, 1, 200_000]), [0; 6]);
    // A first byte other than 0 means little-endian; the bytes after it are ignored.
    assert_eq!(exchange(&server, [7, 1, 2, 3, 1, 0, 0, 0], &[0]), [0; 2]);
}

/// Faulty clients neither stop the server nor affect correct clients.
#[test]
fn faulty_clients_do_not_affect_others() {
    let mut server = server();
    let silent = connect(&server);
    let mut half = connect(&server);
    half.write_all(&[1, 0, 0]).expect("sent");
    let mut endless = connect(&server);
    // 2^32 exchanges are announced, one is made.
    endless.write_all(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).expect("sent");
    endless.read_exact(&mut [0; 2]).expect("a reply");
    for (bytes, said) in [
        (&[1, 0, 0][..], "hdrCDR: the client ended before its header did"),
        (&[1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0], "the client is gone after 1 of 5 iterations"),
        (&[1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 9, 1], "the client is gone after 0 of 9 iterations"),
    ] {
        let mut stream = connect(&server);
        stream.write_all(bytes).expect("sent");
        stream.shutdown(Shutdown::Write).expect("ended");
        drop(end_of(&stream));
        server.wait_for(said);
    }
    let mut huge = connect(&server);
    huge.write_all(&[1, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255, 0]).expect("sent");
    drop(huge.read(&mut [0; 10]));
    server.wait_for("the client announces more than 16777216 bytes");
    let reset = socket2::Socket::from(connect(&server));
    reset.send(&[1, 0, 0, 0, 9, 0, 0, 0]).expect("sent");
    server.wait_for("Test for 9 iterations");
    reset.set_linger(Some(Duration::ZERO)).expect("a reset");
    drop(reset);

    let port = server.port.to_string();
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| client(&port, &["-c", "20"]).assert_whole(20, 4));
        }
    });
    assert!(server.is_alive());
    drop((silent, half, endless));
}

#[test]
fn the_server_reports_missing_clients_and_invalid_addresses() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let ended = program::run("SOCK_STREAM_srv", &["-t", "tcp", "-a", "127.0.0.1", "-p", &port]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.ends_with("open: Address already in use\n"), "{ended:?}");
    let ended = program::run("SOCK_STREAM_srv", &["-t", "tcp", "-a", "10.99.99.99", "-p", "0"]);
    assert!(ended.stderr.ends_with("open: Cannot assign requested address\n"), "{ended:?}");
    assert!(ended.stderr.contains("on port 0 on interface 10.99.99.99 using IPPROTO_TCP"));
    server().wait_for("(P|T) select timed out");
}

/// 15 sizes: the file has a histogram for each, and there is a picture.
#[test]
fn a_spectrum_has_all_sizes_and_a_picture() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let config = "# \"-c 1\"\nno string\n  \"-c 20 -b 2\" \"-c 5\"\n";
    std::fs::write(folder.path().join("Run.config"), config).expect("a file");
    let args = ["--serve", "-c", "Run.config", "--nonsense", "--prot=TCP"];
    let ended = program::run_in(folder.path(), "run_spectrum", &args);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("Unknown option: nonsense"), "{ended:?}");
    assert!(ended.stdout.starts_with("Read options from Run.config: \"-c 20 -b 2\"\n\n"));
    let called = ended.stdout.lines().filter(|l| l.starts_with("SOCK_STREAM_clt -t tcp -s "));
    assert_eq!(called.count(), 15);
    let file = |ending: &str| {
        let mut all = std::fs::read_dir(folder.path()).expect("a folder");
        let path = all.find_map(|f| {
            Some(f.ok()?.path()).filter(|p| p.extension().is_some_and(|e| e == ending))
        });
        std::fs::read(path.unwrap_or_else(|| panic!("no {ending}: {ended:?}"))).expect("a file")
    };
    let text = String::from_utf8(file("spectrum")).expect("text");
    for power in 2..=16 {
        assert!(text.contains(&format!("(Message Size {},", 1 << power)), "{power}");
    }
    assert_eq!(text.matches("num_points: 20\n").count(), 15);
    assert!(String::from_utf8_lossy(&file("svg")).contains("tcp STREAM"));
    assert!(file("png").starts_with(b"\x89PNG"));
}

#[test]
fn a_spectrum_has_the_error_messages_of_the_original_script() {
    for (args, said) in [
        (&["-s", "DGRAM"][..], "Service must be STREAM or SEQPACK\n"),
        (&["-p", "udp"], "Protocol must be TCP or SCTP\n"),
        (&["-s", "SEQPACKET"], "Cannot use SEQPACK service with TCP\n"),
        (&["-c", "nowhere"], "cannot open file: nowhere\n"),
    ] {
        let ended = program::run("run_spectrum", args);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?}: {ended:?}");
        assert!(ended.stderr.starts_with(said), "{args:?}: {ended:?}");
    }
    // If a server cannot start, the message is that of the kernel without its number.
    let taken = TcpListener::bind(("0.0.0.0", 0)).expect("a listener");
    let port = taken.local_addr().expect("an address").port();
    let folder = tempfile::TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("c"), format!("\"-c 9 -p {port}\"")).expect("a file");
    let ended = program::run_in(folder.path(), "run_spectrum", &["--serve", "-c", "c"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.ends_with("open: Address already in use\n"), "{ended:?}");
    let ended = program::run("run_spectrum", &["--help"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stdout.contains("--config_file|-c FILE"), "{ended:?}");
}
