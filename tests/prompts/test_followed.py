"""Agents that do to the letter what the texts say, over a front-end with real tools."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import uuid4

import pytest
from mcp.client import Client

from coordinator.store import Store
from tests.feed.rig import Front, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
_BLOCK = re.compile(r"```(\S+)\n(.*?)```", re.DOTALL)


@pytest.fixture
async def client(store: Store, project: str) -> AsyncIterator[Client]:
    async with serving(store) as front, Client(url(front, project)) as client:
        yield client


def url(front: Front, project: str) -> str:
    return f"http://127.0.0.1:{front.port}/p/{project}/mcp/items,flows"


class Agent:
    """Makes the calls of a text."""

    def __init__(self, client: Client, prompt: str, name: str) -> None:
        self._client = client
        self._prompt = prompt
        self._known: Json = {"your id": name}
        self._calls: list[tuple[str, str]] = []

    async def read(self, **arguments: str) -> Agent:
        """Gets the text."""
        (message,) = (await self._client.get_prompt(self._prompt, arguments)).messages
        self._calls = _BLOCK.findall(message.content.text)  # type: ignore[union-attr]
        return self

    async def do(self, tool: str, having: str = "", instead: Mapping[str, Any] | None = None, **known: Any) -> Json:
        """Makes the first call of a tool that has a text in it, with what the agent knows filled in."""
        self._known |= known
        body = next(body for name, body in self._calls if name == tool and having in body)
        filled = re.sub(r"<([^<>\n]+)>", lambda found: self._fill(found[1]), body)
        answer = await self._client.call_tool(tool, {**json.loads(filled), **(instead or {})})
        assert not answer.is_error, answer
        return answer.structured_content or {}

    def _fill(self, name: str) -> str:
        return str(uuid4()) if name == "new UUID" else str(self._known.get(name, name))

    async def claim(self) -> Json:
        """Claims, and remembers what the text says is to be kept."""
        return self._keep(await self.do("claim_item", '"claims"', {"waitMs": 0}))

    async def finish(self) -> None:
        """Ends the item that it has."""
        answer = await self.do("claim_item", '"done"', {"claims": [], "waitMs": 0})
        assert answer["releaseResults"][0]["transition"]["newRole"] == "terminal", answer

    async def finish_and_claim(self) -> Json:
        """Ends the item that it has and claims the next, in one call."""
        answer = await self.do("claim_item", '"done"', {"waitMs": 0})
        assert answer["releaseResults"][0]["transition"]["newRole"] == "terminal", answer
        return self._keep(answer)

    def _keep(self, answer: Json) -> Json:
        (claim,) = answer["claimResults"]
        assert claim["outcome"] == "success", claim
        self._known |= {"itemId": claim["itemId"], "fenceToken": claim["fenceToken"]}
        return dict(claim)


async def query(client: Client, tool: str, **arguments: Any) -> Json:
    return (await client.call_tool(tool, arguments)).structured_content or {}


async def test_an_orchestrator_its_workers_and_the_end_of_the_tree(client: Client) -> None:
    orchestrator = await Agent(client, "orchestrate", "boss").read()
    made = await orchestrator.do("create_work_tree")
    root, first, second = (made["root"]["id"], *(child["id"] for child in made["children"]))
    worker = await Agent(client, "work", "w1").read()
    claim = await worker.claim()
    for item in (first, second):
        assert claim["itemId"] == item
        assert claim["item"]["description"]
        assert claim["start"]["newRole"] == "work"
        renewed = (await worker.do("claim_item", "<fenceToken>"))["claimResults"][0]
        assert renewed["outcome"] == "success"
        await worker.do("manage_notes")
        if item == first:
            claim = await worker.finish_and_claim()
    assert claim["results"][0]["itemId"] == first
    await worker.finish()
    waited = await (await Agent(client, "orchestrate", "boss").read(item=root)).do("get_context")
    assert waited["waited"]["met"]
    assert waited["waited"]["counts"]["terminal"] == 2


async def test_a_worker_that_fails_and_one_that_takes_over(client: Client) -> None:
    made = await query(client, "manage_items", operation="create", items=[{"title": "x", "retryBackoffSeconds": 0}])
    item = made["items"][0]["id"]
    first, second = await Agent(client, "work", "w1").read(item=item[:8]), await Agent(client, "work", "w2").read()
    await first.claim()
    released = await first.do("claim_item", '"failed"')
    assert released["releaseResults"][0]["outcome"] == "success"
    claim = await second.claim()
    assert (claim["itemId"], claim["takeover"], claim["role"]) == (item, True, "work")
    assert claim["start"]["newRole"] == "work"
    await second.finish()
    told = await query(client, "get_context", itemId=item)
    assert told["attempts"]["last"][0]["reason"] == "failed"


@pytest.mark.parametrize("named", [False, True])
async def test_a_reviewer_sends_back_and_accepts(client: Client, named: bool) -> None:
    made = await query(client, "manage_items", operation="create", items=[{"title": "x", "role": "review"}])
    item = made["items"][0]["id"]
    reviewer = await Agent(client, "review", "r1").read(**({"item": item} if named else {}))
    await reviewer.claim()
    await reviewer.do("manage_notes")
    correction = (await reviewer.do("manage_items"))["items"][0]["id"]
    await reviewer.do("manage_dependencies", **{"id of the correction": correction})
    await reviewer.do("claim_item", '"releases"')
    # It is not offered before the correction is done.
    other = await Agent(client, "review", "r2").read()
    assert (await other.do("claim_item", '"claims"', {"waitMs": 0}))["claimResults"][0]["outcome"] == "no_match"
    worker = await Agent(client, "work", "w1").read()
    assert (await worker.claim())["itemId"] == correction
    await worker.finish()
    assert (await other.claim())["itemId"] == item
    accepted = await other.do("advance_item")
    assert accepted["results"][0]["newRole"] == "terminal"


async def test_a_reviewer_waits_for_a_gate_and_releases_it(client: Client) -> None:
    flow = {"start": {"name": "approve", "tool": None, "done": True}}
    made = str((await query(client, "workflow_create", name="x", flow=flow))["id"])
    reviewer = await Agent(client, "review", "r1").read(flow=made)
    waiting = await reviewer.do("workflow_get")
    assert waiting["waited"]["met"]
    released = await reviewer.do("workflow_step_ready", **{"step id": waiting["steps"][0]["id"]})
    assert released["queued"]


async def test_a_procedure_begins(store: Store, project: str) -> None:
    async with serving(store) as front:
        for toolset, tool in (("navigator", "nav_start"), ("sessions", "start_session")):
            async with Client(f"http://127.0.0.1:{front.port}/p/{project}/mcp/{toolset}") as client:
                answer = await (await Agent(client, "procedure", "p1").read(procedure="change")).do(tool)
                assert answer.get("position", answer.get("workflow"))
