"""Listeners with any filters, who leave and go on at any time, get what a plain look at the stream says."""

from __future__ import annotations

import asyncio
import random
from typing import Any, NamedTuple

import pytest

from coordinator.errors import ToolFailure
from coordinator.feed.kinds import KINDS, NAMES
from coordinator.store import keys
from tests.feed.rig import Front
from tests.items.client import Client, actor, fresh_id

pytestmark = pytest.mark.anyio

ROUNDS = 120
ITEM_KINDS = [name for name in NAMES if name.startswith("item.")]


class Wish(NamedTuple):
    """What a listener asks for."""

    kinds: frozenset[str]
    ids: frozenset[str]
    roots: frozenset[str]

    @property
    def query(self) -> dict[str, Any]:
        given = {"kinds": self.kinds, "id": self.ids, "root": self.roots}
        return {name: ",".join(sorted(values)) for name, values in given.items() if values}

    def takes(self, entry: dict[str, str]) -> bool:
        """Whether an entry of the stream is for it."""
        kind = KINDS.get(entry["k"])
        if kind is None or kind.name not in (self.kinds or {one.name for one in KINDS.values() if not one.asked}):
            return False
        about = {entry["i"], entry["o"]} if entry["k"] in ("claim", "link", "unlink") and "o" in entry else {entry["i"]}
        if self.ids and not about & {one.replace("-", "") for one in self.ids}:
            return False
        return not self.roots or entry.get("R", entry["i"]) in {one.replace("-", "") for one in self.roots}


def wish(pick: random.Random, items: list[str], roots: list[str]) -> Wish:
    def some(names: list[str], most: int) -> frozenset[str]:
        return frozenset(pick.sample(names, pick.randint(1, most))) if pick.random() < 0.5 else frozenset()

    return Wish(some(ITEM_KINDS, 5), some(items, 4), some(roots, 2))


async def change(tools: Client, pick: random.Random, roots: list[str], below: list[str]) -> None:
    """One change; those that the rules forbid change nothing."""
    items = [*roots, *below]
    item, agent = pick.choice(items), pick.choice("abc")
    try:
        match pick.randrange(8):
            case 0:
                await tools.update(item, title=f"title {pick.random()}")
            case 1:
                await tools.claim(agent, item)
            case 2:
                await tools("claim_item", requestId=fresh_id(), actor=actor(agent), releases=[{"itemId": item}])
            case 3 | 4:
                await tools.advance(item, pick.choice(("start", "complete", "reopen")))
            case 5:
                await tools.update(pick.choice(below), parentId=pick.choice([None, *items]))
            case 6:
                note = {"itemId": item, "key": pick.choice("xy"), "role": "queue", "body": "b"}
                await tools("manage_notes", operation="upsert", notes=[note])
            case _:
                await tools.link(item, pick.choice(items))
    except (ToolFailure, AssertionError):
        pass


async def listen(
    fronts: tuple[Front, Front], project: str, one: Wish, cursor: str, seed: int, done: asyncio.Event
) -> list[str]:
    """The ids of the events that a listener gets until nothing comes any more."""
    pick, found = random.Random(seed), list[str]()
    while True:
        over, front = done.is_set(), pick.choice(fronts)
        if over or pick.random() < 0.3:
            wait = 0 if over else pick.choice((0, 50))
            answer = await front.poll(project, after=cursor, waitMs=wait, limit=pick.randint(1, 20), **one.query)
            assert "gap" not in answer
            found += [event["eventId"] for event in answer["events"]]
            cursor = answer["cursor"]
            if over and not answer["hasMore"] and not answer["events"]:
                return found
            continue
        async with front.stream(project, {"last-event-id": cursor}, **one.query) as stream:
            cursor = stream.frames[0].id
            for _ in range(pick.randint(1, 30)):
                try:
                    async with asyncio.timeout(pick.choice((0.05, 0.3))):
                        frame = await stream.next()
                except TimeoutError:
                    break
                assert frame.event != "gap"
                cursor = frame.id or cursor
                if frame.event == "message":
                    found.append(frame.data["eventId"])


@pytest.mark.usefixtures("often")
async def test_listeners_get_what_the_stream_says(front: Front, other: Front, tools: Client) -> None:
    pick = random.Random(7)
    trees = [await tools.chain(3) for _ in range(3)]
    roots, below = [tree[0] for tree in trees], [item for tree in trees for item in tree[1:]]
    cursor = (await front.poll(tools.project))["cursor"]
    wishes, done = [wish(pick, [*roots, *below], roots) for _ in range(16)], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        listening = [
            group.create_task(listen((front, other), tools.project, one, cursor, seed, done))
            for seed, one in enumerate(wishes)
        ]
        for _ in range(ROUNDS):
            await asyncio.gather(*(change(tools, pick, roots, below) for _ in range(5)))
        done.set()
    entries = await tools.store.command("XRANGE", keys.events.key(tools.project), "-", "+")
    after = tuple(map(int, cursor.split("-")[1:]))
    total = 0
    for one, heard in zip(wishes, listening, strict=True):
        expected = []
        for entry, flat in entries:
            words = [word.decode() for word in flat]
            if tuple(map(int, entry.split(b"-"))) > after and one.takes(
                dict(zip(words[::2], words[1::2], strict=True))
            ):
                expected.append(entry.decode())
        assert heard.result() == expected, one
        total += len(expected)
    assert total > 500, "hardly anything has happened"
