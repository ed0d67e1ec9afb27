"""Which item came of what: kept in notes of the source's marker, for items whose tags somebody has changed.

Tags find an item from the moment that it exists, so they are what counts after a crash; this is written at the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from coordinator.client import Fleet

_PREFIX = "items-"
_PER_NOTE = 500
_BYTES = 1_000_000
_SECONDS = 60.0


async def read_register(fleet: Fleet, marker: str) -> dict[str, str]:
    """By id of the source: the UUID of its item, as of the last import that ended."""
    ids: dict[str, str] = {}
    for body in (await _bodies(fleet, marker)).values():
        try:
            ids |= msgspec.json.decode(body, type=dict[str, str])
        except msgspec.MsgspecError:  # somebody has changed it: the tags are still there
            continue
    return ids


async def write_register(fleet: Fleet, marker: str, ids: Mapping[str, str]) -> None:
    """Writes the notes that have changed, and deletes those that are not needed any more."""
    digits = 0
    while len(ids) > _PER_NOTE * 16**digits and digits < 2:
        digits += 1
    parts: dict[str, dict[str, str]] = {}
    for id_, uuid in ids.items():
        place = hashlib.sha256(id_.encode(errors="replace")).hexdigest()[:digits]
        parts.setdefault(f"{_PREFIX}{digits}{place}", {})[id_] = uuid
    wanted = {key: msgspec.json.encode(part, order="sorted").decode() for key, part in parts.items()}
    before = await _bodies(fleet, marker)
    batch: list[dict[str, Any]] = []
    for key, body in wanted.items():
        if before.get(key) != body:
            batch.append({"itemId": marker, "key": key, "role": "queue", "body": body})
        if sum(len(note["body"]) for note in batch) > _BYTES:
            await _write(fleet, batch)
            batch = []
    if batch:
        await _write(fleet, batch)
    for key in before.keys() - wanted.keys():
        await fleet.call("manage_notes", {"operation": "delete", "itemId": marker, "key": key})


async def _bodies(fleet: Fleet, marker: str) -> dict[str, str]:
    listed = {"operation": "list", "itemId": marker, "includeBody": False}
    notes = (await fleet.call("query_notes", listed))["notes"]
    bodies = {}
    for entry in notes:
        if entry["key"].startswith(_PREFIX):
            note = await fleet.call("query_notes", {"operation": "get", "id": entry["id"]}, seconds=_SECONDS)
            bodies[entry["key"]] = str(note.get("body", ""))
    return bodies


async def _write(fleet: Fleet, notes: list[dict[str, Any]]) -> None:
    await fleet.call("manage_notes", {"operation": "upsert", "notes": notes}, seconds=_SECONDS)
