"""Reads the files of imports."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from coordinator.interchange.model import ImportProblem


def open_regular(path: Path) -> BinaryIO:
    """Opens a file for reading, but no pipe or the like: that could wait forever for a writer."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode) and not os.path.samestat(found, os.stat(os.devnull)):
        file.close()
        raise ImportProblem(f"{path} is no regular file; what a program writes is read from stdin ('-')")
    return file


def read_regular(path: Path, most: int = -1) -> bytes:
    """The content of a file, or its first ``most`` bytes; raises as ``open_regular``."""
    with open_regular(path) as file:
        return file.read(most)
