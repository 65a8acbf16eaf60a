//! The texts after the options in `--help`.

/// After the options of `prony -h`.
pub(super) const SHORT_END: &str = "\
Examples: prony http://127.0.0.1:8080/
          prony -c 100 -d 30s http://127.0.0.1:8080/
          prony --rate 20k --arrivals poisson -d 1m http://127.0.0.1:8080/
Run `prony --help` for more examples, differences from other load generators,
and exit codes.";

/// After the options of `prony --help`.
pub(super) const LONG_END: &str = "\
Examples:
  prony http://127.0.0.1:8080/
      50 connections for 10 s; each sends its next request when it has received
      a reply
  prony -c 100 -n 1m --warmup 5s http://127.0.0.1:8080/
      one million requests over 100 connections, after 5 s of warm-up
  prony --rate 20k --arrivals poisson -d 1m http://127.0.0.1:8080/
      20,000 requests per second as a Poisson process, independent of the
      replies
  prony --rate 1k@10s,1k..20k@60s,20k@30s http://127.0.0.1:8080/
      a step, a ramp and a step; 100 s in total
  prony -m PUT -H 'Accept: text/plain' -b @body.json http://127.0.0.1:8080/x
      a PUT request with a header and a body
  prony --json -o run.hgrm -o run.csv http://127.0.0.1:8080/
      JSON on standard output, percentiles and a time series in files

Numbers accept the suffixes k, m and g (10k = 10,000). Times accept ns, us, ms,
s, m and h (1m30s); without a unit, they are in seconds. The report is written
to standard output, progress and messages to standard error.

Most short options have the same meaning as in other load generators, except
these:
  -b  request body (hey, oha: -d)
  -d  duration, as in wrk; -z, as in hey and oha, means the same
  -k  do not verify certificates, as in curl (ab: keep-alive, which is the
      default in prony)
  -p  depth of pipelining (ab: file with the request body)
  -r  or -R: rate over all connections, as wrk2's -R (oha: -q; hey: -q, per
      worker)
  -t  threads, as in wrk and h2load (hey, oha: timeout, which is --timeout in
      prony)
A request with a body uses POST unless -m sets another method (hey and oha use
GET).

prony can replace other tools. `prony ab ...` accepts the options of ab, prints
the report of ab, and adds latencies and the verdict. A link named ab does the
same. The other tools are h2load, htstress, httperf, idleconn, wrk, and the
test programs of ACE (SOCK_STREAM_clt and others).

Exit codes:
  0    the run finished and is valid, or all its thresholds are met
  1    no request succeeded
  2    invalid usage or input; no load was started
  3    the run finished, but a report could not be written
  97   a threshold is undecided (with --undecided pass: 0)
  98   the run is invalid, and thresholds do not decide (--accept-invalid: 0)
  99   a threshold is missed, or a change is not accepted (--fail-if)
  125  a comparison cannot tell whether a change is accepted
  130  interrupted; the report covers the time until then";

/// After the options of `prony run --help`.
pub(super) const RUN_END: &str = "\
Examples:
  prony run shop.toml
      run a plan file; docs/plan-files.md describes all keys
  prony run shop.toml --trace
      print its first session, request by request, instead of a load
  prony --rate 2k -d 1m --explain http://127.0.0.1:8080/ > steady.toml
  prony run steady.toml
      save a command line as a plan file, then run it with the same schedule
      and requests";

/// After the options of `prony selftest --help`.
pub(super) const SELFTEST_END: &str = "\
Exit codes: 0 all checks passed; 98 a check failed in three attempts; 130
interrupted: the results so far are printed, and nothing is saved.

Examples:
  prony selftest
      takes up to 30 s; saves $XDG_STATE_HOME/prony/selftest.json (default:
      ~/.local/state/...)
  prony selftest --quick --json -o selftest.json
      takes a few seconds; prints JSON, and saves it to another file";

/// After the options of `prony serve --help`.
pub(super) const SERVE_END: &str = "\
Paths: / (as configured by the options), /bytes/N (a body of N bytes),
/status/N (status code N), /redirect/N (N redirects, one after another),
/delay/T (a service time of T: 250us, 5ms), /echo (returns the body of the
request).

Examples:
  prony serve
      reply as fast as possible, on 127.0.0.1:8080
  prony serve --latency exp:1ms --workers 4 127.0.0.1:9000
      four workers with one queue and exponential service times (an M/M/4
      queue)
  prony serve --latency fixed:2ms --stall 1s@10s
      freeze for one second every ten seconds";

/// After the options of `prony compare --help`.
pub(super) const COMPARE_END: &str = "\
The options of `prony URL` describe one block of load. All intervals of a
comparison hold together with a probability of 95 %, however long it runs.

Examples:
  prony compare -r 1k --arrivals poisson http://10.0.0.1/ http://10.0.0.2/
      two running servers, with 1,000 requests per second
  prony compare -c 20 'http://127.0.0.1:{port}/' 'http://127.0.0.1:{port}/' \\
        --start-a './old {port}' --start-b './new {port}'
      two builds, each started anew for each of its blocks
  prony compare -o comparison.html old*.json -- new*.json
      two groups of saved results
  prony compare ... --fail-if 'p99 > +5%' --fail-if 'errors > +0.1%'
      let a script or `git bisect run` decide

Exit codes: 0 finished (with --fail-if: no such change); 99 a change as in
--fail-if; 125 --fail-if cannot be decided, or with --fail-if a server did not
start or blocks were invalid; 98 blocks were invalid (with --accept-invalid:
0); 1 no request succeeded, or a server did not start; 2 invalid usage; 3 a
report could not be written; 130 interrupted: what is known so far is
reported.";

/// After the options of `prony report --help`.
pub(super) const REPORT_END: &str = "\
Examples:
  prony report run.json
      print the report again
  prony report run.json -o run.html -o run.svg
      write a page with plots, and the percentile plot alone
  prony report before.json after.json -o both.html
      show two runs side by side: one column per run, and their curves in one
      plot; `prony compare`
      decides whether they differ
  prony report --trend runs/*.json -o trend.html
      show how the figures of many runs develop, and where they change

Exit codes: 0 success; 98 the run is invalid (with --accept-invalid, or for a
comparison: 0); 2 the file is not a saved result, or the format does not
support it; 3 a report could not be written.";

/// After the options of `prony import --help`.
pub(super) const IMPORT_END: &str = "\
Examples:
  prony import har shop.har -o shop.toml
      make a session of the pages that a browser has saved; passwords become
      variables
  prony import curl request.sh --with-secrets > plan.toml
      make a plan of command lines of curl, as browsers copy them
  prony import urls paths.txt --to http://127.0.0.1:8080 | prony run -
      send each request of a list once

Exit codes: 0 success; 2 the file is not of this format, or has nothing that
can be sent; 3 the plan could not be written.";

/// After the options of `prony record --help`.
pub(super) const RECORD_END: &str = "\
Examples:
  prony record 8000 --to http://127.0.0.1:8080 -o shop.toml -o shop.har
      browse http://127.0.0.1:8000, then press Ctrl-C
  prony record 8443 --tls --to https://test.example -o shop.toml -d 10m
      a target with TLS; browsers warn of the certificate of the proxy
  prony run shop.toml
      send what was recorded; change users, sessions or rate in the plan

Exit codes: 0 success; 1 there was no request that a plan could send; 2 the
command line is not valid, or the address cannot be used; 3 a file could not be
written.";

/// After the options of `prony ray-job --help`.
pub(super) const RAY_JOB_END: &str = "\
The cluster needs the operator KubeRay, 1.5.1 or newer, and a secret with a
token, which the first lines of the manifest create.

Examples:
  prony ray-job shop.toml --hosts 8 --image registry.example/prony > job.yaml
  kubectl apply -f job.yaml

Exit codes: 0 success; 2 the plan has an error, or needs files or variables
that the job lacks.";

/// After the options of `prony merge --help`.
pub(super) const MERGE_END: &str = "\
The report is that of one process with the threads of all hosts: histograms are
added, percentiles are never averaged. It lists each host's own meter. One host
that could not keep up makes the whole run CLIENT-LIMITED, by its name. Reports
of other plans, seeds or versions are refused, and so are shards that are
missing or given twice.

Examples:
  prony run shop.toml --shard 1/2 --start-at 2030-01-01T09:00:00Z -o part1.json
  prony run shop.toml --shard 2/2 --start-at 2030-01-01T09:00:00Z -o part2.json
      one share on each of two hosts
  prony merge part1.json part2.json -o run.html
      one report of both; docs/many-hosts.md has more ways

Exit codes: 0 success; 98 the run is invalid, or shards are missing (with
--accept-invalid: 0); 2 the files are not the reports of the shards of one run;
3 a report could not be written.";

/// After the options of `prony rtt --help`.
pub(super) const RTT_END: &str = "\
TARGET is the address of a `prony echo`, or (over TCP, with replies of 2 bytes)
of a server of the ACE tests. A round-trip time is the time from writing the
message to reading its complete reply. Connecting and the warm-up exchanges
(--warmup) are not included. A message without a reply within --timeout counts
as lost, and enters the latencies with at least this time.

Examples:
  prony echo
  prony rtt 127.0.0.1 -n 100k
      100,000 messages of 128 bytes over TCP, one at a time
  prony rtt 127.0.0.1 --transport udp --size 64,1k --reply-size 64 -d 10s
      two lengths in turn over UDP; counts lost, late, duplicate and reordered
      messages
  prony rtt 127.0.0.1 --rate 20k --arrivals poisson -c 4 -d 30s
      an open loop; reports times from the schedule and from the send";

/// After the options of `prony echo --help`.
pub(super) const ECHO_END: &str = "\
docs/echo-protocol.md describes the protocol. The responder also serves clients
of the ACE tests.

Examples:
  prony echo
      TCP and UDP on 127.0.0.1:45453
  prony echo 0.0.0.0 --transport tcp
      reachable from other hosts
  prony echo unix:/tmp/echo --transport unix-seqpacket";

/// After the options of `prony capacity --help`.
pub(super) const CAPACITY_END: &str = "\
Runs open loops (Poisson arrivals unless --arrivals says otherwise) at many
rates: first each twice the one before, until a threshold is missed, then
around the estimate in random order. Reports the capacity with its 95 %
confidence interval, what stops the target beyond it, and response times by
rate. The options that set rate and duration of a load are refused.
docs/capacity.md describes the method.

Examples:
  prony capacity http://127.0.0.1:8080/ --threshold 'p99 < 50ms'
  prony capacity http://127.0.0.1:8080/ --threshold 'p99 < 50ms' \\
      --threshold 'errors < 0.1%' --budget 10m --beyond 1.5 -o capacity.html
      also measures at 1.5 times the capacity, and writes a page with plots

Exit codes: 0 a capacity was found; 97 there is no number (the budget ended
before a threshold was missed, the target changed or did not recover); 98 the
load generator or the connection limit is the limit; 99 a threshold is missed
at the lowest rate; 130 interrupted.";

/// After the options of `prony llm --help`.
pub(super) const LLM_END: &str = "\
Without --rate, each of the -c connections asks for one reply after another.
TTFT is the time to the first token, ITL the time between tokens; both are
those of tokens, not of chunks (docs/llm.md).

Examples:
  prony llm --model m http://127.0.0.1:8000
  prony llm --model m -r 5 --arrivals poisson -d 60s http://127.0.0.1:8000 \\
      --input-tokens normal:512:100 --output-tokens 100..300 \\
      --slo 'ttft < 300ms, itl < 50ms'
  prony llm --model m --prompts prompts.jsonl --api-key-env KEY \\
      http://127.0.0.1:8000
  prony llm --model m --trace-file azure.csv -d 5m http://127.0.0.1:8000
  prony capacity --model m --threshold 'ttft.p99 < 500ms' --timeout 2m \\
      http://127.0.0.1:8000
      finds the highest rate of requests

Exit codes: as for a load (prony --help).";

/// After the options of `prony replay --help`.
pub(super) const REPLAY_END: &str = "\
Requests start at the times of the log, whatever the replies do (open loop).
The report has the index of dispersion of the arrivals in the log and in the
replay: how bursty they are.

Examples:
  prony replay access.log --to http://127.0.0.1:8080
  prony replay access.log.*.gz --to http://test:8080 --speed 2x -o r.html
  zcat old.gz | prony replay - --to http://test:8080 --log-format \\
      '$remote_addr [$time_iso8601] \"$request\" $status $request_time'
  prony replay a.log --to http://test:8080 --scale 3 --loop --duration 1h

Exit codes: as for a load (prony --help).";

/// After the options of `prony spectrum --help`.
pub(super) const SPECTRUM_END: &str = "\
Each length over each transport is measured in a separate run on a new
connection. The bands are 95 % confidence intervals of the mean over the
repetitions. UDP leaves out lengths that do not fit into one datagram.

Examples:
  prony spectrum 127.0.0.1 --transport tcp,udp -s 1..32k -o spectrum.svg
  prony spectrum 127.0.0.1 unix:/tmp/echo --repeat 10
  prony spectrum 127.0.0.1 tls=127.0.0.1:45454 --insecure
      one responder per transport, as TCP and TLS cannot share a port";
