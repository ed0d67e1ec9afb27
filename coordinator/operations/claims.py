"""Ends claims in place of their holders."""

from __future__ import annotations

from typing import Any

from coordinator.errors import ToolFailure
from coordinator.operations.log import Act, ActResult, record
from coordinator.operations.operator import Operator
from coordinator.toolsets.actor import attribution
from coordinator.toolsets.items import ROLE_NAMES, ClaimEnder, SchemaSource, dashed, schema_config


async def end_claim(by: Operator, project: str, item: str, *, fence: int = 0, failed: bool = False) -> ActResult:
    """The live claim on an item ends, and the item is offered to others.

    Args:
        item: its id, or the first digits.
        fence: only the claim with this fence; 0: any.
        failed: whether it counts as a failed attempt.

    Returns:
        With ``itemId``, ``outcome``, and ``agent`` and ``fenceToken`` of the last claim, if there was one; ``role`` of
        the item if it has ended.

    Raises:
        ToolFailure: the id is malformed, or that of no item or of several; and as ``Store.run`` says.
    """
    ender = ClaimEnder(by.store, by.settings, SchemaSource(schema_config(by.settings)))
    inner = await ender.resolve_one(project, item, "itemId")
    named, kind = dashed(inner), by.actor.echo.kind
    request = by.key("end_claim", named, fence, failed, by.reason)

    async def do() -> ActResult:
        who = attribution(by.actor)
        ended = await ender.end_claim(project, request, inner, who, by.reason, kind=kind, failed=failed, fence=fence)
        if ended.outcome == "not_found":
            raise ToolFailure("RESOURCE_NOT_FOUND", "itemId: no such item")
        facts: dict[str, Any] = {"itemId": named, "outcome": ended.outcome}
        facts |= {"agent": ended.agent, "fenceToken": ended.fence} if ended.agent else {}
        if ended.outcome == "ended":
            return ActResult("allowed", facts=facts | {"role": ROLE_NAMES[ended.role]})
        over = f"the claim with fence {fence} is over; {ended.agent} holds it now, with {ended.fence}"
        return ActResult("refused", over if ended.outcome == "stale_fence" else "no agent holds it (any more)", facts)

    return await record(by, Act("end_claim", "item", named, project), do)
