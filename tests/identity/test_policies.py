"""The degraded-mode policies as a full table: policy, status of the proof, and the identity that counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from coordinator.errors import ToolFailure
from coordinator.identity.actors.policy import trust
from coordinator.identity.actors.resolver import Actors
from coordinator.identity.verifier import Outcome
from coordinator.settings import Settings
from coordinator.settings.sections.identity import POLICIES, ActorAuthentication, Policy, VerifierSettings
from coordinator.store import Store
from coordinator.toolsets.actor import Actor, Distrusted, attributed
from tests.items.client import Client, Json, actor, fresh_id
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

PROOF = "a.proof.of-something"


def outcome(status: str, **more: Any) -> Outcome:
    return msgspec.convert({"status": status, "verifier": "jwks", **more}, Outcome)


OUTCOMES: dict[str, Outcome] = {
    "verified": outcome("verified", subject="agent"),
    "verified stale": outcome("verified", subject="agent", stale_seconds=400),
    "absent": outcome("absent"),
    "unchecked": msgspec.structs.replace(outcome("unchecked"), verifier="noop"),
    "rejected crypto": outcome("rejected", failure="crypto", reason="the signature of the token is wrong"),
    "rejected claims": outcome("rejected", failure="claims", reason="the token has expired ('exp')"),
    "rejected policy": outcome("rejected", failure="policy", reason="the issuer is not one of those"),
    "rejected internal": outcome("rejected", failure="internal", reason="a defect of the coordinator"),
    "unavailable": outcome("unavailable", failure="network", reason="the key server hangs"),
    # 'sub' names another actor.
    "other's": outcome("verified", subject="somebody-else"),
    "nobody's": outcome("verified"),
}
VERIFICATIONS: dict[str, Json] = {
    "verified": {"status": "verified", "verifier": "jwks", "reason": None},
    "verified stale": {
        "status": "verified",
        "verifier": "jwks",
        "reason": None,
        "metadata": {"verifiedFromCache": "true", "cacheAgeSeconds": "400"},
    },
    "absent": {"status": "absent", "verifier": "jwks", "reason": None},
    "unchecked": {"status": "unchecked", "verifier": "noop", "reason": None},
    "unavailable": {
        "status": "unavailable",
        "verifier": "jwks",
        "reason": "the key server hangs",
        "metadata": {"failureKind": "network"},
    },
    "other's": {
        "status": "rejected",
        "verifier": "jwks",
        "reason": "'sub' of the token is not the actor's id",
        "metadata": {"failureKind": "claims"},
    },
}
VERIFICATIONS["nobody's"] = VERIFICATIONS["other's"]
TRUSTED_BY_REJECT = {"verified", "verified stale"}

every_policy = pytest.mark.parametrize("policy", POLICIES)
every_outcome = pytest.mark.parametrize("found", OUTCOMES)


class Saying:
    """A verifier with the same outcome for every token."""

    name = "jwks"

    def __init__(self, says: Outcome) -> None:
        self.says = self.without_token = says

    async def start(self) -> None: ...

    async def verify(self, token: str | None) -> Outcome:
        return self.says

    def report(self) -> dict[str, Any]:
        return {"state": "ok"}

    async def aclose(self) -> None: ...


def saying(found: str, policy: Policy, store: Store, **more: Any) -> Actors:
    section = ActorAuthentication(degraded_mode_policy=policy, verifier=VerifierSettings(**more))
    return Actors(section, store, lambda settings, store: Saying(OUTCOMES[found]))


@pytest.fixture
async def actors() -> AsyncIterator[list[Actors]]:
    made: list[Actors] = []
    yield made
    for one in made:
        await one.stop()


def trusts(policy: Policy, found: str) -> bool:
    return policy != "reject" or found in TRUSTED_BY_REJECT


@every_policy
@every_outcome
async def test_which_identity_counts(store: Store, policy: Policy, found: str) -> None:
    resolve = saying(found, policy, store).resolve
    who = Actor("agent", "subagent", "boss", PROOF)
    if trusts(policy, found):
        trusted = await resolve(who)
        assert trusted.id == "agent"
    else:
        with pytest.raises(Distrusted) as caught:
            await resolve(who)
        failure = caught.value
        assert (failure.code, failure.kind) == ("rejected_by_policy", "permanent")
        status = VERIFICATIONS.get(found, {"status": "rejected"})["status"]
        assert f"'reject' does not trust this actor ({status})" in failure.message
        assert PROOF not in failure.message
        trusted = failure.claim
    shown = msgspec.to_builtins(trusted)
    assert shown["echo"] == {"id": "agent", "kind": "subagent", "parent": "boss"}
    if found in VERIFICATIONS:
        assert shown["verification"] == VERIFICATIONS[found]
    else:
        assert shown["verification"]["metadata"] == {"failureKind": found.split()[1]}
    assert await attributed(resolve, who) == trusted
    # Roles and permissions come from a trusted proof only.
    assert (trusted.caller is not None) is (policy != "accept-self-reported" and found in TRUSTED_BY_REJECT)


@every_policy
@pytest.mark.parametrize(
    ("found", "proven"), [("verified", "agent"), ("other's", "somebody-else"), ("nobody's", "claimed")]
)
async def test_without_require_sub_match_the_subject_counts(
    store: Store, policy: Policy, found: str, proven: str
) -> None:
    resolve = saying(found, policy, store, require_sub_match=False).resolve
    trusted = await resolve(Actor("claimed", "user"))
    # accept-self-reported trusts the actor here too.
    counts = "claimed" if policy == "accept-self-reported" else proven
    assert (trusted.id, trusted.echo.id, trusted.verification.status) == (counts, counts, "verified")


@every_policy
@pytest.mark.parametrize("strict", [True, False])
async def test_a_proof_is_good_for_the_slots_of_its_subject(store: Store, policy: Policy, strict: bool) -> None:
    resolve = saying("verified", policy, store, require_sub_match=strict).resolve
    for name in ("agent/1", "agent/slot.b"):
        trusted = await resolve(Actor(name, "user"))
        assert (trusted.id, trusted.echo.id, trusted.verification.status) == (name, name, "verified")
        proven = trusted.caller.id if trusted.caller else None
        assert proven == (None if policy == "accept-self-reported" else "agent")
    for name in ("agent/", "agent/a/b", "agent/a b", "agents/1", "other/agent"):
        if strict and policy == "reject":
            with pytest.raises(Distrusted):
                await resolve(Actor(name, "user"))
            continue
        trusted = await resolve(Actor(name, "user"))
        expected = name if strict or policy == "accept-self-reported" else "agent"
        assert (trusted.id, trusted.verification.status) == (expected, "rejected" if strict else "verified")


async def test_a_proof_without_a_subject_has_no_slots(store: Store) -> None:
    with pytest.raises(Distrusted):
        await saying("nobody's", "reject", store).resolve(Actor("/1", "user"))


@every_policy
@every_outcome
async def test_claims(store: Store, project: str, policy: Policy, found: str) -> None:
    tools = Client(store, project, resolve_actor=saying(found, policy, store).resolve)
    item, held = await tools.add("wanted"), await tools.add("held")
    await Client(store, project).claim("agent", held)
    arguments: Json = {
        "actor": actor("agent", proof=PROOF),
        "requestId": fresh_id(),
        "claims": [{"itemId": item, "agentId": "somebody-else"}],
        "releases": [{"itemId": held}],
    }
    result = await tools.attempt("claim_item", **arguments)
    context = await tools("get_context", itemId=item)
    if trusts(policy, found):
        assert isinstance(result, dict)
        assert (result["claimResults"][0]["outcome"], result["claimResults"][0]["claimedBy"]) == ("success", "agent")
        assert context["claimDetail"]["claimedBy"] == "agent"
    else:
        assert isinstance(result, ToolFailure)
        assert result.code == "rejected_by_policy"
        assert result.body()["claimResults"] == [{"itemId": item, "outcome": "rejected_by_policy"}]
        assert "claimDetail" not in context
        # The whole call: releases were not executed either, and no reply is recorded.
        assert (await tools("get_context", itemId=held))["claimDetail"]["claimedBy"] == "agent"
        ours = Client(store, project)
        retried = await ours("claim_item", **arguments)
        assert retried["claimResults"][0]["outcome"] == "success"


@every_policy
@every_outcome
@pytest.mark.parametrize("claimed", [True, False])
async def test_transitions(store: Store, project: str, policy: Policy, found: str, claimed: bool) -> None:
    tools = Client(store, project, resolve_actor=saying(found, policy, store).resolve)
    item = await tools.add()
    if claimed:
        await Client(store, project).claim("agent", item)
    transition = {"itemId": item, "trigger": "start", "actor": actor("agent", proof=PROOF)}
    result = (await tools("advance_item", transitions=[transition]))["results"][0]
    if trusts(policy, found):
        assert result["applied"]
        assert result["actor"] == {"id": "agent", "kind": "subagent"}
        assert result["verification"]["status"] == VERIFICATIONS.get(found, {"status": "rejected"})["status"]
    else:
        assert result.pop("error")
        assert result == {
            "itemId": item,
            "trigger": "start",
            "applied": False,
            "errorKind": "permanent",
            "errorCode": "rejected_by_policy",
        }
        assert (await tools.get(item))["role"] == "queue"


@every_policy
async def test_calls_without_an_actor_may_use_tools_that_need_none(store: Store, project: str, policy: Policy) -> None:
    tools = Client(store, project, resolve_actor=saying("unavailable", policy, store).resolve)
    item = await tools.add()
    assert (await tools.advance(item, "start"))["applied"]


@every_policy
@every_outcome
async def test_completing_a_tree(store: Store, project: str, policy: Policy, found: str) -> None:
    tools = Client(store, project, resolve_actor=saying(found, policy, store).resolve)
    item = await tools.add()
    result = await tools.attempt("complete_tree", itemIds=[item], actor=actor("agent", proof=PROOF))
    if trusts(policy, found):
        assert isinstance(result, dict)
        assert result["summary"]["completed"] == 1
    else:
        assert isinstance(result, ToolFailure)
        assert result.code == "rejected_by_policy"
        assert (await tools.get(item))["role"] == "queue"


@every_policy
@every_outcome
async def test_requests_are_recorded_under_trusted_identities_only(
    store: Store, project: str, policy: Policy, found: str
) -> None:
    tools = Client(store, project, resolve_actor=saying(found, policy, store).resolve)
    call: Json = {
        "operation": "create",
        "items": [{"title": "once"}],
        "actor": actor("agent", proof=PROOF),
        "requestId": fresh_id(),
    }
    first, second = await tools("manage_items", **call), await tools("manage_items", **call)
    assert (first == second) is trusts(policy, found)
    # Another proof of the same identity gets the same answer.
    trusting = Client(store, project, resolve_actor=saying("verified", policy, store).resolve)
    assert (await trusting("manage_items", **call) == first) is trusts(policy, found)


@every_policy
@every_outcome
async def test_notes_record_the_verification(store: Store, project: str, policy: Policy, found: str) -> None:
    tools = Client(store, project, resolve_actor=saying(found, policy, store).resolve)
    item = await tools.add()
    note = {"itemId": item, "key": "k", "role": "queue", "body": "b", "actor": actor("agent", proof=PROOF)}
    written = (await tools("manage_notes", operation="upsert", notes=[note]))["notes"][0]
    (read,) = (await tools("query_notes", operation="list", itemId=item))["notes"]
    for shown in (written, read):
        assert shown["actor"] == {"id": "agent", "kind": "subagent"}
        if found in VERIFICATIONS:
            assert shown["verification"] == VERIFICATIONS[found]
        else:
            assert shown["verification"]["status"] == "rejected"


async def test_nothing_is_read_for_rejected_actors(store: Store, project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = Client(store, project, resolve_actor=saying("absent", "reject", store).resolve)
    item = await tools.add()

    async def nobody(*_: Any, **__: Any) -> None:
        raise AssertionError("the store was asked")

    monkeypatch.setattr(store, "run", nobody)
    monkeypatch.setattr(store, "command", nobody)
    who = actor("agent")
    refused = await tools.refusal("claim_item", claims=[{"itemId": item[:8]}], actor=who, requestId=fresh_id())
    assert refused.code == "rejected_by_policy"
    transition = {"itemId": item[:8], "trigger": "start", "actor": who}
    answer = await tools("advance_item", transitions=[transition], requestId=fresh_id())
    assert answer["results"][0]["errorCode"] == "rejected_by_policy"


@pytest.mark.parametrize(
    ("found", "policy", "warned"),
    [
        ("unavailable", "accept-cached", True), ("unavailable", "accept-self-reported", True),
        ("rejected crypto", "accept-cached", True), ("rejected crypto", "accept-self-reported", True),
        ("verified", "accept-cached", False), ("absent", "accept-cached", False), ("unavailable", "reject", False),
    ],
)  # fmt: skip
async def test_trust_without_proof_is_logged_with_throttling(
    store: Store, found: str, policy: Policy, warned: bool
) -> None:
    resolve = saying(found, policy, store).resolve
    with structlog.testing.capture_logs() as logs:
        for _ in range(100):
            await attributed(resolve, Actor("agent", "user", None, PROOF))
    assert len([line for line in logs if line["log_level"] == "warning"]) == int(warned)
    assert PROOF not in repr(logs)


async def test_a_claim_goes_to_the_trusted_identity_not_the_named_agent(store: Store, project: str) -> None:
    tools = Client(store, project, resolve_actor=saying("verified", "accept-cached", store).resolve)
    item = await tools.add()
    claims = [{"itemId": item, "agentId": "somebody-else"}]
    with structlog.testing.capture_logs() as logs:
        answer = await tools("claim_item", claims=claims, actor=actor("agent", proof=PROOF), requestId=fresh_id())
    assert answer["claimResults"][0]["claimedBy"] == "agent"
    assert [line["log_level"] for line in logs] == ["warning"]


@given(st.sampled_from(POLICIES), st.sampled_from(["absent", "unchecked", "verified", "rejected", "unavailable"]))
def test_reject_trusts_proofs_only(policy: Policy, status: Any) -> None:
    whose = trust(policy, status)
    assert (whose == "nobody") is (policy == "reject" and status != "verified")
    assert whose != "proof" or status == "verified"
    assert whose == "actor" or policy != "accept-self-reported"


async def test_a_verifier_is_replaced_when_its_settings_change_and_closed_then(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.identity.actors.resolver.GRACE_SECONDS", 0.0)
    made: list[Saying] = []
    closed: list[Saying] = []

    class Closing(Saying):
        async def aclose(self) -> None:
            closed.append(self)

    def build(_settings: VerifierSettings, _store: Store) -> Saying:
        made.append(Closing(OUTCOMES["verified"]))
        return made[-1]

    actors = Actors(ActorAuthentication(), store, build)
    actors.configure(Settings(actor_authentication=ActorAuthentication(degraded_mode_policy="reject")))
    assert len(made) == 1
    actors.configure(Settings(actor_authentication=ActorAuthentication(verifier=VerifierSettings(audience="other"))))
    await wait_until(lambda: closed, what="the first one to be closed")
    assert (len(made), closed) == (2, made[:1])
    await actors.stop()
    assert closed == made
