"""Users written in Python, whose requests go through prony's engine."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Union, overload

from ._errors import UsageError
from ._prony import Client

Function = Callable[[Client], Awaitable[Any]]


class User:
    """A kind of user: an async function with a client, made by the decorator `user`. Pass it to
    `load(url, users=...)` or `watch(url, users=...)`."""

    def __init__(self, function: Function, name: str, weight: int) -> None:
        self.function = function
        self.name = name
        """The name in reports."""
        self.weight = weight
        """How often it is picked, relative to the other users of a load."""
        self.__doc__ = function.__doc__

    def __call__(self, client: Client) -> Awaitable[Any]:
        """The coroutine of one session."""
        return self.function(client)

    def __repr__(self) -> str:
        return f"<prony.User {self.name}>"


@overload
def user(function: Function, /) -> User: ...
@overload
def user(
    *, name: str | None = None, weight: int = 1
) -> Callable[[Function], User]: ...
def user(
    function: Function | None = None, /, *, name: str | None = None, weight: int = 1
) -> User | Callable[[Function], User]:
    """Makes a user of an async function::

        @prony.user
        async def shop(u: prony.Client) -> None:
            reply = await u.get("/items")
            await u.think("exp:2s")
            await u.post("/cart", json={"item": reply.json()[0]["id"]}, name="cart")

        prony.load("http://127.0.0.1:8080", users=shop, connections=50, duration="1m")

    Each call of the function is a session with connections of its own. In a closed loop, each of
    `connections` users runs one session after another; in an open loop, `rate` sessions start each
    second. The function decides what comes next; the engine sends, measures and records. It may
    await only the methods of its client. An exception ends the session, which has then failed.

    Raises:
        UsageError: the function is not async, or the weight is not positive.
    """

    def made(function: Function) -> User:
        if not inspect.iscoroutinefunction(function):
            raise UsageError(
                f"a user is an async function: write 'async def {_name(function)}(u): ...'"
            )
        if weight < 1 or weight >= 1 << 32:
            raise UsageError(f"the weight of a user is a number from 1 on, not {weight}")
        return User(function, _name(function) if name is None else name, weight)

    return made if function is None else made(function)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", "user"))


Users = Union[User, Sequence[User]]


def functions(users: Users | None) -> list[tuple[Function, str, int]] | None:
    """The functions of the users, with their names and weights."""
    if users is None:
        return None
    given: Sequence[object] = users if isinstance(users, Sequence) else [users]
    all_users = []
    for one in given:
        if not isinstance(one, User):
            raise UsageError(f"users: {type(one).__name__} is no user; see prony.user")
        all_users.append(one)
    if not all_users:
        raise UsageError("users: give one user or more")
    return [(one.function, one.name, one.weight) for one in all_users]
