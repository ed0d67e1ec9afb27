"""Whole projects: what is written of one is restored as it was, also in pieces; what is wrong is refused whole."""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.projects import native
from coordinator.projects.errors import BadFile, NotPossible
from coordinator.projects.restoring import Restored, restore
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, actor
from tests.items.moments import lapse
from tests.items.parked import Fronts
from tests.items.recurrence import age
from tests.projects.native import SETTINGS, restored, same, written

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("several_projects")]


async def a_project(tools: Client) -> None:
    """Items of every kind and in every state."""
    root = await tools.add(
        "root",
        description="long " * 100,
        summary="s" * 100,
        metadata="free",
        properties='{"a": [1, 2.50]}',
        tags="api,net",
        type="feature",
        priority="high",
        complexity=7,
        statusLabel="odd",
        maxAttempts=0,
        retryBackoffSeconds=5,
        requiresVerification=True,
    )
    parts = [await tools.add(f"part {n}", parentId=root) for n in range(9)]
    deep = await tools.add("deep", parentId=await tools.add("mid", parentId=parts[0], container=True))
    held = [{"key": "gpu", "mode": "exclusive", "units": 1}, {"key": "repo/a", "mode": "shared", "units": 1}]
    await tools.add("for gpus", parentId=parts[0], requires=["gpu", "big"], resources=held)
    used = {"inputTokens": 9, "outputTokens": 3, "costMicroUsd": 70, "model": "m"}
    for item in (await tools.add("spent", budget={"tokens": 12}), await tools.add("done", parentId=parts[0])):
        note = {"itemId": item, "key": "k", "role": "work", "usage": used}
        await tools("manage_notes", operation="upsert", notes=[note])
        await tools("manage_notes", operation="delete", itemId=item)
    await tools.link(parts[1], parts[2])
    await tools.link(parts[3], parts[2], type="IS_BLOCKED_BY", unblockAt="work")
    await tools.link(parts[1], deep, type="RELATES_TO")
    notes = [
        {"itemId": parts[1], "key": "plan", "role": "queue", "body": "text \u2028 \x00", "actor": actor("ann")},
        {"itemId": parts[1], "key": "blank", "role": "review", "body": " "},
    ]
    await tools("manage_notes", operation="upsert", notes=notes)
    await tools("manage_notes", operation="upsert", notes=notes[:1])
    await tools.claim("bot", parts[1])
    await tools.advance(parts[1], "start", "bot", summary="begun")
    await tools.advance(parts[1], "complete", "bot", result={"merged": True})
    await tools.advance(parts[2], "start")
    await tools.advance(parts[3], "start")
    await tools.advance(parts[3], "complete", result="as text")
    await tools.advance(parts[4], "block", summary="why")
    await tools.move(parts[5], "start", "hold")
    await tools.move(parts[6], "cancel", "reopen")
    for agent in ("a", "b"):  # quarantined
        await tools.claim(agent, parts[7])
        if agent == "a":
            await tools.advance(parts[7], "start", agent)
        await tools.release(agent, parts[7], reason="failed", detail="no network")
    await tools.claim("gone", parts[8])
    await tools.advance(parts[8], "start", "gone")
    await tools.release("gone", parts[8])  # abandoned
    await tools.claim("holder", deep)
    await tools.advance(deep, "start", "holder")
    asked = await tools.add("created as blocked", role="blocked")
    answer = {"itemId": asked, "key": "answer-1", "role": "work", "body": "yes", "actor": actor("ann")}
    await tools("manage_notes", operation="upsert", notes=[answer])
    await tools.move(asked, "resume")
    await tools.add("later", notBefore="+1h", dueAt="+2h")
    await tools.add("late", dueAt="2026-01-01T00:00:00Z")
    await tools.move(await tools.add("paused", recurs={"cron": "@weekly", "missed": "all"}), "hold")
    report = await tools.add("report", recurs={"cron": "0 9 * * *", "overlap": "allow"}, dueAt="+1h")
    await age(tools, report, 86_400_000)
    await tools.claiming.claims.expire(tools.project)


async def edges(tools: Client, item: str) -> list[Any]:
    """Those of an item; they have no order."""
    found = (await tools("query_dependencies", itemId=item, includeItemInfo=True))["dependencies"]
    return sorted(found, key=lambda one: one["id"])


async def test_a_project_is_restored_as_it_was(store: Store, project: str) -> None:
    tools, other = Client(store, project, SETTINGS), Client(store, f"{project}-2", SETTINGS)
    await a_project(tools)
    data = await written(store, project)
    done = await restored(store, other.project, data)
    found = await audit(store, project)
    assert (done.items, done.dependencies, done.notes) == (found.items, found.edges, 5)
    assert done.transitions > 15
    assert not (await audit(store, other.project)).differences
    same(await written(store, other.project), data)
    assert await other.next(limit=20) == await tools.next(limit=20)
    for line in data.splitlines():
        item = json.loads(line)
        if item["_type"] == "item":
            there, here = await other.get(item["id"]), await tools.get(item["id"])
            if item["title"] == "deep":  # the claim on it is left out
                assert (there.pop("abandoned"), "abandoned" in here) == (True, False)
            assert there == here
            assert await other("query_notes", operation="list", itemId=item["id"]) == await tools(
                "query_notes", operation="list", itemId=item["id"]
            )
            assert await edges(other, item["id"]) == await edges(tools, item["id"])
    taken = await other.claims("next", [{"selector": {}}])
    assert taken["claimResults"][0]["takeover"] is True, "what was left in the middle is not offered"


async def test_parents_in_all_states_are_offered_as_before(store: Store, project: str) -> None:
    schemas = {"work_item_schemas": {"home": {"lifecycle": "permanent", "notes": []}, "own": {"lifecycle": "manual"}}}
    settings = msgspec.convert({"attempts": {"max": 0, "backoff_seconds": 0}, **schemas}, Settings)
    tools, other = Client(store, project, settings), Client(store, f"{project}-2", settings)
    for role in ("queue", "work", "review", "blocked", "terminal"):
        await tools.add(f"child of {role}", parentId=await tools.add(role, role=role))
    for kind, trigger in (("own", "start"), ("own", ""), ("home", "start"), ("home", "")):
        child = await tools.add(f"ended {kind}", parentId=await tools.add(f"{kind} {trigger}", type=kind))
        if trigger:
            await tools.move(child, trigger)
        await tools.move(child, "complete")
    left = await tools.add("left")
    await tools.claim("gone", left)
    await tools.advance(left, "start", "gone")
    await tools.add("below what was left", parentId=left)
    await lapse(tools, left)
    container = await tools.add("container", container=True)
    await tools.add("in the container", parentId=container)
    await tools.next()
    await restored(store, other.project, await written(store, project))
    assert not (await audit(store, other.project)).differences
    for options in ({}, {"parents": "after_children"}, {"role": "work"}, {"role": "work", "parents": "after_children"}):
        assert await other.next(limit=20, **options) == await tools.next(limit=20, **options)
    for selector in ({}, {"parents": "any"}):
        while True:
            claims = [(await one.claims("x", [{"selector": selector}]))["claimResults"][0] for one in (tools, other)]
            assert claims[0].get("itemId") == claims[1].get("itemId")
            if claims[0]["outcome"] != "success":
                break
            for one in (tools, other):
                await one.advance(claims[0]["itemId"], "cancel", "x")
    assert not (await audit(store, other.project)).differences


async def test_a_restored_project_is_no_dead_copy(store: Store, project: str) -> None:
    """Quarantine, blocked items, dependencies and fences go on as in the first one."""
    tools, other = Client(store, project, SETTINGS), Client(store, f"{project}-2", SETTINGS)
    await a_project(tools)
    await restored(store, other.project, await written(store, project))
    ids = {
        line["title"]: line["id"]
        for line in map(json.loads, (await written(store, project)).splitlines())
        if "title" in line
    }
    fence = next(
        line["fence"]
        for line in map(json.loads, (await written(store, project)).splitlines())
        if line.get("title") == "part 8"
    )
    assert (await other.claim("new", ids["part 8"]))["fenceToken"] > fence
    assert await other.role(ids["part 7"]) == "blocked"
    await other.move(ids["part 7"], "resume")
    assert (await other.get(ids["part 7"]))["attempts"]["count"] == 0
    await other.move(ids["part 5"], "resume")
    assert await other.role(ids["part 5"]) == "work"
    await other.move(ids["part 2"], "complete")
    assert not (await audit(store, other.project)).differences


class Broken(Exception):
    pass


class Failing:
    """A store whose changes fail after so many."""

    def __init__(self, store: Store, after: int) -> None:
        self._store, self._left = store, after

    async def run(self, script: Any, *args: Any, **more: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Broken
        return await self._store.run(script, *args, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_an_interrupted_restoration_is_continued(store: Store, project: str) -> None:
    tools = Client(store, project, SETTINGS)
    await a_project(tools)
    data = await written(store, project)
    ready = set(await tools.next(limit=20))
    steps, ended = 0, False
    while not ended:
        other = f"{project}-{steps}"
        failing: Any = Failing(store, steps)
        with contextlib.suppress(Broken):
            await restore(failing, SETTINGS, other, io.BytesIO(data), lambda text: None)
            ended = True
        assert set(await Client(store, other, SETTINGS).next(limit=20)) <= ready, "something is offered too early"
        again = await restored(store, other, data)
        same(await written(store, other), data)
        assert not (await audit(store, other)).differences
        assert not ended or again == Restored()
        steps += 1
    assert steps > 5


async def test_an_agent_that_waits_gets_an_item_when_all_is_there(store: Store, redis_url: str, project: str) -> None:
    """Not before: the first item that it could have waits for another one."""
    tools = Client(store, project, SETTINGS)
    first, second = await tools.add("first", priority="high"), await tools.add("second")
    await tools.link(second, first)
    data = await written(store, project)
    fronts = Fronts(redis_url, f"{project}-2")
    try:
        front = await fronts.make(settings=SETTINGS)
        waiting = await front.park("agent")
        await restored(store, front.project, data)
        assert await waiting.item() == second
    finally:
        await fronts.close()


async def test_only_an_empty_project_is_restored_into(store: Store, project: str) -> None:
    tools = Client(store, project)
    await tools.chain(1)
    data = await written(store, project)
    other = Client(store, f"{project}-2")
    await other.add("mine")
    with pytest.raises(NotPossible, match="has other items"):
        await restored(store, other.project, data)
    assert (await other("query_items", operation="search"))["total"] == 1


def changed(data: bytes, number: int, change: Callable[[dict[str, Any]], Any]) -> bytes:
    lines = data.splitlines()
    line = json.loads(lines[number])
    change(line)
    lines[number] = json.dumps(line).encode()
    return b"\n".join(lines) + b"\n"


async def test_wrong_files_are_refused_before_anything_is_written(store: Store, project: str) -> None:
    tools = Client(store, project)
    await tools.chain(1)
    data = await written(store, project)
    other = f"{project}-2"
    wrong = [data[:end] for end in range(0, len(data) - 1, 7)]
    wrong += [
        changed(data, 0, lambda line: line.update(version=3)),
        changed(data, 1, lambda line: line.update(surprise=1)),
        changed(data, 1, lambda line: line.update(id="x")),
        changed(data, 1, lambda line: line.update(role="lost")),
        changed(data, 1, lambda line: line.update(createdAt="yesterday")),
        changed(data, 2, lambda line: line.update(parentId="00000000-0000-4000-8000-000000000000")),
        b"\n".join([*data.splitlines()[:2], *data.splitlines()[1:]]),
        b"\n".join(reversed(data.splitlines())),
        b"[" * 100_000,
        b'{"_type":"project","project":"' + b"x" * 17_000_000,
    ]
    for one in wrong:
        with pytest.raises(BadFile):
            await restored(store, other, one)
    assert (await Client(store, other)("query_items", operation="search"))["total"] == 0
    assert (await restored(store, other, data)).items == 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda line: line.update(notBefore="9999-01-01T00:00:00.000Z"),
            "notBefore: must be in the years 2000 to 2099",
        ),
        (lambda line: line.update(dueAt="9999-01-01T00:00:00.000Z"), "dueAt: must be in the years 2000 to 2099"),
        (lambda line: line["recurs"].update(madeUntil="9999-01-01T00:00:00.000Z"), "recurs.madeUntil: must be in"),
        (lambda line: line["recurs"].update(timeZone="localtime"), "recurs.timeZone: 'localtime' must be a name of"),
        (lambda line: line["recurs"].update(cron="*/90 * * * *"), "recurs.cron: .* must be at most 60"),
    ],
)
async def test_wrong_times_are_refused_with_what_is_allowed(
    store: Store, project: str, change: Callable[[dict[str, Any]], Any], told: str
) -> None:
    await Client(store, project).add("daily", recurs={"cron": "@daily"})
    with pytest.raises(BadFile, match=f"line 2: {told}"):
        await restored(store, f"{project}-2", changed(await written(store, project), 1, change))


async def test_a_cycle_in_a_file_is_refused(store: Store, project: str) -> None:
    tools = Client(store, project)
    one, two = await tools.add("one"), await tools.add("two")
    await tools.link(one, two)
    lines = (await written(store, project)).splitlines()
    edge = json.loads(lines[3])
    back = {**edge, "id": edge["fromItemId"], "fromItemId": edge["toItemId"], "toItemId": edge["fromItemId"]}
    data = [*lines[:4], json.dumps(back).encode(), b'{"_type":"end","lines":5}']
    with pytest.raises(ToolFailure, match="cycle"):
        await restored(store, f"{project}-2", b"\n".join(data))
    assert await Client(store, f"{project}-2").next() == [], "a part of a project is offered"


def test_the_published_schema_is_that_of_the_code() -> None:
    """After a change: write what ``native.schema()`` returns to the file."""
    assert msgspec.json.decode(native.SCHEMA_FILE.read_bytes()) == json.loads(json.dumps(native.schema()))


async def test_every_line_keeps_to_the_published_schema(store: Store, project: str) -> None:
    await a_project(Client(store, project, SETTINGS))
    check = jsonschema_rs.validator_for(json.loads(native.SCHEMA_FILE.read_bytes()))
    for line in (await written(store, project)).splitlines():
        check.validate(json.loads(line))


async def test_random_histories_survive(store: Store, project: str) -> None:
    """Whatever agents do, what is written is restored, and written again it is the same."""
    for seed in range(6):
        draw = random.Random(seed)
        tools = Client(store, f"{project}-{seed}", SETTINGS)
        items = await tools.add_many(3)
        for _ in range(60):
            item, agent = draw.choice(items), draw.choice("abc")
            action = draw.randrange(6)
            if action == 0:
                made = await tools.create({"title": "new", "parentId": item, "tags": draw.choice(["x", "y"])})
                items += [one["id"] for one in made["items"]]
            elif action == 1:
                trigger = draw.choice(["start", "complete", "block", "resume", "cancel", "reopen", "hold"])
                await tools.attempt(
                    "advance_item", transitions=[{"itemId": item, "trigger": trigger, "actor": actor(agent)}]
                )
            elif action == 2:
                await tools.claim(agent, item)
            elif action == 3:
                await tools.release(agent, item, reason=draw.choice(["failed", "handed_back"]))
            elif action == 4:
                await tools.try_link(item, draw.choice(items))
            else:
                note = {"itemId": item, "key": draw.choice("kl"), "role": "work", "body": "b"}
                await tools("manage_notes", operation="upsert", notes=[note])
        data = await written(store, tools.project)
        other = f"{project}-{seed}-2"
        await restored(store, other, data)
        assert (await audit(store, other)).differences == [], f"seed {seed}"
        same(await written(store, other), data)
