"""complete_tree in many runs: any text survives, and another process continues after a kill."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import islice, pairwise
from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store import Script, Store, keys
from coordinator.toolsets.items.audit import audit
from tests.items.calls import contents, events
from tests.items.client import Client, Json, actor, fresh_id
from tests.support.between import after

pytestmark = pytest.mark.anyio

EPOCH = "1970-01-01T00:00:00Z"
COUNT = 60
"""Items in three runs of 25."""
DEPENDENCY = "dependency gate failed"
TEXTS = [
    "\"double\" 'single' `back`",
    'slash / back \\ both \\/ \\" \\u0041 \\n',
    "tab\t line\n return\r bell\x07 nul\x00 escape\x1b delete\x7f end",
    "é ☃ 漢字 العربية 🦊 \u2028\u2029\ufeff\ufffd \U0010ffff",
    "[]{}[[1,2],{}] null true %d %s -- ]] --[[ $1",
    "0",
    "x" * 63 + "é",
    "漢" * 500,
]


class Interrupted(Store):
    """A store of a process that is killed around the n-th run of complete_items."""

    def __init__(self, url: str, run: int, ran: bool) -> None:
        super().__init__(url, timeout_ms=5000)
        self.left = run
        self.ran = ran
        """Whether that run still has its effect."""

    async def run(self, script: Script[Any], project: str, *args: str | bytes | int, **more: Any) -> Any:
        if script.name != "complete_items":
            return await super().run(script, project, *args, **more)
        self.left -= 1
        reply = await super().run(script, project, *args, **more) if self.left > 0 or self.ran else None
        if self.left <= 0:
            raise ToolFailure("store_unavailable", "killed")
        return reply


Killed = Callable[..., Awaitable[Client]]


@pytest.fixture
async def killed(redis_url: str, project: str) -> AsyncIterator[Killed]:
    """Makes a client of a process that dies at the n-th run."""
    stores: list[Store] = []

    async def make(run: int, ran: bool = True) -> Client:
        stores.append(Interrupted(redis_url, run, ran))
        await stores[-1].open()
        return Client(stores[-1], project)

    yield make
    for store in stores:
        await store.close()


async def planted(tools: Client, count: int = COUNT, *, chained: bool = True) -> tuple[str, list[str]]:
    """A root and what is below it, called '0', '1' ..., each waiting for the one before."""
    root = await tools.add("root")
    ids = await tools.add_many(count, parentId=root)
    if chained:
        await tools.link_all(pairwise(ids))
    return root, ids


def keyed(**arguments: Any) -> Json:
    return {**arguments, "actor": actor("ann"), "requestId": fresh_id()}


def reasons(answer: Json) -> list[str]:
    return ["done" if result["applied"] else result["skippedReason"] for result in answer["results"]]


async def interrupted(client: Client, **call: Any) -> None:
    assert (await client.refusal("complete_tree", **call)).message == "killed"


async def ended_once(tools: Client, ids: list[str]) -> None:
    """Each of the items was ended once, by ann, and no other."""
    rows = (await tools("get_context", since=EPOCH, limit=200))["recentTransitions"]
    assert sorted(row["itemId"] for row in rows) == sorted(ids)
    assert {row["actor"]["id"] for row in rows} <= {"ann"}
    assert not (await audit(tools.store, tools.project)).differences


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.every_store
@pytest.mark.parametrize("ending", ["complete", "refused"])
async def test_titles_are_returned_verbatim(tools: Client, ending: str) -> None:
    """Through one run and, with others, through several."""
    for fill in (0, 30):
        ids = [await tools.add(text) for text in TEXTS] + (await tools.add_many(fill) if fill else [])
        if ending == "refused":
            for number, item in enumerate(ids[: len(TEXTS)]):
                await tools.claim(f"agent {number}", item)
        answer = await tools("complete_tree", itemIds=ids)
        shown = {result["itemId"]: (result["title"], result["applied"]) for result in answer["results"]}
        expected = [(text, ending == "complete") for text in TEXTS] + [(str(n), True) for n in range(fill)]
        assert shown == dict(zip(ids, expected, strict=True))


@pytest.mark.parametrize("text", [text[:190] for text in TEXTS], ids=range(len(TEXTS)))
async def test_keys_and_labels_are_returned_verbatim(store: Store, project: str, text: str) -> None:
    schema = {
        "notes": [{"key": text, "role": "queue", "required": True}, {"key": "b", "role": "work", "required": True}]
    }
    config = {"work_item_schemas": {"bug": schema}, "status_labels": {"complete": text, "cancel": text}}
    tools = Client(store, project, msgspec.convert(config, Settings))
    gated, free = await tools.add("g", type="bug"), await tools.add("f")
    first, second = (await tools("complete_tree", itemIds=[gated, free]))["results"]
    assert {first["itemId"], second["itemId"]} == {gated, free}
    refused, done = (first, second) if first["itemId"] == gated else (second, first)
    assert refused["gateErrors"] == [f"missing: {text}", "missing: b"]
    assert done["statusLabel"] == (await tools.get(free))["statusLabel"] == text


@pytest.mark.chaos
async def test_two_thousand_items_with_the_longest_titles(tools: Client) -> None:
    """Results of 4 MB, of which each run handles only its own part."""
    root = await tools.add("root")
    tops = await tools.add_many(10, parentId=root)
    for number, top in enumerate(tops):
        await tools.create(*({"title": f"{number}.{n} ".ljust(500, "\U0001f98a"), "parentId": top} for n in range(199)))
    runs: list[str] = []
    tools.store.observe = lambda script, *_: runs.append(script)
    call = keyed(rootId=root)
    answer = await tools("complete_tree", **call)
    assert answer["summary"] == {"total": 2000, "completed": 2000, "skipped": 0, "gateFailures": 0}
    titles = {f"{number}.{n} ".ljust(500, "\U0001f98a") for number in range(10) for n in range(199)}
    assert {result["title"] for result in answer["results"]} == titles | {str(n) for n in range(10)}
    assert runs.count("complete_items") == 80
    assert await tools("complete_tree", **call) == answer
    assert (await tools("query_items", operation="search", role="terminal", limit=1))["total"] == 2000
    client = tools.store.client
    records = [key async for key in client.scan_iter(match=keys.request.key(tools.project, "*"))]
    assert len(records) == 80
    assert max([await client.strlen(key) for key in records]) < 150_000
    assert not (await audit(tools.store, tools.project)).differences


async def test_more_than_two_thousand_items_are_rejected(tools: Client) -> None:
    root = await tools.add("root")
    for _ in range(9):
        await tools.add_many(200, parentId=root)
    *_, last = await tools.add_many(200, parentId=root)
    one_more = await tools.add("one more", parentId=last)
    failure = await tools.refusal("complete_tree", rootId=root)
    assert (failure.code, failure.message.split(";")[0]) == (
        "VALIDATION_ERROR",
        "rootId: has more than 2000 descendants",
    )
    assert (await tools("query_items", operation="search", role="queue", limit=1))["total"] == 2002
    await tools.delete(one_more)
    answer = await tools("complete_tree", rootId=root, includeRoot=True, trigger="cancel")
    assert answer["summary"]["completed"] == 2001
    assert answer["results"][-1]["title"] == "root"


async def test_an_item_that_moves_within_the_tree_meanwhile_is_completed(
    tools: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = await tools.add("root")
    first, second = await tools.add("first", parentId=root, priority="high"), await tools.add("second", parentId=root)
    item = await tools.add("item", parentId=second)
    after(monkeypatch, tools.store, 2, lambda: tools.update(item, parentId=first))
    await tools("complete_tree", rootId=root)
    assert (await tools.get(item))["parentId"] == first
    assert await tools.role(item) == "terminal"


# --- repeated and interrupted -----------------------------------------------------------------------


@pytest.mark.every_store
async def test_a_retry_gets_the_first_answer_and_has_no_effect(tools: Client) -> None:
    root, ids = await planted(tools)
    call = keyed(rootId=root)
    first = await tools.answer("complete_tree", **call)
    await tools.move(ids[0], "reopen")
    before = await contents(tools)
    assert await tools.answer("complete_tree", **call) == first
    assert await contents(tools) == before
    await tools.delete(root, recursive=True)
    assert await tools.answer("complete_tree", **call) == first


@pytest.mark.parametrize(
    "other",
    [
        {"trigger": "cancel"},
        {"includeRoot": True},
        {"actor": actor("ann", parent="x")},
        {"rootId": None, "itemIds": ["abcd"]},
    ],
    ids=["trigger", "includeRoot", "actor", "itemIds"],
)
async def test_a_request_id_stands_for_all_arguments_even_before_the_end(
    tools: Client, killed: Killed, other: Json
) -> None:
    root, _ = await planted(tools)
    call = keyed(rootId=root)
    await interrupted(await killed(1), **call)
    before = await contents(tools)
    if "itemIds" in other:
        other = {**other, "itemIds": [root]}
    assert (await tools.refusal("complete_tree", **{**call, **other})).code == "request_id_reused"
    assert await contents(tools) == before


async def test_without_a_request_id_the_next_call_sees_the_effects(tools: Client, killed: Killed) -> None:
    root, _ = await planted(tools)
    await interrupted(await killed(1), rootId=root)
    answer = await tools("complete_tree", rootId=root)
    assert reasons(answer) == ["already terminal"] * 25 + ["done"] * 35


@pytest.mark.parametrize("ran", [True, False])
@pytest.mark.parametrize("run", [1, 2, 3])
@pytest.mark.parametrize("trigger", ["complete", "cancel"])
async def test_another_process_continues_the_call(
    tools: Client, killed: Killed, trigger: str, run: int, ran: bool
) -> None:
    root, ids = await planted(tools)
    call = keyed(rootId=root, trigger=trigger)
    before = await events(tools)
    await interrupted(await killed(run, ran), **call)
    begun = min(COUNT, 25 * (run if ran else run - 1))
    assert await events(tools) == before + begun
    assert [await tools.role(item) for item in ids] == ["terminal"] * begun + ["queue"] * (COUNT - begun)
    answer = await tools("complete_tree", **call)
    assert [result["itemId"] for result in answer["results"]] == ids
    assert reasons(answer) == ["done"] * COUNT
    assert await events(tools) == before + COUNT
    assert await tools("complete_tree", **call) == answer
    await ended_once(tools, ids)


async def test_every_run_may_be_in_another_process(tools: Client, killed: Killed) -> None:
    root, ids = await planted(tools)
    call = keyed(rootId=root, includeRoot=True)
    for _ in range(3):
        await interrupted(await killed(1), **call)
    answer = await tools("complete_tree", **call)
    assert [result["itemId"] for result in answer["results"]] == [*ids, root]
    await ended_once(tools, [*ids, root])


async def test_a_continued_call_knows_what_to_skip(tools: Client, killed: Killed) -> None:
    """Although the claim that caused the refusal and the edge no longer exist."""
    root, ids = await planted(tools)
    await tools.claim("bob", ids[10])
    call = keyed(rootId=root)
    await interrupted(await killed(1), **call)
    await tools.release("bob", ids[10])
    await tools.unlink(fromItemId=ids[24], toItemId=ids[25])
    answer = await tools("complete_tree", **call)
    assert reasons(answer)[:10] == ["done"] * 10
    assert answer["results"][10]["errorCode"] == "not_claim_holder"
    assert reasons(answer)[11:] == [DEPENDENCY] * 49
    await ended_once(tools, ids[:10])


async def test_a_continued_call_sees_the_current_state_of_the_rest(tools: Client, killed: Killed) -> None:
    root, ids = await planted(tools, chained=False)
    call = keyed(rootId=root)
    await interrupted(await killed(1), **call)
    left = [item for item in ids if await tools.role(item) == "queue"]
    assert len(left) == 35
    held, gone, done, blocked, waits = left[:5]
    await tools.claim("bob", held)
    await tools.delete(gone)
    await tools.move(done, "cancel")
    await tools.move(blocked, "block")
    await tools.link(await tools.add("blocker"), waits)
    late = await tools.add("late", parentId=root)
    answer = await tools("complete_tree", **call)
    found = {result["itemId"]: result for result in answer["results"]}
    assert found.keys() == set(ids)
    assert found[gone]["skippedReason"] == "no such item"
    assert found[held]["errorCode"] == "not_claim_holder"
    assert [found[item]["skippedReason"] for item in (done, blocked, waits)] == [
        "already terminal", "Cannot transition: use 'resume' first", "1 blocking dependencies are not satisfied",
    ]  # fmt: skip
    assert answer["summary"] == {"total": 60, "completed": 55, "skipped": 5, "gateFailures": 0}
    assert await tools.role(late) == "queue"
    assert not (await audit(tools.store, tools.project)).differences


@pytest.mark.parametrize("named", ["root", "prefix of the root", "prefixes of items"])
async def test_a_continued_call_need_not_resolve_its_arguments(
    tools: Client, killed: Killed, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    upcoming = iter(f"{n:04x}".ljust(32, "a") for n in range(COUNT + 2))
    monkeypatch.setattr("coordinator.toolsets.items.tools.items.new_ids", lambda count: list(islice(upcoming, count)))
    root, ids = await planted(tools)
    targets: Json = {"itemIds": [item[:4] for item in ids]} if "items" in named else {"rootId": root}
    call = keyed(**({"rootId": root[:4]} if named == "prefix of the root" else targets))
    await interrupted(await killed(1), **call)
    if "items" in named:
        await tools.delete(ids[3])
    else:
        for item in ids:
            await tools.update(item, parentId=None)
        await tools.delete(root)
    answer = await tools("complete_tree", **call)
    assert [result["itemId"] for result in answer["results"]] == ids
    assert reasons(answer) == ["done"] * COUNT


@pytest.mark.every_store
async def test_equal_concurrent_calls_share_work_and_answer(tools: Client) -> None:
    root, ids = await planted(tools)
    call, before = keyed(rootId=root), await events(tools)
    answers = await asyncio.gather(*(tools.answer("complete_tree", **call) for _ in range(5)))
    assert len(set(answers)) == 1
    assert await events(tools) == before + COUNT
    await ended_once(tools, ids)


async def test_different_concurrent_calls_end_each_item_once(tools: Client) -> None:
    root, ids = await planted(tools, chained=False)
    answers = await asyncio.gather(*(tools("complete_tree", **keyed(rootId=root)) for _ in range(4)))
    applied = [result["itemId"] for answer in answers for result in answer["results"] if result["applied"]]
    assert sorted(applied) == sorted(ids)
    assert {reason for answer in answers for reason in reasons(answer)} <= {"done", "already terminal"}
    await ended_once(tools, ids)
