"""The check of the console's modules itself: it must fail when it should, and hold."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("export const fine = 1;\n", ""),
        ("export const wrong = (a) => a;\n", "TS7006"),
        ("/** @param {string} a */\nexport const wrong = (a) => a.lenght;\n", "TS2551"),
        ("const unused = 1;\nexport {};\n", "TS6133"),
        ("export const wrong = document.querySelector('a').href;\n", "TS2531"),
    ],
)
def test_faults_are_found(tmp_path: Path, node: Node, text: str, fault: str) -> None:
    (tmp_path / "one.js").write_text(text)
    options = (javascript.SOURCE / "tsconfig.json").read_text().replace("../../../coordinator/console/static", ".")
    (tmp_path / "tsconfig.json").write_text(options)
    found = javascript.check(node, "--project", str(tmp_path / "tsconfig.json"))
    assert fault in found.stdout
    assert bool(found.returncode) == bool(fault)


def test_without_npm_the_check_is_left_out_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> Node:
        raise AssertionError("npm ci failed: no network")

    monkeypatch.setattr(javascript, "compiler", fail)
    assert javascript.main() == 0
    assert "not checked: npm cannot install TypeScript: npm ci failed: no network" in capsys.readouterr().out
