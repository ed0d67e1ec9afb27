"""Reads the items of a project as records, with the client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from coordinator.client import Fleet, FleetError
from coordinator.client.plans.fields import MARKS
from coordinator.interchange.identity import HOLD, IDENTITY, external_of, source_tag, sources_of
from coordinator.interchange.model import SourceRecord, State
from coordinator.interchange.side_by_side import side_by_side

PAGE = 200
FIELDS = sorted({*MARKS.values()} - {"summary", "tags", "type", "complexity", "container"})
"""Those that tasks have marks for, and records no place of their own."""
_SECONDS = 60.0
_NONE = (None, "", [HOLD])


async def search(fleet: Fleet, filters: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """The short items that a search finds, oldest first."""
    offset = 0
    while True:
        page = {**filters, "sortBy": "createdAt", "sortOrder": "asc", "limit": PAGE, "offset": offset}
        answer = await fleet.call("query_items", {"operation": "search", **page}, seconds=_SECONDS)
        for item in answer["items"]:
            yield item
        offset += answer["returned"]
        if not answer["returned"] or offset >= answer["total"]:
            return


async def read_project(fleet: Fleet, source: str) -> list[SourceRecord]:
    """All items, oldest first; ids are UUIDs, or of items that came from this source those that they have there."""
    ids = [item["id"] async for item in search(fleet, {})]

    async def read(id: str) -> tuple[SourceRecord, list[dict[str, Any]]] | None:
        try:
            item = await fleet.call("query_items", {"operation": "get", "id": id})
            notes = await fleet.call("query_notes", {"operation": "list", "itemId": id})
            edges = await edges_of(fleet, id)
        except FleetError as error:
            if error.code == "RESOURCE_NOT_FOUND":  # deleted just now
                return None
            raise
        return _record(item, notes["notes"], source), edges

    read_ = [pair for pair in await side_by_side(read, ids) if pair is not None]
    records = {uuid: record for (record, _), uuid in zip(read_, (record.url for record, _ in read_), strict=True)}
    names = {uuid: record.id for uuid, record in records.items()}
    for record, edges in read_:
        _link(record, edges, names)
    return [record for record, _ in read_ if "import-marker" not in record.tags]


async def edges_of(fleet: Fleet, id: str) -> list[dict[str, Any]]:
    edges: list[dict[str, Any]] = []
    while True:
        query = {"itemId": id, "limit": PAGE, "offset": len(edges)}
        page = await fleet.call("query_dependencies", query)
        edges += page["dependencies"]
        if "nextOffset" not in page:
            return edges


def _record(item: Mapping[str, Any], notes: list[dict[str, Any]], source: str) -> SourceRecord:
    properties = msgspec.json.decode(item.get("properties") or "{}")
    name = external_of(properties, source).get("id") or item["id"]
    origins = {source: external_of(properties, source).get("id") for source in sources_of(properties)}
    hidden = {source_tag(source) for source in origins}
    own = {**item, "traits": ",".join(properties.get("traits", ()))}
    terminal, label = item["role"] == "terminal", item.get("statusLabel")
    state: State | None = "in-progress" if label == "in-progress" else None
    if terminal:
        state = "cancelled" if label == "cancelled" else "done"
    return SourceRecord(
        name,
        item["title"],
        item.get("description", ""),
        item["summary"],
        status=item["role"],
        state=state,
        priority=item["priority"],
        complexity=item["complexity"],
        type=item.get("type", ""),
        container=item.get("container", False),
        tags=[
            tag for tag in item.get("tags", "").split(",") if tag and tag not in hidden and not IDENTITY.fullmatch(tag)
        ],
        parent=item.get("parentId"),
        notes={note["key"]: note.get("body", "") for note in notes},
        url=item["id"],
        fields={name: own[name] for name in FIELDS if own.get(name) is not False and own.get(name) not in _NONE},
        extra={"created_at": item["createdAt"], "updated_at": item["modifiedAt"]}
        | ({"closed_at": item["roleChangedAt"]} if terminal else {}),
    )


def _link(record: SourceRecord, edges: list[dict[str, Any]], names: Mapping[str, str]) -> None:
    """Names parent, blockers and related items as the export does."""
    record.parent = names.get(record.parent) if record.parent is not None else None
    for edge in edges:
        first, second = edge["fromItemId"], edge["toItemId"]
        if edge["type"] == "IS_BLOCKED_BY":
            first, second = second, first
        if edge["type"] == "RELATES_TO":
            other = names.get(second if first == record.url else first)
            if other is not None and record.url == first:
                record.related.append(other)
        elif second == record.url and first in names:
            record.blockers.append(names[first])
