"""How much memory does an item take at 1,000,000 items, and in which keys?

Loads items with only a title of 60 bytes (benchmarks/loader.py), so each is in the ranked index of
the roots, and in the index of id prefixes. Prints the growth of the server's used
memory, and the share of each kind of key by MEMORY USAGE over a sample of its keys. The number of
events and idempotency records is bounded: the former are shown separately, the loader makes none of
the latter. At the size of the goal, it fails if an item takes more.

    python -m benchmarks memory [ITEMS] [TAGS] [TEXT_BYTES]
    python -m benchmarks memory 1000000        # the size of the goal
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.loader import Shape, load_now
from benchmarks.server import Server
from benchmarks.support import Missed, console, embedded, table
from coordinator.store import keys

GOAL, AT = 432, 1_000_000
SAMPLE = 2000
BOUNDED = ("events", "transitions")
"""Families whose size does not depend on the number of items."""
_SCOPES = {b"c": "all children", b"p": "below a parent", b"g": "by tag", b"y": "by type", b"R": "by capabilities"}


class Kind(NamedTuple):
    """The memory of all keys of one kind."""

    name: str
    keys: int
    bytes: float


def kinds(client: Any) -> Iterator[Kind]:
    """Every kind of key, estimated from up to ``SAMPLE`` of its keys picked at random."""
    pick, counts, taken = random.Random(1), dict[str, int](), dict[str, list[bytes]]()
    for key in client.scan_iter(count=10_000):
        name = _kind(key)
        counts[name] = counts.get(name, 0) + 1
        kept = taken.setdefault(name, [])
        if len(kept) < SAMPLE:
            kept.append(key)
        elif (place := pick.randrange(counts[name])) < SAMPLE:
            kept[place] = key
    for name, count in counts.items():
        pipeline = client.pipeline(transaction=False)
        for key in taken[name]:
            pipeline.execute_command("MEMORY", "USAGE", key, "SAMPLES", 0)
        sizes = [int(size or 0) for size in pipeline.execute()]
        yield Kind(name, count, sum(sizes) / len(sizes) * count)


def _kind(key: bytes) -> str:
    family = keys.declared(key)
    if family is None:
        return "other"
    if family is not keys.ranked:
        return family.name
    scope = key.split(b":", 3)[3]
    # The roots' set is one large key, which a sample of thousands must not miss.
    return "ranked: roots" if scope == b"p" else f"ranked: {_SCOPES[scope[:1]]}"


def main(items: str = "20000", tags: str = "0", text_bytes: str = "0") -> None:
    """Loads, measures and prints."""
    count = int(items)
    with embedded("everysec") as started:
        server = Server(started.url)
        # Tables are not resized while the server rewrites its log: when that was would make 10 bytes per item.
        server.client.config_set("auto-aof-rewrite-percentage", 0)
        load_now(started.url, 0)  # the scripts are in memory from here on
        empty = server.used_memory()
        load_now(started.url, count, shape=Shape(tags=int(tags), text_bytes=int(text_bytes)))
        total = server.used_memory() - empty
        found = sorted(kinds(server.client), key=lambda kind: -kind.bytes)
        limits = {name: server.client.config_get(name) for name in ("hash-max-listpack-*", "zset-max-listpack-*")}
        server.close()
    bounded = sum(kind.bytes for kind in found if kind.name in BOUNDED)
    rest = total - sum(kind.bytes for kind in found)
    rows = [(kind.name, f"{kind.keys:,}", f"{kind.bytes / 2**20:,.1f}", f"{kind.bytes / count:,.1f}") for kind in found]
    rows.append(("key table, allocator's rounding", "", f"{rest / 2**20:,.1f}", f"{rest / count:,.1f}"))
    rows.append(("all that grows with items", "", f"{(total - bounded) / 2**20:,.1f}",
                 f"{(total - bounded) / count:,.1f}"))  # fmt: skip
    table(f"Memory at {count:,} items", ("kind of key", "keys", "MiB", "bytes per item"), rows)
    set_to = ", ".join(f"{name} {value}" for found in limits.values() for name, value in found.items())
    console.print(f"goal <= {GOAL} bytes per item at {AT:,}; {set_to}\n")
    if count >= AT and total - bounded > GOAL * count:
        raise Missed(f"an item takes {(total - bounded) / count:,.1f} bytes")
