"""Reads a project from the store.

Each item is read on a consistent snapshot; the project may be in use meanwhile, and items that come or go are there or
not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from coordinator.projects import native, sums
from coordinator.store import Script, Store, keys
from coordinator.store.record_layout import NO_COMPLEXITY
from coordinator.toolsets.items import (
    FIELDS,
    FORMS,
    LIBRARY,
    ROLE_NAMES,
    SETTLE,
    dashed,
    phase_of,
    records,
    stored_recurrence,
    usage_entries,
)
from coordinator.toolsets.timestamp import iso, now

WRITTEN = [
    (one, FORMS[one.name]) for one in FIELDS if FORMS[one.name].shown and one.attribute in native.ITEM.__struct_fields__
]
"""What the format has of what items say; the rest is their state."""
_MOMENT = Script(LIBRARY, "read_moment", list[Any])
_SLICE = 50
_ROWS = 500
DEPENDENCIES = {"B": "BLOCKS", "I": "IS_BLOCKED_BY", "R": "RELATES_TO"}
CAME_BY = {"1": "cascade", "2": "quarantine"}
AFTER_CHILDREN = {"2": "permanent", "3": "offered"}
_pack = msgspec.msgpack.Encoder().encode


async def dump(store: Store, project: str) -> AsyncIterator[native.Line]:
    """The lines of a project, without the end."""
    while not await store.run(SETTLE, project):
        pass
    yield native.Project(version=native.VERSION, project=project, exported_at=now())
    written: list[str] = []
    for part in _slices(await _in_order(store, project)):
        for line in await _items(store, project, part):
            written.append(line.id.replace("-", ""))
            yield line
    there = set(written)
    for part in _slices(written):
        for note in await _notes(store, project, part):
            yield note
    for part in _slices(written):
        for edge in await _edges(store, project, part, there):
            yield edge
    async for transition in _transitions(store, project, there):
        yield transition
    for used in sums.written(await usage_entries(store, project)):  # at last, so it has no less than its items
        yield used


async def _in_order(store: Store, project: str) -> list[str]:
    """The ids of all items, parents before children, in the order of their creation."""
    places: dict[str, tuple[int, int]] = {}
    for part in _slices(list({item async for item in all_ids(store, project)}), _ROWS):
        replies = await _moment(store, project, [("HMGET", f"{keys.item.suffix}:{item}", "w", "d") for item in part])
        for item, (record, depth) in zip(part, replies, strict=True):
            if record:
                places[item] = (int(depth or 0), records.parsed(record).created)
    return sorted(places, key=lambda item: (*places[item], item))


async def all_ids(store: Store, project: str) -> AsyncIterator[str]:
    """The ids of all items of a project, in no order; those that are changed meanwhile may come twice."""
    for scope in ("p", "c"):
        cursor: bytes | str = "0"
        while True:
            cursor, flat = await store.command("ZSCAN", keys.ranked.key(project, scope), cursor, "COUNT", _ROWS)
            for item in flat[::2]:
                yield item.decode()
            if cursor == b"0":
                break


async def _moment(store: Store, project: str, reads: Sequence[Sequence[str]]) -> list[Any]:
    return await store.run(_MOMENT, project, _pack(reads)) if reads else []


async def _items(store: Store, project: str, ids: Sequence[str]) -> list[native.Item]:
    reads = [
        read
        for id_ in ids
        for read in (
            ("HGETALL", f"{keys.item.suffix}:{id_}"),
            ("HGETALL", f"{keys.text.suffix}:{id_}"),
            ("ZSCORE", keys.quarantined.suffix, id_),
        )
    ]
    replies = await _moment(store, project, reads)
    rows = zip(ids, replies[::3], replies[1::3], replies[2::3], strict=True)
    return [_item(row, _pairs(fields), _pairs(texts), since) for row, fields, texts, since in rows if fields]


def _item(id: str, fields: Mapping[str, str], texts: Mapping[str, str], quarantined: str | bool) -> native.Item:
    state = records.state_of(fields["w"])
    score = records.parts_of(state.score)
    said = {**texts, **fields, "p": str(score.priority), "lb": state.label}
    if score.complexity != NO_COMPLEXITY:
        said["c"] = str(score.complexity)
    if "ro" in said:
        said.setdefault("rs", "")
    times = _times(said)
    values = {one.name: forms.shown(said[one.letter]) for one, forms in WRITTEN if forms.shown and one.letter in said}
    line = msgspec.convert(
        {
            **msgspec.to_builtins(values),
            **times,
            "id": dashed(id),
            "role": ROLE_NAMES[score.role],
            "createdAt": iso(score.created),
            "modifiedAt": iso(state.modified or score.created),
            "roleChangedAt": iso(state.role_changed or score.created),
            "fence": state.fence,
            "attempts": int(fields.get("an", 0)),
        },
        native.ITEM,
    )
    line.previous_role = ROLE_NAMES[int(fields["pr"])] if "pr" in fields else UNSET  # type: ignore[assignment]
    line.usage = sums.shown(fields["us"]) if "us" in fields else UNSET
    line.usage_below = sums.shown(fields["ub"]) if "ub" in fields else UNSET
    line.came_by = CAME_BY.get(fields.get("u", ""), UNSET)  # type: ignore[assignment]
    line.after_children = AFTER_CHILDREN.get(fields.get("ch", ""), UNSET)  # type: ignore[assignment]
    line.quarantined_at = UNSET if quarantined is False else iso(int(float(quarantined)))
    line.last_attempts = [_attempt(row) for row in msgspec.json.decode(texts.get("a", "[]"))]
    line.last_transition = state.entry or UNSET
    return line


def _times(said: dict[str, str]) -> dict[str, Any]:
    """Of a template, when it is due, which is taken out of what it says, and how it recurs."""
    times: dict[str, Any] = {}
    if said.get("du", "").startswith("+"):
        times["dueAfterMs"] = int(said.pop("du")[1:])
    if "rc" in said:
        how, until = stored_recurrence(said["rc"]), iso(int(said["rn"]))
        times["recurs"] = {
            "cron": how.cron, "timeZone": how.zone, "missed": how.missed, "overlap": how.overlap, "madeUntil": until,
        }  # fmt: skip
    return times


def _attempt(row: Sequence[Any]) -> native.Attempt:
    began, until, how, agent, reason, detail = row
    return native.Attempt(
        began=iso(int(began)), until=iso(int(until)), ended=how, claimed_by=agent, reason=reason, detail=detail
    )


async def _notes(store: Store, project: str, ids: Sequence[str]) -> list[native.Note]:
    listed = await _moment(store, project, [("HGETALL", f"{keys.notes.suffix}:{id_}") for id_ in ids])
    notes = [entry[:32] for flat in listed for entry in flat[1::2]]
    found = []
    for part in _slices(notes):
        replies = await _moment(store, project, [("HGETALL", f"{keys.note.suffix}:{id_}") for id_ in part])
        rows = zip(part, map(_pairs, replies), strict=True)
        found += [_note(id_, fields) for id_, fields in rows if fields]
    return found


def _note(id: str, fields: Mapping[str, str]) -> native.Note:
    modified = int(fields["m"])
    return native.Note(
        id=dashed(id),
        item_id=dashed(fields["i"]),
        key=fields["k"],
        role=phase_of(fields["r"]),  # type: ignore[arg-type]
        body=fields["b"],
        format=("json" if fields["f"] == "json" else "text") if "f" in fields else UNSET,
        created_at=iso(int(fields.get("c", modified))),
        modified_at=iso(modified),
        actor=_object(fields["a"]),
        verification=_object(fields["v"]),
    )


async def _edges(store: Store, project: str, ids: Sequence[str], there: set[str]) -> list[native.Dependency]:
    """The edges that were written from these items."""
    replies = await _moment(store, project, [("HGETALL", f"{keys.edges.suffix}:{id_}") for id_ in ids])
    edges = []
    for one, flat in zip(ids, replies, strict=True):
        for field, value in _pairs(flat).items():
            code, other, mark = field[0], field[1:], value[32:]
            if code in DEPENDENCIES and other in there:
                edges.append(
                    native.Dependency(
                        id=dashed(value[:32]),
                        from_item_id=dashed(one),
                        to_item_id=dashed(other),
                        type=DEPENDENCIES[code],  # type: ignore[arg-type]
                        unblock_at=UNSET if mark == "-" else ROLE_NAMES[int(mark)],  # type: ignore[arg-type]
                    )
                )
    return edges


async def _transitions(store: Store, project: str, there: set[str]) -> AsyncIterator[native.Transition]:
    last = "-"
    while True:
        entries = await store.command("XRANGE", keys.transitions.key(project), last, "+", "COUNT", _ROWS)
        for entry, (_, row) in entries:
            one = _transition(entry.decode(), msgspec.msgpack.decode(row))
            if one.item_id.replace("-", "") in there:
                yield one
        if len(entries) < _ROWS:
            return
        last = f"({entries[-1][0].decode()}"


def _transition(entry: str, row: Sequence[Any]) -> native.Transition:
    item, before, after, trigger, from_label, label, summary, actor, verification, *previous = row
    return native.Transition(
        id=entry,
        item_id=dashed(item),
        from_role=ROLE_NAMES[int(before)],  # type: ignore[arg-type]
        to_role=ROLE_NAMES[int(after)],  # type: ignore[arg-type]
        trigger=trigger,
        from_label=from_label or "",
        label=label or "",
        summary=summary,
        actor=_object(actor),
        verification=_object(verification),
        previous=previous[0] if previous and previous[0] else UNSET,
    )


def _object(text: str) -> Any:
    return msgspec.json.decode(text) if text else UNSET


def _pairs(flat: Sequence[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _slices(ids: Sequence[str], size: int = _SLICE) -> Iterator[Sequence[str]]:
    for begin in range(0, len(ids), size):
        yield ids[begin : begin + size]
