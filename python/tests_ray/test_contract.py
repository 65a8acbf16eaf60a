"""The contract of engines, on Ray: the same as crates/prony/tests/it/hosts.rs asks of `local`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import prony
from conftest import NODE, Start, at_work, gone, kill, parent


def test_four_hosts_make_one_run(start: Start, server: prony.Server) -> None:
    ended = start("-r", "400", "-d", "3s", "--hosts", "4", "--accept-invalid", server.url).wait()
    assert ended.code == 0, ended.err
    assert (ended.tally["started"], ended.tally["replies"]) == (1200, 1200)
    assert server.stop()["replies"] == 1200
    assert [host["replies"] for host in ended.hosts] == [300] * 4
    for host in ended.hosts:
        # One clock: what is measured of it is within the bound.
        assert abs(host["clock"]["offset_ns"]) <= host["clock"]["bound"], host
        assert host["start_late"] < 3_000_000_000
    assert "4 of 4 hosts" in ended.err
    assert gone(at_work())


def test_more_hosts_than_there_are_start_nothing(start: Start, server: prony.Server) -> None:
    ended = start("-r", "10", "-d", "1s", "--hosts", "9", server.url).wait()
    assert ended.code == 2 and ended.out == ""
    assert "the cluster has 4 hosts with a CPU for prony, not 9" in ended.err
    assert server.stop()["requests"] == 0


def test_clusters_without_tokens_are_refused(cluster: Any, server: prony.Server) -> None:
    line = [sys.executable, "-m", "prony", "load", "--engine", "ray", "--hosts", "2"]
    line += ["-n", "10", "--cluster", cluster.address, server.url]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "set RAY_AUTH_MODE=token" in done.stderr
    assert server.stop()["requests"] == 0


def test_a_killed_worker_is_named_and_its_share_is_not_moved(
    start: Start, server: prony.Server
) -> None:
    run = start("-r", "300", "-d", "8s", "--hosts", "3", "--no-progress", server.url)
    workers = run.workers(3)
    time.sleep(5)
    kill(workers[1])
    ended = run.wait()
    assert ended.code == 98, ended.err
    assert "its process was killed by signal 9" in ended.err
    lost = [host for host in ended.hosts if "lost" in host]
    assert len(lost) == 1 and 0.05 < lost[0]["lost"]["offered"] < 0.95
    assert [host["replies"] for host in ended.hosts if "lost" not in host] == [800, 800]
    assert ended.tally["replies"] <= server.stop()["replies"]
    assert gone(workers)


def test_a_killed_actor_takes_its_worker_along(start: Start, server: prony.Server) -> None:
    run = start("-r", "300", "-d", "8s", "--hosts", "3", "--no-progress", server.url)
    workers = run.workers(3)
    time.sleep(4)
    kill(parent(workers[0]))
    ended = run.wait()
    assert ended.code == 98, ended.err
    assert "its actor died" in ended.err
    assert gone(workers)


def test_a_silent_worker_can_stop_the_run(start: Start, server: prony.Server) -> None:
    words = ["-r", "300", "-d", "30s", "--hosts", "3", "--no-progress", "--on-loss", "stop"]
    run = start(*words, server.url)
    workers = run.workers(3)
    time.sleep(4)
    kill(workers[2], signal.SIGSTOP)
    ended = run.wait()
    assert ended.code == 98, ended.err
    assert "it was silent for " in ended.err
    assert all(host["replies"] < 3000 for host in ended.hosts)
    assert gone(workers)


def test_an_interruption_drains_all_workers(start: Start) -> None:
    with prony.serve(latency="fixed:200ms") as server:
        run = start("-r", "200", "-d", "60s", "--hosts", "2", "--quiet", server.url)
        workers = run.workers(2)
        time.sleep(5)
        run.process.send_signal(signal.SIGINT)
        ended = run.wait()
        assert ended.code == 130, ended.err
        assert (ended.tally["unfinished"], ended.tally["failed"]) == (0, 0)
        assert server.stop()["replies"] == ended.tally["replies"] > 50
        assert gone(workers)


def test_workers_end_with_their_driver(start: Start, server: prony.Server) -> None:
    run = start("-r", "200", "-d", "60s", "--hosts", "3", "--quiet", server.url)
    workers = run.workers(3)
    time.sleep(2)
    run.process.kill()
    run.process.wait()
    assert gone(workers), "an orphan is left"


def test_python_uses_the_cluster(cluster: Any, server: prony.Server) -> None:
    result = prony.load(
        server.url,
        rate=200,
        duration=2,
        hosts=2,
        engine="ray",
        cluster=cluster.address,
        accept_invalid=True,
    )
    assert result.replies == 400 and server.stop()["replies"] == 400


def test_searches_and_comparisons_use_the_cluster(cluster: Any, server: prony.Server) -> None:
    hosts: dict[str, Any] = {"hosts": 2, "engine": "ray", "cluster": cluster.address}
    found = prony.capacity(
        server.url, thresholds=["p99 < 1us"], from_=100, budget=20, threads=1, **hosts
    )
    # No server is that fast: the thresholds hold at no rate, and each trial had its whole load.
    assert found.rate is None or found.kind == "nowhere", found
    assert found.trials and all(trial.requests > 0 for trial in found.trials)
    for trial in found.trials:
        expected = trial.rate * trial.seconds
        assert abs(trial.requests - expected) < 6 * expected**0.5, trial
    with prony.serve(latency="fixed:20ms") as slow:
        compared = prony.compare(
            server.url, slow.url, rate=100, duration=1, warmup=0.2, blocks=3, threads=1,
            accept_invalid=True, **hosts,
        )
        assert compared.rounds == 3
        change = compared.change("p50")
        assert change.b is not None and 0.02 <= change.b < 0.1
        # Both workers of the three blocks, with their warm-ups.
        assert slow.stop()["replies"] == 360


def test_a_lost_node_is_named_and_a_late_one_is_used(
    cluster: Any, start: Start, server: prony.Server
) -> None:
    run = start("-r", "400", "-d", "10s", "--hosts", "4", "--no-progress", server.url)
    workers = run.workers(4)
    time.sleep(4)
    cluster.remove_node(list(cluster.worker_nodes)[0], allow_graceful=False)
    ended = run.wait()
    assert ended.code == 98, ended.err
    assert " was lost after " in ended.err
    assert len([host for host in ended.hosts if "lost" in host]) == 1
    assert gone(workers)
    # Ray may need a minute to know that the node is gone.
    cluster.wait_for_nodes(timeout=100)
    too_few = start("-n", "40", "--hosts", "4", server.url).wait()
    assert "the cluster has 3 hosts" in too_few.err
    cluster.add_node(**NODE)
    again = start("-r", "400", "-d", "1s", "--hosts", "4", "--accept-invalid", server.url).wait()
    assert again.code == 0 and again.tally["replies"] == 400, again.err
