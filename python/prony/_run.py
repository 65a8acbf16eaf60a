"""Runs, in this process and without the interpreter's lock."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from . import _prony
from ._errors import Error, Interrupted, OutputError, UsageError, error
from ._found import Capacity, Comparison
from ._phases import PhasedResult
from ._program import path_or_default
from ._result import Result
from ._users import Users, functions
from ._words import words

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import (
        CapacityOptions,
        CompareOptions,
        LlmOptions,
        LoadOptions,
        RttOptions,
        RunOptions,
    )

logger = logging.getLogger("prony")

# How long the interpreter waits for an event before it looks for signals.
_TURN = 0.1


@dataclass(frozen=True)
class Tick:
    """The state of a load, about once a second. Times are in seconds, rates per second; None where
    there is no such figure, or the sample is too small for it."""

    elapsed: float
    """Since the start of the warm-up or the measurement, to which the drain belongs."""
    phase: str
    """`warmup`, `measurement` or `drain`."""
    started: int
    """Requests started so far, including the warm-up."""
    replies: int
    """Successful replies so far, including the warm-up."""
    failed: int
    """Failed requests so far, including the warm-up."""
    in_flight: int | None
    """Requests in flight."""
    rate: float | None
    """Successful replies per second, in the last second."""
    target_rate: float | None
    """The target rate of an open loop."""
    p50: float | None
    """The median response time of the last second."""
    p99: float | None
    """The 99th percentile of the response times of the last second."""
    max: float | None
    """The longest response time of the last second."""
    hosts: int | None
    """In a run on several hosts: how many are at work or done."""
    of_hosts: int | None
    """In a run on several hosts: how many there are."""
    plan_phase: str | None = None
    """In a plan with phases: the name of the phase."""

    def __str__(self) -> str:
        parts = [] if self.plan_phase is None else [self.plan_phase]
        parts.append(f"{self.elapsed:.0f} s")
        if self.phase != "measurement":
            parts.append(self.phase)
        if self.hosts is not None:
            parts.append(f"{self.hosts} of {self.of_hosts} hosts")
        if self.rate is not None:
            parts.append(f"{self.rate:.6g}/s")
        if self.p50 is not None:
            parts.append(f"p50 {self.p50 * 1e3:.3g} ms")
        if self.p99 is not None:
            parts.append(f"p99 {self.p99 * 1e3:.3g} ms")
        return ", ".join([*parts, f"{self.failed} failed"])


class _Execution:
    """A run, and what has come from it."""

    def __init__(
        self, line: list[str], plan_text: str | None, users: Users | None = None
    ) -> None:
        self.run = _prony.Run(
            line, path_or_default(), sys.executable, plan_text, functions(users)
        )
        self.text: str | None = None
        self.exit_code: int | None = None

    def take(self, on_tick: Callable[[Tick], object]) -> None:
        """Takes in the next event, if one comes soon."""
        try:
            event = self.run.next(_TURN)
        except _prony.Refused as why:
            raise error(*why.args) from None
        if event is None or event[0] == "finished":
            return
        if event[0] == "tick":
            tick = Tick(**event[1])
            logger.info("%s", tick)
            on_tick(tick)
        elif event[0] == "progress":
            logger.info("%s", event[1])
        elif event[0] == "said":
            logger.warning("%s", event[1])
        elif event[0] == "explained":
            self.text = event[1]
        elif event[0] == "end":
            self.exit_code = event[1]

    def follow(self, on_tick: Callable[[Tick], object] = lambda _: None) -> None:
        """Takes in events until the end. KeyboardInterrupt stops the run: the first one drains, the
        second ends it at once."""
        interrupted = False
        while self.exit_code is None:
            try:
                self.take(on_tick)
            except KeyboardInterrupt:
                interrupted = True
                self.run.interrupt()
            except Exception as why:
                if interrupted:
                    raise KeyboardInterrupt from why
                if isinstance(why, Error) and self._has_report():
                    # A later phase could not start, or a file cannot be written.
                    self.exit_code = 3 if isinstance(why, OutputError) else 2
                    why.result = self.result()
                raise
        if interrupted:
            if self._has_report():
                raise Interrupted(self.result())
            if self.run.found() is None:
                raise KeyboardInterrupt

    def _has_report(self) -> bool:
        return self.run.report() is not None or self.run.phased() is not None

    def found(self) -> tuple[_prony.Found, int]:
        """The report of a search or a comparison and its exit code, after the end."""
        found = self.run.found()
        if found is None or self.exit_code is None:
            raise RuntimeError("the run has no report")
        return found, self.exit_code

    def result(self) -> Result:
        """The result, after the end."""
        report, phased = self.run.report(), self.run.phased()
        if phased is not None:
            result: Result = PhasedResult(phased, self.exit_code)
        elif report is not None:
            result = Result(report, self.exit_code)
        else:
            raise RuntimeError("the run has no report")
        logger.info("%r", result)
        return result


def _run(
    line: list[str], plan_text: str | None = None, users: Users | None = None
) -> Result:
    execution = _Execution(line, plan_text, users)
    execution.follow()
    return execution.result()


def load(*url: str, users: Users | None = None, **options: Unpack[LoadOptions]) -> Result:
    """Runs a load, like `prony URL...`, and returns its result. `users` are users written in
    Python (see `user`), which choose the paths of their requests themselves.

    The keywords are the options of the command line, with `_` in place of `-`
    (`prony load --help`, docs/options.md). Times are in seconds, or texts such as "1m30s".
    The interpreter's lock is free while the load runs; Ctrl-C stops the load, waits for the
    requests in flight, and raises `Interrupted` with the result so far.

    Raises:
        UsageError: an option or a URL is wrong. Nothing was sent.
        SetupError: the load could not start. Nothing was sent.
        OutputError: a file of `output` cannot be written.
    """
    return _run(words("load", options, url), users=users)


def llm(*url: str, **options: Unpack[LlmOptions]) -> Result:
    """Loads a server of a language model, like `prony llm URL`, and returns the result. `model` is
    needed. The result has the times of tokens (`ttft`, `itl`) and their numbers (`tokens`), see
    docs/llm.md. The timeout of a request is 10 minutes by default.

    Raises:
        UsageError: an option or a URL is wrong, or `model` is missing. Nothing was sent.
        SetupError: the load could not start. Nothing was sent.
        OutputError: a file of `output` cannot be written.
    """
    return _run(words("llm", options, url))


def rtt(target: str, **options: Unpack[RttOptions]) -> Result:
    """Measures round-trip times to a responder (`prony echo`), like `prony rtt TARGET`, and returns
    the result. The response times are the round trips, in seconds.

    Raises:
        UsageError: an option or the target is wrong. Nothing was sent.
        SetupError: the run could not start. Nothing was sent.
    """
    return _run(words("rtt", options, (target,)))


def capacity(*url: str, **options: Unpack[CapacityOptions]) -> Capacity:
    """Finds the highest rate at which all `thresholds` hold, like `prony capacity URL`
    (docs/capacity.md). Ctrl-C ends the search, and returns what is known by then.

    Raises:
        UsageError: an option or a URL is wrong. Nothing was sent.
        SetupError: a trial could not start.
        OutputError: a file of `output` cannot be written.
    """
    execution = _Execution(words("capacity", options, url), None)
    execution.follow()
    return Capacity(*execution.found())


def compare(*target: Any, **options: Unpack[CompareOptions]) -> Comparison:
    """Compares two or more targets by blocks of load in turn, or saved results, like `prony
    compare A B` (docs/compare.md). A target is a URL, the path of a plan file (.toml), or the path
    of a saved result (.json); or all targets are results of this process, or lists of them, of
    which each is a group. Ctrl-C ends the comparison, and returns what is known by then.

    Raises:
        UsageError: an option or a target is wrong. Nothing was sent.
        SetupError: a block of load could not start.
        OutputError: a file of `output` cannot be written.
    """
    groups = [_group(one) for one in target]
    if not any(groups):
        return _compare(words("compare", options, target))
    if not all(groups):
        raise UsageError("compare results with results, and targets with targets")
    with tempfile.TemporaryDirectory(prefix="prony-") as folder:
        names = []
        for number, group in enumerate(groups):
            files = []
            for i, result in enumerate(group):
                files.append(os.path.join(folder, f"{chr(65 + number % 26)}-{i + 1}.json"))
                with open(files[-1], "w", encoding="utf-8") as file:
                    file.write(result.to_json())
            names.append(files)
        if max(map(len, names)) == 1:
            return _compare(words("compare", options, [files[0] for files in names]))
        if len(names) != 2:
            raise UsageError("a comparison of groups of results has two groups")
        return _compare([*words("compare", options, names[0]), "--", *names[1]])


def _group(one: Any) -> list[Result]:
    """The results of a group; empty if it is a target."""
    group = [one] if isinstance(one, Result) else one
    if not (isinstance(group, (list, tuple)) and all(isinstance(r, Result) for r in group)):
        return []
    for result in group:
        if isinstance(result, PhasedResult):
            raise UsageError(
                "a plan with phases has a result for each phase: compare those, as in "
                "result.phase('spike')"
            )
    return list(group)


def _compare(line: list[str]) -> Comparison:
    execution = _Execution(line, None)
    execution.follow()
    return Comparison(*execution.found())


class Plan:
    """A plan: what is sent where, when and by whom (docs/plan-files.md)."""

    def __init__(self, path: str | None, text: str | None) -> None:
        self._path = path
        self._text = text
        try:
            self.summary: str = _prony.check_plan("plan" if path is None else path, text)
            """The plan in one line."""
        except _prony.Refused as why:
            raise error(*why.args) from None

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Plan:
        """The plan in a file.

        Raises:
            UsageError: all errors of the file, each with its line and column.
        """
        return cls(os.fspath(path), None)

    @classmethod
    def from_text(cls, text: str) -> Plan:
        """The plan in a text (TOML). File names in it are relative to the current directory.

        Raises:
            UsageError: all errors of the text, each with its line and column.
        """
        return cls(None, text)

    @classmethod
    def from_options(cls, *url: str, **options: Unpack[LoadOptions]) -> Plan:
        """The plan that `load` would run with these options, complete with the values that this
        machine adds. Options about how it is run (`threads`, `output`, ...) are not part of it.

        Raises:
            UsageError: an option or a URL is wrong.
        """
        execution = _Execution([*words("load", options, url), "--explain"], None)
        execution.follow()
        return cls(None, execution.text)

    @property
    def text(self) -> str:
        """The text of the plan (TOML)."""
        if self._text is not None:
            return self._text
        assert self._path is not None
        with open(self._path, encoding="utf-8") as file:
            return file.read()

    def _line(self, options: Any) -> list[str]:
        return words("run", options, ("-" if self._path is None else self._path,))

    def run(self, **options: Unpack[RunOptions]) -> Result:
        """Runs the plan, like `prony run`, and returns its result; see `load`. That of a plan with
        phases is a `PhasedResult`, whose `phases` have a result each."""
        return _run(self._line(options), self._text)

    def explain(self, **options: Unpack[RunOptions]) -> str:
        """The complete plan file, with the values that this machine adds."""
        execution = _Execution([*self._line(options), "--explain"], self._text)
        execution.follow()
        return execution.text or ""

    def __repr__(self) -> str:
        return f"<prony.Plan {self.summary}>"


def simulate(
    plan: Plan, *, latency: str = "none", **options: Unpack[RunOptions]
) -> Result:
    """Runs a plan in virtual time, against a simulated server whose service time has the
    distribution `latency` (as in `prony serve --latency`). The same plan and `seed` (1 unless
    given) give the same result, on any machine. No request is sent. The result of a plan with
    phases is a `PhasedResult`.

    Raises:
        UsageError: an option is wrong.
    """
    seed = options.setdefault("seed", 1)
    line = plan._line(options)
    line[2:2] = [f"--simulate={seed}", f"--simulate-latency={latency}"]
    return _run(line, plan._text)


class Watch(AsyncIterator[Tick]):
    """A run with live figures: iterate over it for a `Tick` each second, await it for its
    `Result`. Cancelling the task stops the load and waits for the requests in flight."""

    def __init__(
        self, line: list[str], plan_text: str | None, users: Users | None = None
    ) -> None:
        self._line = line
        self._plan_text = plan_text
        self._users = users
        self._execution: _Execution | None = None
        self._ticks: asyncio.Queue[Tick | None] = asyncio.Queue()
        self._done: asyncio.Future[Result] | None = None

    def start(self) -> Watch:
        """Starts the run, if it has not started. Iterating and awaiting do so, too."""
        if self._done is not None:
            return self
        loop = asyncio.get_running_loop()
        done = self._done = loop.create_future()
        execution = self._execution = _Execution(self._line, self._plan_text, self._users)

        def end(result: Result | None, why: BaseException | None) -> None:
            self._ticks.put_nowait(None)
            if done.cancelled():
                return
            if result is None:
                done.set_exception(why or RuntimeError("the run has no report"))
            else:
                done.set_result(result)

        def follow() -> None:
            result, why = None, None
            try:
                execution.follow(lambda tick: loop.call_soon_threadsafe(put, tick))
                result = execution.result()
            except BaseException as e:
                why = e
            try:
                loop.call_soon_threadsafe(end, result, why)
            except RuntimeError:
                logger.warning("the event loop was closed before the run ended")

        put = self._ticks.put_nowait
        threading.Thread(target=follow, name="prony-watch", daemon=True).start()
        return self

    def stop(self) -> None:
        """Stops the load: the first time, requests in flight are waited for; the second time, the
        run ends at once."""
        self.start()
        assert self._execution is not None
        self._execution.run.interrupt()

    async def result(self) -> Result:
        """The result, once the run has ended."""
        self.start()
        assert self._done is not None
        try:
            return await asyncio.shield(self._done)
        except asyncio.CancelledError:
            await self._drain()
            raise

    def __await__(self) -> Generator[Any, None, Result]:
        return self.result().__await__()

    async def __anext__(self) -> Tick:
        self.start()
        assert self._done is not None
        try:
            tick = await self._ticks.get()
        except asyncio.CancelledError:
            await self._drain()
            raise
        if tick is not None:
            return tick
        # For whoever asks again.
        self._ticks.put_nowait(None)
        if self._done.exception() is not None:
            await self._done
        raise StopAsyncIteration

    async def _drain(self) -> None:
        assert self._done is not None
        if not self._done.done():
            self.stop()
            await asyncio.wait([self._done])


@overload
def watch(plan: Plan, /, **options: Unpack[RunOptions]) -> Watch: ...
@overload
def watch(
    *url: str, users: Users | None = None, **options: Unpack[LoadOptions]
) -> Watch: ...
def watch(*what: Any, users: Users | None = None, **options: Any) -> Watch:
    """Runs a plan, or a load of URLs, with live figures::

        run = prony.watch(plan)
        async for tick in run:
            print(tick.rate, tick.p99)
        result = await run

    Errors are raised by the iteration and by `await`, as `load` raises them.
    """
    if len(what) == 1 and isinstance(what[0], Plan):
        if users is not None:
            raise UsageError("users: a plan has its own; give watch a URL")
        return Watch(what[0]._line(options), what[0]._text)
    if any(isinstance(one, Plan) for one in what):
        raise UsageError("watch takes one plan, or URLs")
    return Watch(words("load", options, what), None, users)
