use super::*;

fn check(line: &str) -> Asked {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    read("h2load", &words, 4)
}

fn options(line: &str) -> Options {
    match check(line) {
        Asked::Run(options) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn reads_every_option() {
    let o = options(
        "-n 100 -c10 -t 2 -m 5 -w 20 -W 21 -f 32K -H a:b -H :path:/x --ciphers X --tls13-ciphers Y \
         --groups Z -p http/1.1 -d file --rate-period 2s -r 3 -T 1s -N 500ms -B http://h/ \
         --alpn-list=http/1.1,h2 --header-table-size 8K --encoder-header-table-size 0 \
         --log-file l --connect-to h:1 --rps 2.5 --no-udp-gso --max-udp-payload-size 1200 --sni s \
         --histogram --output-file j --output o.json --report 1.52 --no-extras -v http://h/ /k",
    );
    let expected = Options {
        requests: Some(100),
        clients: 10,
        threads: 2,
        streams: 5,
        window_bits: 20,
        connection_window_bits: 21,
        frame_size: 32_768,
        headers: vec![("a".into(), "b".into()), (":path".into(), "/x".into())],
        ciphers: Some("X".into()),
        tls13_ciphers: Some("Y".into()),
        groups: Some("Z".into()),
        plain_is_h1: true,
        data: Some("file".into()),
        rate_period: Span::from_secs(2),
        rate: Some(3),
        active_timeout: Some(Span::from_secs(1)),
        inactivity_timeout: Some(Span::from_millis(500)),
        base: Some("http://h/".into()),
        alpn: vec!["http/1.1".into(), "h2".into()],
        header_table_size: 8_192,
        encoder_table_size: 0,
        log_file: Some("l".into()),
        connect_to: Some(ConnectTo { host: "h".into(), port: Some(1) }),
        rps: Some(2.5),
        sni: Some("s".into()),
        histogram: true,
        json: Some("j".into()),
        outputs: vec!["o.json".into()],
        edition: Edition::V1_52,
        extras: false,
        verbose: true,
        uris: vec!["http://h/".into(), "/k".into()],
        ..Options::default()
    };
    assert_eq!(o, expected);
    let o = options("-D 5 --warm-up-time=1s -i urls --h1");
    assert_eq!((o.duration, o.warmup), (Some(Span::from_secs(5)), Span::from_secs(1)));
    assert_eq!((o.plain_is_h1, o.alpn), (true, vec!["http/1.1".to_owned()]));
    assert_eq!(o.input_file.as_deref(), Some("urls"));
    // Ignored without -D, as are a duration and a rate of 0.
    let o = options("--warm-up-time=1 -D 0 --rps 0 u");
    assert_eq!((o.warmup, o.duration, o.rps), (Span::ZERO, None, None));
}

/// The messages of h2load 1.52 and 1.70, recorded with these command lines.
#[test]
fn refuses_as_h2load_does() {
    for (line, message) in [
        ("", "no URI or input file given"),
        (
            "-n 0 u",
            "-n: the number of requests must be strictly greater than 0 if timing-based test is \
             not being run.",
        ),
        ("-n x u", "-n: bad option value: x"),
        ("-n -1 u", "-n: bad option value: -1"),
        ("-c 0 u", "-c: the number of clients must be strictly greater than 0."),
        (
            "-c 10 -n 5 u",
            "-n, -c: the number of requests must be greater than or equal to the clients.",
        ),
        ("-t 0 u", "-t: the number of threads must be strictly greater than 0."),
        (
            "-t 5 -c 2 -n 10 u",
            "-c, -t: the number of clients must be greater than or equal to the number of threads.",
        ),
        ("-m 0 u", "-m: the max concurrent streams must be strictly greater than 0."),
        ("-m -1 u", "-m: bad option value: -1"),
        ("-w 31 u", "-w: specify the integer in the range [0, 30], inclusive"),
        ("-W x u", "-W: specify the integer in the range [0, 30], inclusive"),
        ("-f 1K u", "--max-frame-size: minimum 16384"),
        ("-f 17M u", "--max-frame-size: maximum 16777215"),
        ("-f x u", "--max-frame-size: bad option value: x"),
        ("-H foo u", "-H: invalid header: foo"),
        ("-H :foo u", "-H: invalid header: :foo"),
        ("-H a: u", "-H: invalid header - value missing: a"),
        ("-p h2 u", "-p: unsupported protocol h2"),
        ("-r 0 u", "-r: the rate at which connections are made must be positive."),
        ("-r x u", "-r: bad option value: x"),
        (
            "-r 5 -c 2 -n 4 u",
            "-r, -c: the connection rate must be smaller than or equal to the number of clients.",
        ),
        ("-r 1 -D 1 u", "-r, -D: they are mutually exclusive."),
        ("--rate-period x u", "--rate-period: value error x"),
        ("-D x u", "-D: value error x"),
        ("--warm-up-time=x u", "--warm-up-time: value error x"),
        ("-T x u", "-T: bad value for the conn_active_timeout wait time: x"),
        ("-N -1 u", "-N: bad value for the conn_inactivity_timeout wait time: -1"),
        ("--header-table-size x u", "--header-table-size: Bad option value: x"),
        (
            "--header-table-size 5G u",
            "--header-table-size: Value too large.  It should be less than or equal to 4294967295",
        ),
        ("--encoder-header-table-size x u", "--encoder-header-table-size: Bad option value: x"),
        ("--connect-to=foo:bar u", "--connect-to: Invalid value foo:bar"),
        ("--rps=x u", "--rps: Invalid value x"),
        ("--rps=-1 u", "--rps: Invalid value -1"),
        ("--max-udp-payload-size=x u", "--max-udp-payload-size: bad option value: x"),
        ("--nosuch u", "h2load: unrecognized option '--nosuch'"),
        ("-Z u", "h2load: invalid option -- 'Z'"),
        ("-n", "h2load: option requires an argument -- 'n'"),
    ] {
        assert_eq!(check(line), Asked::Refused(message.into()), "{line}");
    }
}

#[test]
fn refuses_what_is_not_built() {
    for (line, words) in [
        ("--h3 u", "--h3: HTTP/3 is not supported yet"),
        ("--alpn-list=h2,h3 u", "--alpn-list: HTTP/3 is not supported yet"),
        ("--npn-list=h3-29 u", "--npn-list: HTTP/3 is not supported yet"),
        ("--alpn-list=foo u", "--alpn-list: no protocol of foo is supported"),
        ("--tls-session-file=s u", "--tls-session-file: sessions are not read from files"),
        ("-w 0 u", "-w: with a window of 0 bytes no server can send a body"),
        ("--report 1.60 u", "--report '1.60': the report is that of h2load 1.52 or of 1.70"),
        ("--rps 1 --timing-script-file=s", "--rps, --timing-script-file: they are mutually"),
        ("-D 1 --timing-script-file=s", "-D, --timing-script-file: prony plays a script once"),
    ] {
        match check(line) {
            Asked::Refused(message) => assert!(message.starts_with(words), "{line}: {message}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn warns_about_what_has_no_effect() {
    let o = options("--qlog-file-base=q --ktls --npn-list=h2 -t 8 -c 8 -n 8 u");
    assert_eq!(o.warnings.len(), 4, "{:?}", o.warnings);
    assert_eq!(o.warnings[0], "Warning: --qlog-file-base: only effective in quic, ignoring.");
    assert_eq!(o.warnings[2], "--npn-list: deprecated.  Use --alpn-list instead.");
    let o = options("--report 1.52 --npn-list=h2 u");
    assert_eq!(o.warnings, [""; 0]);
}

#[test]
fn abbreviations_keep_their_meaning() {
    assert_eq!(options("--requ=3 u").requests, Some(3));
    assert_eq!(options("--output-f=j u").json.as_deref(), Some("j"));
    assert_eq!(options("--output=o.json u").outputs, [PathBuf::from("o.json")]);
}

/// What the two versions of h2load print for command lines that they refuse before they read a file
/// or connect. The file has the command line, the exit code, and the first lines of both streams.
#[test]
fn messages_equal_the_recorded_ones() {
    let files = [
        include_str!("../../../tests/data/h2load/1.52-messages.txt"),
        include_str!("../../../tests/data/h2load/1.70-messages.txt"),
    ];
    let mut compared = 0;
    for record in files.into_iter().flat_map(|text| text.split("$ h2load ").skip(1)) {
        let (line, rest) = record.split_once('\n').expect("a command line");
        let message = rest.split_once("stderr: ").expect("a message").1;
        let message = message.split("\nstdout:").next().unwrap_or_default();
        let message = message.split("\n\nDid you mean").next().unwrap_or_default();
        // These depend on files and on the other version, or are prony's own.
        let other =
            ["/none", "/nonexist", "getaddrinfo", "invalid URI", "base URI", "domain socket"];
        let other = other.iter().any(|part| message.contains(part) || line.contains(part));
        let other = other || message.contains("SSL_CTX") || message.contains("unrecognized option");
        let other = other || message.contains("ambiguous") || line.starts_with("-w 0");
        if !rest.starts_with("exit 1") || other {
            continue;
        }
        let expected = message.rsplit_once("hardware cores.\n").map_or(message, |(_, rest)| rest);
        assert_eq!(check(line), Asked::Refused(expected.trim_end().into()), "{line}");
        compared += 1;
    }
    assert!(compared > 70, "{compared}");
}
