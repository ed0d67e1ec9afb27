"""claim_item: exclusive ownership for one agent (README.md, 'Claims').

``check`` refuses what a call must not ask for, ``pack`` makes the words of the scripts, and ``tell`` says what their
replies mean. This module joins them, and lets calls wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import UNSET, to_builtins

from coordinator.errors import ToolFailure
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.store.idempotency import IdempotencyKey, idempotency_key
from coordinator.toolsets import deferral
from coordinator.toolsets.actor import Distrusted, attribution, checked, no_actor
from coordinator.toolsets.caller import DELEGATES, Delegation
from coordinator.toolsets.canonical import canonical
from coordinator.toolsets.deferral import Pending
from coordinator.toolsets.items.contract.claims import (
    DELEGATED,
    ClaimItem,
    ClaimItemResult,
    ClaimResult,
    ReleaseEntry,
    Selector,
)
from coordinator.toolsets.items.live.expiring import Expiring
from coordinator.toolsets.items.live.polled_waits import PARKED, PolledWaits
from coordinator.toolsets.items.live.waiting import Parking
from coordinator.toolsets.items.metrics.claims import CLAIMS
from coordinator.toolsets.items.rules import selection
from coordinator.toolsets.items.rules.ids import FULL, dashed
from coordinator.toolsets.items.rules.schema import SchemaConfig
from coordinator.toolsets.items.rules.usage.budgets import packed
from coordinator.toolsets.items.rules.values import capabilities, not_blank
from coordinator.toolsets.items.store.agents import tokens
from coordinator.toolsets.items.store.agents.presence import Claimant, claimant
from coordinator.toolsets.items.store.claims import Act, ClaimReply, ClaimStore, Release, Released
from coordinator.toolsets.items.tools.claims import pack, tell
from coordinator.toolsets.items.tools.claims.check import check, moves
from coordinator.toolsets.metrics import count_conflict
from coordinator.toolsets.tool import RESULT_CHARS, Call, Criticality, Deferral, Services, Tool

_DESCRIPTION = (
    "Atomically claim or release work items for exclusive ownership. One claim per agent: claiming an item releases "
    "the agent's earlier one after the new one is acquired. Claims expire after ttlSeconds; claiming "
    "an item that you already hold renews the claim (do so at half of its time). A claim has either itemId or a "
    "selector, for which the best matching item is found and claimed in one step; with waitMs the call waits for "
    "one, in order of arrival. Without a role, these are ready items in queue and abandoned ones (in work or review, "
    "their agent's claim has ended), by priority, abandoned first: takeover is true then. Call advance_item start "
    "next, do the work (include adds what you need to the answer), and complete it: after a takeover, the first "
    "start leaves the item in its role. Items below one held by somebody else are left out, unless parentId or "
    "ancestorId names that item or one below it. Outcomes of claims: success, already_claimed (with retryAfterMs), "
    "resource_busy (what the item demands is not free), not_found, terminal_item, stale_fence, no_match (nothing "
    "suitable is ready, no failure: ask again with a new requestId after retryAfterMs), agent_draining (claim no "
    "more; renewals say stop), project_paused (an operator lets nobody claim), budget_exhausted (a budget of the "
    "item, one above it, the agent or the project is spent; renewals say stop), superseded (a later entry of the "
    "same call was acquired), rejected_by_policy (the whole call fails). Outcomes of releases: success, "
    "not_claimed_by_you, not_found, stale_fence. Pass fenceToken in later calls: they are refused if the claim is "
    "lost."
)

_COLLISIONS = {"already_claimed": "busy", "stale_fence": "stale_fence"}
"""Outcome of a claim -> how it is counted."""

_NEW, _RENEWAL = Criticality.NORMAL, Criticality.CRITICAL
"""Constants, because in Python 3.11 the lookup of an enum member takes a call."""


class ClaimWait(msgspec.Struct, array_like=True, frozen=True):
    """What a claim that has become a task consists of."""

    arguments: ClaimItem


class Claims:
    """Handler of the tool that claims and releases items."""

    def __init__(self, store: ClaimStore, parking: Parking, services: Services, expiring: Expiring) -> None:
        self._store = store
        self._expiring = expiring
        self._parking = parking
        self._polled = PolledWaits(store, parking)
        self._services = services
        self._longest_ms = services.settings.longest_wait_ms
        self._warn = ThrottledWarnings()

    async def asked_again(self, call: Call, state: ClaimWait) -> ClaimItemResult | Pending:
        """What a claim has come to that has become a task."""
        return await self.claim_item(call, state.arguments)

    async def stop(self, call: Call, state: ClaimWait) -> ClaimWait:
        """Ends the wait of a claim that has become a task."""
        _, _, record = await self._identified(state.arguments)
        await self._polled.leave(call.project, record)
        return state

    async def claim_item(self, call: Call, args: ClaimItem) -> ClaimItemResult | Pending:
        """Claims and releases items for the trusted actor."""
        selector = check(args, self._store.schemas)
        claims, releases = args.claims, args.releases
        include, delegates = "", False
        if args.include:
            delegates = self._delegates(call, args.include)
            include = pack.parts(args.include)
        who, act, record = await self._identified(args)
        parts = include + tokens.asked(record) if delegates else include
        freed: list[Release] = []
        if releases:
            ids = await self._store.resolve(call.project, pack.ids(releases, "releases"))
            freed = list(map(pack.release, ids, releases))
        if selector is not None:
            reply = await self._by_selector(call, args, record, who, selector, freed, parts, act)
            if reply.claims[0].outcome == PARKED:
                return _pending(args, who.id, reply, self._store.schemas.current)
        else:
            ids = pack.ids(claims, "claims")
            if ids and min(map(len, ids)) < FULL:
                ids = await self._store.resolve(call.project, ids)
            wanted = list(map(pack.claim, ids, claims))
            reply = await self._store.claim(call.project, record, who, wanted, freed, parts, act)
        if len(reply.releases) < len(freed):  # nobody has asked about the wait for so long that it is forgotten
            reply.releases = [Released("not_claimed_by_you", entry[0]) for entry in freed]
        results = [tell.claim(entry, reply.claims[n], who.id, reply.now) for n, entry in enumerate(claims)]
        if include:
            tell.add_included(results, reply, include, self._store.schemas.current)
        if delegates:
            await self._add_token(call, args, results, reply, who.id, tokens.number(record, reply.now))
        if act is not None:
            tell.add_started(results, reply, self._store.schemas.current)
        self._note(call.project, reply, results, releases, record.replayed)
        return tell.whole(results, tell.releases(releases, reply.releases, self._store.schemas.current))

    def _delegates(self, call: Call, include: Sequence[str]) -> bool:
        """Whether the call asks for a token for its claim. Raises ToolFailure if it may not."""
        if all(part.lower() != DELEGATED for part in include):
            return False
        if call.caller is None or self._services.delegate is None:
            said = "include: 'token' is for callers that a bearer token identifies, over HTTP; without, leave it out"
            raise ToolFailure("permission_denied", said)
        if DELEGATES.isdisjoint(call.caller.permissions):
            raise ToolFailure("permission_denied", "include: 'token' needs the permission 'items.delegate'")
        return True

    async def _add_token(
        self, call: Call, args: ClaimItem, claimed: Sequence[ClaimResult], reply: ClaimReply, agent: str, number: str
    ) -> None:
        """Adds a token for it to the successful claim."""
        for entry, result, placed in zip(args.claims, claimed, reply.claims, strict=True):
            if result.outcome == "success" and call.caller is not None and self._services.delegate is not None:
                claim = Delegation(call.project, placed.item, placed.fence, entry.ttl_seconds * 1000)
                result.token = await self._services.delegate(call.caller, agent, claim, number)

    async def _identified(self, args: ClaimItem) -> tuple[Claimant, Act | None, IdempotencyKey]:
        """Who claims, what else that does, and under which request.

        Raises:
            ToolFailure: as ``resolve_actor``, with an outcome for each claim; VALIDATION_ERROR.
        """
        able = None if args.capabilities is None else capabilities(args.capabilities, "capabilities")
        if args.actor is UNSET:
            raise no_actor()
        try:
            trusted = await self._services.resolve_actor(checked(args.actor))
        except Distrusted as distrusted:
            for _ in args.claims:
                CLAIMS.labels(distrusted.code).inc()
            distrusted.data = {"claimResults": [to_builtins(tell.distrusted(entry)) for entry in args.claims]}
            raise
        who = claimant(trusted, able)
        for entry in args.claims:
            if entry.agent_id is not None and entry.agent_id != who.id:
                self._warn("agentId", "agentId of a claim is ignored: the trusted actor differs")
                break
        record = idempotency_key(who.id, args.request_id, "claim_item", canonical(args))
        if not (args.start or (args.releases and any(map(moves, args.releases)))):
            return who, None, record
        by = attribution(trusted)
        return who, Act((by.actor, by.verification), args.start), record

    def _note(
        self,
        project: str,
        reply: ClaimReply,
        results: Sequence[ClaimResult],
        releases: Sequence[ReleaseEntry],
        replayed: bool,
    ) -> None:
        """Notes when claims end, and that the back-off of a released item may have begun; counts what is no replay."""
        for result, claim in zip(results, reply.claims, strict=True):
            if result.outcome == "success":
                self._expiring.expect(project, claim.expires)
            if replayed:
                continue
            CLAIMS.cells["renewed" if claim.outcome == "held" else result.outcome,].value += 1.0
            if kind := "stale_fence" if claim.further.older else _COLLISIONS.get(result.outcome):
                count_conflict(kind, project, result.item_id or "")
        for entry, release in zip(releases, reply.releases, strict=True):
            if entry.reason is not None:
                self._expiring.expect(project, reply.now)
            if not replayed and (release.older or release.outcome == "stale_fence"):
                count_conflict("stale_fence", project, dashed(release.item))

    async def _by_selector(
        self,
        call: Call,
        args: ClaimItem,
        record: IdempotencyKey,
        who: Claimant,
        selector: Selector,
        releases: Sequence[Release],
        include: str,
        act: Act | None,
    ) -> ClaimReply:
        """Claims the best match of a selector, and waits for one if requested."""
        place = "claims[0].selector."
        parent = ancestor = ""
        if above := not_blank(selector.parent_id):
            parent = await self._store.resolve_one(call.project, above, f"{place}parentId", record)
        if above := not_blank(selector.ancestor_id):
            ancestor = await self._store.resolve_one(call.project, above, f"{place}ancestorId", record)
        wanted = selection.selector(selector, parent, ancestor, place, offered=True)
        ttl_ms = args.claims[0].ttl_seconds * 1000
        used = False if args.claims[0].usage is None else packed(args.claims[0].usage, "usage")
        find = partial(
            self._store.claim_next,
            call.project,
            record,
            who,
            ttl_ms,
            wanted,
            releases,
            include=include,
            used=used,
            act=act,
        )
        if not args.wait_ms:
            return await find()
        if call.elapsed_ms is not None:
            return await self._polled.go_on(call, record, find, args.wait_ms)
        grace_ms = int(deferral.GRACE_SECONDS * 1000)
        if call.can_defer and args.wait_ms > grace_ms and deferral.fits(ClaimWait(args)):
            return await self._polled.begin(call, record, find, grace_ms)
        park = partial(find, process=self._parking.process)
        return await self._parking.claim(call, record, park, min(args.wait_ms, self._longest_ms))


def tools(store: ClaimStore, parking: Parking, services: Services, expiring: Expiring) -> tuple[Tool, ...]:
    handle = Claims(store, parking, services, expiring)
    return (
        Tool(
            "claim_item",
            _DESCRIPTION,
            ClaimItem,
            (ClaimItemResult,),
            handle.claim_item,
            deferral=Deferral(ClaimWait, handle.asked_again, handle.stop),
            waits=lambda args: args.wait_ms > 0,
            wait_ms=lambda args: args.wait_ms,
            parks=True,
            criticality=_weigh,
            result_chars=RESULT_CHARS,
        ),
    )


def _pending(args: ClaimItem, agent: str, reply: ClaimReply, schemas: SchemaConfig) -> Pending:
    """A claim that waits on as a task."""
    none = msgspec.structs.replace(reply.claims[0], outcome="no_match")
    return Pending(
        state=ClaimWait(args),
        ttl_ms=deferral.DAY_MS,
        message="waits for an item",
        otherwise=tell.whole(
            [tell.claim(args.claims[0], none, agent, reply.now)],
            tell.releases(args.releases, reply.releases, schemas),
        ),
    )


def _weigh(given: ClaimItem) -> Criticality:
    """A claim with a fenceToken is a renewal; one without may be for new work, if the call ends none."""
    if given.releases:
        return _RENEWAL
    for entry in given.claims:
        if entry.fence_token is None:
            return _NEW
    return _RENEWAL
