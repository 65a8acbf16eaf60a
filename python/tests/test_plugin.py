"""The pytest plugin, and the extras where they are installed."""

from __future__ import annotations

import json
from pathlib import Path

import prony
import pytest

TESTS = """
def test_good(prony):
    server = prony.serve()
    prony.load(server.url, requests=100, accept_invalid=True).assert_ok()

def test_bad(prony):
    server = prony.serve()
    prony.load(server.url, requests=100, threshold="requests > 300", accept_invalid=True).assert_ok()

def test_slower(prony):
    # In virtual time.
    world = {"simulate": 1, "simulate_latency": "exp:10ms", "simulate_latency_b": "exp:15ms"}
    load = {"rate": 500, "duration": 1, "blocks": 8, "fail_if": "p50 > +5%"}
    prony.compare("http://a/", "http://b/", **load, **world).assert_ok()
"""


def test_a_failed_test_shows_its_report(pytester: pytest.Pytester, tmp_path: Path) -> None:
    pytester.makepyfile(TESTS)
    outcome = pytester.runpytest_subprocess(f"--prony-reports={tmp_path}")
    outcome.assert_outcomes(passed=1, failed=2)
    outcome.stdout.fnmatch_lines(["*AssertionError: the run is *", "*prony run 1*", "*replies*"])
    names = sorted(file.name.split("test_bad")[-1] for file in tmp_path.glob("*test_bad*"))
    assert names == ["-1.html", "-1.json"]
    assert prony.Result.load(next(tmp_path.glob("*test_bad*.json"))).replies == 100
    compared = json.loads(next(tmp_path.glob("*test_slower*.json")).read_text())
    assert compared["kind"] == "comparison"


def test_plots_have_the_figures() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    plan = prony.Plan.from_text('url = "http://h/"\nrate = 1000\nduration = "5s"')
    axes = prony.simulate(plan, latency="exp:5ms").plot()
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["response", "service"]


def test_series_as_data_frame() -> None:
    pytest.importorskip("pandas")
    plan = prony.Plan.from_text('url = "http://h/"\nrate = 100\nduration = "3s"')
    series = prony.simulate(plan, latency="exp:5ms").series()
    frame = series.to_pandas()
    assert list(frame["replies"]) == [row.replies for row in series]
    assert frame.index.name == "start"


def test_extras_are_named_where_they_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    plan = prony.Plan.from_text('url = "http://h/"\nrequests = 10')
    result = prony.simulate(plan)
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"prony\[pandas\]"):
        result.series().to_pandas()
    with pytest.raises(ImportError, match=r"prony\[plot\]"):
        result.plot()
