"""The result of a plan with phases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import _prony
from ._report import Reported
from ._result import Failure, Result, Threshold

if TYPE_CHECKING:
    import pandas

# The verdicts, the most important first.
_VERDICTS = (
    "CLIENT-LIMITED",
    "PARTIAL",
    "TARGET-FAILED",
    "INTERRUPTED",
    "NOT-STATIONARY",
    "TOO-SHORT",
)


class Phase(Result):
    """The result of a phase: that of a load of its own, with the name of the phase."""

    def __init__(
        self, report: _prony.Report, exit_code: int, name: str, start: str, delay: float
    ) -> None:
        super().__init__(report, exit_code)
        self.name = name
        """Its name in the plan."""
        self.start = start
        """`after` the phases before it, or `with` the one before it."""
        self.delay = delay
        """How much later than that, in seconds."""

    def _why_not_ok(self) -> str:
        return f"phase '{self.name}': {super()._why_not_ok()}"

    def __repr__(self) -> str:
        return super().__repr__().replace("<prony.Result ", f"<prony.Phase '{self.name}' ", 1)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (self._json, self.exit_code, self.name, self.start, self.delay))


def _again(json: str, exit_code: int, name: str, start: str, delay: float) -> Phase:
    report = _prony.read(json)
    assert isinstance(report, _prony.Report)
    return Phase(report, exit_code, name, start, delay)


class PhasedResult(Result):
    """The result of a plan with phases (docs/plan-files.md): `phases` has that of each phase.

    `ok`, `verdict`, `reasons`, `thresholds`, `errors` and the counts are those of all phases
    together. Rates and times belong to one load: ask a phase for them. A notebook shows the HTML
    report of all phases.
    """

    def __init__(self, report: _prony.Phased, exit_code: int | None = None) -> None:
        Reported.__init__(self, report, report.exit_code() if exit_code is None else exit_code)
        self._phased = report

    @cached_property
    def _phases(self) -> tuple[Phase, ...]:
        return tuple(
            Phase(report, code, name, start, delay)
            for name, start, delay, report, code in self._phased.phases()
        )

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases that were run, in the order of the plan."""
        return self._phases

    def phase(self, name: str) -> Phase:
        """The phase of this name.

        Raises:
            KeyError: the plan has no such phase, or it was not started.
        """
        for phase in self.phases:
            if phase.name == name:
                return phase
        if name in self.not_started:
            raise KeyError(f"phase '{name}' was not started: {self.not_started[name]}")
        known = ", ".join(f"'{phase['name']}'" for phase in self._data["phases"])
        raise KeyError(f"no phase has the name '{name}'; there are {known}")

    @property
    def not_started(self) -> Mapping[str, str]:
        """The phases that were not started, and why."""
        phases = self._data["phases"]
        return {phase["name"]: phase["not_started"] for phase in phases if not phase["report"]}

    @property
    def interrupted(self) -> bool:
        """Whether the plan was stopped by Ctrl-C."""
        return bool(self._data["interrupted"])

    @property
    def verdict(self) -> str:
        """The verdict of the gravest phase, in the order of `Result.verdict`."""
        verdicts = {phase.verdict for phase in self.phases}
        if self.interrupted:
            verdicts.add("INTERRUPTED")
        elif not verdicts:
            verdicts.add("PARTIAL")
        return next((verdict for verdict in _VERDICTS if verdict in verdicts), "VALID")

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why phases are not valid or were not started, each with the name of the phase."""
        why = [(phase.name, reason) for phase in self.phases for reason in phase.reasons]
        reasons = [f"phase '{name}': {reason}" for name, reason in why]
        missing = self.not_started.items()
        return (*reasons, *(f"phase '{name}' was not started: {why}" for name, why in missing))

    def _why_not_ok(self) -> str:
        lines = [phase._why_not_ok() for phase in self.phases if not phase.ok]
        missing = self.not_started.items()
        lines += [f"phase '{name}' was not started: {why}" for name, why in missing]
        return "\n".join(lines) or "the plan was interrupted"

    @property
    def _measurement(self) -> dict[str, Any]:
        raise AttributeError(
            "rates and times belong to one phase: use `phases`, or `phase(name)`, as in "
            "result.phase('spike').response.p99"
        )

    @property
    def requests(self) -> int:
        """Requests of all phases that ended: successes and failures."""
        return sum(phase.requests for phase in self.phases)

    @property
    def replies(self) -> int:
        """Successful requests of all phases."""
        return sum(phase.replies for phase in self.phases)

    @property
    def failed(self) -> int:
        """Failed requests of all phases."""
        return sum(phase.failed for phase in self.phases)

    @property
    def errors(self) -> tuple[Failure, ...]:
        """The errors that occurred in any phase, with their sums."""
        sums: dict[str, Failure] = {}
        for error in (error for phase in self.phases for error in phase.errors):
            known = sums.get(error.name, Failure(error.name, error.kind, 0, 0, error.sentence))
            requests, stray = known.requests + error.requests, known.stray + error.stray
            sums[error.name] = Failure(error.name, error.kind, requests, stray, error.sentence)
        return tuple(sums.values())

    @property
    def statuses(self) -> dict[int, int]:
        """Complete replies of all phases by status code."""
        sums: Counter[int] = Counter()
        for phase in self.phases:
            sums.update(phase.statuses)
        return dict(sums)

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """The thresholds of all phases, decided, in the order of the phases."""
        return tuple(threshold for phase in self.phases for threshold in phase.thresholds)

    @property
    def notes(self) -> tuple[str, ...]:
        """Further facts about the phases, each once."""
        return tuple(dict.fromkeys(note for phase in self.phases for note in phase.notes))

    def to_pandas(self) -> pandas.DataFrame:
        """The phases as a DataFrame, indexed by `name`: `verdict`, `ok`, `rate`, `replies`,
        `failed`, `p50`, `p90`, `p99` and `max` of the response times. Needs pandas
        (`pip install 'prony[pandas]'`). `series` of a phase is over time."""
        try:
            import pandas
        except ImportError as why:
            raise ImportError("to_pandas needs pandas: pip install 'prony[pandas]'") from why
        of_phase = ("name", "verdict", "ok", "rate", "replies", "failed")
        of_times = ("p50", "p90", "p99", "max")
        rows = [
            [getattr(phase, name) for name in of_phase]
            + [getattr(phase.response, name) for name in of_times]
            for phase in self.phases
        ]
        return pandas.DataFrame(rows, columns=[*of_phase, *of_times]).set_index("name")

    def __repr__(self) -> str:
        shown = [f"{phase.name} {phase.verdict}" for phase in self.phases]
        shown += [f"{name} not started" for name in self.not_started]
        return f"<prony.PhasedResult {self.verdict}: {', '.join(shown)}>"
