"""The build backend (PEP 517): maturin, after it has built the program `prony` into the wheel.

`PRONY_BUILD_PROFILE` is the profile of cargo: `release` by default; `dist` optimizes the whole
program at once, which takes some minutes longer. `PRONY_BUILD_PROGRAM` is the path of a program
that is built already.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "python" / "prony.data" / "scripts"
# maturin needs the folder for each of its steps.
SCRIPTS.mkdir(parents=True, exist_ok=True)
PROFILE = os.environ.get("PRONY_BUILD_PROFILE", "release")


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds the wheel, with the program."""
    glibc = _program()
    return maturin.build_wheel(wheel_directory, _settings(config_settings, glibc), metadata_directory)


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds an editable wheel, with the program."""
    _program()
    settings = _settings(config_settings, None)
    return maturin.build_editable(wheel_directory, settings, metadata_directory)


def _settings(settings: dict[str, Any] | None, glibc: tuple[int, int] | None) -> dict[str, Any]:
    args = ["--profile", PROFILE]
    if glibc is not None:
        args += ["--compatibility", f"manylinux_{glibc[0]}_{glibc[1]}"]
    given = (settings or {}).get("build-args", "")
    return {**(settings or {}), "build-args": " ".join([*args, given]).strip()}


def _program() -> tuple[int, int] | None:
    """Builds the program and puts it where maturin takes the scripts of the wheel from. Returns the
    oldest glibc that it runs on, if objdump can tell."""
    target = SCRIPTS / "prony"
    target.unlink(missing_ok=True)
    shutil.copy2(os.environ.get("PRONY_BUILD_PROGRAM") or _built(), target)
    subprocess.run(["strip", target], check=False)
    return _oldest_glibc(target)


def _built() -> str:
    """Builds the program, and returns its path."""
    cargo = os.environ.get("CARGO", "cargo")
    # Both packages, so that what they share is compiled with the same features, once.
    packages = ["--package", "prony", "--package", "prony-py", "--bin", "prony"]
    # A source distribution has fewer packages than Cargo.lock.
    locked = ["--locked"] if (ROOT / "xtask").exists() else []
    command = [cargo, "build", *locked, "--profile", PROFILE, *packages]
    message = ["--message-format", "json-render-diagnostics"]
    built = subprocess.run([*command, *message], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    messages = [json.loads(line) for line in built.stdout.decode().splitlines() if line]
    return str([m["executable"] for m in messages if m.get("executable")][-1])


def _oldest_glibc(program: Path) -> tuple[int, int] | None:
    """The newest version of glibc's symbols that the program needs."""
    try:
        dump = subprocess.run(["objdump", "-T", program], check=True, stdout=subprocess.PIPE)
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.findall(r"GLIBC_(\d+)\.(\d+)", dump.stdout.decode())
    versions = [(int(major), int(minor)) for major, minor in found]
    # maturin knows no older one.
    return max([(2, 17), *versions])
