"""The help pages are short, and begin with working examples."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from cyclopts import App

from coordinator import cli
from coordinator.cli.commands import COMMANDS, GROUPS
from coordinator.cli.exits import Exit
from coordinator.settings import Settings, load_settings

LINES, COLUMNS = 60, 80


def pages(app: App = cli.app, *path: str) -> Iterator[str]:
    """The words of all commands and groups that the parser knows."""
    yield " ".join(path)
    for name in app:
        if not name.startswith("-"):
            yield from pages(app[name], *path, name)


PAGES = list(pages())


@pytest.fixture(autouse=True)
def a_terminal_of_80_columns_and_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


def test_every_page_is_in_the_table_of_commands() -> None:
    assert sorted(PAGES) == sorted(COMMANDS | GROUPS)


@pytest.mark.parametrize("words", PAGES)
def test_help_is_short_and_begins_with_two_examples(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*words.split(), "--help"]) == Exit.OK
    page = capsys.readouterr().out
    assert not re.search(r"\[default:\s(?:\"\"|\(\)|False|None)\]", page), "a default that says nothing"
    assert not re.search(r"--(?:empty|no)-[a-z-]+", page), "flags like --no-once, which the parser adds by default"
    assert " ".join((COMMANDS | GROUPS)[words].text.split())[:40] in " ".join(page.split())
    lines = page.splitlines()
    assert len(lines) < LINES
    assert max(map(len, lines)) <= COLUMNS
    title, *examples, blank = lines[:4]
    assert (title, blank) == ("Examples:", "")
    assert examples == [f"  {line}" for line in (COMMANDS | GROUPS)[words].examples]
    assert examples[0] != examples[1]
    assert all(line.startswith(f"  fleet {words}".rstrip()) for line in examples)


@pytest.mark.parametrize("line", sorted({line for one in (COMMANDS | GROUPS).values() for line in one.examples}))
def test_examples_are_what_the_command_takes(line: str) -> None:
    """Parsed by the real parser; the flags of settings are checked as at a start."""
    words = shlex.split(line.partition(">")[0])[1:]
    command, bound, _ = cli.app.parse_args(words, print_error=False, exit_on_error=False)
    assert command.__module__.startswith("coordinator.cli.")
    flags: dict[str, Any] = {name: one for name, one in bound.arguments.items() if name in Settings.__struct_fields__}
    load_settings(flags, {}, None)
