"""Concurrent calls over two front-ends are linearizable: their answers are those of some sequential order.

The order is searched with the sequential model of ``test_model``. Deeper:
``LINEAR_EXAMPLES=500 pytest tests/items/test_linearizability.py``.
"""

from __future__ import annotations

import http.client
import os
import threading
import time
from collections.abc import Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.items.client import Json, actor, fresh_id
from tests.items.linear import Operation, order_of
from tests.items.machine import agrees, change_of
from tests.items.model import Model
from tests.items.model_parts import Edge, Item
from tests.items.model_schemas import Note
from tests.support.fleets import MCP_HEADERS, RunningFleet, call_body

EXAMPLES = int(os.environ.get("LINEAR_EXAMPLES", "25"))
CALLERS = 4
DECLARED: Json = {
    "work_item_schemas": {
        "step": {
            "notes": [
                {"key": "plan", "role": "queue", "required": True, "guidance": "Say how."},
                {"key": "done", "role": "work", "required": True},
            ]
        },
        "goal": {"notes": [{"key": "done", "role": "work", "required": True}]},
    },
    "traits": {},
}

# A parent that completes with its children, of which one waits for another, and notes on two of them.
PARENT, FIRST, SECOND, THIRD = range(4)
ITEMS = st.sampled_from([FIRST, FIRST, SECOND, THIRD, PARENT])
NOTED = st.sampled_from([FIRST, FIRST, PARENT])
NOTES = st.tuples(st.sampled_from(["plan", "done"]), st.sampled_from(["text", "text", ""]))
AGENTS = st.sampled_from(["ann", "bob", "cy"])
FENCES = st.sampled_from([None, None, None, "last", 1])
"""Passed with a call: none, the fence of the caller's last known claim, an invalid one."""
TRIGGERS = st.sampled_from(["start", "complete", "complete", "block", "resume", "reopen", "cancel"])
CALL = st.one_of(
    st.tuples(st.just("claim"), AGENTS, ITEMS, FENCES),
    st.tuples(st.just("claim"), AGENTS, ITEMS, FENCES),
    st.tuples(st.just("release"), AGENTS, ITEMS, FENCES),
    st.tuples(st.just("advance"), AGENTS, ITEMS, TRIGGERS),
    st.tuples(st.just("advance"), AGENTS, ITEMS, TRIGGERS),
    st.tuples(st.just("next"), st.sampled_from(["queue", "work", "blocked"]), st.just(0), st.just(0)),
    st.tuples(st.just("get"), st.just(""), ITEMS, st.just(0)),
    st.tuples(st.just("write"), AGENTS, NOTED, NOTES),
    st.tuples(st.just("write"), AGENTS, NOTED, NOTES),
    st.tuples(st.just("context"), st.just(""), NOTED, st.just(0)),
    st.tuples(st.just("end"), AGENTS, st.just(PARENT), st.sampled_from(["complete", "cancel"])),
)
PLANS = st.lists(st.lists(CALL, min_size=3, max_size=6), min_size=CALLERS, max_size=CALLERS)


class Connection:
    """One keep-alive connection, so to one front-end."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.process = ""
        """Names the front-end: its request ids begin with it."""

    def call(self, project: str, tool: str, **arguments: Any) -> Json:
        self._http.request("POST", f"/p/{project}/mcp/items", call_body(tool, arguments), MCP_HEADERS)
        response = self._http.getresponse()
        answer = msgspec.json.decode(response.read())
        assert not answer["result"]["isError"], answer
        self.process = (response.getheader("x-request-id") or "").partition("-")[0]
        return dict(answer["result"]["structuredContent"])

    def close(self) -> None:
        self._http.close()


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Connection]]:
    """The same number to each front-end."""
    folder = tmp_path_factory.mktemp("linear")
    (folder / "config.yaml").write_bytes(msgspec.yaml.encode(DECLARED))
    arguments = ("--config", str(folder / "config.yaml"), "--port", "0", "--frontends", "2", "--workers", "0")
    with ExitStack() as stack:
        fleet = stack.enter_context(RunningFleet(folder / "data", *arguments, FLEET_REQUEST_DEADLINE_MS="20000"))
        fleet.wait_ready()
        found: dict[str, list[Connection]] = {}
        for _ in range(200):  # the kernel distributes them
            made = Connection(fleet.port)
            stack.callback(made.close)
            made.call("warm-up", "get_next_item")
            found.setdefault(made.process, []).append(made)
            if len(found) == 2 and all(len(of_one) >= CALLERS // 2 for of_one in found.values()):
                break
        yield [made for of_one in found.values() for made in of_one[: CALLERS // 2]]


def world(project: str, connection: Connection) -> Model:
    """The items of a new project, and the model of them."""
    model = Model(DECLARED)

    def add(parent: str | None, kind: str | None = None) -> str:
        made = connection.call(
            project,
            "manage_items",
            operation="create",
            requestId=fresh_id(),
            actor=actor("maker"),
            items=[{"title": "t", "parentId": parent, "type": kind}],
        )["items"][0]
        shown = connection.call(project, "query_items", operation="get", id=made["id"])
        fields = {"title": "t", "priority": "medium", "complexity": None, "type": kind}
        model.items[made["id"]] = Item(made["id"], parent, fields, shown["createdAt"])
        return str(made["id"])

    above = add(None, "goal")
    first, second, _ = add(above, "step"), add(above), add(above)
    edge = {"fromItemId": first, "toItemId": second, "type": "BLOCKS"}
    connection.call(
        project,
        "manage_dependencies",
        operation="create",
        requestId=fresh_id(),
        actor=actor("maker"),
        dependencies=[edge],
    )
    model.edges.append(Edge(first, second, "BLOCKS"))
    return model


def state(model: Model) -> Hashable:
    return tuple(
        (
            (it.role, it.label, it.previous, it.fence, it.holder),
            frozenset((key, note.body, note.id) for key, note in it.notes.items()),
        )
        for it in model.items.values()
    )


def run(project: str, connection: Connection, ids: list[str], told: dict[str, int], call: Any) -> Operation[Model]:
    """Makes one call; returns call and outcome. ``told``: the last fences that callers received, by item."""
    kind, who, number, more = call
    item = ids[number]
    began = time.monotonic()
    if kind == "get":
        answer = connection.call(project, "query_items", operation="get", id=item)
        seen = (answer["role"], answer.get("statusLabel"), answer.get("previousRole"))

        def step(model: Model) -> bool:
            it = model.items[item]
            return seen == (it.role, it.label, it.previous)

    elif kind == "next":
        answer = connection.call(project, "get_next_item", role=who, limit=20)
        offered = [(entry["itemId"], False) for entry in answer["recommendations"]]

        def step(model: Model) -> bool:
            return offered == model.next(who, None, 20, include_claimed=False)

    elif kind == "advance":
        transition = {"itemId": item, "trigger": more, "actor": actor(who)}
        answer = connection.call(project, "advance_item", transitions=[transition], requestId=fresh_id())
        result = answer["results"][0]

        def step(model: Model) -> bool:
            expected = model.advance(item, more, who)
            if expected.refusal:
                missing = [need["key"] for need in result.get("missingNotes", [])]
                reason = result.get("errorCode") or result.get("error", "")
                return not result["applied"] and expected.refusal in reason and missing == expected.missing
            return bool(
                result["applied"]
                and (result["previousRole"], result["newRole"]) == (expected.before, expected.after)
                and expected.cascades == [change_of(event) for event in result["cascadeEvents"]]
                and expected.unblocked == {entry["itemId"] for entry in result["unblockedItems"]}
            )

    elif kind == "write":
        key, body = more
        role = "queue" if key == "plan" else "work"
        note = {"itemId": item, "key": key, "role": role, "body": body}
        answer = connection.call(project, "manage_notes", operation="upsert", notes=[note], requestId=fresh_id())
        made, context = answer["notes"][0]["id"], answer["itemContext"][item]

        def step(model: Model) -> bool:
            model.write(item, key, Note(role, body, id=made))
            return model.items[item].notes[key].id == made and context == model.standing(item)

    elif kind == "context":
        answer = connection.call(project, "get_context", itemId=item)

        def step(model: Model) -> bool:
            return model.context(item).items() <= answer.items()

    elif kind == "end":
        answer = connection.call(
            project, "complete_tree", rootId=item, trigger=more, actor=actor(who), requestId=fresh_id()
        )
        ended = answer["results"]

        def step(model: Model) -> bool:
            expected = model.complete([result["itemId"] for result in ended], more, who)
            return all(agrees(result, wanted) for result, wanted in zip(ended, expected, strict=True))

    else:
        part, results = ("claims", "claimResults") if kind == "claim" else ("releases", "releaseResults")
        stated = told.get(item, 1) if more == "last" else more
        entry = {"itemId": item, "fenceToken": stated}
        answer = connection.call(project, "claim_item", actor=actor(who), requestId=fresh_id(), **{part: [entry]})
        outcome, fence = answer[results][0]["outcome"], answer[results][0].get("fenceToken", 0)
        if fence:
            told[item] = fence

        def step(model: Model) -> bool:
            if kind == "release":
                return bool(outcome == model.release(who, item, stated))
            same = [outcome] == model.claim(who, [(item, stated)], fence)[0]
            return same and (outcome != "success" or fence == model.items[item].fence)

    return Operation(f"{call} -> {answer}", began, time.monotonic(), step)


def run_together(
    project: str, connections: list[Connection], ids: list[str], plans: list[list[Any]]
) -> list[Operation[Model]]:
    """Runs the plans, each on a connection of its own, at the same time."""
    line = threading.Barrier(len(plans))
    told: dict[str, int] = {}

    def work(connection: Connection, plan: list[Any]) -> list[Operation[Model]]:
        line.wait(60)
        return [run(project, connection, ids, told, call) for call in plan]

    with ThreadPoolExecutor(len(plans)) as pool:
        return [one for done in pool.map(work, connections, plans) for one in done]


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(plans=PLANS)
def test_every_history_of_two_front_ends_has_an_order(connections: list[Connection], plans: list[list[Any]]) -> None:
    assert len({connection.process for connection in connections}) == 2
    project = f"linear-{fresh_id()[:13]}"
    model = world(project, connections[0])
    history = run_together(project, connections, list(model.items), plans)
    told = "\n".join(
        f"{one.began:.6f} {one.ended:.6f} {one.text}" for one in sorted(history, key=lambda one: one.began)
    )
    assert order_of(history, model, state) is not None, told


def _register(value: int, began: float, ended: float, *, write: bool) -> Operation[list[int]]:
    def step(model: list[int]) -> bool:
        if write:
            model[0] = value
        return model[0] == value

    return Operation(f"{'write' if write else 'read'} {value}", began, ended, step)


def test_the_search_for_an_order_is_correct() -> None:
    write, early, late = (
        _register(1, 0, 10, write=True),
        _register(0, 1, 2, write=False),
        _register(1, 3, 4, write=False),
    )
    found = order_of([write, early, late], [0], tuple)
    assert found is not None
    assert [one.text for one in found] == ["read 0", "write 1", "read 1"]
    # The new value was read, and then the old one again.
    back = _register(0, 5, 6, write=False)
    assert order_of([write, early, late, back], [0], tuple) is None
