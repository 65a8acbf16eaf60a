//! The texts around the option table.

/// The end of `prony -h`.
pub(super) const SHORT_END: &str = "\
Examples: prony http://127.0.0.1:8080/
          prony -c 100 -d 30s http://127.0.0.1:8080/
          prony --rate 20k --arrivals poisson -d 1m http://127.0.0.1:8080/
`prony --help` says more: examples, differences from other load generators, exit codes.";

/// The end of `prony --help`.
pub(super) const LONG_END: &str = "\
Examples:
  prony http://127.0.0.1:8080/
      50 connections for 10 s, each sending the next request when the reply has come
  prony -c 100 -n 1m --warmup 5s http://127.0.0.1:8080/
      a million requests over 100 connections, after 5 s of warm-up
  prony --rate 20k --arrivals poisson -d 1m http://127.0.0.1:8080/
      20,000 requests a second at random moments, whatever the replies do
  prony --rate 1k@10s,1k..20k@60s,20k@30s http://127.0.0.1:8080/
      a step, a ramp, a step: 100 s in all
  prony -m PUT -H 'Accept: text/plain' -T application/json -b @body.json http://127.0.0.1:8080/x
      another request
  prony --json -o run.hgrm -o run.csv http://127.0.0.1:8080/
      JSON on standard output, percentiles and seconds in files

Numbers take k, m and g (10k = 10,000), times take ns, us, ms, s, m and h (1m30s); a bare number is
seconds. The report goes to standard output, progress and messages to standard error.

Short options have the meaning that most load generators give them. The differences: -d is the
duration as in wrk (-z, as in hey and oha, is the same), so the body is -b (hey, oha: -d) and the
timeout has a long name only (hey, oha: -t); -t is threads as in wrk and h2load; -k is not needed
because keep-alive is the default (ab: -k) and --no-reuse turns it off; the rate is -r or -R and
means all connections together (hey: -q, for each worker; oha: -q; wrk2: -R); -p is the depth of
pipelining (ab: the body's file); a body makes the method POST unless -m says otherwise (hey and oha
stay with GET).

In the place of another tool: `prony ab ...` (and htstress, httperf, idleconn, wrk, and ACE's
SOCK_STREAM_clt and its kin), or a link of that name, takes that tool's options, prints its report
and adds latencies and the verdict.

Exit codes:
  0    the run was made and is valid
  1    no request succeeded
  2    bad usage or input; no load was started
  3    the run was made, but a report could not be written
  98   the run is not valid, for the reasons of its verdict (unless --accept-invalid)
  130  interrupted; what was measured is reported";

/// The end of `prony run --help`.
pub(super) const RUN_END: &str = "\
Examples:
  prony run shop.toml
      the whole run as the file says it; docs/plan-files.md tells of all keys
  prony --rate 2k -d 1m --explain http://127.0.0.1:8080/ > steady.toml
  prony run steady.toml
      a command line as a file, to be changed or kept; the same schedule, the same requests";

/// The end of `prony selftest --help`.
pub(super) const SELFTEST_END: &str = "\
Exit codes: 0 all proofs held; 98 the host could not hold them all, or not in three tries; 130
interrupted, what was found is told, and nothing is saved.

Examples:
  prony selftest
      in under 30 s; kept in $XDG_STATE_HOME/prony/selftest.json (~/.local/state by default)
  prony selftest --quick --json -o selftest.json
      in a few seconds, as JSON, and kept in another file";

/// The end of `prony serve --help`.
pub(super) const SERVE_END: &str = "\
Paths: / (as the options say), /bytes/N (a body of N bytes), /status/N, /delay/T (250us, 5ms),
/echo (the request's body).

Examples:
  prony serve
      as fast as it can, on 127.0.0.1:8080
  prony serve --latency exp:1ms --workers 4 127.0.0.1:9000
      four workers behind one queue, exponential service times: a textbook M/M/4 station
  prony serve --latency fixed:2ms --stall 1s@10s
      a server that freezes for a second every ten seconds";

/// The end of `prony report --help`.
pub(super) const REPORT_END: &str = "\
Examples:
  prony report run.json
      the report as it stood on the screen
  prony report run.json -o run.html -o run.svg
      as a page with plots, and its percentile plot alone
  prony report before.json after.json -o both.html
      two runs: a column for each, their curves over each other

Exit codes: 0 told; 98 a result is not valid: one alone is told all the same, several are not
compared (unless --accept-invalid); 2 what is no result, or cannot be told that way; 3 not written.";

/// The end of `prony rtt --help`.
pub(super) const RTT_END: &str = "\
TARGET is where `prony echo` listens, or (over TCP, with replies of 2 bytes) a server of the ACE
tests. The time of a round trip runs from the write of the message to the read of its whole reply;
connecting and the exchanges of --warmup are no part of it. What becomes of no reply within
--timeout counts as lost, and as a time of at least that long.

Examples:
  prony echo
  prony rtt 127.0.0.1 -n 100k
      a hundred thousand messages of 128 bytes over TCP, one at a time
  prony rtt 127.0.0.1 --transport udp --size 64,1k --reply-size 64 -d 10s
      two lengths in turn over UDP; lost, late, doubled and overtaken messages are counted
  prony rtt 127.0.0.1 --rate 20k --arrivals poisson -c 4 -d 30s
      an open loop: times from the schedule, and from the send";

/// The end of `prony echo --help`.
pub(super) const ECHO_END: &str = "\
What is spoken is in docs/echo-protocol.md. Clients of the ACE tests are answered, too.

Examples:
  prony echo
      TCP and UDP on 127.0.0.1:45453
  prony echo 0.0.0.0 --transport tcp
      for other hosts
  prony echo unix:/tmp/echo --transport unix-seqpacket";

/// The end of `prony spectrum --help`.
pub(super) const SPECTRUM_END: &str = "\
Each length over each transport is a run of its own, on one new connection. Bands are 95 %
confidence bands of the mean over the repetitions. What does not fit into a datagram is left out
over UDP.

Examples:
  prony spectrum 127.0.0.1 --transport tcp,udp -s 1..32k -o spectrum.svg -o spectrum.csv
  prony spectrum 127.0.0.1 unix:/tmp/echo --repeat 10
  prony spectrum 127.0.0.1 tls=127.0.0.1:45454 --insecure
      transports that cannot share a port have a responder each";
