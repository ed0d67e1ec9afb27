"""Notes and results of items, and clients of projects with schemas of notes."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from coordinator.settings import Settings
from coordinator.store import Store
from tests.items.client import Client, Json

NAMES = ("item", "notes", "notesTotal", "results", "resultsTotal")


def client_of(store: Store, project: str, sections: Json) -> Client:
    return Client(store, project, msgspec.convert(sections, Settings))


def missing(result: Json) -> list[str]:
    """The missing keys of a refused transition; none if it was applied."""
    assert result["applied"] is ("missingNotes" not in result), result
    return [note["key"] for note in result.get("missingNotes", [])]


def included(result: Json) -> Json:
    return {name: result[name] for name in NAMES if name in result}


async def fan_in(tools: Client, count: int, size: int = 1) -> tuple[str, dict[str, int]]:
    """An item that has waited for so many, and what came of each."""
    item = await tools.add("sum")
    results: dict[str, int] = {}
    for start in range(0, count, 50):
        blockers = await tools.add_many(min(50, count - start))
        given = [[start + number] * size for number in range(len(blockers))]
        elements = [
            {"itemId": one, "trigger": "complete", "result": result}
            for one, result in zip(blockers, given, strict=True)
        ]
        assert (await tools("advance_item", transitions=elements))["summary"]["failed"] == 0
        await tools.link_all([(one, item) for one in blockers])
        results.update(zip(blockers, (start + number for number in range(len(blockers))), strict=True))
    return item, results


async def notes_of(tools: Client, item: str) -> list[Json]:
    notes: list[Json] = (await tools("query_notes", operation="list", itemId=item))["notes"]
    return notes


def read(note: Json) -> Any:
    """What was given as result, from its note."""
    return json.loads(note["body"]) if note.get("format") == "json" else note["body"]
