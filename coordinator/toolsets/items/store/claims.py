"""claim_item: claims, and the calls that wait for one."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from hashlib import blake2b
from time import perf_counter
from typing import Any, NamedTuple

import msgspec

from coordinator.store import Script, ScriptFailure, keys
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.items.rules.ids import no_such_item
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.rules.transitions import Advanced
from coordinator.toolsets.items.rules.usage.budgets import Used
from coordinator.toolsets.items.store.agents.presence import Claimant
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE, pack, unfinished
from coordinator.toolsets.items.store.included import Included
from coordinator.toolsets.items.store.recurring import DueTemplate, RecurringStore
from coordinator.toolsets.metrics import RESTARTS_OF_OPERATIONS

Wanted = tuple[str, int, int] | tuple[str, int, int, str] | tuple[str, int, int, str | None, Used | bool]
"""An item to claim: its id, TTL in ms, fence or 0, further resources, and what was used."""
Release = (
    tuple[str, int, str, str]
    | tuple[str, int, str, str, Used | bool]
    | tuple[str, int, str, str, Used | bool, Sequence[object] | bool, str]
)
"""A claim to release: the item's id, fence or 0, reason and detail or '', what was used; and of an item that is done
its result, as ``rules.results`` has it, whether review may get that, and a summary."""


class Act(NamedTuple):
    """Who starts or ends items with a claim."""

    author: tuple[str, str]
    """The actor and how it was verified, as transitions have them."""
    start: bool
    """Whether the claimed item is started."""


class Waiting(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Why a claimed item is not ready."""

    whys: list[tuple[str, int | str]]
    """Each with its detail (``rules.selection.why_not_offered``)."""
    blockers: list[tuple[str, int, int]]
    """Some unsatisfied blockers: id, role, role that they must reach."""


class Further(msgspec.Struct, frozen=True, gc=False):
    """What is told of few claims."""

    role: int = -1
    """Of a new claim by a selector, or of an abandoned item: the item's role."""
    takeover: bool = False
    """Whether the item was abandoned."""
    start: Advanced | None = None
    """What came of its start."""
    older: bool = False
    """Whether the claim was refused to a caller that has shown an older fence."""
    included: Included | None = None
    """Of a success, what was asked for."""
    waiting: Waiting | None = None
    """Of a success: why the item is not ready."""
    drained: str = ""
    """The name under which the agent is drained."""
    paused: tuple[int, str, str] | None = None
    """For ``project_paused``: since when (ms), by whom and why."""
    budget: dict[str, Any] | None = None
    """Which budget is spent (``rules.usage.spent_budget``): for ``budget_exhausted``, and of a renewal."""
    resources: str = ""
    """For ``resource_busy``: what is not free."""
    held_back: dict[str, int] | None = None
    """For ``no_match``: how many items that match are held back, by why they are."""


NOTHING = Further()


class Claimed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The outcome of one claim; times in ms."""

    outcome: str
    """``success``, ``held``: a renewal of what the agent has, or why not; of a search also ``parked``, ``more``: it
    goes on with the cursor ``item``, at the beginning if that is '', and ``again``: the second search is to begin."""
    item: str
    expires: int
    """When the claim expires; for ``already_claimed``: in how many ms the other agent's claim expires; for
    ``no_match``, ``resource_busy`` and ``project_paused``: after how many ms to retry; for ``parked``: after how many
    to search again without being woken, 0: never."""
    first_claimed_at: int
    fence: int
    further: Further = NOTHING


class Released(msgspec.Struct, array_like=True, frozen=True, gc=False):
    outcome: str
    item: str
    older: bool | None = None
    """Whether the caller has shown an older fence."""
    moved: Advanced | None = None
    """What came of the end of an item that is done."""
    trigger: str = ""
    """Of that."""


class ClaimReply(msgspec.Struct, array_like=True):
    """What became of the claims and releases of a call."""

    now: int
    claims: list[Claimed]
    releases: list[Released]
    holders: str = ""
    """If a parked call got an item: the processes whose callers may get it (``lua/parked/handover.lua``)."""


class Swept(NamedTuple):
    """The state of a project's claims after a sweep; times in ms."""

    next_end: int
    """When the next claim or back-off ends; 0: there is none."""
    now: int
    published: int
    """How many messages were published to the process in this project, in a cluster; -1: it was not registered, so
    that its parked calls may have been dropped."""
    drained: int
    """When the last drain of agents in force began."""
    templates: list[DueTemplate]


_CLAIM = Script(LIBRARY, "claim_item", ClaimReply, rest=SETTLE)
_CLAIM_NEXT = Script(LIBRARY, "claim_next", ClaimReply, rest=SETTLE)
_END_WAIT = Script(LIBRARY, "end_wait", ClaimReply, rest=SETTLE)
_LEAVE_WAIT = Script(LIBRARY, "leave_wait", rest=SETTLE)
_SWEEP = Script(LIBRARY, "sweep_claims", Swept, rest=SETTLE)


class ClaimStore(RecurringStore):
    """Claims of any project."""

    def claim(
        self,
        project: str,
        request: IdempotencyKey,
        agent: Claimant,
        claims: Sequence[Wanted],
        releases: Sequence[Release],
        include: str = "",
        act: Act | None = None,
    ) -> Coroutine[Any, Any, ClaimReply]:
        """Claims and releases items for one agent, atomically.

        Args:
            include: letters of what to add about the claimed item.
            act: for a call that starts or ends items, too.
        """
        wanted, let_go = pack(claims) if claims else "", pack(releases) if releases else ""
        if act is None:
            return self._change(_CLAIM, project, request, *agent, wanted, let_go, include, "")
        return self._act(_CLAIM, project, request, act, *agent, wanted, let_go, include)

    async def _act(
        self, script: Script[ClaimReply], project: str, request: IdempotencyKey, act: Act, *args: str | bytes | int
    ) -> ClaimReply:
        """As ``_change``, for scripts whose last argument is ``author`` of ``lua/claims/starting.lua``."""
        config = self.schemas.current
        words = *args, pack((*act.author, config.version, config.packed_labels.decode(), act.start))
        try:
            return await self._change(script, project, request, *words)
        except ScriptFailure as failure:
            await self._install(project, config, failure)
        return await self._change(script, project, request, *words)

    async def claim_next(
        self,
        project: str,
        request: IdempotencyKey,
        agent: Claimant,
        ttl_ms: int,
        selector: Selector,
        releases: Sequence[Release],
        wait_ms: int = 0,
        only: bool = True,
        process: str = "",
        include: str = "",
        used: Used | bool = False,
        act: Act | None = None,
    ) -> ClaimReply:
        """Finds and claims the best item; the outcome is ``success``, ``no_match`` or, with ``wait_ms``, ``parked``.

        Args:
            only: for a waiting call: whether ``process`` has no other call with the request.
            include: letters of what to add about the claimed item.
            used: what was used for it.
            act: for a call that starts or ends items, too.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND for the selector's parent or ancestor; ``deadline_exceeded`` if a search
                without ``wait_ms`` takes too long.
        """
        packed, let_go, after, again = pack(selector), pack(releases) if releases else "", "", 0
        spent = pack(used) if used else ""
        late = perf_counter() + self.seconds
        queue = blake2b(packed, digest_size=8).hexdigest()
        wanted = *agent, ttl_ms, packed, queue, let_go, wait_ms, process, int(only)
        while True:
            try:
                words = *wanted, after, again, include, spent
                if act is None:
                    reply = await self._change(_CLAIM_NEXT, project, request, *words, "")
                else:
                    reply = await self._act(_CLAIM_NEXT, project, request, act, *words)
            except ScriptFailure as failure:
                if failure.code != "NOT_FOUND":
                    raise
                raise no_such_item(f"claims[0].selector.{failure.detail}Id") from None
            found = reply.claims[0]
            if found.outcome not in ("more", "again"):
                return reply
            after = found.item  # the cursor for the next run
            if found.outcome == "again":
                again = 1
            elif not after:  # claims have expired, and their items may be better: start over
                RESTARTS_OF_OPERATIONS.labels("claim_item").inc()
            if not wait_ms and perf_counter() > late:
                raise unfinished("claims[0].selector: ", "nothing was claimed; ", "give waitMs, or ")

    async def end_wait(self, project: str, request: IdempotencyKey, process: str, keep: bool) -> ClaimReply:
        """Ends a claim parked by ``process``; with ``keep``, records that nothing was found."""
        return await self._change(_END_WAIT, project, request, int(keep), process)

    async def waits(self, project: str, request: IdempotencyKey) -> bool:
        """Whether a claim is parked, or was answered lately."""
        places = keys.waiter.key(project, request.key), keys.request.key(project, request.key)
        return bool(await self._store.command("EXISTS", *places))

    async def leave_wait(self, project: str, request: IdempotencyKey, process: str) -> None:
        """Ends a claim parked by ``process`` whose client has hung up; gives an item that it was handed back."""
        await self._change(_LEAVE_WAIT, project, request, process)

    async def sweep(self, project: str, process: str, alive_ms: int) -> Swept:
        """Puts back what has ended by time, makes due occurrences, serves parked calls; notes ``process`` as alive."""
        counted = "1" if self._store.sharded else ""
        swept = await self._store.run(_SWEEP, project, *self._terms(project), process, alive_ms, counted)
        if swept.templates:
            await self.make(project, swept.now, swept.templates)
        return swept
