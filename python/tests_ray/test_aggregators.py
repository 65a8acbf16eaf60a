"""The contract of engines, on Ray with aggregators: the same as
crates/prony/tests/it/aggregators.rs asks of `local`."""

from __future__ import annotations

import signal
import time

import prony
from conftest import Start, at_work, gone, kill, parent

GROUPS = ["--hosts", "4", "--hosts-per-aggregator", "2"]


def test_groups_of_hosts_make_one_run(start: Start, server: prony.Server) -> None:
    ended = start("-r", "400", "-d", "3s", *GROUPS, "--accept-invalid", server.url).wait()
    assert ended.code == 0, ended.err
    assert (ended.tally["started"], ended.tally["replies"]) == (1200, 1200)
    assert server.stop()["replies"] == 1200
    assert [host["replies"] for host in ended.hosts] == [300] * 4
    for host in ended.hosts:
        assert abs(host["clock"]["offset_ns"]) <= host["clock"]["bound"], host
    assert "4 of 4 hosts" in ended.err
    assert gone(at_work() + at_work(aggregators=True))


def test_a_killed_worker_of_a_group_is_named(start: Start, server: prony.Server) -> None:
    run = start("-r", "400", "-d", "8s", *GROUPS, "--no-progress", server.url)
    workers = run.workers(4)
    time.sleep(5)
    kill(workers[1])
    ended = run.wait()
    assert ended.code == 98, ended.err
    assert "its process was killed by signal 9" in ended.err
    lost = [host for host in ended.hosts if "lost" in host]
    assert len(lost) == 1 and 0.05 < lost[0]["lost"]["offered"] < 0.95
    assert [host["replies"] for host in ended.hosts if "lost" not in host] == [800] * 3
    assert ended.tally["replies"] <= server.stop()["replies"]
    assert gone(workers)


def lost_aggregator(run_with: Start, url: str, how: str) -> None:
    run = run_with("-r", "400", "-d", "12s", *GROUPS, "--no-progress", url)
    workers = run.workers(4)
    time.sleep(5)
    aggregators = at_work(aggregators=True)
    assert len(aggregators) == 2
    if how == "actor":
        kill(parent(aggregators[0]))
    else:
        kill(aggregators[0], signal.SIGSTOP if how == "silent" else signal.SIGKILL)
    ended = run.wait()
    assert ended.code == 98, ended.err
    assert "prony: the aggregator of workers " in ended.err, ended.err
    lost = [host for host in ended.hosts if "lost" in host]
    assert len(lost) == 2, ended.err
    assert all("its aggregator was lost: " in host["lost"]["cause"] for host in lost)
    # The sums are with the first host of the group.
    assert lost[0]["replies"] >= 200 and lost[0]["replies"] % 200 == 0 and lost[1]["replies"] == 0
    assert [host["replies"] for host in ended.hosts if "lost" not in host] == [1200] * 2
    assert gone(workers + aggregators)


def test_a_killed_aggregator_is_named(start: Start, server: prony.Server) -> None:
    lost_aggregator(start, server.url, "killed")


def test_a_silent_aggregator_is_named(start: Start, server: prony.Server) -> None:
    lost_aggregator(start, server.url, "silent")


def test_an_actor_that_is_killed_takes_its_group_along(start: Start, server: prony.Server) -> None:
    lost_aggregator(start, server.url, "actor")


def test_groups_end_with_their_driver(start: Start, server: prony.Server) -> None:
    run = start("-r", "200", "-d", "60s", *GROUPS, "--quiet", server.url)
    workers = run.workers(4)
    aggregators = at_work(aggregators=True)
    time.sleep(2)
    run.process.kill()
    run.process.wait()
    assert gone(workers + aggregators), "an orphan is left"
