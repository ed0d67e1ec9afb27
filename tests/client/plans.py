"""A plan and a flow that jobs of the client library make."""

from __future__ import annotations

from typing import Any

RELEASE: dict[str, Any] = {
    "title": "Release 2",
    "children": [
        {"ref": "build", "title": "Build", "tags": ["ci", "fast"]},
        {"ref": "notes", "title": "Write notes", "after": ["build"], "notes": {"style": "short"}},
        {"title": "Publish", "after": ["build", "Write notes"]},
    ],
}
FLOW = {
    "start": {"name": "look", "tool": "get_next_item", "args": {}, "next": "gate"},
    "gate": {"name": "gate", "tool": None, "next": "end"},
    "end": {"name": "end", "tool": "get_next_item", "args": {"limit": 2}, "done": True},
}
