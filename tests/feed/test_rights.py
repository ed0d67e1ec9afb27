"""Who may listen, and to what."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.store import Store, keys
from tests.feed.guarded import Guarded, bearer, token
from tests.items.client import Client
from tests.transport.guarded import ask
from tests.transport.rig import modern

PLAIN = {"name": "approve", "tool": None, "done": True}

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("often")]


async def test_without_a_token_there_is_a_challenge(guarded: Guarded, project: str) -> None:
    response = await guarded.get(project)
    assert response.status_code == 401
    assert 'scope="items.read ' in response.headers["www-authenticate"]
    response = await guarded.get(project, bearer("unknown-token"))
    assert response.status_code == 401


async def test_a_token_needs_the_project_and_a_toolset(guarded: Guarded, project: str) -> None:
    elsewhere = await token(guarded, "a", "*", projects=("elsewhere",))
    assert (await guarded.get(project, bearer(elsewhere))).status_code == 403
    without = await token(guarded, "b", "openid")
    response = await guarded.get(project, bearer(without))
    assert response.status_code == 403
    assert 'error="insufficient_scope"' in response.headers["www-authenticate"]
    for permission in ("worker", "navigator"):  # their tools have no events
        blind = bearer(await token(guarded, permission, permission))
        for query in ({}, {"waitMs": 0}, {"kinds": "item.*"}):
            response = await guarded.get(project, blind, **query)
            assert response.status_code == 403
            assert "navigator" not in response.headers["www-authenticate"]
    reader = await token(guarded, "c", "items.read")
    response = await guarded.get(project, bearer(reader), kinds="flow.*")
    assert response.status_code == 403
    assert 'scope="workflow.read"' in response.headers["www-authenticate"]
    assert (await guarded.get(project, bearer(reader))).status_code == 200


async def add_event(store: Store, project: str, kind: str, subject: str, **fields: str) -> None:
    words = [word for pair in fields.items() for word in pair]
    await store.command("XADD", keys.events.key(project), "*", "k", kind, "i", subject, *words)


async def test_a_caller_gets_events_of_the_toolsets_that_it_may_read(
    guarded: Guarded, store: Store, project: str
) -> None:
    tools = Client(store, project)
    reader = await token(guarded, "reader", "items.read")
    flows = await token(guarded, "me", "workflow.read", "gateway.read")
    admin = await token(guarded, "admin", "workflow.admin")
    async with (
        guarded.stream(project, bearer(reader)) as items,
        guarded.stream(project, bearer(flows)) as own,
        guarded.stream(project, bearer(admin)) as everything,
    ):
        await add_event(store, project, "flow_created", "1764131594123", u="me")
        await add_event(store, project, "flow_created", "1764131594124", u="else")
        await add_event(store, project, "step_retry", "wf_0123456789ab", s="1", n="x", f="1")
        await tools.add()
        await add_event(store, project, "flow_created", "1764131594125", u="me")
        assert [event["name"] for event in await items.events(1)] == ["item.create"]
        assert [event["data"]["id"] for event in await own.events(3)] == [
            "1764131594123",
            "wf_0123456789ab",
            "1764131594125",
        ]
        assert len(await everything.events(3)) == 3


async def call(front: Guarded, token: str, project: str, tool: str, **arguments: Any) -> Any:
    request = modern("tools/call", {"name": tool, "arguments": arguments})
    result = (await ask(front.app, token, request, f"/p/{project}/mcp/flows")).json["result"]
    assert not result["isError"], result
    return result["structuredContent"]


async def test_approvers_hear_of_the_workflows_whose_gates_they_may_approve(guarded: Guarded, project: str) -> None:
    creator = await token(guarded, "creator", "workflow")
    lead = await token(guarded, "lead", "workflow", roles=("lead", "cook"))
    other = await token(guarded, "other", "workflow", roles=("lea", "release-lead"))
    gate = {"name": "approve", "tool": None, "approver_role": "lead", "done": True}
    async with (
        guarded.stream(project, bearer(lead)) as heard,
        guarded.stream(project, bearer(other), kinds="flow.*,step.*") as not_heard,
    ):
        silent = await call(guarded, creator, project, "workflow_create", name="x", flow={"start": PLAIN})
        made = await call(guarded, creator, project, "workflow_create", name="x", flow={"start": gate})
        events = await heard.events(2)
        assert [event["name"] for event in events] == ["flow.created", "step.waiting"]
        # A listener that asks for its id is told so, too.
        flow = str(made["id"])
        assert (await guarded.get(project, bearer(lead), id=flow)).status_code == 200
        for who, asked in ((other, flow), (lead, str(silent["id"]))):
            assert (await guarded.get(project, bearer(who), id=asked)).status_code == 404
        step = int(events[1]["data"]["stepId"])
        await call(guarded, lead, project, "workflow_step_ready", step_id=step)
        assert [(event["name"], event["data"]["id"]) for event in await heard.events(1)] == [("step.released", flow)]
        own = await call(guarded, other, project, "workflow_create", name="x", flow={"start": PLAIN})
        assert [event["data"]["id"] for event in await not_heard.events(1)] == [str(own["id"])]
        await call(guarded, creator, project, "workflow_cancel", id=made["id"])
        assert [(event["name"], event["data"]["id"]) for event in await heard.events(1)] == [("flow.ended", flow)]


async def test_a_revoked_token_ends_its_streams(guarded: Guarded, store: Store, project: str) -> None:
    mine, others = await token(guarded, "mine", "*"), await token(guarded, "others", "*")
    async with guarded.stream(project, bearer(mine)) as ends, guarded.stream(project, bearer(others)) as stays:
        guarded.tokens.revoke("mine")
        await guarded.authenticator.read(guarded.tokens.path)
        assert "rights" in (await ends.rest())[-1].comment
        await Client(store, project).add()
        await stays.events(1)


async def test_a_stream_is_that_of_its_credential(guarded: Guarded, store: Store, project: str) -> None:
    mine = await token(guarded, "mine", "items.read")
    await token(guarded, "mine", "*")
    async with guarded.stream(project, bearer(mine)) as stream:
        newer = guarded.tokens.replace(mine)
        guarded.tokens.revoke(mine)
        await guarded.authenticator.read(guarded.tokens.path)
        await Client(store, project).add()
        await stream.events(1)
        await stream.until("heartbeat")
        guarded.tokens.revoke(newer)
        await guarded.authenticator.read(guarded.tokens.path)
        assert "rights" in (await stream.rest())[-1].comment


async def test_a_stream_outlives_a_jwt_but_not_a_withdrawn_key(guarded: Guarded, store: Store, project: str) -> None:
    jwt = guarded.knows(sub="mine", permissions=["items"])
    async with guarded.stream(project, bearer(jwt)) as lasts:
        guarded.in_a_minute()
        assert (await guarded.get(project, bearer(jwt))).status_code == 401
        await Client(store, project).add()
        await lasts.events(1)
        again = guarded.knows(sub="mine", permissions=["items"])
        async with guarded.stream(project, bearer(again)) as ends:
            guarded.verifier.outcomes.clear()
            guarded.configure()  # forgets what was verified
            assert "rights" in (await ends.rest())[-1].comment
        await Client(store, project).add()
        await lasts.events(1)


async def test_a_withdrawn_permission_ends_a_stream(guarded: Guarded, project: str) -> None:
    made = await token(guarded, "narrowed", "items", "gateway")
    async with guarded.stream(project, bearer(made)) as stream:
        text = guarded.tokens.path.read_text()
        guarded.tokens.write(text.replace("[items, gateway]", "[items]"))
        assert guarded.tokens.path.read_text() != text
        await guarded.authenticator.read(guarded.tokens.path)
        assert "rights" in (await stream.rest())[-1].comment


async def test_a_caller_has_a_limit_of_listeners(guarded: Guarded, project: str) -> None:
    mine, others = await token(guarded, "mine", "*"), await token(guarded, "others", "*")
    async with guarded.stream(project, bearer(mine)), guarded.stream(project, bearer(mine)):
        refused = await guarded.get(project, bearer(mine))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert (await guarded.get(project, bearer(others))).status_code == 200
