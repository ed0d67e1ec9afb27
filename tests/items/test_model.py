"""The tools against a model of seed 004's rules: any sequence of calls gets the answers that the model gives.

Deeper: ``MODEL_EXAMPLES=2000 pytest tests/items/test_model.py``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
import redis
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from coordinator.store import Store
from coordinator.store.address import parse
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.model import Edge, Item, Model, Outcome
from tests.items.moments import lapse
from tests.support import leaks

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "100"))
T = TypeVar("T")
PLAIN: Json = {"title": "t", "priority": "medium", "complexity": None, "tags": None, "type": None}
SHOWN = (*PLAIN, "role", "parentId", "statusLabel", "previousRole", "depth")

AGENTS = st.sampled_from(["ann", "bob", "cy"])
ALL_TRIGGERS = ("start", "complete", "block", "hold", "resume", "cancel", "reopen")
SENSIBLE = {"terminal": ("reopen",), "blocked": ("resume", "resume", "cancel"), "": ALL_TRIGGERS}
TRIGGERS = st.integers(0, 20)
"""Below seven any trigger, from there on one that the item can take."""
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
        "tags": st.sampled_from([None, "a", "b,a", "a, c"]),
        "type": st.sampled_from([None, "x", "y"]),
    }
)
FENCES = st.sampled_from([None] * 9 + [1, 2])
NOBODY = 15
SLOTS = st.sampled_from(range(NOBODY + 1))
"""Which of the living items, oldest first; ``NOBODY`` stands for one that does not exist."""
EDGES = st.lists(st.tuples(SLOTS, STEPS, TYPES, THRESHOLDS), max_size=4)
FEW = 6


class Session:
    """What the examples share: an event loop, a store, and a project for each example."""

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

    def __init__(self) -> None:
        super().__init__()
        self.session.projects += 1
        self.tools = Client(self.session.store, f"model-{self.session.projects}")
        self.model = Model()
        self.last: tuple[str, Json, bytes] | None = None

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.session.runner.run(call)

    def change(self, tool: str, **arguments: Any) -> Json:
        """A mutating call under a request id, which may be repeated later."""
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
            if sys.exc_info()[0] is None:  # else what went wrong is being told already
                self.check_everything()
        finally:
            with redis.Redis(**parse(self.session.url).client_options()) as client:
                leaks.delete_keys(client, self.tools.project)

    def check_everything(self) -> None:
        self.next(None, 20, include_claimed=False)
        self.next(None, 20, include_claimed=True)
        report = self.run(audit(self.session.store, self.tools.project))
        assert not report.differences
        assert (report.items, report.edges) == (len(self.model.items), len(self.model.edges))
        assert report.claims == sum(item.claim is not None for item in self.model.items.values())

    # --- items

    @initialize(chain=st.integers(1, 4), siblings=st.integers(0, 3), others=st.integers(2, 5), edges=EDGES)
    def begin(self, chain: int, siblings: int, others: int, edges: list[Any]) -> None:
        """A chain, siblings of its end, roots beside it, and what waits for what."""
        above: str | None = None
        end: str | None = None
        for _ in range(chain):
            above, end = end, self.add(end, "queue", PLAIN)
        for parent in [above] * siblings + [None] * others:
            self.add(parent, "queue", PLAIN)
        for edge in edges:
            self.link([edge])

    @rule(parent=st.none() | SLOTS, role=ROLES, fields=FIELDS)
    def create(self, parent: int | None, role: str, fields: Json) -> None:
        self.add(self.at_or_none(parent), role, fields)

    def add(self, parent: str | None, role: str, fields: Json) -> str | None:
        spec = {"parentId": parent, "role": role, **fields}
        answer = self.change("manage_items", operation="create", items=[spec])
        if refusal := self.model.create_refusal(parent):
            assert refusal in answer["failures"][0]["error"]
            return None
        (made,) = answer["items"]
        created = self.run(self.tools.get(made["id"]))["createdAt"]
        self.model.items[made["id"]] = Item(made["id"], parent, role, dict(fields), created)
        assert (made["role"], made["depth"]) == (role, self.model.depth(made["id"]))
        return str(made["id"])

    @rule(item=SLOTS, fields=FIELDS)
    def update(self, item: int, fields: Json) -> None:
        changed = self.at(item)
        spec = {"id": changed, **fields}
        answer = self.change("manage_items", operation="update", items=[spec])
        known = self.model.items.get(changed)
        assert (answer["updated"], answer["failed"]) == ((1, 0) if known else (0, 1))
        if known:
            known.shown = dict(fields)

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
        wanted = self.at(item)
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
        assert [each["id"] for each in reversed(shown["ancestors"])] == [each.id for each in self.model.above(wanted)]

    # --- dependencies

    @rule(batch=EDGES.filter(bool))
    def link(self, batch: list[tuple[int, int, str, str | None]]) -> None:
        edges = [
            Edge(self.at(slot), self.at(slot + step), kind, None if kind == "RELATES_TO" else threshold)
            for slot, step, kind, threshold in batch
        ]
        specs = [
            {"fromItemId": edge.source, "toItemId": edge.target, "type": edge.type, "unblockAt": edge.threshold}
            for edge in edges
        ]
        answer = self.change("manage_dependencies", operation="create", dependencies=specs)
        refusals = self.model.link(edges)
        failures = answer.get("failures", [])
        assert answer["created"] == (0 if refusals else len(edges))
        assert [failure["index"] for failure in failures] == [number for number, _ in refusals]
        assert all(reason in failure["error"] for failure, (_, reason) in zip(failures, refusals, strict=True))

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
        wanted = [(self.at(slot), trigger, fence) for slot, trigger, fence in steps]
        self.apply([(item, self.trigger(item, number), fence) for item, number, fence in wanted], agent)

    def trigger(self, item: str, number: int) -> str:
        role = self.model.items[item].role if item in self.model.items and number >= len(ALL_TRIGGERS) else ""
        choices = SENSIBLE.get(role, ALL_TRIGGERS[:4])
        return choices[number % len(choices)]

    @rule(item=SLOTS, agent=AGENTS)
    def work(self, item: int, agent: str) -> None:
        """What a worker does all day."""
        wanted = self.at(item)
        answer = self.change("claim_item", actor=actor(agent), claims=[{"itemId": wanted}])
        assert [answer["claimResults"][0]["outcome"]] == self.model.claim(agent, [(wanted, None)])
        if wanted in self.model.items and (held := self.model.items[wanted].claim):
            held.original = held.original or answer["claimResults"][0]["claimedAt"]
        self.apply([(wanted, "start", None), (wanted, "complete", None)], agent)

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
            self.compare(result, self.model.advance(item, trigger, agent, fence))

    def compare(self, result: Json, expected: Outcome) -> None:
        assert result["applied"] == (not expected.refusal)
        if expected.refusal:
            assert expected.refusal in (result.get("errorCode") or result["error"])
            blockers = {(b["fromItemId"], b["currentRole"], b["requiredRole"]) for b in result.get("blockers", [])}
            assert blockers == expected.blockers
            return
        assert (result["previousRole"], result["newRole"]) == (expected.before, expected.after)
        assert result.get("statusLabel") == expected.label
        cascades = [(e["itemId"], e["previousRole"], e["targetRole"]) for e in result["cascadeEvents"]]
        assert cascades == expected.cascades
        unblocked = [entry["itemId"] for entry in result["unblockedItems"]]
        assert len(unblocked) == len(set(unblocked))
        assert set(unblocked) == expected.unblocked

    @rule(
        agent=AGENTS,
        wanted=st.lists(st.tuples(SLOTS, FENCES), max_size=2),
        unwanted=st.lists(st.tuples(SLOTS, FENCES), max_size=2),
    )
    def claim(self, agent: str, wanted: list[tuple[int, int | None]], unwanted: list[tuple[int, int | None]]) -> None:
        claims, releases = ([(self.at(slot), fence) for slot, fence in part] for part in (wanted, unwanted))
        if not claims and not releases:
            return
        entries = [[{"itemId": item, "fenceToken": fence} for item, fence in part] for part in (claims, releases)]
        answer = self.change("claim_item", actor=actor(agent), claims=entries[0], releases=entries[1])
        assert [result["outcome"] for result in answer["claimResults"]] == self.model.claim(agent, claims)
        for result in answer["claimResults"]:
            if result["outcome"] == "success":
                held = self.model.items[result["itemId"]]
                assert held.claim is not None
                held.claim.original = held.claim.original or result["claimedAt"]
                assert (result["fenceToken"], result["originalClaimedAt"]) == (held.fence, held.claim.original)
        released = [self.model.release(agent, item, fence) for item, fence in releases]
        assert [result["outcome"] for result in answer["releaseResults"]] == released

    @precondition(lambda self: any(Model.claimed(item) for item in self.model.items.values()))
    @rule(slot=SLOTS)
    def expire(self, slot: int) -> None:
        """Time passes until one claim is over."""
        live = [item for item in self.model.items.values() if Model.claimed(item)]
        item = live[slot % len(live)]
        assert item.claim is not None
        item.claim.live = False
        item.claim.original = self.run(lapse(self.tools, item.id))

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
            assert found == self.model.next(role, above, limit, include_claimed)

    @precondition(lambda self: self.last is not None)
    @rule()
    def repeat(self) -> None:
        """The last change again under its request id: the same answer, and nothing happens."""
        assert self.last is not None
        tool, arguments, answer = self.last
        assert self.run(self.tools.answer(tool, **arguments)) == answer


@pytest.mark.timeout(400 + EXAMPLES)  # a failure is shrunk for up to five minutes
def test_any_sequence_of_calls_follows_the_model(redis_url: str) -> None:
    session = Session(redis_url)
    Tools.session = session
    try:
        run_state_machine_as_test(
            Tools,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=40,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        session.close()
