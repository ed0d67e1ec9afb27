"""``fleet project pause`` and ``resume``: no new work of a project begins meanwhile."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.acting import Reason, acting
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, unwritten
from coordinator.cli.terminal import print_json
from coordinator.operations import ActResult, Operator
from coordinator.operations.pauses import pause_project, resume_project
from coordinator.settings import LoadedSettings
from coordinator.wording import printable

Name = Annotated[str, Parameter(help="The project.")]
AsJson = Annotated[bool, Parameter(help="Print as JSON.")]


@with_settings(only=STORE_SETTINGS)
def pause(loaded: LoadedSettings, name: Name, *, reason: Reason = None, json: AsJson = False) -> None:
    async def act(by: Operator) -> ActResult:
        if why := await unwritten(by.store, name):
            raise CommandFailed(why, Exit.USAGE)
        return await pause_project(by, name)

    result = acting(loaded, reason, act)
    if json:
        print_json({"project": name, **result.facts})
        return
    ending = f"`fleet project resume {name}` ends that"
    print(f"no claim of project {name} begins{f'; {printable(result.said)}' if result.said else ''}; {ending}")


@with_settings(only=STORE_SETTINGS)
def resume(loaded: LoadedSettings, name: Name, *, reason: Reason = None, json: AsJson = False) -> int:
    result = acting(loaded, reason, lambda by: resume_project(by, name))
    if json:
        print_json({"project": name, "resumed": result.done, **result.facts})
    else:
        print(f"claims of project {name} begin again" if result.done else f"project {name}: {result.said}")
    return Exit.OK if result.done else Exit.FAILED
