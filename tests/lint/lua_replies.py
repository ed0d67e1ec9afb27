"""Checks ``reply:`` in the headers of operations against the Python code that decodes the replies.

It names that code as ``Claims (store/claim_lists.py)``, with a path from the package's folder or one around it. The
name is of a struct, a function or a type there; two of one file are joined by ``and``. The structs that an operation's
``Script`` decodes are all named.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

from coordinator.store import Script

_NAMED = re.compile(r"\b(?:(\w+) and )?(\w+) \(([\w/]+\.py)\)")


def problems(reply: str, package: Path, decoders: Iterable[type]) -> Iterator[str]:
    """What is wrong with the ``reply:`` of an operation.

    Args:
        package: the folder that has the ``lua`` of the operation.
        decoders: the structs that its scripts decode (``decoders``).
    """
    named: set[tuple[str, Path]] = set()
    for *names, place in _NAMED.findall(" ".join(reply.split())):
        path = next((path for folder in (package, *package.parents) if (path := folder / place).is_file()), None)
        if path is None:
            yield f"there is no {place}"
            continue
        named |= {(name, path) for name in names}
        for name in names:
            if name and name not in _names(path):
                yield f"{place} has no '{name}'"
    for struct in sorted(decoders, key=lambda one: one.__name__):
        path = Path(str(sys.modules[struct.__module__].__file__))
        if (struct.__name__, path) not in named:
            yield f"does not name {struct.__name__} ({path.name}), which decodes it"


def decoders(folder: Path, name: str) -> set[type]:
    """The structs that the scripts of an operation decode, among those of the modules that are imported.

    Args:
        folder: the ``lua`` of the operation.
    """
    found: set[type] = set()
    for script in Script.registered():
        if script.name == name and script.function_library.folder == folder and script.decode is not None:
            found |= _structs(script.decode.__self__.type)  # type: ignore[attr-defined]
    return found


def _structs(kind: Any) -> set[type]:
    """Those in a type, but not those in their fields."""
    if isinstance(kind, type) and not get_args(kind):
        return {kind} if kind.__module__ not in ("builtins", "typing") else set()
    return set[type]().union(*map(_structs, get_args(kind)))


@cache
def _names(path: Path) -> frozenset[str]:
    """What a Python file defines."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(found)
