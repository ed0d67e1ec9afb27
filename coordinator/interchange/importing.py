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
        new = [record for record in records if record.id not in self._known]
        old = [record for record in records if record.id in self._known]
        for level in _levels(new, self._known):
            await self._create(level)
        # What needs something that was refused is looked at again by the next import, and offered to nobody before.
        whole = {record.id for record in records if self._ids.keys() >= _named_by(record)}
        await self._update([record for record in old if record.id in whole])
        unfinished = [record for record in new if _has_more(record) and record.id in self._ids]
        unfinished += [record for record in old if self._known[record.id].seen is None]
        unfinished = [record for record in unfinished if record.id in whole]
        await side_by_side(self._move, [record for record in unfinished if record.id in self._known])
        await self._connect(unfinished)
        await self._annotate(record for record in unfinished if record.notes)
        await self._finish(unfinished)
        await self._vanished()
        named = {*self.report.claimed, *self.report.vanished}
        self.report.titles = {id_: self._known[id_].title for id_ in sorted(named)}

    # --- what is here ---------------------------------------------------------------------------

    async def _look(self, records: Sequence[SourceRecord], register: Mapping[str, str]) -> None:
        """Finds what is here already (in ``register``, by id of the source, after the last import), and compares."""
        mine = {"tags": self._tag}
        held = {item["id"] async for item in search(self._fleet, {**mine, "claimStatus": "claimed"})}
        pairs = [(item["id"], item["id"] in held) async for item in search(self._fleet, mine)]
        tagged = {uuid for uuid, _ in pairs}
        pairs += [(uuid, False) for uuid in register.values() if uuid not in tagged]
        for known in await side_by_side(self._read, pairs):
            if known is not None and known.external:
                # Anybody may copy a tag. Of two with one id the older one counts.
                self._known.setdefault(str(known.external["id"]), known)
        await self._adopt(record.id for record in records)
        self._ids = {id_: known.id for id_, known in self._known.items()}
        wanted = {record.id for record in records}
        self.report.vanished = [
            id_ for id_, known in self._known.items() if id_ not in wanted and known.role != "terminal"
        ]
        for record in records:
            here = self._known.get(record.id)
            if here is None:
                continue
            if here.seen == seen_of(record):
                self.report.unchanged += 1
            elif here.claimed and here.seen is not None:
                self.report.claimed.append(record.id)
            else:
                self.report.updated += 1

    async def _adopt(self, ids: Iterable[str]) -> None:
        """Takes items that were exported, and come back under their own UUIDs, for those of this source."""
        named = [uuid for uuid in ids if uuid not in self._known and _UUID.fullmatch(uuid)]
        for uuid, known in zip(named, await side_by_side(self._read, [(uuid, False) for uuid in named]), strict=True):
            if known is not None:
                known.external = {}
                self._known[uuid] = known

    async def _read(self, pair: tuple[str, bool]) -> Known | None:
        try:
            item = await self._fleet.call("query_items", {"operation": "get", "id": pair[0]})
        except FleetError as error:
            if error.code == "RESOURCE_NOT_FOUND":  # deleted just now
                return None
            raise
        properties = msgspec.json.decode(item.get("properties") or "{}")
        here = external_of(properties, self._source)
        return Known(item["id"], item["role"], _tags(item), properties, item["title"], here, pair[1])

    # --- new items ------------------------------------------------------------------------------

    async def _create(self, records: Sequence[SourceRecord]) -> None:
        left = [record for record in records if record.parent is not None and record.parent not in self._ids]
        self.report.refused += [f"{label_of(each.title, each.id)}: what it is part of was refused" for each in left]
        specs = [(each, self._spec(each)) for each in records if each.parent is None or each.parent in self._ids]

        async def create(batch: Sequence[tuple[SourceRecord, dict[str, Any]]]) -> None:
            call = {"operation": "create", "items": [spec for _, spec in batch]}
            answer = await self._fleet.call("manage_items", call, seconds=_SECONDS)
            refused = {failure["index"]: failure["error"] for failure in answer.get("failures", ())}
            made = iter(answer["items"])
            for at, (record, _) in enumerate(batch):
                if at in refused:
                    self.report.refused.append(f"{label_of(record.title, record.id)}: {refused[at]}")
                else:
                    self._ids[record.id] = next(made)["id"]
                    self.report.created += 1

        await side_by_side(create, _batches(specs, _ITEMS, lambda pair: _size(pair[1])))
        made = self.report.created
        self._say(f"{made} {'item' if made == 1 else 'items'} created")

    def _spec(self, record: SourceRecord) -> dict[str, Any]:
        state = record.state or "queue"
        finished = not _has_more(record)
        spec: dict[str, Any] = {
            "title": record.title,
            "role": _ROLES[state],
            "priority": record.priority,
            "tags": ",".join([self._tag, item_tag(self._source, record.id), *record.tags]),
            "properties": _json(external({}, record, self._source, finished=finished)),
            "parentId": self._ids.get(record.parent, self._parent) if record.parent is not None else self._parent,
            "description": record.description or None,
            "summary": record.summary or None,
            "type": record.type or None,
            "container": record.container or None,
            "complexity": record.complexity,
            "statusLabel": _LABELS.get(state),
            **record.fields,
        }
        if not finished and _ROLES[state] != "terminal":
            spec["requires"] = [*record.fields.get("requires", ()), HOLD]
        return {name: value for name, value in spec.items() if value is not None}

    # --- dependencies, notes, and the end of what has them ----------------------------------------

    async def _connect(self, records: Sequence[SourceRecord]) -> None:
        """Creates the dependencies of records that are not here yet."""
        again = [record for record in records if record.id in self._known]
        here: set[tuple[str, str, str]] = set()
        for edges in await side_by_side(lambda record: edges_of(self._fleet, self._ids[record.id]), again):
            here.update((edge["fromItemId"], edge["toItemId"], edge["type"]) for edge in edges)
        wanted = [edge for record in records for edge in self._wanted(record) if _ends(edge) not in here]
        # An edge between two items may be named by both of them.
        unique = {(min(e[:2]), max(e[:2]), e[2]) if e[2] == "RELATES_TO" else e: e for e in map(_ends, wanted)}
        edges = [{"fromItemId": a, "toItemId": b, "type": kind} for a, b, kind in unique.values()]
        await side_by_side(self._create_edges, _batches(edges, _EDGES, lambda edge: 0))
        if edges:
            made = self.report.dependencies
            self._say(f"{made} {'dependency' if made == 1 else 'dependencies'} created")

    def _wanted(self, record: SourceRecord) -> list[dict[str, Any]]:
        mine = self._ids.get(record.id)
        named = [(other, "BLOCKS") for other in record.blockers] + [(other, "RELATES_TO") for other in record.related]
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
            (record, {"itemId": self._ids[record.id], "key": key, "role": "queue", "body": body})
            for record in records
            for key, body in record.notes.items()
        ]

        async def write(batch: Sequence[tuple[SourceRecord, dict[str, Any]]]) -> None:
            call = {"operation": "upsert", "notes": [note for _, note in batch]}
            answer = await self._fleet.call("manage_notes", call, seconds=_SECONDS)
            for failure in answer.get("failures", ()):
                record, note = batch[failure["index"]]
                said = f"{label_of(record.title, record.id)}: note {note['key']!r}: {failure['error']}"
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
            self.report.refused += [f"{each.get('id', '')}: {each['error']}" for each in answer.get("failures", ())]

        await side_by_side(update, _batches(changes, _ITEMS, _size))

    # --- items of an earlier import ---------------------------------------------------------------

    async def _update(self, records: Sequence[SourceRecord]) -> None:
        """Updates what has changed at the source, so that what was changed here stays."""
        changed: list[SourceRecord] = []
        for record in records:
            known = self._known[record.id]
            if known.seen is not None and known.seen != seen_of(record) and not known.claimed:
                changed.append(record)
        fields, links, moves = [], [], []
        for record in changed:
            known = self._known[record.id]
            was, now = known.seen or {}, seen_of(record)
            different = {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}
            fields.append(self._changed_fields(record, known, different))
            if different & {"blockers", "related"}:
                links.append(record)
            if "state" in different:
                moves.append(record)
        await side_by_side(self._relink, links)
        await self._annotate(each for each in changed if each.notes and _differs(self._known[each.id], each, "notes"))
        await side_by_side(self._move, moves)
        await self._change(fields)

    def _changed_fields(self, item: SourceRecord, known: Known, different: set[str]) -> dict[str, Any]:
        change: dict[str, Any] = {"id": known.id}
        for name in ("title", "description", "summary", "priority", "complexity", "type"):
            if name in different:
                change[name] = getattr(item, name) or None
        for name in known.fields.keys() | item.fields.keys():
            if known.fields.get(name) != item.fields.get(name):
                change[name] = item.fields.get(name, _CLEARED.get(name))
        # An item that comes back in a format without containers stays one.
        if "container" in different and (item.container or known.seen is not None):
            change["container"] = item.container
        if "tags" in different or self._tag not in known.tags:
            kept = [tag for tag in known.tags if tag not in known.before("tags")]
            named = [self._tag, item_tag(self._source, item.id)]
            change["tags"] = ",".join(dict.fromkeys([*named, *kept, *item.tags]))
        if "parent" in different:
            change["parentId"] = self._ids.get(item.parent, self._parent) if item.parent is not None else self._parent
        return {**change, "properties": _json(external(known.properties, item, self._source, finished=True))}

    async def _relink(self, record: SourceRecord) -> None:
        """Deletes the links that the source no longer has, and makes the new ones."""
        known = self._known[record.id]
        for name, kind in (("blockers", "BLOCKS"), ("related", "RELATES_TO")):
            for other in set(known.before(name)) - set(getattr(record, name)):
                if other in self._ids:
                    ends = {"fromItemId": self._ids[other], "toItemId": known.id, "type": kind}
                    await self._fleet.call("manage_dependencies", {"operation": "delete", **ends})
        here = {_ends(edge) for edge in await edges_of(self._fleet, known.id)}
        await self._create_edges([edge for edge in self._wanted(record) if _ends(edge) not in here])

    async def _move(self, record: SourceRecord) -> None:
        """Gives an item the state that it has at the source now."""
        known = self._known[record.id]
        triggers = _triggers(known.role, record.state or "queue")
        await self._advance(known.id, triggers, f"{record.status or record.state} at {self._source}")

    async def _advance(self, id: str, triggers: Sequence[str], why: str) -> bool:
        if not triggers:
            return True
        moves = [{"itemId": id, "trigger": trigger, "summary": why[:2_000]} for trigger in triggers]
        answer = await self._fleet.call("advance_item", {"transitions": moves})
        refused = [result["error"] for result in answer["results"] if not result["applied"]]
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
    for record in records:  # parents come first
        level = depth.get(record.parent or "", -1) + 1 if record.parent not in known else 0
        depth[record.id] = level
        while len(levels) <= level:
            levels.append([])
        levels[level].append(record)
    return levels


def _named_by(record: SourceRecord) -> set[str]:
    return {*record.blockers, *record.related, *([record.parent] if record.parent is not None else ())}


def _has_more(record: SourceRecord) -> bool:
    """Whether an item needs more calls than its creation."""
    return bool(record.blockers or record.related or record.notes)


def _triggers(role: str, state: str) -> tuple[str, ...]:
    """What brings an item in this role to a state of the source."""
    if state in ("done", "cancelled"):
        return () if role == "terminal" else ("complete",) if state == "done" else ("cancel",)
    if state == "blocked":
        return () if role == "blocked" else ("reopen", "block") if role == "terminal" else ("block",)
    return ("reopen",) if role == "terminal" else ("resume",) if role == "blocked" else ()


def _differs(known: Known, record: SourceRecord, name: str) -> bool:
    return (known.seen or {}).get(name) != seen_of(record).get(name)


def _ends(edge: Mapping[str, Any]) -> tuple[str, str, str]:
    return edge["fromItemId"], edge["toItemId"], edge["type"]


def _batches(values: Iterable[T], most: int, size: Callable[[T], int]) -> Iterable[list[T]]:
    """Lists of at most so many values, of bounded size."""
    batch: list[T] = []
    total = 0
    for value in values:
        length = size(value)
        if batch and (len(batch) == most or total + length > _BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(value)
        total += length
    if batch:
        yield batch


def _size(fields: Mapping[str, Any]) -> int:
    return sum(len(value) for value in fields.values() if isinstance(value, str))


def _tags(item: Mapping[str, Any]) -> list[str]:
    return [tag for tag in str(item.get("tags") or "").split(",") if tag]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
