"""From keywords to the words of a command line, which the parser of the command line checks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from . import _options
from ._errors import UsageError

ALIASES = {"thresholds": "threshold"}


def words(command: str, options: Mapping[str, Any], operands: Iterable[object]) -> list[str]:
    """The command line of `command` with these options."""
    line = ["prony", command]
    for name, value in options.items():
        line.extend(_option(ALIASES.get(name, name), value))
    line.extend(os.fsdecode(_text("a URL", operand)) for operand in operands)
    return line


def _option(name: str, value: Any) -> list[str]:
    if name in _options.TERMINAL:
        raise UsageError(f"{name}: this option is for the command line; see docs/python.md")
    # `from_` is the option --from, whose name is a word of the language.
    word = "--" + name.rstrip("_").replace("_", "-")
    if value is None:
        return []
    if value is True:
        return [word]
    if value is False:
        opposite = name[3:] if name.startswith("no_") else f"no_{name}"
        return ["--" + opposite.replace("_", "-")] if opposite in _options.OPPOSITES else []
    if name == "header" and isinstance(value, Mapping):
        return [f"{word}={key}: {text}" for key, text in value.items()]
    if isinstance(value, (list, tuple)):
        return [f"{word}={_text(name, one)}" for one in value]
    return [f"{word}={_text(name, value)}"]


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, os.PathLike)):
        return os.fsdecode(value)
    if isinstance(value, bool):
        raise UsageError(f"{name}: {value} is no value of this option")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        # Without an exponent, which no option has.
        return format(Decimal(repr(value)), "f")
    if isinstance(value, timedelta):
        return _text(name, value.total_seconds())
    raise UsageError(f"{name}: {type(value).__name__} is no type of a value; write text or a number")
