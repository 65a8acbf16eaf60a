"""The engine `ray`: starts a worker on each of several hosts of a Ray cluster, and carries its
lines. `prony ... --hosts N --engine ray` starts `python -m prony.ray`.

All figures are those of the native workers; this module looks into no line. The driver speaks with
it in JSON lines (crates/prony-hosts/src/carrier.rs).
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from ._program import program

# How long the cluster may take to place the workers, in seconds.
PLACE = 120
# How long a worker may take to end once its input has ended, in seconds.
END = 3


def _ray() -> Any:
    """The package Ray, which has the name of this module."""
    return importlib.import_module("ray")


def _in(group: str) -> Callable[[Any], Any]:
    """Puts a method of an actor into a group, which has a thread of its own."""
    try:
        decorate: Callable[[Any], Any] = _ray().method(concurrency_group=group)
    except ImportError:
        return lambda method: method
    return decorate


class Refused(Exception):
    """Why the workers cannot start, as a sentence."""


class Worker:
    """One `prony worker`, in an actor on its host. It ends with the actor, because its input ends
    then."""

    def __init__(self, args: list[str]) -> None:
        self._process = subprocess.Popen(
            [program(), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @_in("in")
    def pids(self) -> tuple[int, int]:
        """The process numbers of the actor and of its worker."""
        return os.getpid(), self._process.pid

    @_in("in")
    def send(self, line: str) -> None:
        """Passes a line to the worker."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            # It has ended, which its output shows.
            pass

    @_in("out")
    def lines(self) -> Iterator[tuple[str, str]]:
        """The lines of the worker, each as `("line", text)`, and at last `("gone", cause)`."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield "line", line.rstrip("\n")
        code = self._process.wait()
        if code < 0:
            yield "gone", f"its process was killed by signal {-code}"
        else:
            yield "gone", f"its process ended with exit code {code}"

    @_in("in")
    def end(self) -> None:
        """Ends the worker."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass
        try:
            self._process.wait(timeout=END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Cluster:
    """Workers on the hosts of a Ray cluster."""

    def __init__(self, address: str | None, insecure: bool, output: TextIO) -> None:
        self._address = address
        self._insecure = insecure
        self._output = output
        self._lock = threading.Lock()
        self._actors: list[Any] = []
        self._group: Any = None

    def report(self, **report: Any) -> None:
        """Reports to the driver."""
        line = json.dumps(report, ensure_ascii=False)
        with self._lock:
            self._output.write(line + "\n")
            self._output.flush()

    def open(self, workers: int, args: list[str]) -> None:
        """Starts the workers, each on a host of its own.

        Raises:
            Refused: none was started.
        """
        ray = self._connected()
        hosts = [
            node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
        ]
        if len(hosts) < workers:
            raise Refused(
                f"the cluster has {len(hosts)} hosts with a CPU for prony, not {workers}; start "
                "Ray on more hosts, or ask for fewer"
            )
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        # All or none, each on a host of its own.
        self._group = placement_group([{"CPU": 1}] * workers, strategy="STRICT_SPREAD")
        if not self._group.wait(timeout_seconds=PLACE):
            raise Refused(
                f"the cluster found no {workers} hosts with a free CPU within {PLACE} s; wait "
                "until they are free, or ask for fewer"
            )
        # One thread for the lines there, one for the lines back. What fails is not started again:
        # that would be another load.
        actor = ray.remote(
            num_cpus=1,
            max_restarts=0,
            max_task_retries=0,
            concurrency_groups={"in": 1, "out": 1},
        )(Worker)
        for index in range(workers):
            place = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=index)
            self._actors.append(actor.options(scheduling_strategy=place).remote(args))
        try:
            ray.get([one.pids.remote() for one in self._actors], timeout=PLACE)
        except Exception as why:
            raise Refused(f"a worker did not start: {_cause(why)}") from why
        for index, one in enumerate(self._actors):
            thread = threading.Thread(target=self._follow, args=(index, one), daemon=True)
            thread.start()

    def _connected(self) -> Any:
        try:
            ray = _ray()
        except ImportError:
            raise Refused(
                f"{sys.executable} has no Ray: pip install 'prony[ray]', or set PRONY_PYTHON to an "
                "interpreter that has it"
            ) from None
        address = self._address or os.environ.get("RAY_ADDRESS") or "auto"
        if address.startswith("ray://"):
            raise Refused(
                f"{address} is for Ray's client; run prony on a host of the cluster, and give "
                "HOST:PORT"
            )
        if not self._insecure and os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
            raise Refused(
                "a Ray cluster without tokens runs the code of anyone who reaches its port; set "
                "RAY_AUTH_MODE=token on all its hosts and here, or accept the risk with "
                "--insecure-cluster"
            )
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except Exception as why:
            raise Refused(f"no Ray cluster at {address}: {_cause(why)}") from why
        return ray

    def _follow(self, index: int, actor: Any) -> None:
        """Reports what a worker says, until it is gone."""
        ray = _ray()
        cause = "its output ended"
        try:
            for ref in actor.lines.options(num_returns="streaming").remote():
                kind, text = ray.get(ref)
                if kind == "gone":
                    cause = text
                    break
                self.report(type="line", worker=index, line=text)
        except Exception as why:
            cause = _cause(why)
        self.report(type="gone", worker=index, cause=cause)

    def send(self, worker: int, line: str) -> None:
        """Passes a line to a worker. One that is gone reports so itself."""
        self._actors[worker].send.remote(line)

    def close(self) -> None:
        """Ends the workers, and leaves the cluster."""
        if "ray" not in sys.modules:
            return
        ray = _ray()
        if not ray.is_initialized():
            return
        ends = [actor.end.remote() for actor in self._actors]
        if ends:
            ray.wait(ends, num_returns=len(ends), timeout=END + 2)
        if self._group is not None:
            from ray.util.placement_group import remove_placement_group

            remove_placement_group(self._group)
        ray.shutdown()


def _cause(why: BaseException) -> str:
    """An exception of Ray as the end of a sentence."""
    name = type(why).__name__
    causes = {
        "ActorDiedError": "its actor died",
        "ActorUnavailableError": "its host cannot be reached",
        "NodeDiedError": "its host is gone",
        "WorkerCrashedError": "its actor died",
    }
    if name in causes:
        return causes[name]
    lines = [line.strip() for line in str(why).splitlines() if line.strip()]
    return f"{name}: {lines[-1] if lines else 'no reason given'}"


def main() -> None:
    """Carries lines between the driver, on standard input and output, and the workers."""
    parser = argparse.ArgumentParser(prog="python -m prony.ray")
    parser.add_argument("--cluster", metavar="ADDR")
    parser.add_argument("--insecure-cluster", action="store_true")
    args = parser.parse_args()
    # Standard output is the driver's alone: what Ray prints goes to standard error.
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cluster = Cluster(args.cluster, args.insecure_cluster, output)
    try:
        for line in sys.stdin:
            request = json.loads(line)
            if request["type"] == "open":
                try:
                    cluster.open(request["workers"], request["args"])
                except Refused as why:
                    cluster.report(type="refused", why=str(why))
                    break
                cluster.report(type="opened")
            elif request["type"] == "send":
                cluster.send(request["worker"], request["line"])
            else:
                break
    except BrokenPipeError:
        # The driver is gone.
        pass
    finally:
        cluster.close()


if __name__ == "__main__":
    # Ray finds the class of the actors on other hosts by the name of this module.
    from prony.ray import main as main_of_module

    main_of_module()
