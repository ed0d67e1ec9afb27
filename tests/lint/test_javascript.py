"""The check of the console's modules itself: it must fail when it should, and hold."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.lint import javascript
from tests.transport.nodejs import Node


@pytest.fixture(scope="module")
def node() -> Node:
    try:
        return javascript.compiler()
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"npm cannot install TypeScript: {error}")


FAULTS = {
    "fine": ("export const fine = 1;\n", ""),
    "untyped": ("export const wrong = (a) => a;\n", "TS7006"),
    "misspelt": ("/** @param {string} a */\nexport const wrong = (a) => a.lenght;\n", "TS2551"),
    "unused": ("const unused = 1;\nexport {};\n", "TS6133"),
    "absent": ("export const wrong = document.querySelector('a').href;\n", "TS2531"),
}
"""Module -> its text, and the number of its only fault."""


def test_faults_are_found(tmp_path: Path, node: Node) -> None:
    """The compiler takes seconds to start, so it gets all modules at once."""
    for name, (text, _) in FAULTS.items():
        (tmp_path / f"{name}.js").write_text(text)
    options = (javascript.SOURCE / "tsconfig.json").read_text().replace("../../../coordinator/console/static", ".")
    (tmp_path / "tsconfig.json").write_text(options)
    found = javascript.check(node, "--project", str(tmp_path / "tsconfig.json"), "--pretty", "false")
    assert found.returncode
    told = re.findall(r"^(?:.*/)?(\w+)\.js\(.*?\): error (TS\d+):", found.stdout, re.MULTILINE)
    assert sorted(told) == sorted((name, fault) for name, (_, fault) in FAULTS.items() if fault), found.stdout


def test_without_npm_the_check_is_left_out_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> Node:
        raise AssertionError("npm ci failed: no network")

    monkeypatch.setattr(javascript, "compiler", fail)
    assert javascript.main() == 0
    assert "not checked: npm cannot install TypeScript: npm ci failed: no network" in capsys.readouterr().out
