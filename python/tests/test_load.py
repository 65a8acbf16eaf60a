"""Loads: figures against the server's own counters, refusals, interruptions."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import prony
import pytest


def test_counts_are_the_servers(server: prony.Server) -> None:
    result = prony.load(server.url, rate=500, duration=1, accept_invalid=True)
    assert result.ok and result.exit_code == 0
    assert (result.replies, result.failed, result.requests) == (500, 0, 500)
    assert result.statuses == {200: 500}
    assert server.stop()["replies"] == 500
    assert result.target_rate == 500.0
    # On a busy machine, the last reply is late.
    assert 0 < result.rate <= 550


def test_times_are_in_seconds() -> None:
    with prony.serve(latency="fixed:20ms") as server:
        result = prony.load(server.url, rate=200, duration="2s", accept_invalid=True)
    assert result.response.count == 400
    # Milliseconds would be 20 or more.
    assert result.response.min is not None and 0.020 <= result.response.min < 10
    assert result.response.p50 is not None and 0.020 <= result.response.p50 < 10
    interval = result.response.interval("p50")
    if interval is not None:
        assert interval.low <= result.response.p50 <= interval.high
    # 400 requests have no 99.99th percentile.
    assert result.response.p9999 is None
    assert result.response.interval("p99.99") is None
    assert result.response.why_no_interval("p99.99") == "too-few-samples"
    assert result.service.mean is not None and result.service.mean >= 0.020
    with pytest.raises(ValueError, match="'p98' has no interval"):
        result.response.interval("p98")


def test_keywords_are_options(server: prony.Server, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    result = prony.load(
        server.url,
        requests=50,
        connections=2,
        reuse=False,
        header={"X-One": "1", "X-Two": "2"},
        timeout=timedelta(seconds=3),
        warmup=0.0,
        output=[file],
        accept_invalid=True,
    )
    plan = result.to_dict()["plan"]
    assert plan["requests_per_connection"] == 1
    assert plan["timeout"] == 3_000_000_000
    # The values of headers are not in reports.
    assert [name for name, _ in plan["requests"][0]["headers"]] == ["X-One", "X-Two"]
    assert prony.Result.load(file).replies == 50
    # Each request had a connection of its own.
    assert server.stop()["connections"] == 50


def test_thresholds_decide(server: prony.Server) -> None:
    met = prony.load(
        server.url,
        requests=200,
        thresholds=["max < 30s", "requests > 100", "p50 < 30s"],
        accept_invalid=True,
        undecided="pass",
    )
    assert [(t.text, t.outcome, t.ok) for t in met.thresholds] == [
        ("max < 30s", "met", True),
        ("requests > 100", "met", True),
        # Too short for an interval.
        ("p50 < 30s", "undecided", False),
    ]
    assert met.thresholds[0].limit == 30.0 and met.thresholds[0].value == met.response.max
    assert met.ok and met.assert_ok() is met
    missed = prony.load(server.url, requests=200, threshold="requests > 300", accept_invalid=True)
    assert (missed.exit_code, missed.ok) == (99, False)
    with pytest.raises(AssertionError, match="requests > 300"):
        missed.assert_ok()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rate": "fast"}, "--rate: 'fast' is not a rate"),
        ({"connections": 0}, "--connections"),
        ({"think": "1ms", "rate": 5}, "--think and --rate exclude each other"),
        ({"thredas": 5}, "unknown option '--thredas'"),
        ({"tui": True}, "tui: this option is for the command line"),
        ({"timeout": object()}, "timeout: object is no type of a value"),
        ({"output": "report.doc"}, "unknown file name extension"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(prony.UsageError) as refused:
        prony.load("http://127.0.0.1:9/", **options)  # type: ignore[arg-type]
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_cannot_start_is_refused() -> None:
    with pytest.raises(prony.SetupError, match="does not resolve"):
        prony.load("http://no-such-host.invalid/", requests=1)
    with pytest.raises(prony.UsageError, match="no URL"):
        prony.load()
    with pytest.raises(prony.OutputError, match="cannot be written"):
        prony.load("http://127.0.0.1:9/", requests=1, output="/nowhere/run.json")


def test_a_failed_target_is_a_verdict() -> None:
    result = prony.load("http://127.0.0.1:9/", requests=10)
    assert not result.ok and result.replies == 0 and result.exit_code == 1
    assert result.errors[0].name == "connect-refused"
    with pytest.raises(AssertionError, match="no request succeeded"):
        result.assert_ok()


def test_reports_in_every_format(server: prony.Server, tmp_path: Path) -> None:
    result = prony.load(server.url, requests=100, accept_invalid=True)
    endings = ["html", "svg", "png", "json", "csv", "xml", "md", "hgrm", "hlog"]
    files = [tmp_path / f"run.{ending}" for ending in endings]
    result.save(*files)
    assert all(file.stat().st_size > 0 for file in files)
    assert files[0].read_text().startswith("<!DOCTYPE html>")
    assert "<iframe" in result._repr_html_() and "&lt;!DOCTYPE" in result._repr_html_()
    assert "replies" in str(result) and repr(result).startswith("<prony.Result ")
    assert "<svg" in result.svg()
    with pytest.raises(prony.OutputError, match="cannot be written"):
        result.save(tmp_path / "nowhere" / "run.json")
    with pytest.raises(prony.UsageError, match="unknown file name extension"):
        result.save(tmp_path / "run.doc")
    again = pickle.loads(pickle.dumps(result))
    assert again.to_dict() == result.to_dict() and again.exit_code == result.exit_code
    with pytest.raises(prony.UsageError, match="not a saved result"):
        prony.Result.from_json("{}")


def test_series_add_up(server: prony.Server) -> None:
    result = prony.load(server.url, rate=100, duration=2, accept_invalid=True)
    series = result.series()
    assert sum(row.replies for row in series) == 200
    assert [round(row.start) for row in series[:2]] == [0, 1]
    columns = series.to_dict()
    assert columns["replies"] == [row.replies for row in series]
    assert columns["rate"][0] == series[0].rate


def test_python_runs_while_a_load_runs(server: prony.Server) -> None:
    turns = 0
    done = threading.Event()

    def count() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.01)

    thread = threading.Thread(target=count)
    thread.start()
    prony.load(server.url, rate=100, duration=2, accept_invalid=True)
    done.set()
    thread.join()
    assert turns > 20


def test_two_loads_at_once(server: prony.Server) -> None:
    results: list[prony.Result] = []

    def run() -> None:
        results.append(prony.load(server.url, rate=100, duration=1, accept_invalid=True))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.replies for result in results] == [100, 100]
    assert server.stop()["replies"] == 200


# A process that was started in the background of a shell may ignore the signal.
INTERRUPTED = """
import signal, sys, prony
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    prony.load(sys.argv[1], rate=50, duration=60)
except prony.Interrupted as stopped:
    r, report = stopped.result, stopped.result.to_dict()
    tally, ended_early = report["measurement"]["tally"], report["run"]["interrupted"]
    print(r.verdict, ended_early, r.replies, r.failed, tally["unfinished"])
"""


def test_ctrl_c_drains() -> None:
    with prony.serve(latency="fixed:300ms") as server:
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, server.url], stdout=subprocess.PIPE, text=True
        )
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 0, out
        verdict, interrupted, replies, failed, unfinished = out.split()
        # On a busy machine, a more important reason hides this one.
        assert verdict in ("INTERRUPTED", "CLIENT-LIMITED")
        assert (interrupted, failed, unfinished) == ("True", "0", "0")
        # All that were in flight have been waited for.
        assert server.stop()["replies"] == int(replies) > 10


def test_progress_is_logged(server: prony.Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="prony"):
        prony.load(server.url, rate=100, duration=2.5, accept_invalid=True)
    assert any("/s" in record.message and "failed" in record.message for record in caplog.records)


def test_worker_processes_make_one_run(server: prony.Server) -> None:
    result = prony.load(server.url, rate=200, duration=2, hosts=2, accept_invalid=True)
    hosts = result.to_dict()["run"]["hosts"]["hosts"]
    assert [host["replies"] for host in hosts] == [200, 200]
    assert server.stop()["replies"] == result.replies == 400


def test_the_program_is_installed() -> None:
    out = subprocess.run(
        [sys.executable, "-m", "prony", "--version"], stdout=subprocess.PIPE, text=True, check=True
    )
    assert out.stdout == f"prony {prony.__version__}\n"
    assert os.access(os.path.join(os.path.dirname(sys.executable), "prony"), os.X_OK)


def test_round_trips() -> None:
    # A Unix socket needs no port that must be free.
    result = None
    path = f"/tmp/prony-test-{os.getpid()}"
    responder = subprocess.Popen([sys.executable, "-m", "prony", "echo", f"unix:{path}"],
                                 stderr=subprocess.PIPE)
    try:
        assert responder.stderr is not None
        responder.stderr.readline()
        result = prony.rtt(f"unix:{path}", exchanges=500, accept_invalid=True)
    finally:
        responder.send_signal(signal.SIGINT)
        responder.wait(timeout=10)
        if os.path.exists(path):
            os.unlink(path)
    assert result.replies == 500
    assert result.response.min is not None and result.response.min > 0


def has_sctp() -> bool:
    """Whether this kernel has SCTP."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
    except OSError:
        return False
    return True


@contextmanager
def responder(*words: str) -> Iterator[str]:
    """A responder for round trips: what it says about the place where it listens."""
    line = [sys.executable, "-m", "prony", "echo", "127.0.0.1:0", *words]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().strip()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=10)


def test_round_trips_over_the_kernels_sctp() -> None:
    if not has_sctp():
        # Never another implementation in its place; the sentence names the ways.
        with pytest.raises(prony.SetupError, match="this kernel has no SCTP.*--sctp udp"):
            prony.rtt("sctp://127.0.0.1:9", exchanges=5)
        return
    with responder("--transport", "sctp") as said:
        result = prony.rtt(f"sctp://{said.rsplit(' ', 1)[1]}", exchanges=200, accept_invalid=True)
    assert (result.replies, result.failed) == (200, 0)
    assert result.response.min is not None and result.response.min > 0


def test_round_trips_over_pronys_own_sctp() -> None:
    with responder("--transport", "sctp", "--sctp", "udp", "--sctp-udp-port", "0") as said:
        # listening on sctp (over UDP port 41234) 127.0.0.1:49151
        udp, place = said.split("over UDP port ")[1].split(") ")
        target = f"sctp://{place}"
        result = prony.rtt(
            target, sctp="udp", sctp_udp_port=int(udp), exchanges=200, accept_invalid=True
        )
    assert (result.replies, result.failed) == (200, 0)
    assert result.to_dict()["run"]["driver"] == "userspace, udp"
    with pytest.raises(prony.UsageError, match="is not the transport of sctp://h:1"):
        prony.rtt("sctp://h:1", transport="udp")
