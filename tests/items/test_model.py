"""The tools against a model of seed 004's rules: any sequence of calls gets the answers that the model gives.

Deeper: ``MODEL_EXAMPLES=2000 pytest tests/items/test_model.py``.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
import redis
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
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

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "60"))
T = TypeVar("T")

AGENTS = st.sampled_from(["ann", "bob", "cy"])
TRIGGERS = st.sampled_from(["start", "start", "complete", "complete", "block", "hold", "resume", "cancel", "reopen"])
TYPES = st.sampled_from(["BLOCKS", "BLOCKS", "IS_BLOCKED_BY", "RELATES_TO"])
THRESHOLDS = st.sampled_from([None, "queue", "work", "review", "terminal"])
ROLES = st.sampled_from(["queue", "queue", "queue", "work", "review", "blocked", "terminal"])
PRIORITIES = st.sampled_from(["high", "medium", "low"])
COMPLEXITIES = st.none() | st.integers(1, 10)
FENCES = st.none() | st.none() | st.integers(1, 4)


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
    items: Bundle[str] = Bundle("items")

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
        if "requestId" not in arguments:
            arguments |= {"requestId": fresh_id()}
        answer = self.run(self.tools.answer(tool, **arguments))
        self.last = (tool, arguments, answer)
        note(answer.decode())
        return dict(json.loads(answer))

    def teardown(self) -> None:
        report = self.run(audit(self.session.store, self.tools.project))
        with redis.Redis(**parse(self.session.url).client_options()) as client:
            leaks.delete_keys(client, self.tools.project)
        assert not report.differences
        assert (report.items, report.edges) == (len(self.model.items), len(self.model.edges))
        assert report.claims == sum(item.claim is not None for item in self.model.items.values())

    # --- items

    @initialize(target=items, count=st.integers(2, 5))
    def begin(self, count: int) -> Any:
        return multiple(*(self._create(None, "queue", "medium", None) for _ in range(count)))

    @rule(
        target=items,
        parent=st.none() | items,
        role=ROLES,
        priority=PRIORITIES,
        complexity=COMPLEXITIES,
    )
    def create(self, parent: str | None, role: str, priority: str, complexity: int | None) -> Any:
        made = self._create(parent, role, priority, complexity)
        return multiple(made) if made else multiple()

    def _create(self, parent: str | None, role: str, priority: str, complexity: int | None) -> str:
        spec = {"title": "t", "parentId": parent, "role": role, "priority": priority, "complexity": complexity}
        answer = self.change("manage_items", operation="create", items=[spec], actor=actor("ann"))
        refusal = self.model.create_refusal(parent)
        if refusal:
            assert refusal in answer["failures"][0]["error"]
            return ""
        (made,) = answer["items"]
        created = self.run(self.tools.get(made["id"]))["createdAt"]
        self.model.items[made["id"]] = Item(made["id"], parent, role, priority, complexity, created)
        assert (made["role"], made["depth"]) == (role, self.model.depth(made["id"]))
        return str(made["id"])

    @rule(item=items, priority=PRIORITIES, complexity=COMPLEXITIES)
    def update(self, item: str, priority: str, complexity: int | None) -> None:
        spec = {"id": item, "priority": priority, "complexity": complexity}
        answer = self.change("manage_items", operation="update", items=[spec], actor=actor("ann"))
        known = self.model.items.get(item)
        assert (answer["updated"], answer["failed"]) == ((1, 0) if known else (0, 1))
        if known:
            known.priority, known.complexity = priority, complexity

    @rule(item=items, parent=st.none() | items)
    def move(self, item: str, parent: str | None) -> None:
        changes = [{"id": item, "parentId": parent}]
        answer = self.change("manage_items", operation="update", items=changes, actor=actor("ann"))
        refusal = self.model.move(item, parent) if item in self.model.items else "no such item"
        if refusal:
            assert refusal in answer["failures"][0]["error"]
        else:
            assert answer["updated"] == 1

    @rule(ids=st.lists(items, min_size=1, max_size=2), recursive=st.booleans())
    def delete(self, ids: list[str], recursive: bool) -> None:
        answer = self.change("manage_items", operation="delete", ids=ids, recursive=recursive, actor=actor("ann"))
        assert answer == self.model.delete(ids, recursive)

    @rule(item=consumes(items))
    def forget(self, item: str) -> None:
        """Keeps the share of deleted items small."""
        self.delete([item], True)

    @rule(item=items)
    def get(self, item: str) -> None:
        if item not in self.model.items:
            assert not self.run(self.tools.exists(item))
            return
        known, shown = self.model.items[item], self.run(self.tools.get(item, includeAncestors=True))
        names = ("role", "parentId", "priority", "complexity", "statusLabel", "previousRole", "depth")
        assert [shown.get(name) for name in names] == [
            known.role,
            known.parent,
            known.priority,
            known.complexity,
            known.label,
            known.previous,
            self.model.depth(item),
        ]
        assert [each["id"] for each in reversed(shown["ancestors"])] == [each.id for each in self.model.above(item)]

    # --- dependencies

    @rule(batch=st.lists(st.tuples(items, items, TYPES, THRESHOLDS), min_size=1, max_size=3))
    def link(self, batch: list[tuple[str, str, str, str | None]]) -> None:
        edges = [Edge(source, target, kind, None if kind == "RELATES_TO" else at) for source, target, kind, at in batch]
        specs = [
            {"fromItemId": edge.source, "toItemId": edge.target, "type": edge.type, "unblockAt": edge.threshold}
            for edge in edges
        ]
        answer = self.change("manage_dependencies", operation="create", dependencies=specs, actor=actor("ann"))
        refusals = self.model.link(edges)
        failures = answer.get("failures", [])
        assert answer["created"] == (0 if refusals else len(edges))
        assert [failure["index"] for failure in failures] == [number for number, _ in refusals]
        assert all(reason in failure["error"] for failure, (_, reason) in zip(failures, refusals, strict=True))

    @rule(source=items, other=st.none() | items)
    def unlink(self, source: str, other: str | None) -> None:
        selector: Json = {"deleteAll": True} if other is None else {"toItemId": other}
        answer = self.change(
            "manage_dependencies", operation="delete", fromItemId=source, **selector, actor=actor("ann")
        )
        assert answer["deleted"] == self.model.unlink(source, other)

    # --- work

    @rule(
        steps=st.lists(st.tuples(items, TRIGGERS, FENCES), min_size=1, max_size=3),
        agent=st.just("") | AGENTS,
    )
    def advance(self, steps: list[tuple[str, str, int | None]], agent: str) -> None:
        transitions = [
            {"itemId": item, "trigger": trigger, "fenceToken": fence, "actor": actor(agent) if agent else None}
            for item, trigger, fence in steps
        ]
        answer = self.change("advance_item", transitions=transitions)
        if not agent:
            self.last = None
        for (item, trigger, fence), result in zip(steps, answer["results"], strict=True):
            self._compare(result, self.model.advance(item, trigger, agent, fence))

    def _compare(self, result: Json, expected: Outcome) -> None:
        if expected.refusal:
            assert not result["applied"]
            assert expected.refusal in (result.get("errorCode"), *[result["error"]]) or (
                expected.refusal in result["error"]
            )
            blockers = {(b["fromItemId"], b["currentRole"], b["requiredRole"]) for b in result.get("blockers", [])}
            assert blockers == expected.blockers
            return
        assert result["applied"], result
        assert (result["previousRole"], result["newRole"]) == (expected.before, expected.after)
        assert result.get("statusLabel") == expected.label
        cascades = [(e["itemId"], e["previousRole"], e["targetRole"]) for e in result["cascadeEvents"]]
        assert cascades == expected.cascades
        unblocked = [entry["itemId"] for entry in result["unblockedItems"]]
        assert len(unblocked) == len(set(unblocked))
        assert set(unblocked) == expected.unblocked

    @rule(
        agent=AGENTS,
        claims=st.lists(st.tuples(items, FENCES), max_size=2),
        releases=st.lists(st.tuples(items, FENCES), max_size=2),
    )
    def claim(self, agent: str, claims: list[tuple[str, int | None]], releases: list[tuple[str, int | None]]) -> None:
        if not claims and not releases:
            return
        entries = [[{"itemId": item, "fenceToken": fence} for item, fence in part] for part in (claims, releases)]
        answer = self.change("claim_item", actor=actor(agent), claims=entries[0], releases=entries[1])
        outcomes = self.model.claim(agent, claims)
        assert [result["outcome"] for result in answer["claimResults"]] == outcomes
        for result in answer["claimResults"]:
            if result["outcome"] == "success":
                held = self.model.items[result["itemId"]]
                assert held.claim is not None
                held.claim.original = held.claim.original or result["claimedAt"]
                assert (result["fenceToken"], result["originalClaimedAt"]) == (held.fence, held.claim.original)
        released = [self.model.release(agent, item, fence) for item, fence in releases]
        assert [result["outcome"] for result in answer["releaseResults"]] == released

    @precondition(lambda self: any(Model.claimed(item) for item in self.model.items.values()))
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        """Time passes until one claim is over."""
        live = sorted(item.id for item in self.model.items.values() if Model.claimed(item))
        item = self.model.items[data.draw(st.sampled_from(live))]
        assert item.claim is not None
        item.claim.live = False
        item.claim.original = self.run(lapse(self.tools, item.id))

    @rule(
        role=st.sampled_from(["queue", "queue", "work", "review", "blocked"]),
        parent=st.none() | items,
        limit=st.sampled_from([1, 2, 20]),
        include_claimed=st.booleans(),
    )
    def next(self, role: str, parent: str | None, limit: int, include_claimed: bool) -> None:
        arguments = {"role": role, "parentId": parent, "limit": limit, "includeClaimed": include_claimed}
        if parent is not None and parent not in self.model.items:
            assert self.run(self.tools.refusal("get_next_item", **arguments)).code == "RESOURCE_NOT_FOUND"
            return
        answer = self.run(self.tools("get_next_item", **arguments))
        found = [(entry["itemId"], entry.get("isClaimed", False)) for entry in answer["recommendations"]]
        assert found == self.model.next(role, parent, limit, include_claimed)

    @precondition(lambda self: self.last is not None)
    @rule()
    def repeat(self) -> None:
        """The last change again under its request id: the same answer, and nothing happens."""
        assert self.last is not None
        tool, arguments, answer = self.last
        assert self.run(self.tools.answer(tool, **arguments)) == answer


@pytest.mark.timeout(60 + EXAMPLES)
def test_any_sequence_of_calls_follows_the_model(redis_url: str) -> None:
    session = Session(redis_url)
    Tools.session = session
    try:
        run_state_machine_as_test(
            Tools,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=40,
                deadline=None,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        session.close()
