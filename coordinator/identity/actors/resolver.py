"""Verifies actors and applies the degraded-mode policy to the result (README.md, 'Policies').

Each process has one ``Actors``. Handlers know its ``resolve`` as ``Services.resolve_actor``: claims, ownership checks
and idempotency keys use the id that it returns, and no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import structlog
from msgspec import UNSET

from coordinator.errors import ToolFailure
from coordinator.identity.actors.policy import Trust, trust, worth_a_warning
from coordinator.identity.callers.bearers import EVERYTHING_BY_DEFAULT, caller_of, unreadable
from coordinator.identity.callers.grants import Denied
from coordinator.identity.keys.copies import KeyCopies
from coordinator.identity.metrics import POLICY, STATE, TRUST, VERIFICATIONS
from coordinator.identity.verifier import FailureKind, Outcome, Status, Verifier
from coordinator.identity.verifiers.build import build_verifier
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.service import Service, Tasks
from coordinator.settings import Settings
from coordinator.settings.sections.identity import ActorAuthentication, Policy, VerifierSettings
from coordinator.store import ServerError, Store
from coordinator.toolsets.actor import Actor, ActorEcho, Distrusted, Trusted, Verification, echo
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.slots import acts_as

BEAT_SECONDS = 5.0
"""How often the metrics about keys are refreshed."""
GRACE_SECONDS = 10.0
"""How long a replaced verifier still serves the calls that began with it."""

Build = Callable[[VerifierSettings, Store], Verifier]

_log = structlog.get_logger(__name__)


class Actors(Service):
    """Verifies actors as the settings say; ``configure`` replaces these.

    Args:
        store: where the fleet shares keys, time and events.
        build: makes a verifier from its settings.
    """

    def __init__(self, settings: ActorAuthentication, store: Store, build: Build = build_verifier) -> None:
        self._build = build
        self._store = store
        self._copies = KeyCopies(store)
        self._settings = settings
        self._policy = settings.policy
        self._verifier = build(settings.verifier, store)
        self._warn = ThrottledWarnings()
        self._tasks = Tasks()
        self._replaced: list[Verifier] = []
        self._show()

    async def start(self) -> None:
        """Starts the verifier (see ``Verifier.start``) and the background work."""
        await self._verifier.start()
        await self._tell_fleet()
        self._tasks.spawn(self._keep_showing(), "identity state")

    async def resolve(self, actor: Actor) -> Trusted:
        """The identity that counts, with the result of verifying the proof.

        Raises:
            Distrusted: ``rejected_by_policy``; the tool has not read anything from the store yet.
        """
        settings, policy = self._settings, self._policy
        verifier = self._verifier
        outcome = verifier.without_token if actor.proof is None else await verifier.verify(actor.proof)
        if (
            outcome.status == "verified"
            and settings.verifier.require_sub_match
            and not acts_as(actor.id, outcome.subject)
        ):
            outcome = _rejected(outcome, "'sub' of the token is not the actor's id")
        elif outcome.status == "verified" and (problem := unreadable(outcome.claims)):
            outcome = _rejected(outcome, problem)
        stale = outcome.stale_seconds is not None
        judged = _judge(policy, outcome.status, outcome.verifier, outcome.failure, stale)
        VERIFICATIONS.cells[judged.result,].value += 1.0
        TRUST.cells[policy, judged.trust].value += 1.0
        shown = judged.verification
        if stale or outcome.reason:
            shown = Verification(outcome.status, outcome.verifier, outcome.reason or None, outcome.metadata or UNSET)
        if judged.trust == "nobody":
            raise Distrusted(_refusal(policy, outcome), Trusted(actor.id, echo(actor), shown))
        if judged.warn:
            self._warn(
                outcome.status,
                "an actor is trusted although its proof did not verify",
                policy=policy,
                status=outcome.status,
                reason=outcome.reason,
            )
        by_proof = judged.trust == "proof"
        name = actor.id
        if by_proof and outcome.subject and not acts_as(name, outcome.subject):
            name = outcome.subject
        named = ActorEcho(name, actor.kind, actor.parent or UNSET)
        return Trusted(name, named, shown, _caller(outcome) if by_proof else None)

    def configure(self, fresh: Settings) -> None:
        settings = fresh.actor_authentication
        before, self._settings = self._settings, settings
        self._policy = settings.policy
        if settings.verifier != before.verifier:
            old, self._verifier = self._verifier, self._build(settings.verifier, self._store)
            self._replaced.append(old)
            self._tasks.spawn(self._verifier.start(), "verifier")
            self._tasks.spawn(self._retire(old), "verifier retired")
        if settings.policy != before.policy or settings.verifier.type != before.verifier.type:
            _log.warning(
                "degraded-mode policy changed",
                policy=settings.policy,
                verifier=settings.verifier.type,
                policy_before=before.policy,
                verifier_before=before.verifier.type,
            )
            self._tasks.spawn(self._tell_fleet(), "policy")
        self._show()

    def report(self) -> dict[str, Any]:
        """The policy and the state of the keys, for /readyz."""
        return {"verifier": self._verifier.name, "policy": self._policy, **self._verifier.report()}

    async def stop(self, deadline: float = 0.0) -> None:
        await self._tasks.stop()
        await asyncio.gather(self._verifier.aclose(), *(old.aclose() for old in self._replaced))

    def _show(self) -> None:
        POLICY.set_one(self._policy)
        STATE.set_one(self._verifier.report()["state"])

    async def _tell_fleet(self) -> None:
        try:
            await self._copies.policy(self._policy, self._settings.verifier.type)
        except (ToolFailure, ServerError):
            _log.warning("the degraded-mode policy could not be shared with the fleet")

    async def _retire(self, old: Verifier) -> None:
        await asyncio.sleep(GRACE_SECONDS)
        self._replaced.remove(old)
        await old.aclose()

    async def _keep_showing(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self._show()


class _Judged(NamedTuple):
    """What follows from the outcome of a verification under a policy."""

    result: str
    """Its name in metrics: ``verified``, ``verified_stale``, ``rejected_claims`` and so on."""
    trust: Trust
    warn: bool
    """Whether to warn the operator."""
    verification: Verification
    """How answers and records show it, if neither a reason nor metadata belong to it."""


@lru_cache(maxsize=256)
def _judge(policy: Policy, status: Status, verifier: str, failure: FailureKind | None, stale: bool) -> _Judged:
    result = "verified_stale" if stale else "_".join(filter(None, (status, failure)))
    return _Judged(result, trust(policy, status), worth_a_warning(policy, status), Verification(status, verifier, None))


def _caller(outcome: Outcome) -> Caller:
    """The roles and permissions that a verified proof states; one that states none permits everything."""
    try:
        return caller_of(outcome, EVERYTHING_BY_DEFAULT, proof=True)
    except Denied:
        return Caller(outcome.subject)


def _rejected(outcome: Outcome, reason: str) -> Outcome:
    return Outcome(status="rejected", verifier=outcome.verifier, reason=reason, failure="claims")


def _refusal(policy: Policy, outcome: Outcome) -> str:
    """A message with the policy, the status and the reason, and what would help."""
    found = {
        "absent": "it has no proof",
        "unchecked": "nothing verifies proofs here",
        "unavailable": f"its proof cannot be verified now: {outcome.reason}; try again later",
    }.get(outcome.status, outcome.reason)
    return f"the degraded-mode policy '{policy}' does not trust this actor ({outcome.status}): {found}"
