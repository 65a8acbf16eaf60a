"""The contract of engines. What does not depend on a cluster runs with both of them (`either`), so
that it stays the same contract; crates/prony/tests/it/hosts.rs asks more of `local`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import prony
import pytest
from conftest import NODE, Start, at_work, gone, kill, parent


def test_four_hosts_make_one_run(either: Start, server: prony.Server) -> None:
    ended = either("-r", "400", "-d", "3s", "--hosts", "4", "--accept-invalid", server.url).wait()
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


def test_a_cluster_without_tokens_can_be_accepted(server: prony.Server) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")}
    node = {**NODE, "num_cpus": 1}
    script = f"""
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={node})
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", script], env=environment, **pipes) as open_to_all:
        lines = (line.split() for line in open_to_all.stdout)
        address = next(words[1] for words in lines if words[:1] == ["address"])
        line = [sys.executable, "-m", "prony", "load", "--engine", "ray", "--hosts", "1", "--json"]
        line += ["-r", "100", "-d", "1s", "--accept-invalid", "--cluster", address, server.url]

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*line, *words], env=environment, capture_output=True, text=True, timeout=120
            )

        refused = run()
        assert refused.returncode == 2 and "set RAY_AUTH_MODE=token" in refused.stderr
        done = run("--insecure-cluster")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["measurement"]["tally"]["replies"] == 100
        assert server.stop()["replies"] == 100
        assert open_to_all.stdin is not None
        open_to_all.stdin.close()


def test_a_token_is_needed_where_the_cluster_has_one(cluster: Any, server: prony.Server) -> None:
    line = [sys.executable, "-m", "prony", "load", "--engine", "ray", "--hosts", "2", "-n", "10"]
    line += ["--insecure-cluster", "--cluster", cluster.address, server.url]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=170)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert f"no Ray cluster at {cluster.address}: " in done.stderr, done.stderr
    assert server.stop()["requests"] == 0


def test_offsets_of_clocks_are_measured_and_corrected(
    start: Start, server: prony.Server, around: Callable[[str], None]
) -> None:
    # Each worker's offset of -9 s to 9 s depends on its process number.
    around('exec "$PRONY" "$@" --clock-offset $(( ($$ % 7 - 3) * 3000000000 ))')
    ended = start("-r", "400", "-d", "2s", "--hosts", "4", "--accept-invalid", server.url).wait()
    assert ended.code == 0, ended.err
    assert ended.tally["replies"] == server.stop()["replies"] == 800
    step = 3_000_000_000
    offsets = [host["clock"]["offset_ns"] for host in ended.hosts]
    for host, offset in zip(ended.hosts, offsets):
        off = (offset + step // 2) % step - step // 2
        assert abs(off) <= host["clock"]["bound"] < step // 10, host
        assert host["start_late"] < step
    assert any(abs(offset) > step // 2 for offset in offsets), offsets
    # Series are aligned by the agreed start, so no interval is off by seconds.
    assert ended.tally["end"] - ended.tally["start"] < 2 * step


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        # The order reaches the worker changed: its instant has passed.
        ("""sed -u 's/"at_unix_ns":[0-9]*/"at_unix_ns":1/' | "$PRONY" "$@" """, " too late"),
        (
            """"$PRONY" "$@" | sed -u '/"type":"armed"/d'""",
            " did not acknowledge the start in time",
        ),
    ],
    ids=["late", "not-acknowledged"],
)
def test_one_worker_that_is_not_ready_starts_none(
    odd: str, why: str, start: Start, server: prony.Server, around: Callable[[str], None]
) -> None:
    around(f"if first; then {odd}; exit; fi")
    ended = start("-r", "300", "-d", "2s", "--hosts", "3", server.url).wait()
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert f"{why}; nothing was sent" in ended.err, ended.err
    # Those who have acknowledged the start must not send anything, either.
    time.sleep(1)
    assert server.stop()["requests"] == 0
    assert gone(at_work())


def test_a_killed_worker_is_named_and_its_share_is_not_moved(
    either: Start, server: prony.Server
) -> None:
    run = either("-r", "300", "-d", "8s", "--hosts", "3", "--no-progress", server.url)
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


def test_a_silent_worker_can_stop_the_run(either: Start, server: prony.Server) -> None:
    words = ["-r", "300", "-d", "30s", "--hosts", "3", "--no-progress", "--on-loss", "stop"]
    run = either(*words, server.url)
    workers = run.workers(3)
    time.sleep(4)
    kill(workers[2], signal.SIGSTOP)
    ended = run.wait()
    assert ended.code == 98, ended.err
    assert "it was silent for " in ended.err
    assert all(host["replies"] < 3000 for host in ended.hosts)
    assert gone(workers)


def test_an_interruption_drains_all_workers(either: Start) -> None:
    with prony.serve(latency="fixed:200ms") as server:
        run = either("-r", "200", "-d", "60s", "--hosts", "2", "--quiet", server.url)
        workers = run.workers(2)
        time.sleep(5)
        run.process.send_signal(signal.SIGINT)
        ended = run.wait()
        assert ended.code == 130, ended.err
        assert (ended.tally["unfinished"], ended.tally["failed"]) == (0, 0)
        assert server.stop()["replies"] == ended.tally["replies"] > 50
        assert gone(workers)


def test_a_second_interruption_stops_all_workers_at_once(either: Start) -> None:
    with prony.serve(latency="fixed:20s") as server:
        run = either("-r", "100", "-d", "60s", "--hosts", "2", "--quiet", server.url)
        workers = run.workers(2)
        time.sleep(4)
        run.process.send_signal(signal.SIGINT)
        time.sleep(1)
        # It waits for replies that take 20 s.
        assert run.process.poll() is None and at_work() == workers
        begun = time.monotonic()
        run.process.send_signal(signal.SIGINT)
        ended = run.wait()
        assert time.monotonic() - begun < 12
        assert ended.code == 130, ended.err
        assert (ended.tally["replies"], ended.tally["failed"]) == (0, 0)
        assert ended.tally["unfinished"] == ended.tally["started"] > 50
        assert [host for host in ended.hosts if "lost" in host] == []
        assert gone(workers)


def test_workers_end_with_their_driver(either: Start, server: prony.Server) -> None:
    run = either("-r", "200", "-d", "60s", "--hosts", "3", "--quiet", server.url)
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


PHASES = """
url = "{url}"
[[phases]]
name = "base"
rate = 100
duration = "3s"
[[phases]]
name = "spike"
start = "with"
delay = "1s"
rate = 400
duration = "1s"
[[phases]]
name = "after"
requests = 50
connections = 4
"""


def test_each_phase_is_a_run_on_all_hosts(
    either: Start, server: prony.Server, tmp_path: Path
) -> None:
    plan = tmp_path / "phases.toml"
    plan.write_text(PHASES.format(url=server.url))
    ended = either(str(plan), "--hosts", "2", "--accept-invalid", command="run").wait()
    assert ended.code == 0, ended.err
    tallies = [report["measurement"]["tally"] for report in ended.phases]
    assert [tally["replies"] for tally in tallies] == [300, 400, 50]
    assert server.stop()["replies"] == 750
    on_hosts = [report["run"]["hosts"] for report in ended.phases]
    for run, of_each in zip(on_hosts, (150, 200, 25)):
        assert [host["replies"] for host in run["hosts"]] == [of_each] * 2
    base, spike, after = (run["start_at_unix"] for run in on_hosts)
    assert abs(spike - base - 1) < 1e-3, "one clock, a delay of 1 s"
    assert after - base >= 3, "after the longest of both"
    assert gone(at_work())


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
