"""``fleet agents-md``: instructions for agents, as a block of an AGENTS.md or as a skill."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.prompts.kit import ROLES, block, placed, skill


def agents_md(
    role: Annotated[Literal["worker", "orchestrator"], Parameter(help="For whom.")] = "worker",
    *,
    file: Annotated[
        Path | None,
        Parameter(
            help="Write the block into this AGENTS.md, CLAUDE.md or GEMINI.md: in place of the one that it has, else "
            "at its end.",
            metavar="FILE",
        ),
    ] = None,
    as_skill: Annotated[
        bool,
        Parameter(name="--skill", help="Print a SKILL.md instead, as Claude Code and others take it."),
    ] = False,
) -> None:
    if as_skill and file is not None:
        raise CommandFailed("--skill goes without --file: put what it prints into a file SKILL.md", Exit.USAGE)
    if file is None:
        print((skill if as_skill else block)(ROLES[role]), end="")
        return
    try:
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        after = placed(ROLES[role], before)
        if after != before:
            file.write_text(after, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CommandFailed(f"{file}: {error}", Exit.FAILED) from None
    print(f"{file}: {'unchanged' if after == before else 'has the block' if before else 'written'}")
