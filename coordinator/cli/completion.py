"""``fleet completion``: what a shell needs to complete the words of ``fleet``."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell.")]) -> None:
    # Here, because the table of commands that is made there has this one.
    from coordinator.cli import app

    print(app.generate_completion(prog_name="fleet", shell=shell))
