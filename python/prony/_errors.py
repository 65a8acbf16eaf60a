"""The exceptions. Their texts are the sentences that the command line prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._result import Result


class Error(Exception):
    """Base class of the exceptions that prony raises."""

    result: Result | None = None
    """The report, if there is one: a file of it cannot be written, or a later phase of the plan
    could not start."""


class UsageError(Error, ValueError):
    """An option, a URL, a plan file or a combination of them is wrong. No request was sent."""


class SetupError(Error, OSError):
    """The load could not start: a name does not resolve, a limit of this machine is too low, a
    worker refused. No request was sent."""


class OutputError(Error, OSError):
    """A report cannot be written. If that is known before the load, no request is sent; else the run
    has finished."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped the run. Requests in flight were waited for (a second Ctrl-C ends the run at
    once); `result` has the report of the time until then."""

    def __init__(self, result: Result) -> None:
        super().__init__("the run was interrupted; `result` has its report")
        self.result = result


def error(kind: str, sentence: str) -> Error:
    """The exception of this kind."""
    if kind == "bug":
        raise RuntimeError(sentence)
    kinds: dict[str, type[Error]] = {"setup": SetupError, "output": OutputError}
    return kinds.get(kind, UsageError)(sentence)
