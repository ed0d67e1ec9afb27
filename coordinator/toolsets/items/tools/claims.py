"""claim_item: exclusive ownership for one agent (README.md, 'Claims')."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType, to_builtins

from coordinator.errors import ToolFailure, invalid
from coordinator.metrics import recorder
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.store.idempotency import IdempotencyKey, idempotency_key
from coordinator.toolsets import deferral
from coordinator.toolsets.actor import Distrusted, Trusted, checked, given
from coordinator.toolsets.caller import DELEGATES, Delegation
from coordinator.toolsets.canonical import canonical
from coordinator.toolsets.deferral import Pending
from coordinator.toolsets.items.contract.attempts import REASONS
from coordinator.toolsets.items.contract.claims import (
    DELEGATED,
    ClaimEntry,
    ClaimItem,
    ClaimItemResult,
    ClaimResult,
    ClaimSummary,
    ReleaseEntry,
    ReleaseResult,
    Selector,
)
from coordinator.toolsets.items.live.expiring import Expiring
from coordinator.toolsets.items.live.polled_waits import PARKED, PolledWaits
from coordinator.toolsets.items.live.waiting import Parking
from coordinator.toolsets.items.rules import selection
from coordinator.toolsets.items.rules.graph import unsatisfied
from coordinator.toolsets.items.rules.ids import FULL, dashed, is_uuid, no_id, to_inner
from coordinator.toolsets.items.rules.included import wanted as wanted_parts
from coordinator.toolsets.items.rules.refusals import refused
from coordinator.toolsets.items.rules.resources import ResourceConfig, demands
from coordinator.toolsets.items.rules.resources import shown as shown_resources
from coordinator.toolsets.items.rules.roles import ROLE_NAMES, one_of
from coordinator.toolsets.items.rules.schema import SchemaConfig
from coordinator.toolsets.items.rules.usage import packed, spent_budget, why_exhausted
from coordinator.toolsets.items.rules.values import capabilities, not_blank, short_text
from coordinator.toolsets.items.store import tokens
from coordinator.toolsets.items.store.agents import Claimant, claimant
from coordinator.toolsets.items.store.claims import (
    Claimed,
    ClaimReply,
    ClaimStore,
    NamedReply,
    Release,
    Released,
    Waiting,
    Wanted,
)
from coordinator.toolsets.items.tools.included import add_to, rendered
from coordinator.toolsets.items.tools.shared import held_back, shown
from coordinator.toolsets.timestamp import iso
from coordinator.toolsets.tool import RESULT_CHARS, Call, Criticality, Services, Tool

MAX_ENTRIES = 100
MAX_REF = 64
MAX_DETAIL = 500

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
    "more; renewals say stop), budget_exhausted (a budget of the item, one above it, the agent or the project is "
    "spent; renewals say stop), superseded (a later entry of the same call was acquired), rejected_by_policy (the "
    "whole call fails). Outcomes of releases: success, not_claimed_by_you, not_found, stale_fence. Pass fenceToken "
    "in later calls: they are refused if the claim is lost."
)

_LOST = {
    "stale_fence": "fenceToken is not that of a claim you hold now",
    "superseded": "a later entry of this call was acquired instead: one claim per agent",
}

_COLLISIONS = {"already_claimed": "busy", "stale_fence": "stale_fence"}
"""Outcome of a claim -> how it is counted."""

_NEW, _RENEWAL = Criticality.NORMAL, Criticality.CRITICAL
"""Constants, because in Python 3.11 the lookup of an enum member takes a call."""


class _Named(Protocol):
    """An entry of claims or releases."""

    @property
    def item_id(self) -> str | None: ...


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
        self._metrics = recorder()
        self._warn = ThrottledWarnings()

    async def asked_again(self, call: Call, state: ClaimWait) -> ClaimItemResult | Pending:
        """What a claim has come to that has become a task."""
        return await self.claim_item(call, state.arguments)

    async def stop(self, call: Call, state: ClaimWait) -> ClaimWait:
        """Ends the wait of a claim that has become a task."""
        _, record, _ = await self._identified(state.arguments)
        await self._polled.leave(call.project, record)
        return state

    async def claim_item(self, call: Call, args: ClaimItem) -> ClaimItemResult | Pending:
        """Claims and releases items for the trusted actor."""
        selector = _check(args, self._store.schemas.current.resources)
        delegates = self._delegates(call, args)
        claims, releases = args.claims, args.releases
        who, record, include = await self._identified(args)
        agent, parts = who.id, include + (tokens.asked(record) if delegates else "")
        freed_items: list[Release] = []
        if releases:
            ids = await self._store.resolve(call.project, _ids(releases, "releases"))
            freed_items = list(map(_packed_release, ids, releases))
        if selector is not None:
            reply: ClaimReply = await self._by_selector(call, args, record, who, selector, freed_items, parts)
            if reply.claims[0].outcome == PARKED:
                return _pending(args, claims[0], agent, reply)
        else:
            ids = _ids(claims, "claims")
            if ids and min(map(len, ids)) < FULL:
                ids = await self._store.resolve(call.project, ids)
            wanted = list(map(_packed_claim, ids, claims))
            reply = await self._store.claim(call.project, record, who, wanted, freed_items, parts)
        claimed = [_claimed(entry, reply.claims[n], agent, reply.now) for n, entry in enumerate(claims)]
        if isinstance(reply, NamedReply) and reply.drained:
            _say_stop(claimed, reply.drained)
        if include:
            _add_included(claimed, reply.claims, include, self._store.schemas.current)
        if isinstance(reply, NamedReply) and reply.waiting:
            _say_why_it_waits(claimed, reply.waiting)
        if delegates:
            await self._add_token(call, args, claimed, reply, agent, tokens.number(record, reply.now))
        released = list(map(_released, releases, reply.releases))
        if not record.replayed:
            self._count(call.project, claimed, reply)
        won = freed = 0
        self._expect_ends(call.project, reply, releases)
        for result in claimed:
            won += result.outcome == "success"
        for freeing in released:
            freed += freeing.outcome == "success"
        return ClaimItemResult(
            claim_results=claimed,
            release_results=released,
            summary=ClaimSummary(
                claims_total=len(claimed),
                claims_succeeded=won,
                claims_failed=len(claimed) - won,
                releases_total=len(released),
                releases_succeeded=freed,
                releases_failed=len(released) - freed,
            ),
        )

    def _delegates(self, call: Call, args: ClaimItem) -> bool:
        """Whether the call asks for a token for its claim. Raises ToolFailure if it may not."""
        if not args.include or all(part.lower() != DELEGATED for part in args.include):
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

    async def _identified(self, args: ClaimItem) -> tuple[Claimant, IdempotencyKey, str]:
        """Who claims, under which request, and letters of what to add about claimed items. Raises as ``_trusted``."""
        claims = args.claims
        parts = [part for part in args.include if part.lower() != DELEGATED] if args.include else args.include
        include = wanted_parts(parts) if parts else ""
        able = None if args.capabilities is None else capabilities(args.capabilities, "capabilities")
        who = claimant(await self._trusted(args), able)
        for entry in claims:
            if entry.agent_id is not None and entry.agent_id != who.id:
                self._warn("agentId", "agentId of a claim is ignored: the trusted actor differs")
                break
        return who, idempotency_key(who.id, args.request_id, "claim_item", canonical(args)), include

    async def _trusted(self, args: ClaimItem) -> Trusted:
        """The actor of a call. Raises ToolFailure as ``resolve_actor``, with an outcome for each claim."""
        try:
            return await self._services.resolve_actor(checked(given(args.actor)))
        except Distrusted as distrusted:
            for _ in args.claims:
                self._metrics.claim(distrusted.code)
            distrusted.data = {"claimResults": [to_builtins(_distrusted(entry)) for entry in args.claims]}
            raise

    def _count(self, project: str, claimed: Sequence[ClaimResult], reply: ClaimReply) -> None:
        for result, claim in zip(claimed, reply.claims, strict=True):
            self._metrics.claim("renewed" if claim.renewed else result.outcome)
            if kind := "stale_fence" if claim.older else _COLLISIONS.get(result.outcome):
                self._metrics.claim_conflict(kind, project, result.item_id or "")
        for release in reply.releases:
            if release.older or release.outcome == "stale_fence":
                self._metrics.claim_conflict("stale_fence", project, dashed(release.item))

    def _expect_ends(self, project: str, reply: ClaimReply, releases: Sequence[ReleaseEntry]) -> None:
        """Notes when placed claims end, and that the back-off of a released item may have begun."""
        for claim in reply.claims:
            if claim.outcome == "success":
                self._expiring.expect(project, claim.expires)
        for release in releases:
            if release.reason is not None:
                self._expiring.expect(project, reply.now)

    async def _by_selector(
        self,
        call: Call,
        args: ClaimItem,
        record: IdempotencyKey,
        who: Claimant,
        selector: Selector,
        releases: Sequence[Release],
        include: str,
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
        used = packed(args.claims[0].usage, "usage")
        find = partial(
            self._store.claim_next, call.project, record, who, ttl_ms, wanted, releases, include=include, used=used
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
    """The tool."""
    handle = Claims(store, parking, services, expiring)
    return (
        Tool(
            "claim_item",
            _DESCRIPTION,
            ClaimItem,
            (ClaimItemResult,),
            handle.claim_item,
            deferral=deferral.Deferral(ClaimWait, handle.asked_again, handle.stop),
            waits=_waits,
            wait_ms=lambda args: args.wait_ms,
            parks=True,
            criticality=_weigh,
            result_chars=RESULT_CHARS,
        ),
    )


def _pending(args: ClaimItem, entry: ClaimEntry, agent: str, reply: ClaimReply) -> Pending:
    """A claim that waits on as a task."""
    none = msgspec.structs.replace(reply.claims[0], outcome="no_match")
    result = _claimed(entry, none, agent, reply.now)
    return Pending(
        state=ClaimWait(args),
        ttl_ms=deferral.DAY_MS,
        message="waits for an item",
        otherwise=ClaimItemResult(
            claim_results=[result],
            release_results=list(map(_released, args.releases, reply.releases)),
            summary=ClaimSummary(
                claims_total=1,
                claims_succeeded=0,
                claims_failed=1,
                releases_total=len(args.releases),
                releases_succeeded=0,
                releases_failed=0,
            ),
        ),
    )


def _waits(args: ClaimItem) -> bool:
    """Whether a call may take longer than the normal request deadline."""
    return args.wait_ms > 0


def _weigh(given: ClaimItem) -> Criticality:
    """A claim with a fenceToken is a renewal; one without may be for new work."""
    for entry in given.claims:
        if entry.fence_token is None:
            return _NEW
    return _RENEWAL


def _check(args: ClaimItem, known: ResourceConfig) -> Selector | None:
    """The selector of the call, if it has one.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    claims = args.claims
    if not claims and not args.releases:
        raise invalid("claims", "at least one of claims and releases must be non-empty")
    if len(claims) + len(args.releases) > MAX_ENTRIES:
        raise invalid("claims", f"at most {MAX_ENTRIES} claims and releases in one call")
    if not is_uuid(args.request_id):
        raise invalid("requestId", "must be a UUID")
    for number, entry in enumerate(claims):
        if bool(not_blank(entry.item_id)) == (entry.selector is not None):
            raise invalid(f"claims[{number}]", "give exactly one of itemId and selector")
        if entry.selector is not None and len(claims) > 1:
            raise invalid(f"claims[{number}].selector", "must be the only claim of the call: one claim per agent")
        if entry.selector is not None and entry.fence_token is not None:
            raise invalid(f"claims[{number}].fenceToken", "goes with itemId, not with a selector")
        _check_resources(entry, f"claims[{number}].resources", known)
        if entry.claim_ref is not None:
            short_text(entry.claim_ref, f"claims[{number}].claimRef", MAX_REF)
        packed(entry.usage, f"claims[{number}].usage")
    for number, release in enumerate(args.releases):
        _check_reason(release, f"releases[{number}]")
        packed(release.usage, f"releases[{number}].usage")
    selector = claims[0].selector if claims else None
    if args.wait_ms and selector is None:
        raise invalid("waitMs", "needs a claim by selector")
    return selector


def _check_reason(release: ReleaseEntry, place: str) -> None:
    if reason := not_blank(release.reason):
        one_of(reason, REASONS, f"{place}.reason")
    if detail := not_blank(release.detail):
        if not reason:
            raise invalid(f"{place}.detail", f"goes with a reason: {', '.join(REASONS)}")
        short_text(detail, f"{place}.detail", MAX_DETAIL)


def _check_resources(entry: ClaimEntry, place: str, known: ResourceConfig) -> None:
    if entry.resources and entry.selector is not None:
        raise invalid(place, "goes with itemId, not with a selector")
    if problem := known.problem(demands(entry.resources, place), place):
        raise problem


def _ids(entries: Sequence[_Named], field: str) -> Sequence[str]:
    """The item of each entry in the inner form: an id, or an unresolved prefix."""
    ids = [to_inner(entry.item_id or "") for entry in entries]
    if "" in ids:
        raise no_id(f"{field}[{ids.index('')}].itemId")
    return ids


def _packed_claim(item: str, entry: ClaimEntry) -> Wanted:
    """A claim for ``ClaimStore.claim``."""
    wanted = item, entry.ttl_seconds * 1000, entry.fence_token or 0
    further = demands(entry.resources) if entry.resources else None
    if entry.usage is not None:
        return (*wanted, further, packed(entry.usage, "usage"))
    return (*wanted, further) if further else wanted


def _packed_release(item: str, entry: ReleaseEntry) -> Release:
    """A release for ``ClaimStore.claim``."""
    release = item, entry.fence_token or 0, not_blank(entry.reason).lower(), not_blank(entry.detail)
    return release if entry.usage is None else (*release, packed(entry.usage, "usage"))


def _distrusted(entry: ClaimEntry) -> ClaimResult:
    """The outcome of a claim whose actor the policy does not trust."""
    return ClaimResult(
        item_id=UNSET if entry.item_id is None else entry.item_id,
        outcome="rejected_by_policy",
        claim_ref=UNSET if entry.claim_ref is None else entry.claim_ref,
    )


def _claimed(entry: ClaimEntry, result: Claimed, agent: str, now: int) -> ClaimResult:
    outcome = result.outcome
    by_selector = True if entry.selector is not None else UNSET
    ref = UNSET if entry.claim_ref is None else entry.claim_ref
    if outcome == "no_match":
        return ClaimResult(
            outcome=outcome,
            kind="transient",
            code=outcome,
            claim_ref=ref,
            retry_after_ms=result.expires,
            held_back=held_back(result.told or None),
        )
    if outcome == "budget_exhausted":
        return _exhausted(result, UNSET if by_selector else shown(result.item, entry.item_id or ""), ref)
    if outcome == "agent_draining" and by_selector:
        said = _drained_as(result.item)
        return ClaimResult(outcome=outcome, kind="permanent", code=outcome, claim_ref=ref, error=said)
    item = shown(result.item, entry.item_id or "")
    if outcome == "success":
        return ClaimResult(
            item_id=item,
            **_stop(result),
            outcome=outcome,
            selector_resolved=by_selector,
            claim_ref=ref,
            claimed_by=agent,
            claimed_at=iso(now),
            claim_expires_at=iso(result.expires),
            original_claimed_at=iso(result.first_claimed_at),
            fence_token=result.fence,
            role=ROLE_NAMES[result.role] if result.role >= 0 and (result.taken_over or by_selector) else UNSET,
            takeover=True if result.taken_over else UNSET,
        )
    if outcome == "resource_busy":
        return ClaimResult(
            item_id=item,
            outcome=outcome,
            claim_ref=ref,
            kind="transient",
            code=outcome,
            retry_after_ms=result.expires,
            resources=shown_resources((result.told or {}).get("resources", "")),
        )
    if outcome == "already_claimed":
        return ClaimResult(
            item_id=item,
            outcome=outcome,
            claim_ref=ref,
            kind="transient",
            contended_item_id=item,
            retry_after_ms=result.expires,
        )
    error = refused(outcome) if outcome == "ambiguous" else _LOST.get(outcome, UNSET)
    return ClaimResult(
        item_id=item, outcome="not_found" if outcome == "ambiguous" else outcome, claim_ref=ref, error=error
    )


def _exhausted(result: Claimed, item: str | UnsetType, ref: str | UnsetType) -> ClaimResult:
    """The outcome of a claim that a spent budget refused."""
    told = result.told or {}
    return ClaimResult(
        item_id=item,
        outcome=result.outcome,
        kind="transient" if told["day"] else "permanent",
        code=result.outcome,
        claim_ref=ref,
        budget=spent_budget(told),
        retry_after_ms=result.expires or UNSET,
        error=why_exhausted(told),
    )


def _stop(result: Claimed) -> dict[str, Any]:
    """What a renewal says of a spent budget."""
    if not result.told or "of" not in result.told:
        return {}
    why = why_exhausted(result.told)
    return {"stop": True, "stop_reason": why, "budget": spent_budget(result.told)}


def _add_included(claimed: list[ClaimResult], replies: list[Claimed], include: str, schemas: SchemaConfig) -> None:
    """Adds to the successful claim what was asked for about its item."""
    for result, reply in zip(claimed, replies, strict=True):
        if reply.included:
            add_to(result, rendered(reply.included, include, schemas))


def _drained_as(name: str) -> str:
    return f"an operator drains {name!r}: this agent gets no further items until that is ended"


def _say_stop(claimed: list[ClaimResult], name: str) -> None:
    """Tells a drained agent so, with each claim that it kept or was refused."""
    for result in claimed:
        if result.outcome == "agent_draining":
            result.kind, result.code, result.error = "permanent", result.outcome, _drained_as(name)
        elif result.outcome == "success":
            why = f"an operator drains {name!r}: finish or release this item, and claim no other"
            result.stop, result.reason = True, why
            result.stop_reason = f"{why}; {result.stop_reason}" if result.stop_reason else why


def _say_why_it_waits(claimed: list[ClaimResult], waiting: Waiting) -> None:
    """Adds to the successful claim that its item is not ready."""
    (result,) = (result for result in claimed if result.outcome == "success")
    result.ready = False
    result.blockers = unsatisfied(waiting.blockers)
    if not waiting.held_until:
        why = "it is quarantined, because attempts with it have failed: apply 'resume' first"
    elif ROLE_NAMES[waiting.role] == "blocked":
        why = "it is in role blocked: apply 'resume' first"
    elif waiting.template:
        why = "it is a template, which is never offered: its occurrences are"
    elif waiting.count:
        why = f"{waiting.count} blocking dependencies are not satisfied"
    elif waiting.not_before:
        why = f"it is not ready before {iso(waiting.held_until)}: until then it is offered to nobody"
    else:
        why = f"an attempt on it has failed: it is offered to others again at {iso(waiting.held_until)}"
    result.reason = f"{result.reason}; {why}" if result.reason else why


def _released(entry: ReleaseEntry, result: Released) -> ReleaseResult:
    outcome, item = result.outcome, shown(result.item, entry.item_id)
    if outcome == "ambiguous":
        return ReleaseResult(item_id=item, outcome="not_found", error=refused(outcome))
    return ReleaseResult(item_id=item, outcome=outcome, error=_LOST.get(outcome, UNSET))
