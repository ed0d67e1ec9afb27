"""The built distribution contains everything that the code reads at run time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_holds_all_modules_and_scripts(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    expected = {
        str(path.relative_to(ROOT))
        for folder in ("coordinator", "workers")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert any(name.endswith(".lua") for name in expected)
    assert expected <= held
    assert {"coordinator/py.typed", "workers/py.typed"} <= held, "the classifier 'Typed' needs them (PEP 561)"
    shipped = (ROOT / "config" / "workflows").rglob("*.*")
    assert {
        f"coordinator/definitions/shipped/{path.relative_to(ROOT / 'config' / 'workflows')}" for path in shipped
    } <= held
    assert {name.split("/")[0].split("-")[0] for name in held} == {"coordinator", "workers", "fleet_coordinator"}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in held)
