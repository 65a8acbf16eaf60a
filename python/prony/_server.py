"""A target server, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._errors import SetupError, UsageError
from ._program import program
from ._words import words

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._options import ServeOptions

# How long the server may take to end, in seconds.
_END = 10


class Server:
    """A running target server. It ends with its `with` block, or with this process."""

    def __init__(self, line: list[str]) -> None:
        path = program()
        self._process = subprocess.Popen(
            [path, *line[1:], "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C is for the load.
            start_new_session=True,
        )
        assert self._process.stderr is not None
        first = self._process.stderr.readline().strip()
        lead, _, self.url = first.partition("listening on ")
        if lead or not self.url:
            rest = self._process.stderr.read()
            self._process.wait()
            sentence = (first + "\n" + rest).strip().removeprefix("prony: ")
            raise (UsageError if "--" in sentence else SetupError)(sentence)
        if self.url.startswith("http") and not self.url.endswith("/"):
            self.url += "/"
        self.counters: dict[str, Any] | None = None
        """What the server counted (docs/json.md), once it has ended."""

    @property
    def pid(self) -> int:
        """The process number of the server."""
        return self._process.pid

    def stop(self) -> dict[str, Any]:
        """Ends the server, and returns what it counted."""
        counters = self.counters
        if counters is None:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)
            try:
                out, _ = self._process.communicate(timeout=_END)
            except subprocess.TimeoutExpired:
                self._process.kill()
                out, _ = self._process.communicate()
            lines = out.strip().splitlines()
            counters = self.counters = dict(json.loads(lines[-1])) if lines else {}
        return counters

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __del__(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None and process.poll() is None:
            process.kill()
            process.communicate()

    def __repr__(self) -> str:
        return f"<prony.Server {self.url}>"


def serve(
    address: str | os.PathLike[str] = "127.0.0.1:0", **options: Unpack[ServeOptions]
) -> Server:
    """Starts a target server, like `prony serve`, at a free port of 127.0.0.1 unless `address`
    says otherwise::

        with prony.serve(latency="exp:2ms", workers=4) as server:
            prony.load(server.url, connections=50)
        print(server.counters["replies"])

    Raises:
        UsageError: an option is wrong.
        SetupError: the server cannot start.
    """
    return Server(words("serve", options, (address,)))
