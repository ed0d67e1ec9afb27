"""``fleet items end-claim``: ends the claim on an item in place of its holder, through the store as other commands of
operators.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.items.arguments import AsJson, Id, item
from coordinator.cli.items.tables import short
from coordinator.cli.stores import STORE_SETTINGS, unwritten, with_store
from coordinator.cli.terminal import operator, print_json, printable
from coordinator.errors import ToolFailure
from coordinator.settings import LoadedSettings
from coordinator.store import Store
from coordinator.store.idempotency import NO_KEY
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.toolsets.actor import ActorEcho, Trusted, Verification, attribution
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store.end_claim import ClaimEnder, EndedClaim, ending_reason


@with_settings(only=STORE_SETTINGS)
def end_claim(
    loaded: LoadedSettings,
    id: Id,
    *,
    reason: Annotated[str, Parameter(help="Why: kept in the item's history.")],
    failed: Annotated[bool, Parameter(negative="", help="Count it as a failed attempt; else as handed back.")] = False,
    fence: Annotated[int | None, Parameter(help="End only the claim with this fence.")] = None,
    json: AsJson = False,
    project: Annotated[str, Parameter(help="The project of the item.")] = DEFAULT_PROJECT,
) -> int:
    """Ends a claim; the exit code is not 0 if there was none to end.

    Raises:
        CommandFailed: the store cannot be used, an argument is malformed, or there is no such item or project.
    """
    who = ActorEcho(operator(), "user")
    by = attribution(Trusted(who.id, who, Verification("absent", "noop", None)))

    async def act(store: Store) -> tuple[str, EndedClaim]:
        why = ending_reason(reason)
        if none := await unwritten(store, project):
            raise CommandFailed(none, Exit.USAGE)
        ender = ClaimEnder(store, loaded.settings, SchemaSource(schema_config(loaded.settings)))
        try:
            inner = await ender.resolve_one(project, item(id), "ID")
        except ToolFailure as failure:
            if failure.code != "RESOURCE_NOT_FOUND":
                raise
            raise CommandFailed(failure.message) from None
        return inner, await ender.end_claim(project, NO_KEY, inner, by, why, failed=failed, fence=fence or 0)

    inner, ended = with_store(loaded, act)
    done, named = ended.outcome == "ended", dashed(inner)
    if json:
        holder = {"agent": ended.agent, "fenceToken": ended.fence} if ended.agent else {}
        print_json({"itemId": named, "outcome": ended.outcome, **holder})
    elif done:
        role = ROLE_NAMES[ended.role]
        print(f"{short(named)}  {printable(ended.agent)} holds it no more (fence {ended.fence}); its role is {role}")
    else:
        raise CommandFailed(f"{short(named)}: {_why(ended, fence)}")
    return Exit.OK if done else Exit.FAILED


def _why(ended: EndedClaim, fence: int | None) -> str:
    if ended.outcome == "stale_fence":
        return f"the claim with fence {fence} is over; {printable(ended.agent)} holds it now, with {ended.fence}"
    return {"not_claimed": "nobody holds it"}.get(ended.outcome, "there is no such item")
