"""The smallest round of each benchmark, so that none stops working unnoticed. Programs are forks of the template."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

import pytest

from benchmarks import __main__ as command
from benchmarks import support
from tests.support.fleets import environment, started
from tests.support.template import Forked

ELSEWHERE = {
    "postgres": "needs PostgreSQL: `make bench ARGS=--smallest` runs it where that is installed",
    "way": "test_command.py runs it, for its bounds",
    "instructions": "takes half a minute: `make chaos` runs it, below",
}


def start(
    module: str, arguments: Sequence[str], env: Mapping[str, str], *standard: IO[Any]
) -> subprocess.Popen[bytes] | Forked:
    return started(arguments, env, *standard, module=module)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "start", start)
    for name, value in environment().items():
        monkeypatch.setenv(name, value)


@pytest.mark.chaos
@pytest.mark.parametrize("arguments", [("instructions", "2"), ("loop", "--client", "1", "8", "2")])
def test_a_round_that_takes_long(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    assert command.main() == 0, "\n".join(capsys.readouterr())


def test_what_is_left_out_exists() -> None:
    assert set(ELSEWHERE) <= set(command.ALL)


@pytest.mark.parametrize("name", [name for name in command.ALL if name not in ELSEWHERE])
def test_the_smallest_round(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", name, "--smallest"])
    code = command.main()
    assert code == 0, "\n".join(capsys.readouterr())
    if support.left_out and support.left_out[0].startswith(f"{name}: "):
        pytest.skip(support.left_out[0])
