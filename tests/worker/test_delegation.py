"""Tokens for one claim: who gets them, what they open, and how they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.store import Store, keys
from coordinator.toolsets.metrics import CLAIM_CONFLICTS
from tests.authentication.support import Authenticators, Tokens
from tests.feed.rig import Front, serving
from tests.items.client import LONG_MS, Json, fresh_id
from tests.items.moments import lapse
from tests.support.counts import counted
from tests.support.wait import wait_until
from tests.transport.guarded import RESOURCE
from tests.worker.client import Tools

pytestmark = pytest.mark.anyio

HEADERS = {"accept": "application/json, text/event-stream"}


@dataclass
class Guarded:
    """A front-end that wants tokens, with those of a runner and of an agent without the permission to delegate."""

    front: Front
    tools: Tools
    tokens: Tokens
    authenticators: Authenticators
    settings: Settings
    runner: str
    agent: str

    async def ask(self, token: str, tool: str, path: str = "", **arguments: Any) -> Json:
        """The structured content of an answer, or the status of a refusal."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        where = path or ("worker" if tool.startswith("work_") else "items")
        answer = await self.front.http.post(
            f"/p/{self.tools.project}/mcp/{where}",
            json=message,
            headers={**HEADERS, "authorization": f"Bearer {token}"},
        )
        if answer.status_code != 200:
            return {"status": answer.status_code}
        text = answer.text.partition("data: ")[2] if answer.text.startswith("event") else answer.text
        found: Json = json.loads(text)["result"]["structuredContent"]
        return found

    async def claim(self, actor: str = "", token: str = "", **entry: Any) -> Json:
        """A claim with a token."""
        more: Json = {"actor": {"id": actor, "kind": "subagent"}} if actor else {}
        got = await self.ask(
            token or self.runner, "claim_item", requestId=fresh_id(), claims=[entry], include=["token"], **more
        )
        found: Json = got["claimResults"][0] if "claimResults" in got else got
        return found


@pytest.fixture
async def guarded(store: Store, project: str, tmp_path: Path) -> AsyncIterator[Guarded]:
    tokens = Tokens(tmp_path / "tokens.yaml")
    runner = tokens.add("run", permissions=("items", "items.delegate"))
    agent = tokens.add("agent", permissions=("items", "worker"))
    settings = Settings(
        request_deadline_ms=LONG_MS, auth=Auth(tokens=str(tokens.path), mode="required", resource=RESOURCE)
    )
    authenticators = Authenticators()
    authenticator = authenticators.make(settings)
    await authenticator.start()
    async with serving(store, settings, authenticator) as front:
        yield Guarded(front, Tools(store, project), tokens, authenticators, settings, runner, agent)
    await authenticators.close()


async def test_a_command_works_on_the_item_of_the_runner_and_on_no_other(guarded: Guarded) -> None:
    item, other = await guarded.tools.add("mine", description="d"), await guarded.tools.add("other")
    claim = await guarded.claim("run/1", itemId=item)
    token = claim["token"]
    assert token.startswith("fcc_")
    got = await guarded.ask(token, "work_next", waitMs=30_000)
    assert (got["item"]["id"], got["held"]) == (item, True)
    assert await guarded.tools.role(item) == "work"
    # What others have or lack is not said, and the agent's capabilities are for the runner to name.
    for parent in (other, "ffffffff", "nonsense"):
        assert (await guarded.ask(token, "work_next", parentId=parent, capabilities=["gpu"]))["item"]["id"] == item
    assert "capabilities" not in (await guarded.tools("get_context", agents=True))["agents"][0]
    assert (await guarded.ask(token, "work_note", itemId=item, key="k", body="b"))["itemId"] == item
    for key in ("answer-1", "question-1", "run-1"):
        forged = await guarded.ask(token, "work_note", key=key, body="b")
        assert forged["error"]["message"].startswith(f"key: '{key}' is kept for")
    refused: list[tuple[str, Json]] = [
        *(
            ("work_note", {"itemId": id_, "key": "k", "body": "b"})
            for id_ in (other, other[:8], "ffffffff", "nonsense")
        ),
        ("query_items", {"operation": "get", "id": other}),
        ("query_items", {"operation": "search"}),
        ("query_notes", {"operation": "list", "itemId": other}),
        ("get_context", {}),
        ("get_context", {"agents": True}),
    ]
    for tool, arguments in refused:
        assert (await guarded.ask(token, tool, **arguments))["error"]["code"] == "permission_denied", tool
    forbidden: list[tuple[str, Json]] = [
        ("work_done", {}),
        ("work_failed", {"reason": "r"}),
        ("claim_item", {"requestId": fresh_id(), "claims": [{"itemId": other}]}),
        ("manage_items", {"operation": "delete", "ids": [item]}),
        ("advance_item", {"transitions": [{"itemId": item, "trigger": "cancel"}]}),
    ]
    for tool, arguments in forbidden:
        assert await guarded.ask(token, tool, **arguments) == {"status": 403}, tool
    assert (await guarded.ask(token, "query_items", operation="get", id=item))["description"] == "d"
    assert (await guarded.ask(token, "query_notes", operation="list", itemId=item))["total"] == 1
    assert (await guarded.ask(token, "get_context", itemId=item))["claimDetail"]["claimedBy"] == "run/1"
    # It ends the claim, and so takes no other item; the call does not wait for one.
    asked = await guarded.ask(token, "work_ask", question="q?", next={"waitMs": 30_000})
    assert (asked["role"], asked["next"]["outcome"]) == ("blocked", "stop")
    assert (await guarded.ask(token, "work_ask", question="q?"))["repeated"]
    assert (await guarded.ask(token, "work_next", waitMs=30_000))["outcome"] == "stop"
    assert (await guarded.ask(token, "query_items", operation="get", id=item))["error"]["code"] == "permission_denied"
    assert await guarded.tools.holder(other) == ""
    (done, start) = (await guarded.tools.get(item))["transitions"]
    assert done["actor"]["id"] == start["actor"]["id"] == "run/1"


async def test_a_token_sees_no_other_project_and_nothing_beside_the_tools(guarded: Guarded) -> None:
    item = await guarded.tools.add()
    token = (await guarded.claim(itemId=item))["token"]
    for path in ("/p/elsewhere/mcp/worker", f"/p/{guarded.tools.project}/mcp/flows", f"/feed/{guarded.tools.project}"):
        asked = guarded.front.http.get if path.startswith("/feed") else guarded.front.http.post
        answer = await asked(path, headers={**HEADERS, "authorization": f"Bearer {token}"})
        assert answer.status_code == 403, path

    async def method(name: str, **params: Any) -> Json:
        message = {"jsonrpc": "2.0", "id": 1, "method": name, "params": params}
        answer = await guarded.front.http.post(
            f"/p/{guarded.tools.project}/mcp/items,worker",
            json=message,
            headers={**HEADERS, "authorization": f"Bearer {token}"},
        )
        found: Json = answer.json()
        return found

    listed = [tool["name"] for tool in (await method("tools/list"))["result"]["tools"]]
    reads = ["query_items", "query_notes", "get_context"]
    assert listed == [*reads, "work_next", "work_note", "work_ask"]
    assert "error" in await method("resources/read", uri=f"fleet://{guarded.tools.project}/items/{item}")
    assert (await method("resources/templates/list"))["result"]["resourceTemplates"] == []
    assert (await method("prompts/list"))["result"]["prompts"] == []
    for ref in (
        {"type": "ref/prompt", "name": "work"},
        {"type": "ref/resource", "uri": "fleet://{project}/items/{id}"},
    ):
        for name in ("item", "id", "project"):
            completed = await method("completion/complete", ref=ref, argument={"name": name, "value": ""})
            assert "error" in completed, completed


async def test_who_may_not_delegate_gets_no_token_and_no_claim(guarded: Guarded, store: Store, project: str) -> None:
    item = await guarded.tools.add()
    refused = await guarded.claim(token=guarded.agent, itemId=item)
    assert refused["error"]["message"] == "include: 'token' needs the permission 'items.delegate'"
    async with serving(store) as front:
        answer = await front.http.post(
            f"/p/{project}/mcp/items",
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {
                    "name": "claim_item",
                    "arguments": {
                        "actor": {"id": "a", "kind": "user"},
                        "requestId": fresh_id(),
                        "claims": [{"itemId": item}],
                        "include": ["token"],
                    },
                },
            },
            headers=HEADERS,
        )
    assert "identifies" in answer.json()["result"]["structuredContent"]["error"]["message"]
    assert await guarded.tools.holder(item) == ""


async def test_a_token_ends_with_its_claim(guarded: Guarded) -> None:
    item = await guarded.tools.add()
    first = await guarded.claim(itemId=item)
    token, fence = first["token"], first["fenceToken"]
    release = [{"itemId": item, "fenceToken": fence}]
    await guarded.ask(guarded.runner, "claim_item", requestId=fresh_id(), releases=release)
    again = await guarded.claim(itemId=item)
    assert again["fenceToken"] > fence
    assert await guarded.ask(token, "work_next") == {"status": 401}, "another one was made"
    await lapse(guarded.tools, item)
    late: list[tuple[str, Json]] = [("work_note", {"key": "k", "body": "b"}), ("work_ask", {"question": "q?"})]
    before = counted(CLAIM_CONFLICTS, "stale_fence")
    for tool, arguments in late:
        error = (await guarded.ask(again["token"], tool, **arguments))["error"]
        assert error["code"] == "not_claim_holder"
    assert (await guarded.ask(again["token"], "work_next"))["outcome"] == "stop"
    assert counted(CLAIM_CONFLICTS, "stale_fence") == before, "no newer claim has followed"
    assert await guarded.tools.holder(item) == ""
    assert (await guarded.tools.get(item))["role"] == "queue"


@pytest.mark.parametrize("agent", ["run/1", "run/2"])
async def test_a_token_of_a_claim_before_is_not_good_for_the_next_one(guarded: Guarded, agent: str) -> None:
    """Who shows it is counted as one who shows an older fence."""
    item = await guarded.tools.add()
    token = (await guarded.claim("run/1", itemId=item))["token"]
    await lapse(guarded.tools, item)
    claim: Json = {"claims": [{"itemId": item}], "include": ["item"], "actor": {"id": agent, "kind": "subagent"}}
    claimed = await guarded.ask(guarded.runner, "claim_item", requestId=fresh_id(), **claim)
    assert claimed["claimResults"][0]["outcome"] == "success"
    kinds = "stale_fence", "not_holder", "busy"
    before = [counted(CLAIM_CONFLICTS, kind) for kind in kinds]
    assert (await guarded.ask(token, "work_next"))["outcome"] == "stop"
    for tool, arguments in (("work_ask", {"question": "q?"}), ("work_note", {"key": "k", "body": "b"})):
        assert (await guarded.ask(token, tool, **arguments))["error"]["code"] == "not_claim_holder"
    assert [counted(CLAIM_CONFLICTS, kind) for kind in kinds] == [before[0] + 3, *before[1:]]
    assert (await guarded.ask(token, "query_items", operation="get", id=item))["error"]["code"] == "permission_denied"


async def test_a_token_is_revoked_by_another_one_and_with_its_owner(guarded: Guarded) -> None:
    item = await guarded.tools.add()
    first = await guarded.claim(itemId=item)
    renewed = await guarded.claim(itemId=item, fenceToken=first["fenceToken"])
    assert renewed["fenceToken"] == first["fenceToken"]
    assert await guarded.ask(first["token"], "work_next") == {"status": 401}
    assert (await guarded.ask(renewed["token"], "work_next"))["held"]
    forged = renewed["token"][:-4] + ("AAAA" if not renewed["token"].endswith("AAAA") else "BBBB")
    assert await guarded.ask(forged, "work_next") == {"status": 401}
    for wrong in (b"fcc_", b"fcc_\xff\xfe", b"fcc_\xc3\xa4", b"fcc_" + b"A" * 8000):
        answer = await guarded.front.http.post(
            f"/p/{guarded.tools.project}/mcp/worker", headers=[(b"authorization", b"Bearer " + wrong)]
        )
        assert answer.status_code == 401, wrong
    guarded.tokens.revoke("run")
    await guarded.authenticators.made[0].read(guarded.tokens.path)
    assert await guarded.ask(renewed["token"], "work_next") == {"status": 401}


@pytest.mark.parametrize("entry", ["itemId", "selector"])
async def test_a_repeated_call_gives_a_token_of_the_same_number(guarded: Guarded, store: Store, entry: str) -> None:
    item = await guarded.tools.add()
    fence = (await guarded.claim(itemId=item))["fenceToken"]
    if entry == "selector":
        await guarded.ask(guarded.runner, "claim_item", requestId=fresh_id(), releases=[{"itemId": item}])
    wanted: Json = {"selector": {}} if entry == "selector" else {"itemId": item, "fenceToken": fence}
    call: Json = {"requestId": fresh_id(), "claims": [wanted], "include": ["token"]}

    async def ask(front: Front, **more: Any) -> str:
        got = await replace(guarded, front=front).ask(guarded.runner, "claim_item", **{**call, **more})
        found: str = got["claimResults"][0]["token"]
        return found

    async def work(*tokens: str) -> list[bool]:
        return ["held" in await guarded.ask(token, "work_next") for token in tokens]

    async with serving(store, guarded.settings, guarded.authenticators.made[0]) as other:
        tokens = await asyncio.gather(*(ask(front) for front in (guarded.front, other) * 3))
        tokens += [await ask(other), await ask(guarded.front)]
        assert await work(*tokens) == [True] * 8
        held = {"itemId": item, "ttlSeconds": 60}
        newer = await ask(other, requestId=fresh_id(), claims=[held])
        assert await work(newer, tokens[0]) == [True, False]
        repeated = await ask(guarded.front)
        assert await work(newer, repeated, tokens[0], newer) == [True, False, False, True]
        records = await named(guarded, keys.request.key(guarded.tools.project, "[0-9a-f]*"))
        assert not any([b"fcc_" in (await store.client.get(key) or b"") for key in records]), "no token is recorded"
        await store.client.delete(*records)  # as they expire: then the id is that of a new call
        again = await ask(other, claims=[held])
        assert await work(again, newer, tokens[0], repeated) == [True, False, False, False]


async def named(guarded: Guarded, pattern: bytes) -> list[bytes]:
    """The keys of this name."""
    return [key async for key in guarded.tools.store.client.scan_iter(match=pattern)]


async def held_by_two(guarded: Guarded) -> bool:
    """Whether two processes hold a claim that waits."""
    parked = await named(guarded, keys.waiter.key(guarded.tools.project, "*"))
    return bool(parked) and len(await guarded.tools.store.command("HGET", parked[0], "p") or b"") == 2 * 32


async def test_a_claim_that_has_waited_gives_its_token_again(guarded: Guarded, store: Store) -> None:
    call: Json = {
        "requestId": fresh_id(),
        "claims": [{"selector": {}}],
        "include": ["token", "notes"],
        "waitMs": 30_000,
    }
    async with serving(store, guarded.settings, guarded.authenticators.made[0]) as other:
        fronts = [guarded, replace(guarded, front=other)]
        waiting = [asyncio.create_task(one.ask(guarded.runner, "claim_item", **call)) for one in fronts]
        await wait_until(partial(held_by_two, guarded), what="both front-ends hold the claim")
        await guarded.tools.add()
        answers = [*await asyncio.gather(*waiting), await guarded.ask(guarded.runner, "claim_item", **call)]
        for answer in answers:
            assert "held" in await guarded.ask(answer["claimResults"][0]["token"], "work_next")
            assert answer["claimResults"][0]["notes"] == []


async def test_the_bearer_acts_as_nobody_else(guarded: Guarded) -> None:
    item = await guarded.tools.add()
    token = (await guarded.claim("run/1", itemId=item))["token"]
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "work_note", "arguments": {"key": "k", "body": "b"}},
    }
    for name, refused in (("run/1", False), ("run", True), ("run/1/x", True), ("/x", True)):
        answer = await guarded.front.http.post(
            f"/p/{guarded.tools.project}/mcp/worker",
            json=message,
            headers={**HEADERS, "authorization": f"Bearer {token}", "fleet-agent": name},
        )
        content = answer.json()["result"]["structuredContent"]
        assert (content.get("error", {}).get("code") == "actor_mismatch") == refused, name


async def test_usage_that_comes_with_a_token_is_not_counted_and_the_answer_says_so(guarded: Guarded) -> None:
    item = await guarded.tools.add(budget={"costMicroUsd": 5})
    claim = await guarded.claim(itemId=item)
    used: Json = {"costMicroUsd": 10**12, "inputTokens": 10**12, "cachedTokens": 0, "wallMs": 10**12}
    noted = await guarded.ask(claim["token"], "work_note", key="k", body="b", usage=used)
    assert (noted["key"], noted["usage"]) == ("k", "not counted: the runner reports it")
    assert "stop" not in noted
    # What no report could bring is not looked at.
    odd = {"cachedTokens": 1, "inputTokens": 0, "costMicroUsd": 10**15}
    assert (await guarded.ask(claim["token"], "work_note", key="k", body="b", usage=odd))["usage"] == noted["usage"]
    assert "usage" not in await guarded.ask(claim["token"], "work_note", key="k", body="b")
    asked = await guarded.ask(claim["token"], "work_ask", question="q?", usage=used)
    assert (asked["role"], asked["usage"]) == ("blocked", noted["usage"])
    again = await guarded.ask(claim["token"], "work_ask", question="q?", usage=used)
    assert (again["repeated"], again["usage"]) == (True, noted["usage"])
    found = await guarded.tools.get(item)
    assert "usage" not in found
    assert "budgetSpent" not in found
    note = {"itemId": item, "key": "run-1", "role": "work", "body": "b", "usage": {"costMicroUsd": 4}}
    assert (await guarded.ask(guarded.runner, "manage_notes", operation="upsert", notes=[note]))["upserted"] == 1
    assert (await guarded.tools.get(item))["usage"]["own"]["costMicroUsd"] == 4, "the runner's own report counts"


async def known(guarded: Guarded, token: str) -> str:
    """A token that the front-end knows."""
    await guarded.authenticators.made[0].read(guarded.tokens.path)
    return token


async def test_a_token_ends_with_the_very_credential_that_asked_for_it(guarded: Guarded) -> None:
    """Another entry of the same id does not keep it; one that replaces the credential does."""
    item = await guarded.tools.add()
    token = (await guarded.claim(itemId=item))["token"]
    other = await known(guarded, guarded.tokens.add("run", permissions=("*",)))
    newer = await known(guarded, guarded.tokens.replace(guarded.runner))
    assert (await guarded.ask(token, "work_next"))["held"]
    guarded.tokens.revoke(guarded.runner)
    await known(guarded, "")
    assert (await guarded.ask(token, "work_next"))["held"]
    guarded.tokens.revoke(newer)
    await known(guarded, "")
    assert await guarded.ask(token, "work_next") == {"status": 401}
    assert (await guarded.ask(other, "work_next"))["held"]


@pytest.mark.parametrize("left", ["[items]", "[items.read, items.delegate]", "[worker, items.delegate]", "[]"])
async def test_a_token_ends_when_its_owner_may_not_claim_and_delegate_any_more(guarded: Guarded, left: str) -> None:
    item = await guarded.tools.add()
    token = (await guarded.claim(itemId=item))["token"]
    text = guarded.tokens.path.read_text()
    for permissions, works in (("[items.admin]", True), (left, False), ("[items, items.delegate]", True)):
        guarded.tokens.write(text.replace("[items, items.delegate]", permissions))
        await known(guarded, "")
        assert ("held" in await guarded.ask(token, "work_next")) == works, permissions


async def test_the_bearer_renews_for_no_longer_than_the_claim_was_made_for(guarded: Guarded) -> None:
    async def left() -> float:
        """Seconds until the claim ends."""
        shown = await guarded.ask(guarded.runner, "get_context", itemId=item)
        ends = datetime.fromisoformat(shown["claimDetail"]["claimExpiresAt"])
        return ends.timestamp() - await guarded.tools.store.time() / 1000

    item = await guarded.tools.add()
    claim = await guarded.claim(itemId=item, ttlSeconds=1_200)
    renewals: list[Json] = [{}, {"ttlSeconds": 86_400}, {"ttlSeconds": 1_190}]
    for arguments in renewals:
        assert (await guarded.ask(claim["token"], "work_next", **arguments))["held"]
        assert 1_000 < await left() <= 1_200
    assert await guarded.ask(claim["token"], "work_note", key="k", body="b")
    assert 1_000 < await left() <= 1_200
    # What the holder has added is neither taken away nor repeated.
    renewal = {"itemId": item, "fenceToken": claim["fenceToken"], "ttlSeconds": 3_600}
    await guarded.ask(guarded.runner, "claim_item", requestId=fresh_id(), claims=[renewal])
    before = await left()
    assert before > 3_500
    calls: list[tuple[str, Json]] = [
        ("work_next", {}), ("work_next", {"ttlSeconds": 1}), ("work_note", {"key": "k", "body": "c"})
    ]  # fmt: skip
    for tool, arguments in calls:
        assert "error" not in await guarded.ask(claim["token"], tool, **arguments)
        assert 3_500 < await left() <= before
    # Without such a token an agent renews for as long as it likes.
    assert (await guarded.ask(guarded.runner, "work_next", ttlSeconds=7_200))["held"]
    assert await left() > 7_000
