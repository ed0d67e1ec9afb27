"""Approvals as people see them, and lists of instances."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Store, keys
from coordinator.toolsets.gateway.decisions import Decisions, OpenApproval
from coordinator.toolsets.gateway.listener import Listener
from coordinator.toolsets.gateway.rules.checks import Rejected
from coordinator.toolsets.gateway.rules.guards import Principal
from coordinator.toolsets.gateway.rules.task import Event
from coordinator.toolsets.gateway.store.audit import AuditStore
from coordinator.toolsets.gateway.store.listing import list_instances
from tests.gateway.conftest import MakeLab
from tests.gateway.lab import Lab, states
from tests.gateway.workflows import APPROVAL
from tests.items.moments import next_ms
from tests.support.between import before

pytestmark = pytest.mark.anyio

BO = Principal(id="bo", roles=("human",), kind="user")
ANA = Principal(id="ana", roles=("human",), kind="user")

RELEASE = states(
    written={
        "transitions": {
            "ask": {
                "target": "asked",
                "executor": {"kind": "human", "queue": "ops", "distinctFrom": "requester"},
                "output": {"note": "for release 12"},
            }
        }
    },
    asked={
        "goal": "Decide whether to release.",
        "guidance": "Look at the tests.",
        "transitions": {
            "approve": {
                "target": "approved",
                "title": "Release it",
                "actor": "human",
                "inputSchema": {"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"]},
                "prefill": {"why": "$.context.note"},
                "branches": [{"when": {"kind": "expr", "expr": "$.context.note == 'never'"}, "target": "dropped"}],
            },
            "lead": {"target": "approved", "actor": "human", "guards": [{"kind": "role", "role": "lead"}]},
            "blocked": {
                "target": "approved",
                "actor": "human",
                "guards": [{"kind": "evidence", "requires": [{"kind": "tests", "count": 2}]}],
            },
            "drop": {"target": "dropped"},
        },
    },
    approved={"terminal": True, "description": "It is out."},
    dropped={"terminal": True, "outcome": "failure"},
)


@pytest.fixture
async def decisions(store: Store) -> AsyncIterator[Callable[[Lab], Decisions]]:
    listener = Listener(store)
    yield lambda lab: Decisions.of(store, lab.settings, listener)
    await listener.close()


Make = Callable[[Lab], Decisions]


async def asking(lab: Lab, workflow: str = "w", **given: Any) -> Any:
    person = lab.as_("ana", "human")
    return await person.follow(await person.start(workflow, **given), "ask")


async def only(made: Decisions, project: str, who: Principal) -> OpenApproval:
    (found,) = (await made.open(project, who)).rows
    return found


async def only_of(made: Decisions, project: str, workflow: str) -> OpenApproval:
    return next(one for one in (await made.open(project, BO)).rows if one.workflow == workflow)


@pytest.mark.every_store
async def test_an_open_approval_shows_what_each_answer_leads_to_and_who_may_give_it(
    make_lab: MakeLab, project: str, decisions: Make
) -> None:
    lab = make_lab(workflows={"w": {**RELEASE, "title": "Release"}})
    asked = await asking(lab, version="12")
    one = await only(decisions(lab), project, BO)
    assert (one.id, one.workflow) == (asked["pendingHuman"][0]["requestId"], asked["workflowId"])
    assert (one.queue, one.requester, one.distinct, one.asked_by) == ("ops", "ana", True, "ask")
    assert (one.definition, one.title, one.state, one.version) == ("w", "Release", "asked", asked["version"])
    assert (one.goal, one.guidance) == ("Decide whether to release.", "Look at the tests.")
    assert (one.context["note"], one.input) == ("for release 12", {"version": "12"})
    assert [(evidence.kind, evidence.transition) for evidence in one.evidence] == [("human_request", "ask")]
    assert one.asked_at > 0
    assert (one.operation, one.declined, one.deadline) == ("", [], 0)
    approve, lead, blocked = one.answers
    assert (approve.transition, approve.title, approve.refusal) == ("approve", "Release it", "")
    assert [tuple(target) for target in approve.targets] == [
        ("approved", "It is out.", "success"),
        ("dropped", "", "failure"),
    ]
    assert approve.input_schema is not None
    assert approve.input_schema["required"] == ["why"]
    assert approve.arguments == {"why": "for release 12"}
    assert lead.refusal == "The role 'lead' is required."
    assert blocked.refusal == "Evidence is required: 2 of 'tests'."
    # Four eyes, and people only.
    own = await only(decisions(lab), project, ANA)
    assert {answer.refusal for answer in own.answers} == {"The requester must not decide this."}
    agent = await only(decisions(lab), project, Principal(id="bot", kind="subagent"))
    assert "requires a human principal" in agent.answers[0].refusal


async def test_an_answer_is_given_by_the_rules_of_a_submit(make_lab: MakeLab, project: str, decisions: Make) -> None:
    lab = make_lab(workflows={"w": RELEASE})
    asked = await asking(lab)
    made = decisions(lab)
    one = await only(made, project, BO)
    for who, transition, arguments, code in (
        (BO, "drop", {}, "INVALID_TRANSITION"),
        (BO, "approve", {}, "INPUT_SCHEMA_VIOLATION"),
        (BO, "lead", {}, "GUARD_REJECTED"),
        (ANA, "approve", {"why": "me"}, "ACTOR_MISMATCH"),
        (Principal(id="bot"), "approve", {"why": "me"}, "ACTOR_MISMATCH"),
    ):
        with pytest.raises(Rejected) as refused:
            await made.answer(project, who, one, transition, arguments)
        assert refused.value.code == code
    after = await made.answer(project, BO, one, "approve", {"why": "tested"})
    assert after.instance.state == "approved"
    with pytest.raises(Rejected) as late:
        await made.answer(project, Principal(id="cy", roles=("human",)), one, "approve", {"why": "too"})
    assert late.value.code == "STALE_WORKFLOW_VERSION"
    assert (await made.open(project, BO)).rows == []
    (closed,) = (await made.closed(project)).rows
    assert (closed.id, closed.status, closed.by, closed.answer) == (one.id, "resolved", "bo", "approve")
    assert closed.answered_at >= closed.asked_at == one.asked_at
    found = await made.approval(project, one.id, BO)
    assert found is not None
    assert (found[0].status, found[1]) == ("resolved", None)
    assert (await lab.get(asked))["terminal"]


async def test_one_approval_is_found_by_its_id(
    make_lab: MakeLab, store: Store, project: str, decisions: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = deepcopy(APPROVAL)
    workflow["states"]["asked"]["transitions"]["back"] = {"target": "written"}
    lab = make_lab(workflows={"w": workflow})
    asked = await asking(lab)
    approval = asked["pendingHuman"][0]["requestId"]
    made = decisions(lab)
    found = await made.approval(project, approval, BO)
    assert found is not None
    assert found[0].status == "pending"
    assert found[1] == await only(made, project, BO)
    for other in ("hr_00000000", "x", "", approval + "*"):
        assert await made.approval(project, other, BO) is None

    async def change() -> None:
        await lab.follow(await lab.follow(asked, "back"), "ask")

    before(monkeypatch, store, "read_instance", change)
    again = await made.approval(project, approval, BO)
    assert again is not None
    assert (again[0].status, again[1]) == ("withdrawn", None), "another one is open now"


async def test_approvals_come_in_pages_and_leave_with_their_instances(
    make_lab: MakeLab, store: Store, project: str, decisions: Make
) -> None:
    lab = make_lab(workflows={"w": APPROVAL})
    asked = await asyncio.gather(*(asking(lab) for _ in range(7)))
    made = decisions(lab)
    seen: list[OpenApproval] = []
    after = ""
    while True:
        page = await made.open(project, BO, after=after, limit=3)
        assert len(page.rows) <= 3
        seen += page.rows
        if not (after := page.next):
            break
    assert sorted(one.workflow for one in seen) == sorted(one["workflowId"] for one in asked)
    assert [one.asked_at for one in seen] == sorted((one.asked_at for one in seen), reverse=True)
    for one in seen[:5]:
        await made.answer(project, BO, one, "approve", {})
        await next_ms(store)
    closed = await made.closed(project, limit=2)
    assert [one.id for one in closed.rows] == [seen[4].id, seen[3].id]
    rest = await made.closed(project, after=closed.next, limit=200)
    assert ([one.id for one in rest.rows], rest.next) == ([one.id for one in reversed(seen[:3])], "")
    # One is deleted while the page is read.
    await store.command("DEL", keys.run.key(project, seen[5].workflow))
    assert [one.id for one in (await made.open(project, BO)).rows] == [seen[6].id]


# --- the audit of an instance -------------------------------------------------------------------------


@pytest.mark.every_store
async def test_an_instance_has_its_own_audit_however_much_others_have(
    make_lab: MakeLab, project: str, decisions: Make
) -> None:
    lab = make_lab(workflows={"w": APPROVAL})
    asked = await asking(lab)
    made = decisions(lab)
    audit = AuditStore(lab.store, lab.settings)
    await audit.write(project, [Event("noise", "{}")] * 600)  # of no instance
    await asyncio.gather(*(asking(lab) for _ in range(3)))
    await made.answer(project, BO, await only_of(made, project, asked["workflowId"]), "approve", {})
    own = await lab.audit(asked)
    found = await made.entries(project, asked["workflowId"], limit=200)
    assert (found.rows, found.next, found.begins) == (own[::-1], "", True)
    assert {"workflow.started", "human.approval.requested"} < {one.type for one in found.rows}
    # The same in pages, which are exact also while entries are added.
    rows, start = [], ""
    while True:
        page = await made.entries(project, asked["workflowId"], start, 2)
        rows += page.rows
        await audit.write(project, [Event("refused", "{}")], workflow=asked["workflowId"])
        if not (start := page.next):
            break
    assert (rows, page.begins) == (own[::-1], True)
    assert (await made.entries(project, asked["workflowId"], limit=1)).rows[0].type == "refused"


async def test_an_audit_that_was_trimmed_says_that_it_does_not_reach_back(
    make_lab: MakeLab, project: str, decisions: Make
) -> None:
    lab = make_lab(workflows={"w": APPROVAL})
    asked, made = await asking(lab), decisions(lab)
    own = (await lab.audit(asked))[::-1]
    await lab.store.command("XTRIM", keys.gate_audit.key(project), "MINID", own[1].position)
    found = await made.entries(project, asked["workflowId"])
    assert (found.rows, found.next, found.begins) == (own[:2], "", False)
    page = await made.entries(project, asked["workflowId"], limit=2)
    assert page.rows == own[:2]
    rest = await made.entries(project, asked["workflowId"], page.next, 2)
    assert (rest.rows, rest.next, rest.begins) == ([], "", False)
    # An instance of a release that did not link entries has those that are linked.
    await lab.store.command("HDEL", keys.run.key(project, asked["workflowId"]), "l")
    assert await made.entries(project, asked["workflowId"]) == ([], "", False)


async def test_an_audit_is_read_of_instances_only(make_lab: MakeLab, project: str, decisions: Make) -> None:
    lab = make_lab(workflows={"w": APPROVAL})
    made, asked = decisions(lab), await asking(lab)
    other = await asking(lab)
    for unknown in ("", "x y", "wf_0123456789ab"):
        assert await made.entries(project, unknown) == ([], "", False)
    with pytest.raises(ToolFailure, match="start: must be"):
        await made.entries(project, asked["workflowId"], "soon")
    (last,) = (await made.entries(project, other["workflowId"], limit=1)).rows
    assert (await made.entries(project, asked["workflowId"], last.position)).rows == []
    # What is written of an instance that is gone creates nothing.
    gone = "wf_" + "0" * 12
    await AuditStore(lab.store, lab.settings).write(project, [Event("refused", "{}")], workflow=gone)
    assert await lab.store.command("EXISTS", keys.run.key(project, gone)) == 0


# --- lists of instances -------------------------------------------------------------------------------


@pytest.mark.every_store
async def test_instances_are_listed_by_their_last_change(make_lab: MakeLab, store: Store, project: str) -> None:
    lab = make_lab(workflows={"w": APPROVAL, "v": RELEASE})
    first = await lab.start("w")
    await next_ms(store)
    second = await lab.start("v")
    await next_ms(store)
    other = await lab.start("v")
    page = await list_instances(store, project)
    assert page.next == ""
    assert [row.id for row in page.rows] == [one["workflowId"] for one in (other, second, first)]
    await next_ms(store)
    asked = await lab.follow(first, "ask")
    row = (await list_instances(store, project)).rows[0]
    assert (row.id, row.definition, row.state, row.status) == (first["workflowId"], "w", "asked", "r")
    assert (row.version, row.outcome, row.operation) == (asked["version"], "", "")
    assert row.approvals == [asked["pendingHuman"][0]["requestId"]]
    assert row.started_at <= row.changed_at <= page.now + 60_000
    dropped = await lab.follow(asked, "drop")
    row = (await list_instances(store, project)).rows[0]
    assert (row.status, row.outcome, row.state, row.approvals) == ("e", "failure", dropped["state"], [])


async def test_instances_are_listed_by_definition_state_and_status(
    make_lab: MakeLab, store: Store, project: str
) -> None:
    lab = make_lab(workflows={"w": APPROVAL, "v": RELEASE})
    started = {name: [await lab.start(name) for _ in range(4)] for name in ("w", "v")}
    for name in ("w", "v"):
        asked = await lab.follow(started[name][0], "ask")
        if name == "w":
            await lab.follow(asked, "drop")

    async def ids(**only: Any) -> list[str]:
        found: list[str] = []
        after = ""
        while True:
            page = await list_instances(store, project, **only, after=after, limit=2)
            found += [row.id for row in page.rows]
            if not (after := page.next):
                return found

    every = [one["workflowId"] for name in ("w", "v") for one in started[name]]
    assert sorted(await ids()) == sorted(every)
    assert sorted(await ids(definition="v")) == sorted(every[4:])
    assert await ids(definition="v", state="asked") == [every[4]]
    assert await ids(status="e") == [every[0]]
    assert await ids(definition="none") == []


async def test_an_instance_in_progress_is_listed_with_its_transition(
    make_lab: MakeLab, store: Store, project: str
) -> None:
    """There is no worker."""
    step = {"target": "b", "executor": {"kind": "cli", "command": "true"}}
    lab = make_lab(
        {"longest_wait_ms": 1_000}, workflows={"w": states(a={"transitions": {"go": step}}, b={"terminal": True})}
    )
    started = await lab.start("w")
    begun = await lab.follow(started, "go")
    assert begun["inFlight"]["transition"] == "go"
    (row,) = (await list_instances(store, project)).rows
    assert (row.state, row.transition) == ("a", "go")
    assert row.operation.startswith("cor_")
    assert row.since > 0
