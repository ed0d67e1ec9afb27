"""Counts the projects of a store: keys, memory, shard and last change of each."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from coordinator.errors import ToolFailure
from coordinator.store import ServerError, Store, keys
from coordinator.store.cluster.places import listed
from coordinator.store.fences.copies import Fence, Fencing
from coordinator.store.link.shared import Link
from coordinator.store.projects.lists import noted

_KEY = re.compile(rb"fc:\{([^{}]+)\}:")
_SLICE = 500
_AT_ONCE = 100
_ON_ITS_WAY = ("ASK", "CLUSTERDOWN", "MOVED", "TRYAGAIN")
"""Codes of errors about a key in a slot that is being moved to or from a server, or that it does not serve."""
_LOGS = (keys.events, keys.transitions, keys.gate_audit)
"""Streams that changes of a project are written to."""


class Counted(NamedTuple):
    project: str
    shard: int
    """The number of the shard that has it, 0 where there is one server; -1: none has it."""
    keys: int | None
    """None: it could not be counted."""
    bytes: int | None
    """The memory of its keys, as the server estimates it."""
    changed_ms: int | None
    """When it last changed, by the server's clock; None: it has no record of that, or could not be read."""
    fence: str = ""
    """Why it is refused, in words; empty: it is not."""


class Projects(NamedTuple):
    rows: list[Counted]
    """By name."""
    unseen: list[str]
    """What could not be seen, in words."""


async def count(store: Store) -> Projects:
    """Counts all projects, those included whose shard does not answer.

    Reads the names of all keys in slices, so it takes time in proportion to their number. A key may be counted twice if
    the server resizes its table meanwhile.
    """
    unseen: list[str] = []
    known: set[str] = set()
    try:
        known = await noted(store) | (await listed(store.command_of) if store.sharded else set())
    except (ToolFailure, ServerError) as error:
        unseen.append(f"the list of projects, so projects without a key seen are missing: {error}")
    fences: dict[str, Fence] = {}
    try:
        fences = await Fencing(store).all()
    except (ToolFailure, ServerError) as error:
        unseen.append(f"which projects are fenced: {error}")
    links = store.links
    walks = await asyncio.gather(*(_walk(link) for link in links.values()), return_exceptions=True)
    counts: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for shard, walked in zip(links, walks, strict=True):
        if isinstance(walked, ToolFailure | ServerError):
            unseen.append(f"shard {shard}: {walked}")
        elif isinstance(walked, BaseException):
            raise walked
        else:
            for project, sums in walked.items():
                counts[project][shard] = sums
    away = {shard for shard, walked in zip(links, walks, strict=True) if isinstance(walked, BaseException)}
    rows: list[Counted] = []
    names = sorted(known | counts.keys() | fences.keys())
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        changes = await asyncio.gather(*(_changed(store, name) for name in some), return_exceptions=True)
        for project, changed in zip(some, changes, strict=True):
            row, why = _row(project, store.shard_of(project), counts[project], changed, away)
            fence = fences.get(project)
            rows.append(row._replace(fence=fence.said if fence else ""))
            unseen += [f"project {project}: {why}"] if why else []
    return Projects(rows, unseen)


def _row(
    project: str, shard: int, sums: dict[int, tuple[int, int]], changed: int | BaseException | None, away: set[int]
) -> tuple[Counted, str]:
    """The row of a project, and why it could not be counted; empty: it was."""
    if isinstance(changed, ToolFailure | ServerError):
        return Counted(project, shard, None, None, None), str(changed)
    if isinstance(changed, BaseException):
        raise changed
    if shard in away:
        return Counted(project, shard, None, None, changed), "its shard could not be counted"
    if sums.keys() - {shard} or (changed is not None and not sums):
        where = f" (keys seen on shards {', '.join(map(str, sorted(sums)))})" if sums else ""
        return Counted(project, shard, None, None, changed), f"it is being moved to another shard{where}"
    return Counted(project, shard, *sums.get(shard, (0, 0)), changed), ""


async def _walk(link: Link) -> dict[str, tuple[int, int]]:
    """By project, how many keys a server has, and their bytes. Raises ToolFailure, ServerError."""
    sums: dict[str, tuple[int, int]] = {}
    cursor: bytes | int = 0
    while True:
        (page,) = _sound(await link.ask([("SCAN", cursor, "MATCH", "fc:{*", "COUNT", _SLICE)]))
        cursor, keys_here = page
        names = [(match[1].decode(), key) for key in keys_here if (match := _KEY.match(key)) and _is_project(match[1])]
        replies = await link.ask([("MEMORY", "USAGE", key) for _, key in names])
        elsewhere = (isinstance(reply, ServerError) and reply.code in _ON_ITS_WAY for reply in replies)
        sizes = _sound(0 if other else size for size, other in zip(replies, elsewhere, strict=True))
        for (project, _), size in zip(names, sizes, strict=True):
            if size is not None:  # None: the key has gone meanwhile
                number, total = sums.get(project, (0, 0))
                sums[project] = number + 1, total + size
        if cursor == b"0":
            return sums


def _is_project(tag: bytes) -> bool:
    return keys.PROJECT.fullmatch(tag.decode(errors="replace")) is not None


async def _changed(store: Store, project: str) -> int | None:
    """When a project last changed, in ms. Raises ToolFailure, ServerError."""
    reads = (store.command_of(project, "XREVRANGE", log.key(project), "+", "-", "COUNT", 1) for log in _LOGS)
    last = [int(entries[0][0].partition(b"-")[0]) for entries in await asyncio.gather(*reads) if entries]
    return max(last, default=None)


def _sound(replies: Iterable[Any]) -> list[Any]:
    sound = list(replies)
    for reply in sound:
        if isinstance(reply, Exception):
            raise reply
    return sound
