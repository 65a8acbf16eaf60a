"""A Ray cluster of four hosts in this machine, and a way to run prony on it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import prony
import pytest

# Before Ray is imported: nodes start slowly on a busy machine, and only who has the token may use
# the cluster.
os.environ["RAY_raylet_start_wait_time_s"] = "120"
os.environ["RAY_AUTH_MODE"] = "token"
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"

from ray.cluster_utils import Cluster  # noqa: E402

NODE = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}


# What hosts start as the program: the program itself, unless a test wants something around it.
AROUND = """#!/bin/sh
export PRONY={program}
if [ -f {folder}/odd ]; then . {folder}/odd; fi
exec "$PRONY" "$@"
"""


@pytest.fixture(scope="session")
def hosts_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what hosts start."""
    folder = tmp_path_factory.mktemp("hosts")
    program = folder / "prony"
    of_wheel = Path(sys.executable).with_name("prony")
    program.write_text(AROUND.format(program=of_wheel, folder=folder))
    program.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def cluster(hosts_folder: Path) -> Iterator[Any]:
    """A head without a CPU, and four hosts with one each."""
    # Actors have the environment of their node.
    os.environ["PRONY_PROGRAM"] = str(hosts_folder / "prony")
    cluster = Cluster(
        initialize_head=True,
        head_node_args={**NODE, "num_cpus": 0},
    )
    for _ in range(4):
        cluster.add_node(**NODE)
    del os.environ["PRONY_PROGRAM"]
    yield cluster
    cluster.shutdown()


@pytest.fixture
def around(hosts_folder: Path) -> Iterator[Callable[[str], None]]:
    """Runs lines of a shell on each host instead of its worker, whose command line is
    `"$PRONY" "$@"`; only the first one does what follows `if first; then`."""
    first = hosts_folder / "first"

    def put(lines: str) -> None:
        head = f"first() {{ mkdir {first} 2>/dev/null; }}\n"
        (hosts_folder / "odd").write_text(head + lines)

    yield put
    (hosts_folder / "odd").unlink()
    if first.exists():
        first.rmdir()


class Ended:
    """A run that has ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def report(self) -> dict[str, Any]:
        """Its JSON report."""
        report: dict[str, Any] = json.loads(self.out)
        return report

    @property
    def hosts(self) -> list[dict[str, Any]]:
        """What the report has of the hosts."""
        hosts: list[dict[str, Any]] = self.report["run"]["hosts"]["hosts"]
        return hosts

    @property
    def tally(self) -> dict[str, Any]:
        """The counts of the measurement."""
        tally: dict[str, Any] = self.report["measurement"]["tally"]
        return tally

    @property
    def phases(self) -> list[dict[str, Any]]:
        """The reports of the phases."""
        return [phase["report"] for phase in self.report["phases"]]


class Running:
    """A run of the program on the cluster at this address, or with workers of this machine."""

    def __init__(self, address: str | None, words: list[str], command: str = "load") -> None:
        program = Path(sys.executable).with_name("prony")
        engine = ["ray", "--cluster", address] if address is not None else ["local"]
        line = [str(program), command, "--engine", *engine, "--json", *words]
        self.process = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def wait(self) -> Ended:
        """Waits for its end."""
        out, err = self.process.communicate(timeout=180)
        return Ended(self.process.returncode, out, err)

    def workers(self, count: int) -> list[int]:
        """The process numbers of its workers, once they are at work."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = at_work()
            if len(found) == count:
                return found
            time.sleep(0.2)
        raise AssertionError(f"{at_work()} are at work, not {count} workers")


Start = Callable[..., Running]


@pytest.fixture
def start(cluster: Any) -> Start:
    """Starts a run on the cluster."""
    return lambda *words: Running(cluster.address, list(words))


@pytest.fixture(params=["ray", "local"])
def either(request: pytest.FixtureRequest) -> Start:
    """Starts a run with each of the engines."""
    is_ray = request.param == "ray"
    address = request.getfixturevalue("cluster").address if is_ray else None
    return lambda *words, **command: Running(address, list(words), **command)


def processes() -> Iterator[tuple[int, list[str]]]:
    """All processes that are not dead, with their words."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if state != "Z":
                yield int(folder.name), words


def at_work(aggregators: bool = False) -> list[int]:
    """The workers of this installation, or the aggregators."""
    program = str(Path(sys.executable).with_name("prony"))
    found = [(pid, words) for pid, words in processes() if words[:2] == [program, "worker"]]
    return sorted(pid for pid, words in found if ("--aggregator" in words) == aggregators)


def parent(pid: int) -> int:
    """The process that has started this one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def gone(pids: list[int]) -> bool:
    """Whether all of them end soon."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if not set(pids) & {pid for pid, _ in processes()}:
            return True
        time.sleep(0.2)
    return False


@pytest.fixture
def server() -> Iterator[prony.Server]:
    """A target server."""
    with prony.serve() as server:
        yield server


def kill(pid: int, how: signal.Signals = signal.SIGKILL) -> None:
    """Sends a signal to one of the test's own processes."""
    os.kill(pid, how)
