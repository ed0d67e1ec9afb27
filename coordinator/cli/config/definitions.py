"""``fleet definitions check``: lists what is wrong with a folder of workflow definitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.definitions import Definitions, Library, Problem, lint
from coordinator.wording import counted


def check(
    directory: Annotated[Path, Parameter(help="The folder that has one folder for each workflow.", metavar="DIR")],
) -> int:
    if not directory.is_dir():
        raise CommandFailed(f"{directory} is not a directory", Exit.USAGE)
    definitions = Definitions([directory.absolute()], poll_seconds=0, quiet=True)
    if not definitions.current.files or (directory / "workflow.toon").is_file():
        raise CommandFailed(
            f"{directory} has no folders of workflows: DIR is the folder above them, as in DIR/release/workflow.toon",
            Exit.USAGE,
        )
    problems = lint(definitions.current)
    print("\n".join(report(definitions.current, problems)))
    return Exit.FAILED if any(problem.level != "odd" for problem in problems) else Exit.OK


def report(library: Library, problems: tuple[Problem, ...]) -> Iterator[str]:
    """The problems, a line each, then the workflows and the counts."""
    yield from map(str, problems)
    if problems:
        yield ""
    for name, loaded in library.workflows.items():
        folder = library.folders[name]
        counts = (len(loaded.activities), len(folder.skills), len(folder.resources), len(folder.templates))
        words = ", ".join(counted(count, *what) for count, what in zip(counts, _WHAT, strict=True) if count)
        yield f"{name} {loaded.version} ({loaded.digest}): {words}"
    levels = [problem.level for problem in problems]
    summary = ", ".join(f"{levels.count(level)} {level}" for level in ("broken", "wrong", "odd") if level in levels)
    size = f"{counted(library.files, 'file')}, {counted(len(library.workflows), 'workflow')}"
    yield f"{size}: {summary or 'no problems'}"


_WHAT = (("activity", "activities"), ("skill",), ("resource",), ("template",))
