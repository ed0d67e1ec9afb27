"""The project's pages: Markdown files, read as GitHub does."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
_NOT_OURS = ("config/workflows/", "config/agents/skills/", "config/examples/plan.md", "coordinator/prompts/")
"""What agents and programs read: definitions, plans, and instructions, whose calls have tests of their own."""
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
_PUNCTUATION = re.compile(r"[^\w\- ]")
_MARKDOWN = MarkdownIt("commonmark").enable("table")


class Block(NamedTuple):
    """A code block."""

    page: str
    line: int
    language: str
    """Empty: none is given, or the block is indented instead of fenced."""
    text: str
    not_run: str
    """The reason why no test runs it; empty: one does."""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Page:
    """The parts of a page that tests check."""

    path: Path
    links: list[str]
    anchors: set[str]
    spans: list[str]
    """Texts in code font."""
    blocks: list[Block]

    @property
    def name(self) -> str:
        """Its path in the tree."""
        return os.path.relpath(self.path, ROOT)


def paths() -> list[Path]:
    """All pages of the tree, except those of tools."""
    folders = ("*.md", ".github/**/*.md", *(f"{folder}/**/*.md" for folder in _folders()))
    found = {path for pattern in folders for path in ROOT.glob(pattern)}
    return sorted(path for path in found if not str(path.relative_to(ROOT)).startswith(_NOT_OURS))


@functools.cache
def read(path: Path) -> Page:
    """Parses a page, once."""
    page = Page(path, [], set(), [], [])
    tokens = _MARKDOWN.parse(path.read_text(encoding="utf-8"))
    for number, token in enumerate(tokens):
        before = tokens[number - 1] if number else None
        if token.type == "heading_open":
            page.anchors.add(_anchor(_text(tokens[number + 1]), page.anchors))
        elif token.type in ("fence", "code_block"):
            reason = _NOT_RUN.fullmatch(before.content.strip()) if before and before.type == "html_block" else None
            line = (token.map or [0])[0] + 1
            page.blocks.append(Block(page.name, line, token.info.strip(), token.content, reason[1] if reason else ""))
        for child in token.children or ():
            if child.type == "link_open":
                page.links.append(str(child.attrs["href"]))
            elif child.type == "image":
                page.links.append(str(child.attrs["src"]))
            elif child.type == "code_inline":
                page.spans.append(child.content)
    return page


def _folders() -> list[str]:
    return sorted(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))


def _text(heading: Token) -> str:
    return "".join(child.content for child in heading.children or () if child.type in ("text", "code_inline"))


def _anchor(heading: str, taken: set[str]) -> str:
    """The anchor that GitHub makes of a heading."""
    plain = _PUNCTUATION.sub("", heading.strip().lower()).replace(" ", "-")
    anchor, number = plain, 0
    while anchor in taken:
        number += 1
        anchor = f"{plain}-{number}"
    return anchor
