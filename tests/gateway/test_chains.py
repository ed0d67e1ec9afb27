"""Automatic transitions, and executors on entry."""

from __future__ import annotations

import pytest

from tests.gateway.conftest import MakeLab
from tests.gateway.lab import Json, states
from tests.gateway.workflows import COUNT, Working, auto, sh

pytestmark = pytest.mark.anyio


async def test_a_start_chains_to_the_first_decision(make_lab: MakeLab) -> None:
    lab = make_lab(
        workflows={
            "w": states(
                a={"transitions": {"one": auto("b", **COUNT)}},
                b={"transitions": {"two": auto("c", **COUNT)}},
                c={"transitions": {"stop": {"target": "a"}}},
            )
        }
    )
    answer = await lab.start("w")
    assert (answer["state"], answer["version"], answer["context"]) == ("c", 3, {"n": 2})
    assert answer["chain"] == [
        {"fromState": "a", "transition": "one", "toState": "b", "version": 2},
        {"fromState": "b", "transition": "two", "toState": "c", "version": 3},
    ]
    assert [link["args"]["expectedVersion"] for link in answer["links"]] == [3]
    # A submit's own hop is not part of its chain.
    again = await lab.follow(answer, "stop")
    assert [hop["version"] for hop in again["chain"]] == [5, 6]
    assert "chain" not in await lab.get(again)
    types = [entry.type for entry in await lab.audit(answer)]
    assert types.count("chain.step") == 4
    assert types.count("chain.completed") == 2


async def test_guards_choose_among_deterministic_transitions(make_lab: MakeLab) -> None:
    def when(value: int, target: str) -> Json:
        return auto(target, guards=[{"kind": "expr", "expr": f"$.workflow.input.x == {value}"}])

    lab = make_lab(
        workflows={
            "w": states(
                a={"transitions": {"one": when(1, "b"), "two": when(2, "c"), "other": when(2, "b")}},
                b={"terminal": True},
                c={"terminal": True},
            )
        }
    )
    assert (await lab.start("w", x=1))["state"] == "b"
    cases: list[tuple[int, list[str | None]]] = [(2, ["two", "other"]), (3, [])]
    for several_or_none, legal in cases:
        refused = await lab.refused("workflow.start", definitionId="w", input={"x": several_or_none})
        assert refused["error"]["code"] == "CHAIN_FAILED"
        assert refused["error"]["details"]["errorClass"] == "selection_error"
        assert (refused["state"], refused["version"]) == ("a", 1)
        # The moves that no guard rejects can be submitted by hand, and the instance says why it stopped there.
        assert [link["args"].get("transition") for link in refused["links"]] == [None, *legal]
        found = await lab("workflow.get", workflowId=refused["workflowId"])
        assert found["lastFailure"]["code"] == "CHAIN_FAILED"
        assert [link["args"].get("transition") for link in found["links"]] == (legal or [None])
        assert {link.get("actor") for link in found["links"]} == ({"deterministic"} if legal else {None})


async def test_guards_of_a_single_candidate_are_evaluated(make_lab: MakeLab) -> None:
    closed = [{"kind": "expr", "expr": "1 == 2"}]
    lab = make_lab(workflows={"w": states(a={"transitions": {"go": auto("b", guards=closed)}}, b={"terminal": True})})
    refused = await lab.refused("workflow.start", definitionId="w", input={})
    assert refused["error"]["code"] == "CHAIN_FAILED"
    by_hand = await lab.follow_refused(refused, "go")
    assert by_hand["error"]["code"] == "GUARD_REJECTED"


async def test_schema_defaults_apply_in_chains(working: Working) -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer", "default": 20}}}

    def when(comparison: str, target: str) -> Json:
        guard = {"kind": "expr", "expr": f"$.arguments.count {comparison}"}
        return auto(target, inputSchema=schema, guards=[guard], output={"counted": "$.arguments.count"})

    look = auto("b", executor={"capability": "log"}, output={"seen": "$.output.json"})
    lab = await working(
        capabilities={"log": {"inputSchema": schema, "executor": sh('echo "$1"', "$.arguments.count")}},
        workflows={
            "w": states(
                a={"transitions": {"look": look}},
                b={"transitions": {"few": when("< 20", "c"), "many": when(">= 20", "d")}},
                c={"terminal": True},
                d={"terminal": True},
            )
        },
    )
    answer = await lab.start("w")
    assert (answer["state"], answer["context"]) == ("d", {"seen": 20, "counted": 20})


async def test_the_depth_of_a_chain_is_limited(make_lab: MakeLab) -> None:
    lab = make_lab(workflows={"w": {**states(a={"transitions": {"again": auto("a", **COUNT)}}), "maxChainDepth": 3}})
    answer = await lab.start("w")
    assert answer["chainStopped"] == "depth_limit"
    assert (answer["version"], answer["context"], len(answer["chain"])) == (4, {"n": 3}, 3)
    (link,) = answer["links"]
    assert link["args"] == {
        "workflowId": answer["workflowId"], "expectedVersion": 4, "transition": "again", "arguments": {},
    }  # fmt: skip
    assert (await lab.follow(answer, "again"))["context"] == {"n": 7}


async def test_a_failed_chain_keeps_its_committed_hops(working: Working) -> None:
    lab = await working(
        workflows={
            "w": states(
                a={"transitions": {"go": {"target": "b", **COUNT}}},
                b={"transitions": {"pass": auto("c", executor=sh("echo ok"), **COUNT)}},
                c={"transitions": {"fail": auto("d", executor=sh("echo sorry >&2; exit 3"))}},
                d={"terminal": True},
            )
        }
    )
    refused = await lab.follow_refused(await lab.start("w"), "go")
    assert refused["error"]["code"] == "EXECUTOR_FAILED"
    assert "ended with code 3: sorry" in refused["error"]["message"]
    assert refused["error"]["details"] == {
        "errorClass": "permanent_error", "chain": True, "attemptedTransition": "fail",
    }  # fmt: skip
    assert (refused["state"], refused["version"]) == ("c", 3)
    assert refused["chain"] == [{"fromState": "b", "transition": "pass", "toState": "c", "version": 3}]
    assert [link["rel"] for link in refused["links"]] == ["self", "transition"]
    found = await lab.get(refused)
    assert (found["state"], found["version"], found["context"]) == ("c", 3, {"n": 2})
    failed = await lab.follow_refused(found, "fail")
    assert "chain" not in failed["error"]["details"]
    assert "chain.failed" in [entry.type for entry in await lab.audit(refused)]
    assert await lab.told(refused) == ["gateway_started", *["gateway_moved"] * 2, *["gateway_failed"] * 2]


async def test_a_chain_over_executors_is_one_answer(working: Working) -> None:
    lab = await working(
        workflows={
            "w": states(
                a={"transitions": {"one": auto("b", executor=sh("echo 1"), output={"one": "$.output.json"})}},
                b={"transitions": {"two": auto("c", executor=sh("echo 2"), output={"two": "$.output.json"})}},
                c={"terminal": True},
            )
        }
    )
    answer = await lab.start("w")
    assert (answer["state"], answer["version"], answer["terminal"]) == ("c", 3, True)
    assert answer["context"] == {"one": 1, "two": 2}
    assert len({entry.correlation_id for entry in await lab.audit(answer)}) == 1


async def test_entry_is_part_of_the_transition(working: Working) -> None:
    lab = await working(
        workflows={
            "w": states(
                a={"transitions": {"go": {"target": "b", "output": {"sent": "$.arguments.text"}}}},
                b={
                    "onEnter": {
                        "executor": sh('echo "seen $1"', "$.context.sent"),
                        "output": {"seen": "$.output.text"},
                    },
                    "transitions": {"again": {"target": "b", "output": {"sent": "twice"}}},
                },
            )
        }
    )
    at = await lab.follow(await lab.start("w"), "go", text="once")
    assert (at["state"], at["version"], at["context"]) == ("b", 2, {"sent": "once", "seen": "seen once"})
    at = await lab.follow(at, "again")
    assert (at["version"], at["context"]) == (3, {"sent": "twice", "seen": "seen twice"})


async def test_a_failing_entry_fails_the_transition(working: Working) -> None:
    lab = await working(
        workflows={
            "w": states(
                a={"transitions": {"go": {"target": "b", "executor": sh("echo 1"), "output": {"x": 1}}}},
                b={"onEnter": {"executor": sh("exit 1")}, "transitions": {"back": {"target": "a"}}},
            )
        }
    )
    started = await lab.start("w")
    refused = await lab.follow_refused(started, "go")
    assert refused["error"]["code"] == "EXECUTOR_FAILED"
    # The transition's own executor has succeeded.
    assert refused["error"]["message"].startswith("The executor of the entry into state 'b' failed: ")
    found = await lab.get(started)
    assert (found["state"], found["version"], found["context"]) == ("a", 1, {})
    assert found["lastFailure"]["transition"] == "go"


async def test_a_start_executes_the_entry_into_its_first_state(working: Working) -> None:
    entered = {"onEnter": {"executor": sh("echo 5"), "output": {"n": "$.output.json"}}}
    lab = await working(
        workflows={
            "good": states(a={**entered, "transitions": {"go": {"target": "a"}}}),
            "bad": states(a={"onEnter": {"executor": sh("exit 2")}, "transitions": {"go": {"target": "a"}}}),
        }
    )
    started = await lab.start("good")
    assert (started["version"], started["context"]) == (1, {"n": 5})
    refused = await lab.refused("workflow.start", definitionId="bad", input={})
    assert refused["error"]["code"] == "EXECUTOR_FAILED"
    assert [link["rel"] for link in refused["links"]] == ["self", "start"]
    found = await lab.get(refused)
    assert found["terminal"] is True
    assert found["outcome"] == "failure"


@pytest.mark.parametrize("kind", ["workflow", "human"])
async def test_the_entry_into_the_first_state_is_not_confused_with_the_next(working: Working, kind: str) -> None:
    """The version is 1 during both."""

    def entry(name: str) -> Json:
        named = {"definitionId": name} if kind == "workflow" else {"queue": name}
        return {"executor": {"kind": kind, **named}, "output": {name: "$.output"}}

    lab = await working(
        workflows={
            "w": states(
                a={"onEnter": entry("one"), "transitions": {"go": auto("b")}},
                b={"onEnter": entry("two"), "transitions": {"end": {"target": "a", "actor": "human"}}},
            ),
            "one": states(done={"terminal": True}) | {"initialContext": {"is": "one"}},
            "two": states(done={"terminal": True}) | {"initialContext": {"is": "two"}},
        }
    )
    at = await lab.start("w")
    assert at["state"] == "b"
    if kind == "workflow":
        assert at["context"] == {"one": {"is": "one"}, "two": {"is": "two"}}
    else:
        assert at["context"]["one"]["requestId"] != at["context"]["two"]["requestId"]
        assert [one["requestId"] for one in at["pendingHuman"]] == [at["context"]["two"]["requestId"]]
