"""prony: a load generator and latency meter for network services that measures its own errors.

`load` runs a load and returns a `Result`; `user` makes users of Python functions; `Plan` is a
plan file; `watch` shows a load while it runs; `simulate` runs a plan in virtual time; `llm`
loads a language model; `rtt` measures round-trip times; `capacity` finds the highest rate at
which thresholds hold; `compare` finds out what differs between targets; `serve` starts a target
server. docs/python.md describes all of them.
"""

from ._errors import Error, Interrupted, OutputError, SetupError, UsageError
from ._found import Capacity, Change, Comparison, Estimate, Limit, Trial
from ._phases import Phase, PhasedResult
from ._prony import Client, Reply, __version__
from ._result import Failure, Interval, Result, Second, Series, Threshold, Times, Tokens
from ._run import Plan, Tick, Watch, capacity, compare, llm, load, rtt, simulate, watch
from ._server import Server, serve
from ._users import User, user

__all__ = [
    "Capacity",
    "Change",
    "Client",
    "Comparison",
    "Error",
    "Estimate",
    "Failure",
    "Interrupted",
    "Interval",
    "Limit",
    "OutputError",
    "Phase",
    "PhasedResult",
    "Plan",
    "Reply",
    "Result",
    "Second",
    "Series",
    "Server",
    "SetupError",
    "Threshold",
    "Tick",
    "Times",
    "Tokens",
    "Trial",
    "UsageError",
    "User",
    "Watch",
    "__version__",
    "capacity",
    "compare",
    "llm",
    "load",
    "rtt",
    "serve",
    "simulate",
    "user",
    "watch",
]
