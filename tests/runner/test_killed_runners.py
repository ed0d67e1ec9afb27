"""A runner is killed at each git command that it runs: no work is lost, and the next attempt goes on from it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.repositories import Place
from tests.support.fleets import ROOT

RUNNERS = """
import asyncio, os, sys
from pathlib import Path
from tests.runner.repositories import Place

async def attempt(top, item_id, label):
    place = Place(Path(top), new=False)
    Path(top, "runner").write_text(str(os.getpid()))
    place.environment["PATH"] = f"{top}/bin:" + place.environment["PATH"]
    made = await place.open(place.attempt(item_id, label))
    with open(made.path / "work.txt", "a") as file:
        print(f"work on {item_id}", file=file)
    Path(top, "worked").touch()
    await made.commit()
    await made.close(done=False)

for line in sys.stdin:
    pid = os.fork()
    if not pid:
        try:
            asyncio.run(attempt(*line.split()))
            os._exit(0)
        finally:
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
GIT = """#!/bin/sh
# Kills the runner before, or after, its command number {at}.
n=$(($(cat {top}/count 2>/dev/null || echo 0) + 1)); echo $n > {top}/count
[ "$n" = "{at}" ] && [ {when} = before ] && kill -9 $(cat {top}/runner) && exit 1
PATH="{path}" git "$@"; code=$?
[ "$n" = "{at}" ] && [ {when} = after ] && kill -9 $(cat {top}/runner)
exit $code
"""


class Runners:
    """Attempts, in a process each that can be killed; they are forked from one that has imported all they need."""

    def __init__(self, place: Place) -> None:
        self.place = place
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        words = [sys.executable, "-c", RUNNERS]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, item_id: str, label: str, at: int = 0, when: str = "never") -> int:
        """Runs an attempt that is killed on the way; returns the exit code of its runner."""
        top = self.place.top
        wrapper = top / "bin" / "git"
        wrapper.parent.mkdir(exist_ok=True)
        wrapper.write_text(GIT.format(top=top, at=at, when=when, path=os.environ["PATH"]))
        wrapper.chmod(0o755)
        (top / "count").unlink(missing_ok=True)
        assert self.process.stdin
        assert self.process.stdout
        print(top, item_id, label, file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())


@pytest.fixture
def runners(tmp_path: Path) -> Iterator[Runners]:
    runners = Runners(Place(tmp_path))
    with runners.process:
        yield runners


@pytest.mark.chaos
def test_killed_at_every_command(runners: Runners, tmp_path: Path) -> None:
    place = runners.place
    assert runners.run(str(uuid.uuid4()), "1") == 0
    commands = int((tmp_path / "count").read_text())
    assert commands > 15
    items: dict[str, int] = {}
    for at in range(1, commands + 1):
        item_id, when = str(uuid.uuid4()), ("before", "after")[at % 2]
        (tmp_path / "worked").unlink(missing_ok=True)
        assert runners.run(item_id, "1", at, when) == -signal.SIGKILL, (at, when)
        if (tmp_path / "worked").exists():
            items[item_id] = at
    assert len(items) > 10
    assert {f"work on {one}" for one in items} <= place.everything()
    # Whatever they have left: the next attempts have that work, and cleaning up loses none of it.
    for item_id in list(items)[::4]:
        assert runners.run(item_id, "2") == 0
        branch = next(name for name in place.branches() if name.startswith(f"fleet-{item_id[:8]}-2"))
        assert f"work on {item_id}" in place.git("show", f"{branch}:work.txt")
    found = place.collect(salvage=True)
    assert {f"work on {one}" for one in items} <= place.everything()
    assert place.git("worktree", "list").count("\n") == 0, [one for one in found.values() if not one.removed]
    assert not list((place.state / "worktrees").rglob("fleet-*"))
