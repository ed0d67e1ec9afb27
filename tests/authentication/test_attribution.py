"""Attribution: actors in arguments against the caller, for every tool of the product."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Meta, Struct, UnsetType

from coordinator.errors import ToolFailure
from coordinator.identity.actors.attribution import attribute_call
from coordinator.identity.actors.callers import trusting_callers
from coordinator.toolsets.actor import KINDS, Actor, CallerActor, Trusted, Verification, checked, echo
from coordinator.toolsets.arguments import decoded
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.schema import describe, input_schema
from coordinator.toolsets.tool import Call
from tests.support.contracts import toolsets

pytestmark = pytest.mark.anyio

ME = Caller("agent-1", "orchestrator")
TOOLS = {tool.name: tool for toolset in toolsets().values() for tool in toolset.tools}


class Leaf(Struct, forbid_unknown_fields=True):
    actor: Actor | None = None
    children: list[Leaf] = []


class Frozen(Struct, frozen=True):
    who: Annotated[Actor | None, Meta(description="Who.")] = None


class Everything(Struct):
    first: Actor | UnsetType = UNSET
    second: Annotated[Actor | None, Meta(description="Second.")] = None
    many: Annotated[list[Frozen] | None, Meta(description="Many.")] = None
    fixed: tuple[Frozen, ...] = ()
    leaf: Leaf | UnsetType = UNSET
    plain: str = "x"


def everything(who: Any) -> Everything:
    return Everything(who, who, [Frozen(who), Frozen(who)], (Frozen(who),), Leaf(who))


def actors(found: Everything) -> list[Any]:
    assert found.many is not None
    assert found.leaf is not UNSET
    return [found.first, found.second, *(one.who for one in (*found.many, *found.fixed)), found.leaf.actor]


def test_missing_actors_become_the_caller() -> None:
    found = everything(None)
    attribute_call(found, ME)
    assert actors(found) == [CallerActor("agent-1", "orchestrator")] * 6
    bare = Everything()
    attribute_call(bare, ME)
    assert bare.first == CallerActor("agent-1", "orchestrator")
    assert (bare.many, bare.leaf, bare.plain) == (None, UNSET, "x")


def test_a_caller_may_add_to_its_own_actor() -> None:
    found = everything(Actor("agent-1", "Subagent", "boss"))
    attribute_call(found, ME)
    assert actors(found) == [CallerActor("agent-1", "subagent", "boss")] * 6
    blank = Everything(Actor(kind="user"))
    attribute_call(blank, ME)
    assert blank.first == CallerActor("agent-1", "user")
    strange = Everything(Actor("agent-1", "Boss"))
    attribute_call(strange, ME)
    assert isinstance(strange.first, CallerActor)
    with pytest.raises(ToolFailure, match=r"actor\.kind: must be one of"):
        checked(strange.first)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (Everything(Actor("other", "user")), "first.id"),
        (Everything(second=Actor("other", "user")), "second.id"),
        (Everything(many=[Frozen(), Frozen(Actor("Agent-1", "user"))]), "many[1].who.id"),
        (Everything(fixed=(Frozen(Actor(" agent-1", "user")),)), "fixed[0].who.id"),
        (Everything(leaf=Leaf(Actor("agent-1\n", "user"))), "leaf.actor.id"),
        (Everything(Actor("other", "user", None, "a.proof")), "first.id"),
    ],
)
def test_other_actors_are_rejected(arguments: Everything, path: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        attribute_call(arguments, ME)
    assert caught.value.code == "actor_mismatch"
    said = f"{path}: must be absent or the caller's own, 'agent-1', also with '/' and a suffix"
    assert caught.value.message == said


def test_a_caller_may_act_as_one_of_its_slots() -> None:
    found = everything(Actor("agent-1/slot.2_b-3", "Subagent", "boss"))
    attribute_call(found, ME)
    assert actors(found) == [CallerActor("agent-1/slot.2_b-3", "subagent", "boss")] * 6
    attribute_call(short := Everything(Actor("/slot-2", "user")), ME)
    assert short.first == CallerActor("agent-1/slot-2", "user"), "a caller need not know its own id"
    longest = Everything(Actor(f"agent-1/{'a' * 64}", "user"))
    attribute_call(longest, ME)
    assert longest.first == CallerActor(f"agent-1/{'a' * 64}", "user")


@pytest.mark.parametrize("suffix", ["", "/x", "a/b", " a", "a b", "-a", ".a", "a\n", "\u00e4", "a" * 65, "a\x00"])
def test_the_suffix_of_a_slot_is_checked(suffix: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        attribute_call(everything(Actor(f"agent-1/{suffix}", "user")), ME)
    assert caught.value.code == "VALIDATION_ERROR"
    assert caught.value.message.startswith("first.id: after 'agent-1/', must be 1 to 64 letters, digits")


def test_a_slot_is_not_another_caller() -> None:
    me = msgspec.structs.replace(ME, taken=frozenset({"agent-1/b"}))
    attribute_call(everything(Actor("agent-1/a", "user")), me)
    with pytest.raises(ToolFailure, match="another caller") as caught:
        attribute_call(everything(Actor("agent-1/b", "user")), me)
    assert caught.value.code == "actor_mismatch"


def test_the_actors_of_every_tool_are_found() -> None:
    """No struct of a contract has an actor that attribution would miss."""

    def places(annotation: Any, seen: frozenset[Any]) -> int:
        info = annotation if isinstance(annotation, msgspec.inspect.Type) else msgspec.inspect.type_info(annotation)
        if isinstance(info, msgspec.inspect.Metadata):
            return places(info.type, seen)
        if isinstance(info, msgspec.inspect.UnionType):
            return sum(places(one, seen) for one in info.types)
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls is Actor:
                return 1
            return 0 if info.cls in seen else sum(places(field.type, seen | {info.cls}) for field in info.fields)
        return places(info.item_type, seen) if hasattr(info, "item_type") else 0

    def filled(info: msgspec.inspect.Type, seen: frozenset[Any]) -> Any:
        """A value with one element in each list and a struct wherever there can be one, actors left out."""
        if isinstance(info, msgspec.inspect.Metadata):
            return filled(info.type, seen)
        if isinstance(info, msgspec.inspect.UnionType):
            options = [one for one in info.types if not isinstance(one, msgspec.inspect.NoneType)]
            structs = [one for one in options if "Struct" in type(one).__name__ or hasattr(one, "item_type")]
            return filled((structs or options)[0], seen)
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls is Actor or info.cls in seen:
                return None
            values = {field.name: filled(field.type, seen | {info.cls}) for field in info.fields}
            return info.cls(**values)
        if hasattr(info, "item_type"):
            return [filled(info.item_type, seen)]
        return None

    def signed(value: Any) -> int:
        if isinstance(value, CallerActor):
            return 1
        if isinstance(value, Struct):
            return sum(signed(getattr(value, name)) for name in value.__struct_fields__)
        return sum(map(signed, value)) if isinstance(value, (list, tuple)) else 0

    found: dict[str, int] = {}
    for name, tool in TOOLS.items():
        arguments = filled(msgspec.inspect.type_info(tool.arguments), frozenset())
        attribute_call(arguments, ME)
        found[name] = signed(arguments)
        assert found[name] == places(tool.arguments, frozenset()), name
    assert len(found) >= 14
    assert {"claim_item": 1, "manage_notes": 2, "advance_item": 1, "query_items": 0}.items() <= found.items()


async def test_an_anonymous_caller_must_name_an_actor() -> None:
    claim = TOOLS["claim_item"]
    wanted = {"requestId": str(uuid.uuid4()), "claims": [{"itemId": "abcd"}]}
    with pytest.raises(ToolFailure) as caught:
        await claim.handler(Call("p"), msgspec.convert(wanted, claim.arguments))
    assert caught.value.code == "VALIDATION_ERROR"
    assert caught.value.message == "actor: is required; allowed: an object with id, kind, parent, proof"
    assert "actor" in describe(claim)["inputSchema"]["required"]
    assert describe(claim, identified=True)["inputSchema"]["required"] == ["requestId"]


async def test_a_null_actor_counts_as_absent() -> None:
    claim = TOOLS["claim_item"]
    wanted = {"actor": None, "requestId": str(uuid.uuid4()), "claims": [{"itemId": "abcd"}]}
    found = decoded(claim, input_schema(claim.arguments), wanted)
    with pytest.raises(ToolFailure, match="actor: is required"):
        await claim.handler(Call("p"), found)
    attribute_call(found, ME)
    assert found.actor == CallerActor("agent-1", "orchestrator")


@settings(max_examples=50)
@given(
    id=st.sampled_from(["agent-1", "other", "", "AGENT-1", "agent-1/2", "agent-12", "agent-1/", "other/agent-1"]),
    kind=st.sampled_from([*KINDS, "", "USER", "boss"]),
    parent=st.none() | st.just("boss"),
    proof=st.none() | st.just("p"),
)
def test_the_actor_is_never_another_id_than_the_caller_s(
    id: str, kind: str, parent: str | None, proof: str | None
) -> None:
    found = Everything(Actor(id, kind, parent, proof))
    if id not in ("agent-1", "", "agent-1/2"):
        with pytest.raises(ToolFailure):
            attribute_call(found, ME)
        return
    attribute_call(found, ME)
    assert isinstance(found.first, CallerActor)
    assert (found.first.id, found.first.parent, found.first.proof) == (id or "agent-1", parent, proof)


async def test_a_caller_is_trusted_under_every_policy() -> None:
    async def nobody(actor: Actor) -> Trusted:
        raise ToolFailure("rejected_by_policy", "no")

    resolve = trusting_callers(nobody)
    found = await resolve(checked(CallerActor("agent-1", "user", "boss")))
    assert found == Trusted("agent-1", echo(Actor("agent-1", "user", "boss")), Verification("verified", "bearer", None))
    for actor in (Actor("agent-1", "user"), CallerActor("agent-1", "user", None, "a.bad.proof")):
        with pytest.raises(ToolFailure, match="no"):
            await resolve(actor)


async def test_a_proof_does_not_change_the_identity_of_a_caller() -> None:
    async def by_proof(actor: Actor) -> Trusted:
        return Trusted(actor.proof or actor.id, echo(actor), Verification("verified", "jwks", None))

    resolve = trusting_callers(by_proof)
    assert (await resolve(CallerActor("agent-1", "user", None, "agent-1"))).verification.verifier == "jwks"
    with pytest.raises(ToolFailure) as caught:
        await resolve(CallerActor("agent-1", "user", None, "agent-2"))
    assert caught.value.code == "actor_mismatch"
    assert (await resolve(Actor("agent-1", "user", None, "agent-2"))).id == "agent-2"
