"""``fleet items end-claim``: ends the claim on an item in place of its holder, through the store as other commands of
operators.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.acting import acting
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.items.arguments import AsJson, Id, item
from coordinator.cli.items.tables import short
from coordinator.cli.stores import STORE_SETTINGS, unwritten
from coordinator.cli.terminal import print_json
from coordinator.operations import ActResult, Operator, claims
from coordinator.settings import LoadedSettings
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.wording import printable


@with_settings(only=STORE_SETTINGS)
def end_claim(
    loaded: LoadedSettings,
    id: Id,
    *,
    reason: Annotated[str, Parameter(help="Why: kept in the item's history.")],
    failed: Annotated[bool, Parameter(help="Count it as a failed attempt; else as handed back.")] = False,
    fence: Annotated[int | None, Parameter(help="End only the claim with this fence.")] = None,
    json: AsJson = False,
    project: Annotated[str, Parameter(help="The project of the item.")] = DEFAULT_PROJECT,
) -> int:
    async def act(by: Operator) -> ActResult:
        if none := await unwritten(by.store, project):
            raise CommandFailed(none, Exit.USAGE)
        return await claims.end_claim(by, project, item(id), fence=fence or 0, failed=failed)

    result = acting(loaded, reason, act)
    named, facts = short(result.facts["itemId"]), dict(result.facts)
    role = facts.pop("role", "")
    if json:
        print_json(facts)
    elif result.done:
        agent, number = printable(facts["agent"]), facts["fenceToken"]
        print(f"{named}  {agent} holds it no more (fence {number}); its role is {role}")
    else:
        raise CommandFailed(f"{named}: {printable(result.said)}")
    return Exit.OK if result.done else Exit.FAILED
