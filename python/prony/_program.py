"""The program `prony` that came with this package."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig

from ._errors import SetupError


def program() -> str:
    """The path of the program: `PRONY_PROGRAM`, or the one that was installed with this package,
    or else the first on the PATH."""
    given = os.environ.get("PRONY_PROGRAM")
    if given:
        return given
    folders = [sysconfig.get_path("scripts")]
    scheme = sysconfig.get_preferred_scheme("user")
    folders.append(sysconfig.get_path("scripts", scheme))
    folders.append(os.path.dirname(sys.executable))
    for folder in folders:
        path = os.path.join(folder, "prony")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("prony")
    if found is None:
        raise SetupError(
            f"the program prony is missing: it is not in {folders[0]} and not on the PATH; "
            "install the package again, or set PRONY_PROGRAM to its path"
        )
    return found


def path_or_default() -> str:
    """The path of the program; a name that a run which needs it will refuse, if it is missing."""
    try:
        return program()
    except SetupError:
        return "prony"
