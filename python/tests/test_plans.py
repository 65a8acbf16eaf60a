"""Plans, simulations and live figures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import prony
import pytest

TEXT = """
url = "http://127.0.0.1:9/"
rate = 100
duration = "2s"
"""


def test_plans_are_checked_at_once(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(TEXT)
    plan = prony.Plan.from_toml(file)
    assert "1 request, 1 server" in plan.summary and plan.text == TEXT
    with pytest.raises(prony.UsageError, match=r"plan:2:1: "):
        prony.Plan.from_text("\nurls = 3")
    with pytest.raises(prony.UsageError, match="cannot be read"):
        prony.Plan.from_toml(tmp_path / "none.toml")


def test_simulations_repeat() -> None:
    plan = prony.Plan.from_text(TEXT)
    one = prony.simulate(plan, seed=7, latency="exp:5ms")
    two = prony.simulate(plan, seed=7, latency="exp:5ms")
    other = prony.simulate(plan, seed=8, latency="exp:5ms")
    assert one.to_json() == two.to_json()
    assert one.response != other.response
    assert one.response.mean == pytest.approx(0.005, rel=0.4)
    assert one.replies == 200


def test_a_plan_of_options_is_that_load() -> None:
    plan = prony.Plan.from_options("http://127.0.0.1:9/", rate=100, duration=2, seed=5)
    assert 'url = "http://127.0.0.1:9/"' in plan.text or "127.0.0.1" in plan.text
    result = prony.simulate(plan, seed=7)
    assert result.to_dict()["plan"]["seed"] == 7
    assert result.replies == 200
    assert "rate" in plan.explain()


def test_plans_run(server: prony.Server) -> None:
    plan = prony.Plan.from_text(TEXT.replace("http://127.0.0.1:9/", server.url))
    result = plan.run(accept_invalid=True, threshold="errors = 0")
    assert result.ok and result.replies == 200
    assert result.thresholds[0].outcome == "met"


def test_plans_run_on_several_workers(server: prony.Server) -> None:
    plan = prony.Plan.from_text(TEXT.replace("http://127.0.0.1:9/", server.url))
    result = plan.run(hosts=2, accept_invalid=True, threshold="errors = 0")
    assert result.ok and result.thresholds[0].outcome == "met"
    hosts = result.to_dict()["run"]["hosts"]["hosts"]
    assert [host["replies"] for host in hosts] == [100, 100]
    assert result.replies == server.stop()["replies"] == 200
    with pytest.raises(prony.UsageError, match="--hosts"):
        plan.run(hosts=0)


def test_live_figures_come_each_second(server: prony.Server) -> None:
    async def watch() -> tuple[list[prony.Tick], prony.Result]:
        run = prony.watch(server.url, rate=200, duration=3, accept_invalid=True)
        ticks = [tick async for tick in run]
        return ticks, await run

    ticks, result = asyncio.run(watch())
    assert len(ticks) >= 2
    assert all(tick.rate == pytest.approx(200, rel=0.5) for tick in ticks)
    assert [tick.replies for tick in ticks] == sorted(tick.replies for tick in ticks)
    assert ticks[-1].replies <= result.replies == 600
    assert server.stop()["replies"] == 600


def test_errors_reach_whoever_watches() -> None:
    async def watch() -> None:
        async for _ in prony.watch("http://127.0.0.1:9/", rate="fast"):
            pass

    async def await_it() -> prony.Result:
        return await prony.watch(prony.Plan.from_text(TEXT), threads=0)

    with pytest.raises(prony.UsageError, match="--rate: 'fast'"):
        asyncio.run(watch())
    with pytest.raises(prony.UsageError, match="--threads"):
        asyncio.run(await_it())


def test_cancellation_drains() -> None:
    async def cancelled(url: str) -> prony.Result:
        run = prony.watch(url, rate=50, duration=60)
        task = asyncio.ensure_future(run.result())
        async for tick in run:
            assert tick.replies > 0
            break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await run

    with prony.serve(latency="fixed:200ms") as server:
        result = asyncio.run(cancelled(server.url))
        assert result.to_dict()["run"]["interrupted"]
        # On a busy machine, a more important reason hides this one.
        assert result.verdict in ("INTERRUPTED", "CLIENT-LIMITED")
        assert server.stop()["replies"] == result.replies > 0
