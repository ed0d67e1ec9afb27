"""Callers who wait: they are asked about gates and approvals, as long as they may wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.feed import waits
from coordinator.feed.metrics import READS_WAITING
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.flows.store.flows import FlowStore
from tests.gateway.lab import Worker, section, settings_of, states
from tests.support.counts import counted
from tests.support.wait import wait_until
from tests.transport.rounds import Client, Json, Site, accepting, the_form

pytestmark = pytest.mark.anyio

ASKING = states(
    ready={"transitions": {"ask": {"target": "asked", "executor": {"kind": "human", "queue": "ops"}}}},
    asked={"transitions": {"approve": {"target": "done", "actor": "human"}}},
    done={"terminal": True},
)


@pytest.fixture
async def site(tmp_path: Path, store: Store, project: str) -> AsyncIterator[Site]:
    settings = settings_of(section(workflows={"asking": ASKING}), project, request_deadline_ms=60_000)
    site, worker = Site(tmp_path, store, project, settings), await Worker(store, settings).start()
    yield site
    await worker.stop()
    await site.close()


FLOW: Json = {
    "start": {"name": "look", "tool": None, "next": "ship"},
    "ship": {"name": "ship", "tool": None, "done": True},
}
GUARDED: Json = {"start": {"name": "look", "tool": None, "approver_role": "lead", "done": True}}


async def created(client: Client, app: Any, flow: Json = FLOW) -> int:
    made = await client(app, "workflow_create", {"name": "release", "flow": flow})
    flow_id: int = made["structuredContent"]["id"]
    return flow_id


async def test_a_gate_of_a_workflow_is_asked_of_who_waits_for_it(site: Site, store: Store, project: str) -> None:
    ana = site.client("ana", "flows", permissions=("flows",))
    here, there = site.process(), site.process()
    wait: Json = {"id": await created(ana, here), "waitFor": "attention", "waitMs": 50_000}
    asked = await ana(here, "workflow_get", wait)
    form = the_form(asked)
    assert form["message"].startswith("The workflow 'release' (")
    assert form["requestedSchema"]["required"] == ["release"]
    # The next gate is asked as soon as the first is released; a replay releases nothing more.
    again = await ana(there, "workflow_get", wait, **accepting(asked, release=True))
    replayed = await ana(here, "workflow_get", wait, **accepting(asked, release=True))
    assert the_form(again)["message"] == the_form(replayed)["message"] != form["message"]
    await ana(there, "workflow_get", wait, **accepting(again, release=False))
    declined = await ana(here, "workflow_get", wait, **accepting(again, release=False))
    found = await FlowStore(store, Settings()).get(project, wait["id"])
    assert found is not None
    assert found.steps[1].declined == ("ana",)
    steps = declined["structuredContent"]["steps"]
    assert [(step["approved_by"], step["via"]) for step in steps[:1]] == [("ana", "client")]
    assert (steps[1]["status"], "approved_by" in steps[1]) == ("running", False)
    # Nobody is asked twice, and can still release it.
    waited = await ana(there, "workflow_get", wait)
    assert waited["structuredContent"]["waited"]["met"]
    released = await ana(here, "workflow_step_ready", {"step_id": steps[1]["id"]})
    assert released["structuredContent"]["queued"]


async def test_gates_are_asked_only_of_approvers_that_wait_for_them(site: Site) -> None:
    ana = site.client("ana", "flows", permissions=("flows",))
    lead = site.client("lo", "flows", "lead", permissions=("flows",))
    app = site.process()
    flow = await created(ana, app, GUARDED)
    for client, arguments in (
        (ana, {"waitFor": "attention", "waitMs": 0}),
        (lead, {}),
        (lead, {"waitFor": "changed", "waitMs": 0}),
        (lead.able({}), {"waitFor": "attention", "waitMs": 50_000}),
    ):
        result = await client(app, "workflow_get", {"id": flow, **arguments})
        assert result["structuredContent"]["steps"][0]["status"] == "running"
    wait = {"id": flow, "waitFor": "attention", "waitMs": 50_000}
    asked = await lead(app, "workflow_get", wait)
    ended = await lead(app, "workflow_get", wait, **accepting(asked, release=True))
    assert ended["structuredContent"]["steps"][0]["approved_by"] == "lo"


async def test_an_approval_is_asked_of_who_waits_for_it(site: Site) -> None:
    bot, ana = site.client("bot", "gateway"), site.client("ana", "gateway", "human")
    here, there = site.process(), site.process()
    started = await bot(here, "workflow.start", {"definitionId": "asking", "input": {}})
    submit = started["structuredContent"]["links"][0]["args"]
    await bot(here, "workflow.submit", submit)
    wait = {"workflowId": submit["workflowId"], "waitFor": "attention", "waitMs": 50_000}
    asked = await ana(there, "workflow.get", wait)
    the_form(asked)
    result = await ana(here, "workflow.get", wait, **accepting(asked, decision="approve"))
    assert (result["structuredContent"]["terminal"], result["structuredContent"]["waited"]["met"]) == (True, True)
    assert "resultType" in await ana(here, "workflow.get", {"workflowId": submit["workflowId"]})


async def test_a_wait_ends_with_the_permission_for_its_tool(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "RECHECK_SECONDS", 0.05)
    bot = site.client("bot", "gateway,items", can={}, permissions=("gateway",))
    app = site.process(tool_name_style="underscore")
    await site.authenticators[-1].start()
    started = await bot(app, "gw_workflow_start", {"definitionId": "asking", "input": {}})
    wait = {"workflowId": started["structuredContent"]["workflowId"], "waitFor": "ended", "waitMs": 50_000}
    waiting = asyncio.create_task(bot(app, "gw_workflow_get", wait))
    await wait_until(lambda: counted(READS_WAITING) == 1, what="the parked read")
    site.tokens.write(site.tokens.path.read_text().replace("gateway", "items"))
    await site.authenticators[-1].read(site.tokens.path)
    refused = await waiting
    assert refused["structuredContent"]["error"]["code"] == "permission_denied"
