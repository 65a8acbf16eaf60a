"""The pytest plugin: the fixture `prony`.

    def test_api(prony):
        prony.load("http://127.0.0.1:8080/", rate=200, duration=5, threshold="p99 < 50ms").assert_ok()

If the test fails, the report of each of its runs is printed with it, and written to the folder of
`--prony-reports`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union

import pytest

from . import _run
from ._found import Capacity, Comparison
from ._result import Result
from ._server import Server, serve

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import (
        CapacityOptions,
        CompareOptions,
        LlmOptions,
        LoadOptions,
        RttOptions,
        RunOptions,
        ServeOptions,
    )
    from ._users import Users

_Report = TypeVar("_Report", Result, Capacity, Comparison)
_RESULTS = pytest.StashKey[list[Union[Result, Capacity, Comparison]]]()


class Prony:
    """The functions of the package; remembers the results for the report of a failed test, and ends
    the servers when the test ends."""

    def __init__(self) -> None:
        self.results: list[Result | Capacity | Comparison] = []
        self._servers: list[Server] = []

    def load(
        self, *url: str, users: Users | None = None, **options: Unpack[LoadOptions]
    ) -> Result:
        """`prony.load`."""
        return self._kept(_run.load(*url, users=users, **options))

    def llm(self, *url: str, **options: Unpack[LlmOptions]) -> Result:
        """`prony.llm`."""
        return self._kept(_run.llm(*url, **options))

    def run(self, plan: _run.Plan, **options: Unpack[RunOptions]) -> Result:
        """`plan.run`."""
        return self._kept(plan.run(**options))

    def rtt(self, target: str, **options: Unpack[RttOptions]) -> Result:
        """`prony.rtt`."""
        return self._kept(_run.rtt(target, **options))

    def capacity(self, *url: str, **options: Unpack[CapacityOptions]) -> Capacity:
        """`prony.capacity`."""
        return self._kept(_run.capacity(*url, **options))

    def compare(self, *target: Any, **options: Unpack[CompareOptions]) -> Comparison:
        """`prony.compare`."""
        return self._kept(_run.compare(*target, **options))

    def serve(self, address: str = "127.0.0.1:0", **options: Unpack[ServeOptions]) -> Server:
        """`prony.serve`; the server ends with the test."""
        server = serve(address, **options)
        self._servers.append(server)
        return server

    def close(self) -> None:
        """Ends the servers."""
        while self._servers:
            self._servers.pop().stop()

    def _kept(self, result: _Report) -> _Report:
        self.results.append(result)
        return result


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("prony")
    group.addoption(
        "--prony-reports",
        metavar="DIR",
        help="write the HTML and JSON reports of failed tests to this folder",
    )


@pytest.fixture(name="prony")
def _prony(request: pytest.FixtureRequest) -> Iterator[Prony]:
    """Runs loads, and attaches their reports to the test if it fails."""
    prony = Prony()
    request.node.stash[_RESULTS] = prony.results
    yield prony
    prony.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Adds the reports to a failed test."""
    outcome: Any = yield
    report: pytest.TestReport = outcome.get_result()
    results = item.stash.get(_RESULTS, [])
    if report.when != "call" or not report.failed:
        return
    folder = item.config.getoption("--prony-reports")
    for number, result in enumerate(results, 1):
        text = result.text()
        if folder:
            name = re.sub(r"[^A-Za-z0-9_.-]+", "-", item.nodeid).strip("-")
            stem = Path(folder) / f"{name}-{number}"
            stem.parent.mkdir(parents=True, exist_ok=True)
            files = [stem.with_name(stem.name + ending) for ending in (".html", ".json")]
            result.save(*files)
            text += "".join(f"  written     {file}\n" for file in files)
        report.sections.append((f"prony run {number}", text))
