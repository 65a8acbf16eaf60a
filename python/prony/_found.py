"""The results of `capacity` and `compare`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ._report import Reported
from ._result import Interval, _interval

if TYPE_CHECKING:
    import pandas


class _Found(Reported):
    """The result of a search or a comparison."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Facts that the reader must know, as sentences."""
        return tuple(self._data["notes"])

    def _assert_ok(self) -> None:
        if not self.ok:
            raise AssertionError(self.text())


class Estimate(NamedTuple):
    """A figure of a trial."""

    value: float | None
    interval: Interval | None
    """Its 95 % confidence interval, in the same unit."""


@dataclass(frozen=True)
class Trial:
    """A trial of a search for a capacity. Times are in seconds, rates per second."""

    rate: float
    """The target rate."""
    purpose: str
    """`bracket`, `estimate` or `beyond`."""
    seconds: float
    """The length of its measurement."""
    requests: int
    """The requests that started."""
    p50: Estimate
    """The median response time."""
    p99: Estimate
    """The 99th percentile of the response time."""
    errors: Estimate
    """The share of requests that failed, between 0 and 1."""
    goodput: Estimate
    """Successful replies per second."""
    holds: tuple[bool | None, ...]
    """Whether each threshold holds; None where the trial does not show it."""
    verdict: str
    """The verdict on the trial."""


def _columns(
    name: str, value: float | None, interval: Interval | None
) -> dict[str, float | None]:
    """The columns of a figure in a DataFrame."""
    low, high = (None, None) if interval is None else interval
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _estimate(figure: dict[str, Any], unit: float) -> Estimate:
    value = figure["value"]
    return Estimate(
        None if value is None else value / unit, _interval(figure.get("interval"), unit)
    )


class Capacity(_Found):
    """The capacity of a target: the highest rate at which all thresholds hold (docs/capacity.md).

    A notebook shows it as the HTML report, with the load-latency curve.
    """

    @property
    def kind(self) -> str:
        """What was found: `capacity`, `at-least` (the load generator or the connection limit
        allows no higher rate), `nowhere`, `changed`, `not-recovered`, `undecided` or
        `interrupted`."""
        return str(self._data["finding"]["kind"])

    @property
    def rate(self) -> float | None:
        """The capacity, in requests per second; of `at-least` the highest rate that was shown.
        None if there is no such number."""
        rate = self._data["finding"].get("rate")
        return float(rate) if rate is not None and self.kind in ("capacity", "at-least") else None

    @property
    def interval(self) -> Interval | None:
        """The 95 % confidence interval of `rate`, if that is a capacity."""
        return _interval(self._data["finding"].get("interval"), 1.0)

    @property
    def stop(self) -> str | None:
        """What stops the target beyond its capacity: `queueing`, `errors`, `network` or
        `threshold`."""
        stop = self._data["finding"].get("stop")
        return None if stop is None else str(stop)

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return str(self._data["sentence"])

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials, in their order."""
        return tuple(
            Trial(
                rate=point["rate"],
                purpose=point["purpose"],
                seconds=point["seconds"],
                requests=point["requests"],
                p50=_estimate(point["p50"], 1e9),
                p99=_estimate(point["p99"], 1e9),
                errors=_estimate(point["errors"], 1.0),
                goodput=_estimate(point["goodput"], 1.0),
                holds=tuple(point["holds"]),
                verdict=point["verdict"],
            )
            for point in self._data["points"]
        )

    def to_pandas(self) -> pandas.DataFrame:
        """The trials as a DataFrame: `rate`, `purpose`, `seconds`, `requests`, `p50`, `p99`,
        `errors`, `goodput` (each with the ends of its interval: `p50_low`, `p50_high`, ...) and
        `verdict`. Needs pandas (`pip install 'prony[pandas]'`)."""
        try:
            import pandas
        except ImportError as why:
            raise ImportError("to_pandas needs pandas: pip install 'prony[pandas]'") from why
        rows = [
            {
                "rate": trial.rate,
                "purpose": trial.purpose,
                "seconds": trial.seconds,
                "requests": trial.requests,
                **_columns("p50", trial.p50.value, trial.p50.interval),
                **_columns("p99", trial.p99.value, trial.p99.interval),
                **_columns("errors", trial.errors.value, trial.errors.interval),
                **_columns("goodput", trial.goodput.value, trial.goodput.interval),
                "verdict": trial.verdict,
            }
            for trial in self.trials
        ]
        return pandas.DataFrame(rows)

    def assert_ok(self) -> Capacity:
        """This result, if it is `ok`.

        Raises:
            AssertionError: it is not; the text is the report.
        """
        self._assert_ok()
        return self

    def __repr__(self) -> str:
        return f"<prony.Capacity {self.sentence}>"


@dataclass(frozen=True)
class Change:
    """The change of one figure from target A to another one. Times are in seconds, rates per
    second, shares between 0 and 1."""

    target: str
    """The label of the other target: `B`, `C`, ..."""
    figure: str
    """The figure, such as `p99`."""
    a: float | None
    """The figure of A over all blocks together."""
    b: float | None
    """That of the other target."""
    ratio: float | None
    """The figure of the target as a multiple of A's; None for a share."""
    ratio_interval: Interval | None
    """Its confidence interval."""
    difference: float | None
    """The difference."""
    difference_interval: Interval | None
    """Its confidence interval."""
    outcome: str
    """`higher`, `lower`, `same` or `undecided`."""
    sentence: str
    """The same as a sentence."""
    due_to_meter: bool
    """Whether it is undecided only because of what the load generator may have added."""
    more: float | None
    """About how many seconds longer the comparison must run to decide it; None if it is decided,
    if no time would do, or of saved results."""


@dataclass(frozen=True)
class Limit:
    """A limit of `fail_if`, decided."""

    target: str
    """The label of the target that is compared with A."""
    limit: str
    """The limit as it was written."""
    outcome: str
    """`holds`, `fails` or `unknown`."""
    sentence: str
    """The same as a sentence."""


def _pair(low: float | None, high: float | None, unit: float) -> Interval | None:
    return None if low is None or high is None else Interval(low / unit, high / unit)


class Comparison(_Found):
    """A comparison of two or more targets, or of groups of saved results (docs/compare.md).

    A notebook shows it as the HTML report, with the shift function.
    """

    @property
    def decided(self) -> bool:
        """Whether everything was decided."""
        return bool(self._data["decided"])

    @property
    def rounds(self) -> int:
        """Complete rounds, each with a block of load for every target; 0 for saved results."""
        return int(self._data["rounds"])

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the comparison is not valid, as sentences; empty if it is."""
        return tuple(self._data["doubts"])

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes from A to each other target, by figure."""
        return tuple(self._change(change) for change in self._data["changes"])

    def change(self, figure: str, target: str = "B") -> Change:
        """The change of one figure.

        Raises:
            KeyError: this figure was not compared.
        """
        for change in self.changes:
            if (change.figure, change.target) == (figure, target):
                return change
        known = ", ".join(sorted({change.figure for change in self.changes}))
        raise KeyError(f"there is no {figure} of {target}; compared were {known}")

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits of `fail_if`, decided."""
        return tuple(
            Limit(limit["target"], limit["limit"], limit["outcome"], limit["sentence"])
            for limit in self._data["limits"]
        )

    def markdown(self) -> str:
        """The report in Markdown, for pull requests."""
        return self._render("md")

    def to_pandas(self) -> pandas.DataFrame:
        """The changes as a DataFrame: `target`, `figure`, `a`, `b`, `ratio` and `difference` (both
        with the ends of their intervals: `ratio_low`, `ratio_high`, ...) and `outcome`. Needs
        pandas (`pip install 'prony[pandas]'`)."""
        try:
            import pandas
        except ImportError as why:
            raise ImportError("to_pandas needs pandas: pip install 'prony[pandas]'") from why
        rows = [
            {
                "target": change.target,
                "figure": change.figure,
                "a": change.a,
                "b": change.b,
                **_columns("ratio", change.ratio, change.ratio_interval),
                **_columns("difference", change.difference, change.difference_interval),
                "outcome": change.outcome,
            }
            for change in self.changes
        ]
        return pandas.DataFrame(rows)

    def assert_ok(self) -> Comparison:
        """This result, if it is `ok`: every limit of `fail_if` holds.

        Raises:
            AssertionError: it is not; the text is the report.
        """
        self._assert_ok()
        return self

    @staticmethod
    def _change(change: dict[str, Any]) -> Change:
        unit = 1e9 if change["unit"] == "ns" else 1.0

        def of(name: str) -> float | None:
            return None if change[name] is None else float(change[name]) / unit

        return Change(
            target=change["target"],
            figure=change["figure"],
            a=of("a"),
            b=of("b"),
            ratio=change["ratio"],
            ratio_interval=_pair(change["ratio_lo"], change["ratio_hi"], 1.0),
            difference=of("difference"),
            difference_interval=_pair(change["difference_lo"], change["difference_hi"], unit),
            outcome=change["outcome"],
            sentence=change["sentence"],
            due_to_meter=bool(change["due_to_meter"]),
            more=None if change.get("more_ns") is None else change["more_ns"] / 1e9,
        )

    def __repr__(self) -> str:
        shown = ", ".join(f"{c.target} {c.figure} {c.outcome}" for c in self.changes)
        return f"<prony.Comparison {shown}>"
