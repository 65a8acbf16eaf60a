"""Searches for a capacity, and comparisons: simulated queues whose truth is known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import prony
import pytest

URL = "http://example.test/"


# Options for tests, which have no keywords of their own.
QUEUE: dict[str, Any] = {"simulate": 7, "simulate_latency": "exp:1ms", "simulate_workers": 1}
TWO: dict[str, Any] = {
    "simulate": 1, "simulate_latency": "exp:10ms", "simulate_latency_b": "exp:15ms"
}


def queue() -> prony.Capacity:
    return prony.capacity(URL, thresholds=["p99 < 46.05ms"], budget="4m", from_=100, **QUEUE)


def test_capacity_of_a_queue(tmp_path: Path) -> None:
    found = queue()
    # M/M/1: the response time has the rate mu - lambda.
    truth = 1_000 - math.log(100) / 0.04605
    assert found.ok and found.kind == "capacity" and found.stop == "queueing"
    rate, interval = found.rate, found.interval
    assert rate == pytest.approx(truth, rel=0.1)
    assert rate is not None and interval is not None and interval.low < rate < interval.high
    assert "The capacity is" in found.sentence and found.sentence in str(found)
    trials = found.trials
    assert len(trials) > 5
    held = [trial for trial in trials if trial.holds == (True,)]
    assert held and all(trial.rate < 1_000 for trial in held)
    times = [trial.p50.value for trial in held if trial.p50.value is not None]
    assert times and all(0.0001 < time < 0.05 for time in times), "seconds"
    files = [tmp_path / name for name in ("c.html", "c.json", "c.svg", "c.png")]
    found.save(*files)
    assert files[1].read_text() == found.to_json()
    assert "<iframe" in found._repr_html_() and "<svg" in found.svg()
    assert found.to_dict()["finding"]["kind"] == "capacity"
    with pytest.raises(prony.UsageError, match="a capacity can be written as"):
        found.save(tmp_path / "c.csv")


def test_trials_are_a_frame() -> None:
    pytest.importorskip("pandas")
    found = queue()
    frame = found.to_pandas()
    assert list(frame["rate"]) == [trial.rate for trial in found.trials]
    assert (frame["goodput_low"] < frame["goodput"]).all()
    assert (frame["goodput"] < frame["goodput_high"]).all()


def test_comparison_of_targets(tmp_path: Path) -> None:
    found = prony.compare(
        "http://a/",
        "http://b/",
        rate=500,
        arrivals="poisson",
        duration=1,
        blocks=8,
        fail_if="p50 > +5%",
        **TWO,
    )
    change = found.change("p50")
    assert (change.outcome, change.target) == ("higher", "B")
    assert (change.due_to_meter, change.more) == (False, None), "it is decided"
    assert change.a == pytest.approx(0.010 * math.log(2), rel=0.2)
    assert change.ratio == pytest.approx(1.5, rel=0.2)
    assert change.ratio_interval is not None
    assert change.ratio_interval.low < 1.5 < change.ratio_interval.high
    assert [limit.outcome for limit in found.limits] == ["fails"]
    assert (found.exit_code, found.ok, found.rounds) == (99, False, 8)
    assert found.decided and found.doubts == ()
    found.save(tmp_path / "c.md", tmp_path / "c.html")
    assert (tmp_path / "c.md").read_text() == found.markdown()
    with pytest.raises(KeyError, match="there is no p42 of B"):
        found.change("p42")
    with pytest.raises(AssertionError, match="fails, 'p50 > [+]5%' is true"):
        found.assert_ok()
    pytest.importorskip("pandas")
    frame = found.to_pandas().set_index("figure")
    assert frame.loc["p50", "ratio"] == change.ratio
    assert frame.loc["p50", "ratio_low"] == change.ratio_interval.low


def test_comparison_of_results() -> None:
    plan = prony.Plan.from_text(
        f'url = "{URL}"\nrate = 500\nduration = "4s"\narrivals = "poisson"'
    )

    def runs(latency: str, first: int) -> list[prony.Result]:
        return [prony.simulate(plan, seed=first + i, latency=latency) for i in range(4)]

    old, new = runs("exp:10ms", 1), runs("exp:20ms", 11)
    found = prony.compare(old, new, accept_invalid=True)
    change = found.change("p50")
    assert change.outcome == "higher" and change.ratio == pytest.approx(2.0, rel=0.2)
    assert found.rounds == 0
    two = prony.compare(old[0], old[0], accept_invalid=True)
    assert two.change("mean").ratio == pytest.approx(1.0)
    with pytest.raises(prony.UsageError, match="compare results with results"):
        prony.compare(old, "http://b/")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: prony.capacity(URL), "needs --threshold"),
        (lambda: prony.capacity(URL, threshold="p99 < 5ms", budget=-1), "--budget"),
        (lambda: prony.compare(URL), "a comparison needs two targets"),
        (lambda: prony.compare(URL, "http://b/", blocks=2), "must be at least 3"),
    ],
)
def test_refusals_are_those_of_the_command_line(call: object, sentence: str) -> None:
    assert callable(call)
    with pytest.raises(prony.UsageError, match=sentence):
        call()
