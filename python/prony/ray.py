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
# The lines of an aggregator that are for its workers.
TO_WORKERS = ('{"type":"open"', '{"type":"send"', '{"type":"close"')

# Reports a line to the driver.
Report = Callable[..., None]


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

    @_in("end")
    def end(self) -> None:
        """Ends the worker."""
        assert self._process.stdin is not None
        # A process that reads nothing can hold up even the end of its input.
        late = threading.Timer(END, self._process.kill)
        late.start()
        try:
            self._process.stdin.close()
        except OSError:
            pass
        self._process.wait()
        late.cancel()


class Group:
    """Actors, each on a host of its own, whose lines are reported."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._actors: list[Any] = []

    def open(self, kind: type, group: Any, places: list[int], arguments: list[Any]) -> None:
        """Starts an actor of this kind in each of these places of a placement group.

        Raises:
            Refused: one did not start.
        """
        ray = _ray()
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        # A thread each for the lines there, the lines back and the end. What fails is not started
        # again: that would be another load.
        actor = ray.remote(
            num_cpus=1 if kind is Worker else 0,
            max_restarts=0,
            max_task_retries=0,
            concurrency_groups={"in": 1, "out": 1, "end": 1},
        )(kind)
        for place, given in zip(places, arguments):
            at = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=place)
            self._actors.append(actor.options(scheduling_strategy=at).remote(*given))
        try:
            ray.get([one.pids.remote() for one in self._actors], timeout=PLACE)
        except Exception as why:
            raise Refused(f"a worker did not start: {_cause(why)}") from why
        for index, one in enumerate(self._actors):
            thread = threading.Thread(target=self._follow, args=(index, one), daemon=True)
            thread.start()

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
                self._report(type="line", worker=index, line=text)
        except Exception as why:
            cause = _cause(why)
        self._report(type="gone", worker=index, cause=cause)

    def send(self, worker: int, line: str) -> None:
        """Passes a line to a worker. One that is gone reports so itself."""
        self._actors[worker].send.remote(line)

    def close(self) -> None:
        """Ends the workers."""
        ray = _ray()
        ends = [actor.end.remote() for actor in self._actors]
        if ends:
            ray.wait(ends, num_returns=len(ends), timeout=END + 2)


class Aggregator(Worker):
    """One aggregator in an actor, for a group of hosts: it starts their workers, and passes
    their lines to the program, which merges them."""

    def __init__(self, args: list[str], group: Any, places: list[int]) -> None:
        super().__init__(args)
        self._lock = threading.Lock()
        self._place = group, places
        self._group = Group(self._tell)

    def _tell(self, **line: Any) -> None:
        with self._lock:
            super().send(json.dumps(line, ensure_ascii=False))

    @_in("in")
    def send(self, line: str) -> None:
        """Passes a line of the driver to the program."""
        with self._lock:
            super().send(line)

    @_in("out")
    def lines(self) -> Iterator[tuple[str, str]]:
        """The lines of the program for the driver; those for the workers are carried out."""
        for kind, line in super().lines():
            if kind == "line" and line.startswith(TO_WORKERS):
                self._carry(json.loads(line))
            else:
                yield kind, line
        # The program has ended, perhaps before its time.
        self._group.close()

    def _carry(self, request: dict[str, Any]) -> None:
        if request["type"] == "open":
            args = [[request["args"]]] * request["workers"]
            try:
                self._group.open(Worker, *self._place, args)
                self._tell(type="opened")
            except Refused as why:
                self._tell(type="refused", why=str(why))
        elif request["type"] == "send":
            self._group.send(request["worker"], request["line"])
        else:
            self._group.close()

    @_in("end")
    def end(self) -> None:
        """Ends the program and its workers."""
        super().end()
        self._group.close()


class Cluster:
    """Workers on the hosts of a Ray cluster."""

    def __init__(self, address: str | None, insecure: bool, output: TextIO) -> None:
        self._address = address
        self._insecure = insecure
        self._output = output
        self._lock = threading.Lock()
        self._workers = Group(self.report)
        self._group: Any = None

    def report(self, **report: Any) -> None:
        """Reports to the driver."""
        line = json.dumps(report, ensure_ascii=False)
        with self._lock:
            self._output.write(line + "\n")
            self._output.flush()

    def open(self, workers: int, args: list[str], hosts: dict[str, int] | None = None) -> None:
        """Starts the workers, each on a host of its own. With `hosts`, they are aggregators: `all`
        is the number of hosts, and `group` that of each aggregator, which starts their workers.

        Raises:
            Refused: none was started.
        """
        ray = self._connected()
        wanted = hosts["all"] if hosts else workers
        known = [
            node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
        ]
        if len(known) < wanted:
            raise Refused(
                f"the cluster has {len(known)} hosts with a CPU for prony, not {wanted}; start "
                "Ray on more hosts, or ask for fewer"
            )
        from ray.util.placement_group import placement_group

        # All or none, each on a host of its own.
        self._group = placement_group([{"CPU": 1}] * wanted, strategy="STRICT_SPREAD")
        if not self._group.wait(timeout_seconds=PLACE):
            raise Refused(
                f"the cluster found no {wanted} hosts with a free CPU within {PLACE} s; wait "
                "until they are free, or ask for fewer"
            )
        if hosts is None:
            self._workers.open(Worker, self._group, list(range(workers)), [[args]] * workers)
            return
        starts = range(0, wanted, hosts["group"])
        places = [list(range(start, min(start + hosts["group"], wanted))) for start in starts]
        arguments = [[args, self._group, places_of_one] for places_of_one in places]
        self._workers.open(Aggregator, self._group, list(starts), arguments)

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

    def send(self, worker: int, line: str) -> None:
        """Passes a line to a worker."""
        self._workers.send(worker, line)

    def close(self) -> None:
        """Ends the workers, and leaves the cluster."""
        if "ray" not in sys.modules:
            return
        ray = _ray()
        if not ray.is_initialized():
            return
        self._workers.close()
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
                    cluster.open(request["workers"], request["args"], request.get("hosts"))
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
