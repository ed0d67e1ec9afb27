"""``fleet completion``: what a shell needs to complete the words of ``fleet``."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from coordinator.cli.exits import Exit


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell.")]) -> int:
    # Here, because the table of commands that is made there has this one.
    from coordinator.cli import app

    print(app.generate_completion(prog_name="fleet", shell=shell))
    return Exit.OK
