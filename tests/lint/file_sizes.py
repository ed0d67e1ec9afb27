"""Checks that source files and folders stay small: limits and named exceptions are in pyproject.toml.

Prints the median, so that growth is noticed before a limit is hit. An obsolete exception
fails too.
"""

from __future__ import annotations

import collections
import statistics
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("coordinator", "workers", "tests", "benchmarks")
_KINDS = {".py": "python", ".lua": "lua", ".js": "javascript"}


def lines_of(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def kind_of(path: Path) -> str:
    """What the limit of a file is called in pyproject.toml."""
    module = path.suffix == ".lua" and not path.read_text(encoding="utf-8").startswith("--[[")  # it has no contract
    return _KINDS[path.suffix] + ("-module" if module else "")


def kind_of_folder(path: Path) -> str:
    """What the limit of the product's Python files in a folder is called: parts of a toolset may have a few more."""
    return (
        "python-part-folder"
        if path.name in ("rules", "store", "tools") and "toolsets" in path.parts
        else "python-folder"
    )


def check(root: Path, rules: dict[str, Any]) -> tuple[list[str], str]:
    """Problems found under ``root``, and a summary line."""
    exceptions = rules.get("exceptions", {})
    problems: list[str] = []
    product: list[int] = []
    folders: dict[str, collections.Counter[Path]] = {".lua": collections.Counter(), ".py": collections.Counter()}
    scripts = 0
    excused: set[str] = set()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".py", ".lua", ".js") or "node_modules" in path.parts:
                continue
            name, size = str(path.relative_to(root)), lines_of(path)
            limit = rules[f"{kind_of(path)}-lines"]
            if path.suffix == ".lua" or (path.suffix == ".py" and folder in ("coordinator", "workers")):
                folders[path.suffix][path.parent] += 1
            scripts += size if path.suffix == ".js" else 0
            if size > limit and name in exceptions:
                excused.add(name)
                limit = exceptions[name]["lines"]
            if size > limit:
                problems.append(f"{name}: {size} lines, allowed are {limit}")
            if path.suffix == ".py" and folder in ("coordinator", "workers") and size:
                product.append(size)
    problems += [
        f"{path.relative_to(root)}: {count} Lua files, allowed are {rules['lua-folder']}"
        for path, count in folders[".lua"].items()
        if count > rules["lua-folder"]
    ]
    problems += [
        f"{path.relative_to(root)}: {count} Python files, allowed are {rules[kind_of_folder(path)]}"
        for path, count in folders[".py"].items()
        if count > rules[kind_of_folder(path)]
    ]
    problems += [f"{name}: its exception in pyproject.toml is not needed" for name in sorted(set(exceptions) - excused)]
    if scripts > rules["javascript-total"]:
        problems.append(f"the scripts of pages have {scripts} lines, allowed are {rules['javascript-total']}")
    median = statistics.median(product) if product else 0
    if median > rules["python-median"]:
        problems.append(f"the median Python file has {median:g} lines, allowed are {rules['python-median']}")
    largest = max(product, default=0)
    summary = f"{len(product)} Python files of the product, median {median:g} lines, largest {largest}"
    return problems, summary + (f"; {scripts} lines of scripts of pages" if scripts else "")


def main() -> int:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["file-sizes"]
    problems, summary = check(ROOT, rules)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(summary)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
