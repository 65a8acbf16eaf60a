import os
from collections.abc import Awaitable, Callable, Sequence

from typing import Any, Literal

__version__: str

class Refused(Exception): ...

class Report:
    def render(self, format: str) -> bytes: ...
    def write(self, files: Sequence[str | os.PathLike[str]]) -> None: ...
    def exit_code(self) -> int: ...

class Phased:
    def render(self, format: str) -> bytes: ...
    def write(self, files: Sequence[str | os.PathLike[str]]) -> None: ...
    def exit_code(self) -> int: ...
    def phases(self) -> list[tuple[str, str, float, Report, int]]: ...

class Found:
    def render(self, format: str) -> bytes: ...
    def write(self, files: Sequence[str | os.PathLike[str]]) -> None: ...

class Reply:
    """What a request of a user came to."""

    @property
    def status(self) -> int | None:
        """The status; None without a complete reply."""
    @property
    def ok(self) -> bool:
        """Whether the request succeeded, as the load defines it (`expect_status`)."""
    @property
    def error(self) -> str | None:
        """The error, such as `request-timeout`; None if the request succeeded."""
    @property
    def body(self) -> bytes:
        """The body, up to 1 MiB."""
    @property
    def truncated(self) -> bool:
        """Whether the body is longer than that."""
    @property
    def headers(self) -> dict[str, str]:
        """The headers; names are in lower case, values of a repeated one joined by commas."""
    def text(self) -> str:
        """The body as text (UTF-8)."""
    def json(self) -> Any:
        """The body as JSON.

        Raises:
            ValueError: it is not JSON.
        """

class Client:
    """What a user can do. Only the user itself can await these methods.

    A path starts with `/`. `name` groups requests in the report (at most 31 names). `body` is bytes or
    text, `json` any value that `json.dumps` takes. A failed request raises nothing: see `Reply.ok`.

    Raises:
        ValueError: a path, a header or a time that cannot be sent or waited.
    """

    @property
    def number(self) -> int:
        """The number of the session in the whole run, from 0."""
    def request(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        body: bytes | str | None = None,
        json: Any = None,
        name: str | None = None,
    ) -> Awaitable[Reply]:
        """Sends a request: GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS."""
    def get(
        self, path: str, *, headers: dict[str, str] | None = None, name: str | None = None
    ) -> Awaitable[Reply]:
        """Sends a GET request."""
    def head(
        self, path: str, *, headers: dict[str, str] | None = None, name: str | None = None
    ) -> Awaitable[Reply]:
        """Sends a HEAD request."""
    def delete(
        self, path: str, *, headers: dict[str, str] | None = None, name: str | None = None
    ) -> Awaitable[Reply]:
        """Sends a DELETE request."""
    def post(
        self,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        body: bytes | str | None = None,
        json: Any = None,
        name: str | None = None,
    ) -> Awaitable[Reply]:
        """Sends a POST request."""
    def put(
        self,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        body: bytes | str | None = None,
        json: Any = None,
        name: str | None = None,
    ) -> Awaitable[Reply]:
        """Sends a PUT request."""
    def patch(
        self,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        body: bytes | str | None = None,
        json: Any = None,
        name: str | None = None,
    ) -> Awaitable[Reply]:
        """Sends a PATCH request."""
    def think(self, time: float | str) -> Awaitable[None]:
        """Pauses: seconds, or a text such as "2s", "exp:2s", "uniform:1s:3s" or
        "lognormal:2s:0.5". Texts are drawn by the seed of the run."""

class Run:
    def __new__(
        cls,
        words: Sequence[str],
        program: str,
        python: str,
        plan_text: str | None = None,
        users: Sequence[tuple[Callable[[Client], Awaitable[Any]], str, int]] | None = None,
    ) -> Run: ...
    def next(
        self, seconds: float
    ) -> (
        tuple[Literal["tick"], dict[str, Any]]
        | tuple[Literal["said", "progress", "explained"], str]
        | tuple[Literal["finished"], None]
        | tuple[Literal["end"], int]
        | None
    ): ...
    def report(self) -> Report | None: ...
    def found(self) -> Found | None: ...
    def phased(self) -> Phased | None: ...
    def interrupt(self) -> None: ...

def check_plan(path: str, text: str | None = None) -> str: ...
def read(text: str) -> Report | Phased: ...
