"""Submits: the order of the checks, refusals and their codes, and the writes of a transition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.settings.sections.gateway.executor import Guard
from coordinator.toolsets.gateway.rules.guards import Circumstances, Principal, refused
from coordinator.toolsets.gateway.rules.scope import Scope
from tests.gateway.conftest import MakeLab
from tests.gateway.lab import Json, Lab, states
from tests.gateway.workflows import COUNT

pytestmark = pytest.mark.anyio

REVIEW = states(
    written={
        "transitions": {
            "ask": {
                "target": "asked",
                "title": "Ask for a review",
                "inputSchema": {
                    "type": "object",
                    "required": ["reviewer"],
                    "properties": {
                        "reviewer": {"type": "string"},
                        "lines": {"type": "integer", "default": 10},
                        "options": {"type": "object", "properties": {"urgent": {"type": "boolean", "default": False}}},
                    },
                    "additionalProperties": False,
                },
                "guards": [{"kind": "expr", "expr": "$.arguments.lines <= 400"}],
                "output": {"reviewer": "$.arguments.reviewer", "lines": "$.arguments.lines"},
            },
            "sweep": {"target": "gone", "actor": "system"},
        }
    },
    asked={
        "goal": "Have somebody look at it",
        "guidance": "Wait for the reviewer.",
        "transitions": {
            "approve": {"target": "approved", "actor": "human", "output": {"by": "$.arguments.name"}},
            "drop": {"target": "gone"},
        },
    },
    approved={"terminal": True, "outcome": "success"},
    gone={"terminal": True, "outcome": "failure"},
)


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    return make_lab(workflows={"review": {"title": "Review", **REVIEW}})


async def test_a_start_shows_what_can_be_done(lab: Lab) -> None:
    answer = await lab.start("review")
    assert answer["workflowId"].startswith("wf_")
    assert len(answer["workflowId"]) >= 15
    (link,) = answer.pop("links")
    assert answer == {
        "workflowId": answer["workflowId"],
        "definitionId": "review",
        "state": "written",
        "version": 1,
        "context": {},
    }
    assert link["rel"] == "transition"
    assert link["title"] == "Ask for a review"
    assert link["method"] == "workflow.submit"
    assert link["args"] == {
        "workflowId": answer["workflowId"],
        "expectedVersion": 1,
        "transition": "ask",
        "arguments": {},
    }
    assert link["input_schema"]["required"] == ["reviewer"]


async def test_a_transition_raises_the_version_and_writes_the_context(lab: Lab) -> None:
    answer = await lab.follow(await lab.start("review"), "ask", reviewer="ana")
    assert (answer["state"], answer["version"]) == ("asked", 2)
    assert answer["context"] == {"reviewer": "ana", "lines": 10}
    assert answer["guidance"] == {"goal": "Have somebody look at it", "instructions": "Wait for the reviewer."}
    assert [link["args"]["transition"] for link in answer["links"]] == ["approve", "drop"]
    assert await lab.get(answer) == answer


async def test_a_terminal_state_has_no_links(lab: Lab) -> None:
    answer = await lab.follow(await lab.follow(await lab.start("review"), "ask", reviewer="ana"), "drop")
    assert answer["terminal"] is True
    assert answer["outcome"] == "failure"
    assert answer["links"] == []
    refused = await lab.follow_refused(answer, "drop")
    assert refused["error"]["code"] == "INVALID_TRANSITION"
    assert [link["rel"] for link in refused["links"]] == ["self"]


async def test_defaults_fill_existing_objects(lab: Lab) -> None:
    seen = await lab.follow(await lab.start("review"), "ask", reviewer="ana", options={})
    assert seen["context"]["lines"] == 10
    requested = next(entry for entry in await lab.audit(seen) if entry.type == "transition.requested")
    assert requested.payload["arguments"] == {"reviewer": "ana", "options": {"urgent": False}, "lines": 10}


# Each wrong submit also fails all later checks.
ORDER: list[tuple[str, str, Json]] = [
    ("STALE_WORKFLOW_VERSION", "no_such", {"expectedVersion": 7}),
    ("INVALID_TRANSITION", "no_such", {}),
    ("ACTOR_MISMATCH", "sweep", {"arguments": {"lines": "many"}}),
    ("INPUT_SCHEMA_VIOLATION", "ask", {"arguments": {"lines": 500}}),
    ("GUARD_REJECTED", "ask", {"arguments": {"reviewer": "ana", "lines": 500}}),
]


@pytest.mark.parametrize(("code", "transition", "wrong"), ORDER)
async def test_checks_come_in_order_and_change_nothing(lab: Lab, code: str, transition: str, wrong: Json) -> None:
    started = await lab.start("review")
    asked: Json = {"workflowId": started["workflowId"], "expectedVersion": 1, "transition": transition, "arguments": {}}
    refused = await lab.refused("workflow.submit", **(asked | wrong))
    assert refused["error"]["code"] == code
    assert (refused["workflowId"], refused["state"], refused["version"]) == (started["workflowId"], "written", 1)
    if code == "STALE_WORKFLOW_VERSION":
        assert refused["error"]["message"] == "Expected workflow version 7, but current version is 1."
        assert refused["links"] == [
            {"rel": "self", "method": "workflow.get", "args": {"workflowId": started["workflowId"]}}
        ]
    else:
        assert [link["rel"] for link in refused["links"]] == ["self", "transition"]
    assert await lab.get(started) == started
    (rejected,) = [entry for entry in await lab.audit(started) if entry.type == "transition.rejected"]
    assert rejected.payload["code"] == code


async def test_unknown_ids_link_to_home(lab: Lab) -> None:
    for tool, arguments, code in (
        ("workflow.get", {"workflowId": "wf_000000000000"}, "WORKFLOW_NOT_FOUND"),
        ("workflow.get", {"workflowId": "../../x"}, "WORKFLOW_NOT_FOUND"),
        ("workflow.submit", {"workflowId": "wf_0", "expectedVersion": 1, "transition": "x", "arguments": {}},
         "WORKFLOW_NOT_FOUND"),
        ("workflow.start", {"definitionId": "nope", "input": {}}, "DEFINITION_NOT_FOUND"),
        ("workflow.explain", {"definitionId": "nope"}, "DEFINITION_NOT_FOUND"),
        ("gateway.describe", {"id": "nope"}, "ITEM_NOT_FOUND"),
    ):  # fmt: skip
        refused = await lab.refused(tool, **arguments)
        assert refused["error"]["code"] == code
        assert [link["rel"] for link in refused["links"]] == ["home", "search"]


async def test_a_violation_names_the_field_and_what_is_allowed(lab: Lab) -> None:
    refused = await lab.follow_refused(await lab.start("review"), "ask", lines="many", extra=1)
    message = refused["error"]["message"]
    assert "arguments.reviewer: is required" in message
    assert "arguments.lines: must be of type integer" in message
    assert "arguments.extra: is not known; allowed: reviewer, lines, options" in message
    assert {one["path"] for one in refused["error"]["details"]["violations"]} == {
        "arguments.reviewer", "arguments.lines", "arguments.extra",
    }  # fmt: skip


async def test_people_and_the_system_are_identified_by_role(lab: Lab) -> None:
    started = await lab.start("review")
    asked = await lab.follow(started, "ask", reviewer="ana")
    for who in (lab, lab.as_("agent-1", "worker")):
        refused = await who.follow_refused(asked, "approve", name="ana")
        assert refused["error"]["code"] == "ACTOR_MISMATCH"
        assert "human" in refused["error"]["message"]
    approved = await lab.as_("ana", "human").follow(asked, "approve", name="ana")
    assert approved["context"]["by"] == "ana"
    # Only the system sees its own transitions.
    other = await lab.start("review")
    assert [link["args"]["transition"] for link in other["links"]] == ["ask"]
    seen = await lab.as_("cron", "system").get(other)
    assert [link["args"]["transition"] for link in seen["links"]] == ["ask", "sweep"]
    assert (await lab.as_("cron", "system").follow(seen, "sweep"))["state"] == "gone"


async def test_a_principal_is_never_taken_from_arguments(lab: Lab) -> None:
    asked = await lab.follow(await lab.start("review"), "ask", reviewer="ana")
    claims = {"roles": ["human"], "principal": {"roles": ["human"]}, "actor": {"id": "ana", "kind": "user"}}
    refused = await lab.follow_refused(asked, "approve", **claims)
    assert refused["error"]["code"] == "ACTOR_MISMATCH"


async def test_links_by_guards_show_people_their_transitions(make_lab: MakeLab) -> None:
    decide = {"approve": {"target": "b", "actor": "human"}, "withdraw": {"target": "b"}}
    lab = make_lab(workflows={"w": states(a={"linkFilter": "byGuards", "transitions": decide}, b={"terminal": True})})
    started = await lab.start("w")
    assert [link["args"]["transition"] for link in started["links"]] == ["withdraw"]
    seen = await lab.as_("ana", "human").get(started)
    assert [link["args"]["transition"] for link in seen["links"]] == ["approve", "withdraw"]


def test_a_guard_is_evaluated_without_arguments_only_if_they_cannot_matter() -> None:
    known, at = "$.context.n == 1", Circumstances(Principal(roles=("qa",)), Scope({"n": 1}))
    asked = "$.arguments.x == 1"

    def expr(text: str, kind: str = "expr") -> Json:
        return {"kind": kind, "expr": text}

    def several(kind: str, *guards: Json) -> Json:
        return {"kind": kind, "guards": list(guards)}

    yes, no, open_ = expr(known), expr("$.context.n != 1"), expr(asked)
    cases = [
        (yes, False), (no, True), (expr("$.context.n != 1", "jsonpath"), True), (open_, False),
        (expr("no expression"), True),
        ({"kind": "role", "role": "lead"}, True), ({"kind": "role", "role": "qa"}, False),
        ({"kind": "permission", "permission": "p"}, True), ({"kind": "evidence", "requires": ["seen"]}, True),
        (several("allOf", open_, yes), False), (several("all_of", open_, no), True), (several("allOf"), False),
        (several("anyOf", open_, no), False), (several("any_of", no, no), True), (several("anyOf"), True),
        ({"kind": "not", "guard": open_}, False), ({"kind": "not", "guard": yes}, True),
        ({"kind": "not", "guard": several("anyOf", yes, open_)}, True),
        ({"kind": "not", "guard": several("allOf", yes, open_)}, False),
        (expr("$.arguments.x == $.context.n"), False), (expr("$.input.x == 1"), True),
    ]  # fmt: skip
    for stated, refuses in cases:
        assert refused([msgspec.convert(stated, Guard)], at) is refuses, stated
    assert not refused([], at)


async def test_moves_that_a_guard_rejects_are_not_linked(make_lab: MakeLab) -> None:
    """The links show every legal move; one that depends on arguments counts as legal until they are given."""
    ready = [{"kind": "expr", "expr": "$.context.n == 1"}]
    moves = {
        "count": {"target": "a", **COUNT},
        "deploy": {"target": "b", "guards": ready},
        "confirm": {"target": "b", "guards": [{"kind": "expr", "expr": "$.arguments.sure == true"}]},
        "lead": {"target": "b", "guards": [{"kind": "role", "role": "lead"}]},
        "approve": {"target": "b", "actor": "human"},
    }
    shown: dict[str, Json] = {
        name: states(a={"transitions": moves, **more}, b={"terminal": True})
        for name, more in (("w", {}), ("all", {"linkFilter": "all"}))
    }
    lab = make_lab(workflows=shown)

    def linked(answer: Json) -> list[str]:
        return [link["args"]["transition"] for link in answer["links"] if link["rel"] == "transition"]

    at = await lab.start("w")
    assert linked(at) == ["count", "confirm", "approve"]
    assert linked(await lab.as_("ana", "lead").get(at)) == ["count", "confirm", "lead", "approve"]
    refusal = await lab.follow_refused(at, "deploy")
    assert refusal["error"]["code"] == "GUARD_REJECTED"
    assert linked(refusal) == ["count", "confirm", "approve"]
    assert linked(await lab.follow(at, "count")) == ["count", "deploy", "confirm", "approve"]
    assert linked(await lab.start("all")) == list(moves)


async def test_without_legal_moves_the_instance_is_linked(make_lab: MakeLab) -> None:
    locked = {"open": {"target": "b", "guards": [{"kind": "role", "role": "lead"}]}}
    lab = make_lab(workflows={"w": states(a={"transitions": locked}, b={"terminal": True})})
    at = await lab.start("w")
    assert [(link["rel"], link["method"]) for link in at["links"]] == [("self", "workflow.get")]
    assert (await lab.as_("ana", "lead").follow(at, "open"))["terminal"] is True


GUARDED = states(
    a={
        "linkFilter": "byGuards",
        "transitions": {
            "permitted": {"target": "b", "guards": [{"kind": "permission", "permission": "deploy.run"}]},
            "lead": {"target": "b", "guards": [{"kind": "role", "role": "lead"}]},
            "both": {
                "target": "b",
                "guards": [
                    {"kind": "allOf", "guards": [{"kind": "role", "role": "lead"}, {"kind": "role", "role": "qa"}]}
                ],
            },
            "either": {
                "target": "b",
                "guards": [
                    {"kind": "any_of", "guards": [{"kind": "role", "role": "lead"}, {"kind": "role", "role": "qa"}]}
                ],
            },
            "neither": {"target": "b", "guards": [{"kind": "not", "guard": {"kind": "role", "role": "lead"}}]},
            "proved": {
                "target": "b",
                "guards": [{"kind": "evidence", "requires": ["seen", {"kind": "signed", "count": 2}]}],
            },
            "sign": {"target": "a", "evidence": ["signed"]},
            "see": {"target": "a", "evidence": "seen"},
            "all_of_nothing": {"target": "b", "guards": [{"kind": "all_of", "guards": []}]},
            "any_of_nothing": {"target": "b", "guards": [{"kind": "anyOf", "guards": []}]},
            "argued": {"target": "b", "guards": [{"kind": "expr", "expr": "$.arguments.x == 1"}]},
        },
    },
    b={"terminal": True},
)  # fmt: skip


@pytest.mark.parametrize(
    ("roles", "permissions", "expected"),
    [
        ((), (), {"neither", "sign", "see", "all_of_nothing"}),
        (("lead",), (), {"lead", "either", "sign", "see", "all_of_nothing"}),
        (("qa",), ("deploy.run",), {"permitted", "either", "neither", "sign", "see", "all_of_nothing"}),
        (("lead", "qa"), ("*",), {"permitted", "lead", "both", "either", "sign", "see", "all_of_nothing"}),
    ],
)
async def test_guards_filter_links_for_the_caller(
    make_lab: MakeLab, roles: tuple[str, ...], permissions: tuple[str, ...], expected: set[str]
) -> None:
    lab = make_lab(workflows={"guarded": GUARDED}).as_("ana", *roles, permissions=permissions)
    started = await lab.start("guarded")
    assert {link["args"]["transition"] for link in started["links"]} == expected
    everything: Any = GUARDED["states"]["a"]["transitions"]
    for name in everything.keys() - expected - {"argued"}:
        refused = await lab.follow_refused(started, name)
        assert refused["error"]["code"] == "GUARD_REJECTED"
        assert refused["error"]["details"]["guard"]["kind"] == everything[name]["guards"][0]["kind"]
    assert (await lab.follow(started, "argued", x=1))["terminal"]


async def test_evidence_is_counted_and_required(make_lab: MakeLab) -> None:
    lab = make_lab(workflows={"guarded": GUARDED})
    at = await lab.start("guarded")
    for name in ("sign", "see", "sign"):
        assert (await lab.follow_refused(at, "proved"))["error"]["code"] == "GUARD_REJECTED"
        at = await lab.follow(at, name)
    assert [one["kind"] for one in at["evidence"]] == ["signed", "seen", "signed"]
    assert {one["transition"] for one in at["evidence"]} == {"sign", "see"}
    assert (await lab.follow(at, "proved"))["terminal"]


async def test_branches_see_the_written_context(make_lab: MakeLab) -> None:
    score = {
        "target": "low",
        "output": {"score": "$.arguments.score"},
        "branches": [
            {"when": {"kind": "expr", "expr": "$.context.score >= 90"}, "target": "high"},
            {"when": {"kind": "expr", "expr": "$.context.score >= 50"}, "target": "middle"},
        ],
    }
    lab = make_lab(
        workflows={"w": states(start={"transitions": {"score": score}}, low={}, middle={}, high={"terminal": True})}
    )
    for value, state in ((95, "high"), (50, "middle"), (5, "low"), ("95", "low")):
        answer = await lab.follow(await lab.start("w"), "score", score=value)
        # A state without a way out is terminal, declared or not.
        assert (answer["state"], answer["terminal"]) == (state, True)
        branched = [entry.payload["target"] for entry in await lab.audit(answer) if entry.type == "transition.branched"]
        assert branched == ([state] if state != "low" else [])


async def test_prefill_fills_links_and_may_be_overridden(make_lab: MakeLab) -> None:
    go = {
        "target": "done",
        "prefill": {
            "service": "$.workflow.input.service",
            "build": "$.context.build",
            "missing": "$.context.no",
            "options": {"region": "$.context.no", "files": ["$.context.no", "$.context.build.id"]},
            "n": 1,
        },
        "output": {"deployed": "$.arguments.service"},
    }
    lab = make_lab(
        workflows={"w": {**states(ready={"transitions": {"go": go}}, done={"terminal": True}),
                         "initialContext": {"build": {"id": 7}}}}
    )  # fmt: skip
    started = await lab.start("w", service="payments")
    assert started["context"] == {"build": {"id": 7}}
    # An unresolved path is left out; inside other values it becomes null.
    assert started["links"][0]["args"]["arguments"] == {
        "service": "payments",
        "build": {"id": 7},
        "options": {"region": None, "files": [None, 7]},
        "n": 1,
    }
    assert await lab.get(started) == started
    assert (await lab.follow(started, "go", service="ledger"))["context"]["deployed"] == "ledger"


async def test_invalid_input_starts_nothing(make_lab: MakeLab) -> None:
    lab = make_lab(
        workflows={
            "w": {
                **states(a={"transitions": {"go": {"target": "a"}}}),
                "inputSchema": {
                    "type": "object",
                    "required": ["service"],
                    "properties": {"service": {"type": "string"}, "region": {"default": "eu"}},
                },
            }
        }
    )
    refused = await lab.refused("workflow.start", definitionId="w", input={})
    assert refused["error"]["code"] == "INPUT_SCHEMA_VIOLATION"
    assert "workflowId" not in refused
    start, describe = refused["links"]
    assert start["input_schema"]["required"] == ["service"]
    assert describe["method"] == "gateway.describe"
    assert [entry.type for entry in await lab.audit()] == ["transition.rejected"]
    assert (await lab.start("w", service="payments"))["state"] == "a"


async def test_context_and_arguments_are_bounded(make_lab: MakeLab) -> None:
    lab = make_lab(
        workflows={"w": states(a={"transitions": {"grow": {"target": "a", "output": {
            "text": {"concat": ["$.context.text", "$.arguments.text"]}}}}})}
    )  # fmt: skip
    at = await lab.start("w")
    refused = await lab.follow_refused(at, "grow", text="x" * 70_000)
    assert refused["error"]["code"] == "INPUT_SCHEMA_VIOLATION"
    assert "65536" in refused["error"]["message"]
    for _ in range(4):
        at = await lab.follow(at, "grow", text="x" * 60_000)
    at = await lab.follow(at, "grow", text="x" * 60_000)
    assert at["context"]["text"]["bytes"] == len('"null"') + 300_000


async def test_a_repeated_request_has_the_first_answer(make_lab: MakeLab) -> None:
    lab = make_lab(workflows={"w": states(a={"transitions": {"go": {"target": "a", "output": {
        "n": {"add": ["$.context.n", 1]}}}}})})  # fmt: skip
    starting: Json = {"definitionId": "w", "input": {}, "requestId": "r-1"}
    first = await lab("workflow.start", **starting)
    assert await lab("workflow.start", **starting) == first
    moving = {**lab.link(first, "go"), "requestId": "r-2"}
    moved = await lab("workflow.submit", **moving)
    assert await lab("workflow.submit", **moving) == moved
    assert (await lab.get(first))["version"] == 2
    later = await lab.follow(moved, "go")
    again = await lab("workflow.submit", **moving)
    assert (again["version"], again["context"]) == (2, {"n": 1})
    assert (await lab.get(first))["context"] == later["context"] == {"n": 2}


@pytest.mark.parametrize("given", [{}, {"capability": "echo"}, {"capability": "echo", "x": 1}])
async def test_a_start_is_replayed_by_a_process_without_the_definition(
    working: Callable[..., Any], make_lab: MakeLab, given: Json
) -> None:
    went = states(a={"transitions": {"go": {"target": "a"}}})
    echo = {"inputSchema": {"type": "object"}, "executor": {"kind": "noop"}}
    lab, other = await working(workflows={"w": went}, capabilities={"echo": echo}), make_lab(workflows={"v": went})
    asked: Json = {"definitionId": "proxy_default" if given else "w", "input": given}
    first = await lab("workflow.start", **asked, requestId="r-1")
    assert await other("workflow.start", **asked, requestId="r-1") == first
    reused = asked | {"input": {"y": 1}}
    with pytest.raises(ToolFailure, match="was used before"):
        await other("workflow.start", **reused, requestId="r-1")
    for unknown in ({}, {"requestId": "r-2"}):
        refused = await other.refused("workflow.start", **asked, **unknown)
        assert refused["error"]["code"] == ("INPUT_SCHEMA_VIOLATION" if given else "DEFINITION_NOT_FOUND")
