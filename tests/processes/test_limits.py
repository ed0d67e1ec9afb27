"""Resource limits: commands raise their file limit, and work with low ones."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.cli import MOST_FILES
from tests.support.fleets import Http, RunningFleet


class FewFiles(RunningFleet):
    """A fleet whose processes may open 600 files each."""

    prefix = ("/bin/sh", "-c", 'ulimit -n 600; exec "$@"', "sh")


HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


@pytest.mark.parametrize(
    ("soft", "hard"),
    [
        (256, 1024),
        pytest.param(256, 300, marks=pytest.mark.chaos),
        (256, 256),
        pytest.param(700, HARD, marks=pytest.mark.chaos),
    ],
)
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


def test_idle_clients_cannot_exhaust_a_low_file_limit(tmp_path: Path) -> None:
    fleet = FewFiles(tmp_path / "data", "--port", "0", "--frontends", "1", "--workers", "0")
    with fleet, contextlib.ExitStack() as silent:
        fleet.wait_ready()
        held = []
        for number in range(700):
            held.append(silent.enter_context(socket.create_connection(("127.0.0.1", fleet.port), timeout=60)))
            if number % 2:
                held[-1].sendall(b"POST /mcp HTTP/1.1\r\nhost: 127")
        for _ in range(5):
            with Http(fleet.port) as client:
                assert client.call("query_items", operation="overview")["items"] == []
        # The oldest one was closed long before the arrival timeout.
        assert held[0].recv(100).startswith(b"HTTP/1.1 408 ")
