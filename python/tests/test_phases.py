"""Plans with phases."""

from __future__ import annotations

import asyncio
import pickle
import signal
import threading
from pathlib import Path

import prony
import pytest

# In virtual time: 200 requests per second for 20 s, then 100 for 10 s beside 4 users who send 500.
PHASES = """
url = "http://virtual/"
thresholds = ["errors < 1%"]

[[phases]]
name = "base"
rate = 200
duration = "20s"

[[phases]]
name = "spike"
rate = 100
duration = "10s"
thresholds = ["p99 < 1us", "errors = 0"]

[[phases]]
name = "users"
start = "with"
delay = "1s"
connections = 4
requests = 500
"""


def simulated() -> prony.Result:
    plan = prony.Plan.from_text(PHASES)
    return prony.simulate(plan, seed=3, latency="exp:2ms", accept_invalid=True)


def test_each_phase_has_a_result() -> None:
    result = simulated()
    assert isinstance(result, prony.PhasedResult)
    assert [phase.name for phase in result.phases] == ["base", "spike", "users"]
    base, spike, users = result.phases
    assert [phase.replies for phase in result.phases] == [4000, 1000, 500]
    assert [phase.start for phase in result.phases] == ["after", "after", "with"]
    assert [phase.delay for phase in result.phases] == [0, 0, 1]
    assert base.verdict == "VALID" and base.ok and base.exit_code == 0
    assert base.rate == pytest.approx(200, rel=0.01) and base.target_rate == 200
    assert base.response.mean == pytest.approx(0.002, rel=0.1)
    p50, interval = base.response.p50, base.response.interval("p50")
    assert p50 is not None and interval is not None
    assert p50 == pytest.approx(0.002 * 0.693, rel=0.15) and interval.low < p50 < interval.high
    assert sum(second.replies for second in base.series()) == 4000
    assert [t.outcome for t in base.thresholds] == ["met"]
    assert [t.outcome for t in spike.thresholds] == ["missed", "met"]
    assert not spike.ok and spike.exit_code == 99
    assert result.phase("users").replies == users.replies == 500
    with pytest.raises(KeyError, match="no phase has the name 'other'; there are 'base', 'sp"):
        result.phase("other")


def test_the_gravest_phase_decides_over_all() -> None:
    result = simulated()
    assert (result.ok, result.exit_code) == (False, 99)
    assert (result.replies, result.requests, result.failed) == (5500, 5500, 0)
    assert result.statuses == {200: 5500} and result.errors == ()
    assert len(result.thresholds) == 4
    with pytest.raises(AssertionError, match="phase 'spike': the run is VALID\n.*p99 < 1us"):
        result.assert_ok()
    with pytest.raises(AssertionError, match="phase 'spike'"):
        result.phase("spike").assert_ok()
    assert result.phase("base").assert_ok() is result.phase("base")
    assert repr(result).startswith("<prony.PhasedResult ")
    assert repr(result.phase("base")).startswith("<prony.Phase 'base' VALID: 4000 replies, ")
    good = prony.simulate(prony.Plan.from_text(PHASES.replace("p99 < 1us", "p99 < 1s")))
    assert good.phase("spike").ok
    assert good.verdict in {phase.verdict for phase in good.phases}
    assert good.ok == all(phase.ok for phase in good.phases)


def test_times_belong_to_one_phase() -> None:
    result = simulated()
    for name in ("response", "service", "rate", "rate_interval", "target_rate", "tokens"):
        with pytest.raises(AttributeError, match=r"belong to one phase.*phase\('spike'\)"):
            getattr(result, name)
    with pytest.raises(AttributeError, match="belong to one phase"):
        result.series()
    with pytest.raises(prony.UsageError, match="a plan with phases has a result for each phase"):
        prony.compare(result, result)
    other = prony.simulate(prony.Plan.from_text(PHASES), seed=4, latency="exp:3ms")
    change = prony.compare(result.phase("base"), other.phase("base")).change("p50")
    assert change.a == result.phase("base").response.p50 and change.outcome == "higher"


def test_reports_are_saved_and_read_again(tmp_path: Path) -> None:
    result = simulated()
    files = {ending: tmp_path / f"r.{ending}" for ending in ("html", "json", "md", "xml", "svg")}
    result.save(*files.values())
    assert files["json"].read_text() == result.to_json()
    assert files["html"].read_text() == result.html() and "<iframe" in result._repr_html_()
    assert files["md"].read_text() == result.markdown()
    assert "spike" in str(result) and result.to_dict()["kind"] == "phases"
    for again in (prony.Result.load(files["json"]), pickle.loads(pickle.dumps(result))):
        assert isinstance(again, prony.PhasedResult)
        assert again.to_json() == result.to_json() and again.exit_code == result.exit_code
        assert again.phase("base").response == result.phase("base").response
    phase = pickle.loads(pickle.dumps(result.phase("users")))
    assert isinstance(phase, prony.Phase)
    assert (phase.name, phase.start, phase.delay) == ("users", "with", 1)
    assert phase.to_json() == result.phase("users").to_json()
    with pytest.raises(prony.UsageError, match="a plan with phases can be written as"):
        result.save(tmp_path / "r.csv")


def test_phases_are_a_frame() -> None:
    pytest.importorskip("pandas")
    result = simulated()
    assert isinstance(result, prony.PhasedResult)
    frame = result.to_pandas()
    assert list(frame.index) == ["base", "spike", "users"]
    assert list(frame["replies"]) == [4000, 1000, 500]
    assert frame.loc["base", "p50"] == result.phase("base").response.p50
    assert list(result.phase("base").series().to_pandas()["replies"])[:2] != []


def test_plans_without_phases_have_none() -> None:
    result = prony.simulate(prony.Plan.from_text("url='http://h/'\nrate=100\nduration='2s'"))
    assert result.phases == () and result.not_started == {}
    with pytest.raises(KeyError, match="the plan has no phases"):
        result.phase("base")


def real(url: str, first: str, last: str) -> prony.Plan:
    """Three phases, of which the last two run side by side."""
    return prony.Plan.from_text(f"""
url = "{url}"
rate = 100

[[phases]]
name = "one"
duration = "{first}"

[[phases]]
name = "two"
duration = "{last}"

[[phases]]
name = "beside"
start = "with"
duration = "{last}"

[[phases]]
name = "end"
requests = 10
""")


def test_phases_run_with_live_figures(server: prony.Server) -> None:
    async def watch() -> tuple[list[prony.Tick], prony.Result]:
        run = prony.watch(real(server.url, "2s", "2s"), accept_invalid=True)
        ticks = [tick async for tick in run]
        return ticks, await run

    ticks, result = asyncio.run(watch())
    assert {"one", "two", "beside"} <= {tick.plan_phase for tick in ticks}
    assert str(ticks[0]).startswith("one, 1 s")
    assert [phase.replies for phase in result.phases] == [200, 200, 200, 10]
    assert server.stop()["replies"] == result.replies == 610
    assert result.ok and result.not_started == {}


def test_ctrl_c_drains_and_keeps_what_was_seen() -> None:
    with prony.serve(latency="fixed:200ms") as server:
        plan = real(server.url, "500ms", "60s")
        timer = threading.Timer(3, signal.raise_signal, (signal.SIGINT,))
        timer.start()
        with pytest.raises(prony.Interrupted) as interrupted:
            plan.run()
        timer.join()
        result = interrupted.value.result
        assert isinstance(result, prony.PhasedResult) and result.interrupted
        assert [phase.name for phase in result.phases] == ["one", "two", "beside"]
        assert result.phase("one").replies == 50
        assert result.phase("two").to_dict()["run"]["interrupted"]
        assert result.not_started == {"end": "the user stopped the plan before"}
        assert (result.exit_code, result.ok) == (130, False)
        assert result.verdict in ("INTERRUPTED", "CLIENT-LIMITED")
        assert "phase 'end' was not started: the user stopped the plan before" in result.reasons
        assert server.stop()["replies"] == result.replies > 50


def test_ctrl_c_ends_the_wait_for_a_phase(server: prony.Server) -> None:
    plan = prony.Plan.from_text(f"""
url = "{server.url}"
requests = 10
[[phases]]
name = "one"
[[phases]]
name = "late"
delay = "20s"
""")
    timer = threading.Timer(2, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(prony.Interrupted) as interrupted:
        plan.run()
    timer.join()
    assert interrupted.value.result.phase("one").replies == 10
    assert list(interrupted.value.result.not_started) == ["late"]
    assert server.stop()["replies"] == 10


def test_explained_plans_keep_their_phases() -> None:
    plan = prony.Plan.from_text(PHASES)
    assert "3 phases" in plan.summary
    again = prony.Plan.from_text(plan.explain(seed=3))
    assert "[[phases]]" in again.text
    one, two = prony.simulate(plan, seed=3), prony.simulate(again, seed=3)
    assert [p.response for p in one.phases] == [p.response for p in two.phases]


def test_wrong_options_are_refused_before_any_load(server: prony.Server) -> None:
    plan = real(server.url, "1s", "1s")
    with pytest.raises(prony.UsageError, match="phase 'one': threshold 'x: p99 < 1s'"):
        plan.run(threshold="x: p99 < 1s")
    with pytest.raises(prony.UsageError, match="its lines would be those of several loads"):
        plan.run(raw="x.csv")
    assert server.stop()["requests"] == 0


def test_phases_run_on_several_hosts(server: prony.Server) -> None:
    result = real(server.url, "1s", "1s").run(hosts=2, accept_invalid=True)
    assert [phase.replies for phase in result.phases] == [100, 100, 100, 10]
    assert server.stop()["replies"] == 310
    for phase in result.phases:
        assert len(phase.to_dict()["run"]["hosts"]["hosts"]) == 2
