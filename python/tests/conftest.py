"""A target server for the tests."""

from __future__ import annotations

from collections.abc import Iterator

import prony as package
import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def server() -> Iterator[package.Server]:
    """A server on a free port of 127.0.0.1 that replies at once."""
    with package.serve() as server:
        yield server
