"""Plots with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._result import Result

# The percentiles of a report, by the number of nines.
PERCENTILES = {"p50": 50.0, "p75": 75.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9,
               "p9999": 99.99}


def plot(result: Result, ax: Axes | None) -> Axes:
    """Plots response and service times by percentile."""
    try:
        from matplotlib import pyplot
    except ImportError as why:
        raise ImportError("plot needs matplotlib: pip install 'prony[plot]'") from why
    axes: Axes = pyplot.subplots()[1] if ax is None else ax
    for kind in ("response", "service"):
        times = result.times(kind)
        known = [(share, value, times.interval(name)) for name, share in PERCENTILES.items()
                 if (value := getattr(times, name)) is not None]
        # At 1 / (1 - q), each nine takes the same width.
        at = [1 / (1 - share / 100) for share, _, _ in known]
        values = [value for _, value, _ in known]
        below = [value - (bar.low if bar else value) for _, value, bar in known]
        above = [(bar.high if bar else value) - value for _, value, bar in known]
        axes.errorbar(at, values, yerr=[below, above], marker="o", capsize=3, label=kind)
    axes.set_xscale("log")
    axes.set_xticks([1 / (1 - share / 100) for share in PERCENTILES.values()],
                  [f"{share:g} %" for share in PERCENTILES.values()])
    axes.minorticks_off()
    axes.set_xlabel("percentile")
    axes.set_ylabel("seconds")
    axes.set_title(f"{result.verdict}, {result.rate:.6g}/s")
    axes.legend()
    return axes
