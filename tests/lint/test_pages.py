"""Pages: links resolve, named files exist, and each code block is run by a test or gives a reason."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.support import pages

READ = {page.name: page for page in map(pages.read, pages.paths())}
RUN = ("python", "sh", "yaml")
"""The languages that tests/cli/test_pages.py runs."""
README_BYTES = 9 * 1024
_FILE = re.compile(r"[\w.-]+(/[\w.-]+)+\.(lua|md|py|yaml|yml)|\w+\.lua")
_ELSEWHERE = re.compile(r"https?://|mailto:")


_SAMPLE = """\
# One `two`, three!

<!-- not run: a reason -->
```sh
first
```

Text [here](#one-two-three) with `a/file.py`.

<!-- not run -->
```
second
```

    third

## Twice
## Twice
"""


@cache
def operations() -> frozenset[str]:
    """Names of the files of Lua operations."""
    folders = (pages.ROOT / "coordinator", pages.ROOT / "workers")
    return frozenset(path.name for folder in folders for path in folder.rglob("lua/**/*.lua"))


@cache
def anchors(path: Path) -> frozenset[str]:
    return frozenset(pages.read(path).anchors)


def test_the_pages_are_found() -> None:
    expected = {"README.md", "CHANGELOG.md", ".github/CONTRIBUTING.md", "coordinator/README.md", "deploy/metrics.md"}
    assert expected <= READ.keys()
    assert not any(name.startswith(".venv") for name in READ)


def test_pages_are_parsed_as_rendered(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(_SAMPLE)
    page = pages.read(tmp_path / "page.md")
    assert page.anchors == {"one-two-three", "twice", "twice-1"}
    assert (page.links, page.spans) == (["#one-two-three"], ["two", "a/file.py"])
    assert [(block.line, block.language, block.not_run) for block in page.blocks] == [
        (4, "sh", "a reason"),
        (11, "", ""),
        (15, "", ""),
    ]


def test_the_readme_is_short() -> None:
    assert (pages.ROOT / "README.md").stat().st_size <= README_BYTES


@pytest.mark.parametrize("name", READ)
def test_links_lead_somewhere(name: str) -> None:
    page = READ[name]
    for link in page.links:
        if _ELSEWHERE.match(link):
            continue
        file, _, anchor = unquote(link).partition("#")
        target = (page.path.parent / file).resolve() if file else page.path
        assert target.exists(), f"{name}: {link}"
        assert target.is_relative_to(pages.ROOT), f"{name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{name}: {link}"


@pytest.mark.parametrize("name", sorted(READ.keys() - {"CHANGELOG.md"}))
def test_named_files_exist(name: str) -> None:
    """By their path in the tree or from the page; operations also by their name alone."""
    page = READ[name]
    for span in filter(_FILE.fullmatch, page.spans):
        places = (pages.ROOT, page.path.parent, pages.ROOT / "coordinator")
        assert span in operations() or any((place / span).exists() for place in places), f"{name}: {span}"


@pytest.mark.parametrize("name", READ)
def test_code_blocks_are_run_or_give_a_reason(name: str) -> None:
    for block in READ[name].blocks:
        assert block.language, f"{block.place}: fence it and name its language; indented blocks are copied with blanks"
        assert block.not_run or block.language in RUN, f"{block.place}: say why it is not run: <!-- not run: ... -->"
        if not block.not_run:
            assert not re.search(r"^ +\S", block.text.lstrip("\n").split("\n")[0]), f"{block.place}: begins indented"
