"""The result of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from . import _prony
from ._errors import UsageError
from ._report import Reported

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from ._phases import Phase

_NS = 1e9


class Interval(NamedTuple):
    """A 95 % confidence interval, in the unit of its figure."""

    low: float
    high: float


def _seconds(ns: float | None) -> float | None:
    return None if ns is None else ns / _NS


def _interval(ends: Mapping[str, Any] | None, unit: float) -> Interval | None:
    if ends is None or ends.get("lo") is None or ends.get("hi") is None:
        return None
    return Interval(ends["lo"] / unit, ends["hi"] / unit)


def _key(figure: str) -> str:
    """The name of a figure in the JSON report: `p99.9` is p999_ns."""
    return figure.replace(".", "") + "_ns"


@dataclass(frozen=True, repr=False)
class Times:
    """The distribution of one kind of time. All values are in seconds; None where there is no such
    time, or the sample is too small for that percentile."""

    count: int
    mean: float | None
    stdev: float | None
    min: float | None
    p50: float | None
    p75: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p999: float | None
    p9999: float | None
    max: float | None
    _intervals: Mapping[str, Any]

    @classmethod
    def _of(cls, figures: Mapping[str, Any], intervals: Mapping[str, Any] | None) -> Times:
        def of(name: str) -> float | None:
            return _seconds(figures[name + "_ns"])

        return cls(
            count=figures["count"],
            mean=of("mean"),
            stdev=of("stdev"),
            min=of("min"),
            p50=of("p50"),
            p75=of("p75"),
            p90=of("p90"),
            p95=of("p95"),
            p99=of("p99"),
            p999=of("p999"),
            p9999=of("p9999"),
            max=of("max"),
            _intervals=intervals or {},
        )

    def interval(self, figure: str) -> Interval | None:
        """The 95 % confidence interval of a figure, in seconds: `mean`, `p50`, `p75`, `p90`,
        `p95`, `p99`, `p99.9` or `p99.99`. None where the sample does not support one; for times
        other than the response time, prony computes intervals only where a goal or a threshold
        needs them.

        Raises:
            ValueError: there is no such figure.
        """
        known = ("mean", "p50", "p75", "p90", "p95", "p99", "p999", "p9999")
        if figure.replace(".", "") not in known:
            raise ValueError(f"'{figure}' has no interval; write one of {', '.join(known)}")
        return _interval(self._intervals.get(_key(figure)), _NS)

    def why_no_interval(self, figure: str) -> str | None:
        """Why a figure has no interval: `too-few-samples`, `autocorrelated`, ...
        (docs/json.md); None if it has one, or none was computed."""
        reason = self._intervals.get(_key(figure), {}).get("no_interval")
        return None if reason is None else str(reason)

    def __repr__(self) -> str:
        shown = ("mean", "p50", "p90", "p99", "max")
        figures = ", ".join(f"{name}={_shown(getattr(self, name))}" for name in shown)
        return f"Times(count={self.count}, {figures})"


def _shown(value: float | None) -> str:
    return "None" if value is None else f"{value:.6g}"


@dataclass(frozen=True)
class Failure:
    """An error that occurred during a run."""

    name: str
    """Its name, such as `connect-refused`."""
    kind: str
    """Its class: `connect`, `timeout`, `connection`, `protocol`, `unexpected`, `script` or
    `meter`."""
    requests: int
    """How many requests failed with it."""
    stray: int
    """How often it occurred while no request was waiting."""
    sentence: str
    """What it means."""


@dataclass(frozen=True)
class Threshold:
    """A threshold, decided. Times are in seconds, rates per second, shares between 0 and 1."""

    text: str
    """The threshold, such as `p99 < 50ms`."""
    outcome: str
    """`met`, `missed` or `undecided`."""
    value: float | None
    """The figure; None if it has no value."""
    limit: float
    """The limit."""
    interval: Interval | None
    """The 95 % confidence interval that decided, if the figure has one."""
    sentence: str
    """The outcome as a sentence."""

    @property
    def ok(self) -> bool:
        """Whether it is met."""
        return self.outcome == "met"

    @classmethod
    def _of(cls, decided: Mapping[str, Any]) -> Threshold:
        unit = _NS if decided["unit"] == "ns" else 1.0
        value = decided["value"]
        return cls(
            text=decided["threshold"],
            outcome=decided["outcome"],
            value=None if value is None else value / unit,
            limit=decided["limit"] / unit,
            interval=_interval(decided, unit),
            sentence=decided["sentence"],
        )


@dataclass(frozen=True)
class Tokens:
    """The tokens of a language model (docs/llm.md). Rates are per second; None where a figure is not
    known, as without `usage` in the replies."""

    output: int
    """Tokens in the replies, as the server or the tokenizer counts them."""
    input: int
    """Tokens in their requests, as the server counts them."""
    tokenized: int
    """Replies whose tokens the tokenizer has counted, because the server did not say them."""
    rate: float | None
    """Tokens of all users together."""
    rate_of_one: float | None
    """Tokens of one user while a reply arrives."""
    per_chunk: float | None
    """Tokens in a chunk, on average."""
    chunk_rate: float | None
    """Chunks: messages with output."""
    goodput: float | None
    """Replies that keep all limits of `slo`."""
    good_share: float | None
    """Their share of the requests that ended, between 0 and 1."""
    finished: Mapping[str, int]
    """Replies by the reason for their end: `stop`, `length`, `tool`, `filter`, `other`, `none`."""


@dataclass(frozen=True)
class Second:
    """A row of a series: usually one second, more in long runs. Times are in seconds."""

    start: float
    """Since the start of the measurement."""
    length: float
    started: int
    replies: int
    failed: int
    bytes: int
    p50: float | None
    p99: float | None
    max: float | None

    @property
    def rate(self) -> float:
        """Successful replies per second."""
        return self.replies / self.length


class Series(Sequence[Second]):
    """A run over time."""

    def __init__(self, rows: Sequence[Second]) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> Second: ...
    @overload
    def __getitem__(self, index: slice) -> Series: ...
    def __getitem__(self, index: int | slice) -> Second | Series:
        if isinstance(index, slice):
            return Series(self._rows[index])
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Second]:
        return iter(self._rows)

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns by name: `start`, `length`, `started`, `replies`, `failed`, `bytes`, `rate`,
        `p50`, `p99`, `max`."""
        rows = [asdict(row) | {"rate": row.rate} for row in self._rows]
        names = ("start", "length", "started", "replies", "failed", "bytes", "rate")
        return {name: [row[name] for row in rows] for name in (*names, "p50", "p99", "max")}

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame with the columns of `to_dict`, indexed by `start`. Needs pandas
        (`pip install 'prony[pandas]'`)."""
        try:
            import pandas
        except ImportError as why:
            raise ImportError("to_pandas needs pandas: pip install 'prony[pandas]'") from why
        return pandas.DataFrame(self.to_dict()).set_index("start")

    def __repr__(self) -> str:
        return f"Series({len(self)} rows)"


class Result(Reported):
    """The result of a run: its verdict, its figures, and its report in every format.

    A notebook shows it as the HTML report. Results can be pickled, and compared with `report`s
    that the command line saved (`Result.load`). The result of a plan with phases is a
    `PhasedResult`, whose `phases` are results of their own.
    """

    def __init__(self, report: _prony.Report, exit_code: int | None = None) -> None:
        super().__init__(report, report.exit_code() if exit_code is None else exit_code)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """A result that was saved with `save("x.json")` or with `prony ... -o x.json`.

        Raises:
            OSError: the file cannot be read.
            UsageError: it is not a saved result.
        """
        with open(path, encoding="utf-8") as file:
            return cls.from_json(file.read())

    @classmethod
    def from_json(cls, text: str, exit_code: int | None = None) -> Result:
        """The result of a JSON report.

        Raises:
            UsageError: the text is not one.
        """
        try:
            report = _prony.read(text)
        except ValueError as why:
            raise UsageError(f"not a saved result: {why}") from None
        if isinstance(report, _prony.Phased):
            from ._phases import PhasedResult

            return PhasedResult(report, exit_code)
        return Result(report, exit_code)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of a plan with phases that were run; empty for any other load."""
        return ()

    def phase(self, name: str) -> Phase:
        """The phase of this name.

        Raises:
            KeyError: the plan has no such phase, or it was not started.
        """
        raise KeyError(f"there is no phase '{name}': the plan has no phases")

    @property
    def not_started(self) -> Mapping[str, str]:
        """The phases of the plan that were not started, and why."""
        return {}

    @property
    def verdict(self) -> str:
        """`VALID`, `CLIENT-LIMITED`, `PARTIAL`, `TARGET-FAILED`, `INTERRUPTED`, `NOT-STATIONARY` or
        `TOO-SHORT` (docs/verdict.md)."""
        return str(self._data["verdict"]["verdict"])

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the run is not valid, as sentences; empty if it is."""
        return tuple(reason["sentence"] for reason in self._data["verdict"]["reasons"])

    def assert_ok(self) -> Result:
        """This result, if it is `ok`.

        Raises:
            AssertionError: it is not; the text has the verdict, the reasons and the thresholds
                that are not met.
        """
        if not self.ok:
            raise AssertionError(self._why_not_ok())
        return self

    def _why_not_ok(self) -> str:
        lines = [f"the run is {self.verdict}"]
        lines += [f"  {reason}" for reason in self.reasons]
        lines += [f"  {threshold.sentence}" for threshold in self.thresholds if not threshold.ok]
        if self.replies == 0:
            lines.append("  no request succeeded")
        lines += [f"  {failure.requests} x {failure.name}: {failure.sentence}"
                  for failure in self.errors if failure.requests > 0]
        return "\n".join(lines)

    @property
    def _measurement(self) -> dict[str, Any]:
        measurement: dict[str, Any] = self._data["measurement"]
        return measurement

    def times(self, kind: str) -> Times:
        """The times of this kind, in seconds, such as `response`, `service`, `first_byte`,
        `connect` or `ttft` (docs/json.md has all kinds, docs/terms.md what they are).

        Raises:
            KeyError: the run has no times of this kind.
        """
        return Times._of(self._measurement["times"][kind], self._measurement["ci95"].get(kind))

    @property
    def response(self) -> Times:
        """Response times: from the intended start to the last byte of the reply."""
        return self.times("response")

    @property
    def service(self) -> Times:
        """Service times: from the first byte sent to the last byte of the reply."""
        return self.times("service")

    @property
    def ttft(self) -> Times:
        """Of a language model: from the intended start of a request to its first token.

        Raises:
            KeyError: there was no token.
        """
        return self.times("ttft")

    @property
    def itl(self) -> Times:
        """Of a language model: the mean times between the tokens of a reply.

        Raises:
            KeyError: no reply said how many tokens it has, or none had two.
        """
        return self.times("itl")

    @property
    def tokens(self) -> Tokens | None:
        """The tokens of a language model; None if the load was none on one."""
        figures = self._measurement.get("tokens")
        if figures is None:
            return None
        counts = self._measurement["tally"]["tokens"]
        return Tokens(
            output=counts["output_tokens"],
            input=counts["input_tokens"],
            tokenized=counts.get("tokenized", 0),
            rate=figures["token_rate"],
            rate_of_one=figures["token_rate_of_one"],
            per_chunk=figures["tokens_per_chunk"],
            chunk_rate=figures["chunk_rate"],
            goodput=figures["goodput"],
            good_share=figures["good_share"],
            finished=dict(counts["finished"]),
        )

    @property
    def requests(self) -> int:
        """Requests that ended: successes and failures."""
        return int(self._data["requests"])

    @property
    def replies(self) -> int:
        """Successful requests."""
        return int(self._measurement["tally"]["replies"])

    @property
    def failed(self) -> int:
        """Failed requests."""
        return int(self._measurement["tally"]["failed"])

    @property
    def errors(self) -> tuple[Failure, ...]:
        """The errors that occurred."""
        return tuple(
            Failure(e["error"], e["class"], e["requests"], e["stray"], e["sentence"])
            for e in self._measurement["errors"]
        )

    @property
    def statuses(self) -> dict[int, int]:
        """Complete replies by status code."""
        statuses = self._measurement["tally"]["statuses"]
        return {int(status): int(count) for status, count in statuses.items()}

    @property
    def rate(self) -> float:
        """Successful requests per second."""
        return float(self._measurement["rates"]["rate"])

    @property
    def rate_interval(self) -> Interval | None:
        """The 95 % confidence interval of `rate`, per second, if there is one."""
        return _interval(self._measurement["ci95"].get("rate"), 1.0)

    @property
    def target_rate(self) -> float | None:
        """The target rate of an open loop, per second."""
        rate = self._measurement["rates"]["target_rate"]
        return None if rate is None else float(rate)

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """The thresholds, decided."""
        return tuple(Threshold._of(decided) for decided in self._data.get("thresholds", ()))

    @property
    def notes(self) -> tuple[str, ...]:
        """Further facts about the run, as sentences."""
        return tuple(self._data["run"]["notes"])

    def series(self) -> Series:
        """The measurement over time, a row for each second."""
        return Series([
            Second(
                start=row["start_ns"] / _NS,
                length=row["length_ns"] / _NS,
                started=row["started"],
                replies=row["replies"],
                failed=row["failed"],
                bytes=row["bytes"],
                p50=_seconds(row["p50_ns"]),
                p99=_seconds(row["p99_ns"]),
                max=_seconds(row["max_ns"]),
            )
            for row in self._measurement["rows"]
        ])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plots response and service times by percentile, with the confidence intervals, into
        `ax` or a new figure. Needs matplotlib (`pip install 'prony[plot]'`). `svg` needs nothing.
        """
        from ._plot import plot

        return plot(self, ax)

    def markdown(self) -> str:
        """The main figures in Markdown, for pull requests."""
        return self._render("md")

    def __repr__(self) -> str:
        times = self.response
        return (
            f"<prony.Result {self.verdict}: {self.replies} replies, {self.failed} failed, "
            f"{self.rate:.6g}/s, p50 {_shown(times.p50)} s, p99 {_shown(times.p99)} s>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (Result.from_json, (self._json, self.exit_code))
