"""Tests as another user than the superuser, who may read everything."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65_534


@contextmanager
def without_privileges() -> Iterator[None]:
    """The block runs with the rights of nobody if this process has those of the superuser."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@contextmanager
def common_folder() -> Iterator[Path]:
    """A folder that every user may use; pytest's are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
