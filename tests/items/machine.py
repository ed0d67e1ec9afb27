"""A state machine that drives the tools beside the model: items, dependencies, transitions, claims, time."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.toolsets.items.audit import audit
from tests.items.client import LONG_MS, Client, Json, actor, fresh_id, told
from tests.items.model import Model
from tests.items.model_parts import Change, Edge, Item, Outcome
from tests.items.moments import lapse
from tests.support import leaks

T = TypeVar("T")
DECLARED: Json = {
    "work_item_schemas": {
        "task": {
            "notes": [
                {"key": "plan", "role": "queue", "required": True, "guidance": "Say how.", "skill": "planning"},
                {"key": "hint", "role": "queue"},
                {"key": "done", "role": "work", "required": True, "description": "what was done"},
            ]
        },
        "checked": {
            "lifecycle": "manual",
            "default_traits": ["seen"],
            "notes": [
                {"key": "plan", "role": "queue"},
                {"key": "done", "role": "work", "required": True, "guidance": "Say what."},
                {"key": "log", "role": "work", "required": True, "skill": "logging"},
                {"key": "verdict", "role": "review", "required": True},
            ],
        },
        "feature": {
            "lifecycle": "auto-reopen",
            "default_traits": ["audited"],
            "notes": [{"key": "plan", "role": "queue"}],
        },
        "home": {"lifecycle": "permanent", "notes": []},
    },
    "traits": {
        "audited": {"notes": [{"key": "audit", "role": "work", "required": True, "guidance": "Count."}]},
        "seen": {"notes": [{"key": "plan", "role": "review", "required": True}, {"key": "eye", "role": "review"}]},
    },
}
DEFAULTS = st.sampled_from([{}, {}, {}, {"default": "task"}, {"default": "feature"}])
TRAITS = st.sampled_from([None, None, "seen", "seen, audited", ""])
PLAIN: Json = {"title": "t", "priority": "medium", "complexity": None, "tags": None, "type": None}
STANDING = ("guidancePointer", "skillPointer", "noteProgress")
SHOWN = (*PLAIN, "role", "parentId", "statusLabel", "previousRole", "depth")

AGENTS = st.sampled_from(["ann", "bob", "cy"])
ALL_TRIGGERS = ("start", "complete", "block", "hold", "resume", "cancel", "reopen")
SENSIBLE = {"terminal": ("reopen",), "blocked": ("resume", "resume", "cancel"), "": ALL_TRIGGERS}
TRIGGERS = st.integers(0, 20)
"""Below seven any trigger, otherwise a possible one."""
STEPS = st.sampled_from([1, 2, 3, 4, 5, 0])
"""From one end of an edge to the other."""
TYPES = st.sampled_from(["BLOCKS", "BLOCKS", "IS_BLOCKED_BY", "RELATES_TO"])
THRESHOLDS = st.sampled_from([None, "queue", "work", "review", "terminal"])
ROLES = st.sampled_from(["queue", "queue", "queue", "work", "review", "blocked", "terminal"])
FIELDS = st.fixed_dictionaries(
    {
        "title": st.sampled_from(["t", "t" * 80]),
        "priority": st.sampled_from(["high", "medium", "low"]),
        "complexity": st.none() | st.integers(1, 10),
        "tags": st.sampled_from([None, "a", "b,a", "a, task", "checked,task"]),
        "type": st.sampled_from([None, None, "x", "task", "checked", "feature", "home"]),
    }
)
Kind = tuple[Json, str | None]
KIND = st.tuples(FIELDS, TRAITS)
"""Fields and traits of an item."""
FENCES = st.sampled_from([None] * 9 + [0, -1])
"""Passed with a call: none, the item's current fence, an earlier one."""
NOBODY = 15
SLOTS = st.sampled_from(range(NOBODY + 1))
"""Which of the living items, oldest first; ``NOBODY`` stands for one that does not exist."""
EDGES = st.lists(st.tuples(SLOTS, STEPS, TYPES, THRESHOLDS), max_size=4)
FEW = 6


def names(traits: str | None) -> list[str]:
    return traits.split(", ") if traits else []


def change_of(event: Json) -> Change:
    missing = tuple(event.get("missingNotes", ()))
    assert event["applied"] == (not missing) == ("gateBlocked" not in event) == ("error" not in event)
    return Change(event["itemId"], event["previousRole"], event["targetRole"], missing)


def agrees(result: Json, expected: Json) -> bool:
    """Whether complete_tree's result for an item matches the model's, which has only a part of a reason."""
    reason = expected.get("skippedReason", "")
    assert ("gateErrors" in result) == ("Fill them with manage_notes" in result.get("error", ""))
    more = {"skippedReason": result["skippedReason"]} if reason and "skippedReason" in result else {}
    told = {name: value for name, value in result.items() if name != "error"}
    return reason in result.get("skippedReason", "") and told == expected | more


class Session:
    """Shared by the examples: an event loop, a store, and a project for each example."""

    def __init__(self, url: str) -> None:
        self.runner = asyncio.Runner()
        self.url = url
        self.store = Store(url, timeout_ms=5000)
        self.runner.run(self.store.open())
        self.projects = 0

    def close(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()


class Tools(RuleBasedStateMachine):
    """Drives the tools and the model side by side."""

    session: Session
    declared = DECLARED

    def __init__(self) -> None:
        super().__init__()
        self.session.projects += 1
        self.tools = Client(self.session.store, f"model-{self.session.projects}")
        self.model = Model()
        self.last: tuple[str, Json, bytes] | None = None

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.session.runner.run(call)

    def change(self, tool: str, **arguments: Any) -> Json:
        """A mutating call with a request id, which may be repeated later."""
        arguments = {"actor": actor("ann"), "requestId": fresh_id()} | arguments
        if tool == "advance_item":
            del arguments["actor"]
        answer = self.run(self.tools.answer(tool, **arguments))
        self.last = (tool, arguments, answer)
        note(answer.decode())
        return dict(json.loads(answer))

    def at(self, slot: int) -> str:
        living = list(self.model.items)
        return living[slot % len(living)] if living and slot != NOBODY else fresh_id()

    def at_or_none(self, slot: int | None) -> str | None:
        return None if slot is None else self.at(slot)

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # otherwise a failure is being reported already
                self.check_everything()
        finally:
            with redis_client(parse(self.session.url), self.tools.project) as client:
                leaks.delete_keys(client, self.tools.project)

    def check_everything(self) -> None:
        self.next(None, 20, include_claimed=False)
        self.next(None, 20, include_claimed=True)
        report = self.run(audit(self.session.store, self.tools.project))
        assert not report.differences
        assert (report.items, report.edges) == (len(self.model.items), len(self.model.edges))
        assert report.claims == sum(item.holder != "" for item in self.model.items.values())

    # --- items

    @initialize(
        chain=st.lists(KIND, min_size=1, max_size=4),
        siblings=st.integers(0, 3),
        others=st.lists(KIND, min_size=2, max_size=5),
        edges=EDGES,
        default=DEFAULTS,
    )
    def begin(self, chain: list[Kind], siblings: int, others: list[Kind], edges: list[Any], default: Json) -> None:
        """A chain, siblings of its end, other roots, and dependencies."""
        self.model.schemas = self.declared | default
        given = {"request_deadline_ms": LONG_MS, "attempts": {"max": 0, "backoff_seconds": 0}, **self.model.schemas}
        self.tools.configure(msgspec.convert(given, Settings))
        above: str | None = None
        end: str | None = None
        for kind in chain:
            above, end = end, self.add(end, "queue", *kind)
        for parent, kind in [(above, (PLAIN, None))] * siblings + [(None, kind) for kind in others]:
            self.add(parent, "queue", *kind)
        for edge in edges:
            self.link([edge])

    @rule(parent=st.none() | SLOTS, role=ROLES, fields=FIELDS, traits=TRAITS)
    def create(self, parent: int | None, role: str, fields: Json, traits: str | None) -> None:
        self.add(self.at_or_none(parent), role, fields, traits)

    def add(self, parent: str | None, role: str, fields: Json, traits: str | None = None) -> str | None:
        spec = {"parentId": parent, "role": role, **fields, "traits": traits}
        answer = self.change("manage_items", operation="create", items=[spec])
        if refusal := self.model.create_refusal(parent):
            assert refusal in answer["failures"][0]["error"]
            return None
        (made,) = answer["items"]
        self.keep(Item(made["id"], parent, dict(fields), role=role, traits=names(traits)))
        assert (made["role"], made["depth"]) == (role, self.model.depth(made["id"]))
        assert made["expectedNotes"] == self.model.expected(made["id"])
        assert made["schemaMatch"] == (self.model.schema(made["id"]) is not None)
        return str(made["id"])

    def keep(self, made: Item) -> None:
        made.created = self.run(self.tools.get(made.id))["createdAt"]
        self.model.add(made)

    @rule(item=SLOTS, fields=FIELDS, traits=TRAITS)
    def update(self, item: int, fields: Json, traits: str | None) -> None:
        changed = self.at(item)
        spec = {"id": changed, **fields, "traits": traits}
        answer = self.change("manage_items", operation="update", items=[spec])
        known = self.model.items.get(changed)
        assert (answer["updated"], answer["failed"]) == ((1, 0) if known else (0, 1))
        if known:
            known.shown = dict(fields)
            known.traits = known.traits if traits is None else names(traits)

    @rule(item=SLOTS, parent=st.none() | SLOTS)
    def move(self, item: int, parent: int | None) -> None:
        moved, above = self.at(item), self.at_or_none(parent)
        answer = self.change("manage_items", operation="update", items=[{"id": moved, "parentId": above}])
        refusal = self.model.move(moved, above) if moved in self.model.items else "no such item"
        assert answer["updated"] == (0 if refusal else 1)
        assert not refusal or refusal in answer["failures"][0]["error"]

    @precondition(lambda self: len(self.model.items) > FEW)
    @rule(slots=st.lists(SLOTS, min_size=1, max_size=2), recursive=st.booleans())
    def delete(self, slots: list[int], recursive: bool) -> None:
        ids = [self.at(slot) for slot in slots]
        answer = self.change("manage_items", operation="delete", ids=ids, recursive=recursive)
        assert answer == self.model.delete(ids, recursive)

    @rule(item=SLOTS)
    def get(self, item: int) -> None:
        self.look_at(self.at(item))

    def look_at(self, wanted: str) -> None:
        if wanted not in self.model.items:
            assert not self.run(self.tools.exists(wanted))
            return
        known, shown = self.model.items[wanted], self.run(self.tools.get(wanted, includeAncestors=True))
        assert {name: shown.get(name) for name in SHOWN} == {
            "role": known.role,
            "parentId": known.parent,
            **known.shown,
            "statusLabel": known.label,
            "previousRole": known.previous,
            "depth": self.model.depth(wanted),
        }
        assert json.loads(shown.get("properties", "{}")).get("traits", []) == known.traits
        assert [each["id"] for each in reversed(shown["ancestors"])] == [each.id for each in self.model.above(wanted)]

    # --- dependencies

    @rule(batch=EDGES.filter(bool))
    def link(self, batch: list[tuple[int, int, str, str | None]]) -> None:
        edges = [
            Edge(self.at(slot), self.at(slot + step), kind, None if kind == "RELATES_TO" else threshold)
            for slot, step, kind, threshold in batch
        ]
        self.link_items(edges)

    def link_items(self, edges: list[Edge]) -> None:
        specs = [
            {"fromItemId": edge.source, "toItemId": edge.target, "type": edge.type, "unblockAt": edge.threshold}
            for edge in edges
        ]
        answer = self.change("manage_dependencies", operation="create", dependencies=specs)
        refusals = self.model.link(edges)
        failures = [entry for failure in answer.get("failures", []) for entry in told(failure)]
        assert answer["created"] == (0 if refusals else len(edges))
        assert [number for number, _ in failures] == [number for number, _ in refusals]
        assert all(reason in error for (_, error), (_, reason) in zip(failures, refusals, strict=True))

    @rule(item=SLOTS, other=st.none() | SLOTS)
    def unlink(self, item: int, other: int | None) -> None:
        source, target = self.at(item), self.at_or_none(other)
        selector: Json = {"deleteAll": True} if target is None else {"toItemId": target}
        answer = self.change("manage_dependencies", operation="delete", fromItemId=source, **selector)
        assert answer["deleted"] == self.model.unlink(source, target)

    # --- work

    @rule(
        steps=st.lists(st.tuples(SLOTS, TRIGGERS, FENCES), min_size=1, max_size=4),
        agent=st.just("") | AGENTS,
    )
    def advance(self, steps: list[tuple[int, int, int | None]], agent: str) -> None:
        wanted = [(self.at(slot), trigger, self.fence(slot, fence)) for slot, trigger, fence in steps]
        self.apply([(item, self.trigger(item, number), fence) for item, number, fence in wanted], agent)

    def fence(self, slot: int, offset: int | None) -> int | None:
        """The fence of an item's last claim, or an earlier one; 1 if it was never claimed."""
        item = self.model.items.get(self.at(slot))
        return offset if offset is None else max(1, (item.fence if item else 0) + offset)

    def trigger(self, item: str, number: int) -> str:
        role = self.model.items[item].role if item in self.model.items and number >= len(ALL_TRIGGERS) else ""
        choices = SENSIBLE.get(role, ALL_TRIGGERS[:4])
        return choices[number % len(choices)]

    @rule(item=SLOTS, agent=AGENTS)
    def work(self, item: int, agent: str) -> None:
        """A worker's loop."""
        self.claim_and_end(self.at(item), agent)

    def claim_and_end(self, wanted: str, agent: str) -> None:
        self.claim_one(wanted, agent)
        self.apply([(wanted, "start", None), (wanted, "complete", None)], agent)

    def claim_one(self, wanted: str, agent: str) -> None:
        answer = self.change("claim_item", actor=actor(agent), claims=[{"itemId": wanted}])
        (result,) = answer["claimResults"]
        assert [result["outcome"]] == self.model.claim(agent, [(wanted, None)], result.get("fenceToken", 0))[0]
        if wanted in self.model.items and (held := self.model.items[wanted]).holder:
            held.original = held.original or result["claimedAt"]

    @rule(parent=SLOTS, trigger=st.sampled_from(["complete", "cancel", "reopen", "start"]), agent=AGENTS)
    def advance_all_children(self, parent: int, trigger: str, agent: str) -> None:
        if children := self.model.children(self.at(parent)):
            self.apply([(child.id, trigger, None) for child in children], agent)

    def apply(self, steps: list[tuple[str, str, int | None]], agent: str) -> None:
        who = actor(agent) if agent else None
        transitions = [
            {"itemId": item, "trigger": trigger, "fenceToken": fence, "actor": who} for item, trigger, fence in steps
        ]
        answer = self.change("advance_item", transitions=transitions)
        if not agent:
            self.last = None  # runs each time
        for (item, trigger, fence), result in zip(steps, answer["results"], strict=True):
            self.compare(item, result, self.model.advance(item, trigger, agent, fence))

    def compare(self, item: str, result: Json, expected: Outcome) -> None:
        assert result["applied"] == (not expected.refusal)
        if expected.refusal:
            assert expected.refusal in (result.get("errorCode") or result["error"])
            blockers = {(b["fromItemId"], b["currentRole"], b["requiredRole"]) for b in result.get("blockers", [])}
            assert blockers == expected.blockers
            assert [need["key"] for need in result.get("missingNotes", [])] == expected.missing
            return
        assert (result["previousRole"], result["newRole"]) == (expected.before, expected.after)
        assert result.get("statusLabel") == expected.label
        assert [change_of(event) for event in result["cascadeEvents"]] == expected.cascades
        unblocked = [entry["itemId"] for entry in result["unblockedItems"]]
        assert len(unblocked) == len(set(unblocked))
        assert set(unblocked) == expected.unblocked
        assert result["expectedNotes"] == self.model.expected(item, expected.after)
        standing = {name: value for name, value in self.model.standing(item).items() if value is not None}
        assert {name: result[name] for name in STANDING if name in result} == standing

    @rule(
        agent=AGENTS,
        wanted=st.lists(st.tuples(SLOTS, FENCES), max_size=2),
        unwanted=st.lists(st.tuples(SLOTS, FENCES), max_size=2),
    )
    def claim(self, agent: str, wanted: list[tuple[int, int | None]], unwanted: list[tuple[int, int | None]]) -> None:
        claims, releases = (
            [(self.at(slot), self.fence(slot, fence)) for slot, fence in part] for part in (wanted, unwanted)
        )
        if not claims and not releases:
            return
        entries = [[{"itemId": item, "fenceToken": fence} for item, fence in part] for part in (claims, releases)]
        answer = self.change("claim_item", actor=actor(agent), claims=entries[0], releases=entries[1])
        granted = max((result.get("fenceToken", 0) for result in answer["claimResults"]), default=0)
        outcomes, made = self.model.claim(agent, claims, granted, releases)
        assert [result["outcome"] for result in answer["claimResults"]] == outcomes
        for result in answer["claimResults"]:
            if result["outcome"] == "success":
                held = self.model.items[result["itemId"]]
                held.original = held.original or result["claimedAt"]
                assert (result["fenceToken"], result["originalClaimedAt"]) == (held.fence, held.original)
        released = [made.get(n) or self.model.release(agent, *one) for n, one in enumerate(releases)]
        assert [result["outcome"] for result in answer["releaseResults"]] == released

    @rule(agent=AGENTS.filter(bool), begin=st.booleans())
    def take(self, agent: str, begin: bool) -> None:
        self.take_best(agent, begin)

    def take_best(self, agent: str, begin: bool) -> None:
        answer = self.change("claim_item", actor=actor(agent), claims=[{"selector": {}}])
        (result,) = answer["claimResults"]
        if agent in self.model.drained:
            assert result["outcome"] == "agent_draining"
            return
        expected = self.model.take(agent, result.get("fenceToken", 0))
        if expected is None:
            assert result["outcome"] == "no_match"
            return
        assert (result["itemId"], result["role"], result.get("takeover", False)) == expected
        held = self.model.items[result["itemId"]]
        held.original = held.original or result["claimedAt"]
        assert result["originalClaimedAt"] == held.original
        if begin:
            self.apply([(result["itemId"], "start", result["fenceToken"])], agent)

    @precondition(lambda self: any(item.live for item in self.model.items.values()))
    @rule(slot=SLOTS)
    def expire(self, slot: int) -> None:
        """Time passes until one claim expires."""
        live = [item for item in self.model.items.values() if item.live]
        self.end_by_time(live[slot % len(live)])

    def end_by_time(self, item: Item) -> None:
        self.model.expire(item, self.run(lapse(self.tools, item.id)))
        if self.model.most_attempts:
            self.run(self.tools.next())  # which notices it

    @rule(parent=st.none() | SLOTS, limit=st.sampled_from([1, 2, 20, 20]), include_claimed=st.booleans())
    def next(self, parent: int | None, limit: int, include_claimed: bool) -> None:
        above = self.at_or_none(parent)
        for role in ("queue", "work", "review", "blocked"):
            arguments = {"role": role, "parentId": above, "limit": limit, "includeClaimed": include_claimed}
            if above is not None and above not in self.model.items:
                assert self.run(self.tools.refusal("get_next_item", **arguments)).code == "RESOURCE_NOT_FOUND"
                continue
            answer = self.run(self.tools("get_next_item", **arguments))
            found = [(entry["itemId"], entry.get("isClaimed", False)) for entry in answer["recommendations"]]
            expected = self.model.next(role, above, limit, include_claimed)
            assert found == expected, [self.model.items[i] for i, _ in {*found} ^ {*expected}]

    @precondition(lambda self: self.last is not None)
    @rule()
    def repeat(self) -> None:
        """The last change again under its request id: the same answer, and no effect."""
        assert self.last is not None
        tool, arguments, answer = self.last
        assert self.run(self.tools.answer(tool, **arguments)) == answer
