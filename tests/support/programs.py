"""Programs that tests run and that may be missing."""

from __future__ import annotations

import shutil

import pytest


def needs(program: str) -> None:
    """Skips the test unless a program is installed."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
