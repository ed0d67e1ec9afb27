"""Whose a state is: that of what began the work, however it is nested."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.flows.rules import spec
from tests.support.wait import process_alive, wait_until
from tests.workers.conftest import MakePair
from tests.workers.fleet import chain
from tests.workers.pair import Json, Pair, add

pytestmark = pytest.mark.anyio

SCHEMA: Json = {"type": "object", "properties": {"word": {"type": "string"}}}
KEEP: Json = {"found": "$.output.words", "pid": "$.output.pid"}


def calls(**executor: Any) -> Json:
    """A transition that stays in its state."""
    return {"target": "open", "inputSchema": SCHEMA, "executor": executor, "output": KEEP}


ADD = calls(kind="mcp", connection="it", tool="add")
CLOSE: Json = {"target": "closed"}
WORKFLOWS: Json = {
    "book": {
        "initialState": "open",
        "states": {
            "open": {
                "transitions": {
                    "add": ADD,
                    "child": {
                        "target": "open",
                        "executor": {"kind": "workflow", "definitionId": "page"},
                        "output": {"found": "$.output.found", "pid": "$.output.pid"},
                    },
                    "flow": {
                        "target": "open",
                        "executor": {
                            "kind": "flow",
                            "flow": {"start": {"name": "a", "tool": "it.add", "args": {"word": "f"}, "done": True}},
                        },
                        "output": {"found": "$.output.steps.a.words", "pid": "$.output.steps.a.pid"},
                    },
                    "close": CLOSE,
                }
            },
            "closed": {"terminal": True},
        },
    },
    "page": {
        "initialState": "begun",
        "states": {
            "begun": {
                "transitions": {
                    "go": {
                        "actor": "deterministic",
                        "target": "grown",
                        "executor": {"kind": "workflow", "definitionId": "line"},
                        "output": {"found": "$.output.found", "pid": "$.output.pid"},
                    }
                }
            },
            "grown": {"terminal": True},
        },
    },
    "line": {
        "initialState": "begun",
        "states": {
            "begun": {
                "transitions": {
                    "go": {
                        "actor": "deterministic",
                        "target": "written",
                        "executor": {"kind": "mcp", "connection": "it", "tool": "add", "map": {"word": "line"}},
                        "output": KEEP,
                    }
                }
            },
            "written": {"terminal": True},
        },
    },
}


async def test_an_instance_and_all_that_it_begins_use_one_state(make_pair: MakePair) -> None:
    pair = await make_pair(workflows=WORKFLOWS)
    first, second = await pair.lab.start("book"), await pair.lab.start("book")
    first = await pair.lab.follow(first, "add", word="a")
    second = await pair.lab.follow(second, "add", word="b")
    assert (first["context"]["found"], second["context"]["found"]) == (["a"], ["b"])
    for transition, word in (("child", "line"), ("flow", "f")):
        first = await pair.lab.settled(await pair.lab.follow(first, transition))
        assert first["context"]["found"][-1] == word
    assert first["context"]["found"] == ["a", "line", "f"]
    pid = first["context"]["pid"]
    assert pid != second["context"]["pid"]
    await pair.lab.follow(first, "close")
    await wait_until(lambda: not process_alive(pid), what="the state ends with its instance")
    assert process_alive(second["context"]["pid"])


def creates(flow: Json) -> Json:
    """Of a step that begins a flow."""
    return {"tool": "workflow_create", "args": {"name": "inner", "flow": flow}}


async def found(pair: Pair, flow: int) -> Json:
    """What the last step of a flow has returned."""
    (ended,) = await pair.flows.ended([flow])
    assert ended.row.status == "completed", ended
    value: Json = json.loads(ended.steps[-1].result_json or "")
    return value


async def begun(pair: Pair, parent: int) -> int:
    """The flow that a step of another one begins."""

    async def child() -> int:
        listed = await pair.flows.flows.list(pair.project, limit=10)
        return next((int(one.id) for one in listed.rows if one.parent == str(parent)), 0)

    return await wait_until(child, what=f"the flow that {parent} begins")


async def test_a_flow_and_all_that_it_begins_use_one_state(make_pair: MakePair) -> None:
    pair = await make_pair()
    inmost: Json = {"start": {"name": "c", "tool": "it.add", "args": {"word": "inmost"}, "done": True}}
    inner: Json = {
        "start": {"name": "b", "tool": "it.add", "args": {"word": "inner"}, "next": "more"},
        "more": {"name": "m", **creates(inmost), "done": True},
    }
    outer = chain(add("outer"), creates(inner), {"tool": None, "gate": True}, add("end"))
    number = await pair.flows.create(outer)
    child = await begun(pair, number)
    grandchild = await begun(pair, child)
    assert (await found(pair, grandchild))["words"] == ["outer", "inner", "inmost"]
    pid = (await found(pair, grandchild))["pid"]
    assert process_alive(pid)
    step = await pair.flows.step(number, "s2")
    await pair.flows.flows.release(pair.project, NO_KEY, step.id, "alice")
    assert (await found(pair, number))["words"] == ["outer", "inner", "inmost", "end"]
    await wait_until(lambda: not process_alive(pid), what="the state ends with the outermost flow")


async def test_a_state_stays_while_a_flow_uses_it_that_outlives_the_outermost_one(make_pair: MakePair) -> None:
    pair = await make_pair()
    inner: Json = {
        "start": {"name": "b", "tool": "it.add", "args": {"word": "inner"}, "next": "wait"},
        "wait": {"name": "w", "tool": None, "gate": True, "next": "more"},
        "more": {"name": "m", "tool": "it.add", "args": {"word": "more"}, "done": True},
    }
    number = await pair.flows.create(chain(add("outer"), creates(inner)))
    child = await begun(pair, number)
    await found(pair, number)

    async def waiting() -> int:
        steps = (await pair.flows.get(child)).steps
        return next((step.id for step in steps if step.key == "wait"), 0)

    gate = await wait_until(waiting, what="the inner flow waits")
    await pair.owner().states.end_those_over()
    await pair.flows.flows.release(pair.project, NO_KEY, gate, "alice")
    last = await found(pair, child)
    assert last["words"] == ["outer", "inner", "more"]
    await wait_until(lambda: not process_alive(last["pid"]), what="the state ends with the last of them")


async def test_a_stated_parent_gives_no_access_to_its_state(make_pair: MakePair) -> None:
    pair = await make_pair()
    number = await pair.flows.create(chain(add("mine"), {"tool": None, "gate": True}, add("end")))
    await pair.flows.step(number, "start")
    made = creates({"start": {"name": "x", "tool": "it.add", "args": {"word": "theirs"}, "done": True}})
    made["args"]["parent"] = number
    (ended,) = await pair.flows.ended([await pair.flows.create(chain(made))])
    child = json.loads(ended.steps[-1].result_json or "")["id"]
    assert (await found(pair, child))["words"] == ["theirs"]


async def test_sessions_that_a_flow_begins_use_its_state(make_pair: MakePair) -> None:
    pair = await make_pair()
    start = {"definitionId": "proxy_default", "input": {"capability": "add", "word": "session"}}
    flow: spec.Flow = chain(add("flow"), {"tool": "workflow.start", "args": start})
    answer = await found(pair, await pair.flows.create(flow))
    assert answer["context"]["lastResult"]["words"] == ["flow", "session"]
