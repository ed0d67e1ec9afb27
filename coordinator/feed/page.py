"""The table of kinds in README.md: ``python -m coordinator.feed.page`` writes it from ``kinds.py``."""

from __future__ import annotations

import re
from pathlib import Path

from coordinator.feed.kinds import KINDS, NAMES

PAGE = Path(__file__).with_name("README.md")
_TABLE = re.compile(r"(?<=\| --- \| --- \| --- \| --- \|\n)(?:\|.*\n)*")


def rows() -> str:
    return "".join(f"{_row(name)}\n" for name in NAMES)


def page(text: str) -> str:
    """The page with the present table."""
    return _TABLE.sub(lambda _: rows(), text)


def _row(name: str) -> str:
    same = [kind for kind in KINDS.values() if kind.name == name]
    first = same[0]
    members = [f"`{field.name}`: {field.doc}" for field in first.fields.values()]
    members += [f"`{member}`: {', '.join(kind.said[member] for kind in same)}" for member in first.said]
    mark = "\\*" if first.asked else ""
    return f"| `{name}`{mark} | {first.doc.removesuffix('.')} | {'; '.join(members)} | `{first.toolset}.read` |"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
