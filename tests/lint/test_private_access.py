"""Tests use the public names of the product only; what they cannot see from outside gets a seam in the product.

A line that cannot do without says why: ``# private: the SDK has no setting for it``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

_REASON = re.compile(r"# private: \w+ \w+")
_SUSPECT = re.compile(
    r"(?<!\bself)(?<!\bcls)\._[A-Za-z]|[\"']_[A-Za-z]|\bimport\b.*\b_[A-Za-z]|^ +_\w+,$", re.MULTILINE
)
"""Whatever a use can look like. Only files with that are parsed, which takes most of the time."""
_PRIVATE = re.compile(r"_[A-Za-z]\w*")
_QUOTED = re.compile(r"(\w+)\._[A-Za-z]\w*")
"""In a string: a program that a test runs, or the path of what it replaces."""
_OWN = ("self", "cls")
_PUBLIC = frozenset(("_replace", "_asdict", "_fields", "_make", "_exit"))
"""Public all the same: of named tuples, and ``os._exit``."""
_BY_NAME = frozenset(("getattr", "setattr", "hasattr", "delattr", "object"))
"""What takes the name of an attribute as its second argument; ``object`` is that of ``mock.patch``."""


def _is_private(name: str) -> bool:
    return _PRIVATE.fullmatch(name) is not None and name not in _PUBLIC


def _defined(tree: ast.AST) -> set[str]:
    """The private names that the file itself makes: its functions and methods, and the attributes of its objects."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.Attribute(value=ast.Name("self"), attr=name, ctx=ast.Store()):
                names.add(name)
    return names


def _accesses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each use of a private name that the file does not make."""
    own = _defined(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Call(func=ast.Name("super")), attr=name) if _is_private(name):
                yield node.lineno, name  # it overrides what is private to the product
            case ast.Attribute(value=ast.Name(owner)) if owner in _OWN:
                pass
            case ast.Attribute(attr=name) if _is_private(name) and name not in own:
                yield node.end_lineno or node.lineno, name
            case ast.ImportFrom(module=str(module), names=imported):
                if module.partition(".")[0] in ("coordinator", "workers"):
                    for name in (*module.split("."), *(alias.name for alias in imported)):
                        if _is_private(name):
                            yield node.lineno, name
            case ast.Call(func=ast.Name(called) | ast.Attribute(attr=called), args=[_, ast.Constant(str(name)), *_]):
                if called in _BY_NAME and _is_private(name):
                    yield node.lineno, name
            case ast.Constant(str(text)):
                for match in _QUOTED.finditer(text):
                    name = match[0].rpartition(".")[2]
                    if match[1] not in _OWN and _is_private(name):
                        line = node.lineno + text.count("\n", 0, match.start())
                        yield min(line, node.end_lineno or line), name


def found(source: str) -> list[str]:
    """``line: name`` for each use that gives no reason."""
    if not _SUSPECT.search(source):
        return []
    lines = source.splitlines()
    uses = sorted(set(_accesses(ast.parse(source))))
    return [f"{line}: {name}" for line, name in uses if not _REASON.search(lines[line - 1])]


@pytest.mark.parametrize(
    "line",
    [
        "assert store._link is None",
        "store._link.submit = submit",
        "monkeypatch.setattr(module, '_SECONDS', 0.1)",
        "monkeypatch.setattr('coordinator.store.link.shared._SECONDS', 0.1)",
        "with mock.patch.object(store, '_link'): pass",
        "getattr(store, '_link')",
        "from coordinator.store.link.shared import _refuse",
        "from coordinator._store import Link",
        "run('import x\\nx._start()')",
        "class Mine(Link):\n    def _greet(self):\n        super()._greet()",
        "store._link  # private: why",
    ],
)
def test_a_use_is_found(line: str) -> None:
    assert len(found(line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "assert claim._replace(fence=1)._fields",
        "os._exit(1)",
        "store.__dict__",
        "from mcp.server import _streamable",
        "class Mine:\n    def __init__(self):\n        self._held = 1\nMine()._held",
        "class Mine:\n    def _held(self): ...\n    def held(self):\n        self._held()",
        "store._link  # private: the link has no other name",
    ],
)
def test_others_are_not(line: str) -> None:
    assert not found(line)


def test_no_test_uses_what_is_private() -> None:
    uses = []
    for path in sorted(TESTS.rglob("*.py")):
        if "node_modules" not in path.parts and path != Path(__file__).resolve():
            name = path.relative_to(TESTS.parent)
            uses += [f"{name}:{use}" for use in found(path.read_text(encoding="utf-8"))]
    assert not uses
