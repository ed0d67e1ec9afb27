"""How fast can a million work items be loaded?

Other benchmarks use its items: features (1 in 100) with 99 tasks each, titles of 60 bytes, mixed
priorities and complexities, every task in the queue and every feature in work. The items are created
by the script of ``manage_items`` create, several calls at a time over several connections; nothing
bypasses it. Prints the rate.

    python -m benchmarks loader [ITEMS] [TAGS] [TEXT_BYTES]
    python -m benchmarks loader 1000000        # the size of the goals
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

import uvloop

from benchmarks.support import Failed, console, embedded, table
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.items.contract.specs import ItemSpec
from coordinator.toolsets.items.field_types.resources import GivenResource
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.items import NewItem, new_item
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store.items import ItemStore

PROJECT = "default"
FAMILY = 100
"""A feature and its tasks."""
TIMEOUT_MS = 120_000
PATIENT = Settings(request_deadline_ms=TIMEOUT_MS)
"""No call stops in the middle, however busy the machine is."""
CONNECTIONS, CALLS = 4, 4
_STRIDE, _APART = 0x9E3779B97F4A7C15F39CC0605CEDC835, 2**128 // FAMILY
"""Of ids, as numbers: between one and the next, and between the places of a family."""
_VERBS = ("design", "build", "review", "migrate", "measure", "document", "simplify", "extend", "repair", "deploy")
_NOUNS = ("login", "search", "billing", "export", "scheduler", "cache", "gateway", "importer", "report", "dashboard")
_WORDS = ("the", "a", "new", "old", "each", "agent", "item", "must", "when", "then", "slow", "fast", "again", "why")


class Shape(NamedTuple):
    """The shape of the items."""

    title_bytes: int = 60
    tags: int = 0
    """Tags of each item: the first is one of 20 (``area-07``), every other one of 1,000 (``topic-123``)."""
    text_bytes: int = 0
    """Length of the summary; none by default."""
    typed: bool = False
    """Whether items have a type, ``feature`` or ``task``."""
    resources: int = 0
    """How many resources tasks demand: one of eight exclusively, and if two, both below others, a shared one."""


PLAIN = Shape()


class Loaded(NamedTuple):
    """The result of a run of the loader."""

    items: int
    seconds: float


def item_id(number: int) -> str:
    """The id of the item of this number, in the internal form, computed so that no list is needed.

    As those of the product they rise within a call, here of a family, and are spread evenly otherwise, so that each
    index of prefixes has as many. Ten digits tell a million apart.
    """
    return f"{number % FAMILY * _APART + (number + 1) * _STRIDE % _APART:032x}"


def parent_of(number: int) -> int:
    """The number of an item's feature; a feature's own is itself."""
    return number - number % FAMILY


def title(number: int, size: int = 60) -> str:
    """The title of an item: words that many share, its number, and padding to ``size`` bytes."""
    verb, noun = _VERBS[number % len(_VERBS)], _NOUNS[number // 7 % len(_NOUNS)]
    return f"{verb} {noun} {number:07d} ".ljust(size, "abcdefgh"[number % 8])[:size]


def tags(number: int, count: int) -> str:
    """The tags of an item."""
    made = [f"area-{number % 20:02d}", *(f"topic-{(number * 7 + n) % 1000:03d}" for n in range(1, count))]
    return ",".join(made[:count])


def spec(number: int, shape: Shape, pick: random.Random) -> NewItem:
    """One item as the script takes it."""
    root = number % FAMILY == 0
    made = ItemSpec(
        title=title(number, shape.title_bytes),
        role="work" if root else "queue",
        priority=pick.choice(("high", "medium", "medium", "low")),
        complexity=pick.choice((None, 1, 2, 3, 5, 8)),
    )
    if shape.tags:
        made.tags = tags(number, shape.tags)
    if shape.typed:
        made.type = "feature" if root else "task"
    if shape.text_bytes:
        made.summary = " ".join(pick.choices(_WORDS, k=shape.text_bytes // 2))[: shape.text_bytes]
    if shape.resources == 1 and not root:
        made.resources = [GivenResource(key=f"gpu-{number % 8}")]
    elif shape.resources == 2 and not root:
        made.resources = [GivenResource(key=f"gpu/{number % 8}"), GivenResource(key="model/opus", mode="shared")]
    return new_item(made, item_id(number), "" if root else item_id(parent_of(number)))


async def _load(url: str, count: int, shape: Shape) -> Loaded:
    families = iter(range(0, count, FAMILY))
    made, began = 0, time.perf_counter()

    async def feed(items: ItemStore) -> None:
        nonlocal made
        for first in families:
            pick = random.Random(first)
            specs = [spec(number, shape, pick) for number in range(first, min(first + FAMILY, count))]
            created = await items.create(PROJECT, NO_KEY, specs)
            wrong = [one for one, made_as in zip(created, specs, strict=True) if one[::2] != ("created", made_as.id)]
            if wrong:
                raise Failed(f"items from number {first} on: {wrong[0]}")
            made += len(specs)
            if made % 50_000 < FAMILY:
                console.print(f"{made:,} of {count:,} items", style="dim")

    stores = [Store(url, TIMEOUT_MS) for _ in range(CONNECTIONS)]
    try:
        for store in stores:
            await store.open()
        schemas = SchemaSource(schema_config(PATIENT))
        async with asyncio.TaskGroup() as group:
            for store in stores * CALLS:
                group.create_task(feed(ItemStore(store, PATIENT, schemas)))
    finally:
        for store in stores:
            await store.close()
    return Loaded(count, time.perf_counter() - began)


def load_now(url: str, count: int, *, shape: Shape = PLAIN) -> Loaded:
    """Creates ``count`` items, and prints progress.

    Raises:
        ToolFailure: the store refuses.
        Failed: items of these numbers are there already.
    """
    return uvloop.run(_load(url, count, shape))


@contextlib.contextmanager
def servers(sizes: str, shape: Shape = PLAIN, fsync: str = "everysec") -> Iterator[dict[int, str]]:
    """A separate server for each size of a list (``1000,20000``), all running at once so that rounds can take turns.

    Yields:
        Their URLs by size, the smallest first.
    """
    with contextlib.ExitStack() as stack:
        urls: dict[int, str] = {}
        for size in sorted(map(int, sizes.split(","))):
            urls[size] = stack.enter_context(embedded(fsync)).url
            made = load_now(urls[size], size, shape=shape)
            console.print(f"loaded {size:,} items in {made.seconds:.1f} s", style="dim")
        yield urls


def main(items: str = "20000", tag_count: str = "0", text_bytes: str = "0") -> None:
    """Loads and prints the rate."""
    shape = Shape(tags=int(tag_count), text_bytes=int(text_bytes))
    with embedded("everysec") as server:
        made = load_now(server.url, int(items), shape=shape)
    table(
        f"Loading through create_items, {CONNECTIONS} connections with {CALLS} calls each",
        ("items", "seconds", "items/s"),
        [(f"{made.items:,}", f"{made.seconds:.1f}", f"{made.items / made.seconds:,.0f}")],
    )
