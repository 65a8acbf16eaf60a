use super::*;
use crate::ace::Socket;

const CLIENT: Test = Test { socket: Socket::Stream, role: Role::Client };
const SERVER: Test = Test { role: Role::Server, ..CLIENT };

fn asked(test: Test, line: &str) -> Asked {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    read(test, &words, false)
}

fn options(line: &str) -> Options {
    let asked = asked(CLIENT, line);
    assert_eq!(asked.error, None, "{line}");
    asked.options
}

fn error(test: Test, line: &str) -> String {
    asked(test, line).error.unwrap_or_default()
}

/// Runs of the original programs: every error, and everything that they ignore.
#[test]
fn errors_equal_those_of_the_original_programs() {
    let power = "payload_size_power_of_2 must be specified between 0 and 16 inclusive";
    let iterations = "test_iterations must be no less than than 1";
    let protocol = "test_transport_protocol may only take 'sctp' and 'tcp' as values";
    let port = "server_port must be between 1010 and 65000 inclusive, or zero.";
    for (line, complaint) in [
        ("-t tcp", power),
        ("-t tcp -s 18", power),
        ("-t tcp -s -1", power),
        ("-t tcp -s", power),
        ("-t udp -s 5", protocol),
        ("-t TCP -s 5", protocol),
        ("-t tcp -s 5 -c 0", iterations),
        ("-t tcp -s 5 -m -1", "histogram_min_bin must be no less than 0.0"),
        ("-t tcp -s 5 -m 100 -M 50", "histogram_max_bin must be no less than histogram_min_bin"),
        ("-t tcp -s 5 -x 0", "histogram_num_outliers must be no less than 1"),
        ("-t tcp -s 5 -b 0", "histogram_bin_count must be no less than 1"),
        ("-t tcp -s 5 -p 1009", port),
        ("-t tcp -s 5 -p 65001", port),
        (
            "-t tcp -s 5 -i not.an.address",
            "Could not make sense of primary address: not.an.address",
        ),
        ("-t tcp -s 5 -i 127.0.0.1,foo", "Could not make sense of secondary address: foo"),
        // The last of several errors is reported.
        ("-t tcp -s 5 -c 0 -b 0", "histogram_bin_count must be no less than 1"),
        ("-t tcp -i foo -c 0 -s 5", iterations),
        // Unknown names are ignored.
        ("-z -t tcp -s 18", power),
        ("--no-such -t tcp -s 18", power),
        ("-t tcp --payload_size_power_of_2 5 -c 0", iterations),
        ("-t tcp --payload_size_power_of_2=5 -c 0", iterations),
        ("-t tcp --pay 5 --test_iter 0", iterations),
        // `client_port` or `client_accept_addr`: neither.
        ("-t tcp -s 5 --client 7", ""),
        ("-s5 -ttcp -H 127.0.0.1 -p45999", ""),
        ("extra -s 5 -t tcp -H 127.0.0.1 -p 45999 args", ""),
    ] {
        assert_eq!(error(CLIENT, line), complaint, "{line}");
    }
    for (line, complaint) in [
        ("-t udp", protocol),
        ("-t tcp -p 1000", port),
        ("-t tcp -a foo", "Could not make sense of primary address: foo"),
        ("-u -t tcp -p 45460", ""),
        ("-t tcp -s 99 -c 0", ""),
    ] {
        assert_eq!(error(SERVER, line), complaint, "{line}");
    }
}

#[test]
fn reads_values_as_c_does() {
    let o = options("-s 0 -c -5 -p 70000 -C 65537 -m 1e1x -M 0x20 -b 7up -x 4294967297");
    assert_eq!((o.iterations, o.port, o.client_port), (4_294_967_291, 4_464, 1));
    assert_eq!((o.min_bin, o.max_bin, o.bins, o.outliers), (10.0, 32.0, 7, 1));
    assert_eq!((o.size, o.transport), (1, Transport::Sctp));
    assert_eq!(options("-s 17 -p abc").port, 0);
    assert_eq!((options("-s 17").size, options("-s abc").size), (131_072, 1));
    let o = options("-ns5 -t sctp -ttcp -i 127.0.0.1,127.0.0.2");
    assert!(o.nagle && o.transport == Transport::Tcp && o.own.len() == 2);
    assert_eq!(options(&format!("-s 1 -H {}", "h".repeat(120))).host.len(), 99);
    assert!(asked(CLIENT, "--he").help && asked(CLIENT, "-nh").help);
}

/// The usage text has option names with dashes, which the old programs do not understand. Ours
/// accept both forms.
#[test]
fn accepts_names_with_dashes_and_underscores() {
    let names = "--test-iterations 9 --test-enable-nagle --test-transport-protocol tcp \
        --histogram-min-bin 1 --histogram-max-bin 2 --histogram-num-outliers 3 \
        --histogram-bin-count 4 --client-port 5 --client-connect-addr 127.0.0.9 \
        --server-port 2000 --server-host there --payload-size-power-of-2 6";
    let dashed = options(names);
    let mut other = names.to_owned();
    for name in names.split_whitespace().filter(|w| w.starts_with("--")) {
        let under = format!("--{}", name[2..].replace('-', "_"));
        other = other.replace(name, &under);
    }
    assert_eq!(dashed, options(&other));
    assert_eq!((dashed.iterations, dashed.size, dashed.host.as_str()), (9, 64, "there"));
    assert_eq!(options("-s 1 --rto-initial 20 --rto-min 21 --rto-max 22").rto, [20, 21, 22]);
}
