"""A few hundred random items, and the expected results of searches, computed from ``get`` alone."""

from __future__ import annotations

import random
from typing import Any

from coordinator.store import keys
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.store.record_layout import CLASS_SIZE, PRIORITY_SIZE, RANK_EPOCH, STATES
from coordinator.toolsets.items.rules.records import Score, parts_of, state_of
from tests.items.client import Client, Json
from tests.items.moments import lapse, ms

ROLES = ("queue", "work", "review", "blocked", "terminal")
PRIORITIES = ("high", "medium", "low")
TAGS = ("api", "ui", "db", "a-1")
TYPES = ("bug", "feature", "with:colon *{}")
DETAILS = (
    *("requires", "assignee", "resources", "abandoned", "notBefore", "dueAt", "overdue", "recurs", "recurrenceOf"),
    *("usage", "budget", "budgetSpent"),
)
"""What a search adds with includeDetails."""
# Case pairs in and outside ASCII, one to many folds, wildcards of other search languages.
WORDS = (
    "Alpha",
    "BETA",
    "straße",
    "STRASSE",
    "İstanbul",
    "ﬁne",
    "Kelvin",
    "Élan",
    "élan",
    "100%",
    "a_c",
    "ΣΊΣΥΦΟΣ",
    "ς",
)


def score_of(item: Score) -> int:
    """A score composed as in scripts; ``parts_of`` is the inverse."""
    place = (item.priority << 45) + (item.complexity << 41) + item.created - RANK_EPOCH
    return (item.role * STATES + item.state) * CLASS_SIZE + place


def set_creation(redis_url: str, project: str, created: dict[str, int]) -> None:
    """Moves items' creation (ms by id)."""
    times = {item.replace("-", ""): time for item, time in created.items()}
    prefix = keys.project_prefix(project)
    with redis_client(parse(redis_url), project) as client, client.pipeline() as change:
        shift: dict[bytes, int] = {}
        for inner, time in times.items():
            raw: Any = client.hget(keys.item.key(project, inner), "w")
            state = state_of(raw.hex())
            score = parts_of(state.score)
            shift[inner.encode()] = time - score.created
            changed = state._replace(score=score_of(score._replace(created=time)))
            change.hset(keys.item.key(project, inner), "w", changed.packed())
        for key in client.scan_iter(prefix + keys.ranked.suffix.encode() + b":*", count=1000):
            members: list[tuple[bytes, float]] = client.zrange(key, 0, -1, withscores=True)
            moved = {inner: score + shift[inner] for inner, score in members if inner in shift}
            if moved:
                change.zadd(key, moved)
        # Bounds of ready items below an item (lua/selection/bounds.lua) may be too low, never too high.
        for key in client.scan_iter(prefix + keys.beneath.suffix.encode() + b":*", count=1000):
            bounds: list[tuple[bytes, float]] = client.zrange(key, 0, -1, withscores=True)
            lowest = {member: (member[32] - ord("0")) * PRIORITY_SIZE for member, _ in bounds}
            lowered = {member: lowest[member] for member, score in bounds if score < lowest[member] + PRIORITY_SIZE}
            if lowered:
                change.zadd(key, lowered)
        change.execute()


class World:
    """Items of one project, all in full, with the state of their claims."""

    def __init__(self, items: dict[str, Json], claims: dict[str, str]) -> None:
        self.items = items
        self.claims = claims
        """claimed or expired, by id."""

    def times(self, field: str) -> list[int]:
        """All values of a time, in order."""
        return sorted({ms(item[field]) for item in self.items.values() if field in item})

    def found(self, search: Json) -> list[str]:
        """The ids that a search finds, all pages, in order."""
        matching = [item for item in self.items.values() if self._matches(item, search)]
        matching.sort(key=lambda item: (-ms(item["createdAt"]), item["id"]))
        descending = search.get("sortOrder", "desc") == "desc"
        by = {"created": "createdAt", "modified": "modifiedAt"}.get(search.get("sortBy", ""), search.get("sortBy"))
        last: list[Json] = []
        if by in ("complexity", "dueAt"):
            last = [item for item in matching if item.get(by) is None]
            matching = [item for item in matching if item.get(by) is not None]
        matching.sort(key=lambda item: self._key(item, by or "createdAt"), reverse=descending)
        return [item["id"] for item in (*matching, *last)]

    def shown(self, item: str, search: Json) -> Json:
        """A search result."""
        full = self.items[item]
        fields = ("id", "parentId", "title", "role", "statusLabel", "priority", "depth", "tags", "type")
        shown = {field: full[field] for field in fields if field in full}
        if "claimStatus" in search:
            shown["isClaimed"] = self.claims.get(item) == "claimed"
        if search.get("includeAncestors"):
            shown["ancestors"] = self._path(full)
        if search.get("includeDetails"):
            shown |= {field: full[field] for field in DETAILS if field in full}
            if (attempts := full.get("attempts", {"count": 0}))["count"]:
                shown["attempts"] = {field: attempts[field] for field in attempts if field != "last"}
        return shown

    def _path(self, full: Json) -> list[Json]:
        if "parentId" not in full:
            return []
        parent = self.items[full["parentId"]]
        return [*self._path(parent), {field: parent[field] for field in ("id", "title", "depth")}]

    def _key(self, item: Json, by: str) -> Any:
        if by == "title":
            return item["title"].encode().lower()  # of bytes: A to Z only
        if by == "priority":
            return -PRIORITIES.index(item["priority"])
        return item["complexity"] if by == "complexity" else ms(item[by])

    def _matches(self, item: Json, search: Json) -> bool:
        text = search.get("query", "").casefold()
        if text.strip() and not any(text in item[field].casefold() for field in ("title", "summary")):
            return False
        if "claimStatus" in search and self.claims.get(item["id"], "unclaimed") != search["claimStatus"]:
            return False
        if "tags" in search:
            wanted = {tag.strip() for tag in search["tags"].lower().split(",")}
            if not wanted & {tag.strip() for tag in item.get("tags", "").split(",")}:
                return False
        for name in ("created", "modified", "roleChanged", "due"):
            if f"{name}At" not in item:
                if {f"{name}After", f"{name}Before"} & search.keys():
                    return False
                continue
            time = ms(item[f"{name}At"])
            if f"{name}After" in search and time < ms(search[f"{name}After"]):
                return False
            if f"{name}Before" in search and time > ms(search[f"{name}Before"]):
                return False
        same = ("parentId", "depth", "role", "priority", "type", "assignee")
        return all(item.get(field) == search[field] for field in same if field in search)


async def build(tools: Client, redis_url: str, seed: int = 1) -> World:
    """Fills the client's project; creation is spread over minutes, with many ties."""
    rng = random.Random(seed)
    levels: list[list[str]] = [[], [], [], []]
    for depth in (0, 1, 2, 3, 1, 2, 0):
        specs = [_spec(rng, rng.choice(levels[depth - 1]) if depth else None) for _ in range(60)]
        levels[depth] += [item["id"] for item in (await tools.create(*specs))["items"]]
    ids = [item for level in levels for item in level]
    await _change(tools, rng, ids)
    claims = await _claim(tools, rng, ids)
    base = ms((await tools.get(ids[0]))["createdAt"]) - 600_000
    set_creation(redis_url, tools.project, {item: base + rng.choice((rng.randrange(200), 50)) * 1000 for item in ids})
    items = {item: await tools.get(item) for item in ids}
    return World(items, claims)


def _spec(rng: random.Random, parent: str | None) -> Json:
    title = " ".join(rng.choice(WORDS) for _ in range(rng.choice((1, 2, 3, 12))))
    summary = " ".join(rng.choice(WORDS) for _ in range(rng.choice((0, 0, 2, 15))))
    return {
        "title": title,
        "summary": summary,
        "role": rng.choice(ROLES),
        "priority": rng.choice(PRIORITIES),
        "complexity": rng.choice((None, 1, 2, 5, 10)),
        "tags": rng.choice((None, *TAGS, "api,ui", "ui, db ,api")),
        "type": rng.choice((None, *TYPES)),
        "parentId": parent,
        "statusLabel": rng.choice((None, "mine")),
        "dueAt": rng.choice((None, *(f"2030-01-0{rng.randint(1, 9)}T00:00:00Z",) * 2)),
        "notBefore": rng.choice((None, "2020-01-01T00:00:00Z")),
        "requires": rng.choice(([], ["sql"])),
        "assignee": rng.choice((None, None, "ann", "b, c")),
        "resources": rng.choice(([], [{"key": "licence", "mode": "shared"}])),
        "budget": rng.choice((None, {"tokens": 9})),
    }


async def _change(tools: Client, rng: random.Random, ids: list[str]) -> None:
    """Updates, transitions and dependencies, for different times and waiting items."""
    for item in rng.sample(ids, 30):
        await tools.update(item, priority=rng.choice(PRIORITIES), complexity=rng.choice((None, 3, 7)))
    for first, second in zip(rng.sample(ids, 25), rng.sample(ids, 25), strict=True):
        if first != second:
            await tools.try_link(first, second)
    for item in rng.sample(ids, 30):
        await tools.advance(item, rng.choice(("start", "block", "cancel", "reopen")))


async def _claim(tools: Client, rng: random.Random, ids: list[str]) -> dict[str, str]:
    """Live claims, expired ones that were put back, and expired ones not put back yet."""
    open_ids = [item for item in ids if await tools.role(item) != "terminal"]
    chosen = rng.sample(open_ids, 24)
    for number, item in enumerate(chosen[:8]):
        await tools.claim(f"lapsed {number}", item)
        await lapse(tools, item)
    for number, item in enumerate(chosen[8:]):
        assert (await tools.claim(f"agent {number}", item))["outcome"] == "success"
    for item in chosen[16:]:
        await lapse(tools, item)
    return {item: "claimed" if item in chosen[8:16] else "expired" for item in chosen}
