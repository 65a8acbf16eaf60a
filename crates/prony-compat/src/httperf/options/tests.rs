//! Tests of accepted and refused command lines.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::httperf::echo::echo;

/// The message and the exit code of a refused command line; its words are separated by spaces.
fn refused(line: &str) -> String {
    let words: Vec<String> = line.split(' ').map(Into::into).collect();
    match read("httperf", &words, &mut |_| {}) {
        Err(Refusal { message, code }) => {
            format!("{} ({code})", message.strip_prefix("httperf: ").unwrap())
        }
        other => panic!("{line}: {other:?}"),
    }
}

/// Values that httperf refuses too.
#[test]
fn refuses_values_as_httperf_does() {
    for (line, message) in [
        ("--num-calls=abc", "illegal number of calls abc"),
        (
            "--num-conns=99999999999999999999999",
            "illegal number of connections 99999999999999999999999",
        ),
        ("--num-conns=-1", "illegal number of connections -1"),
        ("--rate=.5x", "illegal request rate .5x"),
        ("--rate=", "illegal request rate "),
        ("--port=70000", "illegal port number 70000"),
        ("--period=.5", "illegal interarrival distribution '.' in .5"),
        ("--period=-1", "illegal interarrival distribution '-' in -1"),
        ("--period=e", "illegal mean interarrival time "),
        ("--period=d5x", "illegal mean interarrival time 5x"),
        ("--period=u1", "minimum interarrival time not followed by `,MAX_IAT' (rest: `')"),
        ("--period=u1,x", "illegal request period x"),
        ("--period=v1", "interarrival time not followed by `,duration' (rest: `')"),
        ("--period=v1,x", "illegal duration x"),
        ("--client=1", "client id not followed by `/' (rest: `')"),
        ("--client=a/2", "bad client id (rest: `a/2')"),
        ("--client=3/2", "bad number of clients (rest: `2')"),
        ("--wsess=1", "bad number of calls per session (2nd param) in --wsess arg (rest: `')"),
        ("--wsess=a,1,1", "bad number of sessions (1st param) in --wsess arg (rest: `a,1,1')"),
        (
            "--wsess=1,b,1",
            "bad number of calls per session (2nd param) in --wsess arg (rest: `b,1')",
        ),
        ("--wsess=1,1,-1", "bad user think time (3rd param) in --wsess arg (rest: `')"),
        ("--wsess=1,1,1,2", "extraneous parameter in --wsess arg (rest: `,2')"),
        ("--wset=3,0.5,4", "extraneous parameter in --wset arg (rest: `0.5,4')"),
        ("--wsess=1,1,1x", "extraneous parameter in --wsess arg (rest: `x')"),
        ("--wset=1,2", "bad target miss rate (2nd parameter) in --wset arg (rest: `2')"),
        ("--wset=x,1", "bad working set size (1st parameter) in --wset arg (rest: `x,1')"),
        ("--wsesslog=1,0", "bad session filename (3rd param) in --wsesslog arg (rest: `')"),
        ("--wsesslog=1,x,f", "bad user think time (2nd param) in --wsesslog arg (rest: `x,f')"),
        ("--wsesslog=1,0,a,b", "extraneous parameter in --wsesslog arg (rest: `b')"),
        ("--burst-length=0", "illegal burst-length 0"),
        ("--failure-status=0", "illegal failure status 0"),
        ("--http-version=1", "illegal version number 1"),
        ("--think-timeout=x", "illegal think timeout value x"),
        ("--timeout=x", "illegal connect timeout x"),
        ("--max-connections=x", "illegal max. # of connection x"),
        ("--max-piped-calls=x", "illegal max. # of piped calls x"),
        ("--send-buffer=x", "illegal send buffer size x"),
        ("--recv-buffer=x", "illegal receive buffer size x"),
        ("--runtime=0", "illegal runtime value 0"),
        ("--ssl-protocol=TLSv9", "illegal SSL protocol TLSv9"),
        ("--num 5", "option '--num' is ambiguous; possibilities: '--num-calls' '--num-conns'"),
    ] {
        assert_eq!(refused(line), format!("{message} (1)"));
    }
    assert_eq!(
        refused("--session-cookies"),
        "--session-cookie requires session-oriented workload (e.g., --wsess) (255)"
    );
    assert_eq!(refused("--server a --servers b"), "--server S or --servers file (255)");
}

/// Values with which httperf crashed, hung or read invalid memory.
#[test]
fn refuses_invalid_values_that_httperf_accepted() {
    for line in ["--wlog=n", "--wlog=", "--wsess=1,1,0 --wsess=1,1,0", "--wsesslog=0,0,f"] {
        assert!(refused(line).ends_with(" (1)"), "{line}");
    }
    let both = "--wsess=1,1,0 --wsesslog=1,0,f";
    let one = "only one of --wsess, --wsesspage and --wsesslog can be given, and only once (1)";
    assert_eq!(refused(both), one);
}

#[test]
fn the_last_value_counts_and_operands_are_ignored() {
    let words = ["--num-conn", "3", "x", "--num-conns=4", "-vvv", "-V=3", "--", "--hog"];
    let words = words.map(String::from);
    assert_eq!(read("httperf", &words, &mut |_| {}), Ok(Wish::Version));
    let Ok(Wish::Run(o)) = read("httperf", &words[..5], &mut |_| {}) else { panic!() };
    assert_eq!((o.num_conns, o.verbose, o.hog), (4, 3, false));
}

/// Random words: options, abbreviations, values, any text.
fn word() -> impl Strategy<Value = String> {
    let name = select(TABLE.words.iter().chain(TABLE.newer).map(|w| w.0).collect::<Vec<_>>());
    let value = prop_oneof![
        "[0-9xeEpuvd.,/+-]{0,9}",
        "[yn],[a-z]{0,3}",
        select(vec!["inf", "-nan", "0x", "1e", "1,2,3", "1,0.5,f", "0/1", "\u{e9}", "a\u{20ac}b"])
            .prop_map(str::to_owned),
        any::<String>(),
    ];
    prop_oneof![
        3 => (name, 1..20usize, prop::option::of(value)).prop_map(|(name, length, value)| {
            let name = name.get(..length).unwrap_or(name);
            value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}"))
        }),
        1 => "-[hvVnd]{0,4}[0-9]?",
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn no_command_line_makes_it_panic(words in prop::collection::vec(word(), 0..6)) {
        match read("httperf", &words, &mut |_| {}) {
            Ok(Wish::Run(opts)) => prop_assert!(echo(&opts).starts_with("httperf ")),
            Ok(Wish::Help | Wish::Version) => {}
            Err(refusal) => prop_assert!(refusal.message.starts_with("httperf: ")),
        }
    }
}
