"""Files that would take a reader long, or for ever."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.interchange.files import read_regular
from coordinator.interchange.formats import backlog, markdown
from coordinator.interchange.mapping import read_mapping
from coordinator.interchange.model import ImportProblem

LONG: dict[str, Callable[[int], str]] = {
    "a heading of spaces": lambda n: "# " + " " * n + "x",
    "a heading of #": lambda n: "# " + "#" * n + "x",
    "a heading of both": lambda n: "# " + "# " * n + "x",
    "spaces in a task": lambda n: "- [ ] a" + " " * n + "b",
    "a comment that is no identity": lambda n: "- [ ] a" + " " * n + "<!-- fleet:",
    "many tags": lambda n: "- [ ]" + " #a" * n,
    "many that are none": lambda n: "- [ ]" + " #a!" * n,
    "many references": lambda n: "- [ ]" + " (after a" * (n // 4),
    "a long description": lambda n: "- [ ] a\n" + "  text\n" * (n // 4),
    "many tasks": lambda n: "- [ ] a\n" * (n // 10),
    "a number": lambda n: "1" * n + ". [ ] a",
    "fences in a task": lambda n: "- [ ] a\n" + "  ```x\n" * (n // 4),
    "a fence of spaces": lambda n: " " * n + "```" + " " * n + "x",
    "empty lines": lambda n: "\n" * n,
}
SECTIONS: dict[str, Callable[[int], str]] = {
    "spaces before no mark": lambda n: " " * n + "x",
    "a heading of spaces": lambda n: "## " + " " * n + "\n## " + "a " * n,
    "no end of the front matter": lambda n: "--- x\n" * n,
}


def seconds(read: Callable[[], object]) -> float:
    """What it takes of the processor, at best."""
    taken = []
    for _ in range(3):
        began = time.process_time()
        read()
        taken.append(time.process_time() - began)
    return min(taken)


def is_linear(read: Callable[[int], object], size: int = 4_000) -> bool:
    """Whether 8 times as much takes far less than the 64 times as long of the square."""
    return seconds(lambda: read(8 * size)) < 24 * max(seconds(lambda: read(size)), 0.002)


@pytest.mark.parametrize("make", LONG.values(), ids=LONG)
def test_markdown_takes_time_in_proportion(make: Callable[[int], str]) -> None:
    assert is_linear(lambda n: markdown.read(make(n).encode()))


@pytest.mark.parametrize("make", SECTIONS.values(), ids=SECTIONS)
def test_backlog_takes_time_in_proportion(tmp_path: Path, make: Callable[[int], str]) -> None:
    tasks = tmp_path / "tasks"
    tasks.mkdir()

    def read(n: int) -> None:
        (tasks / "task-1.md").write_text(f"---\nid: task-1\ntitle: a\n---\n{make(n)}")
        backlog.read_folder(tmp_path)

    assert is_linear(read)


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    """A pipe would keep its reader waiting for a writer."""
    pipe = tmp_path / "tasks" / "task-1.md"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    readers: list[Callable[[], object]] = [
        *(lambda file=file: read_regular(file) for file in (pipe, link, Path("/dev/zero"))),
        lambda: read_mapping(pipe),
        lambda: backlog.read_folder(tmp_path),
    ]
    for read in readers:
        with pytest.raises(ImportProblem, match="is no regular file"):
            read()
    pipe.unlink()
    pipe.write_text("---\nid: task-1\n---\n")
    assert read_regular(link) == pipe.read_bytes()
