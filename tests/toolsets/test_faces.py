"""The faces of toolsets: what they export is there, and is imported when it is first used."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import coordinator.toolsets

FACES = ("flows", "gateway", "items", "sessions")


def exported(toolset: str) -> list[str]:
    face = Path(coordinator.toolsets.__file__).parent / toolset / "__init__.py"
    (block,) = (node for node in ast.parse(face.read_text()).body if isinstance(node, ast.If))
    return [one.asname or one.name for node in block.body if isinstance(node, ast.ImportFrom) for one in node.names]


@pytest.mark.parametrize("toolset", FACES)
def test_every_name_of_a_face_is_there_once(toolset: str) -> None:
    face, names = import_module(f"coordinator.toolsets.{toolset}"), exported(toolset)
    assert all(getattr(face, name) is not None for name in names)
    assert sorted(set(names)) == sorted(names)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = face.nothing


def test_options_of_items_are_known_without_the_store() -> None:
    """Commands that only call a fleet must not wait until the server's parts are imported."""
    program = "import sys, coordinator.cli.items.options; print('coordinator.store.store' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
