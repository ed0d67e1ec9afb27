"""``python -m benchmarks``: if one benchmark fails, the others still run."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import __main__ as command
from benchmarks.loader import PROJECT, load_now
from benchmarks.rivals.cycles import Cycles, FullCalls
from benchmarks.support import Failed, Missing, embedded
from benchmarks.way import beyond, ways


def benchmark(monkeypatch: pytest.MonkeyPatch, name: str, outcome: Exception | None) -> None:
    """Adds a benchmark that prints its name, then returns or raises."""

    def main() -> None:
        print(f"{name} runs")
        if outcome is not None:
            raise outcome

    module = ModuleType(f"benchmarks.{name}", f"Is this {name}?")
    vars(module)["main"] = main
    monkeypatch.setitem(sys.modules, module.__name__, module)


def test_a_failure_is_reported_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark(monkeypatch, "first", Failed("3 differences"))
    benchmark(monkeypatch, "second", Missing("a tool is not installed"))
    benchmark(monkeypatch, "third", None)
    monkeypatch.setattr(command, "ALL", ("first", "second", "third"))
    monkeypatch.setattr(sys, "argv", ["benchmarks"])
    assert command.main() == 1
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if line.endswith(" runs")] == ["first runs", "second runs", "third runs"]
    assert told.rstrip().splitlines()[-1] == "first: failed, 3 differences"
    monkeypatch.setattr(sys, "argv", ["benchmarks", "first"])
    assert command.main() == 1
    monkeypatch.setattr(command, "ALL", ("second", "third"))
    monkeypatch.setattr(sys, "argv", ["benchmarks"])
    assert command.main() == 0


def test_the_page_lists_all_benchmarks() -> None:
    page = (Path(command.__file__).parent / "README.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(command.ALL)


@pytest.mark.chaos
def test_equality_fails_if_the_fast_path_answers_too_few() -> None:
    program = (
        "from benchmarks import __main__ as command, equality; equality.GOAL = 1.1; raise SystemExit(command.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "equality", "40", "1"], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 1, done.stderr
    assert re.search(r"^equality: failed, 0 differences, \d+\.\d% by the fast path$", done.stdout, re.MULTILINE)


def test_calls_pass_no_more_files_and_functions_than_their_bounds() -> None:
    with embedded("no") as server:
        found = ways(server.url)
    assert beyond(found) == "", "`python -m benchmarks way CALL` lists the functions"
    assert all(way.python and way.lua and way.commands for way in found.values())


def test_a_cycle_makes_the_calls_of_the_front_end() -> None:
    with embedded("no") as server, contextlib.closing(Cycles(server.url, FullCalls(PROJECT), 2)) as cycles:
        load_now(server.url, 30)
        assert cycles.run(20).per_second > 0
