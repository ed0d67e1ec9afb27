"""Who makes a call: the agent whose items it is about."""

from __future__ import annotations

import re

from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets.actor import MAX_ID, Actor, ActorResolver, CallerActor, Trusted
from coordinator.toolsets.caller import Delegation
from coordinator.toolsets.slots import acts_as, slot_of
from coordinator.toolsets.tool import AGENT_HEADER, Call

_NAME = re.compile(rf"[!-~](?:[ -~]{{0,{MAX_ID - 2}}}[!-~])?")
_KIND = "subagent"


async def agent_of(call: Call, resolve: ActorResolver) -> Trusted:
    """The trusted agent of a call: that of the caller's credential, or a slot of it that the header names; where nobody
    is identified, whom the header names.

    Raises:
        ToolFailure: VALIDATION_ERROR: the header is missing or malformed; ``actor_mismatch``: it names another caller;
            ``rejected_by_policy``.
    """
    name, caller = call.agent, call.caller
    if name and not _NAME.fullmatch(name):
        raise invalid(AGENT_HEADER, f"must be 1 to {MAX_ID} printable ASCII characters, without blanks at the ends")
    if caller is not None and caller.claim is not None:
        if name not in ("", caller.id):
            raise ToolFailure(
                "actor_mismatch", f"{AGENT_HEADER}: this token is for the agent {caller.id!r}; leave it out"
            )
        return await resolve(CallerActor(caller.id, caller.kind))
    if caller is not None:
        return await resolve(CallerActor(slot_of(name, caller, AGENT_HEADER), caller.kind))
    if not name:
        raise invalid(
            AGENT_HEADER,
            "is required where no token identifies you: have your client send this header, with a name that is your "
            "agent's own (fleet stdio: --agent)",
        )
    return await resolve(Actor(name, _KIND))


def acts_for(call: Call, agent: str, holder: str) -> bool:
    """Whether an agent may report on an item that another one holds: it is a slot of this agent."""
    if call.caller is not None and call.caller.claim is not None:
        return False
    return acts_as(holder, agent) and (call.caller is None or holder not in call.caller.taken)


def claim_of(call: Call) -> Delegation | None:
    """The only claim that the call may be about; None: any of its agent."""
    return None if call.caller is None else call.caller.claim


def conflict(only: Delegation | None, held: bool) -> str:
    """How a refusal is counted (``count_conflict``); '': not at all.

    Args:
        only: the claim that the call was about; None: any of its agent.
        held: whether another agent holds the item.
    """
    if only is not None and only.older:
        return "stale_fence"
    return "not_holder" if held else ""
