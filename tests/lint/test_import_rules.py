"""The one-way import rule is enforced: a forbidden import breaks a contract.

Runs the real contracts over a copy of the tree with forbidden imports.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("coordinator", "workers"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


WRONG = {
    "coordinator/store/wrong_a.py": "coordinator.transport",
    "coordinator/settings/wrong_b.py": "coordinator.store",
    "coordinator/metrics/wrong_c.py": "coordinator.settings",
    "coordinator/errors.py": "coordinator.metrics",
    "workers/wrong_d.py": "coordinator.transport",
    "coordinator/toolsets/wrong_e.py": "workers",
    "coordinator/toolsets/wrong_f.py": "coordinator.toolsets.items",
    "coordinator/toolsets/items/rules/wrong_g.py": "coordinator.toolsets.items.live",
    "coordinator/toolsets/worker/wrong_h.py": "coordinator.toolsets.items.audit",
    "coordinator/projects/wrong_i.py": "coordinator.toolsets.items.store.restore",
    "coordinator/toolsets/items/field_types/wrong_j.py": "coordinator.toolsets.items.fields",
    "coordinator/console/wrong_i.py": "coordinator.processes",
    "coordinator/cli/wrong_j.py": "workers",
}


def test_forbidden_imports_are_found(tree: Path) -> None:
    for module, imported in WRONG.items():
        with (tree / module).open("a", encoding="utf-8") as file:
            file.write(f"\nimport {imported}\n")
    done = lint_imports(tree)
    assert done.returncode != 0
    assert "7 broken" in done.stdout
    for module, imported in WRONG.items():
        importer = module.removesuffix(".py").replace("/", ".")
        assert f"{importer} -> {imported}" in done.stdout


def test_a_new_module_needs_a_layer(tree: Path) -> None:
    (tree / "coordinator" / "newmodule.py").touch()
    done = lint_imports(tree)
    assert done.returncode != 0
    assert "newmodule" in done.stdout


def test_nothing_is_imported_from_modules_of_tests() -> None:
    """What several need is in a module beside them, or in ``tests/support``. A module as a whole may be named."""
    wrong = re.compile(r"\s*from tests\.[\w.]*\btest_")
    modules = (ROOT / "tests").rglob("*.py")
    lines = [(path, line) for path in modules for line in path.read_text(encoding="utf-8").splitlines()]
    assert [f"{path.relative_to(ROOT)}: {line}" for path, line in lines if wrong.match(line)] == []
