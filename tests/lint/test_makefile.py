"""``make`` reports missing prerequisites, with advice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A minimal folder for make, readable by other users."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(ROOT / "Makefile", folder)
        (folder / "requirements.lock").write_text("no-such-package==1 --hash=sha256:" + "0" * 64 + "\n")
        yield folder
        folder.chmod(0o755)


def make(
    folder: Path, target: str, *, user: int | None = None, env: Mapping[str, str] | None = None, **variables: str
) -> str:
    """The output of a failing make."""
    # An outer make passes its variables down.
    others = ("PIP_", "MAKE", "FLEET_", "ARGS", "PYTHON", "VENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    done = subprocess.run(
        ["make", target, *(f"{name}={value}" for name, value in variables.items())],
        cwd=folder,
        env={**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        user=user,
    )
    assert done.returncode == 2, done.stdout
    return done.stderr


def python(folder: Path, script: str) -> str:
    """A fake Python that runs a script."""
    path = folder / "some-python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_missing_or_old_python_is_reported(checkout: Path) -> None:
    for other in ("no-such-python", python(checkout, "exit 1")):
        told = make(checkout, ".venv/.created", VENV=".venv", PYTHON=other)
        assert f"make: {other} is missing or older than 3.11; name another one: PYTHON=" in told


def test_a_python_without_venv_is_reported(checkout: Path) -> None:
    lacking = python(checkout, 'test "$1" != -m || { echo "No module named venv" >&2; exit 1; }')
    told = make(checkout, ".venv/.created", VENV=".venv", PYTHON=lacking)
    assert f"No module named venv\nmake: {lacking} made no virtual environment; if it lacks the module venv" in told
    assert not (checkout / ".venv" / ".created").exists()


def test_a_read_only_folder_is_reported(checkout: Path) -> None:
    checkout.chmod(0o555)
    told = make(checkout, ".venv/.created", VENV=".venv", PYTHON="true", user=NOBODY if os.geteuid() == 0 else None)
    assert told.startswith(f"make: {checkout} cannot be written to, and .venv and ./.fleet go there: use a copy\n")


def test_unavailable_packages_are_reported(checkout: Path) -> None:
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python").symlink_to(python(checkout, f'exec "{sys.executable}" "$@"'))
    (checkout / ".venv" / ".created").touch()
    told = make(checkout, ".venv/.locked", VENV=".venv")
    assert "No matching distribution found for no-such-package==1" in told
    assert "make: pip could not install what requirements.lock lists, for the reason above. Without a network" in told


def test_the_settings_of_make_up_can_be_overridden(checkout: Path) -> None:
    """As `fleet up` advises if its directory is in use."""
    for name in ("pyproject.toml", "coordinator/__init__.py", ".venv/bin/fleet", ".venv/.created", ".venv/.locked"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).touch()
    (checkout / ".venv" / ".installed").touch()
    fleet = checkout / ".venv" / "bin" / "fleet"
    fleet.write_text('#!/bin/sh\necho "$FLEET_DATA_DIR|$FLEET_CONFIG|$FLEET_FLOWS_DEMO_TOOLS|$*" >&2\nexit 1\n')
    fleet.chmod(0o755)
    assert make(checkout, "up", VENV=".venv").startswith("./.fleet|config/gateway.yaml|true|up\n")
    told = make(checkout, "up", VENV=".venv", ARGS="--data-dir other --port 0")
    assert told.startswith("./.fleet|config/gateway.yaml|true|up --data-dir other --port 0\n")
    mine = {"FLEET_DATA_DIR": "/some where", "FLEET_CONFIG": "/my fleet.yaml", "FLEET_FLOWS_DEMO_TOOLS": "false"}
    assert make(checkout, "up", VENV=".venv", env=mine).startswith("/some where|/my fleet.yaml|false|up\n")


def test_the_fleet_that_is_stopped_is_the_one_that_was_started(checkout: Path) -> None:
    program = checkout / ".venv" / "bin" / "fleet"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$1 $FLEET_DATA_DIR"\n')
    program.chmod(0o755)
    for stamp in (".created", ".installed"):
        (checkout / ".venv" / stamp).touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLEET_", "MAKE", "ARGS"))}
    for env, where in (({}, "./.fleet"), ({"FLEET_DATA_DIR": "/elsewhere"}, "/elsewhere")):
        said = [
            subprocess.run(["make", "-o", "install", one], cwd=checkout, env=kept | env, capture_output=True, text=True)
            for one in ("up", "stop")
        ]
        assert [one.stdout for one in said] == [f"up {where}\n", f"stop {where}\n"], [one.stderr for one in said]
