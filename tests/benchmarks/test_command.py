"""``python -m benchmarks``: how failures and goals count, and what it lists; and counts that are bounds."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import __main__ as command
from benchmarks import callgrind, way
from benchmarks.loader import PROJECT, load_now
from benchmarks.rivals.cycles import Cycles, FullCalls
from benchmarks.support import Failed, Missed, Missing, embedded


def benchmark(monkeypatch: pytest.MonkeyPatch, name: str, outcome: Exception | None) -> None:
    """Adds a benchmark that prints its name and arguments, then returns or raises."""

    def main(*arguments: str) -> None:
        print(f"{name} runs{arguments}")
        if outcome is not None:
            raise outcome

    module = ModuleType(f"benchmarks.{name}", f"Is this {name}?")
    vars(module)["main"] = main
    monkeypatch.setitem(sys.modules, module.__name__, module)


def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    outcomes: Mapping[str, Exception | None],
    *arguments: str,
) -> tuple[int, list[str]]:
    """The exit code, and the lines of output, of benchmarks that end so."""
    for name, outcome in outcomes.items():
        benchmark(monkeypatch, name, outcome)
    monkeypatch.setattr(command, "ALL", dict.fromkeys(outcomes, ("1",)))
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    code = command.main()
    return code, capsys.readouterr().out.rstrip().splitlines()


def test_a_failure_is_reported_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = {
        "first": Failed("3 differences"),
        "second": Missing("a tool is not installed"),
        "third": KeyError("result"),
        "fourth": None,
        "fifth": Missed("too slow"),
    }
    code, lines = run(monkeypatch, capsys, outcomes)
    assert code == 1
    assert [line for line in lines if "runs(" in line] == [f"{name} runs()" for name in outcomes]
    assert lines[-4:] == [
        "second: not run, a tool is not installed",
        "first: failed, 3 differences",
        "third: failed, KeyError('result')",
        "fifth: failed, too slow",
    ]
    assert run(monkeypatch, capsys, outcomes, "first")[0] == 1
    assert run(monkeypatch, capsys, {"second": outcomes["second"], "fourth": None})[0] == 0


def test_goals_do_not_count_in_the_smallest_rounds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = run(monkeypatch, capsys, {"first": Missed("too slow"), "second": None}, "--smallest")
    assert code == 0
    assert [line for line in lines if "runs(" in line] == ["first runs('1',)", "second runs('1',)"]
    assert "a goal was missed: too slow" in lines
    assert run(monkeypatch, capsys, {"first": Failed("3 differences")}, "first", "--smallest")[0] == 1


def test_all_benchmarks_are_run_and_listed_on_the_page() -> None:
    folder = Path(command.__file__).parent
    page = (folder / "README.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(command.ALL)
    files = [file.stem for file in folder.glob("*.py") if f"python -m benchmarks {file.stem}" in file.read_text()]
    assert sorted(files) == sorted(command.ALL)


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


def test_calls_pass_no_more_files_and_functions_than_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callgrind, "PROGRAM", "")  # takes a minute
    way.main()  # fails otherwise; `python -m benchmarks way CALL` lists the functions


def test_a_cycle_makes_the_calls_of_the_front_end() -> None:
    with embedded("no") as server, contextlib.closing(Cycles(server.url, FullCalls(PROJECT), 2)) as cycles:
        load_now(server.url, 30)
        assert cycles.run(20).per_second > 0
