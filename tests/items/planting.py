"""Trees for tests of create_work_tree: short forms of arguments, and schemas."""

from __future__ import annotations

from typing import Any

from tests.items.client import Client, Json

LEAVES = [{"ref": "a", "title": "A"}, {"ref": "b", "title": "B"}, {"ref": "c", "title": "C"}]
PLAN = {"key": "plan", "role": "queue", "required": True, "description": "How?", "guidance": "Say how.", "skill": "s"}
LOG = {"key": "log", "role": "work"}
CHECK = {"key": "check", "role": "review", "required": True}
SCHEMAS: Json = {
    "work_item_schemas": {
        "bug": {"notes": [PLAN, LOG]},
        "task": {"notes": [LOG], "default_traits": ["careful"]},
        "free": {},
        "again": {"lifecycle": "auto-reopen"},
        "manual": {"lifecycle": "manual"},
        "permanent": {"lifecycle": "permanent"},
    },
    "traits": {"careful": {"notes": [CHECK, {**PLAN, "role": "work"}]}},
}


async def plant(tools: Client, **arguments: Any) -> dict[str, str]:
    """Creates a tree, by default of A, B and C below a root; ids by ref."""
    made = await tools("create_work_tree", **{"root": {"title": "R"}, "children": LEAVES, **arguments})
    return {"root": made["root"]["id"], **{child["ref"]: child["id"] for child in made["children"]}}


async def notes_of(tools: Client, item: str) -> list[Json]:
    found: list[Json] = (await tools("query_notes", operation="list", itemId=item))["notes"]
    return found


def edge(source: str, target: str, **fields: str) -> Json:
    return {"from": source, "to": target, **fields}


def note(ref: str, key: str, role: str = "queue", **fields: Any) -> Json:
    return {"itemRef": ref, "key": key, "role": role, **fields}
