"""The faces of toolsets: what the console, commands and the other rooms above them may use."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def names_of(package: str, file: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that imports names below ``if TYPE_CHECKING``: each when it is first used.

    With all of them imported at once, `fleet items` would take twice as long to start.
    """

    @functools.cache
    def where() -> dict[str, tuple[str, str]]:
        imports = (
            node for node in ast.walk(ast.parse(Path(file).read_text("utf-8"))) if isinstance(node, ast.ImportFrom)
        )
        return {alias.asname or alias.name: (node.module or "", alias.name) for node in imports for alias in node.names}

    def find(name: str) -> Any:
        module, original = where().get(name, ("", ""))
        if not module.startswith(package):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), original, None) or import_module(f"{module}.{original}")
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    return find
