"""The page of each toolset: it names every tool, and references of docstrings exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.toolsets.tool import Toolset
from tests.support.contracts import toolsets

PRODUCT = Path(__file__).resolve().parents[2] / "coordinator"
POINTER = re.compile(r"README\.md,\s+'([^']+)'")


def headings(page: Path) -> set[str]:
    return set(re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE))


def page_of(module: Path) -> Path:
    """The page nearest to a module, in its folder or above."""
    return next(folder / "README.md" for folder in module.parents if (folder / "README.md").is_file())


def pointers() -> Iterator[tuple[Path, str]]:
    for module in (*PRODUCT.rglob("*.py"), *PRODUCT.rglob("*.lua")):
        for heading in POINTER.findall(module.read_text(encoding="utf-8")):
            yield module, heading


@pytest.mark.parametrize("toolset", [pytest.param(toolset, id=name) for name, toolset in toolsets().items()])
def test_every_tool_is_on_the_page(toolset: Toolset) -> None:
    page = (PRODUCT / "toolsets" / toolset.name / "README.md").read_text(encoding="utf-8")
    assert [tool.name for tool in toolset.tools if f"`{tool.name}`" not in page] == []


def test_every_reference_is_a_heading() -> None:
    found = list(pointers())
    assert len(found) > 20
    lost = [f"{module.relative_to(PRODUCT)}: {heading}" for module, heading in found
            if heading not in headings(page_of(module))]  # fmt: skip
    assert lost == []
