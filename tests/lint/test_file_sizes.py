"""The file-size check itself: it must fail when it should."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def file_sizes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("file_sizes", Path(__file__).with_name("file_sizes.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RULES: dict[str, Any] = {
    "python-lines": 10,
    "lua-lines": 5,
    "lua-module-lines": 7,
    "lua-folder": 2,
    "python-folder": 2,
    "python-part-folder": 3,
    "javascript-lines": 4,
    "javascript-total": 9,
    "python-median": 8,
}


def write(root: Path, name: str, lines: int) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    operation = path.suffix == ".lua" and not path.stem.endswith("module")
    path.write_text("--[[\n" * operation + "x\n" * (lines - operation))


@pytest.mark.parametrize(
    ("files", "exceptions", "expected"),
    [
        ({"coordinator/a.py": 8, "workers/b.py": 2, "coordinator/c.lua": 5}, {}, []),
        ({"coordinator/a.py": 1, "tests/t.py": 11}, {}, ["tests/t.py: 11 lines, allowed are 10"]),
        ({"coordinator/a.lua": 6}, {}, ["coordinator/a.lua: 6 lines, allowed are 5"]),
        ({"coordinator/lua/a_module.lua": 7}, {}, []),
        (
            {"coordinator/lua/a_module.lua": 8},
            {},
            ["coordinator/lua/a_module.lua: 8 lines, allowed are 7"],
        ),
        (
            {"coordinator/lua/a.lua": 1, "coordinator/lua/b.lua": 1, "coordinator/lua/c_module.lua": 1},
            {},
            ["coordinator/lua: 3 Lua files, allowed are 2"],
        ),
        (
            {f"{folder}/{name}.py": 1 for folder in ("coordinator/rules", "workers", "tests") for name in "abc"},
            {},
            [
                "coordinator/rules: 3 Python files, allowed are 2",
                "workers: 3 Python files, allowed are 2",
            ],
        ),
        (
            {f"coordinator/toolsets/items/{part}/{name}.py": 1 for part in ("rules", "contract") for name in "abc"}
            | {f"coordinator/toolsets/items/store/{name}.py": 1 for name in "abcd"},
            {},
            [
                "coordinator/toolsets/items/contract: 3 Python files, allowed are 2",
                "coordinator/toolsets/items/store: 4 Python files, allowed are 3",
            ],
        ),
        ({"coordinator/a.lua": 6}, {"coordinator/a.lua": {"lines": 6}}, []),
        (
            {"coordinator/a.lua": 7},
            {"coordinator/a.lua": {"lines": 6}},
            ["coordinator/a.lua: 7 lines, allowed are 6"],
        ),
        (
            {"coordinator/a.lua": 4},
            {"coordinator/a.lua": {"lines": 6}},
            ["coordinator/a.lua: its exception in pyproject.toml is not needed"],
        ),
        ({"coordinator/a.py": 9}, {}, ["the median Python file has 9 lines, allowed are 8"]),
        ({"coordinator/a.js": 5}, {}, ["coordinator/a.js: 5 lines, allowed are 4"]),
        (
            {"coordinator/a.js": 4, "coordinator/b.js": 4, "coordinator/c.js": 2},
            {},
            ["the scripts of pages have 10 lines, allowed are 9"],
        ),
        ({"tests/node/node_modules/x.py": 99, "elsewhere/y.py": 99}, {}, []),
    ],
)
def test_problems_are_found(
    tmp_path: Path, file_sizes: ModuleType, files: dict[str, int], exceptions: dict[str, Any], expected: list[str]
) -> None:
    for name, lines in files.items():
        write(tmp_path, name, lines)
    problems, _ = file_sizes.check(tmp_path, RULES | {"exceptions": exceptions})
    assert problems == expected


def test_the_summary_has_count_median_and_largest(tmp_path: Path, file_sizes: ModuleType) -> None:
    for number, lines in enumerate((2, 4, 9)):
        write(tmp_path, f"coordinator/f{number}.py", lines)
    _, summary = file_sizes.check(tmp_path, RULES)
    assert summary == "3 Python files of the product, median 4 lines, largest 9"
