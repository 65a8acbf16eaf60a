"""prony: a load generator and latency meter for network services that measures its own errors.

`load` runs a load and returns a `Result`; `Plan` is a plan file; `watch` shows a load while it
runs; `simulate` runs a plan in virtual time; `rtt` measures round-trip times; `serve` starts a
target server. docs/python.md describes all of them.
"""

from ._errors import Error, Interrupted, OutputError, SetupError, UsageError
from ._prony import __version__
from ._result import Failure, Interval, Result, Second, Series, Threshold, Times
from ._run import Plan, Tick, Watch, load, rtt, simulate, watch
from ._server import Server, serve

__all__ = [
    "Error",
    "Failure",
    "Interrupted",
    "Interval",
    "OutputError",
    "Plan",
    "Result",
    "Second",
    "Series",
    "Server",
    "SetupError",
    "Threshold",
    "Tick",
    "Times",
    "UsageError",
    "Watch",
    "__version__",
    "load",
    "rtt",
    "serve",
    "simulate",
    "watch",
]
