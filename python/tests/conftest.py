"""A target server for the tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import prony as package
import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def _interrupts() -> None:
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background of a shell."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def server() -> Iterator[package.Server]:
    """A server on a free port of 127.0.0.1 that replies at once."""
    with package.serve() as server:
        yield server
