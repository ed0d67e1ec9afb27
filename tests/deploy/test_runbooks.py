"""Commands, settings and metrics in runbooks exist."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.errors import CATALOGUE as CODES
from coordinator.feed.kinds import NAMES
from coordinator.metrics_catalogue import CATALOGUE
from coordinator.settings import Settings
from coordinator.settings.fields import fields_of
from tests.support.contracts import toolsets

PAGES = sorted((Path(__file__).resolve().parents[2] / "deploy" / "runbooks").glob("*.md"))
QUOTED = {page.name: re.findall(r"`([^`]+)`", page.read_text()) for page in PAGES}
COMMANDS = sorted({text for texts in QUOTED.values() for text in texts if text.startswith("fleet ")})
FOREIGN = sorted({text for texts in QUOTED.values() for text in texts if re.search(r"\b(rq|redis-cli) ", text)})
_PLACES = re.compile(r"[A-Z_]+\Z")
_IN_READYZ = {"config.version", "config.refused"}


@cache
def known() -> frozenset[str]:
    """Names of settings, metrics and their label values, error codes, events and tools."""
    names = {name for field in fields_of(Settings) for name in (field.name, field.path[-1])}
    for metric in CATALOGUE:
        names |= {metric.name, *(value for label in metric.dimensions for value in label.values)}
    return frozenset(
        names
        | CODES.keys()
        | _IN_READYZ
        | set(NAMES)
        | {tool.name for one in toolsets().values() for tool in one.tools}
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_known(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for word in shlex.split(command)[1:] if not _PLACES.match(word)]
    code = cli.run([*(word for word in words if not word.startswith("-")), "--help"])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    assert f"Usage: fleet {words[0]}" in shown.out
    for flag in (word for word in words if word.startswith("--")):
        assert flag in shown.out


def test_workspaces_are_removed_wherever_the_operator_is() -> None:
    """The command looks into one repository, which is hardly ever the current directory."""
    assert [one for one in COMMANDS if one.startswith("fleet run gc")]
    assert not [one for one in COMMANDS if one.startswith("fleet run gc") and "--worktree" not in one]


@pytest.mark.parametrize("command", FOREIGN)
def test_foreign_commands_name_the_server(command: str) -> None:
    """A local server on the default port is hardly ever the fleet's."""
    assert re.search(r" (--url|-u) REDIS_URL\b| -s DATA_DIR/redis\.sock\b", command)


@pytest.mark.parametrize("page", sorted(QUOTED))
def test_names_are_known(page: str) -> None:
    for text in QUOTED[page]:
        if re.fullmatch(r"[a-z]+([_.][a-z]+)+", text):
            assert text in known(), f"{page} speaks of {text}"
