"""Limits of the system that commands raise for themselves."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from coordinator.cli.limits import MOST_FILES

HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


@pytest.mark.parametrize(("soft", "hard"), [(256, 1024), (256, 300), (256, 256), (700, HARD)])
def test_as_many_files_as_allowed_can_be_opened(soft: int, hard: int) -> None:
    expected = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    script = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "import sys; from coordinator.cli import main; sys.argv[1:] = ['--version']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split()[-2:] == [str(expected), str(hard)]
