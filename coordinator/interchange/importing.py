"""Makes items of records, or brings the items of an earlier import up to date; a rerun converges.

First the items, parents before children; then dependencies and notes; then an update that says that an item has all of
these. Until then it requires a capability that no agent has, so nobody gets it before what it waits for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from coordinator.client import Fleet, FleetError
from coordinator.interchange.exporting import edges_of, search
from coordinator.interchange.identity import FIELDS, HOLD, Known, external, external_of, item_tag, seen_of, source_tag
from coordinator.interchange.lock import find_marker, locked
from coordinator.interchange.model import SourceRecord, label_of
from coordinator.interchange.register import read_register, write_register
from coordinator.interchange.rehearsal import Rehearsal
from coordinator.interchange.side_by_side import side_by_side

T = TypeVar("T")
_ITEMS, _EDGES, _NOTES, _MOVES = 250, 150, 250, 100
_BATCH_BYTES = 1_500_000
"""Of the texts of one call: well below the fleet's limit of a body."""
_PAGE = 200
_SECONDS = 60.0
_ROLES = {"queue": "queue", "in-progress": "queue", "blocked": "blocked", "done": "terminal", "cancelled": "terminal"}
_CLEARED = {"traits": "", "requiresVerification": False}
"""What clears fields that null leaves unchanged."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LABELS = {"in-progress": "in-progress", "blocked": "blocked", "done": "done", "cancelled": "cancelled"}


class ImportReport(Struct):
    """What an import has done, or would do."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    dependencies: int = 0
    claimed: list[str] = field(default_factory=list)
    """Ids of the source whose items somebody holds: they are left as they are."""
    vanished: list[str] = field(default_factory=list)
    """Ids of items that are not in the source any more."""
    closed: int = 0
    """How many of these were cancelled."""
    titles: dict[str, str] = field(default_factory=dict)
    """By id of the source: how the items that are named here are called."""
    refused: list[str] = field(default_factory=list)
    """What the fleet has refused: a sentence each."""


class Import:
    """One import.

    Args:
        source: the name of the source: whatever comes from it under one id is one item.
        parent: the UUID of the item to put everything below.
        close_missing: whether items that are not in the source any more are cancelled.
    """

    def __init__(
        self,
        fleet: Fleet,
        source: str,
        *,
        parent: str | None = None,
        close_missing: bool = False,
        dry_run: bool = False,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._fleet, self._source, self._parent = fleet, source, parent
        self._close_missing, self._dry_run, self._say = close_missing, dry_run, say
        self._tag = source_tag(source)
        self._known: dict[str, Known] = {}
        """By id of the source: what is here already."""
        self._ids: dict[str, str] = {}
        """By id of the source: the UUID of each item."""
        self.report = ImportReport()

    async def run(self, records: Sequence[SourceRecord]) -> ImportReport:
        """Imports shaped records. Raises ImportProblem if another import took over."""
        if self._dry_run:
            marker = await find_marker(self._fleet, self._source)
            register = {} if marker is None else await read_register(self._fleet, marker)
            self._fleet, self._say = Rehearsal(self._fleet).fleet, lambda text: None
            await self._bring(records, register)
            return self.report
        async with locked(self._fleet, self._source, self._say) as marker:
            await self._bring(records, await read_register(self._fleet, marker))
            await write_register(self._fleet, marker, self._ids)
        return self.report

    async def _bring(self, records: Sequence[SourceRecord], register: Mapping[str, str]) -> None:
        await self._look(records, register)
        new = [one for one in records if one.id not in self._known]
        old = [one for one in records if one.id in self._known]
        for level in _levels(new, self._known):
            await self._create(level)
        # What needs something that was refused is looked at again by the next import, and offered to nobody before.
        whole = {one.id for one in records if self._ids.keys() >= _named_by(one)}
        await self._update([one for one in old if one.id in whole])
        unfinished = [one for one in new if _has_more(one) and one.id in self._ids]
        unfinished += [one for one in old if self._known[one.id].seen is None]
        unfinished = [one for one in unfinished if one.id in whole]
        await side_by_side(self._move, [one for one in unfinished if one.id in self._known])
        await self._connect(unfinished)
        await self._annotate(one for one in unfinished if one.notes)
        await self._finish(unfinished)
        await self._vanished()
        named = {*self.report.claimed, *self.report.vanished}
        self.report.titles = {id_: self._known[id_].title for id_ in sorted(named)}

    # --- what is here ---------------------------------------------------------------------------

    async def _look(self, records: Sequence[SourceRecord], register: Mapping[str, str]) -> None:
        """Finds what is here already (in ``register``, by id of the source, after the last import), and compares."""
        mine = {"tags": self._tag}
        held = {item["id"] async for item in search(self._fleet, {**mine, "claimStatus": "claimed"})}
        found = [(item["id"], item["id"] in held) async for item in search(self._fleet, mine)]
        tagged = {one for one, _ in found}
        found += [(one, False) for one in register.values() if one not in tagged]
        for known in await side_by_side(self._read, found):
            if known is not None and known.external:
                # Anybody may copy a tag. Of two with one id the older one counts.
                self._known.setdefault(str(known.external["id"]), known)
        await self._adopt(one.id for one in records)
        self._ids = {id_: known.id for id_, known in self._known.items()}
        wanted = {one.id for one in records}
        self.report.vanished = [
            id_ for id_, known in self._known.items() if id_ not in wanted and known.role != "terminal"
        ]
        for one in records:
            here = self._known.get(one.id)
            if here is None:
                continue
            if here.seen == seen_of(one):
                self.report.unchanged += 1
            elif here.claimed and here.seen is not None:
                self.report.claimed.append(one.id)
            else:
                self.report.updated += 1

    async def _adopt(self, ids: Iterable[str]) -> None:
        """Takes items that were exported, and come back under their own UUIDs, for those of this source."""
        named = [one for one in ids if one not in self._known and _UUID.fullmatch(one)]
        for one, known in zip(named, await side_by_side(self._read, [(one, False) for one in named]), strict=True):
            if known is not None:
                known.external = {}
                self._known[one] = known

    async def _read(self, one: tuple[str, bool]) -> Known | None:
        try:
            item = await self._fleet.call("query_items", {"operation": "get", "id": one[0]})
        except FleetError as error:
            if error.code == "RESOURCE_NOT_FOUND":  # deleted just now
                return None
            raise
        properties = msgspec.json.decode(item.get("properties") or "{}")
        here = external_of(properties, self._source)
        return Known(item["id"], item["role"], _tags(item), properties, item["title"], here, one[1])

    # --- new items ------------------------------------------------------------------------------

    async def _create(self, records: Sequence[SourceRecord]) -> None:
        left = [one for one in records if one.parent is not None and one.parent not in self._ids]
        self.report.refused += [f"{label_of(one.title, one.id)}: what it is part of was refused" for one in left]
        specs = [(one, self._spec(one)) for one in records if one.parent is None or one.parent in self._ids]

        async def create(batch: Sequence[tuple[SourceRecord, dict[str, Any]]]) -> None:
            call = {"operation": "create", "items": [spec for _, spec in batch]}
            answer = await self._fleet.call("manage_items", call, seconds=_SECONDS)
            refused = {one["index"]: one["error"] for one in answer.get("failures", ())}
            made = iter(answer["items"])
            for at, (one, _) in enumerate(batch):
                if at in refused:
                    self.report.refused.append(f"{label_of(one.title, one.id)}: {refused[at]}")
                else:
                    self._ids[one.id] = next(made)["id"]
                    self.report.created += 1

        await side_by_side(create, _batches(specs, _ITEMS, lambda pair: _size(pair[1])))
        made = self.report.created
        self._say(f"{made} {'item' if made == 1 else 'items'} created")

    def _spec(self, one: SourceRecord) -> dict[str, Any]:
        state = one.state or "queue"
        finished = not _has_more(one)
        spec: dict[str, Any] = {
            "title": one.title,
            "role": _ROLES[state],
            "priority": one.priority,
            "tags": ",".join([self._tag, item_tag(self._source, one.id), *one.tags]),
            "properties": _json(external({}, one, self._source, finished=finished)),
            "parentId": self._ids.get(one.parent, self._parent) if one.parent is not None else self._parent,
            "description": one.description or None,
            "summary": one.summary or None,
            "type": one.type or None,
            "container": one.container or None,
            "complexity": one.complexity,
            "statusLabel": _LABELS.get(state),
            **one.fields,
        }
        if not finished and _ROLES[state] != "terminal":
            spec["requires"] = [*one.fields.get("requires", ()), HOLD]
        return {name: value for name, value in spec.items() if value is not None}

    # --- dependencies, notes, and the end of what has them ----------------------------------------

    async def _connect(self, records: Sequence[SourceRecord]) -> None:
        """Creates the dependencies of records that are not here yet."""
        again = [one for one in records if one.id in self._known]
        here: set[tuple[str, str, str]] = set()
        for edges in await side_by_side(lambda one: edges_of(self._fleet, self._ids[one.id]), again):
            here.update((edge["fromItemId"], edge["toItemId"], edge["type"]) for edge in edges)
        wanted = [edge for one in records for edge in self._wanted(one) if _ends(edge) not in here]
        # An edge between two items may be named by both of them.
        unique = {(min(e[:2]), max(e[:2]), e[2]) if e[2] == "RELATES_TO" else e: e for e in map(_ends, wanted)}
        edges = [{"fromItemId": a, "toItemId": b, "type": kind} for a, b, kind in unique.values()]
        await side_by_side(self._create_edges, _batches(edges, _EDGES, lambda edge: 0))
        if edges:
            made = self.report.dependencies
            self._say(f"{made} {'dependency' if made == 1 else 'dependencies'} created")

    def _wanted(self, one: SourceRecord) -> list[dict[str, Any]]:
        mine = self._ids.get(one.id)
        named = [(other, "BLOCKS") for other in one.blockers] + [(other, "RELATES_TO") for other in one.related]
        return [
            {"fromItemId": self._ids[other], "toItemId": mine, "type": kind}
            for other, kind in named
            if mine is not None and other in self._ids
        ]

    async def _create_edges(self, edges: Sequence[dict[str, Any]]) -> None:
        """Creates edges, all or nothing; those that are refused are left out, and told."""
        left = list(edges)
        while left:
            call = {"operation": "create", "dependencies": left}
            answer = await self._fleet.call("manage_dependencies", call, seconds=_SECONDS)
            self.report.dependencies += answer["created"]
            failures = answer.get("failures")
            if not failures:
                return
            refused = left.pop(failures[0].get("index", 0))
            why = str(failures[0]["error"]).partition("; edge ")[0]
            self.report.refused.append(f"{refused['toItemId']} waits for {refused['fromItemId']}: {why}")

    async def _annotate(self, records: Iterable[SourceRecord]) -> None:
        notes = [
            (one, {"itemId": self._ids[one.id], "key": key, "role": "queue", "body": body})
            for one in records
            for key, body in one.notes.items()
        ]

        async def write(batch: Sequence[tuple[SourceRecord, dict[str, Any]]]) -> None:
            call = {"operation": "upsert", "notes": [note for _, note in batch]}
            answer = await self._fleet.call("manage_notes", call, seconds=_SECONDS)
            for failure in answer.get("failures", ()):
                one, note = batch[failure["index"]]
                said = f"{label_of(one.title, one.id)}: note {note['key']!r}: {failure['error']}"
                self.report.refused.append(said)

        await side_by_side(write, _batches(notes, _NOTES, lambda pair: len(pair[1]["body"])))

    async def _finish(self, records: Sequence[SourceRecord]) -> None:
        """Says of items that they have all of their records, and offers them."""
        changes = []
        for one in records:
            known = self._known.get(one.id)
            if known is not None:
                change = self._changed_fields(one, known, set(FIELDS))
            else:
                change = {"id": self._ids[one.id], "properties": _json(external({}, one, self._source, finished=True))}
            changes.append({**change, "requires": one.fields.get("requires")})
        await self._change(changes)

    async def _change(self, changes: Sequence[dict[str, Any]]) -> None:
        async def update(batch: Sequence[dict[str, Any]]) -> None:
            call = {"operation": "update", "items": list(batch)}
            answer = await self._fleet.call("manage_items", call, seconds=_SECONDS)
            self.report.refused += [f"{one.get('id', '')}: {one['error']}" for one in answer.get("failures", ())]

        await side_by_side(update, _batches(changes, _ITEMS, _size))

    # --- items of an earlier import ---------------------------------------------------------------

    async def _update(self, records: Sequence[SourceRecord]) -> None:
        """Updates what has changed at the source, so that what was changed here stays."""
        changed: list[SourceRecord] = []
        for one in records:
            known = self._known[one.id]
            if known.seen is not None and known.seen != seen_of(one) and not known.claimed:
                changed.append(one)
        fields, links, moves = [], [], []
        for one in changed:
            known = self._known[one.id]
            was, now = known.seen or {}, seen_of(one)
            different = {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}
            fields.append(self._changed_fields(one, known, different))
            if different & {"blockers", "related"}:
                links.append(one)
            if "state" in different:
                moves.append(one)
        await side_by_side(self._relink, links)
        await self._annotate(one for one in changed if one.notes and _differs(self._known[one.id], one, "notes"))
        await side_by_side(self._move, moves)
        await self._change(fields)

    def _changed_fields(self, one: SourceRecord, known: Known, different: set[str]) -> dict[str, Any]:
        change: dict[str, Any] = {"id": known.id}
        for name in ("title", "description", "summary", "priority", "complexity", "type"):
            if name in different:
                change[name] = getattr(one, name) or None
        for name in known.fields.keys() | one.fields.keys():
            if known.fields.get(name) != one.fields.get(name):
                change[name] = one.fields.get(name, _CLEARED.get(name))
        # An item that comes back in a format without containers stays one.
        if "container" in different and (one.container or known.seen is not None):
            change["container"] = one.container
        if "tags" in different or self._tag not in known.tags:
            kept = [tag for tag in known.tags if tag not in known.before("tags")]
            named = [self._tag, item_tag(self._source, one.id)]
            change["tags"] = ",".join(dict.fromkeys([*named, *kept, *one.tags]))
        if "parent" in different:
            change["parentId"] = self._ids.get(one.parent, self._parent) if one.parent is not None else self._parent
        return {**change, "properties": _json(external(known.properties, one, self._source, finished=True))}

    async def _relink(self, one: SourceRecord) -> None:
        """Deletes the links that the source no longer has, and makes the new ones."""
        known = self._known[one.id]
        for name, kind in (("blockers", "BLOCKS"), ("related", "RELATES_TO")):
            for other in set(known.before(name)) - set(getattr(one, name)):
                if other in self._ids:
                    ends = {"fromItemId": self._ids[other], "toItemId": known.id, "type": kind}
                    await self._fleet.call("manage_dependencies", {"operation": "delete", **ends})
        here = {_ends(edge) for edge in await edges_of(self._fleet, known.id)}
        await self._create_edges([edge for edge in self._wanted(one) if _ends(edge) not in here])

    async def _move(self, one: SourceRecord) -> None:
        """Gives an item the state that it has at the source now."""
        known = self._known[one.id]
        triggers = _triggers(known.role, one.state or "queue")
        await self._advance(known.id, triggers, f"{one.status or one.state} at {self._source}")

    async def _advance(self, id: str, triggers: Sequence[str], why: str) -> bool:
        if not triggers:
            return True
        moves = [{"itemId": id, "trigger": trigger, "summary": why[:2_000]} for trigger in triggers]
        answer = await self._fleet.call("advance_item", {"transitions": moves})
        refused = [one["error"] for one in answer["results"] if not one["applied"]]
        if refused and triggers[-1] in ("complete", "cancel"):
            here = await self._read((id, False))
            if here is not None and here.role == "terminal":  # it has ended with its last child meanwhile
                return True
        self.report.refused += [f"{id}: {error}" for error in refused]
        return not refused

    async def _vanished(self) -> None:
        if not self._close_missing:
            return

        async def close(id_: str) -> None:
            known = self._known[id_]
            if known.claimed:
                self.report.claimed.append(id_)
            elif await self._advance(known.id, ("cancel",), f"no longer in {self._source}"):
                self.report.closed += 1

        await side_by_side(close, self.report.vanished)


def _levels(records: Sequence[SourceRecord], known: Mapping[str, Known]) -> Iterable[list[SourceRecord]]:
    """New records by level: those of one level have their parents in the ones before, or here already."""
    levels: list[list[SourceRecord]] = []
    depth: dict[str, int] = {}
    for one in records:  # parents come first
        level = depth.get(one.parent or "", -1) + 1 if one.parent not in known else 0
        depth[one.id] = level
        while len(levels) <= level:
            levels.append([])
        levels[level].append(one)
    return levels


def _named_by(one: SourceRecord) -> set[str]:
    return {*one.blockers, *one.related, *([one.parent] if one.parent is not None else ())}


def _has_more(one: SourceRecord) -> bool:
    """Whether an item needs more calls than its creation."""
    return bool(one.blockers or one.related or one.notes)


def _triggers(role: str, state: str) -> tuple[str, ...]:
    """What brings an item in this role to a state of the source."""
    if state in ("done", "cancelled"):
        return () if role == "terminal" else ("complete",) if state == "done" else ("cancel",)
    if state == "blocked":
        return () if role == "blocked" else ("reopen", "block") if role == "terminal" else ("block",)
    return ("reopen",) if role == "terminal" else ("resume",) if role == "blocked" else ()


def _differs(known: Known, one: SourceRecord, name: str) -> bool:
    return (known.seen or {}).get(name) != seen_of(one).get(name)


def _ends(edge: Mapping[str, Any]) -> tuple[str, str, str]:
    return edge["fromItemId"], edge["toItemId"], edge["type"]


def _batches(values: Iterable[T], most: int, size: Callable[[T], int]) -> Iterable[list[T]]:
    """Lists of at most so many values, of bounded size."""
    batch: list[T] = []
    total = 0
    for value in values:
        one = size(value)
        if batch and (len(batch) == most or total + one > _BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(value)
        total += one
    if batch:
        yield batch


def _size(fields: Mapping[str, Any]) -> int:
    return sum(len(value) for value in fields.values() if isinstance(value, str))


def _tags(item: Mapping[str, Any]) -> list[str]:
    return [one for one in str(item.get("tags") or "").split(",") if one]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
