"""The calls of ``tools_at_scale``: all 14 tools on loaded items, as JSON arguments."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

from benchmarks.loader import FAMILY, item_id, title
from benchmarks.support import Failed
from coordinator.toolsets.items.rules.ids import dashed

Json = dict[str, Any]
_TRIES = 1000


class World:
    """The items on one server, and those that the calls have created.

    Args:
        size: how many items were loaded.
        seed: worlds with the same seed make the same choices.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.pick = random.Random(seed)
        self.agents = 0
        self.made: list[str] = []
        """Ids of items that were created singly, to be deleted."""
        self.trees: list[str] = []
        """Roots of trees that were created, to be completed."""
        self.changed: set[str] = set()
        """Tasks that were claimed or started: another such call could be refused."""
        self.noted: list[str] = []
        self.linked: list[tuple[str, str]] = []

    def number(self) -> int:
        """A task's number. The second half of each family is never completed, so no feature is."""
        return self.pick.randrange(self.size // FAMILY) * FAMILY + self.pick.randrange(1, FAMILY // 2)

    def task(self) -> str:
        """A task's id."""
        return dashed(item_id(self.number()))

    def fresh(self) -> str:
        """The id of a task that no call has claimed or started. Raises Failed: there are too few items."""
        found = next(filter(lambda task: task not in self.changed, (self.task() for _ in range(_TRIES))), "")
        if not found:
            raise Failed(f"{self.size} items are too few for so many calls")
        self.changed.add(found)
        return found

    def feature(self) -> str:
        """A feature's id."""
        return dashed(item_id(self.pick.randrange(self.size // FAMILY) * FAMILY))

    def signed(self, **arguments: Any) -> Json:
        """Arguments of a call that changes something, by one of 200 agents."""
        self.agents += 1
        actor = {"id": f"agent-{self.agents % 200}", "kind": "subagent", "parent": "orchestrator-1"}
        return {"actor": actor, "requestId": str(uuid4()), **arguments}

    def learn(self, case: Case, answer: Mapping[str, Any]) -> None:
        """Records what a call has created."""
        if case.name == "manage_items create":
            self.made += [item["id"] for item in answer["items"]]
        elif case.tool == "create_work_tree":
            self.trees.append(answer["root"]["id"])
        elif case.tool == "claim_item":
            self.changed |= {one["itemId"] for one in answer["claimResults"]}


class Case(NamedTuple):
    """One kind of call."""

    tool: str
    label: str
    make: Callable[[World], Json]
    scans: bool = False
    """Scans every item, so its time may grow with their number."""

    @property
    def name(self) -> str:
        """The name to print."""
        return f"{self.tool} {self.label}".strip()


def _create(world: World) -> Json:
    item = {"title": title(world.number()), "priority": "medium", "tags": "area-03,topic-007"}
    return world.signed(operation="create", items=[item], parentId=world.feature())


def _update(world: World) -> Json:
    return world.signed(operation="update", items=[{"id": world.task(), "title": title(world.number() + 1)}])


def _delete(world: World) -> Json:
    return world.signed(operation="delete", ids=[world.made.pop()])


def _tree(world: World) -> Json:
    children = [{"ref": f"t{n}", "title": title(n), "priority": "low", "tags": "area-05"} for n in range(4)]
    return world.signed(
        root={"title": title(9), "tags": "area-05"},
        children=children,
        deps=[{"from": "t0", "to": "t1"}, {"from": "t1", "to": "t2"}],
        notes=[{"itemRef": "t0", "key": "scope", "role": "queue", "body": "What is in and what is not."}],
    )


def _note(world: World) -> Json:
    world.noted.append(world.task())
    note = {"itemId": world.noted[-1], "key": "findings", "role": "work", "body": "What was found. " * 20}
    return world.signed(operation="upsert", notes=[note])


def _link(world: World) -> Json:
    # From an earlier item to a later one, so there is no cycle.
    first, second = sorted((world.number(), world.number()))
    world.linked.append((dashed(item_id(first)), dashed(item_id(second + (first == second)))))
    edge = {"fromItemId": world.linked[-1][0], "toItemId": world.linked[-1][1], "type": "BLOCKS"}
    return world.signed(operation="create", dependencies=[edge])


def _unlink(world: World) -> Json:
    first, second = world.linked.pop()
    return world.signed(operation="delete", fromItemId=first, toItemId=second)


def _advance(trigger: str) -> Callable[[World], Json]:
    def make(world: World) -> Json:
        signed = world.signed()
        return {"transitions": [{"itemId": world.fresh(), "trigger": trigger, "actor": signed["actor"]}],
                "requestId": signed["requestId"]}  # fmt: skip

    return make


def _since(_world: World) -> Json:
    return {"since": datetime.fromtimestamp(time.time() - 30, UTC).isoformat(), "includeAncestors": True}


CASES = (
    Case("manage_items", "create", _create),
    Case("manage_items", "update", _update),
    Case("manage_items", "delete", _delete),
    Case("query_items", "get", lambda w: {"operation": "get", "id": w.task(), "includeAncestors": True}),
    Case("query_items", "get by 10 digits", lambda w: {"operation": "get", "id": item_id(w.number())[:10]}),
    Case("query_items", "search, parent", lambda w: {"operation": "search", "parentId": w.feature(), "role": "queue"}),
    Case("query_items", "search, one tag", lambda w: {"operation": "search", "tags": "area-13", "limit": 20}),
    Case("query_items", "search, newest", lambda w: {"operation": "search", "role": "queue", "limit": 50}),
    Case("query_items", "search, text", lambda w: {"operation": "search", "query": f"{w.number():07d}"}, True),
    Case("query_items", "overview, item", lambda w: {"operation": "overview", "itemId": w.feature()}),
    Case("query_items", "overview, all", lambda w: {"operation": "overview", "includeChildren": True}, True),
    Case("create_work_tree", "", _tree),
    Case("complete_tree", "", lambda w: w.signed(rootId=w.trees.pop(), trigger="complete")),
    Case("manage_notes", "upsert", _note),
    Case("query_notes", "list", lambda w: {"operation": "list", "itemId": w.noted.pop()}),
    Case("manage_dependencies", "create", _link),
    Case(
        "query_dependencies",
        "graph",
        lambda w: {"itemId": w.pick.choice(w.linked)[0], "includeItemInfo": True, "neighborsOnly": False},
    ),
    Case("get_blocked_items", "", lambda w: {"includeItemDetails": True}),
    Case("manage_dependencies", "delete", _unlink),
    Case("advance_item", "start", _advance("start")),
    Case("advance_item", "block", _advance("block")),
    Case("get_next_status", "", lambda w: {"itemId": w.task()}),
    Case("get_context", "item", lambda w: {"itemId": w.task(), "includeAncestors": True}),
    Case("get_context", "resume", _since),
    Case("get_context", "health", lambda w: {}),
    Case("get_next_item", "", lambda w: {"limit": 5, "includeDetails": True, "includeAncestors": True}),
    Case("get_next_item", "one tag", lambda w: {"limit": 5, "tags": "area-11"}),
    Case("claim_item", "by id", lambda w: w.signed(claims=[{"itemId": w.fresh()}])),
    Case("claim_item", "selector", lambda w: w.signed(claims=[{"selector": {}}])),
    Case("claim_item", "selector, one tag", lambda w: w.signed(claims=[{"selector": {"tags": "area-04"}}])),
)
