"""All that limits claims together, beside a plain model: any sequence of calls over three front-ends, and of time.

At last the project is written out and restored. Each kind of limit alone, with more of it: ``test_attempts_model.py``,
``test_usage_model.py``.

More sequences: ``MODEL_EXAMPLES=2000 pytest tests/items/test_limits_model.py``.
"""

from __future__ import annotations

import io
import random

import pytest

from coordinator.projects import native
from coordinator.projects.dumping import dump
from coordinator.projects.restoring import restore
from tests.items.client import Client
from tests.items.limits_walk import LIMITED, Walk
from tests.items.note_machine import SEEDS
from tests.items.resources import held

pytestmark = pytest.mark.anyio

STEPS = 250
ITEMS = (10, 26)
"""Few, of which often none is left; or so many that selectors look at them in sets."""


class Resources(Walk):
    """Nothing but resources keeps items from agents."""

    chances = {
        "claim": 30,
        "take": 30,
        "release": 10,
        "advance": 15,
        "lapse": 5,
        "resources": 6,
        "replace": 4,
        "refill": 2,
    }
    agents = ("ann", "bob", "cid", "dan", "eve")


async def restored(walk: Walk, other: Client) -> None:
    """The walk goes on in another project, into which its own is restored."""
    found = [line async for line in dump(walk.tools.store, walk.tools.project)]
    data = b"\n".join(map(native.encode, native.ended(found)))
    await restore(other.store, LIMITED, other.project, io.BytesIO(data), lambda text: None)
    walk.model.restored()
    walk.clients = [Client(one.store, other.project, LIMITED) for one in walk.clients]
    await walk.compare(other)
    assert await held(other) == {}


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_any_sequence_follows_the_model(clients: list[Client], elsewhere: Client, seed: int) -> None:
    walk = Walk(clients, random.Random(seed))
    await walk.begin(ITEMS[seed % 2])
    for number in range(STEPS):
        await walk.step()
        if number % 100 == 99:
            await walk.notice()
            await walk.compare(walk.clients[0])
    assert len(walk.seen) > 2, "too little happens"
    await walk.notice()
    await restored(walk, elsewhere)
    for _ in range(STEPS // 5):
        await walk.step()
    await walk.notice()
    await walk.compare(elsewhere)


async def test_any_sequence_with_many_items_and_resources_follows_the_model(clients: list[Client]) -> None:
    walk = Resources(clients, random.Random(34))
    await walk.begin(90)
    for _ in range(STEPS * 3):
        await walk.step()
    assert {"resource_busy", "already_claimed", "terminal_item", "success"} <= walk.seen
    await walk.notice()
    await walk.compare(walk.clients[0])
